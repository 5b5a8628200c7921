"""Row by row, how far a view is from what the best map of a group makes of the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from identikit._linalg import Array
from identikit.alignment._groups import Group
from identikit.alignment._ladder import applicable
from identikit.alignment._map import AlignmentMap
from identikit.moments import accumulate

Numbers = NDArray[np.intp]

#: Of the scored rows, from the first view to the second and back.
BothWays = tuple[Array, Array]

#: The groups that the paper compares; its H_σ is the ladder's permutation.
NEAR_GROUPS = ("permutation", "rigid", "similarity", "linear", "affine")


@dataclass(frozen=True, eq=False)
class Coordinates:
    """One side: rows in some coordinates, the same rows on independent axes, and the way back.

    ``rows = axes @ mixing + mean``, but for what the ICA has left out.
    """

    rows: Array
    axes: Array
    mixing: Array
    mean: Array


@dataclass(frozen=True, eq=False)
class Split:
    """Numbers of the rows to fit and to score on, for the one side and for the other."""

    fit: tuple[Numbers, Numbers]
    score: tuple[Numbers, Numbers]

    def shuffled(self, rng: np.random.Generator) -> Split:
        """The same rows, but those of the other side in another order."""
        fit, score = (rng.permutation(part[1]) for part in (self.fit, self.score))
        return Split((self.fit[0], fit), (self.score[0], score))


def after_groups(sides: Sequence[Coordinates], split: Split) -> dict[str, BothWays]:
    """‖y − h(x)‖ on the scored rows, h the best map of each group on the rows to fit on.

    Groups that have no map between these widths are absent.
    """
    rows = [side.rows for side in sides]
    widths = [side.shape[1] for side in rows]
    found = _after(rows, split, [g.name for g in _groups(widths) if not g.padded])
    # A rotation between views of different widths lives in the wider one's space.
    wide = [np.pad(side, ((0, 0), (0, max(widths) - width))) for side, width in zip(rows, widths)]
    found |= _after(wide, split, [g.name for g in _groups(widths) if g.padded])
    return {name: found[name] for name in NEAR_GROUPS if name in found}


def after_matching(
    sides: Sequence[Coordinates], split: Split, turns: Sequence[Array] | None = None
) -> BothWays:
    """‖y − h(x)‖ with h from axis to axis: only order and signs are fitted to the pairing.

    Parameters
    ----------
    sides : sequence of two Coordinates
    split : Split
    turns : sequence of two arrays (k, k), optional
        Rotations of the axes, to be undone after the matching.
    """
    turns = [np.eye(side.axes.shape[1]) for side in sides] if turns is None else turns
    turned = [side.axes @ turn for side, turn in zip(sides, turns)]
    moments = accumulate([s[f] for s, f in zip(turned, split.fit)], folds=2, sample=0)

    def lengths(way: int) -> Array:
        match = AlignmentMap("permutation").fit_moments(moments, way, 1 - way)
        on_axes = match.transform(turned[way][split.score[way]]) @ turns[1 - way].T
        target = sides[1 - way]
        return _lengths(target.rows[split.score[1 - way]] - (on_axes @ target.mixing + target.mean))

    return lengths(0), lengths(1)


def _groups(widths: Sequence[int]) -> list[Group]:
    return applicable(widths[0], widths[1], NEAR_GROUPS)


def _after(rows: Sequence[Array], split: Split, groups: Sequence[str]) -> dict[str, BothWays]:
    moments = accumulate([side[f] for side, f in zip(rows, split.fit)], folds=2, sample=0)
    scored = [side[numbers] for side, numbers in zip(rows, split.score)]

    def lengths(group: str, way: int) -> Array:
        best = AlignmentMap(group).fit_moments(moments, way, 1 - way)
        return _lengths(scored[1 - way] - best.transform(scored[way]))

    return {group: (lengths(group, 0), lengths(group, 1)) for group in groups}


def _lengths(gaps: Array) -> Array:
    result: Array = np.sqrt(np.einsum("ij,ij->i", gaps, gaps))
    return result
