"""Checks of claims: functions from one value per seed to a Finding.

Most of them judge a mean over seeds by its 95 % interval (`judge`), so that a false claim can be
refuted as well as a true one confirmed. Without any value the verdict is "not measured"; if a value
is not finite, it is inconclusive. `comment` always says what was measured, and what counts.
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
from identikit.studies._estimates import Interval, Share, estimate
from identikit.studies._study import (
    INCONCLUSIVE,
    NOT,
    REPRODUCED,
    UNMEASURED,
    Finding,
    judge,
    verdict_of,
)

# The smallest number above 0: values that do not differ at all must not count as higher.
POSITIVE = float(np.nextafter(0.0, 1.0))


def above(values: ArrayLike, bar: float, comment: str) -> Finding:
    """Check that the mean is the bar or more.

    Parameters
    ----------
    values : array_like
        One value per seed.
    bar : float
        The smallest mean that counts.
    comment : str

    Examples
    --------
    >>> above([0.94, 0.95, 0.96], 0.9, "R² on held-out rows; 0.9 or more counts.").verdict
    'reproduced'
    """
    return within(values, bar, inf, comment)


def below(values: ArrayLike, bar: float, comment: str) -> Finding:
    """Check that the mean is the bar or less; the arguments are those of `above`."""
    return within(values, -inf, bar, comment)


def within(values: ArrayLike, low: float, high: float, comment: str) -> Finding:
    """Check that the mean lies between `low` and `high`; other arguments as for `above`."""
    return judge(_seeds(values).tolist(), low, high, comment)


def rises(x: ArrayLike, values: ArrayLike, comment: str) -> Finding:
    """Check that the values rise with x: the slope over the ranks of x is above 0.

    `x` are numbers in any order (with fewer than two different ones the claim is not measured), and
    `values` has one row per seed and one column per x. A slope is fitted for every seed. The
    finding's value is their mean, which is the mean change from one x to the next.

    Examples
    --------
    >>> rises([10, 100, 1000], [[0.1, 0.3, 0.5], [0.0, 0.2, 0.5]], "R² by classes.").value
    0.225
    """
    return judge(_slopes(x, values), low=POSITIVE, comment=comment)


def falls(x: ArrayLike, values: ArrayLike, comment: str) -> Finding:
    """Check that the values fall with x: the slope is below 0; arguments as for `rises`."""
    return judge(_slopes(x, values), high=-POSITIVE, comment=comment)


def higher(a: ArrayLike, b: ArrayLike, comment: str, paired: bool = True) -> Finding:
    """Check that a is higher than b, one value per seed each: the mean of a − b is above 0.

    If the seeds of a are other seeds than those of b, they are not `paired`: the variances of both
    sides add up (Welch's t).
    """
    if paired:
        return judge(differences(a, b), low=POSITIVE, comment=comment)
    both = [_seeds(side).tolist() for side in (a, b)]
    if not all(both):
        return unmeasured(comment)
    return judge(estimate(both[0]) - estimate(both[1]), low=POSITIVE, comment=comment)


def often(met: ArrayLike, bar: float, comment: str) -> Finding:
    """Check that the share of seeds for which something is true is the bar or more, by Wilson."""
    true = _seeds(met).astype(bool)
    return judge(Share(int(true.sum()), len(true)), low=bar, comment=comment)


def ordered(groups: Sequence[ArrayLike], comment: str) -> Finding:
    """Check that each group is higher than the next one, paired by seed.

    The two or more `groups` come from the highest to the lowest. Neighbours are compared by
    `higher`, and the worst finding is returned: the order is reproduced if every step is, and not
    reproduced if one step is not.

    Examples
    --------
    >>> ordered([[5, 6, 7], [3, 4, 5.1], [3.1, 4, 5]], "Last layer first.").verdict
    'inconclusive at this scale'
    """
    if len(groups) < 2:
        raise InputError(f"an order needs at least two groups; {len(groups)} were given")
    return worst([higher(a, b, comment) for a, b in pairwise(groups)])


def worst(findings: Sequence[Finding]) -> Finding:
    """The worst of several findings, for claims about every cell of a table.

    From worst to best, the verdicts are not reproduced, not measured, inconclusive, reproduced: one
    cell that fails refutes the claim, whatever was left out, and only all cells can confirm it.
    Among findings with the same verdict, the worst failure is the most certain one, and the worst
    of the others is the least certain one.

    Examples
    --------
    >>> good, bad = above([2.0, 2.1], 1, "d = 2"), above([0.2, 0.1], 1, "d = 3")
    >>> worst([good, bad]).comment
    'd = 3'
    """

    def standing(found: Finding) -> tuple[int, float]:
        p = 1.0 if found.p is None else found.p
        place = (NOT, UNMEASURED, INCONCLUSIVE, REPRODUCED).index(found.verdict)
        return place, p if found.verdict == NOT else -p

    return min(findings, key=standing)


def equal(a: ArrayLike, b: ArrayLike, within: float, comment: str) -> Finding:
    """Check that a and b are equal, paired by seed: the mean of a − b is within ±`within`."""
    return judge(differences(a, b), -within, within, comment)


def holds(values: ArrayLike, bound: float, comment: str) -> Finding:
    """Check that every single value is the bound or less, for claims of kind "check".

    For an identity, the bound is the size of rounding errors. The finding's value is the largest
    one. It has no interval, because a single value above the bound refutes the claim.
    """
    every = np.asarray(values, float).ravel()
    if not every.size:
        return Finding(None, None, UNMEASURED, comment)
    if np.isnan(every).any() and not (every > bound).any():
        return Finding(None, None, INCONCLUSIVE, comment)
    largest = float(np.nanmax(every))
    return Finding(largest, None, REPRODUCED if largest <= bound else NOT, comment)


def unmeasured(why: str) -> Finding:
    """A Finding for a claim that was not measured, with the reason as its comment."""
    return Finding(None, None, UNMEASURED, why)


def undecided(why: str, value: float | None = None) -> Finding:
    """A Finding for a claim that the measurements cannot decide, with the reason as its comment."""
    return Finding(value, None, INCONCLUSIVE, why)


def occurs(value: float, found: bool, enough: bool, comment: str) -> Finding:
    """A Finding for what should occur: reproduced if it does, and not reproduced if it does not.

    Without `enough` observations it is inconclusive either way, so that only a run that could have
    refuted the claim can confirm it.
    """
    return Finding(
        value, None, INCONCLUSIVE if not enough else REPRODUCED if found else NOT, comment
    )


def by_interval(
    value: float, interval: Interval | None, low: float, high: float, comment: str
) -> Finding:
    """Check that a value with its own interval, such as a slope, lies between `low` and `high`.

    Without a finite interval, the verdict is inconclusive.
    """
    if interval is None or not np.isfinite([value, *interval]).all():
        return Finding(value if np.isfinite(value) else None, None, INCONCLUSIVE, comment)
    return Finding(value, interval, verdict_of(interval, low, high), comment)


def best(
    values: Sequence[Any], losses: ArrayLike, floor: ArrayLike | None, slack: float
) -> tuple[list[Any], float]:
    """The values of the seeds that reached the optimum, and the share of seeds that did.

    This is for claims about an optimum, because a mean over optima of different kinds describes
    none of them, and its interval covers far too rarely. Pass the values (numbers or rows, one per
    seed) to another check, and put the share and its interval into the comment, as
    `Column.reached` does. A loss may be `slack` above the floor: one for all seeds, one per seed
    or, if None, the lowest of the losses.

    >>> best([0.99, 0.5, 0.98], [1.01, 1.4, 1.02], floor=1.0, slack=0.05)
    ([0.99, 0.98], 0.6666666666666666)
    """
    reached = _seeds(losses)
    if len(reached) != len(values):
        raise InputError(
            f"there are {len(values)} values and {len(reached)} losses; give one of each per seed"
        )
    if not len(reached):
        return [], 0.0
    # fmin ignores losses that are NaN; such seeds did not reach the optimum.
    lowest = np.fmin.reduce(reached) if floor is None else np.asarray(floor, float)
    good = reached <= lowest + slack
    return [value for value, kept in zip(values, good) if kept], float(good.mean())


def _seeds(values: ArrayLike) -> Array:
    line = np.asarray(values, float)
    if line.ndim != 1:
        raise InputError(f"the values have the shape {line.shape}; expected one value per seed")
    return line


def differences(a: ArrayLike, b: ArrayLike) -> list[float]:
    """a − b, seed by seed; an empty list if one of the two was not measured."""
    first, second = _seeds(a), _seeds(b)
    if not len(first) or not len(second):
        return []
    if len(first) != len(second):
        raise InputError(
            f"{len(first)} seeds cannot be paired with {len(second)}; give the same seeds for both"
        )
    with np.errstate(invalid="ignore"):
        difference: list[float] = (first - second).tolist()
    return difference


def _slopes(x: ArrayLike, values: ArrayLike) -> list[float]:
    different, ranks = np.unique(np.asarray(x, float), return_inverse=True)
    rows = np.asarray(values, float)
    # A run with a single x cannot measure a trend.
    if len(different) < 2 or not rows.size:
        return []
    if rows.ndim != 2 or rows.shape[1] != len(ranks):
        raise InputError(
            f"the values have the shape {rows.shape}; expected one row per seed and {len(ranks)} "
            "columns, one per x"
        )
    centred = ranks - ranks.mean()
    with np.errstate(invalid="ignore"):
        # Relative to the first column, so that constant values have a slope of exactly 0.
        slopes: list[float] = ((rows - rows[:, :1]) @ centred / (centred @ centred)).tolist()
    return slopes
