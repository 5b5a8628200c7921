"""Values of measures together with their chance levels, intervals and p-values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

import numpy as np

from identikit._linalg import Array
from identikit._threads import in_threads
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
    asked = [measure for measure in wanted.values() if axes or not measure.of_axes]
    width = max(moments.block(i, j).shape)  # which also makes the moments remember this pair
    values = in_threads(lambda measure: measure(moments, i, j), asked, width)
    there = {one.name: value for one, value in zip(asked, values) if value is not None}
    nulls, rests = _laws_and_rests(moments, i, j, [MEASURES[name] for name in there])
    return {
        name: (score(there[name], nulls[name], _interval(there[name], rests[name])), nulls[name])
        if name in nulls
        else None
        for name in wanted
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


def _laws_and_rests(
    moments: Moments, i: int, j: int, measures: list[Measure]
) -> tuple[dict[str, Null], dict[str, list[float | None]]]:
    """The null laws of measures, where independent views have values, and values without folds.

    All jobs are in one list, so that threads need not wait for each other in between.
    """
    known = [(one, one.null) for one in measures if one.null is not None]
    stacked = [(one.name, one.of_twins) for one in measures if one.of_twins and not one.null]
    folds = [fold for fold, part in enumerate(moments.parts) if part.count]
    folds = folds if len(folds) > 1 else []

    def without(fold: int) -> list[float | None]:
        rest = moments.without(fold)
        found = [measure(rest, i, j) for measure in measures]
        rest.release()
        return found

    def of_twins(stack: TwinStack) -> list[Array]:
        return [values(stack) for _, values in stacked]

    def jobs() -> Iterator[Callable[[], Any]]:
        yield from (partial(null, moments, i, j) for _, null in known)
        yield from (partial(without, fold) for fold in folds)
        yield from (partial(of_twins, stack) for stack in twin_stacks(moments, i, j) if stacked)

    width = max(moments.widths[i], moments.widths[j])
    done = in_threads(lambda job: job(), jobs(), width)
    laws = {measure.name: law for (measure, _), law in zip(known, done) if law is not None}
    rests = [*islice(done, len(folds))]
    draws = {name: np.concatenate(each) for (name, _), each in zip(stacked, zip(*done))}
    rest = [one for one in measures if one.name not in {*laws, *draws}]
    draws |= _drawn(twins(moments, i, j), [one for one in rest if not one.rows], 0, 1)
    draws |= _drawn(shuffled(moments, i, j), [one for one in rest if one.rows], i, j)
    laws |= {name: Null.of_draws(values) for name, values in draws.items() if len(values) > 1}
    return laws, {one.name: [fold[k] for fold in rests] for k, one in enumerate(measures)}


def _drawn(draws: Iterator[Moments], measures: list[Measure], i: int, j: int) -> dict[str, Array]:
    def values(draw: Moments) -> list[float | None]:
        return [measure(draw, i, j) for measure in measures]

    found = [*in_threads(values, draws)] if measures else []
    return {
        measure.name: np.array([row[place] for row in found if row[place] is not None])
        for place, measure in enumerate(measures)
    }


def _interval(value: float, rests: list[float | None]) -> tuple[float, float] | None:
    known = np.array([rest for rest in rests if rest is not None])
    if len(known) < len(rests) or len(known) < 2:
        return None
    low, high = jackknife_interval(value, known, floor=0.0)
    return low, min(high, 1.0)
