"""Held-out errors of the ladder's maps, from moments alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from identikit._linalg import Array
from identikit.alignment._groups import GROUPS, Group
from identikit.alignment._stats import PairStats, pair_stats, whitened_stats
from identikit.errors import InputError
from identikit.moments import Moments


@dataclass(frozen=True)
class HeldOut:
    """Held-out squared error of a group's best map, fold by fold, in one direction.

    `residual[f]` is Σ ‖y − h(x)‖² over fold f with h fitted on the other folds, `total[f]` is
    Σ ‖y − E y‖².
    """

    residual: Array
    total: Array

    @property
    def error(self) -> float:
        """sqrt(E‖y − h(x)‖² / E‖y − E y‖²): 0 is the same, 1 is no better than the mean."""
        return float(np.sqrt(self.residual.sum() / self.total.sum()))

    def leave_one_out(self) -> Array:
        """The error without each fold, for the jackknife."""
        residual, total = self.residual.sum() - self.residual, self.total.sum() - self.total
        errors: Array = np.sqrt(np.maximum(residual, 0.0) / total)
        return errors


def ladder(
    moments: Moments, i: int = 0, j: int = 1, groups: tuple[str, ...] | None = None
) -> dict[str, tuple[HeldOut, HeldOut]]:
    """Held-out error of the best map in each group, from view i to view j and back.

    Groups that have no map between views of these widths are absent.

    Parameters
    ----------
    moments : Moments
        Of at least two folds.
    i, j : int
        The two views.
    groups : tuple of str, optional
        Names of the groups wanted; all by default.
    """
    folds = [fold for fold, part in enumerate(moments.parts) if part.count]
    if len(folds) < 2:
        raise InputError("a held-out error needs at least two folds with rows in them")
    rungs = applicable(moments.widths[i], moments.widths[j], groups)
    totals = [_totals(moments, view, folds) for view in (j, i)]
    for view in (i, j):
        if not moments.varies(view):
            raise InputError(
                f"view {moments.names[view]!r} is constant: all its rows are the same, so there is "
                "nothing to explain; leave it out"
            )
    residuals = {rung.name: np.zeros((2, len(folds))) for rung in rungs}
    for position, fold in enumerate(folds):
        train, test = pair_stats(moments, i, j, without=fold), pair_stats(moments, i, j, only=fold)
        forward = _fold_errors(rungs, train, test, moments, i, j, fold)
        backward = _fold_errors(rungs, train.reversed(), test.reversed(), moments, j, i, fold)
        for rung in rungs:
            residuals[rung.name][:, position] = forward[rung.name], backward[rung.name]
    return {
        name: (HeldOut(both[0], totals[0]), HeldOut(both[1], totals[1]))
        for name, both in residuals.items()
    }


def applicable(p: int, q: int, names: tuple[str, ...] | None = None) -> list[Group]:
    """The groups, strictest first, that have maps between widths p and q."""
    for name in names or ():
        if name not in GROUPS:
            raise InputError(f"there is no group {name!r}; the groups are {', '.join(GROUPS)}")
    return [
        rung
        for rung in GROUPS.values()
        if (p == q or not rung.equal_widths) and (names is None or rung.name in names)
    ]


def _totals(moments: Moments, view: int, folds: list[int]) -> Array:
    """Squared distance of a view's rows from its overall mean, fold by fold."""
    centre, totals = moments.centre(view), []
    for fold in folds:
        gap = moments.centre(view, only=fold) - centre
        scatter = np.trace(moments.block(view, view, only=fold))
        totals.append(float(scatter) + moments.n(only=fold) * float(gap @ gap))
    return np.array(totals)


def _fold_errors(
    rungs: list[Group],
    train: PairStats,
    test: PairStats,
    moments: Moments,
    i: int,
    j: int,
    fold: int,
) -> dict[str, float]:
    """Squared error on one fold of the maps fitted on the others."""
    # Fewer rows than columns leave a rotation free where they do not vary, and test rows do.
    room = train.n - 1 < min(train.sxy.shape)
    own = {False: (train, test), True: (train.padded(room=room), test.padded(room=room))}
    white = whitened_stats(moments, i, j, fold) if any(r.whitened for r in rungs) else own[False]
    errors = {}
    for rung in rungs:
        fitted_on, scored_on = white if rung.whitened else own[rung.padded]
        errors[rung.name] = scored_on.squared_error(*rung.fit(fitted_on))
    return errors
