"""Checks of claims, from one value a seed to a Finding: what studies put their claims to.

All judge a mean over seeds by its 95 % interval (`judge`), so that a claim that fails comes out as
surely as one that holds. Where no value is given, nothing was measured; where one is not finite,
nothing is decided.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import inf
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from identikit._linalg import Array
from identikit.errors import InputError
from identikit.studies._study import (
    INCONCLUSIVE,
    NOT,
    REPRODUCED,
    UNMEASURED,
    Finding,
    Interval,
    judge,
)

# More than 0: what does not differ at all is not higher.
POSITIVE = float(np.nextafter(0.0, 1.0))


def above(values: ArrayLike, bar: float, comment: str) -> Finding:
    """The mean is the bar or more.

    Parameters
    ----------
    values : array_like
        One a seed.
    bar : float
        What still counts.
    comment : str
        What was measured, and what counts.

    Examples
    --------
    >>> above([0.94, 0.95, 0.96], 0.9, "R² on held-out rows; 0.9 or more counts.").verdict
    'reproduced'
    """
    return within(values, bar, inf, comment)


def below(values: ArrayLike, bar: float, comment: str) -> Finding:
    """The mean is the bar or less; arguments as of `above`."""
    return within(values, -inf, bar, comment)


def within(values: ArrayLike, low: float, high: float, comment: str) -> Finding:
    """The mean lies from `low` to `high`; the other arguments as of `above`."""
    return judge(_seeds(values).tolist(), low, high, comment)


def rises(x: ArrayLike, values: ArrayLike, comment: str) -> Finding:
    """The values rise with x: the slope over the ranks of x, fitted in every seed, is above 0.

    The value is the mean slope: how much is gained from one x to the next.

    Parameters
    ----------
    x : array_like
        Numbers in any order; with fewer than two different ones nothing was measured.
    values : array_like
        A row a seed, a column an x.
    comment : str
        What was measured, and what counts.

    Examples
    --------
    >>> rises([10, 100, 1000], [[0.1, 0.3, 0.5], [0.0, 0.2, 0.5]], "R² by classes.").value
    0.225
    """
    return judge(_slopes(x, values), low=POSITIVE, comment=comment)


def falls(x: ArrayLike, values: ArrayLike, comment: str) -> Finding:
    """The values fall with x: the slope of `rises` is below 0; arguments as there."""
    return judge(_slopes(x, values), high=-POSITIVE, comment=comment)


def higher(a: ArrayLike, b: ArrayLike, comment: str) -> Finding:
    """a is higher than b, paired by seed: the mean of a − b is above 0.

    Parameters
    ----------
    a, b : array_like
        One value a seed, of the same seeds in the same order.
    comment : str
        What was measured, and what counts.
    """
    return judge(differences(a, b), low=POSITIVE, comment=comment)


def ordered(groups: Sequence[ArrayLike], comment: str) -> Finding:
    """The first is higher than the second, the second than the third, and so on, paired by seed.

    Each is compared with the next as by `higher`, and what stands worst is the finding: the order
    is reproduced if every step of it is, and not reproduced if one is not.

    Parameters
    ----------
    groups : sequence of array_like
        Two or more, each with one value a seed, the one that is to be the highest first.
    comment : str
        What was measured, and what counts.

    Examples
    --------
    >>> ordered([[5, 6, 7], [3, 4, 5.1], [3.1, 4, 5]], "Last layer first.").verdict
    'inconclusive at this scale'
    """
    if len(groups) < 2:
        raise InputError(f"an order of {len(groups)} was asked for; give at least two groups")
    return worst([higher(a, b, comment) for a, b in pairwise(groups)])


def worst(findings: Sequence[Finding]) -> Finding:
    """The one of several findings that stands worst: for claims of every cell of a table.

    What was not measured is worse than what is not reproduced, then comes what is open. Of those
    that hold or are open it is the least certain, of those that fail the most certain.

    Parameters
    ----------
    findings : sequence of Finding
        One or more.

    Examples
    --------
    >>> good, bad = above([2.0, 2.1], 1, "d = 2"), above([0.2, 0.1], 1, "d = 3")
    >>> worst([good, bad]).comment
    'd = 3'
    """

    def standing(found: Finding) -> tuple[int, float]:
        p = 1.0 if found.p is None else found.p
        place = (UNMEASURED, NOT, INCONCLUSIVE, REPRODUCED).index(found.verdict)
        return place, p if found.verdict == NOT else -p

    return min(findings, key=standing)


def equal(a: ArrayLike, b: ArrayLike, within: float, comment: str) -> Finding:
    """a and b are equal, paired by seed: the mean of a − b lies from −within to within.

    Parameters
    ----------
    a, b : array_like
        One value a seed, of the same seeds in the same order.
    within : float
        The largest difference that still counts as none.
    comment : str
        What was measured, and what counts.
    """
    return judge(differences(a, b), -within, within, comment)


def holds(values: ArrayLike, bound: float, comment: str) -> Finding:
    """Every single value is the bound or less: for an identity or a bound, of kind "check".

    The value is the largest; it has no interval, as one that is above is enough to refute.

    Parameters
    ----------
    values : array_like
        As many as there are; one will do.
    bound : float
        What none may exceed; of an identity, what rounding may do.
    comment : str
        What was measured, and what must hold.
    """
    every = np.asarray(values, float).ravel()
    if not every.size:
        return Finding(None, None, UNMEASURED, comment)
    if np.isnan(every).any() and not (every > bound).any():
        return Finding(None, None, INCONCLUSIVE, comment)
    largest = float(np.nanmax(every))
    return Finding(largest, None, REPRODUCED if largest <= bound else NOT, comment)


def unmeasured(why: str) -> Finding:
    """Nothing was measured, for a reason that the comment gives."""
    return Finding(None, None, UNMEASURED, why)


def undecided(why: str) -> Finding:
    """What was measured cannot decide, for a reason that the comment gives."""
    return Finding(None, None, INCONCLUSIVE, why)


def by_interval(
    value: float, interval: Interval | None, low: float, high: float, comment: str
) -> Finding:
    """A value that has an interval of its own, such as a slope, lies from `low` to `high`.

    Parameters
    ----------
    value, interval
        What was measured; without an interval, or with one that is not finite, it is open.
    low, high : float
        What counts.
    comment : str
        What was measured, and what counts.
    """
    if interval is None or not np.isfinite([value, *interval]).all():
        return Finding(value if np.isfinite(value) else None, None, INCONCLUSIVE, comment)
    inside, outside = (
        low <= interval[0] and interval[1] <= high,
        interval[1] < low or high < interval[0],
    )
    verdict = REPRODUCED if inside else NOT if outside else INCONCLUSIVE
    return Finding(value, interval, verdict, comment)


def best(
    values: Sequence[Any], losses: ArrayLike, floor: ArrayLike | None, slack: float
) -> tuple[list[Any], float]:
    """The values of the seeds that reached the optimum, and the share of seeds that did.

    For claims about an optimum: give what comes back to another check, and the share in its
    comment, for a mean over optima of different kinds describes none of them.

    Parameters
    ----------
    values : sequence
        One a seed: a number, or a row of them.
    losses : array_like
        One a seed.
    floor : float, array_like or None
        The lowest loss there can be, for all or one a seed; the lowest of these losses if None.
    slack : float
        How far above the floor a loss may be.

    Examples
    --------
    >>> best([0.99, 0.5, 0.98], [1.01, 1.4, 1.02], floor=1.0, slack=0.05)
    ([0.99, 0.98], 0.6666666666666666)
    """
    reached = _seeds(losses)
    if len(reached) != len(values):
        raise InputError(
            f"there are {len(values)} values and {len(reached)} losses; expected one a seed of each"
        )
    if not len(reached):
        return [], 0.0
    # fmin leaves out losses that are NaN; such seeds reached nothing.
    lowest = np.fmin.reduce(reached) if floor is None else np.asarray(floor, float)
    good = reached <= lowest + slack
    return [value for value, kept in zip(values, good) if kept], float(good.mean())


def _seeds(values: ArrayLike) -> Array:
    line = np.asarray(values, float)
    if line.ndim != 1:
        raise InputError(f"the values have the shape {line.shape}; expected one value a seed")
    return line


def differences(a: ArrayLike, b: ArrayLike) -> list[float]:
    """a − b, seed by seed; nothing if one of the two was not measured."""
    first, second = _seeds(a), _seeds(b)
    if not len(first) or not len(second):
        return []
    if len(first) != len(second):
        raise InputError(
            f"{len(first)} seeds cannot be paired with {len(second)}; give the same seeds of both"
        )
    with np.errstate(invalid="ignore"):
        difference: list[float] = (first - second).tolist()
    return difference


def _slopes(x: ArrayLike, values: ArrayLike) -> list[float]:
    different, ranks = np.unique(np.asarray(x, float), return_inverse=True)
    rows = np.asarray(values, float)
    # Nor does a run with a single x measure a trend.
    if len(different) < 2 or not rows.size:
        return []
    if rows.ndim != 2 or rows.shape[1] != len(ranks):
        raise InputError(
            f"the values have the shape {rows.shape}; expected a row a seed and {len(ranks)} "
            "columns, one an x"
        )
    centred = ranks - ranks.mean()
    with np.errstate(invalid="ignore"):
        # Apart from the first column, so that what is constant has a slope of exactly 0.
        slopes: list[float] = ((rows - rows[:, :1]) @ centred / (centred @ centred)).tolist()
    return slopes
