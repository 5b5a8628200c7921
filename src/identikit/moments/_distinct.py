"""How many rows are distinct: a sketch of the smallest hashes, which merges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identikit.moments._sample import Keys, mixed, row_keys
from identikit.sources import Source

#: Hashes that are kept: below this the number of distinct rows is exact, above it good to 3 %.
SIZE = 1024

#: How many times as many may wait to be sorted in.
WAITING = 8

Counts = NDArray[np.int64]
Smallest = tuple[Keys, Counts]

#: What may be given for the labels of rows: rows that are equal in all views share one.
DUPLICATES = "duplicates"


@dataclass(frozen=True, eq=False)
class Distinct:
    """The smallest hashes of the stacked rows, and of each view's, with how often each was met.

    A row's hash is of its bytes as they are stored. Of the `size` smallest the count is exact, as
    they have been among the smallest from their first row on (Beyer et al. 2007).

    Parameters
    ----------
    size : int
        How many hashes are kept of each.
    smallest : tuple of (hashes, counts)
        Of the stacked rows, then of each view; hashes ascend.
    """

    size: int
    smallest: tuple[Smallest, ...]

    def __add__(self, other: Distinct) -> Distinct:
        size = min(self.size, other.size)
        both = zip(self.smallest, other.smallest)
        return Distinct(size, tuple(_joined(list(pair), size) for pair in both))

    def estimate(self, rows: int, view: int | None = None) -> float:
        """The number of distinct rows, of all views together or of one, among `rows`.

        Exact if it is below `size`. Else (K − 1) / h_K from the K-th smallest hash h_K of a unit
        interval, if that is clearly less than the rows; else from how often the kept ones were met,
        which is exact if none was twice.

        Parameters
        ----------
        rows : int
            How many there are.
        view : int, optional
            Which view; all of them together by default.
        """
        hashes, counts = self.smallest[0 if view is None else view + 1]
        if len(hashes) < self.size:
            return float(len(hashes))
        by_hash = (self.size - 1) / (float(hashes[-1]) + 1) * 2.0**64
        by_count = rows * len(hashes) / float(counts.sum())
        # Its relative error is 1/√K; four of those are beyond chance.
        return by_hash if by_hash * (1 + 4 / self.size**0.5) < rows else by_count


def _joined(some: Sequence[Smallest], size: int) -> Smallest:
    """The smallest hashes of several, and their counts."""
    hashes, place = np.unique(np.concatenate([h for h, _ in some]), return_inverse=True)
    counts = np.bincount(place, np.concatenate([c for _, c in some]), len(hashes))
    return hashes[:size], counts[:size].astype(np.int64)


class DistinctKeeper:
    """Keeps the smallest hashes while rows are read.

    Parameters
    ----------
    views : int
        How many views there are.
    size : int
        How many hashes to keep of each.
    """

    def __init__(self, views: int, size: int = SIZE) -> None:
        self.size = size
        self.waiting: list[list[Keys]] = [[] for _ in range(views + 1)]
        none = np.empty(0, dtype=np.uint64), np.empty(0, dtype=np.int64)
        self.smallest: list[Smallest] = [none] * (views + 1)
        self.limits = [np.uint64(2**64 - 1)] * (views + 1)

    def add(self, hashes: Sequence[Keys]) -> None:
        """Take the hashes of some rows, one array a view, into account."""
        for number, keys in enumerate([stacked(hashes), *hashes]):
            waiting = self.waiting[number]
            waiting.append(keys[keys <= self.limits[number]])
            if sum(map(len, waiting)) > WAITING * self.size:
                self._sort(number)

    def distinct(self) -> Distinct:
        """What all rows so far have shown."""
        for number in range(len(self.smallest)):
            self._sort(number)
        return Distinct(self.size, tuple(self.smallest))

    def _sort(self, number: int) -> None:
        waiting, self.waiting[number] = self.waiting[number], []
        fresh = [(keys, np.ones(len(keys), dtype=np.int64)) for keys in waiting]
        self.smallest[number] = _joined([self.smallest[number], *fresh], self.size)
        hashes = self.smallest[number][0]
        if len(hashes) == self.size:
            self.limits[number] = hashes[-1]


def hash_rows(block: NDArray[Any]) -> Keys:
    """A 64-bit hash of each row's bytes: Σ a_i w_i + b_i ⌊w_i / 2³²⌋ over its 64-bit words, mixed.

    The upper half of a word has a factor of its own, or numbers that differ only there (whole ones,
    stored as floats) would share the few bits that a product modulo 2⁶⁴ leaves them.
    """
    rows = np.ascontiguousarray(block)
    octets = rows.view(np.uint8).reshape(len(rows), -1)
    short = -octets.shape[1] % 8
    if short:
        octets = np.pad(octets, ((0, 0), (0, short)))
    words = octets.view(np.uint64)
    lower, upper = _factors(words.shape[1])
    hashes: Keys = np.einsum("ij,j->i", words, lower)
    hashes += np.einsum("ij,j->i", words >> np.uint64(32), upper)
    return mixed(hashes)


@cache
def _factors(words: int) -> tuple[Keys, Keys]:
    lower, upper = (row_keys(0, words, seed) | np.uint64(1) for seed in (1, 2))
    return lower, upper


def stacked(hashes: Sequence[Keys]) -> Keys:
    """The hashes of whole rows, from those of each view's."""
    total: Keys = np.zeros(len(hashes[0]), dtype=np.uint64)
    for keys, factor in zip(hashes, row_keys(0, len(hashes), 3) | np.uint64(1)):
        total += keys * factor
    return mixed(total)


def duplicate_groups(sources: Sequence[Source], block_rows: int = 4096) -> Keys:
    """A label a row, the same for rows that are equal in all views; reads them once more.

    Parameters
    ----------
    sources : sequence of Source
        Open, of the same rows.
    block_rows : int
        Rows to read at a time.
    """
    rows = sources[0].rows
    labels: Keys = np.empty(rows, dtype=np.uint64)
    for start in range(0, rows, block_rows):
        stop = min(start + block_rows, rows)
        labels[start:stop] = stacked([hash_rows(source.read(start, stop)) for source in sources])
    return labels
