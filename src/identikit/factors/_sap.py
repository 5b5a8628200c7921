"""Separated attribute predictability (SAP)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from identikit._linalg import Array, inverse_or_zero
from identikit.factors._factor import DISCRETE
from identikit.factors._information import Counts, default_bins, tables
from identikit.factors._linear import Sums, correlations, labelled_sums
from identikit.factors._metric import Trial, check_noise, metric
from identikit.factors._probe import fitted
from identikit.factors._resample import Rows, one_split, pooled, ratio
from identikit.factors._result import ONE_SPLIT, Score


@metric(
    "SAP",
    "Does one code predict a factor better than any other code does?",
    invariant_to="signed permutation and scale per code",
    reference="Kumar et al. 2018",
    permutations=(50, 5),
    place=41,
)
def sap(trial: Trial, *, bins: int | None = None, noise: float = 0.0) -> Score:
    """Mean over factors of the best single code's score minus that of the second best.

    For a continuous factor, the score of a code is the R² of a linear regression on it. For a
    discrete factor it is the class-balanced accuracy of predicting, in each of the code's bins of
    equal frequency, the most frequent class. Regressions, predicted classes and the choice of the
    two codes come from other rows than the scores. preset="reference" (disentanglement_lib) takes
    the accuracy of LinearSVC(C=0.01, class_weight="balanced"), fitted on two thirds of the rows and
    scored on the rest (at most 10,000 and 5,000 rows), and for continuous factors the squared
    correlation on the rows of the fit; it chooses the two codes by the scores themselves.

    Parameters
    ----------
    bins, noise
        As in `mig`; the reference does not use them.

    Examples
    --------
    >>> s = np.random.default_rng(0).integers(2, size=(1000, 2))
    >>> round(sap(s, s).value, 1)
    0.5
    """
    check_noise(noise)
    trial.needs_folds()
    if trial.reference:
        fits = trial.refit(_published(trial.data.seed), one_split)
        scores, rest = (each.swapaxes(-1, -2) for each in fits.means())
        part, matrix, n = trial.mean_part("SAP", gaps(scores), gaps(rest)), scores[0], fits.rows
        words = "LinearSVC, one code at a time; squared correlation of continuous factors."
    else:
        bins, n = bins or default_bins(trial.data.rows), None
        values, without, matrix = _held_out(trial, bins, noise)
        part = trial.mean_part("SAP", values, without)
        words = f"Lines, and classes in {bins} bins of equal frequency."
    return trial.score(
        part,
        words,
        ONE_SPLIT if trial.reference else None,
        rows=n,
        matrix=matrix,
        matrix_of="score of one code",
    )


def gaps(scores: Array) -> Array:
    """Best minus second best score for every factor; codes are the last axis but one."""
    ordered = np.sort(scores, axis=-2)
    return ordered[..., -1, :] - (ordered[..., -2, :] if scores.shape[-2] > 1 else 0.0)


def _held_out(trial: Trial, bins: int, noise: float) -> tuple[Array, Array, Array]:
    """Gaps (1 + P, K), gaps for the true order without each fold (F, K), and scores (L, K)."""
    discrete = [factor for factor in trial.factors if factor.kind == DISCRETE]
    others = [factor for factor in trial.factors if factor.kind != DISCRETE]
    parts = []
    if discrete:
        parts.append(_by_bins(trial.only(discrete), bins, noise))
    if others:
        parts.append(_by_lines(trial.only(others)))
    found = []
    for train, over, under in parts:
        best = np.argsort(-train, axis=-2, kind="stable")
        top = np.take_along_axis(over, best, axis=-2)
        # A negative R² of the second code counts as 0.
        gap = top[..., 0, :] - (np.maximum(top[..., 1, :], 0.0) if top.shape[-2] > 1 else 0.0)
        found.append((*pooled(gap, under), ratio(over[:, 0].sum(0), under[:, 0].sum(0))))
    order = np.argsort([trial.factors.index(factor) for factor in discrete + others])
    values, without, matrix = (np.concatenate(each, axis=-1)[..., order] for each in zip(*found))
    return values, without, matrix


def _by_bins(trial: Trial, bins: int, noise: float) -> tuple[Array, Array, Array]:
    """Train accuracy, test accuracy × rows (F, 1 + P, L, K), and the number of test rows."""
    train, test, rows = [], [], []
    for every in tables(trial, bins, noise):
        scores = [_accuracies(counts) for counts in every]
        train.append([score[0] for score in scores])
        test.append([score[1] for score in scores])
        rows.append([counts[:, 0].sum((1, 2)) for counts in every])
    under = np.array(rows, dtype=np.float64).transpose(2, 0, 1)
    fits, hits = (np.array(each).transpose(2, 0, 3, 1) for each in (train, test))
    return fits, hits * under[:, :, None], under


def _accuracies(counts: Counts) -> list[Array]:
    """Class-balanced accuracy (F, L) of each bin's majority class, on train and on test rows."""
    balanced = [_balanced(each) for each in (counts.sum(0) - counts, counts)]
    predicted = np.argmax(balanced[0], axis=-1)[..., None]
    return [np.take_along_axis(each, predicted, -1).sum((-2, -1)) for each in balanced]


def _balanced(counts: Counts) -> Array:
    """Counts reweighted so that all classes that occur have the same weight and the sum is 1."""
    weights = inverse_or_zero(counts.sum(-2, dtype=np.float64))
    return np.asarray(counts * (weights / (weights > 0).sum(-1, keepdims=True))[..., None, :])


def _by_lines(trial: Trial) -> tuple[Array, Array, Array]:
    """R² of linear fits on train rows, and explained and total squared deviations of test rows."""

    def lines(test: Sums) -> tuple[Array, Array, Array]:
        train = test.without_each()
        spread = [np.einsum("fll->fl", sums.cov_zz)[..., None] for sums in (train, test)]
        slope = train.cov_zs * inverse_or_zero(np.maximum(spread[0], 0.0))
        moved = (test.mean_z - train.mean_z)[..., None]
        shift = (test.mean_s - train.mean_s)[:, None] - slope * moved
        won = 2 * slope * test.cov_zs - slope**2 * spread[1] - shift**2
        n = test.n[:, None]
        return correlations(train) ** 2, n[..., None] * won, n * test.var_s

    fits, over, under = labelled_sums(trial).each(lines)
    # In the sums the axis of codes is before that of permutations; here it is after it.
    return fits.swapaxes(1, 2), over.swapaxes(1, 2), under


def _published(seed: int) -> Any:
    """A function that scores every code for one factor; integer values are classes."""
    from sklearn.svm import LinearSVC

    def scores(z: Array, values: NDArray[Any], train: Rows, test: Rows) -> Array:
        if values.dtype.kind != "i":
            centred = z[train] - z[train].mean(0)
            target = values[train] - values[train].mean()
            return ratio((target @ centred) ** 2, (centred**2).sum(0) * (target @ target))
        if len(np.unique(values[train])) < 2:  # a single class: nothing to learn
            return np.full(z.shape[1], float(np.mean(values[test] == values[train[0]])))
        found = []
        for code in z.T:
            machine = LinearSVC(C=0.01, class_weight="balanced", random_state=seed)
            fitted(machine, code[train, None], values[train])
            found.append(np.mean(machine.predict(code[test, None]) == values[test]))
        return np.array(found)

    return scores
