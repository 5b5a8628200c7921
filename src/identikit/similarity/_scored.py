"""Values of measures together with their chance levels, intervals and p-values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from identikit._linalg import Array, in_threads
from identikit.inference import Null, TwinStack, jackknife_interval, shuffled, twin_stacks, twins
from identikit.moments import Moments
from identikit.similarity._registry import MEASURES, Measure

#: The share of independent views whose value is below the upper end of the chance band.
LEVEL = 0.95


@dataclass(frozen=True)
class Scored:
    """The value of a measure, and what is needed to interpret it.

    Parameters
    ----------
    value : float
        The value in sample.
    chance : float
        The mean for independent views with the same number of rows, widths and spectra.
    band : (float, float)
        95 % of independent views score below its upper end τ, and about 95 % above its lower end,
        which is inaccurate if the distribution is very skewed.
    interval : (float, float) or None
        95 % confidence interval by the delete-one-fold jackknife, for the in-sample value at this
        number of rows. Measures on the row sample use parts of the sample in place of folds. None
        if the measure has no value without some fold.
    calibrated : float
        max(0, (value − τ)/(1 − τ)): 0 for 95 % of independent views, and 1 for equal ones (Gröger,
        Wen and Brbić 2026).
    p : float
        The probability that independent views score at least this value, by a shifted gamma
        distribution with the mean, variance and skewness of independent views (`inference.Null`).
    draws : int
        Number of draws of independent views; 0 if their moments are known exactly.
    """

    value: float
    chance: float
    band: tuple[float, float]
    interval: tuple[float, float] | None
    calibrated: float
    p: float
    draws: int


def score_measures(
    moments: Moments,
    i: int | str = 0,
    j: int | str = 1,
    *,
    axes: bool = True,
    names: Iterable[str] | None = None,
) -> dict[str, Scored | None]:
    """Every registered measure of two views, with its chance level, interval and p-value.

    The chance level has a closed form for some measures. Otherwise it comes from independent twins
    of the views (`inference.twins`) for measures of the moments, and from shuffled rows for
    measures of the row sample. A measure is None if its value would be meaningless.

    Parameters
    ----------
    moments : Moments
    i, j : int or str
        The two views.
    axes : bool
        If false, measures that depend on the choice of columns are None.
    names : iterable of str, optional
        Only these measures.
    """
    found = scores_and_laws(moments, i, j, axes=axes, names=names)
    return {name: None if both is None else both[0] for name, both in found.items()}


def scores_and_laws(
    moments: Moments,
    i: int | str = 0,
    j: int | str = 1,
    *,
    axes: bool = True,
    names: Iterable[str] | None = None,
) -> dict[str, tuple[Scored, Null] | None]:
    """`score_measures`, with the null distribution of every measure."""
    i, j = moments.resolve(i), moments.resolve(j)
    wanted = MEASURES if names is None else {name: MEASURES[name] for name in names}
    values = {
        name: None if measure.of_axes and not axes else measure(moments, i, j)
        for name, measure in wanted.items()
    }
    there = {name: value for name, value in values.items() if value is not None}
    nulls = null_laws(moments, i, j, there)
    rests = _leave_one_out(moments, i, j, there)
    return {
        name: (score(there[name], nulls[name], _interval(there[name], rests[name])), nulls[name])
        if name in nulls
        else None
        for name in values
    }


def score(value: float, null: Null, interval: tuple[float, float] | None) -> Scored:
    """Combine a value with its null distribution."""
    low, high = (float(np.clip(null.quantile(level), 0.0, 1.0)) for level in (1 - LEVEL, LEVEL))
    return Scored(
        value,
        null.mean,
        (low, high),
        interval,
        calibrate(value, high),
        null.p(value),
        null.draws,
    )


def calibrate(value: float, threshold: float) -> float:
    """Rescale a value linearly so that the chance threshold becomes 0 and 1 stays 1."""
    return min(max((value - threshold) / (1 - threshold), 0.0), 1.0) if threshold < 1 else 0.0


def null_laws(moments: Moments, i: int, j: int, names: Iterable[str]) -> dict[str, Null]:
    """The null distributions of measures, except those that have no value for independent views."""
    laws: dict[str, Null] = {}
    stacked: list[Measure] = []
    linear: list[Measure] = []
    rows: list[Measure] = []
    for name in names:
        measure = MEASURES[name]
        law = measure.null(moments, i, j) if measure.null is not None else None
        if law is not None:
            laws[name] = law
        else:
            (rows if measure.rows else stacked if measure.of_twins else linear).append(measure)
    draws = (
        _stacked(moments, i, j, stacked)
        | _drawn(twins(moments, i, j), linear, 0, 1)
        | _drawn(shuffled(moments, i, j), rows, i, j)
    )
    return laws | {name: Null.of_draws(values) for name, values in draws.items() if len(values) > 1}


def _stacked(moments: Moments, i: int, j: int, measures: list[Measure]) -> dict[str, Array]:
    def values(stack: TwinStack) -> list[Array]:
        return [measure.of_twins(stack) for measure in measures if measure.of_twins is not None]

    width = max(moments.widths[i], moments.widths[j])
    found = [*in_threads(values, twin_stacks(moments, i, j), width)] if measures else []
    names = [measure.name for measure in measures]
    return {name: np.concatenate(each) for name, each in zip(names, zip(*found))}


def _drawn(draws: Iterator[Moments], measures: list[Measure], i: int, j: int) -> dict[str, Array]:
    def values(draw: Moments) -> list[float | None]:
        return [measure(draw, i, j) for measure in measures]

    found = [*in_threads(values, draws)] if measures else []
    return {
        measure.name: np.array([row[place] for row in found if row[place] is not None])
        for place, measure in enumerate(measures)
    }


def _leave_one_out(
    moments: Moments, i: int, j: int, names: Iterable[str]
) -> dict[str, list[float | None]]:
    """The values of all measures without each fold in turn."""
    names = list(names)
    folds = [fold for fold, part in enumerate(moments.parts) if part.count]

    def without(fold: int) -> list[float | None]:
        rest = moments.without(fold)
        found = [MEASURES[name](rest, i, j) for name in names]
        rest.release()
        return found

    width = max(moments.widths[i], moments.widths[j])
    values = [*in_threads(without, folds if len(folds) > 1 else [], width)]
    return {name: [fold[place] for fold in values] for place, name in enumerate(names)}


def _interval(value: float, rests: list[float | None]) -> tuple[float, float] | None:
    known = np.array([rest for rest in rests if rest is not None])
    if len(known) < len(rests) or len(known) < 2:
        return None
    low, high = jackknife_interval(value, known, floor=0.0)
    return low, min(high, 1.0)
