"""Dictionaries that have nothing to do with each other, but keep what each looks like.

Random directions are no chance level for sparse or heavy-tailed atoms: two of these share a large
coordinate far more often than two directions lie close. So the entries of a run are permuted, and
its atoms are matched again. Within an atom: its own entries stay, with their signs, in other
coordinates. Within a coordinate: its own entries stay, in other atoms, which keeps a coordinate
large that is large in all atoms; atoms are scaled to norm 1 again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from identikit._linalg import Array
from identikit.axes.components._runs import Run
from identikit.axes.components._vectors import Floats, Numbers, held, strips

#: Best matches drawn for the members of a run, and the most permutations of a run for that.
DRAWS, SHUFFLES = 2048, 50

#: Members fall into so many strata of at least this many, by how far their cosines reach: the
#: sixteenth largest of about a thousand.
STRATA, STRATUM = 8, 24
SAMPLE, REACH = 1024, 16

#: Cosines of float32 vectors are told apart by no less than this.
RESOLUTION = 1e-6

#: Exponential tails are laid through the largest few draws, twice as many each time.
FEWEST = 4

Scheme = Callable[[Floats, np.random.Generator], Floats]


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
    tail, k = np.where(larger > 0, 1 / (1 + count), 0.0), FEWEST
    while k == FEWEST or k <= count // 8:
        k = min(k, count - 1)
        edge = draws[-k - 1]
        scale = max(float(draws[-k:].mean() - edge), RESOLUTION)
        tail = np.maximum(tail, k / count * np.exp(-np.maximum(x - edge, 0.0) / scale))
        k *= 2
    counted = (1 + np.maximum(larger, FEWEST)) / (1 + count)
    return np.where(larger >= FEWEST, counted, np.minimum(tail, counted))


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
        assert run.vectors.whole is not None  # atoms are read whole
        own = run.vectors.whole
        others = [each.vectors.whole for s, each in enumerate(runs) if s != r]
        matched = [whole for whole in others if whole is not None]
        order, cuts = _strata(own, matched, SCHEMES[name], signed, rng)
        place = np.empty(len(own), np.intp)
        place[order] = np.searchsorted(cuts[1:-1], np.arange(len(own)), side="right")
        stratum[:, r] = np.where(index[:, r] >= 0, place[index[:, r]], 0)
        found: list[list[Array]] = [[] for _ in cuts[1:]]
        wanted = -(-DRAWS // len(matched))
        for other in matched:
            some = min(wanted, len(own))
            for _ in range(min(SHUFFLES, -(-wanted // some))):
                chosen = order[np.linspace(0, len(own) - 1, some).round().astype(np.intp)]
                best = _best(own[chosen], SCHEMES[name](other, rng), signed)
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
    for rows, block in strips(held(own), held(right), 0):
        found = block if signed else np.abs(block)
        reach[rows] = np.partition(found, len(right) - far, axis=1)[:, -far]
    count = min(STRATA, max(1, len(own) // STRATUM))
    return np.argsort(reach, kind="stable"), [len(own) * cut // count for cut in range(count + 1)]


def _best(left: Floats, right: Floats, signed: bool) -> Array:
    best = [
        (block if signed else np.abs(block)).max(axis=1)
        for _, block in strips(held(left), held(right), 0)
    ]
    return np.concatenate(best).astype(np.float64)
