"""A mergeable row sample: the rows with the smallest hashes of their row numbers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identikit._linalg import Array

Keys = NDArray[np.uint64]

#: Number of rows whose keys are computed together.
LOT = 2**16


def row_keys(start: int, stop: int, seed: int) -> Keys:
    """One pseudo-random 64-bit key per row, from its number and the seed (splitmix64)."""
    first = start + 1 + (seed % 2**32) * 2**32
    x = np.arange(stop - start, dtype=np.uint64)
    x += np.uint64(first % 2**64)
    x *= np.uint64(0x9E3779B97F4A7C15)
    return mixed(x)


def mixed(x: Keys) -> Keys:
    """Mix the bits of each key, in place (the last steps of splitmix64)."""
    x ^= x >> np.uint64(30)
    x *= np.uint64(0xBF58476D1CE4E5B9)
    x ^= x >> np.uint64(27)
    x *= np.uint64(0x94D049BB133111EB)
    x ^= x >> np.uint64(31)
    return x


def largest_key(size: int, rows: int) -> np.uint64:
    """A key that is almost certainly above the `size` smallest keys of `rows` rows.

    The number of keys below it follows a Poisson distribution whose mean exceeds `size` by ten
    standard deviations. The key depends only on these two numbers, so that a worker that reads a
    part of the rows need not keep `size` rows of its own.
    """
    share = (size + 10 * float(size) ** 0.5 + 10) / rows
    return np.uint64(share * 2.0**64) if share < 1 else np.uint64(2**64 - 1)


@dataclass(frozen=True, eq=False)
class RowSample:
    """The (at most) `size` rows with the smallest keys: a uniform sample in any order of reading.

    `rows` are the stacked views, in the order of `keys`; `cache` holds intermediate results of
    measures.
    """

    size: int
    keys: Keys
    rows: Array
    cache: dict[Any, Any] = field(default_factory=dict, repr=False)

    def without(self, part: int, parts: int, *, keep: bool = True) -> RowSample:
        """All rows but those of one of `parts` parts, which are assigned in the order of the keys.

        That order is random.
        """
        key = ("without", part, parts)
        if key in self.cache:
            rest: RowSample = self.cache[key]
            return rest
        there = np.arange(len(self.keys)) % parts != part
        rest = RowSample(self.size, self.keys[there], self.rows[there], {"part_of": (self, there)})
        if keep:
            self.cache[key] = rest
        return rest

    def __add__(self, other: RowSample) -> RowSample:
        size = min(self.size, other.size)
        keys = np.concatenate([self.keys, other.keys])
        first = np.argsort(keys, kind="stable")[:size]
        return RowSample(size, keys[first], np.concatenate([self.rows, other.rows])[first])


class SampleKeeper:
    """Selects the rows that may belong to a sample of `rows` rows, and keeps them."""

    def __init__(self, size: int, seed: int, width: int, rows: int) -> None:
        self.size, self.seed, self.limit = size, seed, largest_key(size, rows)
        self.held = RowSample(size, np.empty(0, dtype=np.uint64), np.empty((0, width)))
        self.pending: list[RowSample] = []
        self.waiting = 0
        self.start = self.stop = 0
        self.numbers, self.keys = np.empty(0, dtype=np.int64), self.held.keys

    def candidates(self, start: int, stop: int) -> tuple[NDArray[np.int64], Keys]:
        """The numbers and keys of rows from `start` to `stop` that may belong to the sample."""
        if start < self.start or stop > self.stop:  # compute keys of many rows at once
            self.start, self.stop = start, max(stop, start + LOT)
            keys = row_keys(self.start, self.stop, self.seed)
            found = np.flatnonzero(keys < self.limit)
            self.numbers, self.keys = found + self.start, keys[found]
        chosen = slice(*np.searchsorted(self.numbers, (start, stop)))
        return self.numbers[chosen], self.keys[chosen]

    def keep(self, keys: Keys, rows: Array) -> None:
        """Keep rows that `candidates` selected."""
        self.pending.append(RowSample(self.size, keys, rows))
        self.waiting += len(keys)
        if self.waiting > 7 * self.size:
            self.sample()

    def sample(self) -> RowSample:
        """The sample of all rows kept so far."""
        parts, self.pending, self.waiting = [self.held, *self.pending], [], 0
        keys = np.concatenate([part.keys for part in parts])
        first = np.argsort(keys, kind="stable")[: self.size]
        self.held = RowSample(
            self.size, keys[first], np.concatenate([part.rows for part in parts])[first]
        )
        return self.held
