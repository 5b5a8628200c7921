"""Information in bins, from counts that are additive over folds: MIG and modularity."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from identikit._linalg import Array
from identikit.factors._linear import standardised
from identikit.factors._metric import Trial, check_noise, metric
from identikit.factors._resample import (
    Labels,
    equal_width,
    folds,
    orders,
    pooled,
    ranks,
    to_bins,
)
from identikit.factors._result import Score, named, part_of
from identikit.moments import FOLDS

Counts = NDArray[np.int64]

NO_INTERVAL = (
    "MIG has no interval here: without some of the rows a factor has one value only; more rows of "
    "each value are needed"
)
#: Number of bins per code, unless there are too few rows.
BINS = 20


@metric(
    "MIG",
    "Does one code know more of a factor than any other code?",
    invariant_to="permutation and monotone function per code",
    reference="Chen et al. 2018",
    permutations=50,
    place=40,
)
def mig(trial: Trial, *, bins: int | None = None, noise: float = 0.0) -> Score:
    """Mean over factors of (I(z_a; s) − I(z_b; s)) / H(s), for the two most informative codes.

    The two codes a and b are chosen on other rows, so that chance is 0. Codes (and continuous
    factors) are cut into bins of equal frequency. The bias of I and H, of order 1/n, is removed by
    the jackknife over folds (Quenouille 1956), so that the value does not depend on the number of
    rows, and a perfect code scores 1 even with few rows. preset="reference" (disentanglement_lib)
    uses 20 bins of equal width, without correction, in sample.

    Parameters
    ----------
    bins : int, optional
        Number of bins per code; by default 20, or for held-out scores a fifth of a fold's rows if
        that is fewer.
    noise : float
        Standard deviation of the noise added to codes of variance 1: the resolution of interest.
        Without noise, even a factor that changes a code on a lattice very little counts in full.

    Examples
    --------
    >>> s = np.random.default_rng(0).integers(5, size=(2000, 3))
    >>> round(mig(s, s).value, 2)
    1.0
    """
    found = information(trial, bins, noise)
    if trial.reference:
        values = _gap(found.whole, found.whole) / found.whole_entropy
        # Without a fold a factor may be constant; its MIG is then NaN.
        with np.errstate(invalid="ignore"):
            without = (_gap(found.train, found.train) / found.train_entropy)[:, 0]
    else:
        weight, gap = found.n[:, None], _gap(found.train, found.held_out)
        several = pooled(weight * gap, weight * found.held_out_entropy)
        # With very few rows the bias correction is rough and may exceed the maximum of 1.
        values, without = (np.minimum(each, 1.0) for each in several)
    part = trial.mean_part("MIG", values, without)
    return trial.score(
        part,
        found.words,
        rows=found.rows,
        matrix=np.clip(found.whole[0] / found.whole_entropy[0], 0.0, 1.0),
        matrix_of="mutual information / entropy",
        warnings=() if part.interval is not None else (NO_INTERVAL,),
    )


def _gap(train: Array, test: Array) -> Array:
    """Information of the best code minus that of the second best; `train` decides which they are.

    Codes are the last axis but one.
    """
    order = np.argsort(-train, axis=-2, kind="stable")
    top = np.take_along_axis(test, order, axis=-2)
    # With a single code there is nothing to subtract.
    return np.asarray(top[..., 0, :] - (top[..., 1, :] if top.shape[-2] > 1 else 0.0))


@metric(
    "modularity",
    "Does each code know of one factor only?",
    invariant_to="permutation and monotone function per code",
    reference="Ridgeway and Mozer 2018",
    permutations=50,
    place=42,
)
def modularity(trial: Trial, *, bins: int | None = None, noise: float = 0.0) -> Score:
    """Mean over codes of 1 − Σ_{j≠j*} m_j² / ((K − 1) m_{j*}²), with m_j = I(z; s_j).

    The factor j* about which a code is most informative is chosen on other rows than those that
    give m. A code without information scores 0, and negative values are set to 0. Information is
    estimated as in `mig`, also for the reference. At least two factors are needed.

    Parameters
    ----------
    bins, noise
        As in `mig`.
    """
    trial.needs_several()
    found = information(trial, bins, noise)
    if trial.reference:
        values = _modularity(found.whole, found.whole)
        without = _modularity(found.train, found.train)[:, 0]
    else:
        each = _modularity(found.train, np.maximum(found.held_out, 0.0))
        values, without = pooled(each, np.ones_like(each))
    per_code = named(trial.data.code_names, values[0])
    part = part_of("modularity", values.mean(-1), without.mean(-1), 0.0, per_code=per_code)
    return trial.score(
        part,
        found.words,
        rows=found.rows,
        matrix=found.whole[0],
        matrix_of="mutual information",
    )


def _modularity(train: Array, test: Array) -> Array:
    """The modularity of every code, from information (…, L, K)."""
    most = np.argmax(train, axis=-1)[..., None]
    squares = test**2
    largest = np.take_along_axis(squares, most, axis=-1)[..., 0]
    others = squares.sum(-1) - largest
    share = np.ones(largest.shape)
    np.divide(others, largest * (test.shape[-1] - 1), out=share, where=largest > 0)
    return np.maximum(1.0 - share, 0.0)


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


def jittered(codes: Array, noise: float, seed: int) -> Array:
    """Codes scaled to variance 1 plus noise, of at least 1e-10 in order to break ties."""
    drawn = np.random.default_rng(seed).normal(size=codes.shape)
    return np.asarray(standardised(codes) + max(noise, 1e-10) * drawn)


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
