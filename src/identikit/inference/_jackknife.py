"""Intervals by the delete-one-fold jackknife."""

from __future__ import annotations

import numpy as np

from identikit._linalg import Array


def jackknife_interval(
    value: float, leave_one_out: Array, floor: float = -np.inf, level: float = 0.95
) -> tuple[float, float]:
    """Confidence interval for a value, from the values without each of the F folds.

    value ± t_{F−1} sqrt((F−1)/F Σ_f (v_(f) − v̄)²), cut off at `floor`. The interval is valid if
    rows in different folds are independent. Use groups to put dependent rows into one fold.

    Parameters
    ----------
    value : float
        The value from all folds.
    leave_one_out : array (F,)
        The values from all folds but one.
    floor : float
        The smallest value possible.
    level : float
        Coverage probability.
    """
    from scipy.special import stdtrit  # Student's quantile; scipy.stats takes a second to import

    folds = len(leave_one_out)
    spread = leave_one_out - leave_one_out.mean()
    quantile = float(stdtrit(folds - 1, 0.5 + level / 2))
    half = quantile * float(np.sqrt((folds - 1) / folds * (spread @ spread)))
    return max(value - half, floor), value + half


def mean_of_folds(values: Array, level: float = 0.95) -> tuple[float, tuple[float, float]]:
    """Mean of one value per fold, and its jackknife interval."""
    mean = float(values.mean())
    rest = (values.sum() - values) / (len(values) - 1)
    return mean, jackknife_interval(mean, rest, level=level)
