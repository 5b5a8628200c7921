"""What a study is: claims of a paper, flat presets, a run, a figure, and a check of each claim."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf, isfinite
from typing import TYPE_CHECKING, Any

import numpy as np

from identikit.studies._data import Need

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from identikit.studies._work import Work

REPRODUCED = "reproduced"
NOT = "not reproduced"
INCONCLUSIVE = "inconclusive at this scale"
UNMEASURED = "not measured"
VERDICTS = (REPRODUCED, NOT, INCONCLUSIVE, UNMEASURED)
#: The paper's own claims, our controls and corrected readings, and identities or bounds.
KINDS = ("paper", "control", "check")
#: More seeds than this are no advice.
MOST_SEEDS = 10_000

Interval = tuple[float, float]
Tables = dict[str, "pd.DataFrame"]


class Settings(Mapping[str, Any]):
    """The values of a preset, by item or by attribute: `settings["seeds"]`, `settings.seeds`."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.__dict__.update(values)

    def __getitem__(self, key: str) -> Any:
        return self.__dict__[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.__dict__)

    def __len__(self) -> int:
        return len(self.__dict__)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"there is no setting {name!r}; there are {', '.join(self)}")

    def __repr__(self) -> str:
        return f"Settings({self.__dict__})"


@dataclass(frozen=True)
class Finding:
    """What was measured of a claim: a value, its 95 % interval over seeds, a verdict, a comment.

    A value or an interval that there is none of is None. The comment is a sentence or two of what
    the value is and why the verdict is what it is. `seeds` is about how many seeds would decide
    what is inconclusive, and `p` the two-sided p-value of the value against the nearest bar.
    """

    value: float | None
    interval: Interval | None
    verdict: str
    comment: str = ""
    seeds: int | None = None
    p: float | None = None

    def __post_init__(self) -> None:
        if self.verdict not in VERDICTS:
            raise ValueError(f"the verdict is {self.verdict!r}; expected one of {VERDICTS}")


@dataclass(frozen=True)
class Claim:
    """What a paper claims, the value it prints, where, and how to check it.

    Attributes
    ----------
    key : str
        A short name, such as "kl-18".
    says : str
        The claim in one plain sentence.
    published : str or float
        The printed value; words where the paper prints none.
    source : str
        Where it is printed: "Table 1", "Figure 3b".
    check : callable
        From the study's tables to a Finding.
    kind : str
        "paper": the paper claims it. "control": a control or a corrected reading of our own.
        "check": an identity or a bound, which must hold.
    """

    key: str
    says: str
    published: str | float
    source: str
    check: Callable[[Tables], Finding]
    kind: str = "paper"

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"the kind is {self.kind!r}; expected one of {KINDS}")


@dataclass(frozen=True)
class Study:
    """An experiment of a paper that anyone can run, stop, resume and check.

    Attributes
    ----------
    name : str
        As on the command line; the file is called the same, with underscores.
    title, paper, about : str
        A line, the reference, and a few sentences of what is done.
    presets : dict
        "smoke", "laptop" and "paper": flat dicts with the same keys, one of them "seeds"; values
        are JSON scalars or lists of them.
    run : callable
        From a Work to tidy tables; each expensive part is a unit of the Work.
    claims : tuple of Claim
    figure : callable
        From the tables and the settings to a matplotlib Figure (`report.drawing.sheet`).
    needs : tuple of Need
        Files that the data folder must hold.
    """

    name: str
    title: str
    paper: str
    about: str
    presets: Mapping[str, Mapping[str, Any]]
    run: Callable[[Work], Tables]
    claims: tuple[Claim, ...]
    figure: Callable[[Tables, Settings], Figure]
    needs: tuple[Need, ...] = ()


def mean_interval(values: Sequence[float]) -> tuple[float, Interval | None]:
    """Mean and its 95 % interval, mean ± t s/√n; None in place of the interval of one value.

    Parameters
    ----------
    values : sequence of float
        One a seed, or one an independent pair.

    Examples
    --------
    >>> mean_interval([1.0, 2.0, 3.0])
    (2.0, (-0.484..., 4.484...))
    """
    from scipy.special import stdtrit  # Student's quantile; scipy.stats takes a second to import

    n, mean = len(values), float(np.mean(values))
    if n < 2:
        return mean, None
    half = float(stdtrit(n - 1, 0.975) * np.std(values, ddof=1) / n**0.5)
    return mean, (mean - half, mean + half)


def per_seed(pairs: pd.DataFrame, column: str) -> list[float]:
    """Jackknife pseudo-values of the mean over all pairs of n seeds, one a seed.

    n θ − (n − 1) θ₍₋ᵢ₎, θ₍₋ᵢ₎ the mean over the pairs without seed i. Their mean is θ, and t times
    their standard error is the jackknife's interval: pairs that share a seed are not independent,
    so that an interval over pairs as such would be far too short. Two seeds have one pair, and
    that is given as it is.

    Parameters
    ----------
    pairs : DataFrame
        Columns `a` and `b` name the seeds; every pair once.
    column : str
        What is averaged.

    Examples
    --------
    >>> import pandas as pd
    >>> table = pd.DataFrame({"a": [0, 0, 1], "b": [1, 2, 2], "cca": [0.9, 0.5, 0.7]})
    >>> [round(value, 6) for value in per_seed(table, "cca")]
    [0.7, 1.1, 0.3]
    """
    a, b, values = (pairs[name].to_numpy() for name in ("a", "b", column))
    seeds = np.union1d(a, b)
    if len(values) < 2:
        return [float(value) for value in values]
    without = np.array([values[(a != seed) & (b != seed)].mean() for seed in seeds])
    pseudo = len(seeds) * values.mean() - (len(seeds) - 1) * without
    return [float(value) for value in pseudo]


def judge(
    values: Sequence[float], low: float = -inf, high: float = inf, comment: str = ""
) -> Finding:
    """Whether the mean of the values lies from `low` to `high`, as far as their interval tells.

    Reproduced if the 95 % interval lies within, not reproduced if it lies outside, inconclusive if
    it does neither, if there is only one value, or if a value is not finite; not measured if there
    is no value, as of a setting that was left out. p is that of the t statistic of the mean against
    the nearest of the two bars: 0.05 or less where the interval decides.

    Parameters
    ----------
    values : sequence of float
        One a seed, or one an independent pair.
    low, high : float
        What would still count as the published value.
    comment : str
        What the value is.

    Examples
    --------
    >>> judge([0.51, 0.52, 0.53], low=0.4).verdict, judge([0.51, 0.7], low=0.4).verdict
    ('reproduced', 'inconclusive at this scale')
    """
    if not len(values):
        return Finding(None, None, UNMEASURED, comment)
    if not all(isfinite(value) for value in values):
        return Finding(None, None, INCONCLUSIVE, comment)
    value, interval = mean_interval(values)
    verdict = verdict_of(interval, low, high)
    return Finding(value, interval, verdict, comment, *_decided(values, verdict, low, high))


def verdict_of(interval: Interval | None, low: float, high: float) -> str:
    """Where an interval lies: within the bars, outside of them, or neither; or there is none."""
    if interval is None:
        return INCONCLUSIVE
    if low <= interval[0] and interval[1] <= high:
        return REPRODUCED
    return NOT if interval[1] < low or high < interval[0] else INCONCLUSIVE


def _decided(
    values: Sequence[float], verdict: str, low: float, high: float
) -> tuple[int | None, float | None]:
    """How many seeds would decide, if these do not, and the p-value against the nearest bar.

    The smallest n with t s/√n below the distance of the mean to that bar, as if mean and spread
    stayed as they are.
    """
    from scipy.special import stdtr, stdtrit

    n, bars = len(values), [bar for bar in (low, high) if isfinite(bar)]
    if n < 2 or not bars:
        return None, None
    spread = float(np.std(values, ddof=1))
    distance = min(abs(float(np.mean(values)) - bar) for bar in bars)
    # Without any spread there is nothing that chance could have done.
    p = 2 * float(stdtr(n - 1, -distance * n**0.5 / spread)) if spread > 0 else 0.0
    if verdict != INCONCLUSIVE:
        return None, p
    more = range(n + 1, MOST_SEEDS + 1)
    # The interval shrinks with n: the first that is short enough is found by halving.
    place = bisect_left(
        more, True, key=lambda m: stdtrit(m - 1, 0.975) * spread / m**0.5 < distance
    )
    return (more[place] if place < len(more) else None), p
