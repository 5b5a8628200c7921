"""One array of a Zarr store that is a folder, in version 2 or 3 of the format."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from identikit.errors import InputError, require
from identikit.sources._bands import BandedRows, chunked_rows
from identikit.sources._stored import vector_ids
from identikit.sources.checks import choose
from identikit.sources.files import FORMAT_ERRORS, check_inside, explained, file_label
from identikit.sources.memory import check_unpacked
from identikit.sources.registry import register, register_ids


@register(".zarr")
def open_zarr(path: Path, member: str | None, name: str) -> BandedRows:
    label = file_label(name, path)
    with ExitStack() as stack, explained(label, *FORMAT_ERRORS):
        array = _open(path, member, label)
        return chunked_rows(array, partial(_check_complete, path), name, label, stack)


@register_ids(".zarr")
def read_zarr_ids(path: Path, column: str, label: str) -> Iterator[NDArray[Any]]:
    """Yield the ids of all rows, from a 1-D array of integers or strings."""
    with explained(label, *FORMAT_ERRORS):
        array = _open(path, column, label)
        _check_complete(path, array, label)
        yield from vector_ids(array, label)


def _open(path: Path, member: str | None, label: str) -> Any:
    if not os.path.isdir(path):  # noqa: PTH112 - Path.is_dir raises for a path that is too long
        found = "is a file" if path.is_file() else "does not exist"
        raise InputError(f"{label} {found}; expected the folder of a Zarr store")
    for root, folders, files in os.walk(path):
        for name in (*folders, *files):
            check_inside(Path(root, name), path, label)
    zarr = require("zarr", "io", "reading Zarr stores")
    if _is_array(path):
        if member is not None:
            raise InputError(
                f"{label}: this store holds a single array without a name; leave out '::{member}'"
            )
        array = zarr.open_array(str(path), mode="r")
    else:
        # The names of folders are used, because consolidated metadata could name anything.
        group = zarr.open_group(str(path), mode="r", use_consolidated=False)
        arrays = dict(_arrays(group, ""))
        array = arrays[choose(arrays, None if member is None else member.strip("/"), label)]
    if "pickle" in _codecs(array.metadata.to_dict()):
        raise InputError(
            f"{label} was encoded with pickle, and pickled data is never loaded, because that can "
            "run code; save it as plain numbers"
        )
    return array


def _is_array(path: Path) -> bool:
    if not (path / "zarr.json").is_file():
        return (path / ".zarray").is_file()
    node = json.loads((path / "zarr.json").read_bytes())
    return isinstance(node, dict) and node.get("node_type") == "array"


def _arrays(group: Any, above: str) -> Iterator[tuple[str, Any]]:
    for name, array in group.arrays():
        yield f"{above}{name}", array
    for name, below in group.groups():
        yield from _arrays(below, f"{above}{name}/")


def _codecs(metadata: object) -> set[str]:
    """The names of all codecs, filters and compressors, at any depth of the metadata."""
    if isinstance(metadata, dict):
        own = {str(metadata.get(key)).rpartition(".")[2] for key in ("id", "name")}
        parts = (value for key, value in metadata.items() if key != "attributes")
        return own.union(*map(_codecs, parts))
    if isinstance(metadata, list | tuple):
        return set().union(*map(_codecs, metadata))
    return set()


def _check_complete(path: Path, array: Any, label: str) -> tuple[Path, ...]:
    """The files of an array; a missing chunk is an error.

    Zarr fills a chunk that has no file with the fill value, so an incomplete copy would be read as
    if it were full of zeros.
    """
    folder = path / array.path
    found = [Path(root, name) for root, _, names in os.walk(folder) for name in names]
    files = {path.relative_to(folder).as_posix(): path for path in found}
    stored = array.shards or array.chunks
    if min(stored, default=0) < 1 or len(stored) != len(array.shape):
        raise InputError(f"{label} is damaged: its shape is {array.shape}, in chunks of {stored}")
    grid = [-(-n // c) for n, c in zip(array.shape, stored)]
    chunks = {key for key in files if not key.rpartition("/")[2].startswith((".", "zarr.json"))}
    if len(chunks) >= prod(grid):
        chunks &= {array.metadata.encode_chunk_key(at) for at in product(*map(range, grid))}
    if len(chunks) < prod(grid):
        raise InputError(
            f"{label} is incomplete: {len(chunks)} of its {prod(grid)} chunks are there, and the "
            f"rest would read as {array.fill_value}; finish writing or copying it, and if some are "
            "meant to be empty, write them too (write_empty_chunks)"
        )
    packed = min((files[key].stat().st_size for key in chunks), default=0)
    check_unpacked(prod(stored) * array.dtype.itemsize, packed, "a chunk", label)
    return tuple(files.values())
