"""The largest rows of every view: a sketch that merges, so that they can be taken out again."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from identikit._linalg import Array
from identikit.moments._part import StackLayout

#: Rows that are kept of each view: one in a thousand, but neither fewer nor more than this.
FEWEST, MOST, ONE_IN = 8, 64, 1000

Numbers = NDArray[np.int64]


def kept_rows(rows: int) -> int:
    """How many of so many rows are kept of each view."""
    return min(max(rows // ONE_IN, FEWEST), MOST)


@dataclass(frozen=True, eq=False)
class Extremes:
    """The rows of each view that lie farthest out, at most `size` a view, whole and with all views.

    While rows are read, "far" is from zero or from a median of some rows; when sketches merge, from
    the mean of all rows. Rows that dominate a view's scatter stay in any order of
    reading; which of the ordinary ones do, may depend on it.

    Parameters
    ----------
    size : int
        How many rows a view may keep.
    numbers, folds : array (m,)
        The number of each row, in what it was read from, and its fold.
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
        """The largest of both, as seen from the mean of all `rows` rows."""
        both = Extremes(
            max(self.size, other.size, kept_rows(rows)),
            np.concatenate([self.numbers, other.numbers]),
            np.concatenate([self.folds, other.folds]),
            np.concatenate([self.rows, other.rows]),
        )
        # In one order whoever comes first, so that ties are broken the same way.
        both = both.only(np.lexsort((both.folds, both.numbers)))
        return both.only(largest(both.distances(centre, layout), both.size))

    def only(self, chosen: NDArray[np.intp] | NDArray[np.bool_]) -> Extremes:
        """Some of these rows."""
        return Extremes(self.size, self.numbers[chosen], self.folds[chosen], self.rows[chosen])


def largest(sizes: Array, count: int) -> NDArray[np.intp]:
    """Rows among the `count` largest in any column, in their order; of equal ones the first."""
    order = np.argsort(-sizes, axis=0, kind="stable")[:count]
    chosen: NDArray[np.intp] = np.unique(order)
    return chosen


class ExtremesKeeper:
    """Keeps the largest rows while rows are read.

    Parameters
    ----------
    rows : int
        How many there are in all.
    layout : StackLayout
        Of the stacked views.
    """

    def __init__(self, rows: int, layout: StackLayout) -> None:
        views, none = len(layout.widths), np.empty(0, dtype=np.int64)
        self.layout = layout
        self.extremes = Extremes(kept_rows(rows), none, none, np.empty((0, layout.width)))
        self.sizes = np.empty((0, views))
        #: What a row must exceed to be kept, for each view.
        self.limits = np.full(views, -np.inf)
        #: What rows are far from, once that is settled: something typical, and no mean, which a
        #: single row can pull away.
        self.centre: Array | None = None

    def settle(self, centre: Array) -> None:
        """Fix the point that rows are far from."""
        self.centre = centre
        self.sizes = self.extremes.distances(centre, self.layout)
        self._limit()

    def candidates(self, norms: Array) -> NDArray[np.intp]:
        """Which rows, of these squared norms by view, may be among the largest."""
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
            self.centre = centre  # before the first row is let go of
        self.extremes, self.sizes = both.only(chosen), sizes[chosen]
        self._limit()

    def _limit(self) -> None:
        size = self.extremes.size
        if len(self.sizes) >= size:
            self.limits = np.partition(self.sizes, -size, axis=0)[-size]
