"""Importances by the lasso, computed for many columns at once from inner products alone."""

from __future__ import annotations

from operator import attrgetter

import numpy as np

from identikit._linalg import Array
from identikit.factors._importance import Importances, Settings
from identikit.factors._linear import Sums, explained, labelled_sums
from identikit.factors._metric import Trial
from identikit.factors._probe import fitted
from identikit.factors._resample import Rows, in_sample, pooled
from identikit.factors._result import IN_SAMPLE

#: The penalties of Carbonneau et al. 2022, largest first: each fit starts from the previous one.
PENALTIES = (1.0, 0.8, 0.4, 0.2, 0.1, 0.01, 0.001, 0.0001)
SWEEPS, CLOSE = 500, 1e-7


def lasso(cov: Array, cross: Array, penalty: float, start: Array | None = None) -> Array:
    """argmin_b ½ bᵀ C b − bᵀ c + α ‖b‖₁ for every column c of `cross`, by coordinate descent.

    `cov` (L, L) is the covariance C of the codes, `cross` (L, Q) their covariances with the Q
    columns, and `penalty` is α.
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


def importances_of_lasso(trial: Trial, settings: Settings) -> Importances:
    """Absolute coefficients for columns of variance 1, and R²; the published version is in sample.

    For fold f the penalty of each factor is the one that does best on fold f + 1 when fitted on the
    other three; the final fit uses all four.
    """
    if settings.where == IN_SAMPLE:
        return Importances.of(trial.refit(_published, in_sample, values=attrgetter("values")))
    blocks = labelled_sums(trial)
    weights, over, under = blocks.each(_held_out)
    scores, without = pooled(over, under)
    fits, null = weights[:, :, 0], np.moveaxis(weights[:, :, 1:], 2, 0)
    return Importances(fits, fits, null, scores, without, blocks.rows)


def _held_out(sums: Sums) -> tuple[Array, Array, Array]:
    """|b| fitted without each fold (F, L, Q), and the fold's explained and total squares (F, Q)."""
    found = []
    for inner, check, train, test in sums.nested():
        best, scores = np.zeros_like(train.zs), np.full(train.zs.shape[2], -np.inf)
        slopes = final = None
        for penalty in PENALTIES:
            slopes = lasso(inner.cov_zz[0], inner.cov_zs[0], penalty, slopes)
            final = lasso(train.cov_zz[0], train.cov_zs[0], penalty, final)
            score = explained(inner, check, slopes[None])[0][0]
            better = score > scores
            best[0][:, better], scores[better] = final[:, better], score[better]
        over, under = explained(train, test, best)
        found.append((np.abs(best[0]), over[0], under[0]))
    weights, won, total = (np.array(each) for each in zip(*found))
    return weights, won, total


def _published(z: Array, values: Array, train: Rows, _: Rows) -> Array:
    from sklearn.linear_model import LassoCV

    z, values = _unit_range(z[train]), _unit_range(values[train])
    model = fitted(LassoCV(alphas=PENALTIES, cv=min(10, len(z))), z, values)
    error = float(np.mean((model.predict(z) - values) ** 2))
    return np.append(np.abs(model.coef_), max(1.0 - 12.0 * error, 0.0))


def _unit_range(values: Array) -> Array:
    low, high = values.min(axis=0), values.max(axis=0)
    return np.asarray((values - low) / np.where(high > low, high - low, 1.0))
