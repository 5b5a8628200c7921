"""All that is measured from a set of rows: ICA, maps, distances and diameters.

It is measured once on all rows, and once without each block (run) of rows. Everything that depends
on the rows is estimated again each time, so that intervals reflect every source of variation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from identikit._linalg import Array, random_rotation, svd
from identikit.alignment import RUNGS, applicable, best_map, matching
from identikit.axes._ica_axes import distinct_rows
from identikit.axes._ica_core import IndependentAxes, Search, independent_components, refit
from identikit.axes._ica_rung import components_for, turned
from identikit.axes._near_rows import Ends, Parts, lengths, lengths_of, pairs_of, usual_distance
from identikit.errors import InputError
from identikit.moments import Moments, accumulate

#: The rungs that the paper compares; its H_σ is the ladder's permutation.
NEAR_RUNGS = tuple(name for name in RUNGS if name not in ("identity", "monomial"))

ICA_AXES, DIFFERENT_ROWS, TURNED = "ica", "ica, different rows", "random rotation"

#: Number of random starts that show how much the result of ICA depends on chance.
STARTS = 10

Pair = tuple[IndependentAxes, IndependentAxes]

#: Coordinates ("raw" or "whitened") and direction (0 from the first view to the second, 1 back).
Place = tuple[str, int]


@dataclass(frozen=True, eq=False)
class Measured:
    """Distances (draws, scored rows) after each rung's best map, and the target's diameter."""

    distances: dict[str, Array]
    diameter: float


@dataclass(frozen=True, eq=False)
class Fitted:
    """ICA of both views on all rows to fit on, and of each view on a different half of them.

    On the same rows, ICA finds the same axes even in Gaussian views, namely those along which this
    sample happens to be least Gaussian.
    """

    same: Pair
    different: Pair

    @property
    def turns(self) -> list[Array]:
        """The rotations from the axes of all rows to those of a half."""
        return [ica.mixing @ other.unmixing.T for ica, other in zip(self.same, self.different)]


@dataclass(frozen=True, eq=False)
class Coordinates:
    """One view: its rows in some coordinates, on the independent axes, and the map back.

    ``rows = axes @ mixing + mean``, except for directions that the ICA has left out.
    """

    rows: Array
    axes: Array
    mixing: Array
    mean: Array


class Views:
    """The rows of two views, and everything that is measured from them.

    `count` is the number of components of the ICA, `draws` how often random rotations are drawn and
    rows shuffled.
    """

    def __init__(
        self,
        rows: Sequence[Array],
        names: Sequence[str],
        parts: Parts,
        count: int | None,
        draws: int,
        seed: int,
        rng: np.random.Generator,
    ) -> None:
        self.rows, self.names, self.parts = rows, names, parts
        self.pairs: Ends = pairs_of(len(rows[0]))
        self.lengths = [lengths_of(side, self.pairs) for side in rows]
        self.axes = self._axes(count, seed)
        widths = [len(ica.unmixing) for ica in self.axes.same]
        self.turns = [[random_rotation(width, rng) for width in widths] for _ in range(draws)]

    def in_coordinates(self, name: str, side: int) -> Array:
        """The rows of one side, raw or whitened."""
        return _coordinates(self.rows, self.axes.same)[name][side].rows

    def whole(self) -> dict[Place, Measured]:
        """Measure on all rows."""
        return self._measure(self.parts, self.axes)

    def without(self, run: int) -> dict[Place, Measured]:
        """Measure without one block (run) of rows."""
        parts = self.parts.without(run)
        return self._measure(parts, self._refitted(parts))

    def searched(self, rng: np.random.Generator) -> dict[Place, Array]:
        """Mean distances after ICA from other random starts; empty if all axes are identified.

        Axes that are not identified depend on the start, which the jackknife does not see because
        it always starts from the axes of all rows.
        """
        if all(ica.axes.identified.all() for ica in self.axes.same):
            return {}
        ends: dict[Place, list[float]] = {}
        moments = [self._moments(side, self.parts) for side in (0, 1)]
        fit = [rows[part] for rows, part in zip(self.rows, self.parts.fit)]
        for _ in range(STARTS):
            first, second = (
                refit(turned(ica, rng), own, rows)
                for ica, own, rows in zip(self.axes.same, moments, fit)
            )
            for name, sides in _coordinates(self.rows, (first, second)).items():
                for way in (0, 1):
                    (found,) = after_matching(sides, self.parts, way, [None])
                    ends.setdefault((name, way), []).append(float(found.mean()))
        return {place: np.array(several) for place, several in ends.items()}

    def by_chance(self, rng: np.random.Generator) -> dict[Place, dict[str, Array]]:
        """Distances if the rows of one view are shuffled before any map is fitted."""
        shuffled = [self.parts.shuffled(rng) for _ in self.turns]
        chance: dict[Place, dict[str, Array]] = {}
        for name, sides in _coordinates(self.rows, self.axes.same).items():
            draws = [
                after_maps(sides, parts, self.axes.turns, [turns])
                for parts, turns in zip(shuffled, self.turns)
            ]
            for way in (0, 1):
                found = [draw[way] for draw in draws]
                chance[name, way] = {
                    rung: np.concatenate([each[rung] for each in found]) for rung in found[0]
                }
        return chance

    def _measure(self, parts: Parts, axes: Fitted) -> dict[Place, Measured]:
        kept = parts.used[self.pairs[0]] & parts.used[self.pairs[1]]
        ends = self.pairs[0][kept], self.pairs[1][kept]
        measured = {}
        for name, sides in _coordinates(self.rows, axes.same).items():
            for way, found in enumerate(after_maps(sides, parts, axes.turns, self.turns)):
                target, raw = 1 - way, name == "raw"
                far = self.lengths[target][kept] if raw else lengths_of(sides[target].rows, ends)
                measured[name, way] = Measured(found, usual_distance(far, self.names[target]))
        return measured

    def _moments(self, side: int, parts: Parts) -> Moments:
        rows = self.rows[side][parts.fit[side]]
        return as_they_are(accumulate([rows], folds=1, names=[self.names[side]], sample=0))

    def _axes(self, count: int | None, seed: int) -> Fitted:
        moments = [self._moments(side, self.parts) for side in (0, 1)]
        if count is None:
            rank = min(side.whiten(0).rank for side in moments)
            own = [rows[half] for rows, half in zip(self.rows, self.parts.halves)]
            count = components_for(rank, min(map(distinct_rows, own)))
        search, fit, halves = Search(seed=seed), self.parts.fit, self.parts.halves
        same, different = (
            [
                independent_components(moments[side], 0, self.rows[side][of[side]], count, search)
                for side in (0, 1)
            ]
            for of in (fit, halves)
        )
        return Fitted((same[0], same[1]), (different[0], different[1]))

    def _refitted(self, parts: Parts) -> Fitted:
        same, different = [], []
        for side, (ica, other) in enumerate(zip(self.axes.same, self.axes.different)):
            moments, rows = self._moments(side, parts), self.rows[side]
            same.append(refit(ica, moments, rows[parts.fit[side]]))
            different.append(refit(other, moments, rows[parts.halves[side]]))
        return Fitted((same[0], same[1]), (different[0], different[1]))


def _coordinates(rows: Sequence[Array], icas: Pair) -> dict[str, list[Coordinates]]:
    """Both views in their own coordinates, and in whitened ones.

    The whitened coordinates are the ones closest to the raw ones, so that raw axes keep their
    meaning; the rotation is the orthogonal factor of the mixing matrix.
    """
    raw, white = [], []
    for side, ica in zip(rows, icas):
        axes = ica.transform(side)
        left, _, right = svd(ica.mixing)
        nearest = left @ right
        raw.append(Coordinates(side, axes, ica.mixing, ica.mean))
        white.append(Coordinates(axes @ nearest, axes, nearest, np.zeros(nearest.shape[1])))
    return {"raw": raw, "whitened": white}


def after_maps(
    sides: Sequence[Coordinates],
    parts: Parts,
    different: Sequence[Array],
    turns: Sequence[Sequence[Array]],
) -> list[dict[str, Array]]:
    """‖y − h(x)‖ (draws, scored rows) from the first view to the second, and back.

    Here h is the best map of each rung on the rows to fit on; rungs that have no map between views
    of these widths are absent. Of random rotations there is one draw for each of `turns`.
    """
    rungs = applicable(sides[0].rows.shape[1], sides[1].rows.shape[1], NEAR_RUNGS)
    fitted_on = [side.rows[numbers] for side, numbers in zip(sides, parts.fit)]
    moments = as_they_are(accumulate(fitted_on, folds=1, sample=0))
    scored = [side.rows[numbers] for side, numbers in zip(sides, parts.score)]
    both = []
    for way in (0, 1):
        found = {}
        for rung in rungs:
            weights, shift = best_map(rung, moments, way, 1 - way)
            found[rung.name] = lengths(scored[1 - way] - (scored[way] @ weights + shift))[None]
        same, other, *drawn = after_matching(sides, parts, way, [None, different, *turns])
        found |= {ICA_AXES: same[None], DIFFERENT_ROWS: other[None], TURNED: np.array(drawn)}
        both.append(found)
    return both


def after_matching(
    sides: Sequence[Coordinates],
    parts: Parts,
    way: int,
    several: Sequence[Sequence[Array] | None],
) -> list[Array]:
    """‖y − h(x)‖ where h matches axes: only their order and signs are fitted to the pairing.

    Each of `several` is None, or a pair of rotations (k, k) that are applied to the axes of the two
    views before the matching and undone after it.
    """
    source, target = sides[way], sides[1 - way]
    x, y = source.axes[parts.fit[way]], target.axes[parts.fit[1 - way]]
    centre, shift = x.mean(axis=0), y.mean(axis=0) @ target.mixing + target.mean
    cross = (x - centre).T @ (y - y.mean(axis=0))
    scored, goal = source.axes[parts.score[way]] - centre, target.rows[parts.score[1 - way]]
    found = []
    for turns in several:
        if turns is None:
            weights = matching(cross)
        else:
            there, back = turns[way], turns[1 - way]
            weights = there @ matching(there.T @ cross @ back) @ back.T
        found.append(lengths(goal - (scored @ (weights @ target.mixing) + shift)))
    return found


def as_they_are(moments: Moments) -> Moments:
    """The moments, or an error if they had to be rescaled because of a few huge rows."""
    if any(moments.exponents):
        raise InputError(
            "a few rows are so large that the squares of all other rows underflow in comparison: "
            "leave them out, or rescale them"
        )
    return moments
