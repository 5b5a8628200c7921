"""The number of distinct rows, estimated from a mergeable sketch of the smallest hashes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identikit.moments.sample import Keys, mixed, row_keys
from identikit.sources import Source

__all__ = ["DUPLICATES", "Distinct", "duplicate_groups"]

#: Number of hashes kept. Up to this many distinct rows the count is exact; above, the standard
#: error is about 3 %.
SIZE = 1024

#: Bytes of rows that are processed together, or that may wait for their keys.
ROOM = 2**22

#: The bits of a key that give its position on the unit interval, and those that distinguish rows
#: with the same position.
_PLACE, _OTHER = np.uint64(0xFFFFFFFF00000000), np.uint64(0x00000000FFFFFFFF)

Counts = NDArray[np.int64]
Smallest = tuple[Keys, Counts]

#: May be given in place of labels: rows that are equal in all views then share a group.
DUPLICATES = "duplicates"


@dataclass(frozen=True, eq=False)
class Distinct:
    """The smallest keys of the stacked rows and of each view's rows, and how often each occurred.

    A row's key is computed from its bytes as stored. The upper half comes from a fast sum of them,
    the lower half from a hash, which is computed only for rows whose upper half is small enough.
    The counts of the `size` smallest keys are exact, because such a key has been among the smallest
    from its first occurrence on (Beyer et al. 2007).

    Parameters
    ----------
    size : int
        The largest number of keys that are kept, for the stacked rows and for each view.
    smallest : tuple of (hashes, counts)
        First of the stacked rows, then of each view; hashes are in ascending order.
    """

    size: int
    smallest: tuple[Smallest, ...]

    def __add__(self, other: Distinct) -> Distinct:
        size = min(self.size, other.size)
        both = zip(self.smallest, other.smallest)
        return Distinct(size, tuple(_joined(list(pair), size) for pair in both))

    def estimate(self, rows: int, view: int | None = None) -> float:
        """Estimate the number of distinct rows, of all views together or of one view.

        The result is exact if it is below `size`. Otherwise it is (K − 1) / h_K, with the K-th
        smallest key h_K on the unit interval, if that is clearly less than the number of rows. If
        it is not, the estimate comes from the counts of the kept keys, and it is exact if no row
        occurs twice.

        Parameters
        ----------
        rows : int
            The total number of rows.
        view : int, optional
            Which view; all of them together by default.
        """
        hashes, counts = self.smallest[0 if view is None else view + 1]
        if len(hashes) < self.size:
            return float(len(hashes))
        by_hash = (self.size - 1) / (float(hashes[-1]) + 1) * 2.0**64
        by_count = rows * len(hashes) / float(counts.sum())
        # The standard error is 1/√K, with K the number of different positions; the margin is four
        # standard errors.
        places = len(np.unique(hashes & _PLACE))
        return by_hash if by_hash * (1 + 4 / places**0.5) < rows else by_count


def _joined(some: Sequence[Smallest], size: int) -> Smallest:
    """Merge several lists of smallest hashes, and add up their counts."""
    hashes, counts = (np.concatenate(each) for each in zip(*some))
    if not len(hashes):
        return hashes, counts
    order = np.argsort(hashes)
    hashes = hashes[order]
    first = np.flatnonzero(np.concatenate([[True], hashes[1:] != hashes[:-1]]))
    return hashes[first[:size]], np.add.reduceat(counts[order], first)[:size]


class DistinctKeeper:
    """Keeps the smallest keys while rows are read."""

    def __init__(self, views: int, size: int = SIZE) -> None:
        self.size = size
        self.kept = [
            _Kept(size, slice(None)),
            *(_Kept(size, slice(v, v + 1)) for v in range(views)),
        ]

    def add(self, views: Sequence[NDArray[Any]]) -> None:
        """Add some rows, given view by view."""
        room = max(1, ROOM // sum(view.shape[1] * view.dtype.itemsize for view in views))
        for start in range(0, len(views[0]), room):
            words = [_words(view[start : start + room]) for view in views]
            sums = [
                _sum(part, (4 + 2 * number, 5 + 2 * number), halves=view.dtype.itemsize > 4)
                for number, (part, view) in enumerate(zip(words, views))
            ]
            for kept, own in zip(self.kept, [_total(sums), *sums]):
                kept.add(words[kept.views], own, room)

    def distinct(self) -> Distinct:
        """The sketch of all rows so far."""
        for kept in self.kept:
            kept.sort()
        return Distinct(self.size, tuple(kept.smallest for kept in self.kept))


class _Kept:
    """The smallest keys of the rows of some views, and rows whose keys are not computed yet."""

    def __init__(self, size: int, views: slice) -> None:
        self.size, self.views = size, views
        self.smallest: Smallest = np.empty(0, dtype=np.uint64), np.empty(0, dtype=np.int64)
        self.limit = np.uint64(2**64 - 1)
        self.rows = 0
        self.waiting: list[tuple[Keys, ...]] = []

    def add(self, words: Sequence[Keys], sums: Keys, room: int) -> None:
        """Store those rows that may have a small key; compute their keys if there are too many."""
        places = _places(sums)
        where = np.flatnonzero(places <= (self.limit | _OTHER))
        if len(where) > self.size:  # their places alone rule most of them out
            lowest = np.unique(places[where] & _PLACE)[: self.size]
            if len(lowest) == self.size:
                where = where[places[where] <= (lowest[-1] | _OTHER)]
        if len(where):
            self.waiting.append((places[where], *(part[where] for part in words)))
            self.rows += len(where)
            if self.rows > min(self.size, room):
                self.sort()

    def sort(self) -> None:
        """Compute the keys of all waiting rows."""
        if not self.rows:
            return
        places, *words = (np.concatenate(each) for each in zip(*self.waiting))
        hashes = [_hash(part) for part in words]
        other = hashes[0] if len(hashes) == 1 else stacked(hashes)
        keys = (places & _PLACE) | (other >> np.uint64(32))
        fresh = keys, np.ones(len(keys), dtype=np.int64)
        self.smallest = _joined([self.smallest, fresh], self.size)
        self.waiting, self.rows = [], 0
        if len(self.smallest[0]) == self.size:
            self.limit = self.smallest[0][-1]


def _words(block: NDArray[Any]) -> Keys:
    """Each row's bytes as 64-bit words, the last one padded with zeros."""
    rows = np.ascontiguousarray(block)
    octets = rows.view(np.uint8).reshape(len(rows), -1)
    whole, rest = divmod(octets.shape[1], 8)
    if rest:
        filled = np.zeros((len(rows), 8 * whole + 8), dtype=np.uint8)
        filled[:, : octets.shape[1]] = octets
        octets = filled
    return octets.view(np.uint64)


def _sum(words: Keys, seeds: tuple[int, int], *, halves: bool) -> Keys:
    """Σ a_i w_i modulo 2⁶⁴ over each row's words w_i, plus Σ b_i ⌊w_i / 2³²⌋ if `halves`.

    The second sum is needed for integers stored as floats: only the upper bits of their words
    differ from zero, and few of these bits survive in a product modulo 2⁶⁴.
    """
    sums: Keys = np.einsum("ij,j->i", words, _factors(words.shape[1], seeds[0]))
    if halves:
        sums += np.einsum("ij,j->i", words >> np.uint64(32), _factors(words.shape[1], seeds[1]))
    return sums


def _places(sums: Keys) -> Keys:
    """Spread the sums evenly, so that rows that differ by equal amounts get different positions."""
    # The offset keeps rows of zeros, which may be frequent, from always having the smallest key.
    places = sums + np.uint64(0x9E3779B97F4A7C15)
    places ^= places >> np.uint64(32)
    places *= np.uint64(0xBF58476D1CE4E5B9)
    return places


def _total(sums: Sequence[Keys]) -> Keys:
    total = sums[0]
    for each in sums[1:]:
        total = total + each
    return total


def hash_rows(block: NDArray[Any]) -> Keys:
    """A 64-bit hash of each row's bytes."""
    return _hash(_words(block))


def _hash(words: Keys) -> Keys:
    return mixed(_sum(words, (1, 2), halves=True))


@cache
def _factors(words: int, seed: int) -> Keys:
    return row_keys(0, words, seed) | np.uint64(1)


def stacked(hashes: Sequence[Keys]) -> Keys:
    """The hashes of stacked rows, from the hashes of each view's rows."""
    total: Keys = np.zeros(len(hashes[0]), dtype=np.uint64)
    for keys, factor in zip(hashes, _factors(len(hashes), 3)):
        total += keys * factor
    return mixed(total)


def duplicate_groups(sources: Sequence[Source], block_rows: int = 4096) -> Keys:
    """One label per row, the same for rows that are equal in all views; takes a pass over the rows.

    Parameters
    ----------
    sources : sequence of Source
        Open sources of the same rows.
    block_rows : int
        Number of rows to read at a time.
    """
    rows = sources[0].rows
    labels: Keys = np.empty(rows, dtype=np.uint64)
    for start in range(0, rows, block_rows):
        stop = min(start + block_rows, rows)
        labels[start:stop] = stacked([hash_rows(source.read(start, stop)) for source in sources])
    return labels
