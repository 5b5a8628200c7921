"""The diameter of a view: a quantile of the distances between its rows, and the largest of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from identikit._linalg import Array
from identikit.axes._near_pairs import QUANTILE

#: Distances that are computed before the search is cut off: more than 5,000 rows have.
PAIRS = 5000**2

#: Rows of a block, and steps from a row to the row farthest from it.
BLOCK = 256
STEPS = 8


@dataclass(frozen=True)
class Diameter:
    """How large a view is: what distances are divided by, and the largest distance beside it.

    The largest distance between two of n rows grows with n, without bound if the view has tails. A
    quantile of the distance between two independent rows does not: it belongs to the population,
    and since each row has a part in n − 1 pairs, few rows suffice for it.

    Parameters
    ----------
    value : float
        The distance that a share `quantile` of the pairs of rows does not exceed.
    quantile : float
    pairs : int
        Pairs that were looked at for it: all of them, or as many for each row.
    max : float
        The largest distance found between two rows of this sample. Nothing is divided by it.
    upper : float
        What the largest distance between two rows of this sample is at most.
    exact : bool
        Whether `max` is the largest.
    rows : int
    """

    value: float
    max: float
    upper: float
    exact: bool
    rows: int
    pairs: int
    quantile: float = QUANTILE


@dataclass(frozen=True)
class Largest:
    """The largest distance found between two rows, its upper bound, and whether it is exact."""

    value: float
    upper: float
    exact: bool


def largest_distance(rows: Array) -> Largest:
    """max_ij ‖x_i − x_j‖.

    A first value comes from walking to the row that is farthest away, again and again. Then pairs
    are gone through from the outside in, by the distance from the mean, r: a pair with r_i + r_j
    below the best value cannot beat it, and the search ends where no pair can. For 5,000 rows or
    fewer it always does. Else it may be cut off; a pair that is left is at most twice the largest r
    left apart, which is the upper bound.

    Parameters
    ----------
    rows : array (n, d)

    Examples
    --------
    >>> largest_distance(np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 4.0]])).value
    5.0
    """
    centred = rows - rows.mean(axis=0)
    radius = np.sqrt(np.einsum("ij,ij->i", centred, centred))
    order = np.argsort(-radius, kind="stable")
    centred, radius = centred[order], radius[order]
    best = _walk(centred)
    looked_at, first, n = 0, 0, len(rows)
    while first < n and 2 * radius[first] > best:
        if looked_at >= PAIRS:
            return Largest(best, max(best, 2 * float(radius[first])), False)
        block = slice(first, first + BLOCK)
        # Radii fall, so those that may still matter to the block are its own and a run after it.
        last = int(np.searchsorted(-radius, radius[first] - best, side="right"))
        last = max(last, min(first + BLOCK, n))
        square = radius[block, None] ** 2 + radius[first:last] ** 2
        square -= 2 * (centred[block] @ centred[first:last].T)
        i, j = np.unravel_index(int(square.argmax()), square.shape)
        # From the difference itself, so that rows far from the mean cost no digits.
        best = max(best, float(np.linalg.norm(centred[first + i] - centred[first + j])))
        looked_at += square.size
        first += BLOCK
    return Largest(best, best, True)


def _walk(centred: Array) -> float:
    """The longest of a few steps, each from a row to the one farthest from it."""
    here, best = 0, 0.0
    for _ in range(STEPS):
        gap = centred - centred[here]
        distances = np.einsum("ij,ij->i", gap, gap)
        here = int(distances.argmax())
        if distances[here] <= best:
            break
        best = float(distances[here])
    return float(np.sqrt(best))
