"""Text files as spans of complete records: found in one pass, then read again span by span."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from io import BufferedReader, RawIOBase
from pathlib import Path
from typing import IO, cast

import numpy as np
from numpy.typing import NDArray

from identikit.errors import InputError
from identikit.sources import memory
from identikit.sources.files import explained, open_binary

_NEWLINE, _RETURN, _QUOTE = 10, 13, 34
_MARK = b"\xef\xbb\xbf"  # the byte order mark that some programs put before UTF-8

#: Called with the bytes of complete records, where each ends, and how many lines precede them.
Look = Callable[[bytes, NDArray[np.intp], int], None]


@dataclass(frozen=True)
class Span:
    """Consecutive records: their first byte, the byte after the last, and how many there are."""

    start: int
    stop: int
    records: int


@dataclass(frozen=True)
class Lines:
    """The records of a text file, perhaps compressed with gzip.

    If `quoted`, a line break within double quotes is part of the record, as in a table.
    """

    path: Path
    label: str
    quoted: bool

    @contextmanager
    def stream(self) -> Iterator[IO[bytes]]:
        """Open the file; a compressed one is unpacked while it is read."""
        with ExitStack() as stack, explained(self.label, OSError, EOFError, zlib.error, ValueError):
            file = stack.enter_context(open_binary(self.path, self.label))
            # Buffered, so that a read returns all the bytes that were asked for.
            packed = self.path.suffix.lower() == ".gz"
            whole = gzip.GzipFile(fileobj=file) if packed else BufferedReader(cast(RawIOBase, file))
            yield stack.enter_context(cast(IO[bytes], whole))

    def spans(self, look: Look) -> Iterator[Span]:
        """Cut the file into spans of complete records in one pass, showing each span to `look`.

        Empty lines do not count as records.
        """
        with self.stream() as file:
            start = len(_MARK) if file.read(len(_MARK)) == _MARK else 0
            file.seek(start)
            data, lines, more = b"", 0, True
            while more:
                block = file.read(memory.PIECE_BYTES)
                more = bool(block)
                data += block
                if b"\0" in block:
                    raise InputError(
                        f"{self.label} is not UTF-8 text: byte {start + data.index(0)} is zero; "
                        "save it as UTF-8"
                    )
                ends = self._ends(data)
                if not more and data[int(ends[-1]) if len(ends) else 0 :].strip():
                    ends = np.append(ends, len(data))
                    self._check_closed(data[int(ends[-2]) if len(ends) > 1 else 0 :])
                stop = int(ends[-1]) if len(ends) else 0
                if len(data) - stop > memory.LARGEST_RECORD:
                    raise InputError(
                        f"{self.label}: the row in line {lines + 1} goes on for more than "
                        f"{memory.LARGEST_RECORD // 2**20} MB without an end; a line break is "
                        "missing, or a quote is not closed"
                    )
                records = int(np.count_nonzero(~blank(data, ends)))
                if records:
                    look(data[:stop], ends, lines)
                    yield Span(start, start + stop, records)
                lines += data.count(b"\n", 0, stop)
                start, data = start + stop, data[stop:]

    def read(self, spans: list[Span]) -> Iterator[bytes]:
        with self.stream() as file:
            for span in spans:
                file.seek(span.start)
                data = file.read(span.stop - span.start)
                if len(data) < span.stop - span.start:
                    raise InputError(f"{self.label} became shorter while it was read")
                yield data

    def _check_closed(self, last: bytes) -> None:
        if self.quoted and last.count(_QUOTE) % 2:
            raise InputError(
                f"{self.label}: a quote is opened and not closed, in the row that begins with "
                f"{last[:40].decode(errors='replace')!r}"
            )

    def _ends(self, data: bytes) -> NDArray[np.intp]:
        """The positions after the line breaks that end complete records."""
        codes = np.frombuffer(data, np.uint8)
        breaks = codes == _NEWLINE
        if self.quoted and _QUOTE in data:
            breaks &= ~inside_quotes(codes)
        return np.flatnonzero(breaks) + 1


def inside_quotes(codes: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Which characters are within quotes: they follow an odd number of double quotes."""
    inside: NDArray[np.bool_] = np.logical_xor.accumulate(codes == _QUOTE)
    return inside


def blank(data: bytes, ends: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Which records consist of a line break only."""
    codes, starts = np.frombuffer(data, np.uint8), np.append(0, ends[:-1])
    sizes = ends - starts
    if not len(ends):
        return np.zeros(0, dtype=bool)
    first = codes[starts]
    nothing: NDArray[np.bool_] = (sizes == 1) & (first == _NEWLINE)
    nothing |= (sizes == 2) & (first == _RETURN)
    return nothing


def text_eps(cells: Iterator[str]) -> float:
    """The relative precision of numbers written with as many digits as the longest of these."""
    digits = 1
    for cell in cells:
        mantissa = cell.strip().lower().split("e")[0].lstrip("+-0.").replace(".", "")
        digits = max(digits, len(mantissa))
    return max(2.0**-52, 10.0 ** (1 - digits))
