"""The rows of a view that have a partner, in the order in which the partners come."""

from __future__ import annotations

from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from identikit.sources._open import open_source
from identikit.sources._source import Source
from identikit.sources._spill import SHARE, Sorter, write_header, writing


class Places(NamedTuple):
    """A .npy file of row numbers, whether they rise, and a digest of them."""

    path: Path
    rising: bool
    digest: str


@dataclass(frozen=True)
class JoinedView:
    """A recipe for some rows of a view, or for a copy of them in another order.

    Parameters
    ----------
    view : path or Recipe
        What to open.
    places : str or None
        A .npy file of the numbers of the rows that are meant, which rise; None for all rows.
    eps : float
        Spacing at 1 of the numbers as the view itself stores them.
    files : tuple of Path
        The files of the view itself.
    identity : str
        The same for the same rows of the same view, in whichever temporary files they are.
    """

    view: object
    places: str | None
    eps: float
    files: tuple[Path, ...]
    identity: str

    def open_source(self, name: str) -> Source:
        """Open the view, and the file of row numbers beside it."""
        source = open_source(self.view, name)
        source.eps, source.origin, source.files = self.eps, self, self.files
        if self.places is None:
            return source
        with ExitStack() as stack:
            stack.callback(source.close)
            rows = _PickedRows(source, open_source(self.places))
            stack.pop_all()
        return rows


class _PickedRows:
    """Rows of a source, by their rising numbers."""

    def __init__(self, source: Source, places: Source) -> None:
        self.name, self.width, self.eps = source.name, source.width, source.eps
        self.origin, self.files = source.origin, source.files
        self.rows = places.rows
        self._source, self._places = source, places

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Rows `start` to `stop`."""
        return _pick(self._source, self._places.read(start, stop)[:, 0])

    def close(self) -> None:
        """Close the view and the file of row numbers."""
        self._source.close()
        self._places.close()


def joined_view(source: Source, places: Places, memory: int) -> JoinedView:
    """What to open instead of a view of which only some rows have a partner, or out of order.

    Rows that rise are picked as they are read. Others are copied into a file, in order; so are
    those of an array in memory, because workers are sent paths and no arrays.

    Parameters
    ----------
    source : Source
        The view.
    places : Places
        The rows that have a partner; temporary files go beside that file.
    memory : int
        Bytes that this may take.
    """
    path, whole = str(places.path), isinstance(source.origin, str)
    identity = f"{source.origin if whole else path} {places.digest}"
    if places.rising and (whole or hasattr(source.origin, "open_source")):
        return JoinedView(source.origin, path, source.eps, source.files, identity)
    ordered = places.path.with_suffix(".rows.npy")
    _put_in_order(source, places.path, ordered, memory // 2)
    return JoinedView(str(ordered), None, source.eps, source.files, identity)


def _put_in_order(source: Source, places: Path, target: Path, memory: int) -> None:
    """Read a view from its first row to its last, and write its rows in the order of `places`.

    Neither reading nor writing goes back and forth: both the row numbers and the rows are sorted
    on disk where they do not fit the memory.
    """
    dtype, folder = source.read(0, 1).dtype, target.parent
    step = max(1, memory // SHARE // (source.width * dtype.itemsize))
    with closing(open_source(places)) as wanted:
        rows = wanted.rows
        with (
            Sorter(np.int64, (), source.rows, folder, memory) as numbered,
            Sorter(dtype, (source.width,), rows, folder, memory) as ordered,
        ):
            for start in range(0, rows, step):
                numbers = wanted.read(start, start + step)[:, 0]
                numbered.add(numbers, np.arange(start, start + len(numbers)))
            for block in numbered:
                for start in range(0, len(block), step):
                    part = block[start : start + step]
                    ordered.add(part["value"], _pick(source, part["key"]))
            with writing(folder), target.open("xb") as file:
                write_header(file, (rows, source.width), dtype)
                for block in ordered:
                    file.write(np.ascontiguousarray(block["value"]).data)


def _pick(source: Source, numbers: NDArray[np.int64]) -> NDArray[Any]:
    """Rows by their rising numbers, from runs no longer than the result that are read whole."""
    pieces, start = [], 0
    while start < len(numbers):
        first = int(numbers[start])
        stop = int(np.searchsorted(numbers, first + len(numbers)))
        wanted = numbers[start:stop] - first
        run = source.read(first, first + int(wanted[-1]) + 1)
        pieces.append(run if len(run) == len(wanted) else run[wanted])
        start = stop
    return np.concatenate(pieces) if len(pieces) > 1 else pieces[0] if pieces else source.read(0, 0)
