"""What is said of distances: means, quantiles and intervals, and how much ICA gains."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from identikit._linalg import Array
from identikit.alignment import HeldOut
from identikit.axes._near_measure import DIFFERENT_ROWS, ICA_AXES, TURNED, Measured
from identikit.axes._near_result import Efficiency, Interval, NearError
from identikit.inference import jackknife_interval

Statistic = Callable[[Array], Array]

#: Of each draw's distances: mean, median, 95 % quantile, root mean square.
STATISTICS: tuple[Statistic, ...] = (
    lambda d: d.mean(axis=1),
    lambda d: np.median(d, axis=1),
    lambda d: np.quantile(d, 0.95, axis=1),
    lambda d: np.sqrt((d**2).mean(axis=1)),
)


def ica_efficiency(permutation: float, rigid: float, ica: float) -> float:
    """(e_perm − e_ICA)/(e_perm − e_rigid): the part of the gap that ICA closes.

    >>> round(ica_efficiency(permutation=0.197, rigid=0.109, ica=0.145), 2)
    0.59
    """
    return (permutation - ica) / (permutation - rigid)


def summarise(
    group: str,
    whole: Measured,
    rest: Sequence[Measured],
    chance: Array,
    searched: Array | None = None,
) -> NearError:
    """One group's distances over the diameter, with intervals.

    Parameters
    ----------
    group : str
    whole : Measured
        Of all rows.
    rest : sequence of Measured
        Without each run of rows.
    chance : array
        Distances by chance.
    searched : array, optional
        Mean distances after ICA from other starts.
    """
    # In units of the mean: the search moves all statistics of a group about alike.
    chaos = 0.0 if searched is None else _variance(searched / whole.distances[group].mean())

    def estimate(statistic: Statistic) -> tuple[float, Interval]:
        value, *others = (
            float(statistic(measured.distances[group]).mean()) / measured.diameter
            for measured in (whole, *rest)
        )
        low, high = jackknife_interval(value, np.array(others))
        half = np.hypot((high - low) / 2, _quantile(len(others)) * np.sqrt(chaos) * value)
        return value, (max(value - float(half), 0.0), value + float(half))

    mean, median, q95, rms = map(estimate, STATISTICS)
    largest = float(whole.distances[group].max(axis=1).mean()) / whole.diameter
    by_chance = float(chance.mean()) / whole.diameter
    return NearError(group, *mean, *median, *q95, largest, *rms, by_chance)


def beside(error: NearError, held_out: HeldOut | None) -> NearError:
    """With the ladder's own error of the group, if it has one."""
    if held_out is None:
        return error
    value = held_out.error
    interval = jackknife_interval(value, held_out.leave_one_out(), floor=0.0)
    return replace(error, held_out=value, held_out_interval=interval)


def gained(
    whole: Measured,
    rest: Sequence[Measured],
    chance: Mapping[str, Array],
    searched: Array | None = None,
) -> Efficiency | None:
    """None without a permutation; without a value if a rigid map gains nothing on it."""
    if "permutation" not in whole.distances:
        return None
    start, end, ica = (
        np.array([measured.distances[group].mean() for measured in (whole, *rest)])
        for group in ("permutation", "rigid", ICA_AXES)
    )
    chaos = 0.0 if searched is None else _variance(searched)
    interval = ratio_interval(start - ica, start - end, chaos)
    if interval is None or not start[0] > end[0]:
        return Efficiency(None, None, None, None, None)
    others = chance[ICA_AXES], whole.distances[TURNED], whole.distances[DIFFERENT_ROWS]
    value, *controls = (
        ica_efficiency(float(start[0]), float(end[0]), float(error))
        for error in (ica[0], *(other.mean() for other in others))
    )
    return Efficiency(value, interval, *controls)


def ratio_interval(above: Array, below: Array, more: float = 0.0) -> Interval | None:
    """Fieller's interval (1954) for a ratio; None if what is below may be 0, and it is unbounded.

    All θ for which the jackknife's interval of above − θ below has 0 in it.

    Parameters
    ----------
    above, below : arrays (1 + F,)
        From all rows, and then without each of F runs.
    more : float
        Variance of what is above the line that comes from elsewhere.
    """
    runs = len(above) - 1
    values = np.array([above[0], below[0]])
    spread = np.stack([above[1:] - above[1:].mean(), below[1:] - below[1:].mean()])
    variance = (runs - 1) / runs * spread @ spread.T
    variance[0, 0] += more
    (a, b), (_, c) = np.outer(values, values) - _quantile(runs) ** 2 * variance
    if not c > 0:
        return None
    root = np.sqrt(max(b * b - a * c, 0.0))
    return float((b - root) / c), float((b + root) / c)


def _variance(values: Array) -> float:
    return float(values.var(ddof=1))


def _quantile(runs: int) -> float:
    """Student's, for an interval of 95 % from so many runs."""
    from scipy.special import stdtrit

    return float(stdtrit(runs - 1, 0.975))
