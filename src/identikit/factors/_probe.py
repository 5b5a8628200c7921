"""Logistic regression of a factor's classes on all codes: explicitness, and InfoE."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identikit._linalg import Array
from identikit._threads import one_thread
from identikit.factors._factor import DISCRETE, Factor
from identikit.factors._linear import held_out_fit, labelled_sums, standardised, whitened
from identikit.factors._metric import Refits, Trial, metric
from identikit.factors._resample import (
    TEST,
    TRAIN,
    Labels,
    Rows,
    held_out,
    in_sample,
    one_split,
    pooled,
    ranks,
)
from identikit.factors._result import ONE_SPLIT, Score

#: The most rows used, and the number of classes that a continuous factor is cut into.
ROWS = 10_000
CLASSES = 10
#: Number of permutations; each of them needs new fits.
PROBED = 10


@metric(
    "explicitness",
    "Can a linear classifier read each factor off the codes?",
    invariant_to="invertible affine maps",
    reference="Ridgeway and Mozer 2018",
    permutations=(PROBED, 5),
    place=43,
)
def explicitness(trial: Trial) -> Score:
    """Mean over factors and classes of the area under the ROC curve, one class against the rest.

    The classifier is a logistic regression with a small ridge on whitened codes, scored on held-out
    rows; chance is 0.5. Continuous factors are cut into 10 classes of equal frequency. At most
    10,000 rows are used. preset="reference" (disentanglement_lib) fits codes that are not whitened,
    on two thirds of at most 15,000 rows.
    """
    trial.needs_folds()
    if trial.reference:
        found = trial.refit(_area, one_split, values=ten_classes)
        values, without = found.means()
        how, most = "fitted on two thirds of the rows", f"{TRAIN:,} + {TEST:,}"
    else:
        found = probed(trial)
        values, without = (each[..., 0] for each in found.means())
        how, most = "with a small ridge on whitened codes", f"{ROWS:,}"
    many = f"{CLASSES} classes of continuous factors"
    return trial.score(
        trial.mean_part("explicitness", values, without, 0.0),
        f"Logistic regression {how}; {many}; {most} rows at most.",
        ONE_SPLIT if trial.reference else None,
        rows=found.rows,
    )


def _area(z: Array, labels: Labels, train: Rows, test: Rows) -> float:
    classes = np.unique(labels[train])
    scored = test[np.isin(labels[test], classes)]
    if len(classes) < 2 or not len(scored):
        return 0.5
    shares = logistic(z[train], labels[train]).predict_proba(z[scored])
    return area(shares, np.searchsorted(classes, labels[scored]))


def ten_classes(factor: Factor) -> Labels:
    """The classes of a factor; a continuous one is cut into ten."""
    return factor.cut(CLASSES)


def probed(trial: Trial) -> Refits:
    """Held-out AUC, loss and prior loss of a probe for every factor, computed once.

    The AUC is the mean over classes of the one-against-rest area under the ROC curve, the loss the
    mean negative log-likelihood, and the prior loss that of the train rows' class frequencies.
    Codes are whitened, so that the ridge has the same effect for every invertible affine map of
    them. scikit-learn's C is the number of rows per code, so that the ridge matters with few rows
    and becomes negligible with many.
    """

    def make() -> Refits:
        def white(z: Array) -> Array:
            return whitened(z, trial.data.eps)

        return trial.refit(_held_out, held_out, most=ROWS, values=ten_classes, look=white)

    return trial.data.once(("probed", trial.permutations), make)


def logistic(z: Array, labels: Labels, **options: Any) -> Any:
    """scikit-learn's logistic regression."""
    from sklearn.linear_model import LogisticRegression

    return fitted(LogisticRegression(**options), z, labels)


def fitted(model: Any, z: Array, values: NDArray[Any]) -> Any:
    """Fit a model without warnings about convergence or about the number of classes."""
    from sklearn.exceptions import ConvergenceWarning

    # The solver's steps are small products, which a second BLAS thread slows down.
    with warnings.catch_warnings(), one_thread():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", "The number of unique classes|Using the fractional")
        return model.fit(z, values)


def _held_out(z: Array, labels: Labels, train: Rows, test: Rows) -> tuple[float, float, float]:
    """AUC, loss and prior loss on the test rows whose class occurs in the train rows."""
    classes, counts = np.unique(labels[train], return_counts=True)
    known = np.isin(labels[test], classes)
    if len(classes) < 2 or not known.any():
        return 0.5, 0.0, 0.0
    model = logistic(z[train], labels[train], C=len(train) / z.shape[1], max_iter=200)
    shares = model.predict_proba(z[test][known])
    truth = np.searchsorted(classes, labels[test][known])
    frequency = counts / counts.sum()
    likelihood = np.maximum(shares[np.arange(len(truth)), truth], np.finfo(float).eps)
    loss, prior = (-float(np.log(each).mean()) for each in (likelihood, frequency[truth]))
    return area(shares, truth), loss, prior


def area(shares: Array, truth: Labels) -> float:
    """Area under the ROC curve, one class against the rest, averaged over the classes that occur.

    The area is the probability that a row of the class is given a larger share (predicted
    probability of that class) than a row of another class; ties count half. It is 0.5 if all rows
    are in one class.
    """
    is_class = truth[:, None] == np.arange(shares.shape[1])
    inside = is_class.sum(0)
    outside = len(truth) - inside
    there = (inside > 0) & (outside > 0)
    if not there.any():
        return 0.5
    above = (ranks(shares) * is_class).sum(0) - inside * (inside + 1) / 2
    return float((above[there] / (inside * outside)[there]).mean())


def held_out_explicitness(trial: Trial) -> tuple[Array, Array]:
    """1 − loss/entropy of the probe that `explicitness` uses, or R² for continuous factors.

    The arrays are (1 + P, K) for every order of rows, and (F, K) for the true one without each
    fold.
    """
    # The number of permutations is that of `explicitness`, so that its fits are reused.
    trial = replace(trial, permutations=min(trial.permutations, PROBED))
    found = probed(trial)
    _, loss, prior = np.moveaxis(found.orders, -1, 0)
    weight = found.n[:, None]
    values, without = pooled(weight * (prior - loss), weight * prior)
    others = [place for place, each in enumerate(trial.factors) if each.kind != DISCRETE]
    if others:
        blocks = labelled_sums(trial.only([trial.factors[place] for place in others]))
        explained = blocks.each(lambda sums: held_out_fit(sums, trial.data.eps))
        values[:, others], without[:, others] = pooled(*explained)
    return values, without


def in_sample_explicitness(
    trial: Trial, most: int | None, classes: int, *, discrete: bool
) -> tuple[Array, Array]:
    """The same as in latent_quantization: without penalty, with balanced classes, in sample.

    With balanced classes, a probe without codes predicts 1/C for each of C classes, so that its
    loss is log C.
    """
    look = _indicators if discrete else standardised
    return trial.refit(
        _in_sample, in_sample, most=most, values=lambda factor: factor.cut(classes), look=look
    ).means()


def _in_sample(features: Array, labels: Labels, train: Rows, _: Rows) -> float:
    classes, truth = np.unique(labels[train], return_inverse=True)
    if len(classes) < 2:
        return 0.0
    options = {"C": np.inf, "class_weight": "balanced", "tol": 1e-4, "max_iter": 100}
    model = logistic(features[train], truth, **options)
    shares = model.predict_proba(features[train])[np.arange(len(truth)), truth]
    loss = -np.log(np.maximum(shares, np.finfo(float).eps)).mean()
    return float(1.0 - loss / np.log(len(classes)))


def _indicators(z: Array) -> Array:
    """One indicator column for every value of every code."""
    return np.column_stack([(code[:, None] == np.unique(code)).astype(float) for code in z.T])
