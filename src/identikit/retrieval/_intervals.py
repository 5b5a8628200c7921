"""95 % intervals of means over queries, by resampling the queries with the index fixed.

All resamples of all columns are two matrix products: with N the counts of queries in each resample
(multinomial), N x / n are the means of the resamples and N x² / n gives their variances.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from identikit._linalg import Array

LEVEL = 0.95
#: With fewer queries than this there is a value, but no interval.
LEAST_QUERIES = 5
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


def means(columns: Array, counts: Array) -> Means:
    """Means over queries, with their symmetric studentised bootstrap intervals.

    The interval is m ± q·s, where s is the standard error of the mean m, and q the 95 % quantile of
    |t*| with t* = (m* − m)/s* of the resamples (Hall 1992, section 3.6): it allows for few queries,
    which quantiles of m* do not.

    Parameters
    ----------
    columns : array (queries, m)
    counts : array (resamples, queries)
    """
    value = columns.mean(axis=0)
    if len(columns) < LEAST_QUERIES:
        return Means(value, np.full(len(value), np.nan), np.full(len(value), np.nan))
    return simultaneous([columns], [counts])[0]


def simultaneous(parts: Sequence[Array], counts: Sequence[Array]) -> list[Means]:
    """Means of the same columns in several parts of the queries, with intervals that hold jointly.

    In 95 % of the cases, the intervals of a column hold the truth in *all* parts, and so in the one
    that is chosen because it is the worst. Half-widths are q·s, where q is the 95 % quantile of the
    largest |t*| over the parts, which are resampled independently.
    """
    if not parts:
        return []
    largest = np.max([np.abs(studentised(*both)) for both in zip(parts, counts)], axis=0)
    reach = np.quantile(largest, LEVEL, axis=0)
    found = []
    for part in parts:
        value, error = _mean_and_error(part)
        found.append(Means(value, value - reach * error, value + reach * error))
    return found


def studentised(columns: Array, counts: Array) -> Array:
    """(m* − m)/s* of every resample and column."""
    n = len(columns)
    value, error = _mean_and_error(columns)
    centred = columns - value
    gaps = counts @ centred / n
    spread = counts @ np.square(centred) / n - np.square(gaps)
    errors = np.sqrt(np.maximum(spread, 0.0) / (n - 1))
    # A resample of equal values has no error of its own.
    flat = errors <= 1e-9 * error
    ratio = gaps / np.where(flat, 1.0, errors)
    ratio[flat] = (np.sign(gaps) * _LARGEST)[flat]
    ratio[:, error == 0] = 0.0
    return np.clip(ratio, -_LARGEST, _LARGEST)


def _mean_and_error(columns: Array) -> tuple[Array, Array]:
    n = len(columns)
    value = columns.mean(axis=0)
    if n < 2:
        return value, np.full(len(value), np.nan)
    error = columns.std(axis=0, ddof=1) / np.sqrt(n)
    # Equal values have a spread of rounding.
    size = np.abs(columns).max(axis=0)
    return value, np.where(error <= 1e-14 * size, 0.0, error)
