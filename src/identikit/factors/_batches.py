"""Batches of rows that share the value of one factor, for the scores that intervene on factors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from identikit.errors import InputError
from identikit.factors._bins import Labels
from identikit.factors._data import Data
from identikit.factors._factor import Factor
from identikit.factors._permute import Rows, folds, orders
from identikit.factors._result import Excluded
from identikit.moments import FOLDS

#: Classes that a continuous factor is cut into.
CLASSES = 20
BATCH = 64
#: Rows gathered at once.
ROOM = 50_000


@dataclass(frozen=True)
class Pool:
    """Rows sorted by class, of classes with at least two rows."""

    rows: Rows
    start: Rows
    count: Rows

    @classmethod
    def of(cls, rows: Rows, labels: Labels) -> Pool:
        """From the classes of some rows."""
        order = np.argsort(labels, kind="stable")
        count = np.unique(labels, return_counts=True)[1]
        large = count > 1
        kept = np.repeat(large, count)
        return cls(rows[order][kept], np.cumsum(count[large]) - count[large], count[large])

    def draw(self, rng: np.random.Generator, size: tuple[int, ...]) -> tuple[Rows, Rows, Rows]:
        """Random rows, as places in `rows`, with the start and the size of their classes."""
        place = rng.integers(len(self.rows), size=size)
        label = np.searchsorted(self.start, place, side="right") - 1
        return place, self.start[label], self.count[label]

    def pairs(self, rng: np.random.Generator, batches: int) -> tuple[Rows, Rows]:
        """Pairs of different rows of one class (batches, 64)."""
        place, start, count = self.draw(rng, (batches, BATCH))
        step = 1 + (rng.random(place.shape) * (count - 1)).astype(np.intp)
        other = start + (place - start + step) % count
        return self.rows[place], self.rows[other]

    def classmates(self, rng: np.random.Generator, batches: int) -> Rows:
        """Rows of one class, with replacement (batches, 64)."""
        _, start, count = self.draw(rng, (batches,))
        inside = (rng.random((batches, BATCH)) * count[:, None]).astype(np.intp)
        return np.asarray(self.rows[start[:, None] + inside])


def eligible(data: Data, metric: str) -> tuple[list[Factor], tuple[Excluded, ...]]:
    """Factors of which two rows of every fold share a value, and what is said of the others."""
    kept, excluded = [], list(data.excluded)
    for factor in data.factors:
        labels = factor.cut(CLASSES)
        if all(len(Pool.of(np.arange(len(labels))[f], labels[f]).rows) for f in folds(len(labels))):
            kept.append(factor)
        else:
            excluded.append(
                Excluded("factor", factor.name, f"{metric} needs rows in every fold that share it")
            )
    if len(kept) < 2:
        raise InputError(
            f"{metric} tells which of several factors was fixed, and needs at least two with rows "
            f"in every fold that share a value; there are {len(kept)}"
        )
    return kept, tuple(excluded)


def pools(
    data: Data, scored: Sequence[Factor], count: int, *, whole: bool
) -> list[list[list[Pool]]]:
    """Pools of every order of rows (the true one first), part and factor.

    Parts are the folds; or, if `whole`, all rows and then all without each fold.
    """
    found: list[list[list[Pool]]] = [[] for _ in range(1 + count)]
    for factor in scored:
        labels = factor.cut(CLASSES)
        known = np.arange(data.rows) if factor.known is None else factor.known
        parts = [np.arange(len(labels))[fold] for fold in folds(len(labels))]
        if whole:
            parts = [np.arange(len(labels)), *(np.delete(np.arange(len(labels)), p) for p in parts)]
        for order, rows in enumerate(orders(len(labels), count, data.seed)):
            shuffled = labels[rows]
            found[order].append([Pool.of(known[part], shuffled[part]) for part in parts])
    return [[list(each) for each in zip(*order)] for order in found]


def share(total: int, factors: int, parts: int = FOLDS) -> int:
    """Batches of every factor in every part."""
    return max(2, total // (factors * parts))


def in_chunks(rows: Rows) -> list[Rows]:
    """Batches (M, 64) in pieces that fit into the cache's neighbourhood."""
    return np.array_split(rows, max(1, rows.size // ROOM))
