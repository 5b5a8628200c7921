"""Which rows maps are fitted on, which they are scored on, and runs of these for intervals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from identikit._linalg import Array
from identikit.axes._ica_copies import distinct_rows, half_of
from identikit.errors import InputError
from identikit.moments import assign_folds
from identikit.moments.sample import Keys, row_keys

Labels = NDArray[np.generic] | None
Numbers = NDArray[np.intp]
Runs = NDArray[np.int16]

#: Runs of rows for the jackknife, and the least rows that either part must have.
RUNS = 10
LEAST_ROWS = 2 * RUNS

#: Row numbers that are hashed at a time.
BLOCK = 2**20


@dataclass(frozen=True, eq=False)
class Split:
    """Numbers of the rows to fit and to score on, for the one side and for the other."""

    fit: tuple[Numbers, Numbers]
    score: tuple[Numbers, Numbers]

    def shuffled(self, rng: np.random.Generator) -> Split:
        """The same rows, but those of the other side in another order."""
        fit, score = (rng.permutation(part[1]) for part in (self.fit, self.score))
        return Split((self.fit[0], fit), (self.score[0], score))


@dataclass(frozen=True, eq=False)
class Parts:
    """What rows are used for: to fit, to score, or one half of those to fit on for either side.

    Parameters
    ----------
    split : Split
    halves : tuple of two arrays
        Of the rows to fit on.
    runs : array (rows,)
        The run of each row. Every run has rows to fit on and rows to score on.
    used : array (rows,) of bool
        Which rows have not been left out.
    """

    split: Split
    halves: tuple[Numbers, Numbers]
    runs: Runs
    used: NDArray[np.bool_]

    def without(self, run: int) -> Parts:
        """The same without the rows of a run."""
        used = self.used & (self.runs != run)

        def rest(two: tuple[Numbers, Numbers]) -> tuple[Numbers, Numbers]:
            return two[0][used[two[0]]], two[1][used[two[1]]]

        split = Split(rest(self.split.fit), rest(self.split.score))
        return Parts(split, rest(self.halves), self.runs, used)


def row_numbers(keys: Keys, rows: int, seed: int) -> Numbers:
    """Which rows a sample is of, from their keys, which are sorted."""
    numbers = np.zeros(len(keys), dtype=np.intp)
    for start in range(0, rows, BLOCK):
        some = row_keys(start, min(start + BLOCK, rows), seed)
        place = np.minimum(np.searchsorted(keys, some), len(keys) - 1)
        here = np.flatnonzero(keys[place] == some)
        numbers[place[here]] = start + here
    return numbers


def in_two(
    numbers: Numbers, labels: Labels, share: float, rng: np.random.Generator
) -> tuple[Numbers, Numbers]:
    """Two parts of some rows, which are in random order: whole groups where there are any.

    All rows for both if the share is 1.
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


def fit_and_score(
    rows: int, labels: Labels, share: float, rng: np.random.Generator
) -> tuple[Numbers, Numbers]:
    """Rows to fit on and rows to score on, enough of either."""
    fit, score = in_two(np.arange(rows), labels, share, rng)
    if min(len(fit), len(score)) < LEAST_ROWS:
        raise InputError(
            f"{len(fit)} rows to fit on and {len(score)} to score on are too few; each part needs "
            f"{LEAST_ROWS}: give more rows, finer groups or another fit_share"
        )
    return fit, score


def parts_of(stacked: Array, labels: Labels, share: float, rng: np.random.Generator) -> Parts:
    """Deal rows out to their parts and runs: whole groups where there are any.

    Parameters
    ----------
    stacked : array (rows, d)
        Both views beside each other. Where rows are copies, they are in one of the halves.
    labels : array (rows,), optional
        Groups.
    share : float
        Of the rows to fit on.
    rng : Generator
    """
    rows = len(stacked)
    fit, score = fit_and_score(rows, labels, share, rng)
    if labels is None and distinct_rows(stacked[fit]) < len(fit):
        halves = fit[half_of(stacked[fit], 0)], fit[half_of(stacked[fit], 1)]
    else:
        halves = in_two(fit, labels, 0.5, rng)
    count = RUNS
    if labels is not None:
        for part, what in ((fit, "rows to fit on"), (score, "scored rows")):
            groups = len(np.unique(labels[part]))
            if groups < 2:
                raise InputError(
                    f"all {what} are of one group; an interval needs at least two groups"
                )
            count = min(count, groups)
    runs = np.zeros(rows, dtype=np.int16)
    for part in (fit, score):
        own = None if labels is None else labels[part]
        runs[part] = assign_folds(len(part), count, own, seed=None).of()
    used = np.ones(rows, dtype=bool)
    return Parts(Split((fit, fit), (score, score)), halves, runs, used)
