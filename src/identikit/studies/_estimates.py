"""Numbers estimated from seeds, with their 95 % intervals: means, jackknives and shares.

An interval over seeds is right where seeds differ by noise around one optimum. If some of them end
in a bad optimum, say a fifth, the interval of a mean covers far too rarely, even with 20 seeds. A
claim about an optimum therefore needs the `Share` of seeds that reach it, and is judged on those
alone (`best`, `Column.reached`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import isfinite, nan
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

Interval = tuple[float, float]
#: The normal quantile of a two-sided 95 % interval.
NORMAL = 1.959964


@dataclass(frozen=True)
class Estimate:
    """A value, its standard error, and Student's degrees of freedom.

    `seeds` is how many seeds there are, of each group if there are several. The error is NaN if it
    cannot be estimated, for example from a single seed. Estimates from different seeds can be
    subtracted: the variances of both sides add up, and the degrees of freedom are Welch's.

    >>> narrow, wide = estimate([0.5, 0.6, 0.7]), estimate([0.1, 0.2, 0.3])
    >>> [round(end, 3) for end in (narrow - wide).interval]
    [0.173, 0.627]
    """

    value: float
    error: float
    freedom: float
    seeds: int

    @property
    def interval(self) -> Interval | None:
        """value ± t error, or None if the error is unknown."""
        from scipy.special import stdtrit  # Student's quantile; scipy.stats is slow to import

        half = float(stdtrit(self.freedom, 0.975) * self.error) if self.freedom > 0 else nan
        return (self.value - half, self.value + half) if isfinite(self.value + half) else None

    def p(self, bar: float) -> float:
        """The two-sided p-value of the value against a bar, by Student's t."""
        from scipy.special import stdtr

        distance = abs(self.value - bar)
        # Values without any spread leave nothing to chance.
        return 2 * float(stdtr(self.freedom, -distance / self.error)) if self.error > 0 else 0.0

    def with_seeds(self, seeds: int) -> Estimate:
        """What this many seeds would give, if the value and the spread of seeds stay the same."""
        error = self.error * (self.seeds / seeds) ** 0.5
        freedom = self.freedom * (seeds - 1) / (self.seeds - 1)
        return Estimate(self.value, error, freedom, seeds)

    def __sub__(self, other: Estimate) -> Estimate:
        parts = [(each.error**2, each.freedom) for each in (self, other)]
        return _summed(self.value - other.value, parts, max(self.seeds, other.seeds))


def estimate(values: Sequence[float]) -> Estimate:
    """The mean of one value per seed, with s/√n and n − 1 degrees of freedom.

    It is NaN if there are no values, or if one is not finite.
    """
    n = len(values)
    if not n or not np.isfinite(values).all():
        return Estimate(nan, nan, n - 1, n)
    error = float(np.std(values, ddof=1)) / n**0.5 if n > 1 else nan
    return Estimate(float(np.mean(values)), error, n - 1, n)


def jackknife(
    pairs: pd.DataFrame,
    statistic: Callable[[pd.DataFrame], float],
    strata: str | tuple[str, str] | None = None,
) -> Estimate:
    """A statistic of all pairs of seeds, with the jackknife's error within strata.

    Every seed is left out in turn, with all its pairs. Within a stratum h of n seeds, the values
    θᵢ without seed i have the variance (n − 1)/n Σᵢ (θᵢ − θ̄)². Strata are independent, so their
    variances add up, and the degrees of freedom are Welch's. The mean over pairs in one stratum has
    the interval of `per_seed`.

    Parameters
    ----------
    pairs : DataFrame
        One row per pair; columns `a` and `b` name its seeds.
    statistic : callable
        A function from such a table to a number, for example a slope over widths.
    strata : str or tuple of two str, optional
        The column that names the stratum of both seeds, or the columns for `a` and for `b`. Seed 0
        of one width is a different network from seed 0 of another, so the width is a stratum. On
        the other hand, a seed that occurs in both sides of a difference is left out of both.

    Examples
    --------
    >>> import pandas as pd
    >>> table = pd.DataFrame({"a": [0, 0, 1], "b": [1, 2, 2], "cca": [0.9, 0.5, 0.7]})
    >>> found = jackknife(table, lambda pairs: pairs["cca"].mean())
    >>> round(found.value, 6), round(found.error, 6)
    (0.7, 0.23094)
    """
    if not len(pairs):
        return Estimate(nan, nan, 0, 0)
    names = (strata, strata) if isinstance(strata, str) or strata is None else strata
    first, second = (
        list(zip(pairs[name] if name else [None] * len(pairs), pairs[side]))
        for name, side in zip(names, "ab")
    )
    groups: dict[object, list[float]] = {}
    for seed in dict.fromkeys([*first, *second]):
        rest = pairs[[seed not in both for both in zip(first, second)]]
        groups.setdefault(seed[0], []).append(float(statistic(rest)) if len(rest) else nan)
    parts = [((n - 1) * float(np.var(left)), n - 1) for left in groups.values() if (n := len(left))]
    return _summed(float(statistic(pairs)), parts, max(map(len, groups.values())))


def _summed(value: float, parts: Iterable[tuple[float, float]], seeds: int) -> Estimate:
    """An estimate whose independent parts have these variances and degrees of freedom."""
    variances, freedoms = (np.array(each, float) for each in zip(*parts))
    known = (freedoms > 0).all() and np.isfinite(variances).all()
    error = float(variances.sum() ** 0.5) if known else nan
    # Parts without any spread leave nothing to chance.
    freedom = freedoms.sum() if not known or error == 0 else (
        variances.sum() ** 2 / (variances**2 / freedoms).sum()
    )  # fmt: skip
    return Estimate(value, error, float(freedom), seeds)


@dataclass(frozen=True)
class Share:
    """How many of several seeds do something, with Wilson's 95 % interval of the share.

    >>> str(Share(8, 10))
    '8 of 10, 49% to 94%'
    """

    count: float
    of: int

    @property
    def seeds(self) -> int:
        """How many seeds there are."""
        return self.of

    @property
    def value(self) -> float:
        """The share itself."""
        return self.count / self.of if self.of else nan

    @property
    def interval(self) -> Interval:
        """Wilson's: all p with |p̂ − p| ≤ 1.96 √(p (1 − p)/n)."""
        share, z2 = self.value, NORMAL**2 / self.of
        middle, half = share + z2 / 2, (z2 * share * (1 - share) + z2**2 / 4) ** 0.5
        return (middle - half) / (1 + z2), (middle + half) / (1 + z2)

    def p(self, bar: float) -> float:
        """The two-sided p-value of the share against a bar, by the test that Wilson inverts."""
        from scipy.special import ndtr

        distance, error = abs(self.value - bar), (bar * (1 - bar) / self.of) ** 0.5
        return 2 * float(ndtr(-distance / error)) if error > 0 else float(distance == 0)

    def with_seeds(self, seeds: int) -> Share:
        """The same share of this many seeds."""
        return Share(self.value * seeds, seeds)

    def __str__(self) -> str:
        low, high = self.interval
        return f"{self.count:g} of {self.of}, {low:.0%} to {high:.0%}"
