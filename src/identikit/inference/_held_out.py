"""Canonical correlations on rows that were not used to find the directions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from identikit._linalg import Array
from identikit._threads import in_threads
from identikit.errors import InputError
from identikit.inference._jackknife import mean_of_folds
from identikit.moments import Moments


@dataclass(frozen=True)
class HeldOutCCA:
    """Mean held-out canonical correlation, its interval, and the mean of each fold.

    The held-out mean underestimates the true value and in-sample CCA overestimates it, so that the
    two bracket it.
    """

    value: float
    interval: tuple[float, float]
    folds: Array


def held_out_cca(moments: Moments, i: int | str = 0, j: int | str = 1) -> HeldOutCCA | None:
    """CCA by cross-validation: directions from all folds but one, correlations on that fold.

    The result is None if a view has rank 0.

    Parameters
    ----------
    moments : Moments
        With at least two folds.
    i, j : int or str
        The two views.
    """
    i, j = moments.resolve(i), moments.resolve(j)
    folds = [fold for fold, part in enumerate(moments.parts) if part.count > 1]
    if len(folds) < 2:
        raise InputError("a held-out correlation needs at least two folds of two rows or more")
    if not all(moments.whiten(view, fold).rank for view in (i, j) for fold in folds):
        return None
    width = max(moments.widths[i], moments.widths[j])
    values = np.array([*in_threads(lambda fold: _fold(moments, i, j, fold), folds, width)])
    value, interval = mean_of_folds(values)
    return HeldOutCCA(value, interval, values)


def _fold(moments: Moments, i: int, j: int, fold: int) -> float:
    """Mean correlation on one fold of the canonical variates found on the others."""
    rest = moments.without(fold)
    left, _, right = rest.canonical(i, j)
    cross, x, y = (
        np.einsum("ac,ac->c", a, moments.coherence(p, q, fold, fold) @ b)
        for a, p, q, b in ((left, i, j, right.T), (left, i, i, left), (right.T, j, j, right.T))
    )
    rest.release()
    scale = np.sqrt(np.maximum(x * y, 0.0))
    r = np.divide(cross, scale, out=np.zeros_like(cross), where=scale > 0)
    return float(np.clip(r, -1.0, 1.0).mean())
