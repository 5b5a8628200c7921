"""Logistic regression of a factor's classes from all codes, on rows that had no part in the fit."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identikit._linalg import Array, one_thread
from identikit.factors import _linear as linear
from identikit.factors._bins import Labels, ranks
from identikit.factors._data import Data
from identikit.factors._factor import DISCRETE
from identikit.factors._linear import standardised, whitened
from identikit.factors._permute import folds, orders, pooled
from identikit.moments import FOLDS

#: Rows used, and classes that a continuous factor is cut into.
ROWS = 10_000
CLASSES = 10
#: Permutations, each of which is fitted anew.
PROBED = 10


@dataclass(frozen=True)
class Probed:
    """What held-out rows say of a probe, (F, 1 + P, K) each; the first of 1 + P is the true order.

    `auc` is the mean over classes of the one-against-rest area under the ROC curve, `loss` the mean
    negative log-likelihood, `prior` that of the train rows' class frequencies. `n` (F, K) are rows.
    """

    auc: Array
    loss: Array
    prior: Array
    n: Array


def probed(data: Data, count: int) -> Probed:
    """Fit and score all factors; several metrics share it.

    Codes are whitened, so that the ridge is the same for every invertible affine map of them;
    scikit-learn's C is the number of rows a code: few rows need a ridge, and many shall not pay it.
    """
    key = ("probed", count)
    if key not in data.shared:
        shape = (FOLDS, 1 + count, len(data.factors))
        auc, loss, prior = (np.empty(shape) for _ in range(3))
        n = np.empty(shape[::2])
        for place, factor in enumerate(data.factors):
            ((z, rows, _),) = data.blocks([factor], ROWS)
            labels, white = factor.cut(CLASSES)[rows], whitened(z, data.eps)
            for order, shuffled in enumerate(orders(len(z), count, data.seed)):
                for fold, test in enumerate(folds(len(z))):
                    at = fold, order, place
                    auc[at], loss[at], prior[at] = _held_out(white, labels[shuffled], test)
                    n[fold, place] = test.stop - test.start
        found = Probed(auc, loss, prior, n)
        data.shared[key] = found
    kept: Probed = data.shared[key]
    return kept


def logistic(z: Array, labels: Labels, **options: Any) -> Any:
    """scikit-learn's logistic regression."""
    from sklearn.linear_model import LogisticRegression

    return fitted(LogisticRegression(**options), z, labels)


def fitted(model: Any, z: Array, values: NDArray[Any]) -> Any:
    """A model after its fit: where it stops is where it stops, and classes may be many."""
    from sklearn.exceptions import ConvergenceWarning

    # Its steps are small products, for which a second BLAS thread is in the way.
    with warnings.catch_warnings(), one_thread():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", "The number of unique classes|Using the fractional")
        return model.fit(z, values)


def _held_out(z: Array, labels: Labels, test: slice) -> tuple[float, float, float]:
    """AUC, loss and prior loss on the test rows; those of a class not fitted are not scored."""
    train = np.ones(len(z), dtype=bool)
    train[test] = False
    classes, counts = np.unique(labels[train], return_counts=True)
    known = np.isin(labels[test], classes)
    if len(classes) < 2 or not known.any():
        return 0.5, 0.0, 0.0
    model = logistic(z[train], labels[train], C=train.sum() / z.shape[1], max_iter=200)
    shares = model.predict_proba(z[test][known])
    truth = np.searchsorted(classes, labels[test][known])
    frequency = counts / counts.sum()
    likelihood = np.maximum(shares[np.arange(len(truth)), truth], np.finfo(float).eps)
    loss, prior = (-float(np.log(each).mean()) for each in (likelihood, frequency[truth]))
    return area(shares, truth), loss, prior


def area(shares: Array, truth: Labels) -> float:
    """Mean over the classes that are there of the area under the ROC curve, one against the rest.

    It is the probability that a row of the class has a larger share than a row of another; ties
    count half. 0.5 if all rows are of one class.
    """
    is_class = truth[:, None] == np.arange(shares.shape[1])
    inside = is_class.sum(0)
    outside = len(truth) - inside
    there = (inside > 0) & (outside > 0)
    if not there.any():
        return 0.5
    above = (ranks(shares) * is_class).sum(0) - inside * (inside + 1) / 2
    return float((above[there] / (inside * outside)[there]).mean())


def held_out_explicitness(data: Data, count: int) -> tuple[Array, Array]:
    """1 − loss/entropy of the probe that `explicitness` uses, or R² of least squares.

    (1 + P, K) for every order of rows, and (F, K) without each fold for the true one.
    """
    count = min(count, PROBED)  # as `explicitness` has them, so that it is fitted once
    found = probed(data, count)
    weight = found.n[:, None]
    values, rest = pooled(weight * (found.prior - found.loss), weight * found.prior)
    without = rest[:, 0]
    others = [place for place, each in enumerate(data.factors) if each.kind != DISCRETE]
    if others:
        scored = [data.factors[place] for place in others]
        parts = []
        for places, test in linear.labelled_sums(data, scored, count)[0]:
            train = test.without_each()
            slopes = linear.coefficients(train, data.eps)
            parts.append((places, linear.explained(train, test, slopes)))
        values[:, others], rest = pooled(*linear.gathered_each(parts, len(others)))
        without[:, others] = rest[:, 0]
    return values, without


def in_sample_explicitness(
    data: Data, count: int, most: int | None, classes: int, *, discrete: bool
) -> tuple[Array, Array]:
    """The same as latent_quantization has it: no penalty, classes balanced, in sample.

    Balanced classes leave a probe without codes nothing but 1/C, so that its loss is log C.
    """
    values = np.empty((1 + count, len(data.factors)))
    without = np.empty((FOLDS, len(data.factors)))
    for place, factor in enumerate(data.factors):
        ((z, used, _),) = data.blocks([factor], most)
        labels = factor.cut(classes)[used]
        features = _indicators(z) if discrete else standardised(z)
        for order, rows in enumerate(orders(len(z), count, data.seed)):
            values[order, place] = _in_sample(features, labels[rows])
        for fold, part in enumerate(folds(len(z))):
            kept = np.delete(np.arange(len(z)), part)
            without[fold, place] = _in_sample(features[kept], labels[kept])
    return values, without


def _in_sample(features: Array, labels: Labels) -> float:
    classes, truth = np.unique(labels, return_inverse=True)
    if len(classes) < 2:
        return 0.0
    model = logistic(features, truth, C=np.inf, class_weight="balanced", tol=1e-4, max_iter=100)
    shares = model.predict_proba(features)[np.arange(len(truth)), truth]
    loss = -np.log(np.maximum(shares, np.finfo(float).eps)).mean()
    return float(1.0 - loss / np.log(len(classes)))


def _indicators(z: Array) -> Array:
    """One column a value of a code."""
    return np.column_stack([(code[:, None] == np.unique(code)).astype(float) for code in z.T])
