"""Normalised mutual information of scalar codes and classes, by nearest neighbours or plug-in.

A code is a single number, so its nearest neighbours are adjacent after sorting. The neighbours are
exact and cost O(n log n).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identikit._linalg import Array
from identikit.factors._information import entropy, jittered, mutual_information
from identikit.factors._metric import Trial
from identikit.factors._resample import Labels, folds, orders
from identikit.moments import FOLDS

Places = NDArray[np.intp]
Mask = NDArray[np.bool_]

#: Number of classes that a continuous factor is cut into.
CLASSES = 20
ROUNDING = 1e-12


@dataclass(frozen=True)
class SortedCodes:
    """Every code in increasing order (L, n) with its row numbers, sorted once for many factors."""

    values: Array
    rows: Places

    @classmethod
    def of(cls, codes: Array) -> SortedCodes:
        """From codes (n, L)."""
        rows = np.argsort(codes.T, axis=1)
        return cls(np.take_along_axis(codes.T, rows, axis=1), rows)

    def some(self, kept: NDArray[np.bool_]) -> SortedCodes:
        """The same for some rows only, which keep their row numbers."""
        chosen, width = kept[self.rows], len(self.rows)
        values, rows = self.values[chosen], self.rows[chosen]
        return SortedCodes(values.reshape(width, -1), rows.reshape(width, -1))


def neighbour_information(codes: SortedCodes, labels: Labels, neighbours: int = 10) -> Array:
    """The estimate of I(z; s) by Ross (2014) for every code, in nats and at least 0.

    I = ψ(n) + ⟨ψ(k) − ψ(N_s) − ψ(m)⟩, where k is the number of neighbours, N_s rows are in the
    class of a row, and m rows (including itself) are nearer to it than the k-th neighbour in its
    own class. Classes with one row are left out, and k is at most N_s − 1. Ties between codes make
    the estimate too low; `jittered` breaks them.
    """
    from scipy.special import digamma

    _, labels, counts = np.unique(labels, return_inverse=True, return_counts=True)
    if (counts == 1).any():
        codes = codes.some(counts[labels] > 1)
        labels = (np.cumsum(counts > 1) - 1)[labels]
        counts = counts[counts > 1]
    if len(counts) < 2:
        return np.zeros(len(codes.rows))
    rows = int(counts.sum())
    # NumPy sorts small integers faster, by radix sort.
    short = labels.astype(np.int16 if len(counts) < 2**15 else np.int64)
    places = np.argsort(short[codes.rows], axis=1, kind="stable")
    grouped = np.take_along_axis(codes.values, places, axis=1)
    radius, end, below = (np.empty(grouped.shape, dtype) for dtype in (float, np.intp, bool))
    start = 0
    for count in counts:
        part = slice(start, start + count)
        radius[:, part], end[:, part], below[:, part] = _kth(
            grouped[:, part], min(neighbours, count - 1)
        )
        end[:, part] += start
        start += count
    end = np.take_along_axis(places, end, axis=1)
    inside = [_nearer(*each) for each in zip(codes.values, places, radius, end, below)]
    fixed = digamma(np.minimum(neighbours, counts - 1)) - digamma(counts)
    # The counts are whole numbers up to `rows`, so digamma is tabulated once.
    psi = digamma(np.arange(1, rows + 1))
    found: Array = digamma(rows) + counts / rows @ fixed - [psi[m - 1].mean() for m in inside]
    return np.maximum(found, 0.0)


def _kth(ordered: Array, k: int) -> tuple[Array, Places, NDArray[np.bool_]]:
    """In sorted rows (L, m): distance to the k-th neighbour (k < m), its place, if it is below."""
    width = ordered.shape[1]
    radius, lower = np.full_like(ordered, np.inf), np.zeros(ordered.shape, dtype=np.int16)
    for left in range(k + 1):
        # The k nearest are consecutive: `left` of them below, the rest above.
        right = k - left
        here = ordered[:, left : width - right]
        far = np.maximum(here - ordered[:, : width - k], ordered[:, k:] - here)
        part = radius[:, left : width - right]
        np.copyto(lower[:, left : width - right], left, where=far < part)
        np.minimum(part, far, out=part)
    first = np.arange(width) - lower
    below = ordered - np.take_along_axis(ordered, first, axis=1) == radius
    return radius, np.where(below, first, first + k), below


def _nearer(
    x: Array, place: Places, radius: Array, end: Places, below: NDArray[np.bool_]
) -> Places:
    """How many of the sorted numbers x differ from each x[place] by less than the radius.

    One end of the interval is known to be at `end`; the other is searched for.
    """
    here, bound = x[place], len(x)
    first, past = _ties(x)
    low, high = np.where(below, past[end], 0), np.where(below, bound, first[end])
    apart = radius > 0
    up, down = np.flatnonzero(below & apart), np.flatnonzero(~below & apart)
    high[up] = _first_beyond(x, here[up], radius[up])
    low[down] = bound - _first_beyond(-x[::-1], -here[down], radius[down])
    # If the k-th neighbour is tied with the row, the interval is the run of tied values.
    same = place[~apart]
    low[~apart], high[~apart] = first[same], past[same]
    return np.asarray(high - low)


def _ties(x: Array) -> tuple[Places, Places]:
    """Start and end (exclusive) of the run of equal numbers that each number belongs to."""
    places = np.arange(len(x))
    new = x[1:] != x[:-1]
    if new.all():
        return places, places + 1
    starts = np.flatnonzero(np.r_[True, new])
    ends = np.r_[starts[1:], len(x)]
    return np.repeat(starts, ends - starts), np.repeat(ends, ends - starts)


def _first_beyond(x: Array, here: Array, radius: Array) -> Places:
    """Position of the first sorted number that exceeds `here` by at least the radius."""
    found, last = np.searchsorted(x, here + radius), len(x) - 1
    # here + radius is rounded, so correct the result by the exact differences.
    while (wrong := (found <= last) & (x[np.minimum(found, last)] - here < radius)).any():
        found += wrong
    while (wrong := x[found - 1] - here >= radius).any():
        found -= wrong
    return np.asarray(found)


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
