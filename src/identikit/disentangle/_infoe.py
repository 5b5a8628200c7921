"""InfoE: how much of a factor's entropy a linear probe takes away."""

from __future__ import annotations

import numpy as np

from identikit._linalg import Array
from identikit.disentangle import _linear as linear
from identikit.disentangle._bins import Labels
from identikit.disentangle._data import Data
from identikit.disentangle._factor import DISCRETE
from identikit.disentangle._nmi import CLASSES
from identikit.disentangle._permute import FOLDS, folds, orders, pooled
from identikit.disentangle._probe import PROBED, logistic, probed
from identikit.disentangle._sums import standardised


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
    data: Data, count: int, most: int | None, *, discrete: bool
) -> tuple[Array, Array]:
    """The same as latent_quantization has it: no penalty, classes balanced, in sample.

    Balanced classes leave a probe without codes nothing but 1/C, so that its loss is log C.
    """
    values = np.empty((1 + count, len(data.factors)))
    without = np.empty((FOLDS, len(data.factors)))
    for place, factor in enumerate(data.factors):
        ((z, used, _),) = data.blocks([factor], most)
        labels = factor.cut(CLASSES)[used]
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
