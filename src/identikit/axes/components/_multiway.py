"""Consistent matches over all runs: every run is assigned to the sum of the others, in turn.

A component is a set of vectors, at most one a run, each with a sign. The objective is the sum over
components of all inner products within them, Σ_c Σ_{r<s} σ_r σ_s ⟨a_r, a_s⟩. For one run, given the
others, that is an assignment to the sums Σ_{s≠r} σ_s a_s, solved exactly; so the objective rises
with every step until no run can be matched better (coordinate ascent: a local optimum; for two runs
the first step is the optimum). Matches that contradict each other around a circle cannot arise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from identikit.axes.components._assign import Assigner, Assignment
from identikit.axes.components._vectors import Numbers, Vectors, paired, total

#: Up to so many vectors a run, every largest run is tried as the start and the best is kept, and
#: each goes on until no run can be matched better.
SMALL = 1024

#: With more, the sweeps end with one that adds less than this share: what is left to gain is in the
#: order of vectors that match nothing.
RISE = 1e-3

#: What counts as better, as a share of the sum of similarities: more than rounding in float32.
BETTER = 1e-6

Signs = NDArray[np.int8]


@dataclass(frozen=True, eq=False)
class Matching:
    """Components: `index` (components, runs) of vectors or −1, and the `sign` of each.

    `value` is the objective, `sweeps` how often all runs were assigned anew. `gap` is the largest
    share by which an assignment of the last sweep may fall short of the best; 0 if all were exact.
    """

    index: Numbers
    sign: Signs
    value: float
    sweeps: int
    gap: float
    methods: tuple[str, ...]


def match(runs: Sequence[Vectors], assigner: Assigner, tell: Callable[[], None]) -> Matching:
    """Match the vectors of all runs, from the best of several starts if these are few.

    Parameters
    ----------
    runs : sequence of Vectors
        Two or more, of unit vectors.
    assigner : Assigner
        Makes the assignments.
    tell : callable
        Called after every assignment.
    """
    most = max(run.count for run in runs)
    firsts = [number for number, run in enumerate(runs) if run.count == most]
    if len(runs) == 2 or most > SMALL:
        firsts = firsts[:1]
    return max((_climb(runs, first, assigner, tell) for first in firsts), key=lambda m: m.value)


def _climb(
    runs: Sequence[Vectors], first: int, assigner: Assigner, tell: Callable[[], None]
) -> Matching:
    """Components from one run's vectors, the other runs added one by one; then sweeps."""
    shape = runs[first].count, len(runs)
    index, sign = np.full(shape, -1, np.intp), np.ones(shape, np.int8)
    index[:, first] = np.arange(shape[0])
    others = [number for number in range(len(runs)) if number != first]
    made: dict[int, Assignment] = {}

    def assign(run: int) -> float:
        """Assign one run to the sum of the others, if that is better; by how much it is."""
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
