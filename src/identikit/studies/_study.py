"""A study: the claims of a paper, flat presets, a run, a figure, and a check of each claim."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import inf, isfinite
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from identikit.errors import InputError
from identikit.studies._data import Need
from identikit.studies._estimates import Estimate, Share, estimate
from identikit.studies._estimates import Interval as Interval

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
#: Advice to run more seeds than this would be of no use, so none is given.
MOST_SEEDS = 10_000

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
class Record:
    """The result of a unit of work: rows of a tidy table, and arrays of numbers by name.

    Rows contain JSON scalars: NumPy's scalars are converted, NaN and infinity become None.
    """

    rows: list[dict[str, Any]] = field(default_factory=list)
    arrays: dict[str, NDArray[Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class Finding:
    """The result of checking a claim: a value, its 95 % interval over seeds, a verdict, a comment.

    A missing value or interval is None. The comment says in a sentence or two what the value is and
    why the verdict follows. If the verdict is inconclusive, `seeds` estimates how many seeds would
    settle it. `p` is the two-sided p-value of the value against the nearest bar.
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
    """A claim, the value that the paper prints and where, and how to check it.

    Attributes
    ----------
    key : str
        A short name, such as "kl-18".
    says : str
        The claim in one plain sentence.
    published : str or float
        The printed value, or words if the paper prints none.
    source : str
        Where it is printed, such as "Table 1" or "Figure 3b".
    check : callable
        A function from the study's tables to a Finding.
    kind : str
        "paper" for a claim of the paper, "control" for a control or a corrected reading of our own,
        "check" for an identity or a bound that must hold.
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


#: A claim that the paper does not make.
control = partial(Claim, published="not in the paper", source="control", kind="control")


@dataclass(frozen=True)
class Study:
    """An experiment of a paper that anyone can run, stop, resume and check.

    Attributes
    ----------
    name : str
        The name on the command line. The file has the same name, with underscores for hyphens.
    title, paper, about : str
        A one-line title, the reference, and a few sentences that describe the experiment.
    presets : dict
        "smoke", "laptop" and "paper": flat dicts with the same keys, one of which is "seeds". The
        values are JSON scalars or lists of them.
    run : callable
        A function from a Work to tidy tables. Each expensive part is a unit of the Work.
    claims : tuple of Claim
    figure : callable
        A function from the tables and the settings to a matplotlib Figure
        (`report.drawing.sheet`).
    needs : tuple of Need
        Files that the data folder must contain.
    over : str
        What the intervals are over, in the plural: "seeds", or what else stands for repetitions.
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
    over: str = "seeds"


def mean_interval(values: Sequence[float]) -> tuple[float, Interval | None]:
    """Mean and its 95 % interval, mean ± t s/√n; the interval of a single value is None.

    >>> mean_interval([1.0, 2.0, 3.0])
    (2.0, (-0.484..., 4.484...))
    """
    found = estimate(values)
    return found.value, found.interval


def per_seed(pairs: pd.DataFrame, column: str) -> list[float]:
    """Jackknife pseudo-values of the mean over all pairs of n seeds, one per seed.

    The pseudo-value of seed i is n θ − (n − 1) θ₍₋ᵢ₎, where θ is the mean over all pairs and θ₍₋ᵢ₎
    the mean over the pairs without seed i. Their mean is θ, and t times their standard error gives
    the jackknife's interval. Pairs that share a seed are not independent, so an interval computed
    directly over pairs would be far too short. Two seeds form a single pair, whose value is
    returned unchanged. Columns `a` and `b` name the seeds, and every pair appears once.

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
    values: Sequence[float] | Estimate | Share,
    low: float = -inf,
    high: float = inf,
    comment: str = "",
) -> Finding:
    """Decide by the 95 % interval whether a mean, or another estimate, is between `low` and `high`.

    The claim is reproduced if the interval lies inside the bars and not reproduced if it lies
    outside. It is inconclusive if the interval crosses a bar, if there is only one value, or if a
    value is not finite; `seeds` then says how many seeds would decide, if value and spread stay the
    same. It is not measured if there are no values, for example because a setting was left out. `p`
    belongs to the value against the nearest of the two bars; it is 0.05 or less whenever the
    interval decides.

    Parameters
    ----------
    values : sequence of float, Estimate or Share
        One value per seed, or one per independent pair; or an estimate with an error of its own,
        such as a slope or a difference (`jackknife`); or the share of seeds that do something.
    low, high : float
        The bars: the range that still counts as the published value.
    comment : str
        A description of the value.

    Examples
    --------
    >>> judge([0.51, 0.52, 0.53], low=0.4).verdict, judge([0.51, 0.7], low=0.4).verdict
    ('reproduced', 'inconclusive at this scale')
    """
    found = values if isinstance(values, Estimate | Share) else estimate(values)
    if not found.seeds:
        return Finding(None, None, UNMEASURED, comment)
    if not isfinite(found.value):
        return Finding(None, None, INCONCLUSIVE, comment)
    verdict = verdict_of(found.interval, low, high)
    return Finding(found.value, found.interval, verdict, comment, *_decided(found, low, high))


def verdict_of(interval: Interval | None, low: float, high: float) -> str:
    """The verdict on an interval that lies inside the bars, outside them, or across one."""
    if interval is None:
        return INCONCLUSIVE
    if low <= interval[0] and interval[1] <= high:
        return REPRODUCED
    return NOT if interval[1] < low or high < interval[0] else INCONCLUSIVE


def _decided(found: Estimate | Share, low: float, high: float) -> tuple[int | None, float | None]:
    """How many seeds would decide an inconclusive claim, and p against the nearest bar."""
    bars = [bar for bar in (low, high) if isfinite(bar)]
    if found.interval is None or not bars:
        return None, None
    p = found.p(min(bars, key=lambda bar: abs(found.value - bar)))
    if verdict_of(found.interval, low, high) != INCONCLUSIVE:
        return None, p

    def decides(seeds: int) -> bool:
        return verdict_of(found.with_seeds(seeds).interval, low, high) != INCONCLUSIVE

    # The interval shrinks with more seeds, so bisection finds the first number that is enough.
    more = range(found.seeds + 1, MOST_SEEDS + 1)
    place = bisect_left(more, True, key=decides)
    return (more[place] if place < len(more) else None), p


def settings_of(
    study: Study, preset: str, seeds: int | None, changes: Mapping[str, Any] | None
) -> Settings:
    """A preset with the caller's changes; text is parsed as JSON unless the preset has text."""
    if preset not in study.presets:
        raise InputError(
            f"{study.name} has no preset {preset!r}; it has {', '.join(study.presets)}"
        )
    values = dict(study.presets[preset])
    given = dict(changes or {}) | ({} if seeds is None else {"seeds": seeds})
    for key, value in given.items():
        if key not in values:
            raise InputError(f"{study.name} has no setting {key!r}; it has {', '.join(values)}")
        values[key] = _like(values[key], value, key)
    if values["seeds"] < 1:
        raise InputError(f"seeds is {values['seeds']}; at least one is needed")
    return Settings(values)


def _like(model: Any, value: Any, key: str) -> Any:
    """The value converted to the type in the preset, or an error that names that type."""
    if isinstance(value, str) and not isinstance(model, str):
        value = _parsed(value, isinstance(model, list))
    if isinstance(model, list) and isinstance(value, list | tuple) and value:
        return [_like(model[0], item, key) for item in value]
    # 3 is accepted for 3.0, but True, which is an int in Python, is not accepted for 1.
    if type(model) is float and type(value) is int:
        return float(value)
    if model is None or type(value) is type(model) is not list:
        return value
    kind = (
        f"a list of {type(model[0]).__name__}" if isinstance(model, list) else type(model).__name__
    )
    raise InputError(f"{key} is {value!r}; expected {kind}, such as {json.dumps(model)}")


def _parsed(text: str, as_list: bool) -> Any:
    """Text parsed as JSON if possible; lists may also be given without brackets and quotes."""
    if as_list and not text.startswith("["):
        return [_parsed(part.strip(), False) for part in text.split(",")]
    try:
        return json.loads(text)
    except ValueError:
        return text
