"""HDF5 files, and AnnData's .h5ad files, which are HDF5.

A view of an HDF5 file is a dataset, by its path inside; links to other files are not followed. A
view of an .h5ad file is `file.h5ad::obsm/X_pca`, `::X` or `::layers/counts`; a column of ids or
labels is `obs/donor`, or just `donor`, and `obs_names` are the names of the rows.
https://anndata.readthedocs.io/en/latest/fileformat-prose.html
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from math import ceil, prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identikit.errors import InputError, require
from identikit.sources._bands import BandedRows, chunked_rows
from identikit.sources._sparse import SparseRows
from identikit.sources._stored import vector_ids
from identikit.sources.array import OBS_NAMES
from identikit.sources.checks import choose
from identikit.sources.files import FORMAT_ERRORS, explained, file_label, open_binary
from identikit.sources.memory import check_unpacked
from identikit.sources.registry import register, register_ids

# HDF5 itself follows at most this many.
_MOST_LINKS = 16
# Size of the checksum that the filter fletcher32 puts at the end of a chunk.
_CHECKSUM_BYTES = 4


@register(".h5", ".hdf5")
def open_hdf5(path: Path, member: str | None, name: str) -> BandedRows:
    label = file_label(name, path)
    with ExitStack() as stack, explained(label, *FORMAT_ERRORS):
        file = _open_file(path, label, stack)
        dataset = _dataset(file, member, label)
        return chunked_rows(dataset, check_complete, name, label, stack)


@register_ids(".h5", ".hdf5")
def read_hdf5_ids(path: Path, column: str, label: str) -> Iterator[NDArray[Any]]:
    """Yield the ids of all rows, from a 1-D dataset of integers or strings."""
    with ExitStack() as stack, explained(label, *FORMAT_ERRORS):
        file = _open_file(path, label, stack)
        yield from _values(_dataset(file, column, label), label)


@register(".h5ad")
def open_h5ad(path: Path, member: str | None, name: str) -> BandedRows | SparseRows:
    label = file_label(name, path)
    with ExitStack() as stack, explained(label, *FORMAT_ERRORS):
        file = _open_file(path, label, stack)
        found = None if member is None else _resolve(file, member, label)
        if found is None:
            names = ["X"] if _resolve(file, "X", label) is not None else []
            for group in ("layers", "obsm"):
                names += [f"{group}/{each}" for each in _resolve(file, group, label) or ()]
            found = _resolve(file, choose(names, member, label), label)
        if hasattr(found, "shape"):
            return chunked_rows(found, check_complete, name, label, stack)
        kind = str(found.attrs.get("encoding-type", "")) if hasattr(found, "attrs") else ""
        if kind != "csr_matrix":
            what = f"is stored as {kind!r}" if kind else "is not a matrix"
            hint = ": store it by rows, adata.X = adata.X.tocsr()" if kind == "csc_matrix" else ""
            raise InputError(f"{label}: this part of the file {what}; expected a matrix{hint}")
        keys = ("data", "indices", "indptr")
        data, indices, indptr = (_part(file, found, key, label) for key in keys)
        shape = tuple(int(size) for size in found.attrs["shape"])
        return SparseRows(data, indices, indptr, shape, name, label, stack)


@register_ids(".h5ad")
def read_h5ad_ids(path: Path, column: str, label: str) -> Iterator[NDArray[Any]]:
    """Yield the values of a column of obs, or the names of the rows."""
    with ExitStack() as stack, explained(label, *FORMAT_ERRORS):
        file = _open_file(path, label, stack)
        obs = _resolve(file, "obs", label)
        if not hasattr(obs, "keys"):
            raise InputError(f"{label} has no table 'obs'; expected a file written by AnnData")
        short = column.removeprefix("obs/")
        if short == OBS_NAMES:
            short = str(obs.attrs.get("_index", "_index"))
        found = _resolve(file, f"obs/{short}", label)
        if found is None:
            choose([OBS_NAMES, *obs.keys()], short, label)
        if not hasattr(found, "keys"):
            yield from _values(found, label)
        elif _resolve(file, f"{found.name}/codes", label) is not None:
            yield from _categories(file, found, label)
        else:
            values, mask = (_part(file, found, key, label) for key in ("values", "mask"))
            if mask.shape != values.shape or bool(np.asarray(mask[...]).any()):
                raise InputError(f"{label}: {found.name!r} has missing values; every row needs one")
            yield from _values(values, label)


def _part(file: Any, group: Any, key: str, label: str) -> Any:
    """A dataset of a group, which must exist and be complete."""
    dataset = _resolve(file, f"{group.name}/{key}", label)
    if not hasattr(dataset, "shape"):
        raise InputError(f"{label} is damaged: its group {group.name!r} has no {key!r}")
    check_complete(dataset, label)
    return dataset


def _values(dataset: Any, label: str) -> Iterator[NDArray[Any]]:
    check_complete(dataset, label)
    text = _h5py().check_string_dtype(dataset.dtype)
    yield from vector_ids(dataset if text is None else dataset.asstr("utf-8"), label)


def _categories(file: Any, group: Any, label: str) -> Iterator[NDArray[Any]]:
    """Yield the values of a categorical column, stored as codes and their categories."""
    names = list(_values(_part(file, group, "categories", label), label))
    known, row = np.concatenate(names) if names else np.empty(0, dtype=str), 0
    for codes in _values(_part(file, group, "codes", label), label):
        wrong = (codes < 0) | (codes >= len(known))
        if wrong.any():
            raise InputError(
                f"{label}: row {row + int(wrong.argmax())} (counting from 0) has no value in "
                f"{group.name!r}; every row needs one"
            )
        yield known[codes]
        row += len(codes)


def _h5py() -> Any:
    return require("h5py", "io", "reading HDF5 files")


def _open_file(path: Path, label: str, stack: ExitStack) -> Any:
    open_binary(path, label).close()
    return stack.enter_context(_h5py().File(path, "r"))


def _dataset(file: Any, member: str | None, label: str) -> Any:
    """A dataset by its path, or the only one that hard links reach."""
    kind = _h5py().Dataset
    found = None if member is None else _resolve(file, member, label)
    if not isinstance(found, kind):
        names: list[str] = []
        file.visititems(lambda at, node: names.append(at) if isinstance(node, kind) else None)
        found = _resolve(file, choose(names, member, label), label)
    return found


def _resolve(file: Any, member: str, label: str) -> Any:
    """A dataset or group by its path, or None; one that reaches into other files is refused."""
    place = _follow(_h5py(), file, member, label)
    found = None if place is None else file[place]
    if isinstance(found, _h5py().Dataset) and (found.is_virtual or found.external):
        raise InputError(
            f"{label}: the dataset {place!r} keeps its rows in other files, and identikit opens no "
            "files that another file refers to; copy the rows into one dataset"
        )
    return found


def _follow(h5py: Any, file: Any, member: str, label: str) -> str | None:
    """Resolve the soft links in a path; None if it does not exist.

    A link to another file is refused before it is opened.
    """
    links, place, left = 0, "/", _parts(member)
    while left:
        group, part, left = file[place], left[0], left[1:]
        if not isinstance(group, h5py.Group) or not group.id.links.exists(part.encode()):
            return None
        link = group.get(part, getlink=True)
        if isinstance(link, h5py.ExternalLink):
            raise InputError(
                f"{label}: {member!r} leads into another file ({link.filename!r}), and identikit "
                "opens no files that another file refers to; give the path of that file instead"
            )
        if isinstance(link, h5py.SoftLink):
            links += 1
            if links > _MOST_LINKS:
                raise InputError(f"{label}: the links at {member!r} lead in a circle")
            place = "/" if link.path.startswith("/") else place
            left = _parts(link.path) + left
        else:
            place = f"{place.rstrip('/')}/{part}"
    return place


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]


def check_complete(dataset: Any, label: str) -> None:
    """Refuse rows that were never written, which would read as zeros, and malicious chunks."""
    shape, stored = dataset.shape or (), dataset.id.get_storage_size()
    if dataset.chunks is None:
        found, needed, unit = stored, prod(shape) * dataset.id.get_type().get_size(), "bytes"
    else:
        sizes = _chunk_sizes(dataset)
        found, unit = len(sizes), "chunks"
        needed = prod(ceil(n / c) for n, c in zip(shape, dataset.chunks))
    if found < needed:
        raise InputError(
            f"{label} is incomplete: {found} of its {needed} {unit} were ever written, and the "
            f"rest would read as {dataset.fillvalue}; finish writing it, or save the rows that "
            "are there"
        )
    if dataset.chunks is not None:
        least = min(sizes.values())
        if dataset.fletcher32 and least < _CHECKSUM_BYTES:
            # HDF5 would remove the checksum's bytes without checking, and kill the process.
            raise InputError(f"{label} is damaged: a chunk of {least} bytes has no checksum")
        size = prod(dataset.chunks) * dataset.dtype.itemsize
        check_unpacked(size, stored // max(1, found), "a chunk", label)


def _chunk_sizes(dataset: Any) -> dict[tuple[int, ...], int]:
    """The bytes of every chunk that starts at a multiple of the chunk shape, by that position.

    HDF5 ignores chunks at any other position, and reads zeros in place of the missing ones.
    """
    sizes: dict[tuple[int, ...], int] = {}

    def keep(chunk: Any) -> None:
        places = zip(chunk.chunk_offset, dataset.shape, dataset.chunks)
        if all(at < n and at % c == 0 for at, n, c in places):
            sizes[chunk.chunk_offset] = chunk.size

    dataset.id.chunk_iter(keep)
    return sizes
