"""The rows of two views: which are fitted on, which are scored on, and their distances."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from identikit._linalg import Array
from identikit.axes._ica_axes import distinct_rows, half_of
from identikit.errors import InputError
from identikit.moments import assign_folds
from identikit.moments.sample import Keys, row_keys

Labels = NDArray[np.generic] | None
Numbers = NDArray[np.intp]
Runs = NDArray[np.int16]
Ends = tuple[Numbers, Numbers]

#: Number of blocks (runs) of rows for the jackknife, and the fewest rows to fit or to score on.
RUNS = 10
LEAST_ROWS = 2 * RUNS

#: How many numbers are hashed, or subtracted, at a time.
BLOCK = 2**20

#: The diameter is this quantile of the distances between pairs of rows.
QUANTILE = 0.95

#: The most pairs used for it: all pairs for 512 rows or fewer.
PAIRS = 2**17

#: How many distances are computed before the search for the largest one is stopped: at least as
#: many as 5,000 rows have. The search goes by blocks of rows, after a few steps from a row to the
#: row farthest from it.
MOST_DISTANCES = 5000**2
ROWS_OF_BLOCK, STEPS = 256, 8


@dataclass(frozen=True, eq=False)
class Parts:
    """How rows are used: to fit or to score, and in different halves for ICA of the two views.

    `fit` and `score` have the numbers of the rows of both views, and `halves` divide the rows to
    fit on. `runs` gives the jackknife block of each row; every block has rows to fit on and rows to
    score on. `used` marks rows that have not been left out.
    """

    fit: tuple[Numbers, Numbers]
    score: tuple[Numbers, Numbers]
    halves: tuple[Numbers, Numbers]
    runs: Runs
    used: NDArray[np.bool_]

    def shuffled(self, rng: np.random.Generator) -> Parts:
        """The same rows, with those of the second view in random order."""
        fit, score = (rng.permutation(part[1]) for part in (self.fit, self.score))
        return replace(self, fit=(self.fit[0], fit), score=(self.score[0], score))

    def without(self, run: int) -> Parts:
        """The same without the rows of one block (run)."""
        used = self.used & (self.runs != run)
        both = (self.fit, self.score, self.halves)
        fit, score, halves = ((a[used[a]], b[used[b]]) for a, b in both)
        return Parts(fit, score, halves, self.runs, used)


def row_numbers(keys: Keys, rows: int, seed: int) -> Numbers:
    """The row numbers of a sample, from its sorted keys."""
    numbers = np.zeros(len(keys), dtype=np.intp)
    for start in range(0, rows, BLOCK):
        some = row_keys(start, min(start + BLOCK, rows), seed)
        place = np.minimum(np.searchsorted(keys, some), len(keys) - 1)
        here = np.flatnonzero(keys[place] == some)
        numbers[place[here]] = start + here
    return numbers


def parts_of(stacked: Array, labels: Labels, share: float, rng: np.random.Generator) -> Parts:
    """Divide rows into parts and jackknife blocks, keeping groups together.

    `stacked` (rows, d) has both views side by side, so that copies of a row can be kept in one
    half; `labels` are groups, and `share` is the share of rows to fit on.
    """
    rows = len(stacked)
    fit, score = _in_two(np.arange(rows), labels, share, rng)
    if min(len(fit), len(score)) < LEAST_ROWS:
        raise InputError(
            f"{len(fit)} rows to fit on and {len(score)} to score on are too few; each part needs "
            f"{LEAST_ROWS}: give more rows, finer groups or another fit_share"
        )
    if labels is None and distinct_rows(stacked[fit]) < len(fit):
        halves = fit[half_of(stacked[fit], 0)], fit[half_of(stacked[fit], 1)]
    else:
        halves = _in_two(fit, labels, 0.5, rng)
    count = RUNS
    if labels is not None:
        for part, what in ((fit, "rows to fit on"), (score, "scored rows")):
            groups = len(np.unique(labels[part]))
            if groups < 2:
                raise InputError(
                    f"all {what} belong to one group; an interval needs at least two groups"
                )
            count = min(count, groups)
    runs = np.zeros(rows, dtype=np.int16)
    for part in (fit, score):
        own = None if labels is None else labels[part]
        runs[part] = assign_folds(len(part), count, own, seed=None).of()
    used = np.ones(rows, dtype=bool)
    return Parts((fit, fit), (score, score), halves, runs, used)


def _in_two(
    numbers: Numbers, labels: Labels, share: float, rng: np.random.Generator
) -> tuple[Numbers, Numbers]:
    """Divide rows, which are in random order, into two parts, keeping groups together.

    If the share is 1, both parts are all rows.
    """
    if share == 1:
        return numbers, numbers
    if labels is None:
        first = np.arange(len(numbers)) < round(share * len(numbers))
    else:
        _, group, sizes = np.unique(labels[numbers], return_inverse=True, return_counts=True)
        order = rng.permutation(len(sizes))
        first = np.isin(group, order[np.cumsum(sizes[order]) <= share * len(numbers)])
    return numbers[first], numbers[~first]


def pairs_of(rows: int) -> Ends:
    """The ends of all pairs of rows, or of about `PAIRS` pairs with every row in equally many.

    If there are too many, each row is paired with a number of rows after it, so that rows should be
    in random order.
    """
    if rows * (rows - 1) // 2 <= PAIRS:
        first, second = np.triu_indices(rows, 1)
        return first, second
    first = np.tile(np.arange(rows), PAIRS // rows)
    return first, (first + np.repeat(np.arange(1, PAIRS // rows + 1), rows)) % rows


def lengths_of(rows: Array, pairs: Ends) -> Array:
    """The distance between the ends of each pair."""
    found = np.empty(len(pairs[0]))
    step = max(1, BLOCK // rows.shape[1])
    for start in range(0, len(found), step):
        block = slice(start, start + step)
        found[block] = lengths(rows[pairs[0][block]] - rows[pairs[1][block]])
    return found


def lengths(rows: Array) -> Array:
    """The length of each row."""
    return np.asarray(np.sqrt(np.einsum("ij,ij->i", rows, rows)))


def usual_distance(distances: Array, name: str) -> float:
    """The quantile `QUANTILE` of the distances between pairs of rows of a view."""
    value = float(np.quantile(distances, QUANTILE))
    if not value > 0:
        raise InputError(
            f"in {QUANTILE:.0%} of the pairs of rows of view {name!r}, both rows are equal, so "
            "that there is no diameter to compare distances with; leave out most of the copies of "
            "the same row"
        )
    return value


def largest_distance(
    rows: Array, *, block: int = ROWS_OF_BLOCK, steps: int = STEPS, most: int = MOST_DISTANCES
) -> tuple[float, float]:
    """max_ij ‖x_i − x_j‖ and an upper bound, both equal unless the search stopped early.

    A first value comes from walking to the farthest row several times. Then pairs are searched from
    the outside in, by the distance r from the mean: a pair with r_i + r_j below the best value
    cannot beat it, and the search ends when no pair can. For 5,000 rows or fewer it always gets
    that far. Otherwise it may be stopped, after `most` distances; the distance of a remaining pair
    is at most twice the largest remaining r, which is the upper bound.

    >>> largest_distance(np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 4.0]]))
    (5.0, 5.0)
    """
    centred = rows - rows.mean(axis=0)
    radius = lengths(centred)
    order = np.argsort(-radius, kind="stable")
    centred, radius = centred[order], radius[order]
    best = _walk(centred, steps)
    looked_at, first, n = 0, 0, len(rows)
    while first < n and 2 * radius[first] > best:
        if looked_at >= most:
            return best, 2 * float(radius[first])
        here = slice(first, first + block)
        # Radii decrease, so the rows that may still matter to this block directly follow it.
        last = int(np.searchsorted(-radius, radius[first] - best, side="right"))
        last = max(last, min(first + block, n))
        square = radius[here, None] ** 2 + radius[first:last] ** 2
        square -= 2 * (centred[here] @ centred[first:last].T)
        i, j = np.unravel_index(int(square.argmax()), square.shape)
        # Computed from the difference itself, so that no digits are lost far from the mean.
        best = max(best, float(np.linalg.norm(centred[first + i] - centred[first + j])))
        looked_at += square.size
        first += block
    return best, best


def _walk(centred: Array, steps: int) -> float:
    """The longest of a few steps, each from a row to the row farthest from it."""
    here, best = 0, 0.0
    for _ in range(steps):
        distances = lengths(centred - centred[here])
        here = int(distances.argmax())
        if distances[here] <= best:
            break
        best = float(distances[here])
    return best
