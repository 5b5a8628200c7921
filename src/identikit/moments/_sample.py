"""A row sample that merges: the rows with the smallest hashed row number."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from identikit._linalg import Array

Keys = NDArray[np.uint64]


def row_keys(start: int, stop: int, seed: int) -> Keys:
    """A pseudo-random 64-bit key a row, from its number and the seed (the splitmix64 mixer)."""
    x = np.arange(start, stop, dtype=np.uint64) + np.uint64(seed % 2**32) * np.uint64(2**32)
    x = (x + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def largest_key(size: int, rows: int) -> np.uint64:
    """A key that is safely above the `size` smallest of so many rows.

    Below it lie a Poisson number of keys, ten deviations more than wanted on average. It is the
    same whoever reads which rows, so that a part of them need not keep `size` of its own.
    """
    share = (size + 10 * np.sqrt(size) + 10) / rows
    return np.uint64(share * 2.0**64) if share < 1 else np.uint64(2**64 - 1)


@dataclass(frozen=True, eq=False)
class RowSample:
    """At most `size` rows, those of the smallest keys: a uniform sample whatever the block order.

    `rows` are the stacked views, in the order of `keys`.
    """

    size: int
    keys: Keys
    rows: Array

    def __add__(self, other: RowSample) -> RowSample:
        size = min(self.size, other.size)
        keys = np.concatenate([self.keys, other.keys])
        first = np.argsort(keys, kind="stable")[:size]
        return RowSample(size, keys[first], np.concatenate([self.rows, other.rows])[first])


class SampleKeeper:
    """Offers rows to a sample block by block; copies only those that may stay."""

    def __init__(self, size: int, width: int, rows: int) -> None:
        self.size, self.limit = size, largest_key(size, rows)
        self.keys: Keys = np.empty(0, dtype=np.uint64)
        self.pending = [RowSample(size, self.keys, np.empty((0, width)))]

    def candidates(self, keys: Keys) -> NDArray[np.intp]:
        """Which of a block's rows may belong to the sample, by their keys."""
        full = self.size and len(self.keys) == self.size
        chosen = np.flatnonzero(keys < (self.keys[-1] if full else self.limit))
        chosen = chosen[np.argsort(keys[chosen], kind="stable")][: self.size]
        if not len(chosen):
            return chosen
        self.keys = np.sort(np.concatenate([self.keys, keys[chosen]]))[: self.size]
        return chosen

    def keep(self, keys: Keys, rows: Array) -> None:
        """Keep rows that `candidates` chose."""
        self.pending.append(RowSample(self.size, keys, rows))
        if sum(len(part.keys) for part in self.pending) > 8 * max(self.size, 1):
            self.pending = [self.sample()]

    def sample(self) -> RowSample:
        """The sample of all rows offered so far."""
        last = self.keys[-1] if len(self.keys) else np.uint64(0)
        stay = [np.flatnonzero(part.keys <= last) for part in self.pending]
        keys = np.concatenate([part.keys[i] for part, i in zip(self.pending, stay)])
        rows = np.concatenate([part.rows[i] for part, i in zip(self.pending, stay)])
        first = np.argsort(keys, kind="stable")[: self.size]
        return RowSample(self.size, keys[first], rows[first])
