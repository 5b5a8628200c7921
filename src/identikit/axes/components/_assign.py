"""The best one-to-one assignment of vectors to vectors: exact, or among the nearest few.

Dense: the whole matrix of similarities and the shortest augmenting paths of Jonker and Volgenant.
Sparse: each vector keeps its c nearest and one private place that counts for as much as the last
of these. No assignment of the whole matrix is worth more than the best one of this graph, as what
it takes outside the graph is worth no more than the private place: that is the bound. Vectors that
end up in their private place are assigned among themselves to what is left.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from identikit._linalg import Array
from identikit.axes.components._vectors import Floats, Numbers, Vectors, strips, subset
from identikit.errors import InputError

METHODS = ("auto", "dense", "sparse")

#: By so much a private place is worth less than the last candidate, so that ties leave it empty.
TIE = 1e-6


@dataclass(frozen=True, eq=False)
class Assignment:
    """A place for every vector, the sum of similarities, and what no assignment can exceed."""

    columns: Numbers
    value: float
    bound: float
    method: str


@dataclass(frozen=True)
class Assigner:
    """How assignments are made.

    Parameters
    ----------
    signed : bool
        Whether an inner product counts as it is, or by its absolute value.
    memory : int
        Bytes that the matrix of similarities may take.
    method : {"auto", "dense", "sparse"}
        "auto" is dense where the matrix fits into the memory.
    candidates : int
        How many of the nearest the sparse graph keeps.
    """

    signed: bool
    memory: int
    method: str = "auto"
    candidates: int = 32

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise InputError(
                f"assignment is {self.method!r}; choose one of {', '.join(map(repr, METHODS))}"
            )
        if self.candidates < 1:
            raise InputError(f"candidates is {self.candidates}; give at least 1")

    def __call__(self, left: Vectors, right: Vectors) -> Assignment:
        """Give every vector of `left` a place in `right`, which has as many or more."""
        if left.count == 0:
            return Assignment(np.empty(0, np.intp), 0.0, 0.0, self.method)
        fits = 8 * left.count * right.count <= self.memory
        dense = fits if self.method == "auto" else self.method == "dense"
        return self._dense(left, right) if dense else self._sparse(left, right)

    def _similarities(self, block: Floats) -> Floats:
        return block if self.signed else np.abs(block, out=block)

    def _dense(self, left: Vectors, right: Vectors) -> Assignment:
        from scipy.optimize import linear_sum_assignment

        # In float64 and as costs, which is how SciPy takes it without another copy.
        costs = np.empty((left.count, right.count))
        for rows, block in strips(left, right, self.memory):
            np.negative(self._similarities(block), out=costs[rows])
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
        last = Assigner(self.signed, self.memory, "auto", self.candidates)(
            subset(left, rest), subset(right, free)
        )
        where = nearest[inside] == places[inside, None]
        value = float(values[inside][where].sum())
        places[rest] = free[last.columns]
        bound = value + float(least[rest].sum()) + TIE * left.count
        return Assignment(places, value + last.value, bound, "sparse")

    def _nearest(self, left: Vectors, right: Vectors) -> tuple[Numbers, Array]:
        """The most similar few of `right` for every vector of `left`, in no order."""
        count = min(self.candidates, right.count)
        nearest = np.empty((left.count, count), np.intp)
        values = np.empty((left.count, count))
        for rows, block in strips(left, right, self.memory):
            found = self._similarities(block)
            nearest[rows] = np.argpartition(found, right.count - count, axis=1)[:, -count:]
            values[rows] = np.take_along_axis(found, nearest[rows], axis=1)
        return nearest, values


def _matched(nearest: Numbers, values: Array, private: Array, count: int) -> Numbers:
    """The best places in the graph of candidates; `count` + i is the private one of vector i."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import min_weight_full_bipartite_matching

    rows, candidates = nearest.shape
    own = count + np.arange(rows)
    worth = np.column_stack([values, private])
    # A weight of 0 would be no edge.
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
