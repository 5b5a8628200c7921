"""Penalised regressions from sums over folds: kernel ridge with landmarks, and the lasso.

For fold f the penalty of each factor is the one that does best on fold f + 1 when fitted on the
other three folds; the final fit uses all four.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from identikit._linalg import GRAM_EXACT, Array, eigh
from identikit.factors._linear import Blocks, Sums, column_sums, explained, standardised, whitened
from identikit.factors._metric import Trial
from identikit.moments import FOLDS

LANDMARKS = 300
#: The most permutations: each one costs a product with every landmark, for every ridge.
PERMUTATIONS = 40
ROWS = 20_000
RIDGES = 10.0 ** np.arange(-6, 2)

#: The penalties of Carbonneau et al. 2022, largest first: each fit starts from the previous one.
PENALTIES = (1.0, 0.8, 0.4, 0.2, 0.1, 0.01, 0.001, 0.0001)
SWEEPS, CLOSE = 500, 1e-7


def held_out_penalised(
    sums: Sums, path: Callable[[Sums], Iterable[Array]]
) -> tuple[Array, Array, Array]:
    """Slopes fitted without each fold (F, L, Q), and its explained and total squares (F, Q).

    `path` returns the slopes (1, L, Q) for every penalty.
    """
    found = []
    for inner, check, train, test in sums.nested():
        best = np.argmax([explained(inner, check, slopes)[0][0] for slopes in path(inner)], axis=0)
        slopes = np.take_along_axis(np.array(list(path(train))), best[None, None, None], 0)[0]
        over, under = explained(train, test, slopes)
        found.append((slopes[0], over[0], under[0]))
    slopes, over, under = (np.array(each) for each in zip(*found))
    return slopes, over, under


def held_out_kernel(trial: Trial) -> tuple[Array, Array, int]:
    """Explained and total squared deviations of held-out rows (F, 1 + P, K), and number of rows.

    Features are the whitened codes z and κ(z, landmarks) κ(landmarks, landmarks)^(−1/2) with
    κ = exp(−‖z − z'‖²/m), m the median squared distance.
    """
    data, parts, most = trial.data, [], 0
    count = min(trial.permutations, PERMUTATIONS)
    for z, rows, places in data.blocks(trial.factors, ROWS):
        s = standardised(np.column_stack([trial.factors[k].values for k in places])[rows])
        sums = column_sums(kernel_features(z, data.eps), s, FOLDS, count, data.seed)
        parts.append((places, sums))
        most = max(most, len(z))
    over, under = Blocks(parts, most).each(lambda sums: held_out_penalised(sums, ridge_path)[1:])
    return over, under, most


def kernel_features(z: Array, eps: float) -> Array:
    """Whitened codes, then centred features whose inner products approximate the kernel."""
    white = whitened(z, eps)
    marks = white[: min(LANDMARKS, len(z) // 2)]  # rows are in random order
    between = _square_distances(marks, marks)
    scale = max(float(np.median(between[np.triu_indices(len(marks), 1)])), 1e-12)
    values, vectors = eigh(np.exp(-between / scale))
    kept = values > GRAM_EXACT * values[0]
    smooth = np.exp(-_square_distances(white, marks) / scale)
    smooth = smooth @ (vectors[:, kept] / np.sqrt(values[kept]))
    return np.column_stack([white, smooth - smooth.mean(0)])


def _square_distances(a: Array, b: Array) -> Array:
    squares: Array = (a * a).sum(1)[:, None] + (b * b).sum(1) - 2 * (a @ b.T)
    return np.maximum(squares, 0.0)


def ridge_path(train: Sums) -> Iterator[Array]:
    """The slopes of ridge regression for every ridge."""
    for ridge in RIDGES:
        cov = train.cov_zz[0] + ridge * np.eye(train.zz.shape[1])
        yield np.linalg.solve(cov, train.cov_zs[0])[None]


def lasso_path(train: Sums) -> Iterator[Array]:
    """The slopes of the lasso for every penalty."""
    slopes = None
    for penalty in PENALTIES:
        slopes = lasso(train.cov_zz[0], train.cov_zs[0], penalty, slopes)
        yield slopes[None]


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
