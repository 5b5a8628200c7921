"""Chance by several nulls at once: each member is held against the one that is hardest on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from identikit._linalg import Array
from identikit.axes.components._chance import (
    AtomChance,
    ShuffledChance,
    atom_chance,
    discovery_cut,
)
from identikit.axes.components._nulls import SCHEMES, PermutedChance, permuted_chance
from identikit.axes.components._runs import Run
from identikit.axes.components._vectors import Numbers


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
        return {"name": self.name, "level": self.level, "passing": self.passing}


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
