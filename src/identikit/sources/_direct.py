"""Bytes of a file straight from the disk, past the system's cache, unless they are in it."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from io import FileIO

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]

#: What places, lengths and memory have to be multiples of: a page, and no disk asks for more.
ALIGNED = 4096

#: Reads from the disk before the cache is asked again. To ask makes the system read ahead.
ASKED_AGAIN = 64


class Disk:
    """Ranges of a file that is read once, from front to back.

    To read through its cache the system finds memory for every page and copies it from there, and
    that takes a core longer than a fast disk takes to deliver it. What is in the cache already is
    taken from it.

    Parameters
    ----------
    file : FileIO
        A regular file, open for reading; closed by its owner.
    """

    def __init__(self, file: FileIO) -> None:
        self._file, self._left = file, 0
        self._past: FileIO | None = None
        flags = getattr(os, "O_DIRECT", None)
        if flags is not None and hasattr(os, "RWF_NOWAIT"):
            with suppress(OSError):  # no /proc, or a file system that has no such reads
                self._past = FileIO(
                    os.open(f"/proc/self/fd/{file.fileno()}", os.O_RDONLY | flags), "rb"
                )

    def close(self) -> None:
        """Close what was opened here."""
        if self._past is not None:
            self._past.close()

    def has(self, place: int) -> bool:
        """Whether the byte at this place can be had without waiting for the disk."""
        return self._past is None or self._cached(place, np.empty(1, np.uint8)) == 1

    def read(self, place: int, size: int, memory: Callable[[int], Bytes]) -> Bytes | None:
        """Bytes from `place` on, fewer at the file's end; None if this file is not read so.

        Parameters
        ----------
        place, size : int
            Where, and how many.
        memory : callable
            Gives so many bytes of memory to read into.
        """
        if self._past is None:
            return None
        lead = place % ALIGNED
        whole = aligned(memory(size + 3 * ALIGNED))[: -(-(lead + size) // ALIGNED) * ALIGNED]
        wanted = whole[lead : lead + size]
        if not self._left:
            got = self._cached(place, wanted)
            # Fewer bytes than there are in the cache if the memory is fresh.
            while 0 < got < size:
                more = os.preadv(self._file.fileno(), [wanted[got:].data], place + got)
                if not more:
                    return wanted[:got]
                got += more
            if got:
                return wanted
            self._left = ASKED_AGAIN
        self._left -= 1
        done = 0
        try:
            while done < lead + size:
                got = os.preadv(self._past.fileno(), [whole[done:].data], place - lead + done)
                done += got
                if not got or done % ALIGNED:  # the end of the file
                    break
        except OSError:
            self.close()
            self._past = None
            return None
        return wanted[: max(done - lead, 0)]

    def _cached(self, place: int, buffer: Bytes) -> int:
        """Read what is in the cache; how many bytes that was."""
        try:
            return os.preadv(self._file.fileno(), [buffer.data], place, os.RWF_NOWAIT)
        except OSError:
            return 0


def aligned(memory: Bytes) -> Bytes:
    """The part of some memory that starts at a multiple of `ALIGNED`."""
    return memory[-memory.ctypes.data % ALIGNED :]
