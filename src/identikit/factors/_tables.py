"""Counts of binned codes against classes, by fold.

Counts are additive, so folds can be left out without counting again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from identikit._linalg import Array
from identikit.factors._bins import Labels, equal_width, ranks, to_bins
from identikit.factors._metric import Trial, check_noise
from identikit.factors._neighbours import jittered
from identikit.factors._resample import folds, orders
from identikit.moments import FOLDS

Counts = NDArray[np.int64]

#: Number of bins per code, unless there are too few rows.
BINS = 20


def tables(
    trial: Trial, bins: int, noise: float = 0.0, *, even: bool = False
) -> Iterator[list[Counts]]:
    """Counts (F, L, bins, classes) of every factor: for the true order, then for permuted rows.

    Continuous factors are cut into as many classes as the codes have bins, which are of equal
    frequency, or of equal width if `even`. `noise` is the standard deviation of the noise that is
    added to codes of variance 1.
    """
    data, scored = trial.data, trial.factors
    blocks = []
    for z, _, places in data.blocks(scored):
        cut = equal_width if even else lambda column, bins: to_bins(ranks(column), bins)
        seen = jittered(z, noise, data.seed) if noise else z
        binned = np.stack([cut(column, bins) for column in seen.T])
        for number, fold in enumerate(folds(len(z))):
            binned[:, fold] += number * bins
        labels = [scored[place].cut(bins, even=even) for place in places]
        blocks.append((binned, places, labels, orders(len(z), trial.permutations, data.seed)))
    for _ in range(1 + trial.permutations):
        found: list[Counts] = [np.empty(0, np.int64)] * len(scored)
        for binned, places, labels, shuffles in blocks:
            rows = next(shuffles)
            for place, label in zip(places, labels):
                found[place] = _count(binned, label[rows], scored[place].classes or bins, bins)
        yield found


def _count(binned: Labels, label: Labels, classes: int, bins: int) -> Counts:
    """One histogram per code; `binned` encodes the fold as fold · bins + bin."""
    cells = FOLDS * bins * classes
    counts = [np.bincount(row * classes + label, minlength=cells) for row in binned]
    return np.array(counts).reshape(len(binned), FOLDS, bins, classes).swapaxes(0, 1)


def mutual_information(counts: Counts) -> Array:
    """Plug-in mutual information H(z) + H(s) − H(z, s), in nats, of tables (…, bins, classes)."""
    return (
        entropy(counts.sum(-1))
        + entropy(counts.sum(-2))
        - entropy(counts.reshape(*counts.shape[:-2], -1))
    )


def entropy(counts: Counts) -> Array:
    """Plug-in entropy in nats of counts (…, classes)."""
    total = np.maximum(counts.sum(-1), 1)
    return np.asarray(np.log(total) - _x_log_x(int(total.max()))[counts].sum(-1) / total)


def _x_log_x(largest: int) -> Array:
    x = np.arange(largest + 1, dtype=np.float64)
    return x * np.log(np.maximum(x, 1.0))


@dataclass(frozen=True)
class Information:
    """Plug-in information of codes and factors in nats, and the factors' entropies.

    `train`, from all folds but one, is (F, 1 + P, L, K), and `whole` is (1 + P, L, K); the first of
    1 + P is the true order of rows. Entropies have the same axes without L. `n` (F, K) counts the
    rows of each fold, and `words` says how codes were binned.
    """

    train: Array
    whole: Array
    train_entropy: Array
    whole_entropy: Array
    n: Array
    words: str

    @property
    def rows(self) -> int:
        """The largest number of rows in which a factor is known."""
        return int(self.n.sum(0).max())

    @property
    def held_out(self) -> Array:
        """The jackknife pseudo-value of each fold (F, 1 + P, L, K): (N I − (N − n) I_train)/n.

        Plug-in information is too large by b/N + O(1/N²). The mean of the pseudo-values, which is
        the jackknife over folds of Quenouille (1956), removes b without estimating it, because
        N · b/N is the same with and without a fold. Up to terms of order 1/N, each pseudo-value is
        a mean over the fold's own rows. Information estimated within a fold would have a bias of
        5b/N, and the bias of permuted rows differs from that of informative codes.
        """
        return self._added(self.whole, self.train, self.n[:, None, None])

    @property
    def held_out_entropy(self) -> Array:
        """The same for entropies (F, 1 + P, K)."""
        return self._added(self.whole_entropy, self.train_entropy, self.n[:, None])

    def _added(self, whole: Array, train: Array, n: Array) -> Array:
        total = n.sum(0)
        return np.asarray((total * whole - (total - n) * train) / n)


def default_bins(rows: int) -> int:
    """20, or fewer if a bin would have fewer than five rows of a fold."""
    return max(2, min(BINS, rows // (5 * FOLDS)))


def information(trial: Trial, bins: int | None = None, noise: float = 0.0) -> Information:
    """Information about all factors, computed once for all metrics that ask for the same.

    Bins are of equal width for the reference, and of equal frequency otherwise.
    """
    check_noise(noise)
    bins = bins or (BINS if trial.reference else default_bins(trial.data.rows))
    key = ("information", bins, trial.permutations, noise, trial.reference)
    return trial.data.once(key, lambda: _information(trial, bins, noise))


def _information(trial: Trial, bins: int, noise: float) -> Information:
    orders: list[list[list[Array]]] = []
    rows = np.empty(0)
    for every in tables(trial, bins, noise, even=trial.reference):
        kept = []
        for counts in every:
            total = counts.sum(0)
            parts = (total - counts, total)
            kept.append(
                [mutual_information(part) for part in parts]
                + [entropy(part[..., 0, :, :].sum(-2)) for part in parts]
            )
        orders.append(kept)
        rows = np.array([counts[:, 0].sum((1, 2)) for counts in every], dtype=np.float64).T
    train, whole, h_train, h_whole = (
        np.array([[factor[part] for factor in each] for each in orders]) for part in range(4)
    )
    words = f"{bins} bins of equal {'width' if trial.reference else 'frequency'}"
    return Information(
        train.transpose(2, 0, 3, 1),
        whole.transpose(0, 2, 1),
        h_train.transpose(2, 0, 1),
        h_whole,
        rows,
        words + (f", noise of {noise:g} added." if noise else "."),
    )
