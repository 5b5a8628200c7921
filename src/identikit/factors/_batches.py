"""Batches of rows that share the value of one factor, for scores that are based on interventions.

The β-VAE and FactorVAE scores use them.
"""

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

#: Number of classes that a continuous factor is cut into.
CLASSES = 20
BATCH = 64
#: Number of rows that are gathered at a time.
ROOM = 50_000


@dataclass(frozen=True)
class Pool:
    """The rows of all classes with at least two rows, sorted by class."""

    rows: Rows
    start: Rows
    count: Rows

    @classmethod
    def of(cls, rows: Rows, labels: Labels) -> Pool:
        """Build a pool from rows and their class labels."""
        order = np.argsort(labels, kind="stable")
        count = np.unique(labels, return_counts=True)[1]
        large = count > 1
        kept = np.repeat(large, count)
        return cls(rows[order][kept], np.cumsum(count[large]) - count[large], count[large])

    def draw(self, rng: np.random.Generator, size: tuple[int, ...]) -> tuple[Rows, Rows, Rows]:
        """Draw random positions in `rows`, with the start and the size of their classes."""
        place = rng.integers(len(self.rows), size=size)
        label = np.searchsorted(self.start, place, side="right") - 1
        return place, self.start[label], self.count[label]

    def pairs(self, rng: np.random.Generator, batches: int) -> tuple[Rows, Rows]:
        """Draw pairs of different rows that are in the same class, (batches, 64) each."""
        place, start, count = self.draw(rng, (batches, BATCH))
        step = 1 + (rng.random(place.shape) * (count - 1)).astype(np.intp)
        other = start + (place - start + step) % count
        return self.rows[place], self.rows[other]

    def classmates(self, rng: np.random.Generator, batches: int) -> Rows:
        """Draw batches (batches, 64) of rows from one class each, with replacement."""
        _, start, count = self.draw(rng, (batches,))
        inside = (rng.random((batches, BATCH)) * count[:, None]).astype(np.intp)
        return np.asarray(self.rows[start[:, None] + inside])


def sharing(trial: Trial) -> Trial:
    """The trial with only those factors that have, in every fold, two rows with the same value."""
    kept, excluded = [], list(trial.excluded)
    for factor in trial.factors:
        labels = factor.cut(CLASSES)
        if all(len(Pool.of(np.arange(len(labels))[f], labels[f]).rows) for f in folds(len(labels))):
            kept.append(factor)
        else:
            why = f"{trial.called} needs two rows with the same value of it in every fold"
            excluded.append(Excluded("factor", factor.name, why))
    if len(kept) < 2:
        raise InputError(
            f"{trial.called} predicts which factor was fixed, so it needs at least two factors "
            f"that have rows with the same value in every fold; there are {len(kept)}"
        )
    return replace(trial, factors=kept, excluded=tuple(excluded))


@dataclass(frozen=True)
class Told(Generic[T]):
    """How often the fixed factor is predicted correctly.

    `right` (1 + P, K) is the accuracy per factor for every order of rows, and `without` (F, K) that
    of the true order without each fold. `batches` counts the batches of all factors and folds, and
    `drawn` is what was scored in the true order.
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
    """Predict which factor the rows of a batch share, with what was learned from other batches.

    Every batch lies within one fold, every factor has the same number of batches, and the batches
    of a fold are judged by what was learned from the other folds. The published version learns
    from 10,000 batches and judges 5,000, both from all rows.

    Parameters
    ----------
    trial : Trial
        The result of `sharing`.
    draw : callable
        ``draw(pools, batches, rng)`` returns the features of the given number of batches per
        factor.
    judge : callable
        ``judge(learned, judged)`` returns the accuracy for each factor's batches.
    batches : int
        Total number of batches; the published version ignores it.
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
    """Pools for every order of rows (the true one first), every part and every factor.

    The parts are the folds; in the published version, all rows and then all rows without each fold.
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
    """Split batches (M, 64) into pieces that roughly fit into the processor's cache."""
    return np.array_split(rows, max(1, rows.size // ROOM))
