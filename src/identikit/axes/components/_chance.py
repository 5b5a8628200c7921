"""What a component scores by chance: the best of m vectors that have nothing to do with it.

A member's similarity is the mean over the other runs of its cosine with one of their vectors. That
is at most its cosine with the best of each run's m vectors, however the matching is done; so the
law of the best of m, with m the largest run's, is right for two runs and on the safe side for more,
where no vector is the best for all others at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from identikit._linalg import Array
from identikit.axes.components._runs import Activations, Run, shuffled_rows
from identikit.axes.components._vectors import Floats, Numbers, Vectors, held, strips, subset

#: Atoms of other runs that say how atoms lie about a member.
SAMPLE = 1024

#: Cosines of float32 vectors are told apart from 1 by no less than this.
RESOLUTION = 1e-6

#: Of directions in fewer dimensions than this, any two are parallel.
FEWEST = 1.001

#: Best matches with shuffled rows that are drawn, and the most shuffles of a pair for that.
DRAWS, SHUFFLES = 2000, 50


def cosine_tail(x: Array, dims: Array | float, signed: bool) -> Array:
    """P(c ≥ x), or P(|c| ≥ x), of the cosine c of a random direction in R^D with a fixed one.

    c² is Beta(½, (D−1)/2); D need not be whole.
    """
    from scipy.special import betainc

    inside = np.clip(x, -1.0, 1.0 - RESOLUTION)
    beyond = np.asarray(betainc((np.asarray(dims) - 1) / 2, 0.5, 1 - inside**2))
    if not signed:
        return np.where(x > 0, beyond, 1.0)
    return np.where(x > 0, beyond / 2, 1 - beyond / 2)


def best_tail(x: Array, dims: Array | float, count: int, signed: bool) -> Array:
    """P(the best of `count` independent cosines ≥ x) = 1 − F(x)^count."""
    with np.errstate(divide="ignore"):
        inside = np.log1p(-cosine_tail(x, dims, signed))
    tail: Array = -np.expm1(count * inside)
    return tail


def best_median(dims: Array | float, count: int, signed: bool) -> Array:
    """The median of the best of `count` independent cosines in R^D.

    >>> float(best_median(768, 16384, True).round(4))
    0.1413
    """
    from scipy.special import betaincinv

    tail = -np.expm1(-np.log(2) / count)
    share = betaincinv((np.asarray(dims) - 1) / 2, 0.5, 2 * tail if signed else tail)
    median: Array = np.sqrt(1 - np.asarray(share))
    return median


@dataclass(frozen=True, eq=False)
class AtomChance:
    """Random atoms, spread about each member as the other runs' atoms are.

    The cosine of a random atom with the member is mean + c, with c that of a random direction in
    D = 1/variance dimensions; for atoms without a preferred direction that is exact, mean 0 and
    D = d. Mean and variance are those of the cosines with up to 1,024 atoms of other runs, without
    the member's matches; the mean counts if signs do, and the variance is at least (1−mean)²/d.

    Parameters
    ----------
    mean, dims : array (components, runs)
        Of the cosines, and 1/variance.
    count : int
        Atoms of the largest run.
    signed : bool
        Whether signs count.
    """

    mean: Array
    dims: Array
    count: int
    signed: bool
    name: str = "random directions"

    @property
    def level(self) -> Array:
        """The median of the best match by chance, (components, runs)."""
        return np.minimum(best_median(self.dims, self.count, self.signed) + self.mean, 1.0)

    def p_values(self, similarity: Array) -> Array:
        """P(the best match by chance is at least this similar), (components, runs)."""
        return best_tail(similarity - self.mean, self.dims, self.count, self.signed)


def atom_chance(runs: Sequence[Run], index: Numbers, signed: bool, seed: int) -> AtomChance:
    """The law of chance for matched atoms, in memory.

    Parameters
    ----------
    runs : sequence of Run
        Of atoms.
    index : array (components, runs)
        As `match` has found it.
    """
    rng = np.random.default_rng(seed)
    shape, least = index.shape, 1.0 / runs[0].dims
    mean, variance = np.zeros(shape), np.full(shape, least)
    for r, run in enumerate(runs):
        others, own = _others(runs, index, r, rng)
        there = np.flatnonzero(index[:, r] >= 0)
        members = subset(run.vectors, index[there, r])
        for rows, cosines in strips(members, others, 0):
            matches = own == there[rows, None]
            cosines[matches] = 0.0
            count = np.maximum(len(own) - matches.sum(axis=1), 1)
            first = cosines.sum(axis=1, dtype=np.float64) / count
            second = np.square(cosines).sum(axis=1, dtype=np.float64) / count
            centre = mean[there[rows], r] = np.maximum(first, 0.0) if signed else 0.0
            variance[there[rows], r] = np.maximum(second - centre**2, least * (1 - centre) ** 2)
    dims, count = np.maximum(1.0 / variance, FEWEST), max(run.vectors.count for run in runs)
    return AtomChance(mean, dims, count, signed)


def _others(
    runs: Sequence[Run], index: Numbers, left_out: int, rng: np.random.Generator
) -> tuple[Vectors, Numbers]:
    """A sample of the atoms of all runs but one, and the component of each (−1 for none)."""
    atoms, owners = [], []
    for r, run in enumerate(runs):
        if r == left_out:
            continue
        assert run.vectors.whole is not None  # atoms are read whole
        component = np.full(run.vectors.count, -1, np.intp)
        there = np.flatnonzero(index[:, r] >= 0)
        component[index[there, r]] = there
        chosen = rng.permutation(run.vectors.count)[: -(-SAMPLE // (len(runs) - 1))]
        atoms.append(run.vectors.whole[chosen])
        owners.append(component[chosen])
    return held(np.concatenate(atoms)), np.concatenate(owners)


@dataclass(frozen=True, eq=False)
class ShuffledChance:
    """Best correlations of columns with all columns of a run whose rows are shuffled.

    Parameters
    ----------
    draws : array
        Sorted.
    count : int
        Columns of the shuffled run.
    """

    draws: Array
    count: int
    name: str = "shuffled rows"

    @property
    def level(self) -> Array:
        """The median of the draws, (1, 1)."""
        return np.array([[np.median(self.draws)]])

    def p_values(self, similarity: Array) -> Array:
        """(1 + draws at least as large) / (1 + draws), (components, runs)."""
        larger = len(self.draws) - np.searchsorted(self.draws, similarity, side="left")
        return np.asarray((1 + larger) / (1 + len(self.draws)))


def shuffled_chance(
    columns: Sequence[Activations], signed: bool, memory: int, seed: int
) -> ShuffledChance:
    """Shuffle the rows of the largest run, and match columns of every other run to its columns."""
    rng = np.random.default_rng(seed)
    largest = max(columns, key=lambda run: len(run.used))
    others = [run for run in columns if run is not largest]
    wanted, rows = -(-DRAWS // len(others)), largest.source.rows
    draws: list[Array] = []
    for other in others:
        some = min(wanted, len(other.used))
        for _ in range(min(SHUFFLES, -(-wanted // some))):
            chosen = np.sort(rng.permutation(len(other.used))[:some])
            # In an order too, so that both come in the same pieces.
            left = subset(other.vectors(np.arange(rows)), chosen)
            right = largest.vectors(shuffled_rows(rows, rng))
            draws += [_best(block, signed) for _, block in strips(left, right, memory)]
    return ShuffledChance(np.sort(np.concatenate(draws)), len(largest.used))


def _best(block: Floats, signed: bool) -> Array:
    best: Array = (block if signed else np.abs(block)).max(axis=1).astype(np.float64)
    return best


def discovery_cut(p_values: Array, rate: float) -> float:
    """The largest p-value that counts, by Benjamini and Hochberg (1995); negative if none does.

    >>> discovery_cut(np.array([0.01, 0.02, 0.2, 0.9]), 0.05)
    0.02
    """
    ordered = np.sort(p_values)
    below = np.flatnonzero(ordered <= rate * np.arange(1, len(ordered) + 1) / len(ordered))
    return float(ordered[below[-1]]) if len(below) else -1.0
