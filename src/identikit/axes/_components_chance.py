"""The chance level of a component: the best match among m vectors that are unrelated to it.

A member's similarity is the mean over the other runs of its cosine with one of their vectors.
However the vectors are matched, this is at most its mean cosine with the best of each run's m
vectors. So the distribution of the best of m, with m taken from the largest run, is right for two
runs and conservative for more, where one vector is rarely the best match for all others at once.

Random directions are too weak a null model for sparse or heavy-tailed atoms: two such atoms share a
large coordinate far more often than two random directions are close. Therefore the entries of a run
are also permuted, within atoms or within coordinates, and its atoms are matched again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

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

#: How many atoms of other runs are sampled to see how atoms are spread around a member.
SAMPLE = 1024

#: Cosines of float32 vectors that differ by less than this cannot be distinguished.
RESOLUTION = 1e-6

#: In fewer dimensions than this, any two directions are parallel.
FEWEST_DIMS = 1.001

#: How many best matches are drawn with shuffled rows and with permuted entries, and the largest
#: number of shuffles or permutations of one run.
ROW_DRAWS, ENTRY_DRAWS, SHUFFLES = 2000, 2048, 50

#: Members are divided into up to STRATA strata of at least STRATUM members, by their reach: the
#: 16th largest (REACH) of about a thousand cosines.
STRATA, STRATUM, REACH = 8, 24, 16

#: Exponential tails are fitted to this many of the largest draws, then to twice as many, and so on.
FEWEST_DRAWS = 4

Scheme = Callable[[Floats, np.random.Generator], Floats]


@dataclass(frozen=True, eq=False)
class Null:
    """A null model: the median of the best match by chance (its `level`), and its tail.

    `level` is (components, runs), and `p_values` maps similarities of that shape to
    P(the best match by chance is at least this similar).
    """

    name: str
    level: Array
    p_values: Callable[[Array], Array]


def cosine_tail(x: Array, dims: Array | float, signed: bool) -> Array:
    """P(c ≥ x), or P(|c| ≥ x), for the cosine c of a random direction in R^D with a fixed one.

    c² has a Beta(½, (D−1)/2) distribution; D need not be an integer.
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


def random_directions(runs: Sequence[Run], index: Numbers, signed: bool, seed: int) -> Null:
    """Random atoms that are spread around each member as the other runs' atoms are.

    The cosine of a random atom with the member is modelled as mean + c, where c is the cosine of a
    random direction in D = 1/variance dimensions. For atoms without a preferred direction this is
    exact, with mean 0 and D = d. Mean and variance are those of the cosines with up to 1,024 atoms
    of other runs, without the member's matches. The mean is used only if signs count, and the
    variance is at least (1−mean)²/d.
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
    dims, most = np.maximum(1.0 / variance, FEWEST_DIMS), max(run.vectors.count for run in runs)
    return Null(
        "random directions",
        np.minimum(best_median(dims, most, signed) + mean, 1.0),
        lambda similarity: best_tail(similarity - mean, dims, most, signed),
    )


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


def shuffled(runs: Sequence[Run], signed: bool, memory: int, seed: int) -> Null:
    """Shuffle the rows of the largest run, and match columns of every other run to its columns."""
    rng = np.random.default_rng(seed)
    largest = max(runs, key=lambda run: len(run.used))
    others = [run for run in runs if run is not largest]
    wanted, rows = -(-ROW_DRAWS // len(others)), largest.dims
    found: list[Array] = []
    for other in others:
        some = min(wanted, len(other.used))
        for _ in range(min(SHUFFLES, -(-wanted // some))):
            chosen = np.sort(rng.permutation(len(other.used))[:some])
            # Reordered as well, so that both are read in the same pieces.
            left = subset(other.reordered(np.arange(rows)), chosen)
            right = largest.reordered(shuffled_rows(rows, rng))
            found.append(best_match(left, right, signed, memory))
    draws = np.sort(np.concatenate(found))

    def p_values(similarity: Array) -> Array:
        larger = len(draws) - np.searchsorted(draws, similarity, side="left")
        return np.asarray((1 + larger) / (1 + len(draws)))

    return Null("shuffled rows", np.array([[np.median(draws)]]), p_values)


def discovery_cut(p_values: Array, rate: float) -> float:
    """The largest significant p-value by Benjamini and Hochberg (1995); −1 if there is none.

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
    """Every coordinate's entries in random order; atoms other than 0 are scaled to norm 1."""
    mixed = rng.permuted(atoms, axis=0)
    norms = np.linalg.norm(mixed, axis=1, keepdims=True)
    mixed /= np.where(norms > 0, norms, 1.0)
    return mixed


SCHEMES: dict[str, Scheme] = {
    "entries permuted within atoms": within_atoms,
    "entries permuted within coordinates": within_coordinates,
}


def upper_tail(draws: Array, x: Array) -> Array:
    """P(draw ≥ x) from N sorted draws: counted where draws reach, extrapolated beyond them.

    Where at least four draws reach x, it is (1 + number of draws ≥ x)/(1 + N). Beyond that, it is
    the largest of (k/N) exp(−(x − t_k)/σ_k) for k = 4, 8, … up to N/8, but no more than the count
    gives: exponential tails through the k largest draws, whose mean excess over the next draw t_k
    is σ_k. Small k cover tails that turn out heavier than the bulk suggests. The idea is that of
    Knijnenburg et al. (2009), with a tail that is never lighter than exponential.
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


def permuted(runs: Sequence[Run], index: Numbers, signed: bool, name: str, seed: int) -> Null:
    """Permute the entries of the other runs by the named scheme, and match members to them.

    The members of a run are divided into strata by their reach, so that a few atoms with only one
    coordinate do not set the level for all others, nor the others the level for them.
    """
    rng = np.random.default_rng([seed, list(SCHEMES).index(name)])
    level, strata = np.zeros(index.shape), []
    for r, run in enumerate(runs):
        own, there = run.matrix, np.flatnonzero(index[:, r] >= 0)
        others = [each.matrix for s, each in enumerate(runs) if s != r]
        order, cuts = _strata(own, others, SCHEMES[name], signed, rng)
        place = np.empty(len(own), np.intp)
        place[order] = np.searchsorted(cuts[1:-1], np.arange(len(own)), side="right")
        chosen, best = [], []
        wanted = -(-ENTRY_DRAWS // len(others))
        some = min(wanted, len(own))
        for other in others:
            for _ in range(min(SHUFFLES, -(-wanted // some))):
                chosen.append(order[np.linspace(0, len(own) - 1, some).round().astype(np.intp)])
                right = held(SCHEMES[name](other, rng))
                best.append(best_match(held(own[chosen[-1]]), right, signed))
        draws, drawn_for = np.concatenate(best), place[np.concatenate(chosen)]
        for stratum in range(len(cuts) - 1):
            members = there[place[index[there, r]] == stratum]
            strata.append((members, r, np.sort(draws[drawn_for == stratum])))
            level[members, r] = np.median(strata[-1][-1])

    def p_values(similarity: Array) -> Array:
        found = np.ones(similarity.shape)
        for members, r, some_draws in strata:
            found[members, r] = upper_tail(some_draws, similarity[members, r])
        return found

    return Null(name, level, p_values)


def _strata(
    own: Floats, others: Sequence[Floats], scheme: Scheme, signed: bool, rng: np.random.Generator
) -> tuple[Numbers, list[int]]:
    """Atoms ordered by how large their cosines with permuted atoms get, and where strata end."""
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
    """One null model: its mean chance `level`, and the share of members that pass it.

    A member passes at the requested false discovery rate, by this null model alone.
    """

    name: str
    level: float
    passing: float


def null_reports(nulls: Sequence[Null], similarity: Array, rate: float) -> tuple[NullReport, ...]:
    """Each null model by itself, the strictest first; `similarity` is NaN without a member.

    The strictest is the one that the fewest members pass; ties go to the highest level.
    """
    there = ~np.isnan(similarity)
    found = []
    for null in nulls:
        p = null.p_values(np.where(there, similarity, 0.0))[there]
        level = float(np.broadcast_to(null.level, there.shape)[there].mean())
        found.append(NullReport(null.name, level, float((p <= discovery_cut(p, rate)).mean())))
    return tuple(sorted(found, key=lambda report: (report.passing, -report.level)))


def largest(several: Iterable[Array]) -> Array:
    """The entrywise maximum: as long as one null model is right, no p-value is too small."""
    return np.asarray(np.max(list(several), axis=0))
