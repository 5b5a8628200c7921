"""Fit a map to the moments of two views, and estimate its error on new rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from identikit._linalg import Array
from identikit.alignment._ladder import HeldOut, ladder
from identikit.alignment._ridge import choose_strength
from identikit.alignment._ridge import ridge as fit_ridge
from identikit.alignment._rungs import Rung
from identikit.alignment._stats import pair_stats, whitened_stats
from identikit.errors import InputError
from identikit.moments import Moments

#: A held-out error below this is not corrected.
EXACT = 1e-4


def best_map(
    rung: Rung,
    moments: Moments,
    i: int = 0,
    j: int = 1,
    ridge: float | None = None,
    without: int | None = None,
) -> tuple[Array, Array]:
    """The best map y ≈ x W + b of a rung, in the views' own coordinates.

    Both views are in the units of the moments.

    Parameters
    ----------
    rung : Rung
        One that has maps between views of these widths.
    moments : Moments
    i, j : int
        The source and the target.
    ridge : float, optional
        The strength of the ridge, or a negative number to choose it from the data; see
        `AlignmentMap`.
    without : int, optional
        A fold to leave out.
    """
    own = pair_stats(moments, i, j, without=without)
    if not rung.whitened:
        return rung.fit(own)
    strength = ridge or 0.0
    if strength < 0:
        strength = choose_strength(own, shift=rung.shift)
    if strength:
        return fit_ridge(own, strength, shift=rung.shift)
    stats, _ = whitened_stats(moments, i, j, without)
    weights, shift = rung.fit(stats)
    assert stats.white is not None
    weights = stats.white @ weights
    if not rung.shift and stats.constant is not None:
        weights, shift = weights + np.outer(stats.constant, shift), np.zeros_like(shift)
    return np.ascontiguousarray(weights), shift


def in_own_units(
    rung: Rung, moments: Moments, i: int, j: int, weights: Array, shift: Array
) -> tuple[Array, Array]:
    """Convert a map from the units of the moments to those of the views."""
    source, target = moments.units[i], moments.units[j]
    if source != target and rung.keeps_scale:
        raise InputError(
            f"views {moments.names[i]!r} and {moments.names[j]!r} differ in size by a factor of "
            f"more than 1e100, and a map of the rung {rung.name!r} keeps the scale; rescale one of "
            "them, or choose another rung"
        )
    with np.errstate(over="ignore"):
        weights, shift = np.ldexp(weights, target - source), np.ldexp(shift, target)
    if not (np.isfinite(weights).all() and np.isfinite(shift).all()):
        raise InputError(
            f"the map from {moments.names[i]!r} to {moments.names[j]!r} has numbers too large for "
            "float64; rescale one of the views"
        )
    return weights, shift


def own_error(
    rung: Rung, moments: Moments, i: int, j: int, ridge: float | None, held_out: HeldOut
) -> HeldOut:
    """Error on new rows of the map that is fitted on all rows, fold by fold.

    The held-out error is that of maps fitted without a fold, and so on fewer rows. Least squares
    of rank r on n rows has a squared error of σ² (1 + r/(n − r − 1)) on new rows, so the held-out
    error is rescaled from the number of rows that its maps were fitted on to the number of all
    rows. For other maps it is corrected as by Burman (1989): the squared error of the full map on
    all rows is added, and the average squared error on all rows of the maps that were fitted
    without a fold is subtracted.
    """
    folds = [fold for fold, part in enumerate(moments.parts) if part.count]
    if held_out.error < EXACT:
        return held_out
    if rung.whitened and not ridge:
        rank = moments.whiten(i).rank + rung.shift
        fewest = min(moments.n(without=fold) for fold in folds)
        if fewest <= rank + 2:
            return held_out
        most = 1 + rank / (moments.rows - rank - 1)
        factors = [1 + rank / (moments.n(without=fold) - rank - 1) for fold in folds]
        return replace(held_out, residual=held_out.residual * most / np.array(factors))
    tests = [pair_stats(moments, i, j, only=fold) for fold in folds]
    weights, shift = best_map(rung, moments, i, j, ridge)
    gain = np.array([test.squared_error(weights, shift) for test in tests])
    for fold, left_out in zip(folds, tests):
        weights, shift = best_map(rung, moments, i, j, ridge, fold)
        share = left_out.n / moments.rows
        gain -= share * np.array([test.squared_error(weights, shift) for test in tests])
    return replace(held_out, residual=np.maximum(held_out.residual + gain, 0.0))


def held_out_errors(
    rung: Rung, moments: Moments, i: int, j: int, strength: float | None
) -> HeldOut:
    """Held-out errors, fold by fold, of maps fitted on the other folds."""
    auto, _ = ladder(moments, i, j, (rung.name,))[rung.name]
    if strength is None or not rung.whitened:
        return replace(auto, residual=auto.residual if auto.unridged is None else auto.unridged)
    if strength < 0:
        return auto
    folds = [fold for fold, part in enumerate(moments.parts) if part.count]
    residual = [
        pair_stats(moments, i, j, only=fold).squared_error(
            *best_map(rung, moments, i, j, strength, fold)
        )
        for fold in folds
    ]
    return replace(auto, residual=np.array(residual))


def checked_ridge(ridge: object, rung: Rung) -> float | None:
    """The strength: None for no ridge, −1 for one that is chosen from the data."""
    if ridge is None:
        return None
    if ridge == "auto":
        return -1.0
    if (
        isinstance(ridge, bool | str)
        or not isinstance(ridge, float | int)
        or not 0 <= ridge < np.inf
    ):
        raise InputError(f'ridge is {ridge!r}; give "auto", None, or a number that is not negative')
    if not rung.whitened and ridge:
        raise InputError(
            f"ridge is {ridge}, but a map of the rung {rung.name!r} has no ridge: only linear and "
            "affine maps can have one"
        )
    return float(ridge)
