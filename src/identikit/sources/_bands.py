"""Rows stored in bands: row groups of Parquet, record batches of Arrow, chunks, spans of text.

Some bands can only be read from their start, so the position where the last block ended is
remembered: consecutive blocks read every band once. Memory holds one piece and the block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identikit.errors import InputError
from identikit.sources import memory
from identikit.sources._source import RowSource
from identikit.sources.checks import check_matrix, numeric_eps
from identikit.sources.files import FORMAT_ERRORS, explained

#: Bytes of the largest band; a row of chunks that is larger is unpacked several times.
_LARGEST_BAND = 256 * 2**20

Pieces = Callable[[int], Iterator[NDArray[Any]]]


class BandedRows(RowSource):
    """A source of rows that are stored in consecutive bands, of `counts` rows each.

    `pieces(band)` yields the rows from the first row of that band to the last row of all, in pieces
    of any length. `resources` is what `close` closes; it is taken over if the shape is right.
    """

    def __init__(
        self,
        counts: Sequence[int],
        width: int,
        dtype: np.dtype[Any],
        pieces: Pieces,
        name: str,
        label: str,
        resources: ExitStack | None = None,
    ) -> None:
        eps = numeric_eps(dtype, label)
        self._piece = np.empty((0, width), dtype)  # first: a damaged file may declare any width
        super().__init__(name, label, (sum(counts), width), eps, resources=resources)
        self._dtype = dtype
        self._pieces = pieces
        self._ends = np.cumsum(counts)
        # Sets the current piece, its first row, and `_ahead`, the iterator over the next pieces.
        self._forget()

    def read(self, start: int, stop: int) -> NDArray[Any]:
        start, stop, _ = slice(start, stop).indices(self.rows)
        block = np.empty((max(stop - start, 0), self.width), self._dtype)
        done = 0
        while done < len(block):
            self._find(start + done)
            part = self._piece[start + done - self._first :][: len(block) - done]
            block[done : done + len(part)] = part
            done += len(part)
        return block

    def close(self) -> None:
        self._forget()
        super().close()

    def _forget(self) -> None:
        """Drop the current piece, so that the next block starts at its own band."""
        self._ahead: Iterator[NDArray[Any]] = iter(())
        self._piece, self._first = self._piece[:0], self.rows

    def _find(self, row: int) -> None:
        """Read on until the current piece is the one that holds this row."""
        after = self._first + len(self._piece)
        band = int(np.searchsorted(self._ends, row, side="right"))
        begins = int(self._ends[band - 1]) if band else 0
        if row < self._first or begins > after:
            self._ahead, self._piece, self._first = self._pieces(band), self._piece[:0], begins
            after = begins
        while row >= after:
            try:
                piece = next(self._ahead, None)
            except BaseException:
                self._forget()
                raise
            if piece is None:
                raise InputError(
                    f"{self._label} ends after row {after - 1}, but {self.rows} rows were promised;"
                    " it is damaged, or it changed while it was read"
                )
            self._piece, self._first = piece, after
            after += len(piece)


def chunked_rows(
    array: Any,
    check: Callable[[Any, str], tuple[Path, ...] | None],
    name: str,
    label: str,
    resources: ExitStack,
) -> BandedRows:
    """A source of the rows of a 2-D array in chunks, of which whole ones are read if possible.

    `check(array, label)` refuses an array that is incomplete, and may return its files.
    """
    numeric_eps(array.dtype, label)
    rows, width = check_matrix(array.shape or (), label)
    files = check(array, label)
    row_bytes = width * array.dtype.itemsize
    chunk_rows = array.chunks[0] if array.chunks else 1
    band = min(
        chunk_rows * max(1, memory.PIECE_BYTES // (chunk_rows * row_bytes)),
        max(1, _LARGEST_BAND // row_bytes),
    )

    def pieces(first: int) -> Iterator[NDArray[Any]]:
        for start in range(first * band, rows, band):
            with explained(label, *FORMAT_ERRORS):
                piece = array[start : start + band]
            yield piece

    counts = [min(band, rows - start) for start in range(0, rows, band)]
    source = BandedRows(counts, width, array.dtype, pieces, name, label, resources)
    source.files = files or ()
    return source
