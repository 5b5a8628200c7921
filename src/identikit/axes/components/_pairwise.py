"""Two runs at a time: their mean correlation coefficient, and whose best match is its own."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from identikit._linalg import Array
from identikit.axes.components._assign import Assigner
from identikit.axes.components._multiway import Matching
from identikit.axes.components._vectors import Numbers, Vectors, strips


def pairwise_mcc(runs: Sequence[Vectors], found: Matching, assigner: Assigner) -> float:
    """PW-MCC: mean over pairs of runs of the mean similarity of their optimally matched vectors.

    (1/m) max_π Σ_i ⟨a_i, b_π(i)⟩ over all m vectors of the smaller run, with absolute values if
    signs do not count. Each pair has an assignment of its own; that of all runs at once, which
    must agree around every circle, is never better.

    Parameters
    ----------
    runs : sequence of Vectors
        Of norm 1.
    found : Matching
        Of all runs; for two, it is the assignment.
    assigner : Assigner
        Makes the assignments.
    """
    if len(runs) == 2:
        return found.value / min(run.count for run in runs)
    values = []
    for one, other in combinations(runs, 2):
        left, right = sorted((one, other), key=lambda run: run.count)
        values.append(assigner(left, right).value / left.count)
    return float(np.mean(values))


def uniqueness(runs: Sequence[Vectors], signed: bool, memory: int) -> tuple[Array, Array]:
    """Of every run, the share of vectors whose best match is no other's: (measured, by chance).

    The best match of a vector is the most similar one of another run (argmax, the first if several
    are). It is unique if no other vector of its own run has the same. The share is over all vectors
    of the run, and its mean over the other runs. Vectors that chose at random would have
    (1 − 1/q)^(m−1), of m vectors among q: 1/e for large runs of one size. Runs that recur have
    shares near 1, and runs that several vectors of the other split into less.

    Parameters
    ----------
    runs : sequence of Vectors
        Of norm 1.
    signed : bool
        Whether signs count.
    memory : int
        Bytes that there are in all.
    """
    share, chance = np.zeros(len(runs)), np.zeros(len(runs))
    for r, s in combinations(range(len(runs)), 2):
        for run, other, best in zip((r, s), (s, r), _best(runs[r], runs[s], signed, memory)):
            chosen = np.bincount(best, minlength=runs[other].count)
            share[run] += np.count_nonzero(chosen == 1) / runs[run].count
            chance[run] += (1 - 1 / runs[other].count) ** (runs[run].count - 1)
    return share / (len(runs) - 1), chance / (len(runs) - 1)


def _best(left: Vectors, right: Vectors, signed: bool, memory: int) -> tuple[Numbers, Numbers]:
    """The most similar vector of the other run, of every vector of both."""
    forth = np.empty(left.count, np.intp)
    back, largest = np.zeros(right.count, np.intp), np.full(right.count, -np.inf, np.float32)
    for rows, block in strips(left, right, memory):
        found = block if signed else np.abs(block)
        forth[rows] = found.argmax(axis=1)
        first = found.argmax(axis=0)
        values = found[first, np.arange(right.count)]
        better = values > largest
        back[better], largest[better] = rows.start + first[better], values[better]
    return forth, back
