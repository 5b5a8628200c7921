"""Rows of a matrix that lies in a file: seek, read, nothing kept.

A memory map would do the same with less code, but its pages count as the process's own, so the
peak would grow with the number of rows.
"""

from __future__ import annotations

import math
from contextlib import ExitStack
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from identikit.errors import InputError
from identikit.sources._source import RowSource
from identikit.sources.checks import BFLOAT16_EPS, numeric_eps
from identikit.sources.files import UNPACKING_ERRORS


@dataclass(frozen=True)
class StoredArray:
    """Where an array lies in a file, and how.

    `bfloat16` marks a dtype of raw 16-bit words that are the upper halves of float32 numbers.
    """

    offset: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    fortran: bool = False
    bfloat16: bool = False

    @property
    def end(self) -> int:
        """The first byte after the array."""
        return self.offset + math.prod(self.shape) * self.dtype.itemsize

    def check_fits(self, size: int, label: str) -> None:
        """Raise unless the array ends within `size` bytes."""
        if self.end > size:
            raise InputError(
                f"{label} is truncated: its header promises an array of shape {self.shape} and "
                f"dtype {self.dtype}, which needs {self.end} bytes, but {size} were found; "
                "write or copy the file again"
            )

    def read(self, stream: IO[bytes], first: int, count: int, label: str) -> NDArray[Any]:
        """Some of its numbers, 1-D, in the order in which they lie in the file.

        Parameters
        ----------
        stream : binary file
            Where to read from.
        first, count : int
            The place of the first number in that order, and how many.
        label : str
            What errors call the file.
        """
        place, size = self.offset + first * self.dtype.itemsize, count * self.dtype.itemsize
        # Bytes, because a buffer of big-endian or half-precision numbers cannot be sliced as such.
        buffer, done = np.empty(size, np.uint8), 0
        try:
            stream.seek(place)
            while done < size:
                got = stream.readinto(buffer[done:].data)  # type: ignore[attr-defined]
                if not got:
                    raise EOFError(f"expected {size} bytes, found {done}")
                done += got
        except UNPACKING_ERRORS as error:
            raise InputError(
                f"{label} could not be read at byte {place}: {str(error) or 'it ends early'}; it "
                "is damaged or changed while it was read"
            ) from error
        return np.ndarray(count, self.dtype, buffer)


class FileRows(RowSource):
    """A source of rows from a seekable binary stream.

    Parameters
    ----------
    stream : binary file
        Where to read from.
    stored : StoredArray
        Where the array lies in it.
    name, label : str
        What reports call the view, and what errors call it.
    resources : ExitStack
        What `close` closes; taken over from the opener if all is well.
    """

    def __init__(
        self, stream: IO[bytes], stored: StoredArray, name: str, label: str, resources: ExitStack
    ) -> None:
        eps = BFLOAT16_EPS if stored.bfloat16 else numeric_eps(stored.dtype, label)
        super().__init__(name, label, stored.shape, eps, resources=resources)
        self._stream, self._stored = stream, stored

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Rows `start` to `stop`."""
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
