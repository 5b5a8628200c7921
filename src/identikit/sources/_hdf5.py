"""One dataset of an HDF5 file, by its path inside; links to other files are not followed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from math import ceil, prod
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from identikit.errors import InputError, require
from identikit.sources._bands import BandedRows, chunked_rows
from identikit.sources._vectors import vector_ids
from identikit.sources.checks import check_matrix, choose, numeric_eps
from identikit.sources.files import explained, file_label, open_binary
from identikit.sources.memory import check_unpacked
from identikit.sources.registry import register, register_ids

# HDF5 itself follows at most this many.
_MOST_LINKS = 16
# Size of the checksum that the filter fletcher32 puts at the end of a chunk.
_CHECKSUM_BYTES = 4


@register(".h5", ".hdf5")
def open_hdf5(path: Path, member: str | None, name: str) -> BandedRows:
    """Open a dataset of an HDF5 file: `file.h5::group/dataset`."""
    label = file_label(name, path)
    with ExitStack() as stack, explained_hdf5(label):
        return dense_rows(_open(path, member, label, stack), name, label, stack)


def dense_rows(dataset: Any, name: str, label: str, stack: ExitStack) -> BandedRows:
    """A source of the rows of a 2-D dataset."""
    numeric_eps(dataset.dtype, label)
    check_matrix(dataset.shape or (), label)
    check_complete(dataset, label)

    def read(start: int, stop: int) -> NDArray[Any]:
        with explained_hdf5(label):
            rows: NDArray[Any] = dataset[start:stop]
            return rows

    return chunked_rows(read, dataset, name, label, stack)


@register_ids(".h5", ".hdf5")
def read_hdf5_ids(path: Path, column: str, label: str) -> Iterator[NDArray[Any]]:
    """Yield the ids of all rows, from a 1-D dataset of integers or strings."""
    with ExitStack() as stack, explained_hdf5(label):
        dataset = _open(path, column, label, stack)
        check_complete(dataset, label)
        yield from vector_ids(text_or_numbers(dataset), label)


def text_or_numbers(dataset: Any) -> Any:
    """The dataset, wrapped so that text is read as Python strings instead of bytes."""
    text = _h5py().check_string_dtype(dataset.dtype)
    return dataset if text is None else dataset.asstr("utf-8")


def explained_hdf5(label: str) -> Any:
    """Turn the errors that h5py raises about a file into one sentence."""
    return explained(label, OSError, RuntimeError, ValueError, KeyError, TypeError)


def _h5py() -> Any:
    return require("h5py", "io", "reading HDF5 files")


def open_file(path: Path, label: str, stack: ExitStack) -> Any:
    """Open an HDF5 file, which the stack closes."""
    open_binary(path, label).close()
    return stack.enter_context(_h5py().File(path, "r"))


def resolve(file: Any, member: str, label: str) -> Any:
    """A dataset or group by its path, or None; one that reaches into other files is refused."""
    place = _follow(_h5py(), file, member, label)
    found = None if place is None else file[place]
    if isinstance(found, _h5py().Dataset) and (found.is_virtual or found.external):
        raise InputError(
            f"{label}: the dataset {place!r} keeps its rows in other files, and identikit opens no "
            "files that another file refers to; copy the rows into one dataset"
        )
    return found


def _open(path: Path, member: str | None, label: str, stack: ExitStack) -> Any:
    file = open_file(path, label, stack)
    dataset = None if member is None else resolve(file, member, label)
    if not isinstance(dataset, _h5py().Dataset):
        dataset = resolve(file, choose(_names(_h5py(), file), member, label), label)
    return dataset


def _names(h5py: Any, file: Any) -> list[str]:
    """All datasets that hard links reach, which cannot lead to another file."""
    names: list[str] = []
    file.visititems(lambda at, node: names.append(at) if isinstance(node, h5py.Dataset) else None)
    return names


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
