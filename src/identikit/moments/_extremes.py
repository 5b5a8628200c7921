"""The largest rows of every view: a mergeable sketch, so that they can be left out later."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from identikit._linalg import Array
from identikit.moments._part import StackLayout

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
    """Keeps the largest rows while rows are read; `rows` is the total number of rows."""

    def __init__(self, rows: int, layout: StackLayout) -> None:
        views, none = len(layout.widths), np.empty(0, dtype=np.int64)
        self.layout = layout
        self.extremes = Extremes(kept_rows(rows), none, none, np.empty((0, layout.width)))
        self.sizes = np.empty((0, views))
        #: For each view, the squared distance that a row must exceed to be kept.
        self.limits = np.full(views, -np.inf)
        #: The centre, once it is fixed: a typical point rather than a mean, which a single row
        #: could shift.
        self.centre: Array | None = None

    def settle(self, centre: Array) -> None:
        """Fix the centre from which distances are measured."""
        self.centre = centre
        self.sizes = self.extremes.distances(centre, self.layout)
        self._limit()

    def candidates(self, norms: Array) -> NDArray[np.intp]:
        """Rows that may be among the largest, given their squared norms for each view."""
        found = []
        for column, limit in zip(norms.T, self.limits):
            above = np.flatnonzero(column > limit)
            found.append(above[largest(column[above, None], self.extremes.size)])
        return np.unique(np.concatenate(found))

    def keep(self, fold: int, numbers: Numbers, rows: Array) -> None:
        """Keep some rows of a fold, if they are among the largest."""
        held = self.extremes
        both = Extremes(
            held.size,
            np.concatenate([held.numbers, numbers]),
            np.concatenate([held.folds, np.full(len(numbers), fold)]),
            np.concatenate([held.rows, rows]),
        )
        centre = np.median(both.rows, axis=0) if self.centre is None else self.centre
        sizes = both.distances(centre, self.layout)
        chosen = largest(sizes, both.size)
        if len(chosen) < len(sizes) and self.centre is None:
            self.centre = centre  # fixed before the first row is discarded
        self.extremes, self.sizes = both.only(chosen), sizes[chosen]
        self._limit()

    def _limit(self) -> None:
        size = self.extremes.size
        if len(self.sizes) >= size:
            self.limits = np.partition(self.sizes, -size, axis=0)[-size]
