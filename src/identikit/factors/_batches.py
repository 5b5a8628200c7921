"""The β-VAE and FactorVAE scores, from batches of rows that share the value of one factor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from identikit._linalg import Array
from identikit.errors import InputError
from identikit.factors._metric import Trial, metric
from identikit.factors._probe import logistic
from identikit.factors._resample import TEST, TRAIN, Labels, Rows, folds, orders
from identikit.factors._result import Excluded, Score
from identikit.moments import FOLDS

T = TypeVar("T")

#: Number of classes that a continuous factor is cut into.
CLASSES = 20
BATCH = 64
#: Number of rows that are gathered at a time.
ROOM = 50_000
BATCHES = 4_000
#: Mean |z − z'| of every batch, and the factor that its rows share.
Differences = tuple[Array, Labels]
VOTES = 5_000
#: The reference leaves out codes whose standard deviation is below this.
PRUNED = 0.05
#: How often each code varies least when each factor is fixed (L, K).
Votes = NDArray[np.int64]


@metric(
    "β-VAE score",
    "Do the codes show which factor two rows share?",
    invariant_to="signed permutation and scale per code",
    reference="Higgins et al. 2017",
    permutations=(20, 10),
    called="the β-VAE score",
    place=60,
)
def beta_vae(trial: Trial) -> Score:
    """Accuracy of predicting the factor that 64 pairs of rows share, from their mean |z − z'|.

    The predictor is a logistic regression on the differences, each in units of its standard
    deviation. There are 4,000 batches, the same number for every factor, and each lies within one
    of 5 folds; the batches of a fold are scored by a model fitted on the other folds. Chance is
    1/K. Two rows share a continuous factor if its values fall into the same of 20 classes of equal
    frequency. At least two factors are needed. preset="reference" (disentanglement_lib) fits on
    10,000 batches and scores 5,000, both from all rows, and does not rescale the differences.
    """
    trial.needs_folds()
    trial = sharing(trial)
    codes, K = trial.data.codes, len(trial.factors)

    def draw(pools: Sequence[Pool], batches: int, rng: np.random.Generator) -> Differences:
        found = []
        for pool in pools:
            for a, b in zip(*map(in_chunks, pool.pairs(rng, batches))):
                found.append(np.abs(codes[a] - codes[b]).mean(axis=1))
        return np.concatenate(found), np.repeat(np.arange(K), batches)

    def judge(learned: list[Differences], judged: Differences) -> Array:
        z, shared = (np.concatenate(each) for each in zip(*learned))
        scale = np.ones(z.shape[1]) if trial.reference else z.std(axis=0)
        scale = np.where(scale > 0, scale, 1.0)
        model = logistic(z / scale, shared)
        right = model.predict(judged[0] / scale) == judged[1]
        counts = np.bincount(judged[1], minlength=K)
        return np.bincount(judged[1], weights=right, minlength=K) / counts

    right, without, number, _ = told(trial, draw, judge, BATCHES)
    part = trial.mean_part("accuracy", right, without, 0.0)
    return trial.score(part, f"Logistic regression from {number:,} batches of {BATCH} pairs.")


@metric(
    "FactorVAE score",
    "Does a code of its own stand still when a factor does?",
    invariant_to="signed permutation and scale per code",
    reference="Kim and Mnih 2018",
    permutations=20,
    called="the FactorVAE score",
    place=61,
)
def factor_vae(trial: Trial) -> Score:
    """Accuracy of predicting the factor that 64 rows share from the code that varies least in them.

    Variances are relative to the variance of the code over all rows, and every code predicts the
    factor for which it has the most votes. There are 5,000 votes, the same number for every factor,
    and each comes from rows of one of 5 folds; the votes of a fold are judged by the other folds.
    A continuous factor counts as fixed within one of 20 classes of equal frequency. At least two
    factors are needed. preset="reference" (disentanglement_lib) learns from 10,000 votes and judges
    5,000, both from all rows, and leaves out codes with a standard deviation below 0.05.
    """
    trial.needs_folds()
    trial = sharing(trial)
    data = trial.data
    spread = data.codes.std(axis=0, ddof=1)
    kept = spread >= (PRUNED if trial.reference else 0.0)
    pruned = tuple(
        Excluded("code", name, f"its standard deviation is {size:.3g}, below {PRUNED}")
        for name, size, there in zip(data.code_names, spread, kept)
        if not there
    )
    if not kept.any():
        raise InputError(
            f"every code has a standard deviation below {PRUNED}, so there is nothing to score"
        )
    z = data.codes[:, kept] / spread[kept]

    def draw(pools: Sequence[Pool], votes: int, rng: np.random.Generator) -> Votes:
        found = np.zeros((z.shape[1], len(pools)), dtype=np.int64)
        for place, pool in enumerate(pools):
            for rows in in_chunks(pool.classmates(rng, votes)):
                least = np.argmin(z[rows].var(axis=1), axis=1)
                found[:, place] += np.bincount(least, minlength=z.shape[1])
        return found

    def judge(learned: list[Votes], judged: Votes) -> Array:
        """The share of each factor's votes that go to a code that predicts this factor."""
        stands_for = np.argmax(np.sum(learned, axis=0), axis=1)
        right = np.zeros(judged.shape[1])
        np.add.at(right, stands_for, judged[np.arange(len(judged)), stands_for])
        return np.asarray(right / judged.sum(0))

    right, without, number, drawn = told(trial, draw, judge, VOTES)
    votes = np.sum(drawn, axis=0)
    return trial.score(
        trial.mean_part("accuracy", right, without, 0.0),
        f"Majority of {number:,} votes of {BATCH} rows.",
        matrix=votes / votes.sum(0),
        matrix_of="share of votes",
        codes=tuple(name for name, there in zip(data.code_names, kept) if there),
        excluded=pruned,
    )


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


def told(
    trial: Trial,
    draw: Callable[[Sequence[Pool], int, np.random.Generator], T],
    judge: Callable[[list[T], T], Array],
    batches: int,
) -> tuple[Array, Array, int, list[T]]:
    """Predict which factor the rows of a batch share, with what was learned from other batches.

    Every batch lies within one fold, every factor has the same number of batches, and the batches
    of a fold are judged by what was learned from the other folds. The published version learns
    from 10,000 batches and judges 5,000, both from all rows. ``draw(pools, batches, rng)`` returns
    the features of so many batches per factor, and ``judge(learned, judged)`` each factor's
    accuracy.

    Returns the accuracy per factor for every order of rows (1 + P, K), that of the true order
    without each fold (F, K), the number of batches, and what was scored in the true order.
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
    return np.array(right), without, number, first


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
