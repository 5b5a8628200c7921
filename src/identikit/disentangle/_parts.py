"""From values over folds and permutations to the number that is reported."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from identikit._linalg import Array
from identikit.disentangle._permute import FOLDS
from identikit.disentangle._result import Chance, Interval, Part


def mean_part(
    name: str, values: Array, without: Array, titles: Sequence[str], least: float = -np.inf
) -> Part:
    """A mean over factors.

    Parameters
    ----------
    name : str
    values : array (1 + P, K)
        One a factor, in the true order of rows and in permuted ones.
    without : array (F, K)
        In the true order, without each fold.
    titles : sequence of str
        The factors' names.
    least : float
        The least value possible.
    """
    mean = values.mean(-1)
    return Part(
        name,
        float(mean[0]),
        interval_of(float(mean[0]), without.mean(-1), least),
        chance_of(mean[1:]),
        named(titles, values[0]),
    )


def interval_of(value: float, without: Array, least: float = -np.inf) -> Interval | None:
    """95 % jackknife interval from the values without each fold; None with fewer than two.

    Cut off at the least value possible, and at 1.
    """
    from identikit.inference import jackknife_interval

    if len(without) < 2:
        return None
    low, high = jackknife_interval(value, without, floor=least)
    return low, max(min(high, 1.0), value)


def chance_of(null: Array) -> Chance | None:
    """The mean and the 95 % range of a value over permutations of the rows; None of none."""
    if not len(null):
        return None
    low, high = np.quantile(null, (0.025, 0.975))
    return Chance(float(null.mean()), (float(low), float(high)), len(null))


def named(names: Sequence[str], values: Array) -> dict[str, float]:
    """Values by name, as plain numbers."""
    return dict(zip(names, map(float, values), strict=True))


def method(what: str, permutations: int, *, held_out: bool) -> str:
    """How a score, its interval and its chance level came to be, in words."""
    where = f"Held out over {FOLDS} folds" if held_out else "In sample"
    chance = f" Chance: {permutations} permutations of rows." if permutations else ""
    return f"{what} {where}; interval by the jackknife over {FOLDS} folds.{chance}"
