"""Kernel ridge regression with landmarks: smooth functions at about the cost of linear ones."""

from __future__ import annotations

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


def held_out_kernel(trial: Trial) -> tuple[Array, Array, int]:
    """Explained and total squared deviations of held-out rows (F, 1 + P, K), and number of rows.

    Features are the whitened codes z and κ(z, landmarks) κ(landmarks, landmarks)^(−1/2) with
    κ = exp(−‖z − z'‖²/m), m the median squared distance. For fold f the ridge of each factor is the
    one that does best on fold f + 1 when fitted on the other three; the final fit uses all four.
    """
    data, parts, most = trial.data, [], 0
    count = min(trial.permutations, PERMUTATIONS)
    for z, rows, places in data.blocks(trial.factors, ROWS):
        s = standardised(np.column_stack([trial.factors[k].values for k in places])[rows])
        sums = column_sums(_features(z, data.eps), s, FOLDS, count, data.seed)
        parts.append((places, sums))
        most = max(most, len(z))
    over, under = Blocks(parts, most).each(_held_out)
    return over, under, most


def _features(z: Array, eps: float) -> Array:
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


def _held_out(sums: Sums) -> tuple[Array, Array]:
    over, under = [], []
    for inner, check, train, test in sums.nested():
        scores = [explained(inner, check, _ridge(inner, ridge))[0][0] for ridge in RIDGES]
        best = np.argmax(scores, axis=0)
        slopes = np.empty_like(train.zs)
        for place in np.unique(best):
            chosen = best == place
            slopes[..., chosen] = _ridge(train, RIDGES[place])[..., chosen]
        won, total = explained(train, test, slopes)
        over.append(won[0])
        under.append(total[0])
    return np.array(over), np.array(under)


def _ridge(train: Sums, ridge: float) -> Array:
    cov = train.cov_zz[0] + ridge * np.eye(train.zz.shape[1])
    return np.linalg.solve(cov, train.cov_zs[0])[None]
