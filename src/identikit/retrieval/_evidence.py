"""What a check knows of pinned rows and the new rows of the same things, for naming a cause."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from identikit._linalg import Array, inverse_or_zero
from identikit.retrieval._pinned_views import BLOCK, Numbers
from identikit.sources import Source

#: Pinned rows that are looked for elsewhere, and the rows among which they are looked for.
WANTED, PLACES = 128, 1_000_000

#: How close, in units of the spread, a row must be to count as found again.
FOUND = 0.1

#: A row is found again only if no other row is nearly as close, by this factor, or if it is equal.
CLOSER, EQUAL = 3.0, 1e-3

#: Rows for what takes all pairs of rows, and columns or rows that are looked at for a grid.
PAIRS, COUNTED = 300, 64

#: The largest mean distance of numbers from a grid that they lie on, in steps; it is 0.25 for other
#: numbers.
OFF_GRID = 0.1


@dataclass(frozen=True)
class Moved:
    """Pinned rows found again at other places: how many, and the commonest difference of places."""

    wanted: int
    found: int
    offset: int
    same_offset: int


@dataclass(frozen=True, eq=False)
class Evidence:
    """Pinned rows `a`, new rows `b` of the same things, and statistics of their differences.

    `errors` are held-out errors of the rungs that were computed. `moved` says which of the rows are
    elsewhere in the new file, if that was looked for. `by_id` is whether rows were paired by id.
    """

    a: Array
    b: Array
    errors: Mapping[str, float] = field(default_factory=dict)
    moved: Moved | None = None
    by_id: bool = False

    @property
    def rows(self) -> int:
        """Number of paired rows."""
        return len(self.a)

    @cached_property
    def change(self) -> Array:
        """b − a."""
        return np.asarray(self.b - self.a)

    @cached_property
    def spreads(self) -> tuple[float, float]:
        """√E‖x − Ex‖² of the pinned and of the new rows."""
        return _spread(self.a), _spread(self.b)

    @cached_property
    def error(self) -> float:
        """√(E‖b − a‖² / E‖x − Ex‖²), in the worse direction: the error of the rung `identity`."""
        size = float(np.sqrt(np.square(self.change).sum(axis=1).mean()))
        return size / min(self.spreads) if min(self.spreads) > 0 else np.inf

    @cached_property
    def distances(self) -> Array:
        """‖b − a‖ of every row, in units of the pinned rows' spread."""
        return np.asarray(np.linalg.norm(self.change, axis=1) / self.spreads[0])

    @cached_property
    def shift_share(self) -> float:
        """‖E(b − a)‖² / E‖b − a‖²: how much of the change is the same for all rows."""
        mean, total = self.change.mean(axis=0), float(np.square(self.change).sum(axis=1).mean())
        if not total:
            return 0.0
        common = float(mean @ mean)
        # The mean of n unrelated changes is not zero either.
        return max(0.0, common - (total - common) / (self.rows - 1)) / total

    @cached_property
    def columns(self) -> Array:
        """The correlation of each column of a with the same column of b, where both vary."""
        a, b = (x[:, self._varying] for x in (self.a, self.b))
        a, b = a - a.mean(axis=0), b - b.mean(axis=0)
        sizes = np.sqrt(np.square(a).sum(axis=0) * np.square(b).sum(axis=0))
        return np.asarray((a * b).sum(axis=0) * inverse_or_zero(sizes))

    @cached_property
    def _varying(self) -> NDArray[np.bool_]:
        first, second = (x.std(axis=0) for x in (self.a, self.b))
        both = (first > 1e-9 * first.max()) & (second > 1e-9 * second.max())
        return np.asarray(both)

    @cached_property
    def same_columns(self) -> float:
        """The median of these correlations: near 1 in the same coordinates, 0 in unrelated ones.

        Columns count by their variance: where a few have most of it, they decide, not the others.
        """
        if not len(self.columns):
            return 0.0
        order = np.argsort(self.columns)
        weights = np.cumsum(np.var(self.a[:, self._varying], axis=0)[order])
        middle = np.searchsorted(weights, weights[-1] / 2)
        return float(self.columns[order][min(int(middle), len(order) - 1)])

    @cached_property
    def directions(self) -> float:
        """√(Σ‖b − c a‖² / Σ‖b‖²) with the best factor c for each row: 0 if directions agree."""
        factors = (self.a * self.b).sum(axis=1) * inverse_or_zero(np.square(self.a).sum(axis=1))
        left = np.square(self.b - factors[:, None] * self.a).sum()
        return float(np.sqrt(left / max(float(np.square(self.b).sum()), 1e-300)))

    @cached_property
    def norms(self) -> tuple[Array, Array]:
        """The length of every row of a and b."""
        return np.linalg.norm(self.a, axis=1), np.linalg.norm(self.b, axis=1)

    @cached_property
    def shape(self) -> float:
        """How much the products of centred rows differ, after one factor for all: 0 if rotated."""
        some = np.linspace(0, self.rows - 1, min(self.rows, PAIRS)).astype(int)
        a, b = (x[some] - x[some].mean(axis=0) for x in (self.a, self.b))
        first, second = a @ a.T, b @ b.T
        factor = float(np.vdot(first, second)) / max(float(np.vdot(second, second)), 1e-300)
        return float(np.linalg.norm(first - factor * second) / np.linalg.norm(first))

    @cached_property
    def left_after_lengths(self) -> float:
        """The share of E‖b − a‖² that is left if every row of a gets the best length."""
        left = self.directions**2 * float(np.square(self.b).sum())
        return left / max(float(np.square(self.change).sum()), 1e-300)

    @cached_property
    def steps(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """Steps of an even grid that columns of a and b lie on, and rows of a and b."""
        return (_steps(self.a.T), _steps(self.b.T)), (_steps(self.a), _steps(self.b))

    @cached_property
    def off_grid(self) -> tuple[float, float]:
        """How far numbers of a and b are from multiples of 1/127 of the row's largest, in steps."""
        return _off_grid(self.a), _off_grid(self.b)

    def of(self, chosen: NDArray[np.bool_]) -> Evidence:
        """The evidence of some of the rows."""
        return Evidence(self.a[chosen], self.b[chosen], by_id=self.by_id)


def _spread(rows: Array) -> float:
    return float(np.sqrt(np.square(rows - rows.mean(axis=0)).sum(axis=1).mean()))


def _steps(lines: Array) -> float:
    """The median number of steps from the least to the largest number; infinite off a grid.

    The step is that between the nearest numbers. Lines of one number do not count.
    """
    some = np.linspace(0, len(lines) - 1, min(len(lines), COUNTED)).astype(int)
    counts = []
    for line in lines[some]:
        values = np.unique(line)
        if len(values) < 2:
            continue
        gaps, span = np.diff(values), values[-1] - values[0]
        # Rounding after the grid moves single numbers, so that the least gap is too small.
        count = np.round(span / np.median(gaps[gaps < 1.5 * gaps.min()]))
        places = (values - values[0]) * (count / span)
        even = np.abs(places - np.round(places)).mean() < OFF_GRID
        counts.append(count if even else np.inf)
    return float(np.median(counts)) if counts else np.inf


def _off_grid(rows: Array) -> float:
    steps = rows * (127 * inverse_or_zero(np.abs(rows).max(axis=1)))[:, None]
    return float(np.abs(steps - np.round(steps)).mean())


def look_elsewhere(
    source: Source, rows: Array, places: Numbers, distances: Array, spread: float
) -> Moved:
    """Look for pinned rows among all rows of the new file, exactly, in blocks.

    Parameters
    ----------
    source : Source
        The new rows.
    rows, places : arrays
        Pinned rows, and where in `source` they were expected.
    distances : array
        How far each is from the row at that place, in units of `spread`.
    spread : float
        √E‖x − Ex‖² of the pinned rows.
    """
    far = np.flatnonzero(distances > 3 * FOUND)
    chosen = far[np.linspace(0, len(far) - 1, min(len(far), WANTED)).astype(int)]
    if not len(chosen):
        return Moved(0, 0, 0, 0)
    wanted = rows[chosen]
    best, where = np.full(len(chosen), np.inf), np.zeros(len(chosen), dtype=np.int64)
    next_best = best.copy()
    last = min(source.rows, PLACES)
    for start in range(0, last, BLOCK):
        block = np.asarray(source.read(start, min(start + BLOCK, last)), dtype=np.float64)
        near = np.square(block).sum(axis=1) - 2 * (wanted @ block.T)
        nearest = near.argmin(axis=1)
        value = near[np.arange(len(chosen)), nearest]
        near[np.arange(len(chosen)), nearest] = np.inf
        next_best = np.minimum(np.minimum(next_best, near.min(axis=1)), np.maximum(value, best))
        better = value < best
        best[better], where[better] = value[better], nearest[better] + start
    lengths = np.square(wanted).sum(axis=1)
    gaps, others = (np.sqrt(np.maximum(x + lengths, 0.0)) / spread for x in (best, next_best))
    found = (gaps < FOUND) & (gaps < distances[chosen] / 3) & (where != places[chosen])
    # In dense rows there is always one nearby, which is not the row that was looked for.
    found &= gaps < np.maximum(others / CLOSER, EQUAL)
    if not found.any():
        return Moved(len(chosen), 0, 0, 0)
    offsets, counts = np.unique((where - places[chosen])[found], return_counts=True)
    most = int(counts.argmax())
    return Moved(len(chosen), int(found.sum()), int(offsets[most]), int(counts[most]))
