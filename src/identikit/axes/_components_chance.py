"""What a component scores by chance: the best of m vectors that have nothing to do with it.

A member's similarity is the mean over the other runs of its cosine with one of their vectors. That
is at most its cosine with the best of each run's m vectors, however the matching is done; so the
law of the best of m, with m the largest run's, is right for two runs and on the safe side for more,
where no vector is the best for all others at once.

Random directions are no chance level for sparse or heavy-tailed atoms: two of these share a large
coordinate far more often than two directions lie close. So the entries of a run are permuted too,
and its atoms are matched again. Within an atom: its own entries stay, with their signs, in other
coordinates. Within a coordinate: its own entries stay, in other atoms, which keeps a coordinate
large that is large in all atoms; atoms are scaled to norm 1 again. Each member is held against the
null that is hardest on it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from identikit._linalg import Array
from identikit.axes._components_runs import (
    Floats,
    Numbers,
    Run,
    Vectors,
    best_match,
    held,
    shuffled_rows,
    strips,
    subset,
)

#: Atoms of other runs that say how atoms lie about a member.
SAMPLE = 1024

#: Cosines of float32 vectors are told apart by no less than this.
RESOLUTION = 1e-6

#: Of directions in fewer dimensions than this, any two are parallel.
FEWEST_DIMS = 1.001

#: Best matches that are drawn with shuffled rows and with permuted entries, and the most shuffles
#: or permutations of a run for that.
ROW_DRAWS, ENTRY_DRAWS, SHUFFLES = 2000, 2048, 50

#: Members fall into so many strata of at least this many, by how far their cosines reach: the
#: sixteenth largest of about a thousand.
STRATA, STRATUM, REACH = 8, 24, 16

#: Exponential tails are laid through the largest few draws, twice as many each time.
FEWEST_DRAWS = 4

Scheme = Callable[[Floats, np.random.Generator], Floats]


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
        for rows, cosines in strips(members, others, signed):
            matches = own == there[rows, None]
            cosines[matches] = 0.0
            count = np.maximum(len(own) - matches.sum(axis=1), 1)
            first = cosines.sum(axis=1, dtype=np.float64) / count
            second = np.square(cosines).sum(axis=1, dtype=np.float64) / count
            centre = mean[there[rows], r] = np.maximum(first, 0.0) if signed else 0.0
            variance[there[rows], r] = np.maximum(second - centre**2, least * (1 - centre) ** 2)
    dims, count = np.maximum(1.0 / variance, FEWEST_DIMS), max(run.vectors.count for run in runs)
    return AtomChance(mean, dims, count, signed)


def _others(
    runs: Sequence[Run], index: Numbers, left_out: int, rng: np.random.Generator
) -> tuple[Vectors, Numbers]:
    """A sample of the atoms of all runs but one, and the component of each (−1 for none)."""
    atoms, owners = [], []
    for r, run in enumerate(runs):
        if r == left_out:
            continue
        component = np.full(run.vectors.count, -1, np.intp)
        there = np.flatnonzero(index[:, r] >= 0)
        component[index[there, r]] = there
        chosen = rng.permutation(run.vectors.count)[: -(-SAMPLE // (len(runs) - 1))]
        atoms.append(run.matrix[chosen])
        owners.append(component[chosen])
    return held(np.concatenate(atoms)), np.concatenate(owners)


@dataclass(frozen=True, eq=False)
class ShuffledChance:
    """Best correlations of columns with all columns of a run whose rows are shuffled.

    Parameters
    ----------
    draws : array
        Sorted.
    """

    draws: Array
    name: str = "shuffled rows"

    @property
    def level(self) -> Array:
        """The median of the draws, (1, 1)."""
        return np.array([[np.median(self.draws)]])

    def p_values(self, similarity: Array) -> Array:
        """(1 + draws at least as large) / (1 + draws), (components, runs)."""
        larger = len(self.draws) - np.searchsorted(self.draws, similarity, side="left")
        return np.asarray((1 + larger) / (1 + len(self.draws)))


def shuffled_chance(runs: Sequence[Run], signed: bool, memory: int, seed: int) -> ShuffledChance:
    """Shuffle the rows of the largest run, and match columns of every other run to its columns."""
    rng = np.random.default_rng(seed)
    largest = max(runs, key=lambda run: len(run.used))
    others = [run for run in runs if run is not largest]
    wanted, rows = -(-ROW_DRAWS // len(others)), largest.dims
    draws: list[Array] = []
    for other in others:
        assert other.reordered is not None  # these are activations
        assert largest.reordered is not None
        some = min(wanted, len(other.used))
        for _ in range(min(SHUFFLES, -(-wanted // some))):
            chosen = np.sort(rng.permutation(len(other.used))[:some])
            # In an order too, so that both come in the same pieces.
            left = subset(other.reordered(np.arange(rows)), chosen)
            right = largest.reordered(shuffled_rows(rows, rng))
            draws.append(best_match(left, right, signed, memory))
    return ShuffledChance(np.sort(np.concatenate(draws)))


def discovery_cut(p_values: Array, rate: float) -> float:
    """The largest p-value that counts, by Benjamini and Hochberg (1995); negative if none does.

    >>> discovery_cut(np.array([0.01, 0.02, 0.2, 0.9]), 0.05)
    0.02
    """
    ordered = np.sort(p_values)
    below = np.flatnonzero(ordered <= rate * np.arange(1, len(ordered) + 1) / len(ordered))
    return float(ordered[below[-1]]) if len(below) else -1.0


def within_atoms(atoms: Floats, rng: np.random.Generator) -> Floats:
    """Every atom's entries in random order."""
    return rng.permuted(atoms, axis=1)


def within_coordinates(atoms: Floats, rng: np.random.Generator) -> Floats:
    """Every coordinate's entries in random order, and atoms at norm 1, but for those of zeros."""
    mixed = rng.permuted(atoms, axis=0)
    norms = np.linalg.norm(mixed, axis=1, keepdims=True)
    mixed /= np.where(norms > 0, norms, 1.0)
    return mixed


SCHEMES: dict[str, Scheme] = {
    "entries permuted within atoms": within_atoms,
    "entries permuted within coordinates": within_coordinates,
}


@dataclass(frozen=True, eq=False)
class PermutedChance:
    """Best matches of members with the atoms of other runs whose entries are permuted.

    Parameters
    ----------
    name : str
        Of the scheme.
    stratum : array of int (components, runs)
        Of each member; 0 where there is none.
    draws : tuple of tuples of arrays
        Of each run and stratum, sorted.
    """

    name: str
    stratum: Numbers
    draws: tuple[tuple[Array, ...], ...]

    @property
    def level(self) -> Array:
        """The median of the best match by chance, (components, runs)."""
        medians = [np.array([np.median(some) for some in every]) for every in self.draws]
        return np.stack([m[s] for m, s in zip(medians, self.stratum.T)], axis=1)

    def p_values(self, similarity: Array) -> Array:
        """P(the best match by chance is at least this similar), (components, runs)."""
        found = np.ones(similarity.shape)
        for run, every in enumerate(self.draws):
            for stratum, some in enumerate(every):
                here = self.stratum[:, run] == stratum
                found[here, run] = upper_tail(some, similarity[here, run])
        return found


def upper_tail(draws: Array, x: Array) -> Array:
    """P(draw ≥ x): counted as far as draws reach, and beyond them on the safe side.

    Counted, it is (1 + draws ≥ x)/(1 + N). Beyond all but a few it is at most that, and at least
    the largest of (k/N) exp(−(x − t_k)/σ_k), k = 4, 8, … up to N/8: the exponential tails through
    the k largest draws, of mean σ_k above the next one, t_k. The few largest speak for a tail that
    is heavier than it seemed. The idea is that of Knijnenburg et al. (2009), with a tail that is
    never lighter than exponential.

    Parameters
    ----------
    draws : array
        Sorted.
    x : array
        Where.
    """
    count = len(draws)
    larger = count - np.searchsorted(draws, x - RESOLUTION, side="left")
    tail, k = np.where(larger > 0, 1 / (1 + count), 0.0), FEWEST_DRAWS
    while k == FEWEST_DRAWS or k <= count // 8:
        k = min(k, count - 1)
        edge = draws[-k - 1]
        scale = max(float(draws[-k:].mean() - edge), RESOLUTION)
        tail = np.maximum(tail, k / count * np.exp(-np.maximum(x - edge, 0.0) / scale))
        k *= 2
    counted = (1 + np.maximum(larger, FEWEST_DRAWS)) / (1 + count)
    return np.where(larger >= FEWEST_DRAWS, counted, np.minimum(tail, counted))


def permuted_chance(
    runs: Sequence[Run], index: Numbers, signed: bool, name: str, seed: int
) -> PermutedChance:
    """Permute every run's entries, and match the other runs' members to it.

    A run's members are drawn from in strata by their reach, so that a few atoms of one coordinate
    do not set the level for all the others, nor the others theirs.

    Parameters
    ----------
    runs : sequence of Run
        Of atoms, in memory.
    index : array (components, runs)
        As `match` has found it.
    signed : bool
        Whether signs count.
    name : str
        Of the scheme.
    """
    rng = np.random.default_rng([seed, list(SCHEMES).index(name)])
    stratum, draws = np.zeros(index.shape, np.intp), []
    for r, run in enumerate(runs):
        own = run.matrix
        others = [each.matrix for s, each in enumerate(runs) if s != r]
        order, cuts = _strata(own, others, SCHEMES[name], signed, rng)
        place = np.empty(len(own), np.intp)
        place[order] = np.searchsorted(cuts[1:-1], np.arange(len(own)), side="right")
        stratum[:, r] = np.where(index[:, r] >= 0, place[index[:, r]], 0)
        found: list[list[Array]] = [[] for _ in cuts[1:]]
        wanted = -(-ENTRY_DRAWS // len(others))
        for other in others:
            some = min(wanted, len(own))
            for _ in range(min(SHUFFLES, -(-wanted // some))):
                chosen = order[np.linspace(0, len(own) - 1, some).round().astype(np.intp)]
                best = best_match(held(own[chosen]), held(SCHEMES[name](other, rng)), signed)
                for number in range(len(found)):
                    found[number].append(best[place[chosen] == number])
        draws.append(tuple(np.sort(np.concatenate(each)) for each in found))
    return PermutedChance(name, stratum, tuple(draws))


def _strata(
    own: Floats, others: Sequence[Floats], scheme: Scheme, signed: bool, rng: np.random.Generator
) -> tuple[Numbers, list[int]]:
    """Atoms in the order of how far their cosines with permuted ones reach, and where to cut it."""
    some = -(-SAMPLE // len(others))
    samples = [other[rng.permutation(len(other))[:some]] for other in others]
    right = np.concatenate([scheme(sample, rng) for sample in samples])
    reach = np.empty(len(own))
    far = min(REACH, len(right))
    for rows, block in strips(held(own), held(right), signed):
        reach[rows] = np.partition(block, len(right) - far, axis=1)[:, -far]
    count = min(STRATA, max(1, len(own) // STRATUM))
    return np.argsort(reach, kind="stable"), [len(own) * cut // count for cut in range(count + 1)]


@dataclass(frozen=True)
class NullReport:
    """What one null says: the mean `level` of its chance, and the share of members that pass it.

    A member passes at the rate of false discoveries that was asked for, by this null alone.
    """

    name: str
    level: float
    passing: float

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return dict(vars(self))


@dataclass(frozen=True, eq=False)
class StrictestChance:
    """The largest p-value and the highest level that any of the nulls gives, member by member.

    As long as one of the nulls is right, a p-value is no smaller than it should be.
    """

    nulls: tuple[AtomChance | PermutedChance | ShuffledChance, ...]

    @property
    def level(self) -> Array:
        """The highest median of the best match by chance, (components, runs)."""
        return np.asarray(np.max([null.level for null in self.nulls], axis=0))

    def p_values(self, similarity: Array) -> Array:
        """The largest of P(the best match by chance is at least this similar)."""
        return np.asarray(np.max([null.p_values(similarity) for null in self.nulls], axis=0))

    def reports(self, similarity: Array, rate: float) -> tuple[NullReport, ...]:
        """What each null says of the members, the strictest first.

        That is the one that fewest members pass; among equals, that of the highest level.

        Parameters
        ----------
        similarity : array (components, runs)
            NaN where there is no member.
        rate : float
            Of false discoveries.
        """
        there = ~np.isnan(similarity)
        found = []
        for null in self.nulls:
            p = null.p_values(np.where(there, similarity, 0.0))[there]
            level = float(np.broadcast_to(null.level, there.shape)[there].mean())
            found.append(NullReport(null.name, level, float((p <= discovery_cut(p, rate)).mean())))
        return tuple(sorted(found, key=lambda report: (report.passing, -report.level)))


def strictest_chance(
    runs: Sequence[Run], index: Numbers, signed: bool, seed: int
) -> StrictestChance:
    """Of matched atoms: random directions, and both ways to permute their entries.

    Parameters
    ----------
    runs : sequence of Run
        Of atoms, in memory.
    index : array (components, runs)
        As `match` has found it.
    """
    permuted = [permuted_chance(runs, index, signed, name, seed) for name in SCHEMES]
    return StrictestChance((atom_chance(runs, index, signed, seed), *permuted))
