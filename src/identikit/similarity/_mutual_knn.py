"""Overlap of nearest neighbours."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from identikit._linalg import Array
from identikit.errors import InputError
from identikit.inference import Null
from identikit.moments import Moments
from identikit.moments.sample import RowSample
from identikit.similarity._registry import View, Views, measure, pair_of


@dataclass(frozen=True)
class MutualKNN:
    """Mean share of a row's k nearest neighbours that are the same in both views.

    `chance` is that share for unrelated neighbourhoods, k / (rows − 1).
    """

    value: float | None
    chance: float | None
    k: int
    rows: int


#: Number of neighbours, and number of shuffles of the rows for the chance level.
NEIGHBOURS, DRAWS = 10, 99

#: How many times as many neighbours are cached for parts of the sample, and the relative difference
#: below which two distances count as equal.
SPARE, TIED = 3, 1e-9


def mutual_knn_null(moments: Moments, i: int, j: int) -> Null:
    """The overlap for shuffled rows; neighbours move with their rows, without a new search."""
    left, rows = _neighbours(moments, i, NEIGHBOURS), len(moments.sample.keys)
    member = np.zeros(rows * rows, dtype=bool)
    member[(np.arange(rows)[:, None] * rows + left).ravel()] = True
    shared = [np.count_nonzero(member[pairs]) for pairs in _shuffled(moments, j)]
    return Null.of_draws(np.array(shared) / (NEIGHBOURS * rows))


def _shuffled(moments: Moments, view: int) -> NDArray[np.int32]:
    """For every shuffle a row of numbers, a · rows + b for each neighbour b of a."""
    cache, key = moments.sample.cache, ("shuffled", view)
    if key not in cache:
        nearest = _neighbours(moments, view, NEIGHBOURS)
        rng, rows = np.random.default_rng(0), len(nearest)
        orders = [rng.permutation(rows) for _ in range(DRAWS)]
        pairs = [(order[:, None] * rows + order[nearest]).ravel() for order in orders]
        cache[key] = np.array(pairs, dtype=np.int32)  # there are few rows: see `SAMPLE`
    shuffled: NDArray[np.int32] = cache[key]
    return shuffled


@measure(invariant_to="similarity", reference="Huh et al. 2024", rows=True, null=mutual_knn_null)
def mutual_knn(moments: Views, i: View = 0, j: View = 1, *, k: int = NEIGHBOURS) -> MutualKNN:
    """Mutual k-nearest-neighbour overlap, by Euclidean distance, on the stored row sample.

    Parameters
    ----------
    moments : Moments or array (rows, d)
    i, j : int, str or array (rows, d)
        Two views; or, after a first table, the second one.
    k : int
        Number of neighbours; the value is None if the sample has no more than k + 1 rows.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(500, 3))
    >>> mutual_knn(X, 2 * X + 1).value
    1.0
    """
    if k < 1:
        raise InputError(f"mutual_knn got k = {k} neighbours; k must be at least 1")
    moments, i, j = pair_of(moments, i, j)
    rows = len(moments.sample.keys)
    if rows <= k + 1 or not (moments.varies(i) and moments.varies(j)):
        return MutualKNN(None, None, k, rows)
    left, right = (_neighbours(moments, view, k) for view in (i, j))
    shared = np.count_nonzero(left[:, :, None] == right[:, None, :])
    return MutualKNN(float(shared / (k * rows)), k / (rows - 1), k, rows)


def _neighbours(moments: Moments, view: int, k: int) -> NDArray[np.intp]:
    """The k nearest rows of every row, computed once per view."""
    cache, key = moments.sample.cache, ("neighbours", view, k)
    if key not in cache:
        nearest = _of_the_whole(moments.sample, view, k)
        if nearest is None:
            X = moments.sample_of(view) - moments.centre(view)
            squares = np.einsum("ij,ij->i", X, X)
            distances = squares[:, None] + squares - 2 * (X @ X.T)
            np.fill_diagonal(distances, np.inf)
            # A copy, because a slice would keep the whole array in memory.
            nearest = np.argpartition(distances, k - 1, axis=1)[:, :k].copy()
            cache["nearby", view, k] = _nearby(distances, SPARE * k)
        cache[key] = nearest
    found: NDArray[np.intp] = cache[key]
    return found


def _nearby(distances: Array, count: int) -> tuple[NDArray[np.intp], Array]:
    """The `count` nearest rows of every row, nearest first, and their distances."""
    count = min(count, len(distances) - 1)
    near = np.argpartition(distances, count - 1, axis=1)[:, :count]
    far = np.take_along_axis(distances, near, axis=1)
    order = np.argsort(far, axis=1)
    return np.take_along_axis(near, order, axis=1), np.take_along_axis(far, order, axis=1)


def _of_the_whole(sample: RowSample, view: int, k: int) -> NDArray[np.intp] | None:
    """The neighbours within a part of a sample, from the cached neighbours in the whole sample.

    The result is None if too few cached neighbours are in the part, or if the distances of the k-th
    and the next neighbour are tied.
    """
    whole, there = sample.cache.get("part_of", (None, None))
    if whole is None or ("nearby", view, k) not in whole.cache:
        return None
    near, far = (each[there] for each in whole.cache["nearby", view, k])
    kept = there[near]
    if kept.sum(axis=1).min() <= k:
        return None
    first = np.argsort(~kept, axis=1, kind="stable")[:, : k + 1]
    far = np.take_along_axis(far, first, axis=1)
    if (far[:, k] - far[:, k - 1] <= TIED * far[:, k]).any():
        return None
    nearest = np.take_along_axis(near, first[:, :k], axis=1)
    found: NDArray[np.intp] = (np.cumsum(there) - 1)[nearest]
    return found
