"""Inputs of nelson-batches, what axes carry, and the two learners."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from identikit._linalg import Array, eigh, inverse_or_zero, svd
from identikit.axes import ICA
from identikit.errors import InputError
from identikit.studies._batch_data import Strings, Wells

Mask = NDArray[np.bool_]
#: Passes at which a learner gives up.
MAX_ITER = 5000
#: What TVN adds to a batch's covariance.
RIDGE = 0.5
#: Singular values below this share of the largest are rounding, and so are weights below it.
ROUNDING = 1e-8


class Input(NamedTuple):
    """What a learner is given: coordinates of all rows, by name and seed."""

    name: str
    seed: int
    rows: Array
    converged: bool


def haar(size: int, seed: int) -> Array:
    """A rotation drawn uniformly (Haar) from the orthogonal group."""
    q, r = np.linalg.qr(np.random.default_rng(seed).normal(size=(size, size)))
    rotation: Array = q * np.sign(np.diag(r))
    return rotation


def standardised(x: Array, of: Mask, units: bool) -> Array:
    """Centred by some rows and scaled by their standard deviations: each column's, or one for all.

    Parameters
    ----------
    x : array (n, d)
    of : mask (n,)
        Rows that mean and scale are of.
    units : bool
        Whether each column has its own scale.
    """
    centred = x - x[of].mean(axis=0)
    variance = x[of].var(axis=0)
    scaled: Array = centred * inverse_or_zero(np.sqrt(variance if units else variance.mean()))
    return scaled


def by_batch(x: Array, batch: Strings) -> Array:
    """Centred and scaled within each batch, whatever its rows are."""
    result = np.empty_like(x)
    for each in np.unique(batch):
        there = batch == each
        result[there] = standardised(x[there], np.ones(there.sum(), dtype=bool), units=True)
    return result


def whitened(x: Array, train: Mask, components: int) -> Array:
    """The leading principal components of the training rows, each of unit variance on them."""
    mean = x[train].mean(axis=0)
    _, values, right = svd(x[train] - mean)
    kept = min(components, int((values > ROUNDING * values[0]).sum()))
    result: Array = (x - mean) @ (right[:kept].T / values[:kept]) * train.sum() ** 0.5
    return result


def tvn(x: Array, batch: Strings, train: Mask, known: Mask) -> Array:
    """Typical variation normalisation, as `tvn_on_controls` of EFAAR_benchmarking does it.

    Centred and scaled by the controls; on all principal components of the controls; centred and
    scaled by them again; then, a batch at a time, times (Σ + ½ I)^(−½), Σ the covariance of the
    batch's controls. Components that are rounding are left out: there are some if controls are
    fewer than features.

    Parameters
    ----------
    x : array (n, d)
    batch : array (n,) of str
    train : mask (n,)
        Rows of training batches; means, scales and components are of their controls alone.
    known : mask (n,)
        Controls that may be looked at: all of a training batch, some of one held out.
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
                f"batch {str(each)!r} has {len(own)} controls that may be looked at; TVN needs two "
                "of each batch: leave this set out"
            )
        covariance = np.cov(own, rowvar=False)
        spread, vectors = eigh(np.atleast_2d(covariance) + RIDGE * np.eye(result.shape[1]))
        result[there] = result[there] @ (vectors / np.sqrt(spread)) @ vectors.T
    return result


def independent(white: Array, train: Mask, seed: int) -> tuple[Array, ICA]:
    """ICA of whitened rows, found on the training rows: a rotation of them."""
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # `converged_` is passed on
        ica = ICA(seed=seed).fit(white[train])
    return ica.transform(white), ica


def turned(white: Array, train: Mask, seeds: int, before: str = "") -> list[Input]:
    """Whitened rows as they are, rotated at random, and rotated by ICA."""
    found = [Input(f"{before}pca", 0, white, True)]
    for seed in range(seeds):
        if not before:
            found.append(Input("random", seed, white @ haar(white.shape[1], seed), True))
        rows, ica = independent(white, train, seed)
        found.append(Input(f"{before}ica", seed, rows, bool(ica.converged_)))
    return found


def inputs(
    wells: Wells, train: Mask, known: Mask, components: int, seeds: int, drop: float
) -> Iterator[Input]:
    """Every input, found without labels on the rows of the training batches.

    What a batch is centred or normalised by is its own, of one held out too: all of its rows
    without their labels ("centred"), or those of its controls that are never scored ("tvn").

    Parameters
    ----------
    wells : Wells
    train, known : masks (n,)
        Rows of training batches; controls that may be looked at.
    components : int
        Principal components that are kept, at most.
    seeds : int
        Random rotations, and seeds of ICA.
    drop : float
        The share of axes, those that carry most batch among training controls, that is dropped.
    """
    base = standardised(wells.x, train, wells.units)
    centred = by_batch(wells.x, wells.batch)
    white = whitened(base, train, components)
    plain = turned(white, train, seeds)
    yield Input("raw", 0, base, True)
    yield from plain
    yield Input("centred", 0, centred, True)
    yield from turned(whitened(centred, train, components), train, seeds, "centred+")
    if known.any():
        yield Input("tvn", 0, tvn(base, wells.batch, train, known), True)
        typical = tvn(white, wells.batch, train, known)
        yield Input("pca+tvn", 0, typical, True)
        again = turned(whitened(typical, train, components), train, seeds, "pca+tvn+")
        yield from again[1:]  # ICA alone: whitening is its first step
        controls = known & train
        for each in plain:
            carried, _ = explained(each.rows[controls], wells.batch[controls])
            kept = np.sort(np.argsort(carried)[: round((1 - drop) * len(carried))])
            yield each._replace(name=f"{each.name} dropped", rows=each.rows[:, kept])


def explained(
    rows: Array, what: Strings, within: Strings | None = None, permutations: int = 0, seed: int = 0
) -> tuple[Array, Array]:
    """η² of a grouping for every axis; partial, if it is taken within the groups of another one.

    SS between groups over SS in all, both after the means of `within` are taken off. By chance,
    rows permuted within the groups of `within`; without these it is (groups − 1)/(n − 1) on
    average.

    Parameters
    ----------
    rows : array (n, k)
        A column an axis.
    what, within : arrays (n,) of str
        The groupings.
    permutations, seed : int
        How many permutations, and of what seed.

    Returns
    -------
    arrays (k,) and (permutations, k)
        As the rows are, and permuted.
    """
    strata = np.zeros(len(rows), dtype=int)
    if within is not None:
        strata = np.unique(within, return_inverse=True)[1]
    groups = (what[:, None] == np.unique(what)).astype(np.float64)
    groups, rows = _centred(groups, strata), _centred(rows, strata)
    left, values, _ = svd(groups)
    basis = left[:, values > ROUNDING * len(rows) ** 0.5]
    total = inverse_or_zero((rows**2).sum(axis=0))

    def shares(of: Array) -> Array:
        result: Array = ((basis.T @ of) ** 2).sum(axis=0) * total
        return result

    rng, order = np.random.default_rng(seed), np.argsort(strata, kind="stable")
    drawn = np.empty((permutations, rows.shape[1]))
    for place in range(permutations):
        shuffled = np.lexsort((rng.random(len(rows)), strata))
        permuted = np.empty_like(rows)
        permuted[order] = rows[shuffled]
        drawn[place] = shares(permuted)
    return shares(rows), drawn


def _centred(rows: Array, strata: NDArray[Any]) -> Array:
    counts = np.bincount(strata)[:, None]
    sums = np.zeros((len(counts), rows.shape[1]))
    np.add.at(sums, strata, rows)
    result: Array = rows - (sums / counts)[strata]
    return result


def hoyer(vector: Array) -> float:
    """Hoyer's sparsity (√d − ‖w‖₁/‖w‖₂)/(√d − 1): 1 of one entry, 0 of equal ones, NaN of none.

    >>> round(hoyer(np.array([0.0, 3.0, 0.0])), 12), round(hoyer(np.ones(5)), 12)
    (1.0, 0.0)
    """
    root, length = float(np.sqrt(len(vector))), float(np.linalg.norm(vector))
    if length == 0 or root == 1:
        return float("nan")
    return (root - float(np.abs(vector).sum()) / length) / (root - 1)


def hoyer_chance(size: int) -> float:
    """Hoyer's sparsity that a Gaussian vector has on average: E‖u‖₁ = d Γ(d/2)/(√π Γ((d+1)/2)).

    >>> round(hoyer_chance(24), 3)
    0.243
    """
    from scipy.special import gammaln

    ratio = np.exp(gammaln(size / 2) - gammaln((size + 1) / 2))
    root = size**0.5
    return float((root - size * ratio / np.pi**0.5) / (root - 1))


@dataclass(frozen=True, eq=False)
class Fit:
    """A learner: its weights and shift, and whether it converged."""

    weights: Array
    shift: float
    converged: bool


def learn(rows: Array, y: Mask, penalty: str, c: float) -> Fit:
    """Logistic regression with classes weighted equally, ‖w‖ + C Σ loss.

    Parameters
    ----------
    rows : array (n, d)
    y : mask (n,)
    penalty : str
        "L1", a sparse learner (liblinear), or "L2", which has no preference for axes (Newton).
    c : float
        Weight of the losses.
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
    """Area under the ROC curve: how often a positive is above a negative, ties half.

    >>> auroc(np.array([0.1, 0.4, 0.4, 0.9]), np.array([False, False, True, True]))
    0.875
    """
    from scipy.stats import rankdata

    positive, negative = int(y.sum()), int((~y).sum())
    above = rankdata(scores)[y].sum() - positive * (positive + 1) / 2
    return float(above / (positive * negative))
