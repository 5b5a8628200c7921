"""Ranks and bins of a variable."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from identikit._linalg import Array

Labels = NDArray[np.int64]


def ranks(values: Array) -> Array:
    """Ranks along the first axis, starting at 1; tied values share their mean rank.

    >>> ranks(np.array([3.0, 1.0, 3.0, 9.0]))
    array([2.5, 1. , 2.5, 4. ])
    """
    found = np.empty(values.shape)
    for into, column in zip(np.atleast_2d(found.T), np.atleast_2d(values.T)):
        order = np.argsort(column, kind="stable")
        ordered = column[order]
        first = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
        count = np.diff(np.r_[first, len(column)])
        into[order] = np.repeat(first + (count + 1) / 2, count)
    return found


def to_bins(ranked: Array, bins: int) -> Labels:
    """Bins of equal frequency, 0 … bins − 1; tied values share a bin, so a bin may be empty.

    Bins depend on ranks only, so they do not change under an increasing function of the variable.

    >>> to_bins(np.array([2.0, 1.0, 3.0, 4.0]), 2)
    array([0, 0, 1, 1])
    """
    return np.floor((ranked - 0.5) * (bins / len(ranked))).astype(np.int64)


def equal_width(values: Array, bins: int) -> Labels:
    """Bins of equal width between the smallest and the largest value.

    >>> equal_width(np.array([0.0, 0.4, 0.5, 1.0]), 2)
    array([0, 0, 1, 1])
    """
    edges = np.linspace(values.min(), values.max(), bins + 1)[1:-1]
    return np.searchsorted(edges, values, side="right").astype(np.int64)
