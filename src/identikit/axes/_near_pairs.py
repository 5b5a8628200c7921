"""Distances between pairs of rows, and the quantile of them that stands for the diameter."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from identikit._linalg import Array
from identikit.errors import InputError

#: The diameter is the distance that this share of the pairs of rows does not exceed.
QUANTILE = 0.95

#: Pairs that are looked at: all of them for 512 rows or fewer.
PAIRS = 2**17

#: Numbers in a block of differences.
BLOCK = 2**20

Ends = tuple[NDArray[np.intp], NDArray[np.intp]]


def pairs_of(rows: int) -> Ends:
    """The ends of all pairs of rows, or of as many as `PAIRS` with every row in as many of them.

    If not all, a row and each of a number of rows after it: rows should be in random order.
    """
    if rows * (rows - 1) // 2 <= PAIRS:
        first, second = np.triu_indices(rows, 1)
        return first, second
    first = np.tile(np.arange(rows), PAIRS // rows)
    return first, (first + np.repeat(np.arange(1, PAIRS // rows + 1), rows)) % rows


def lengths_of(rows: Array, pairs: Ends) -> Array:
    """How far apart the ends of each pair are."""
    lengths = np.empty(len(pairs[0]))
    step = max(1, BLOCK // rows.shape[1])
    for start in range(0, len(lengths), step):
        block = slice(start, start + step)
        gap = rows[pairs[0][block]] - rows[pairs[1][block]]
        lengths[block] = np.sqrt(np.einsum("ij,ij->i", gap, gap))
    return lengths


def usual_distance(lengths: Array, name: str) -> float:
    """The quantile `QUANTILE` of the distances between pairs of rows of a view."""
    value = float(np.quantile(lengths, QUANTILE))
    if not value > 0:
        raise InputError(
            f"{QUANTILE:.0%} of the pairs of rows of view {name!r} are no different from each "
            "other, so that there is no diameter to compare distances with; leave out most of the "
            "rows that are all the same"
        )
    return value
