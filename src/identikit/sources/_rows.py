"""Rows of a matrix that lies in a file: seek, read, nothing kept.

A memory map would do the same with less code, but its pages count as the process's own, so the
peak would grow with the number of rows.
"""

from __future__ import annotations

import math
import os
import stat
import zlib
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import IO, Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from identikit.errors import InputError
from identikit.sources._direct import Bytes, Disk
from identikit.sources.checks import BFLOAT16_EPS, check_matrix, numeric_eps

Memory = Callable[[int], Bytes]

# What a damaged or shrinking archive raises while it is unpacked.
UNPACKING_ERRORS = (BadZipFile, EOFError, zlib.error)


@dataclass(frozen=True)
class Layout:
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


class FileRows:
    """A source of rows from a seekable binary stream.

    Parameters
    ----------
    stream : binary file
        Where to read from.
    layout : Layout
        Where the array lies in it.
    name, label : str
        What reports call the view, and what errors call it.
    resources : ExitStack
        What `close` shall close; taken over from the opener if all is well.
    """

    def __init__(
        self, stream: IO[bytes], layout: Layout, name: str, label: str, resources: ExitStack
    ) -> None:
        self.name = name
        self.eps = BFLOAT16_EPS if layout.bfloat16 else numeric_eps(layout.dtype, label)
        self.rows, self.width = check_matrix(layout.shape, label)
        self.origin: object = label  # which the one door for views makes a whole path
        self.files: tuple[Path, ...] = ()
        self._stream = stream
        self._layout = layout
        self._label = label
        self._ring: deque[Bytes] = deque()
        # Only now: if a check above fails, the opener's own `with` still closes the file.
        self._resources = resources.pop_all()
        self._disk: Disk | None = None
        if isinstance(stream, FileIO) and not layout.fortran:
            self._disk = Disk(stream)
            self._resources.callback(self._disk.close)

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Rows `start` to `stop`."""
        return self._read(start, stop, _fresh)

    def waits(self, start: int) -> bool:
        """Whether reading row `start` means waiting for the disk."""
        row = self.width * self._layout.dtype.itemsize
        return self._disk is not None and not self._disk.has(self._layout.offset + start * row)

    def borrow(self, start: int, stop: int, calls: int) -> NDArray[Any]:
        """`read`, into memory that is used again so many such calls from now.

        The system clears fresh memory first, which takes as long as reading a file that it has read
        before; and what is used again soon is still in the cache.
        """
        while len(self._ring) < calls:
            self._ring.append(np.empty(0, np.uint8))
        return self._read(start, stop, self._from_ring)

    def _read(self, start: int, stop: int, memory: Memory) -> NDArray[Any]:
        start, stop, _ = slice(start, stop).indices(self.rows)
        count = max(stop - start, 0)
        if self._layout.fortran:
            block = np.empty((self.width, count), self._layout.dtype)
            for column in range(self.width):
                block[column] = self._numbers(column * self.rows + start, count, _fresh)
            return block.T
        numbers = self._numbers(start * self.width, count * self.width, memory)
        block = numbers.reshape(count, self.width)
        if self._layout.bfloat16:
            return (block.astype(np.uint32) << 16).view(np.float32)
        return block

    def _from_ring(self, size: int) -> Bytes:
        memory = self._ring.popleft()
        if memory.size < size:
            memory = _fresh(size)
        self._ring.append(memory)
        return memory[:size]

    def close(self) -> None:
        """Close the file."""
        self._resources.close()

    def _numbers(self, first: int, count: int, memory: Memory) -> NDArray[Any]:
        item = self._layout.dtype.itemsize
        place, size = self._layout.offset + first * item, count * item
        try:
            buffer = self._bytes(place, size, memory)
            if buffer.size < size:
                raise EOFError(f"expected {size} bytes, found {buffer.size}")
        except UNPACKING_ERRORS as error:
            raise InputError(
                f"{self._label} could not be read at byte {place}: "
                f"{str(error) or 'it ends early'}; it is damaged or changed while it was read"
            ) from error
        return buffer.view(self._layout.dtype)

    def _bytes(self, place: int, size: int, memory: Memory) -> Bytes:
        """So many bytes, or fewer if the file ends."""
        if self._disk is not None and memory is not _fresh:
            found = self._disk.read(place, size, memory)
            if found is not None:
                return found
        # Bytes, because a buffer of big-endian or half-precision numbers cannot be sliced as such.
        buffer, done = memory(size), 0
        self._stream.seek(place)
        while done < size:
            got = self._stream.readinto(buffer[done:].data)  # type: ignore[attr-defined]
            if not got:
                break
            done += got
        return buffer[:done]


def _fresh(size: int) -> Bytes:
    """Memory that nobody uses."""
    return np.empty(size, np.uint8)


def file_label(name: str, path: Path) -> str:
    """What an error calls the view that comes from a file."""
    return f"view {name!r} ({path})"


def open_binary(path: Path, label: str) -> IO[bytes]:
    """Open a regular file for unbuffered reading, or say why that is not possible.

    Parameters
    ----------
    path : Path
        The file.
    label : str
        What the error shall call it.
    """
    try:
        mode = path.stat().st_mode
        if stat.S_ISREG(mode):
            return path.open("rb", buffering=0)
    except FileNotFoundError as error:
        raise InputError(f"{label}: there is no such file; check the path") from error
    except PermissionError as error:
        raise InputError(f"{label}: permission denied; make the file readable") from error
    except (OSError, ValueError) as error:
        raise InputError(f"{label} cannot be opened: {error}") from error
    kind = "a directory" if stat.S_ISDIR(mode) else "a pipe or a device"
    raise InputError(f"{label} is {kind}; expected a regular file")


def size_of(file: IO[bytes]) -> int:
    """The number of bytes of an open file."""
    return os.fstat(file.fileno()).st_size
