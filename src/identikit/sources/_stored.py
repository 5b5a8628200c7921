"""Arrays in files, read by seeking; nothing is cached.

A memory map would do the same with less code, but its pages count as the process's own memory, so
the peak would grow with the number of rows.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import IO, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from identikit.errors import InputError
from identikit.sources._source import RowSource
from identikit.sources.checks import BFLOAT16_EPS, numeric_eps
from identikit.sources.files import UNPACKING_ERRORS, explained

#: The number of ids that are read at a time, and the most bytes that they may take.
BLOCK, BLOCK_BYTES = 2**16, 2**24


@dataclass(frozen=True)
class StoredArray:
    """The position and the layout of an array in a file.

    With `bfloat16`, the dtype is of raw 16-bit words, the upper halves of float32 numbers.
    """

    offset: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    fortran: bool = False
    bfloat16: bool = False

    @property
    def end(self) -> int:
        return self.offset + math.prod(self.shape) * self.dtype.itemsize

    def check_fits(self, size: int, label: str) -> None:
        if self.end > size:
            raise InputError(
                f"{label} is truncated: its header promises an array of shape {self.shape} and "
                f"dtype {self.dtype}, which needs {self.end} bytes, but {size} were found; "
                "write or copy the file again"
            )

    def read(self, stream: IO[bytes], first: int, count: int, label: str) -> NDArray[Any]:
        """Read `count` numbers from number `first` on, 1-D, in the order of the file."""
        place, size = self.offset + first * self.dtype.itemsize, count * self.dtype.itemsize
        # Bytes, because a buffer of big-endian or half-precision numbers cannot be sliced as such.
        buffer, done = np.empty(size, np.uint8), 0
        try:
            stream.seek(place)
            fetch(stream, place + size, size)
            while done < size:
                got = stream.readinto(buffer[done:].data)  # type: ignore[attr-defined]
                if not got:
                    raise EOFError(f"expected {size} bytes, found {done}")
                done += got
        except UNPACKING_ERRORS as error:
            raise InputError(
                f"{label} could not be read at byte {place}: {str(error) or 'it ends early'}; it "
                "is damaged, or it changed while it was read"
            ) from error
        return np.ndarray(count, self.dtype, buffer)


def fetch(stream: IO[bytes], place: int, size: int) -> None:
    """Ask the system to read the bytes of the next block while this one is used; not all can."""
    with suppress(OSError, AttributeError):
        os.posix_fadvise(stream.fileno(), place, size, os.POSIX_FADV_WILLNEED)


class FileRows(RowSource):
    """A source of rows from a seekable binary stream."""

    def __init__(
        self, stream: IO[bytes], stored: StoredArray, name: str, label: str, resources: ExitStack
    ) -> None:
        eps = BFLOAT16_EPS if stored.bfloat16 else numeric_eps(stored.dtype, label)
        super().__init__(name, label, stored.shape, eps, resources=resources)
        self._stream, self._stored = stream, stored

    def read(self, start: int, stop: int) -> NDArray[Any]:
        start, stop, _ = slice(start, stop).indices(self.rows)
        count = max(stop - start, 0)
        if self._stored.fortran:
            block = np.empty((self.width, count), self._stored.dtype)
            for column in range(self.width):
                block[column] = self._numbers(column * self.rows + start, count)
            return block.T
        block = self._numbers(start * self.width, count * self.width).reshape(count, self.width)
        if self._stored.bfloat16:
            return (block.astype(np.uint32) << 16).view(np.float32)
        return block

    def _numbers(self, first: int, count: int) -> NDArray[Any]:
        return self._stored.read(self._stream, first, count, self._label)


class Vector(Protocol):
    """A 1-D array, perhaps in a file, that is read in slices."""

    @property
    def dtype(self) -> Any: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    def __getitem__(self, where: slice, /) -> Any: ...


class StoredVector:
    """A 1-D array in a binary stream."""

    def __init__(self, stream: IO[bytes], stored: StoredArray, label: str) -> None:
        self.dtype, self.shape = stored.dtype, stored.shape
        self._stream, self._stored, self._label = stream, stored, label

    def __getitem__(self, where: slice) -> NDArray[Any]:
        start, stop, _ = where.indices(self.shape[0] if self.shape else 0)
        return self._stored.read(self._stream, start, max(stop - start, 0), self._label)


def vector_ids(vector: Vector, label: str) -> Iterator[NDArray[Any]]:
    """Yield blocks of the ids or labels in an array of integers or strings."""
    if len(vector.shape) != 1:
        raise InputError(
            f"{label} has shape {vector.shape} and dtype {vector.dtype}; expected 1-D, one "
            "integer or string per row"
        )
    size = getattr(vector.dtype, "itemsize", 0)
    step = max(1, min(BLOCK, BLOCK_BYTES // max(size, 1)))
    for start in range(0, vector.shape[0], step):
        with explained(label, ValueError):  # damaged text
            ids = np.asarray(vector[start : start + step])
            if ids.dtype.kind == "S":
                ids = np.char.decode(ids, "utf-8")
            if ids.dtype.kind in "OT" and all(isinstance(one, str) for one in ids):
                ids = np.array(ids.tolist(), dtype=str)
        if ids.dtype.kind not in "iuUb":
            raise InputError(f"{label} has dtype {ids.dtype}; expected integers or strings")
        yield ids
