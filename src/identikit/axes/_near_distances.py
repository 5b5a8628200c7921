"""Row by row, how far a view is from what the best map of a group makes of the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from identikit._linalg import Array
from identikit.alignment import RUNGS, Rung, applicable, best_map, matching
from identikit.axes._near_split import Split
from identikit.errors import InputError
from identikit.moments import Moments, accumulate

#: Of the scored rows, from the first view to the second and back.
BothWays = tuple[Array, Array]

#: The groups that the paper compares; its H_σ is the ladder's permutation.
NEAR_GROUPS = tuple(name for name in RUNGS if name not in ("identity", "monomial"))


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
    sides: Sequence[Coordinates], split: Split, several: Sequence[Sequence[Array] | None]
) -> list[BothWays]:
    """‖y − h(x)‖ with h from axis to axis: only order and signs are fitted to the pairing.

    Parameters
    ----------
    sides : sequence of two Coordinates
    split : Split
    several : sequence of two arrays (k, k), or None; each
        Rotations of the axes of both sides, to be undone after the matching.
    """
    x, y = (side.axes[fit] for side, fit in zip(sides, split.fit))
    means = x.mean(axis=0), y.mean(axis=0)
    cross = (x - means[0]).T @ (y - means[1])
    scored = [
        (side.rows[score], side.axes[score] - mean)
        for side, score, mean in zip(sides, split.score, means)
    ]

    def lengths(way: int, turns: Sequence[Array] | None) -> Array:
        scatter, target = cross if way == 0 else cross.T, sides[1 - way]
        if turns is None:
            weights = matching(scatter)
        else:
            there, back = turns[way], turns[1 - way]
            weights = there @ matching(there.T @ scatter @ back) @ back.T
        shift = means[1 - way] @ target.mixing + target.mean
        return _lengths(scored[1 - way][0] - (scored[way][1] @ (weights @ target.mixing) + shift))

    return [(lengths(0, turns), lengths(1, turns)) for turns in several]


def _after(rows: Sequence[Array], split: Split, groups: Sequence[Rung]) -> dict[str, BothWays]:
    moments = _fitted_on(rows, split)
    scored = [side[numbers] for side, numbers in zip(rows, split.score)]

    def lengths(group: Rung, way: int) -> Array:
        weights, shift = best_map(group, moments, way, 1 - way)
        return _lengths(scored[1 - way] - (scored[way] @ weights + shift))

    return {group.name: (lengths(group, 0), lengths(group, 1)) for group in groups}


def _fitted_on(rows: Sequence[Array], split: Split) -> Moments:
    fitted_on = [side[f] for side, f in zip(rows, split.fit)]
    return as_they_are(accumulate(fitted_on, folds=1, sample=0))


def as_they_are(moments: Moments) -> Moments:
    """Moments of some of the rows, or an error if these are far smaller than the others."""
    if any(moments.exponents):
        raise InputError(
            "a few rows are so large that, beside them, the squares of all others vanish: leave "
            "them out, or rescale them"
        )
    return moments


def _lengths(gaps: Array) -> Array:
    result: Array = np.sqrt(np.einsum("ij,ij->i", gaps, gaps))
    return result
