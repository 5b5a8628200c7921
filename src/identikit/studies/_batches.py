"""The inputs of nelson-batches, the variance of axes that groups explain, and the learners."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from identikit._linalg import Array, eigh, inverse_or_zero, random_rotation, svd
from identikit.axes import ICA
from identikit.errors import InputError
from identikit.studies._batch_data import Strings, Wells

Mask = NDArray[np.bool_]
#: The largest number of iterations of a learner.
MAX_ITER = 5000
#: The multiple of the identity that TVN adds to a batch's covariance.
RIDGE = 0.5
#: Singular values, and weights, below this share of the largest count as rounding errors.
ROUNDING = 1e-8


class Input(NamedTuple):
    """The input of a learner: a name, coordinates of all rows, and whether ICA converged."""

    name: str
    rows: Array
    converged: bool = True


def standardised(x: Array, of: Mask, units: bool) -> Array:
    """x, centred and scaled by the rows `of`: all columns alike or, with `units`, one by one."""
    centred = x - x[of].mean(axis=0)
    variance = x[of].var(axis=0)
    scaled: Array = centred * inverse_or_zero(np.sqrt(variance if units else variance.mean()))
    return scaled


def whitened(x: Array, train: Mask, components: int) -> Array:
    """The leading principal components of the training rows, each of unit variance on them.

    Of n rows at most √n components, because ICA needs about k² rows to find k axes.
    """
    mean = x[train].mean(axis=0)
    _, values, right = svd(x[train] - mean)
    rank = int((values > ROUNDING * values[0]).sum())
    kept = min(components, round(int(train.sum()) ** 0.5), rank)
    result: Array = (x - mean) @ (right[:kept].T / values[:kept]) * train.sum() ** 0.5
    return result


def tvn(x: Array, batch: Strings, train: Mask, known: Mask) -> Array:
    """Typical variation normalisation, as `tvn_on_controls` of EFAAR_benchmarking does it.

    Rows are centred and scaled by the controls of the training batches, projected on all their
    principal components (but for rounding errors), and centred and scaled again. Then each batch is
    multiplied by (Σ + ½ I)^(−½), where Σ is the covariance of its `known` controls: all of a
    training batch, and some of a held-out one.
    """
    controls = known & train
    first = standardised(x, controls, units=True)
    _, values, right = svd(first[controls])
    result = standardised(first @ right[values > ROUNDING * values[0]].T, controls, units=True)
    for each in np.unique(batch):
        there = batch == each
        own = result[there & known]
        if len(own) < 2:
            raise InputError(
                f"batch {str(each)!r} has {len(own)} controls that may be used; TVN needs two in "
                "each batch: leave this data set out"
            )
        covariance = np.cov(own, rowvar=False)
        spread, vectors = eigh(np.atleast_2d(covariance) + RIDGE * np.eye(result.shape[1]))
        result[there] = result[there] @ (vectors / np.sqrt(spread)) @ vectors.T
    return result


def independent(white: Array, train: Mask, seed: int) -> tuple[Array, ICA]:
    """Whitened rows rotated by ICA, which is fitted on the training rows."""
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # `converged_` is passed on
        ica = ICA(seed=seed).fit(white[train])
    return ica.transform(white), ica


def at_random(white: Array, seed: int) -> Array:
    """Whitened rows rotated at random."""
    turned: Array = white @ random_rotation(white.shape[1], np.random.default_rng(seed))
    return turned


def inputs(wells: Wells, train: Mask, known: Mask, components: int, seed: int) -> Iterator[Input]:
    """Every input, computed without treatments from the rows of the training batches.

    Only TVN uses rows of a held-out batch: its `known` controls, if any, which are never scored.
    The seed is that of ICA and of the random rotation.
    """
    base = standardised(wells.x, train, wells.units)
    white = whitened(base, train, components)
    turned, ica = independent(white, train, seed)
    yield Input("raw", base)
    yield Input("pca", white)
    yield Input("random", at_random(white, seed))
    yield Input("ica", turned, bool(ica.converged_))
    if (known & ~train).any():
        yield Input("pca+tvn", tvn(white, wells.batch, train, known))


def explained(
    rows: Array, what: Strings, within: Strings | None = None, permutations: int = 0, seed: int = 0
) -> tuple[Array, Array]:
    """η² of a grouping for every axis, (k,), and of permuted rows, (permutations, k).

    This is the sum of squares between groups over the total one, both after subtracting the means
    of `within`, inside which rows are permuted.
    """
    strata = np.zeros(len(rows), dtype=int)
    if within is not None:
        strata = np.unique(within, return_inverse=True)[1]
    groups = (what[:, None] == np.unique(what)).astype(np.float64)
    groups, rows = _centred(groups, strata), _centred(rows, strata)
    left, values, _ = svd(groups)
    basis = left[:, values > ROUNDING * len(rows) ** 0.5]
    total = inverse_or_zero((rows**2).sum(axis=0))

    def shares(of: Array) -> Any:
        return ((basis.T @ of) ** 2).sum(axis=0) * total

    rng, order = np.random.default_rng(seed), np.argsort(strata, kind="stable")
    drawn = np.empty((permutations, rows.shape[1]))
    for place in range(permutations):
        shuffled = np.lexsort((rng.random(len(rows)), strata))
        permuted = np.empty_like(rows)
        permuted[order] = rows[shuffled]
        drawn[place] = shares(permuted)
    return shares(rows), drawn


def _centred(rows: Array, strata: NDArray[Any]) -> Array:
    sums = np.zeros((strata.max() + 1, rows.shape[1]))
    np.add.at(sums, strata, rows)
    result: Array = rows - (sums / np.bincount(strata)[:, None])[strata]
    return result


def hoyer(vector: Array) -> float:
    """Hoyer's sparsity (√d − ‖w‖₁/‖w‖₂)/(√d − 1): 1 for one nonzero entry, 0 for equal entries.

    It is NaN for the zero vector.

    >>> round(hoyer(np.array([0.0, 3.0, 0.0])), 12), round(hoyer(np.ones(5)), 12)
    (1.0, 0.0)
    """
    root, length = float(np.sqrt(len(vector))), float(np.linalg.norm(vector))
    if length == 0 or root == 1:
        return float("nan")
    return (root - float(np.abs(vector).sum()) / length) / (root - 1)


def hoyer_chance(size: int) -> float:
    """Mean Hoyer sparsity of a Gaussian vector, by E‖u‖₁ = d Γ(d/2)/(√π Γ((d+1)/2)).

    >>> round(hoyer_chance(24), 3)
    0.243
    """
    from scipy.special import gammaln

    ratio = np.exp(gammaln(size / 2) - gammaln((size + 1) / 2))
    root = size**0.5
    return float((root - size * ratio / np.pi**0.5) / (root - 1))


class Fit(NamedTuple):
    """A fitted learner: its weights and intercept, and whether it converged."""

    weights: Array
    shift: float
    converged: bool


def learn(rows: Array, y: Mask, penalty: str, c: float) -> Fit:
    """Logistic regression with equally weighted classes, minimising ‖w‖ + C Σ loss.

    The penalty "L1" makes a sparse learner (liblinear), "L2" one that prefers no axes (Newton).
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    options: dict[str, Any] = {"solver": "newton-cholesky", "tol": 1e-8}
    if penalty == "L1":
        # The option's name has changed; the old default says which name is valid.
        renamed = LogisticRegression().penalty == "deprecated"
        sparse = {"l1_ratio": 1.0} if renamed else {"penalty": "l1"}
        options = {"solver": "liblinear", "tol": 1e-4, "random_state": 0, **sparse}
    model = LogisticRegression(C=c, class_weight="balanced", max_iter=MAX_ITER, **options)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        model.fit(rows, y)
    weights = np.where(np.abs(model.coef_[0]) > ROUNDING, model.coef_[0], 0.0)
    return Fit(weights, float(model.intercept_[0]), not caught)


def auroc(scores: Array, y: Mask) -> float:
    """Area under the ROC curve: how often a positive is above a negative; ties count half.

    >>> auroc(np.array([0.1, 0.4, 0.4, 0.9]), np.array([False, False, True, True]))
    0.875
    """
    from scipy.stats import rankdata

    positive, negative = int(y.sum()), int((~y).sum())
    above = rankdata(scores)[y].sum() - positive * (positive + 1) / 2
    return float(above / (positive * negative))


def separate_loss(scores: Array, y: Mask) -> float:
    """Mean logistic loss of positives plus that of negatives: both classes have equal weight."""
    losses = np.logaddexp(0, np.where(y, -scores, scores))
    return float(losses[y].mean() + losses[~y].mean())
