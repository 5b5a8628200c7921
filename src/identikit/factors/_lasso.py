"""Importances by the lasso, for many columns at once from inner products alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from identikit._linalg import Array
from identikit.factors._data import Data
from identikit.factors._factor import Factor
from identikit.factors._importance import Importances, Settings
from identikit.factors._linear import Sums, explained, gathered_each, labelled_sums
from identikit.factors._permute import folds, inside, orders, pooled
from identikit.factors._probe import fitted
from identikit.factors._result import IN_SAMPLE
from identikit.moments import FOLDS

#: Those of Carbonneau et al. 2022, largest first, so that each starts from the last.
PENALTIES = (1.0, 0.8, 0.4, 0.2, 0.1, 0.01, 0.001, 0.0001)
SWEEPS, CLOSE = 500, 1e-7


def lasso(cov: Array, cross: Array, penalty: float, start: Array | None = None) -> Array:
    """argmin_b ½ bᵀ C b − bᵀ c + α ‖b‖₁ for every column c of `cross`, by coordinate descent.

    Parameters
    ----------
    cov : array (L, L)
        Covariance C of the codes.
    cross : array (L, Q)
        Covariances c of codes and columns.
    penalty : float
        α.
    start : array (L, Q), optional
        Where to start from.
    """
    found = np.zeros_like(cross) if start is None else start.copy()
    diagonal = np.diagonal(cov)
    moving = np.ones(cross.shape[1], dtype=bool)
    for _ in range(SWEEPS):
        some, target = found[:, moving], cross[:, moving]
        largest = np.zeros(some.shape[1])
        for place in np.flatnonzero(diagonal > 1e-12):
            old = some[place].copy()
            pull = target[place] - cov[place] @ some + diagonal[place] * old
            some[place] = np.sign(pull) * np.maximum(np.abs(pull) - penalty, 0) / diagonal[place]
            np.maximum(largest, np.abs(some[place] - old), out=largest)
        found[:, moving] = some
        moving[np.flatnonzero(moving)[largest < CLOSE]] = False
        if not moving.any():
            break
    return found


def held_out_lasso(
    data: Data, scored: Sequence[Factor], count: int
) -> tuple[Array, Array, Array, int]:
    """|b| without each fold (F, 1 + P, L, K), explained and all squared deviations within, rows.

    Codes and factors have variance 1. For fold f the penalty of each factor is the one that does
    best on fold f + 1 when fitted on the other three; then all four are fitted.
    """
    blocks, rows = labelled_sums(data, scored, count)
    parts = []
    for places, sums in blocks:
        found = [_fold(sums, fold) for fold in range(FOLDS)]
        parts.append((places, tuple(np.array(each) for each in zip(*found))))
    weights, over, under = gathered_each(parts, len(scored))
    return weights.swapaxes(1, 2), over, under, rows


def _fold(sums: Sums, fold: int) -> tuple[Array, Array, Array]:
    between = (fold + 1) % FOLDS
    inner = sums.some([f for f in range(FOLDS) if f not in (fold, between)])
    check, test = sums.some([between]), sums.some([fold])
    train = sums.some([f for f in range(FOLDS) if f != fold])
    best, scores = np.zeros_like(train.zs), np.full(train.zs.shape[2], -np.inf)
    slopes = final = None
    for penalty in PENALTIES:
        slopes = lasso(inner.cov_zz[0], inner.cov_zs[0], penalty, slopes)
        final = lasso(train.cov_zz[0], train.cov_zs[0], penalty, final)
        score = explained(inner, check, slopes[None])[0][0]
        better = score > scores
        best[0][:, better], scores[better] = final[:, better], score[better]
    over, under = explained(train, test, best)
    return np.abs(best[0]), over[0], under[0]


def importances_of_lasso(
    data: Data, scored: Sequence[Factor], settings: Settings, count: int
) -> Importances:
    """Absolute coefficients of columns of variance 1, and R²; in sample as published."""
    if settings.where == IN_SAMPLE:
        return _published_lasso(data, scored, count)
    weights, over, under, rows = held_out_lasso(data, scored, count)
    scores, without = pooled(over, under)
    fits, null = weights[:, 0], weights[:, 1:].swapaxes(0, 1)
    return Importances(fits, fits, null, scores, without[:, 0], rows)


def _published_lasso(data: Data, scored: Sequence[Factor], count: int) -> Importances:
    shape = data.codes.shape[1], len(scored)
    fits, scores = np.empty((1 + count, 1, *shape)), np.empty((1 + count, shape[1]))
    without, apart = np.empty((FOLDS, *shape)), np.empty((FOLDS, shape[1]))
    most = 0
    for place, factor in enumerate(scored):
        ((z, _, _),) = data.blocks([factor])
        most = max(most, len(z))
        for order, rows in enumerate(orders(len(z), count, data.seed)):
            fits[order, 0, :, place], scores[order, place] = _in_sample(z, factor.values[rows])
        for fold, part in enumerate(folds(len(z))):
            rest = ~inside(len(z), part)
            found = _in_sample(z[rest], factor.values[rest])
            without[fold, :, place], apart[fold, place] = found
    return Importances(fits[0], without, fits[1:], scores, apart, most)


def _in_sample(z: Array, values: Array) -> tuple[Array, float]:
    from sklearn.linear_model import LassoCV

    z, values = _unit_range(z), _unit_range(values)
    model = fitted(LassoCV(alphas=PENALTIES, cv=min(10, len(z))), z, values)
    error = float(np.mean((model.predict(z) - values) ** 2))
    return np.abs(model.coef_), max(1.0 - 12.0 * error, 0.0)


def _unit_range(values: Array) -> Array:
    low, high = values.min(axis=0), values.max(axis=0)
    return np.asarray((values - low) / np.where(high > low, high - low, 1.0))
