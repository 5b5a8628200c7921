"""The largest rows of every view: a mergeable sketch, so that they can be left out later."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from identikit._linalg import Array
from identikit.moments._part import StackLayout

__all__ = ["Extremes"]

#: Of each view, one row in a thousand is kept, within these limits.
FEWEST, MOST, ONE_IN = 8, 64, 1000

Numbers = NDArray[np.int64]


def kept_rows(rows: int) -> int:
    """How many extreme rows are kept for each view, given the total number of rows."""
    return min(max(rows // ONE_IN, FEWEST), MOST)


@dataclass(frozen=True, eq=False)
class Extremes:
    """The rows farthest from the centre of each view, at most `size` per view.

    Every row is kept with the columns of all views. While rows are read, the centre is zero or the
    median of some rows; when sketches merge, it is the mean of all rows. Rows that dominate a
    view's scatter are kept whatever the order of reading; which ordinary rows are kept may depend
    on it.

    Parameters
    ----------
    size : int
        The largest number of rows per view.
    numbers, folds : array (m,)
        The number of each row in its source, and its fold.
    rows : array (m, D)
        The stacked views.
    """

    size: int
    numbers: Numbers
    folds: Numbers
    rows: Array

    def distances(self, centre: Array, layout: StackLayout) -> Array:
        """Squared distance of each row from a point, for each view."""
        gaps = (self.rows - centre) ** 2
        squares: Array = np.stack([gaps[:, c].sum(axis=1) for c in layout.columns], axis=1)
        return squares

    def merged(self, other: Extremes, centre: Array, layout: StackLayout, rows: int) -> Extremes:
        """The rows of both that are farthest from `centre`, the mean of all `rows` rows."""
        both = Extremes(
            max(self.size, other.size, kept_rows(rows)),
            np.concatenate([self.numbers, other.numbers]),
            np.concatenate([self.folds, other.folds]),
            np.concatenate([self.rows, other.rows]),
        )
        # Sorted, so that ties are broken in the same way whichever sketch comes first.
        both = both.only(np.lexsort((both.folds, both.numbers)))
        return both.only(largest(both.distances(centre, layout), both.size))

    def only(self, chosen: NDArray[np.intp] | NDArray[np.bool_]) -> Extremes:
        """Some of these rows."""
        return Extremes(self.size, self.numbers[chosen], self.folds[chosen], self.rows[chosen])


def largest(sizes: Array, count: int) -> NDArray[np.intp]:
    """Rows among the `count` largest in any column, in ascending order; ties go to the first."""
    order = np.argsort(-sizes, axis=0, kind="stable")[:count]
    chosen: NDArray[np.intp] = np.unique(order)
    return chosen


class ExtremesKeeper:
    """Keeps the largest rows while rows are read; `rows` is the total number of rows.

    Rows wait until there are as many as are kept in all, because selecting takes time.
    """

    def __init__(self, rows: int, layout: StackLayout) -> None:
        views, none = len(layout.widths), np.empty(0, dtype=np.int64)
        self.layout = layout
        self.held = Extremes(kept_rows(rows), none, none, np.empty((0, layout.width)))
        self.waiting: list[Extremes] = []
        self.room = self.left = self.held.size * views
        #: For each view, the squared distance that a row must exceed to be kept.
        self.limits = np.full(views, -np.inf)
        #: The centre, once it is fixed: a typical point rather than a mean, which a single row
        #: could shift.
        self.centre: Array | None = None

    def settle(self, centre: Array) -> None:
        """Fix the centre from which distances are measured."""
        self.centre = centre
        self._limit(self.held.distances(centre, self.layout))

    def candidates(self, norms: Array) -> NDArray[np.intp]:
        """Rows that may be among the largest, given their squared norms for each view."""
        above = np.flatnonzero((norms > self.limits).any(axis=1))
        return above if len(above) <= self.room else above[largest(norms[above], self.held.size)]

    def keep(self, fold: int, numbers: Numbers, rows: Array) -> None:
        """Keep some rows of a fold, if they are among the largest."""
        if len(numbers) > self.left:
            self.extremes()
        self.left -= len(numbers)
        self.waiting.append(Extremes(self.held.size, numbers, np.full(len(numbers), fold), rows))
        if self.centre is None:
            self.extremes()

    def extremes(self) -> Extremes:
        """The largest rows so far."""
        if self.waiting:
            both, self.waiting, self.left = [self.held, *self.waiting], [], self.room
            numbers, folds, rows = (
                np.concatenate([getattr(each, name) for each in both])
                for name in ("numbers", "folds", "rows")
            )
            all_rows = Extremes(self.held.size, numbers, folds, rows)
            centre = np.median(rows, axis=0) if self.centre is None else self.centre
            sizes = all_rows.distances(centre, self.layout)
            chosen = largest(sizes, self.held.size)
            if len(chosen) < len(rows):
                self.centre = centre  # fixed before the first row is discarded
            self.held = all_rows.only(chosen)
            self._limit(sizes[chosen])
        return self.held

    def _limit(self, sizes: Array) -> None:
        if len(sizes) >= self.held.size:
            self.limits = np.partition(sizes, -self.held.size, axis=0)[-self.held.size]
