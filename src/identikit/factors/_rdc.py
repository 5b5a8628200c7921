"""Randomised dependence coefficients of every code and factor, in sample."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from identikit._linalg import Array, svd
from identikit.factors._bins import ranks
from identikit.factors._metric import Trial
from identikit.factors._resample import folds, orders
from identikit.moments import FOLDS

#: Number of projections per variable, and their scale, as in icebeem.
PROJECTIONS, SCALE = 20, 0.5
#: Directions with smaller singular values, relative to the largest, are dropped. This is part of
#: the method and not a rank rule: such directions are computed accurately, but they fit any noise.
FLAT = 1e-10


def dependence(trial: Trial) -> tuple[Array, Array, int]:
    """The largest canonical correlation of sin(projections of ranks) (Lopez-Paz et al. 2013).

    Returns (1, L, 1 + P, K) for all orders of rows, (F, L, 1, K) without each fold, and the largest
    number of rows. With few rows every pair has a coefficient of 1, because the sines span the
    space of rows. Directions in which the sines hardly vary are dropped; icebeem keeps them, so
    independent data score higher there.
    """
    data, shape = trial.data, (trial.width, len(trial.factors))
    whole = np.empty((1, shape[0], 1 + trial.permutations, shape[1]))
    rest, most = np.empty((FOLDS, *shape)), 0
    for z, _, places in data.blocks(trial.factors):
        s = np.column_stack([trial.factors[place].values for place in places])
        most = max(most, len(z))
        left, right = _features(z, data.seed), _features(s, data.seed + 1)
        for order, rows in enumerate(orders(len(z), trial.permutations, data.seed)):
            whole[0, :, order, places] = _largest(left, [each[rows] for each in right])
        for fold, part in enumerate(folds(len(z))):
            kept = (np.delete(values, part, axis=0) for values in (z, s))
            some = (_features(values, data.seed + add) for add, values in enumerate(kept))
            rest[fold][:, places] = _largest(*some).T
    return whole, rest[:, :, None], most


def _features(values: Array, seed: int) -> list[Array]:
    """For every variable, orthonormal columns that span its centred sines."""
    rng = np.random.default_rng(seed)
    found = []
    for column in (ranks(values) / len(values)).T:
        slope, shift = SCALE / 2 * rng.normal(size=(2, PROJECTIONS))
        sines = np.sin(column[:, None] * slope + shift)
        left, size, _ = svd(sines - sines.mean(0))
        found.append(left[:, size > FLAT * max(size[0], 1e-300)])
    return found


def _largest(left: Sequence[Array], right: Sequence[Array]) -> Array:
    """Largest canonical correlation between every pair of bases (K, L)."""
    both = np.concatenate(left, axis=1).T @ np.concatenate(right, axis=1)
    rows = np.cumsum([0, *(each.shape[1] for each in left)])
    columns = np.cumsum([0, *(each.shape[1] for each in right)])
    return np.array(
        [
            [
                np.linalg.norm(both[rows[i] : rows[i + 1], columns[j] : columns[j + 1]], 2)
                for i in range(len(left))
            ]
            for j in range(len(right))
        ]
    ).clip(0.0, 1.0)
