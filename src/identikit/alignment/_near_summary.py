"""What is said of distances: means, quantiles and intervals, and how much ICA gains."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from identikit._linalg import Array
from identikit.alignment._ladder import HeldOut
from identikit.alignment._near_result import Efficiency, Interval, NearError
from identikit.alignment._near_split import Runs
from identikit.inference import jackknife_interval

Statistic = Callable[[Array], Array]

ICA_AXES, DIFFERENT_ROWS, TURNED = "ica", "ica, different rows", "random rotation"


def ica_efficiency(permutation: float, rigid: float, ica: float) -> float:
    """(e_perm − e_ICA)/(e_perm − e_rigid): the part of the gap that ICA closes.

    >>> round(ica_efficiency(permutation=0.197, rigid=0.109, ica=0.145), 2)
    0.59
    """
    return (permutation - ica) / (permutation - rigid)


@dataclass(frozen=True, eq=False)
class _Estimate:
    """A value, and its values without each run of rows."""

    value: float
    rest: Array

    @property
    def interval(self) -> Interval:
        """By the jackknife; for what is not negative."""
        return jackknife_interval(self.value, self.rest, floor=0.0)


def _estimate(statistic: Statistic, distances: Array, runs: Runs) -> _Estimate:
    """A statistic of each draw's distances, averaged over the draws."""
    rest = [statistic(distances[:, runs != run]).mean() for run in np.unique(runs)]
    return _Estimate(float(statistic(distances).mean()), np.array(rest))


def summarise(group: str, distances: Array, chance: Array, runs: Runs) -> NearError:
    """Of one group's distances (draws, scored rows), over the diameter, and those by chance."""
    mean, median, q95, rms = (
        _estimate(statistic, distances, runs)
        for statistic in (
            lambda d: d.mean(axis=1),
            lambda d: np.median(d, axis=1),
            lambda d: np.quantile(d, 0.95, axis=1),
            lambda d: np.sqrt((d**2).mean(axis=1)),
        )
    )
    return NearError(
        group,
        mean.value,
        mean.interval,
        median.value,
        median.interval,
        q95.value,
        q95.interval,
        float(distances.max(axis=1).mean()),
        rms.value,
        rms.interval,
        float(chance.mean()),
    )


def beside(error: NearError, held_out: HeldOut | None) -> NearError:
    """With the ladder's own error of the group, if it has one."""
    if held_out is None:
        return error
    value = held_out.error
    interval = jackknife_interval(value, held_out.leave_one_out(), floor=0.0)
    return replace(error, held_out=value, held_out_interval=interval)


def gained(
    found: Mapping[str, Array], chance: Mapping[str, Array], runs: Runs
) -> Efficiency | None:
    """None without a permutation; without a value if a rigid map gains nothing on it."""
    if "permutation" not in found:
        return None
    start, end, ica = (
        _estimate(lambda d: d.mean(axis=1), found[group], runs)
        for group in ("permutation", "rigid", ICA_AXES)
    )
    if not jackknife_interval(start.value - end.value, start.rest - end.rest)[0] > 0:
        return Efficiency(None, None, None, None, None)
    others = (chance[ICA_AXES], found[TURNED], found[DIFFERENT_ROWS])
    value, *beside = (
        ica_efficiency(start.value, end.value, float(other.mean()))
        for other in (found[ICA_AXES], *others)
    )
    rest = [ica_efficiency(*each) for each in zip(start.rest, end.rest, ica.rest)]
    return Efficiency(value, jackknife_interval(value, np.array(rest)), *beside)
