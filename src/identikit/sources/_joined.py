"""The rows of a view that have a partner in every other view, in the order of the first view."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identikit.sources._open import open_source
from identikit.sources._source import DerivedSource, Source
from identikit.sources.files import writing_temporary
from identikit.sources.npy import NpyWriter

#: A piece of the result takes up to 1/SHARE of the given memory, since it is copied several times.
SHARE = 8
#: The largest number of temporary files, and the bytes of the rows that are read at a time.
MOST_PIECES, BLOCK_BYTES = 256, 2**22


@dataclass(frozen=True)
class JoinedView:
    """A recipe for some rows of a view, or for a copy of its rows in another order.

    `places` is a .npy file of the numbers of the chosen rows, in increasing order; None for all
    rows. `identity` is the same text for the same rows of the same view, whatever temporary files
    hold them.
    """

    view: object
    places: str | None
    eps: float
    files: tuple[Path, ...]
    identity: str

    def open_source(self, name: str) -> Source:
        """Open the view, and the file of row numbers if there is one."""
        source = open_source(self.view, name)
        source.eps, source.origin, source.files = self.eps, self, self.files
        if self.places is None:
            return source
        with ExitStack() as stack:
            stack.callback(source.close)
            rows = _PickedRows(source, open_source(self.places))
            stack.pop_all()
        return rows


class _PickedRows(DerivedSource):
    """Some rows of a source, given by increasing row numbers."""

    def __init__(self, source: Source, places: Source) -> None:
        super().__init__(source, source.origin)
        self.rows, self._places = places.rows, places

    def read(self, start: int, stop: int) -> NDArray[Any]:
        return _pick(self._source, self._places.read(start, stop)[:, 0])

    def close(self) -> None:
        super().close()
        self._places.close()


def picked_rows(source: Source, places: NDArray[np.int64]) -> Source:
    """Some rows of an open source, given by increasing row numbers; it is closed with this one."""
    return _PickedRows(source, open_source(places[:, None], "rows"))


def joined_view(
    source: Source, places: NDArray[np.int64], path: Path, memory: int, *, rising: bool
) -> JoinedView:
    """What to open instead of a view if some rows have no partner, or if the order differs.

    `places` are the numbers of the rows wanted. If they are `rising`, rows are picked while the
    view is read. Otherwise they are copied to `path` in the new order; so are those of an array in
    memory, because workers are sent paths rather than arrays. `memory` is how many bytes this may
    take.
    """
    whole = isinstance(source.origin, str)
    digest = blake2b(places.tobytes(), digest_size=16).hexdigest()
    identity = f"{source.origin if whole else path} {digest}"
    if rising and (whole or hasattr(source.origin, "open_source")):
        with writing_temporary(path.parent):
            np.save(path, places[:, None])
        return JoinedView(source.origin, str(path), source.eps, source.files, identity)
    _put_in_order(source, places, path, memory)
    return JoinedView(str(path), None, source.eps, source.files, identity)


def _put_in_order(source: Source, places: NDArray[np.int64], path: Path, memory: int) -> None:
    """Read a view from its first row to its last, and write its rows in the order of `places`.

    The result is divided into pieces that fit into memory. As rows are read, each goes to the
    temporary file of its piece; then one piece after another is put in order and written.
    """
    dtype, width = source.read(0, 1).dtype, source.width
    row_bytes = width * dtype.itemsize
    piece_rows = max(1, memory // SHARE // row_bytes, len(places) // MOST_PIECES)
    starts = range(0, len(places), piece_rows)
    step = max(1, min(piece_rows, BLOCK_BYTES // row_bytes))
    by_row = np.argsort(places)
    spool_bytes = max(1, memory // SHARE // len(starts))
    writing = partial(writing_temporary, path.parent)
    with ExitStack() as stack:
        pieces = [
            stack.enter_context(tempfile.SpooledTemporaryFile(spool_bytes, dir=str(path.parent)))
            for _ in starts
        ]
        for start in range(0, len(places), step):
            targets = by_row[start : start + step]
            rows = _pick(source, places[targets])
            with writing():
                for number in np.unique(targets // piece_rows):
                    part = np.ascontiguousarray(rows[targets // piece_rows == number])
                    pieces[number].write(part.data)
        stack.enter_context(writing())
        out = stack.enter_context(NpyWriter(path, width, dtype))
        for start, piece in zip(starts, pieces):
            order = np.argsort(places[start : start + piece_rows])
            block = np.empty((len(order), width), dtype)
            piece.seek(0)
            block[order] = np.frombuffer(piece.read(), dtype).reshape(block.shape)
            piece.close()
            out.append(block)


def _pick(source: Source, numbers: NDArray[np.int64]) -> NDArray[Any]:
    """Rows by increasing numbers, read in whole runs that are no longer than the result."""
    pieces, start = [], 0
    while start < len(numbers):
        first = int(numbers[start])
        stop = int(np.searchsorted(numbers, first + len(numbers)))
        wanted = numbers[start:stop] - first
        run = source.read(first, first + int(wanted[-1]) + 1)
        pieces.append(run if len(run) == len(wanted) else run[wanted])
        start = stop
    return np.concatenate(pieces) if len(pieces) > 1 else pieces[0] if pieces else source.read(0, 0)
