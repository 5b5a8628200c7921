"""95 % intervals of means over queries, by resampling the queries with the index fixed.

All resamples of all columns are two matrix products: with N the counts of queries in each resample
(multinomial), N x / n are the means of the resamples and N x² / n gives their variances.

Where most queries have one value, as differences between a model and its int8 copy are mostly 0,
the variance of a sample is too small more often than not: the few queries that matter may be
missing from it, and then from all of its resamples. If k of n queries have another value than the
median, what Agresti and Coull (1998) do for a share, (k + 2)/(n + 4) in place of k/n, adds about
2 (1 − 2k/n) queries to them. So 2 (1 − 2k/n) a² is added to the sum of squares, where a is the
largest distance to the median that was seen. From k = n/2 on, nothing is added.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

from identikit._linalg import Array

LEVEL = 0.95
#: With fewer queries than this there is a value, but no interval.
LEAST_QUERIES = 5
#: If fewer queries than this differ, and less than half of all, an interval is rough.
FEW = 10
# Studentised means beyond this come from resamples that hold hardly any of the spread.
_LARGEST = 1e3


class Means(NamedTuple):
    """Means of columns, with their intervals; NaN where there are too few queries for one."""

    value: Array
    low: Array
    high: Array


def drawn_counts(queries: int, resamples: int, seed: Sequence[int]) -> Array:
    """How often each query is in each resample, (resamples, queries)."""
    return _counts(queries, resamples, tuple(seed))


@lru_cache(maxsize=2)  # all measures and the verdict need the same
def _counts(queries: int, resamples: int, seed: tuple[int, ...]) -> Array:
    draw = np.random.default_rng(list(seed))
    counts = draw.multinomial(queries, np.full(queries, 1 / queries), size=resamples).astype(float)
    counts.flags.writeable = False
    return counts


def means(columns: Array, counts: Array, *, alike: bool = False) -> Means:
    """Means over queries, with their symmetric studentised bootstrap intervals.

    The interval is m ± q·s, where s is the standard error of the mean m, and q the 95 % quantile of
    |t*| with t* = (m* − m)/s* of the resamples (Hall 1992, section 3.6), or that of Student's t
    with n − 1 degrees of freedom if this is larger: it allows for few queries, which quantiles
    of m* do not.

    Parameters
    ----------
    columns : array (queries, m)
    counts : array (resamples, queries)
    alike : bool
        Whether columns are of one kind, such as differences of several options to staying: the
        largest distance that one of them shows is then possible in all.
    """
    value = columns.mean(axis=0)
    if len(columns) < LEAST_QUERIES:
        return Means(value, np.full(len(value), np.nan), np.full(len(value), np.nan))
    return simultaneous([columns], [counts], alike=alike)[0]


def simultaneous(
    parts: Sequence[Array], counts: Sequence[Array], *, alike: bool = False
) -> list[Means]:
    """Means of the same columns in several parts of the queries, with intervals that hold jointly.

    In 95 % of the cases, the intervals of a column hold the truth in *all* parts, and so in the one
    that is chosen because it is the worst. Half-widths are q·s, where q is the 95 % quantile of the
    largest |t*| over the parts, which are resampled independently, and at least that of as many
    independent t of Student's.
    """
    if not parts:
        return []
    added = [_unseen(part, alike) for part in parts]
    largest = np.max([np.abs(studentised(*each)) for each in zip(parts, counts, added)], axis=0)
    freedom = min(len(part) for part in parts) - 1
    least = stdtrit(freedom, (1 + LEVEL ** (1 / len(parts))) / 2)
    reach = np.maximum(np.quantile(largest, LEVEL, axis=0), least)
    found = []
    for part, more in zip(parts, added):
        value, error = _mean_and_error(part, more)
        found.append(Means(value, value - reach * error, value + reach * error))
    return found


def studentised(columns: Array, counts: Array, added: Array | float = 0.0) -> Array:
    """(m* − m)/s* of every resample and column; `added` is added to all sums of squares."""
    n = len(columns)
    value, error = _mean_and_error(columns, added)
    centred = columns - value
    gaps = counts @ centred / n
    spread = counts @ np.square(centred) - n * np.square(gaps)
    errors = np.sqrt((np.maximum(spread, 0.0) + added) / (n * (n - 1)))
    # A resample of equal values has no error of its own.
    flat = errors <= 1e-9 * error
    ratio = gaps / np.where(flat, 1.0, errors)
    ratio[flat] = (np.sign(gaps) * _LARGEST)[flat]
    ratio[:, error == 0] = 0.0
    return np.clip(ratio, -_LARGEST, _LARGEST)


def differing(columns: Array) -> Array:
    """How many queries have another value than most, for each column."""
    return np.asarray((columns != np.median(columns, axis=0)).sum(axis=0))


def _unseen(columns: Array, alike: bool) -> Array:
    """What queries that are not in the sample may add to the sum of squares, for each column."""
    size = np.square(columns - np.median(columns, axis=0)).max(axis=0)
    size = np.full_like(size, size.max()) if alike else size
    return np.asarray(2 * np.maximum(1 - 2 * differing(columns) / len(columns), 0.0) * size)


def _mean_and_error(columns: Array, added: Array | float = 0.0) -> tuple[Array, Array]:
    n = len(columns)
    value = columns.mean(axis=0)
    if n < 2:
        return value, np.full(len(value), np.nan)
    error = np.sqrt((np.square(columns - value).sum(axis=0) + added) / (n * (n - 1)))
    # Equal values have a spread of rounding.
    size = np.abs(columns).max(axis=0)
    return value, np.where(error <= 1e-14 * size, 0.0, error)
