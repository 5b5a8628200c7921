"""Held-out errors of the ladder's maps, from moments alone."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from identikit._linalg import Array
from identikit._threads import in_threads
from identikit.alignment._ridge import choose_strength, ridge
from identikit.alignment._rungs import RUNGS, Rung
from identikit.alignment._stats import PairStats, pair_stats, whitened_stats
from identikit.errors import InputError
from identikit.moments import Moments

#: Rows per column that are needed to separate the error of least squares from sampling error.
ROWS_FOR_LIMIT = 2


@dataclass(frozen=True)
class HeldOut:
    """Held-out squared error of a rung's best map, fold by fold, in one direction.

    `residual[f]` is Σ ‖y − h(x)‖² over fold f with h fitted on the other folds. `total[f]` is
    Σ ‖y − ȳ‖² over fold f, where ȳ is the mean of the other folds: it is held out like the
    residual, and the same for every rung. The mean of all rows would leak information about the
    fold, which matters where a few rows make up most of the scatter. Where there were so few rows
    that a ridge was used, `strength` is its strength (the median over folds, see `ridge`), and
    `unridged` holds the residuals without it. `limit` holds the residuals in the limit of a fit on
    infinitely many rows, where that limit is known (see `in_the_limit`).
    """

    residual: Array
    total: Array
    strength: float = 0.0
    unridged: Array | None = None
    limit: Array | None = None

    @property
    def error(self) -> float:
        """sqrt(Σ‖y − h(x)‖² / Σ‖y − ȳ‖²): 0 for an exact map, 1 for no better than the mean."""
        return float(np.sqrt(self.residual.sum() / self.total.sum()))

    def leave_one_out(self) -> Array:
        """The error with each fold left out in turn, for the jackknife."""
        residual, total = self.residual.sum() - self.residual, self.total.sum() - self.total
        errors: Array = np.sqrt(np.maximum(residual, 0.0) / total)
        return errors

    @property
    def without_ridge(self) -> float | None:
        """The error of plain least squares; None if no ridge was used."""
        return None if self.unridged is None else replace(self, residual=self.unridged).error


def in_the_limit(held_out: float, scored_rows: int, within: float, fitted_rows: int) -> float:
    """The squared error on new rows in the limit of a fit on infinitely many rows.

    A fit of p parameters to n rows has a squared error that is too small by a share of about p/n
    on these rows, and too large by about as much on new rows; in the geometric mean of the two,
    this effect of sampling cancels. For least squares with Gaussian rows it does so exactly,
    (1 − p/n) · (1 + p/(n − p)) = 1, unless rows are very few; for other fits, to first order.

    Parameters
    ----------
    held_out, within : float
        Squared errors of a fit on new rows, and on those that it was fitted to.
    scored_rows, fitted_rows : int
        The numbers of these rows.
    """
    return math.sqrt(held_out * within * scored_rows / fitted_rows)


def ladder(
    moments: Moments, i: int = 0, j: int = 1, names: tuple[str, ...] | None = None
) -> dict[str, tuple[HeldOut, HeldOut]]:
    """Held-out error of the best map of each rung, from view i to view j and back.

    Rungs that have no map between views of these widths are absent from the result.

    Parameters
    ----------
    moments : Moments
        The statistics of the rows, in at least two folds.
    i, j : int
        The two views.
    names : tuple of str, optional
        The rungs to compute; all by default.
    """
    folds = [fold for fold, part in enumerate(moments.parts) if part.count]
    if len(folds) < 2:
        raise InputError("a held-out error needs at least two folds with rows in them")
    rungs = applicable(moments.widths[i], moments.widths[j], names)
    whole = [totals(moments, view, folds) for view in (j, i)]
    for view in (i, j):
        if not moments.varies(view):
            raise InputError(
                f"view {moments.names[view]!r} is constant: all its rows are the same, up to the "
                "rounding of the type they are stored in, so there is nothing to explain; leave it "
                "out, or store it at a higher precision"
            )

    def of_fold(fold: int) -> tuple[dict[str, Scored], dict[str, Scored]]:
        train, test = pair_stats(moments, i, j, without=fold), pair_stats(moments, i, j, only=fold)
        forward = _fold_errors(rungs, train, test, moments, i, j, fold)
        backward = _fold_errors(rungs, train.reversed(), test.reversed(), moments, j, i, fold)
        moments.without(fold).release()
        return forward, backward

    pair = moments.block(i, j)  # makes the moments remember what belongs to this pair
    found = [*in_threads(of_fold, folds, max(pair.shape))]
    return {
        rung.name: (
            _held_out([forward[rung.name] for forward, _ in found], whole[0]),
            _held_out([backward[rung.name] for _, backward in found], whole[1]),
        )
        for rung in rungs
    }


def _held_out(folds: list[Scored], total: Array) -> HeldOut:
    residual = np.array([fold.residual for fold in folds])
    unridged = np.array([fold.unridged for fold in folds])
    strength = float(np.median([fold.strength for fold in folds]))
    limit = np.array([fold.limit for fold in folds])
    ridged, known = any(fold.strength for fold in folds), not np.isnan(limit).any()
    return HeldOut(
        residual, total, strength, unridged if ridged else None, limit if known else None
    )


def applicable(p: int, q: int, names: tuple[str, ...] | None = None) -> list[Rung]:
    """The rungs that have maps between views of p and q columns, strictest first."""
    for name in names or ():
        if name not in RUNGS:
            raise InputError(f"there is no rung {name!r}; the rungs are {', '.join(RUNGS)}")
    return [
        rung
        for rung in RUNGS.values()
        if (p == q or not rung.of_axes) and (names is None or rung.name in names)
    ]


def totals(moments: Moments, view: int, folds: list[int]) -> Array:
    """Σ ‖y − ȳ‖² over each fold of a view, where ȳ is the mean of the other folds."""
    sums = []
    for fold in folds:
        gap = moments.centre(view, only=fold) - moments.centre(view, without=fold)
        scatter = np.trace(moments.block(view, view, only=fold))
        sums.append(float(scatter) + moments.n(only=fold) * float(gap @ gap))
    return np.array(sums)


class Scored(NamedTuple):
    """Squared error on one fold of a map fitted on the other folds, with and without its ridge."""

    residual: float
    strength: float
    unridged: float
    limit: float


def _fold_errors(
    rungs: list[Rung],
    train: PairStats,
    test: PairStats,
    moments: Moments,
    i: int,
    j: int,
    fold: int,
) -> dict[str, Scored]:
    """Squared error on one fold of every rung's map, fitted on the other folds."""
    own = train, test
    white = whitened_stats(moments, i, j, fold) if any(r.whitened for r in rungs) else own
    errors = {}
    for rung in rungs:
        fitted_on, scored_on = white if rung.whitened else own
        fit = rung.fit(fitted_on)
        fitted = scored_on.scaled(fit[0]) if rung.keeps_shape and train.rotates else None
        error = plain = scored_on.squared_error(*fit, fitted)
        strength, limit = choose_strength(train, shift=rung.shift) if rung.whitened else 0.0, np.nan
        if strength:
            error = test.squared_error(*ridge(train, strength, shift=rung.shift))
        if rung.whitened and fitted_on.n >= ROWS_FOR_LIMIT * len(fitted_on.sxy):
            limit = in_the_limit(plain, scored_on.n, fitted_on.squared_error(*fit), fitted_on.n)
        errors[rung.name] = Scored(error, strength, plain, limit)
    return errors
