"""Overlap of nearest neighbours."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from identikit.errors import InputError
from identikit.inference import Null
from identikit.moments import Moments
from identikit.similarity._registry import measure


@dataclass(frozen=True)
class MutualKNN:
    """Mean share of a row's k nearest neighbours that are the same in both views.

    `chance` is that share for unrelated neighbourhoods, k / (rows − 1).
    """

    value: float | None
    chance: float | None
    k: int
    rows: int


#: Neighbours that are looked at, and shuffles of the rows for the chance level.
NEIGHBOURS, DRAWS = 10, 99


def mutual_knn_null(moments: Moments, i: int, j: int) -> Null:
    """The overlap over shuffled rows: neighbours move with their rows, and need no new search."""
    left, right = (_neighbours(moments, view, NEIGHBOURS) for view in (i, j))
    member = _member(left)
    rng, rows = np.random.default_rng(0), len(left)
    shared = []
    for _ in range(DRAWS):
        there = rng.permutation(rows)
        shared.append(np.count_nonzero(member[there[:, None], there[right]]))
    return Null.of_draws(np.array(shared) / (NEIGHBOURS * rows))


@measure(invariant_to="similarity", reference="Huh et al. 2024", rows=True, null=mutual_knn_null)
def mutual_knn(
    moments: Moments, i: int | str = 0, j: int | str = 1, k: int = NEIGHBOURS
) -> MutualKNN:
    """Mutual k-nearest-neighbour overlap, Euclidean, on the stored row sample.

    Parameters
    ----------
    moments : Moments
    i, j : int or str
        The two views.
    k : int
        Number of neighbours; None is returned as the value if the sample has no more than k rows.
    """
    if k < 1:
        raise InputError(f"mutual_knn looks at k = {k} neighbours; give k of at least 1")
    i, j = moments.resolve(i), moments.resolve(j)
    rows = len(moments.sample.keys)
    if rows <= k + 1 or not (moments.varies(i) and moments.varies(j)):
        return MutualKNN(None, None, k, rows)
    left, right = (_neighbours(moments, view, k) for view in (i, j))
    shared = np.count_nonzero(np.take_along_axis(_member(left), right, axis=1))
    return MutualKNN(float(shared / (k * rows)), k / (rows - 1), k, rows)


def _neighbours(moments: Moments, view: int, k: int) -> NDArray[np.intp]:
    """The k nearest rows of every row, found once a view."""
    cache, key = moments.sample.cache, ("neighbours", view, k)
    if key not in cache:
        X = moments.sample_of(view) - moments.centre(view)
        squares = np.einsum("ij,ij->i", X, X)
        distances = squares[:, None] + squares - 2 * (X @ X.T)
        np.fill_diagonal(distances, np.inf)
        # A copy, or all the rest of the order would be kept with it.
        cache[key] = np.argpartition(distances, k - 1, axis=1)[:, :k].copy()
    nearest: NDArray[np.intp] = cache[key]
    return nearest


def _member(nearest: NDArray[np.intp]) -> NDArray[np.bool_]:
    """[a, b] = whether row b is among the nearest of row a."""
    member = np.zeros((len(nearest), len(nearest)), dtype=bool)
    np.put_along_axis(member, nearest, True, axis=1)
    return member
