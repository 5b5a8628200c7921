"""Matching the vectors of all runs, with at most one vector per run in each component.

A component is a set of vectors, at most one per run, each with a sign. The objective is the sum
over components of all inner products within them, Σ_c Σ_{r<s} σ_r σ_s ⟨a_r, a_s⟩. For one run, with
the others fixed, this is an assignment to the sums Σ_{s≠r} σ_s a_s, which is solved exactly. The
objective therefore rises with every step until no run can be matched better (coordinate ascent to a
local optimum; for two runs the first step is optimal). By construction, the matches of different
pairs of runs cannot contradict each other.

An assignment is dense (the full matrix of similarities, solved by the shortest augmenting paths of
Jonker and Volgenant) or sparse. In a sparse one, each vector may go to one of its c nearest
neighbours or to a private placeholder that is worth as much as the last of these. No assignment
over the full matrix is worth more than the best one in this graph, because an edge outside the
graph is worth no more than the placeholder; this gives the upper bound. Vectors that end up at
their placeholder are then assigned among themselves to the vectors that remain.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from identikit._linalg import Array
from identikit.axes._components_runs import Numbers, Vectors, paired, strips, subset, total
from identikit.errors import InputError

METHODS = ("auto", "dense", "sparse")

#: A placeholder is worth less than the last candidate by this much, so that ties avoid it.
TIE = 1e-6

#: Up to this many vectors per run, each of the largest runs is tried as the start and the best
#: result is kept, and sweeps go on until no run can be matched better.
SMALL = 1024

#: With more vectors, sweeps end when one raises the objective by less than this share: what is
#: left to gain lies in how vectors without a true match are arranged.
RISE = 1e-3

#: The smallest relative gain that counts as an improvement: more than rounding in float32.
BETTER = 1e-6

Signs = NDArray[np.int8]


@dataclass(frozen=True, eq=False)
class Assignment:
    """A column for every vector, the sum of similarities, and an upper bound on that sum."""

    columns: Numbers
    value: float
    bound: float
    method: str


@dataclass(frozen=True)
class Assigner:
    """How assignments are made: dense, sparse, or ("auto") dense if that fits into `memory` bytes.

    `signed` says whether inner products keep their sign, and `candidates` how many nearest
    neighbours the sparse graph keeps.
    """

    signed: bool
    memory: int
    method: str
    candidates: int

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise InputError(
                f"assignment is {self.method!r}; choose one of {', '.join(map(repr, METHODS))}"
            )
        if self.candidates < 1:
            raise InputError(f"candidates is {self.candidates}; give at least 1")

    def __call__(self, left: Vectors, right: Vectors) -> Assignment:
        """Assign each vector of `left` to one of `right`, which has at least as many."""
        if left.count == 0:
            return Assignment(np.empty(0, np.intp), 0.0, 0.0, self.method)
        fits = 8 * left.count * right.count <= self.memory
        dense = fits if self.method == "auto" else self.method == "dense"
        return self._dense(left, right) if dense else self._sparse(left, right)

    def _dense(self, left: Vectors, right: Vectors) -> Assignment:
        from scipy.optimize import linear_sum_assignment

        # SciPy takes costs in float64 without making another copy.
        costs = np.empty((left.count, right.count))
        for rows, block in strips(left, right, self.signed, self.memory):
            np.negative(block, out=costs[rows])
        _, columns = linear_sum_assignment(costs)
        value = -float(costs[np.arange(left.count), columns].sum())
        return Assignment(columns, value, value, "dense")

    def _sparse(self, left: Vectors, right: Vectors) -> Assignment:
        nearest, values = self._nearest(left, right)
        least = values.min(axis=1)
        places = _matched(nearest, values, least - TIE, right.count)
        rest = np.flatnonzero(places >= right.count)
        inside = np.setdiff1d(np.arange(left.count), rest)
        free = np.setdiff1d(np.arange(right.count), places)
        last = replace(self, method="auto")(subset(left, rest), subset(right, free))
        where = nearest[inside] == places[inside, None]
        value = float(values[inside][where].sum())
        places[rest] = free[last.columns]
        bound = value + float(least[rest].sum()) + TIE * left.count
        return Assignment(places, value + last.value, bound, "sparse")

    def _nearest(self, left: Vectors, right: Vectors) -> tuple[Numbers, Array]:
        """The most similar vectors of `right` for each vector of `left`, in no particular order."""
        count = min(self.candidates, right.count)
        nearest = np.empty((left.count, count), np.intp)
        values = np.empty((left.count, count))
        for rows, block in strips(left, right, self.signed, self.memory):
            nearest[rows] = np.argpartition(block, right.count - count, axis=1)[:, -count:]
            values[rows] = np.take_along_axis(block, nearest[rows], axis=1)
        return nearest, values


def _matched(nearest: Numbers, values: Array, private: Array, count: int) -> Numbers:
    """The best assignment in the graph; column `count` + i is the placeholder of vector i."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import min_weight_full_bipartite_matching

    rows, candidates = nearest.shape
    own = count + np.arange(rows)
    worth = np.column_stack([values, private])
    # A weight of 0 would mean that there is no edge.
    costs = worth.max() + 1.0 - worth
    graph = csr_array(
        (
            costs.ravel(),
            np.column_stack([nearest, own]).ravel(),
            np.arange(rows + 1) * (candidates + 1),
        ),
        shape=(rows, count + rows),
    )
    matched, places = min_weight_full_bipartite_matching(graph)
    return places[np.argsort(matched)].astype(np.intp)


@dataclass(frozen=True, eq=False)
class Matching:
    """Components: `index` (components, runs) of vectors, −1 for none, and the `sign` of each.

    `value` is the objective and `sweeps` is how often all runs were reassigned. `gap` is the
    largest relative amount by which an assignment of the last sweep may fall short of the best; 0
    if all were exact.
    """

    index: Numbers
    sign: Signs
    value: float
    sweeps: int
    gap: float
    methods: tuple[str, ...]


def match(runs: Sequence[Vectors], assigner: Assigner, tell: Callable[[], None]) -> Matching:
    """Match the unit vectors of all runs; of small runs, keep the best of several starts.

    `tell` is called after every assignment.
    """
    most = max(run.count for run in runs)
    firsts = [number for number, run in enumerate(runs) if run.count == most]
    if len(runs) == 2 or most > SMALL:
        firsts = firsts[:1]
    return max((_climb(runs, first, assigner, tell) for first in firsts), key=lambda m: m.value)


def _climb(
    runs: Sequence[Vectors], first: int, assigner: Assigner, tell: Callable[[], None]
) -> Matching:
    """Start from the vectors of one run, add the other runs one by one, then sweep."""
    shape = runs[first].count, len(runs)
    index, sign = np.full(shape, -1, np.intp), np.ones(shape, np.int8)
    index[:, first] = np.arange(shape[0])
    others = [number for number in range(len(runs)) if number != first]
    made: dict[int, Assignment] = {}

    def assign(run: int) -> float:
        """Reassign one run to the sum of the others if that is better, and return the gain."""
        rest = [number for number in range(len(runs)) if number != run]
        sums = total([runs[s] for s in rest], index[:, rest], sign[:, rest])
        there = np.flatnonzero(index[:, run] >= 0)
        before = sign[there, run] @ paired(sums, runs[run], there, index[there, run])
        made[run] = assigner(runs[run], sums)
        tell()
        places = made[run].columns
        products = paired(runs[run], sums, np.arange(len(places)), places)
        signs = np.where(products < 0, -1, 1) if not assigner.signed else np.ones(len(places))
        gain = float(products @ signs - before)
        if len(there) and gain <= BETTER * abs(before):
            return 0.0
        index[:, run], sign[:, run] = -1, 1
        index[places, run], sign[places, run] = np.arange(len(places)), signs
        return gain

    value = sum(assign(run) for run in others)
    sweeps, gain = 0, value if len(runs) > 2 else 0.0
    while gain > (0.0 if shape[0] <= SMALL else RISE * value):
        gain = sum(assign(run) for run in (first, *others))
        value, sweeps = value + gain, sweeps + 1
    gap = max((a.bound - a.value) / max(abs(a.value), 1e-30) for a in made.values())
    methods = tuple(sorted({a.method for a in made.values()}))
    return Matching(index, sign, value, sweeps, gap, methods)


def pairwise_mcc(runs: Sequence[Vectors], found: Matching, assigner: Assigner) -> float:
    """PW-MCC: mean over pairs of runs of the mean similarity of their optimally matched vectors.

    (1/m) max_π Σ_i ⟨a_i, b_π(i)⟩ over all m vectors of the smaller run, with absolute values if
    signs do not count. Each pair of runs has its own assignment, which is at least as good for that
    pair as the joint matching of all runs. For two runs the joint matching `found` is reused.
    """
    if len(runs) == 2:
        return found.value / min(run.count for run in runs)
    values = []
    for one, other in combinations(runs, 2):
        left, right = sorted((one, other), key=lambda run: run.count)
        values.append(assigner(left, right).value / left.count)
    return float(np.mean(values))


def uniqueness(runs: Sequence[Vectors], signed: bool, memory: int) -> tuple[Array, Array]:
    """For each run, the share of vectors whose best match is unique: (measured, by chance).

    The best match of a vector is the most similar vector of another run (argmax; the first one of
    ties). It is unique if no other vector of the same run has the same best match. The share is
    taken over all vectors of the run and averaged over the other runs. If each of m vectors chose
    at random among q, it would be (1 − 1/q)^(m−1): 1/e for large runs of equal size. Runs whose
    components recur have shares near 1; the share is lower if several vectors of one run correspond
    to a single vector of the other.
    """
    share, chance = np.zeros(len(runs)), np.zeros(len(runs))
    for r, s in combinations(range(len(runs)), 2):
        for run, other, best in zip((r, s), (s, r), _nearest(runs[r], runs[s], signed, memory)):
            chosen = np.bincount(best, minlength=runs[other].count)
            share[run] += np.count_nonzero(chosen == 1) / runs[run].count
            chance[run] += (1 - 1 / runs[other].count) ** (runs[run].count - 1)
    return share / (len(runs) - 1), chance / (len(runs) - 1)


def _nearest(left: Vectors, right: Vectors, signed: bool, memory: int) -> tuple[Numbers, Numbers]:
    """For each vector of both runs, the most similar vector of the other run."""
    forth = np.empty(left.count, np.intp)
    back, largest = np.zeros(right.count, np.intp), np.full(right.count, -np.inf, np.float32)
    for rows, block in strips(left, right, signed, memory):
        forth[rows] = block.argmax(axis=1)
        first = block.argmax(axis=0)
        values = block[first, np.arange(right.count)]
        better = values > largest
        back[better], largest[better] = rows.start + first[better], values[better]
    return forth, back
