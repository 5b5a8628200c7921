"""Rows that are copies of each other: what is said of axes must not rest on them.

Copies of a row in both halves of the rows make the halves agree on whatever these rows happen to
look like. So copies stay together, and only distinct rows are counted.
"""

from __future__ import annotations

from hashlib import blake2b
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from identikit.axes._ica_solver import Rows

Numbers = NDArray[np.intp]

#: Columns that are looked at first: most rows differ there.
COLUMNS = 8


def first_copies(rows: Rows) -> Numbers:
    """For each row the number of the first row that is equal to it, which may be itself.

    >>> first_copies(np.array([[1.0, 0.0], [2.0, 0.0], [1.0, -0.0]]))
    array([0, 1, 0])
    """
    first = np.arange(len(rows))
    few = _positive_zeros(rows[:, :: max(1, rows.shape[1] // COLUMNS)])
    keys = few.view(np.dtype((np.void, few.dtype.itemsize * few.shape[1]))).ravel()
    _, group, counts = np.unique(keys, return_inverse=True, return_counts=True)
    seen: dict[bytes, int] = {}
    for number in np.flatnonzero(counts[group] > 1):
        digest = blake2b(_positive_zeros(rows[number]).tobytes(), digest_size=16).digest()
        first[number] = seen.setdefault(digest, int(number))
    return first


def distinct_rows(rows: Rows) -> int:
    """How many rows there are, copies counted once."""
    return int((first_copies(rows) == np.arange(len(rows))).sum())


def half_of(rows: Rows, half: int) -> Numbers:
    """The numbers of every other row, 0 or 1 the first one; copies go where the first one goes."""
    first = first_copies(rows)
    place = np.cumsum(first == np.arange(len(rows))) - 1
    return np.flatnonzero(place[first] % 2 == half)


def cut(copies: Numbers, parts: int) -> list[slice]:
    """Parts with about as many distinct rows each, of rows whose copies stand next to each other.

    Parameters
    ----------
    copies : array (n,)
        A number a row, the same for copies.
    parts : int
        How many, if there are as many distinct rows.

    Examples
    --------
    >>> cut(np.array([7, 7, 7, 2, 4]), 2)
    [slice(0, 4, None), slice(4, 5, None)]
    """
    starts = np.flatnonzero(np.concatenate([[True], copies[1:] != copies[:-1]]))
    bounds = [part[0] for part in np.array_split(starts, parts) if len(part)] + [len(copies)]
    return [slice(int(first), int(after)) for first, after in pairwise(bounds)]


def _positive_zeros(rows: Rows) -> Rows:
    """The same numbers, next to each other in memory, with 0 for −0."""
    result: Rows = np.ascontiguousarray(rows) + 0
    return result
