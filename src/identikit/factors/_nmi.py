"""Normalised mutual information of every code and factor, and the shares that InfoMEC uses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identikit._linalg import Array
from identikit.factors._bins import Labels
from identikit.factors._metric import Trial
from identikit.factors._neighbours import SortedCodes, jittered, neighbour_information
from identikit.factors._resample import folds, orders, ratio
from identikit.factors._result import Part, part_of
from identikit.factors._tables import entropy, mutual_information
from identikit.moments import FOLDS

Mask = NDArray[np.bool_]

#: Number of classes that a continuous factor is cut into.
CLASSES = 20
ROUNDING = 1e-12


@dataclass(frozen=True)
class NMI:
    """I(s; z)/H(s), factors × codes, for 1 + P orders of rows, the true one first.

    For held-out scores, `test` (F, 1 + P, K, L) is estimated in every fold, and `train` is the mean
    over the other folds. In sample both are (1, 1 + P, K, L), estimated on all rows, and `rest`
    (F, K, L) is estimated without each fold.
    """

    train: Array
    test: Array
    rest: Array | None
    rows: int

    @property
    def first(self) -> NMI:
        """The same for the true order of rows only."""
        return NMI(self.train[:, :1], self.test[:, :1], self.rest, self.rows)

    @property
    def mean(self) -> Array:
        """The mean over folds (1 + P, K, L)."""
        return np.asarray(self.test.mean(0))


def normalised_information(
    trial: Trial, most: int | None, neighbours: int, noise: float, *, discrete: bool
) -> NMI:
    """Estimate the NMI on at most `most` rows, by fold or, for the reference, in sample.

    The estimate uses nearest neighbours and added noise or, if `discrete`, the plug-in formula with
    the values of codes as classes. It is computed once for all metrics.
    """
    key = ("nmi", trial.permutations, most, neighbours, noise, discrete, trial.reference)
    return trial.data.once(key, lambda: _estimated(trial, most, neighbours, noise, discrete))


def _estimated(
    trial: Trial, most: int | None, neighbours: int, noise: float, discrete: bool
) -> NMI:
    data, whole = trial.data, trial.reference
    shape = (1 + trial.permutations, len(trial.factors), trial.width)
    test = np.empty((1 if whole else FOLDS, *shape))
    rest = np.empty((FOLDS, *shape[1:]))
    rows = 0

    def estimate(codes: Any, labels: Labels) -> Array:
        if len(np.unique(labels)) < 2:
            return np.zeros(trial.width)
        found = (
            _plug_in(codes, labels)
            if discrete
            else neighbour_information(codes, labels, neighbours)
        )
        # Sums of logarithms that should cancel leave rounding errors.
        return np.where(found > ROUNDING, found / entropy(np.bincount(labels)), 0.0)

    for z, used, places in data.blocks(trial.factors, most):
        rows = max(rows, len(z))
        parts = [slice(None)] if whole else folds(len(z))
        values: Any = _classes(z) if discrete else jittered(z, noise, data.seed)
        arranged = (lambda part: part) if discrete else SortedCodes.of
        every = [arranged(values[part]) for part in parts]
        some = [arranged(np.delete(values, part, 0)) for part in folds(len(z))] if whole else []
        for place in places:
            labels = trial.factors[place].cut(CLASSES)[used]
            for order, shuffled in enumerate(orders(len(z), trial.permutations, data.seed)):
                permuted = labels[shuffled]
                for fold, part in enumerate(parts):
                    test[fold, order, place] = estimate(every[fold], permuted[part])
            for fold, codes in enumerate(some):
                rest[fold, place] = estimate(codes, np.delete(labels, folds(len(z))[fold]))
    train = test if whole else (test.sum(0) - test) / (FOLDS - 1)
    return NMI(train, test, rest if whole else None, rows)


def gate(mean: Array) -> Mask:
    """Which entries (1 + P, K, L) are above all entries of the other permutations.

    Entries are in units of their factor's chance level, so that one threshold serves the whole
    matrix: at chance, some entry passes in 1 of P + 1 matrices.
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


def modularity_of(
    nmi: NMI, kept: Mask, active: Mask, names: Sequence[str], *, weighted: bool
) -> Part:
    """InfoM: how much of each code's information is about a single factor."""
    every, rest = _shares(nmi, kept, axis=-2)
    weights = every[1] if weighted else active.astype(float)
    ways = np.full(len(active), kept.shape[1])
    each = _rescaled(*every, ways)
    values = ratio((each * weights).sum(-1), weights.sum(-1))
    some = rest[1] if weighted else np.repeat(weights[:1], len(rest[1]), 0)
    without = ratio((_rescaled(*rest, ways[:1]) * some).sum(-1), some.sum(-1))
    per_code = {name: float(x) for name, x, on in zip(names, each[0], active[0]) if on}
    return part_of("InfoM", values, without, per_code=per_code)


def compactness_of(nmi: NMI, kept: Mask, active: Mask) -> tuple[Array, Array]:
    """How much of the information about a factor is in one code (1 + P, K), and without folds."""
    every, rest = _shares(nmi, kept, axis=-1)
    ways = active.sum(-1)
    return _rescaled(*every, ways), _rescaled(*rest, ways[:1])


def _shares(nmi: NMI, kept: Mask, axis: int) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """Largest entry and sum along an axis, for every order and for the true one without each fold.

    `train` decides which entry is the largest.
    """
    largest, total = _largest(nmi.train * kept, nmi.test * kept, axis)
    every = largest.sum(0), total.sum(0)
    if nmi.rest is not None:
        return every, _largest(nmi.rest * kept[0], nmi.rest * kept[0], axis)
    return every, ((every[0] - largest)[:, 0], (every[1] - total)[:, 0])


def _largest(train: Array, test: Array, axis: int) -> tuple[Array, Array]:
    most = np.expand_dims(np.argmax(train, axis=axis), axis)
    return np.take_along_axis(test, most, axis).squeeze(axis), test.sum(axis)


def _rescaled(largest: Array, total: Array, ways: NDArray[np.intp]) -> Array:
    """(share − 1/ways)/(1 − 1/ways) of share = largest/total; 0 if total is 0, 1 if ways is 1."""
    even = 1.0 / np.maximum(ways, 1)[:, None]
    share = np.divide(largest, total, out=np.zeros_like(largest) + even, where=total > 0)
    scaled = (share - even) / np.where(even < 1, 1 - even, 1.0)
    return np.where((even < 1) | (total <= 0), scaled, 1.0)
