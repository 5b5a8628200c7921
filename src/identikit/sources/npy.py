"""NumPy's .npy files: NumPy reads and writes the headers; rows are read one block at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from tokenize import TokenError
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import DTypeLike, NDArray

from identikit.errors import InputError
from identikit.sources._stored import FileRows, StoredArray
from identikit.sources.files import file_label, open_binary, size_of
from identikit.sources.registry import register, register_ids

# NumPy's own limit for a header, which it checks only after it has read the header.
_LONGEST_HEADER = 10_000
# A corrupted header makes NumPy's parser, which is Python's own, raise any of these.
_PARSING_ERRORS = (ValueError, TypeError, SyntaxError, TokenError, RecursionError, MemoryError)


class NpyWriter:
    """A .npy file whose rows are written in blocks, and whose number of rows is known at the end.

    Use it in a `with` block, or call `close`. Writing is not atomic: write to a path that
    `identikit._files.replacing` gives, or in a temporary folder. An existing file is overwritten.
    `width` is None for a one-dimensional array.
    """

    def __init__(self, path: Path, width: int | None, dtype: DTypeLike) -> None:
        self.dtype = np.dtype(dtype)
        self.rows = 0
        self._tail = () if width is None else (width,)
        self._row_bytes = self.dtype.itemsize * (1 if width is None else width)
        self._file = path.open("wb")
        self._write_header()
        self._start = self._file.tell()

    def __enter__(self) -> NpyWriter:
        return self

    def __exit__(self, error: object, *_: object) -> None:
        if error is None:
            self.close()
        else:
            self.abandon()

    def put(self, first: int, rows: NDArray[Any]) -> None:
        """Write rows from row `first` on."""
        self._file.seek(self._start + first * self._row_bytes)
        self._file.write(np.ascontiguousarray(rows, self.dtype).data)
        self.rows = max(self.rows, first + len(rows))

    def append(self, rows: NDArray[Any]) -> None:
        """Write rows after the last one."""
        self.put(self.rows, rows)

    def close(self) -> None:
        """Write the final number of rows into the header, and close the file."""
        if not self._file.closed:
            self._file.seek(0)
            self._write_header()
            self._file.close()

    def abandon(self) -> None:
        """Close the unfinished file; if writing the rest fails, the error is ignored."""
        with suppress(OSError):
            self._file.close()

    def _write_header(self) -> None:
        # NumPy leaves space for the first axis to grow, so the header keeps its length.
        header = {
            "descr": npy.dtype_to_descr(self.dtype),
            "fortran_order": False,
            "shape": (self.rows, *self._tail),
        }
        npy.write_array_header_1_0(self._file, header)


@register(".npy")
def open_npy(path: Path, member: str | None, name: str) -> FileRows:
    """Open the array of a .npy file, in C or Fortran order."""
    label = file_label(name, path)
    with ExitStack() as stack:
        file = stack.enter_context(open_binary(path, label))
        if member is not None:
            raise InputError(
                f"{label}: a .npy file holds one array without a name; leave out '::{member}'"
            )
        return FileRows(file, read_header(file, size_of(file), label), name, label, stack)


@register_ids(".npy")
def refuse_column(path: Path, column: str, label: str) -> Iterator[NDArray[Any]]:
    """Raise an error: a .npy file has no named columns."""
    open_binary(path, label).close()
    raise InputError(
        f"{label}: a .npy file holds one array and no column {column!r}; save rows and ids "
        "together as .npz or Parquet, or give the ids in separate files, one per view"
    )


def read_header(stream: IO[bytes], size: int, label: str) -> StoredArray:
    """Parse the header at the start of a stream and check it against the stream's size in bytes."""
    try:
        version = npy.read_magic(stream)
        if version == (1, 0):
            _check_header_length(stream, 2)
            shape, fortran, dtype = npy.read_array_header_1_0(stream)
        elif version in ((2, 0), (3, 0)):
            # 3.0 is 2.0 with UTF-8 field names, which only (refused) structured dtypes have.
            _check_header_length(stream, 4)
            shape, fortran, dtype = npy.read_array_header_2_0(stream)
        else:
            raise ValueError(f"version {version} of the format is unknown")
    except _PARSING_ERRORS as error:
        raise InputError(
            f"{label} is not a readable .npy array: {error}; the file is damaged, truncated "
            f"({size} bytes were found) or of another kind; pickled files are never loaded"
        ) from error
    if dtype.hasobject:
        raise InputError(
            f"{label} holds pickled Python objects, and pickled files are never loaded, because "
            "that can run code; re-save it as a plain numeric array: "
            "np.save(path, np.asarray(x, dtype=np.float32))"
        )
    if any(type(length) is not int or length < 0 for length in shape):
        raise InputError(f"{label} is damaged: its header gives the shape {shape}")
    stored = StoredArray(stream.tell(), shape, dtype, fortran)
    stored.check_fits(size, label)
    if stored.end < size:
        # A truncated or changed header is likelier than a second array after the first.
        raise InputError(
            f"{label} is damaged: its header promises an array of shape {shape} and dtype {dtype}, "
            f"which needs {stored.end} bytes, but {size} were found; write or copy the file again"
        )
    return stored


def _check_header_length(stream: IO[bytes], digits: int) -> None:
    place = stream.tell()
    length = int.from_bytes(stream.read(digits), "little")
    if length > _LONGEST_HEADER:
        raise ValueError(f"it announces a header of {length} bytes")
    stream.seek(place)
