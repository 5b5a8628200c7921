"""Folds, splits and permutations of rows that are in random order; ranks and bins of variables."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from identikit._linalg import Array
from identikit.moments import FOLDS, assign_folds

Rows = NDArray[np.intp]
Labels = NDArray[np.int64]
#: Pairs of rows to fit on and rows to score.
Splits = list[tuple[Rows, Rows]]

#: The largest numbers of rows that disentanglement_lib fits on and scores.
TRAIN, TEST = 10_000, 5_000
#: Size of the largest array that permuted factors are gathered into.
ROOM = 4_000_000


def folds(rows: int, count: int = FOLDS) -> list[slice]:
    """Consecutive parts of nearly equal size, cut as those of moments are.

    >>> folds(5, 2)
    [slice(0, 3, None), slice(3, 5, None)]
    """
    fold_of_row = assign_folds(rows, count, seed=None).of()
    ends = np.searchsorted(fold_of_row, np.arange(count + 1)).tolist()
    return [slice(start, stop) for start, stop in pairwise(ends)]


def held_out(rows: int) -> tuple[Splits, Splits]:
    """Fit on all folds but one and score that one; an interval needs no further splits."""
    every = np.arange(rows)
    return [(np.delete(every, fold), every[fold]) for fold in folds(rows)], []


def in_sample(rows: int) -> tuple[Splits, Splits]:
    """Fit and score on all rows and, for an interval, on all rows without each fold."""
    every = np.arange(rows)
    rest = [np.delete(every, fold) for fold in folds(rows)]
    return [(every, every)], [(some, some) for some in rest]


def one_split(rows: int, share: float | None = None) -> tuple[Splits, Splits]:
    """Fit on the first rows and score the next and, for an interval, omit each fifth of both.

    The `share` of rows to fit on is by default two thirds, with at most 10,000 rows to fit on and
    5,000 to score.

    >>> [(len(train), len(test)) for train, test in one_split(300)[0] + one_split(10**5)[0]]
    [(200, 100), (10000, 5000)]
    """
    fitted = min(TRAIN, rows * 2 // 3) if share is None else int(rows * share)
    last = min(fitted + TEST, rows) if share is None else rows
    train, test = np.arange(fitted), np.arange(fitted, last)
    without = []
    for fold in range(FOLDS):
        left = test[test % FOLDS != fold]  # may be empty if there are very few test rows
        without.append((train[train % FOLDS != fold], left if len(left) else test))
    return [(train, test)], without


def orders(rows: int, count: int, seed: int) -> Iterator[Rows]:
    """The true order of rows, then `count` random ones, which depend only on the seed."""
    rng = np.random.default_rng([seed, rows])
    yield np.arange(rows)
    for _ in range(count):
        yield rng.permutation(rows)


def permuted_columns(values: Array, count: int, seed: int) -> Iterator[Array]:
    """Columns in all `orders` of rows, several orders side by side in arrays (n, K·several)."""
    rows, width = values.shape
    every = orders(rows, count, seed)
    at_once = max(1, ROOM // values.size)
    for start in range(0, 1 + count, at_once):
        several = min(at_once, 1 + count - start)
        chosen = np.stack([next(every) for _ in range(several)], axis=1)
        yield values[chosen].reshape(rows, several * width)


def pooled(numerator: Array, denominator: Array) -> tuple[Array, Array]:
    """Ratio of sums over folds (1 + P, …), and that of the true order without each fold (F, …).

    Both arguments are (F, 1 + P, …). The ratio is 0 where the denominator is 0: nothing varies
    there, so nothing is explained.
    """
    over, under = numerator.sum(0), denominator.sum(0)
    return ratio(over, under), ratio((over - numerator)[:, 0], (under - denominator)[:, 0])


def ratio(over: Array, under: Array) -> Array:
    """over / under, and 0 where `under` is 0 up to rounding."""
    over, under = np.broadcast_arrays(over, under)
    found: Array = np.divide(over, under, out=np.zeros(over.shape), where=under > 1e-12)
    return found


def ranks(values: Array) -> Array:
    """Ranks along the first axis, starting at 1; tied values share their mean rank.

    >>> ranks(np.array([3.0, 1.0, 3.0, 9.0]))
    array([2.5, 1. , 2.5, 4. ])
    """
    found = np.empty(values.shape)
    for into, column in zip(np.atleast_2d(found.T), np.atleast_2d(values.T)):
        order = np.argsort(column, kind="stable")
        ordered = column[order]
        first = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
        count = np.diff(np.r_[first, len(column)])
        into[order] = np.repeat(first + (count + 1) / 2, count)
    return found


def to_bins(ranked: Array, bins: int) -> Labels:
    """Bins of equal frequency, 0 … bins − 1; tied values share a bin, so a bin may be empty.

    Bins depend on ranks only, so they do not change under an increasing function of the variable.

    >>> to_bins(np.array([2.0, 1.0, 3.0, 4.0]), 2)
    array([0, 0, 1, 1])
    """
    return np.floor((ranked - 0.5) * (bins / len(ranked))).astype(np.int64)


def equal_width(values: Array, bins: int) -> Labels:
    """Bins of equal width between the smallest and the largest value.

    >>> equal_width(np.array([0.0, 0.4, 0.5, 1.0]), 2)
    array([0, 0, 1, 1])
    """
    edges = np.linspace(values.min(), values.max(), bins + 1)[1:-1]
    return np.searchsorted(edges, values, side="right").astype(np.int64)
