"""Row by row, how far a view is from what the best map of a group makes of the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from identikit._linalg import Array
from identikit.alignment._groups import GROUPS, Group
from identikit.alignment._ladder import applicable
from identikit.alignment._map import best_map
from identikit.alignment._near_split import Split
from identikit.moments import Moments, accumulate

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


def after_groups(sides: Sequence[Coordinates], split: Split) -> dict[str, BothWays]:
    """‖y − h(x)‖ on the scored rows, h the best map of each group on the rows to fit on.

    Groups that have no map between these widths are absent.
    """
    rows = [side.rows for side in sides]
    widths = [side.shape[1] for side in rows]
    groups = applicable(widths[0], widths[1], NEAR_GROUPS)
    return _after(rows, split, groups)


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
    moments = _fitted_on(turned, split)

    def lengths(way: int) -> Array:
        weights, shift = best_map(GROUPS["permutation"], moments, way, 1 - way)
        target = sides[1 - way]
        back = turns[1 - way].T @ target.mixing
        guess = turned[way][split.score[way]] @ (weights @ back) + (shift @ back + target.mean)
        return _lengths(target.rows[split.score[1 - way]] - guess)

    return lengths(0), lengths(1)


def _after(rows: Sequence[Array], split: Split, groups: Sequence[Group]) -> dict[str, BothWays]:
    moments = _fitted_on(rows, split)
    scored = [side[numbers] for side, numbers in zip(rows, split.score)]

    def lengths(group: Group, way: int) -> Array:
        weights, shift = best_map(group, moments, way, 1 - way)
        return _lengths(scored[1 - way] - (scored[way] @ weights + shift))

    return {group.name: (lengths(group, 0), lengths(group, 1)) for group in groups}


def _fitted_on(rows: Sequence[Array], split: Split) -> Moments:
    return accumulate([side[f] for side, f in zip(rows, split.fit)], folds=1, sample=0)


def _lengths(gaps: Array) -> Array:
    result: Array = np.sqrt(np.einsum("ij,ij->i", gaps, gaps))
    return result
