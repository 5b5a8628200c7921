"""Normalised information of every code and factor, held out or in sample, permuted or not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identikit._linalg import Array
from identikit.disentangle._bins import Labels
from identikit.disentangle._data import Data
from identikit.disentangle._neighbours import jittered, neighbour_information
from identikit.disentangle._permute import FOLDS, folds, orders
from identikit.disentangle._tables import entropy, mutual_information

#: Classes that a continuous factor is cut into.
CLASSES = 20
ROUNDING = 1e-12


@dataclass(frozen=True)
class Information:
    """NMI = I(s; z)/H(s), factors × codes, of 1 + P orders of rows, the true one first.

    Held out, `test` (F, 1 + P, K, L) is that of every fold and `train` the mean of the others'. In
    sample both are (1, 1 + P, K, L), of all rows, and `rest` (F, K, L) is without each fold.
    """

    train: Array
    test: Array
    rest: Array | None
    rows: int

    @property
    def mean(self) -> Array:
        """Over folds (1 + P, K, L)."""
        return np.asarray(self.test.mean(0))


def normalised_information(
    data: Data,
    count: int,
    most: int | None,
    neighbours: int,
    noise: float,
    *,
    discrete: bool,
    whole: bool,
) -> Information:
    """Estimate all of it.

    Parameters
    ----------
    data : Data
    count : int
        Number of permutations.
    most : int or None
        The most rows used.
    neighbours, noise
        Of the estimate by neighbours.
    discrete : bool
        Plug-in instead, with the values of codes as classes.
    whole : bool
        In sample, rather than fold by fold.
    """
    shape = (1 + count, len(data.factors), data.codes.shape[1])
    test = np.empty((1 if whole else FOLDS, *shape))
    rest = np.empty((FOLDS, *shape[1:])) if whole else None
    rows = 0

    def estimate(z: NDArray[Any], labels: Labels) -> Array:
        if len(np.unique(labels)) < 2:
            return np.zeros(z.shape[1])
        found = _plug_in(z, labels) if discrete else neighbour_information(z, labels, neighbours)
        # Sums of logarithms that should cancel leave some rounding.
        return np.where(found > ROUNDING, found / entropy(np.bincount(labels)), 0.0)

    for place, factor in enumerate(data.factors):
        ((z, used, _),) = data.blocks([factor], most)
        labels = factor.cut(CLASSES)[used]
        rows = max(rows, len(z))
        parts = folds(len(z))
        values: NDArray[Any] = _classes(z) if discrete else jittered(z, noise, data.seed)
        for order, shuffled in enumerate(orders(len(z), count, data.seed)):
            permuted = labels[shuffled]
            for fold, part in enumerate([slice(None)] if whole else parts):
                test[fold, order, place] = estimate(values[part], permuted[part])
        if rest is not None:
            for fold, part in enumerate(parts):
                rest[fold, place] = estimate(np.delete(values, part, 0), np.delete(labels, part))
    train = test if whole else (test.sum(0) - test) / (FOLDS - 1)
    return Information(train, test, rest, rows)


def gate(mean: Array) -> NDArray[np.bool_]:
    """Which entries (1 + P, K, L) are above all those of the other permutations.

    Each in units of what its factor has at chance, so that one threshold holds for the matrix: at
    chance some entry passes in 1 of P + 1 matrices.
    """
    null = mean[1:]
    unit = np.sqrt((null**2).mean((0, 2), keepdims=True))[0]
    scaled = np.divide(mean, unit, out=np.zeros_like(mean), where=unit > 0)
    largest = scaled.max((1, 2))
    threshold = np.full(len(mean), largest[1:].max())
    for order in range(1, len(mean)):
        others = np.delete(largest[1:], order - 1)
        threshold[order] = others.max() if len(others) else np.inf
    return np.asarray((scaled > threshold[:, None, None]) & (mean > 0))


def _classes(z: Array) -> Labels:
    return np.stack([np.unique(code, return_inverse=True)[1] for code in z.T], axis=1)


def _plug_in(z: NDArray[Any], labels: Labels) -> Array:
    classes = int(labels.max()) + 1
    found = []
    for code in z.T.astype(np.int64):
        cells = np.bincount(code * classes + labels, minlength=(int(code.max()) + 1) * classes)
        found.append(mutual_information(cells.reshape(-1, classes)))
    return np.array(found)
