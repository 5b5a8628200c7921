"""How a map is fitted to the moments of two views, and what its error on new rows is."""

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

#: Below this error there is nothing to correct.
EXACT = 1e-4


def best_map(
    rung: Rung,
    moments: Moments,
    i: int = 0,
    j: int = 1,
    ridge: float | None = None,
    without: int | None = None,
) -> tuple[Array, Array]:
    """The map y ≈ x W + b of a rung that fits best, in the views' own coordinates.

    Both views are in the units of the moments.

    Parameters
    ----------
    rung : Rung
        One that has maps between views of these widths.
    moments : Moments
    i, j : int
        The source and the target.
    ridge : float, optional
        The strength of a ridge, chosen by itself if it is negative; see `AlignmentMap`.
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
    """A map between the views themselves, from one in the units of the moments."""
    source, target = moments.units[i], moments.units[j]
    if source != target and rung.keeps_scale:
        raise InputError(
            f"views {moments.names[i]!r} and {moments.names[j]!r} differ in size by more than "
            f"1e100, and a map of the rung {rung.name!r} keeps the scale; rescale one of them, or "
            "ask for another rung"
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

    Maps fitted without a fold had fewer rows. Least squares of rank r on n rows misses
    σ² (1 + r/(n − r − 1)) of new ones, so the held-out error is scaled from the rows that the maps
    had to all of them. For other maps Burman (1989) corrects it: added is what the map of all rows
    misses of all rows, less what the maps of parts miss of all rows on average.

    Parameters
    ----------
    rung, moments, i, j, ridge
        As of `best_map`.
    held_out : HeldOut
        Of maps fitted without a fold.
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
    """Errors of maps fitted without a fold."""
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
    """The strength: None for no ridge, −1 for one chosen by itself."""
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
            f"ridge is {ridge}, but a map of the rung {rung.name!r} has none: only linear and "
            "affine maps have"
        )
    return float(ridge)
