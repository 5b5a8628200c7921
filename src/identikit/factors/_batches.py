"""Batches of rows that share the value of one factor, for the scores that intervene on factors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import numpy as np

from identikit._linalg import Array
from identikit.errors import InputError
from identikit.factors._bins import Labels
from identikit.factors._metric import Trial
from identikit.factors._resample import TEST, TRAIN, Rows, folds, orders
from identikit.factors._result import Excluded
from identikit.moments import FOLDS

T = TypeVar("T")

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


def sharing(trial: Trial) -> Trial:
    """The trial with the factors of which two rows of every fold share a value."""
    kept, excluded = [], list(trial.excluded)
    for factor in trial.factors:
        labels = factor.cut(CLASSES)
        if all(len(Pool.of(np.arange(len(labels))[f], labels[f]).rows) for f in folds(len(labels))):
            kept.append(factor)
        else:
            why = f"{trial.called} needs rows in every fold that share it"
            excluded.append(Excluded("factor", factor.name, why))
    if len(kept) < 2:
        raise InputError(
            f"{trial.called} tells which of several factors was fixed, and needs at least two with "
            f"rows in every fold that share a value; there are {len(kept)}"
        )
    return replace(trial, factors=kept, excluded=tuple(excluded))


@dataclass(frozen=True)
class Told(Generic[T]):
    """How often factors are told right: (1 + P, K), (F, K) without each fold, and of what `drawn`.

    `batches` are those of all factors and folds; `drawn` is what was scored in the true order.
    """

    right: Array
    without: Array
    batches: int
    drawn: list[T]


def told(
    trial: Trial,
    draw: Callable[[Sequence[Pool], int, np.random.Generator], T],
    judge: Callable[[list[T], T], Array],
    batches: int,
) -> Told[T]:
    """Tell which factor the rows of a batch share, by what was learned from other batches.

    Batches lie within one fold each, as many of every factor, and those of a fold are judged by the
    others'. As published, there are 10,000 to learn from and 5,000 to judge, both from all rows.

    Parameters
    ----------
    trial : Trial
        As `sharing` gives it.
    draw : callable
        ``draw(pools, batches, rng)``: what is seen of so many batches a factor.
    judge : callable
        ``judge(learned, judged)``: the share of each factor's batches that are told right.
    batches : int
        In all, unless the trial is as published.
    """
    rng, K = np.random.default_rng(trial.data.seed), len(trial.factors)
    each = max(2, batches // (K * FOLDS))
    right, first = [], []
    without = np.empty((FOLDS, K))
    for order, parts in enumerate(_pools(trial)):
        if trial.reference:
            hits, last = [], []
            for pools in parts if order == 0 else parts[:1]:
                learned, judged = (draw(pools, n // K, rng) for n in (TRAIN, TEST))
                hits.append(judge([learned], judged))
                last.append(judged)
            drawn, value, rest = last[:1], hits[0], hits[1:]
        else:
            drawn = [draw(pools, each, rng) for pools in parts]
            hits = [judge(drawn[:f] + drawn[f + 1 :], own) for f, own in enumerate(drawn)]
            value, total = np.mean(hits, axis=0), np.sum(hits, axis=0)
            rest = [(total - own) / (FOLDS - 1) for own in hits]
        right.append(value)
        if order == 0:
            without, first = np.array(rest), drawn
    number = TRAIN + TEST if trial.reference else each * K * FOLDS
    return Told(np.array(right), without, number, first)


def _pools(trial: Trial) -> list[list[list[Pool]]]:
    """Pools of every order of rows (the true one first), part and factor.

    Parts are the folds; or, as published, all rows and then all without each fold.
    """
    found: list[list[list[Pool]]] = [[] for _ in range(1 + trial.permutations)]
    for factor in trial.factors:
        labels = factor.cut(CLASSES)
        every = np.arange(len(labels))
        known = every if factor.known is None else factor.known
        parts = [every[fold] for fold in folds(len(labels))]
        if trial.reference:
            parts = [every, *(np.delete(every, part) for part in parts)]
        for order, rows in enumerate(orders(len(labels), trial.permutations, trial.data.seed)):
            shuffled = labels[rows]
            found[order].append([Pool.of(known[part], shuffled[part]) for part in parts])
    return [[list(each) for each in zip(*order)] for order in found]


def in_chunks(rows: Rows) -> list[Rows]:
    """Batches (M, 64) in pieces that fit into the processor's cache, nearly."""
    return np.array_split(rows, max(1, rows.size // ROOM))
