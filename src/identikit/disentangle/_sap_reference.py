"""SAP as disentanglement_lib scores it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from identikit._linalg import Array
from identikit.disentangle._data import Data
from identikit.disentangle._factor import Factor
from identikit.disentangle._permute import FOLDS, orders, ratio

TRAIN, TEST = 10_000, 5_000


def split(rows: int) -> tuple[int, int]:
    """How many rows to fit on and, after them, to score: two to one, at most 10,000 and 5,000.

    >>> split(300), split(10**6)
    ((200, 100), (10000, 5000))
    """
    train = min(TRAIN, rows * 2 // 3)
    return train, min(TEST, rows - train)


def reference_scores(data: Data, count: int) -> tuple[Array, Array, int]:
    """Scores (1 + P, L, K) of every code, those without each fold (F, L, K), and rows used."""
    shape = (1 + count, data.codes.shape[1], len(data.factors))
    scores, rest = np.empty(shape), np.empty((FOLDS, *shape[1:]))
    most = 0
    for place, factor in enumerate(data.factors):
        ((z, _, _),) = data.blocks([factor])
        train, test = split(len(z))
        most = max(most, train + test)
        values = factor.values if factor.labels is None else factor.labels
        for order, rows in enumerate(orders(len(z), count, data.seed)):
            used = values[rows][: train + test]
            scores[order, :, place] = _column(z[: train + test], used, train, factor, data.seed)
        kept = np.arange(train + test)
        for fold in range(FOLDS):
            some = kept[kept % FOLDS != fold]
            part = int(np.count_nonzero(some < train))
            rest[fold, :, place] = _column(z[some], values[some], part, factor, data.seed)
    return scores, rest, most


def _column(z: Array, values: NDArray[Any], train: int, factor: Factor, seed: int) -> Array:
    """The score of every code for one factor."""
    from sklearn.svm import LinearSVC

    if factor.labels is None:
        centred = z[:train] - z[:train].mean(0)
        target = values[:train] - values[:train].mean()
        return ratio((target @ centred) ** 2, (centred**2).sum(0) * (target @ target))
    if len(np.unique(values[:train])) < 2:  # rows of one class only: nothing to learn
        return np.full(z.shape[1], float(np.mean(values[train:] == values[0])))
    found = []
    for code in z.T:
        machine = LinearSVC(C=0.01, class_weight="balanced", random_state=seed)
        machine.fit(code[:train, None], values[:train])
        found.append(np.mean(machine.predict(code[train:, None]) == values[train:]))
    return np.array(found)
