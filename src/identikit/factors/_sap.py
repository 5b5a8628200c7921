"""Separated attribute predictability."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identikit._linalg import Array, inverse_or_zero
from identikit.factors import _linear as linear
from identikit.factors._data import Data, prepare
from identikit.factors._factor import DISCRETE, Factor, Kinds
from identikit.factors._permute import (
    check_held_out,
    check_noise,
    is_reference,
    orders,
    pooled,
    ratio,
    split,
)
from identikit.factors._probe import fitted
from identikit.factors._registry import metric
from identikit.factors._result import HELD_OUT, ONE_SPLIT, Score, mean_part, method
from identikit.factors._tables import Counts, default_bins, tables
from identikit.moments import FOLDS

PERMUTATIONS, REFERENCE_PERMUTATIONS = 50, 5


@metric(
    "SAP",
    "Does one code predict a factor better than any other code does?",
    invariant_to="signed permutation and scale per code",
    place=41,
    reference="Kumar et al. 2018",
)
def sap(
    codes: object,
    factors: object = None,
    *,
    names: Sequence[str] | None = None,
    kinds: Kinds = None,
    seed: int = 0,
    preset: str | None = None,
    bins: int | None = None,
    noise: float = 0.0,
    permutations: int | None = None,
) -> Score:
    """Mean over factors of the best code's score less the second's, each code on its own.

    A code's score of a continuous factor is R² of a line, of a discrete factor the class-balanced
    accuracy of saying, in each of its bins of equal frequency, the class that is most frequent
    there. Lines, classes and the two codes come from other rows than the scores.
    preset="reference": accuracy of LinearSVC(C=0.01, class_weight="balanced"), fitted on two thirds
    of the rows and scored on the rest (at most 10,000 and 5,000), squared correlation on the former
    for continuous factors, the two codes chosen where they are scored.

    Parameters
    ----------
    codes, factors, names, kinds, seed
        As `prepare` takes them.
    preset : None or "reference"
        Held out, or as in disentanglement_lib.
    bins, noise
        As in `mig`; the reference has none.
    permutations : int, optional
        For the chance level; by default 50, and 5 for the reference.

    Examples
    --------
    >>> s = np.random.default_rng(0).integers(2, size=(1000, 2))
    >>> round(sap(s, s).value, 1)
    0.5
    """
    reference = is_reference(preset)
    check_noise(noise)
    count = permutations
    if count is None:
        count = REFERENCE_PERMUTATIONS if reference else PERMUTATIONS
    data = prepare(codes, factors, names=names, kinds=kinds, seed=seed)
    check_held_out(data.rows, "SAP")
    titles = tuple(factor.name for factor in data.factors)
    if reference:
        matrices, rest, n = _reference(data, count)
        values, without, matrix = gaps(matrices), gaps(rest), matrices[0]
        words = "LinearSVC, one code at a time; squared correlation of continuous factors."
    else:
        bins = bins or default_bins(data.rows)
        values, without, matrix = _held_out(data, bins, count, noise)
        words, n = (
            f"Lines, and classes in {bins} bins of equal frequency.",
            data.known_rows(data.factors),
        )
    parts = (mean_part("SAP", values, without, titles),)
    return Score(
        "sap",
        parts,
        n,
        data.code_names,
        titles,
        data.excluded,
        method(words, parts, ONE_SPLIT if reference else HELD_OUT),
        matrix,
        "score of one code",
    )


def gaps(scores: Array) -> Array:
    """Best less second best code of every factor; codes are the last axis but one."""
    ordered = np.sort(scores, axis=-2)
    return ordered[..., -1, :] - (ordered[..., -2, :] if scores.shape[-2] > 1 else 0.0)


def _held_out(data: Data, bins: int, count: int, noise: float) -> tuple[Array, Array, Array]:
    """Gaps (1 + P, K), those of the true order without each fold (F, K), and scores (L, K)."""
    discrete = [factor for factor in data.factors if factor.kind == DISCRETE]
    others = [factor for factor in data.factors if factor.kind != DISCRETE]
    parts = []
    if discrete:
        parts.append((discrete, *_by_bins(data, discrete, bins, count, noise)))
    if others:
        parts.append((others, *_by_lines(data, others, count)))
    shape = (1 + count, len(data.factors))
    values, without = np.empty(shape), np.empty((parts[0][1].shape[0], shape[1]))
    matrix = np.empty((data.codes.shape[1], shape[1]))
    for some, train, over, under in parts:
        places = [data.factors.index(factor) for factor in some]
        best = np.argsort(-train, axis=-2, kind="stable")
        top = np.take_along_axis(over, best, axis=-2)
        # A line that does worse than the mean does as well as none.
        gap = top[..., 0, :] - (np.maximum(top[..., 1, :], 0.0) if top.shape[-2] > 1 else 0.0)
        values[:, places], rest = pooled(gap, under)
        without[:, places] = rest[:, 0]
        matrix[:, places] = pooled(over[:, 0], under[:, 0, None])[0]
    return values, without, matrix


def _by_bins(
    data: Data, discrete: Sequence[Factor], bins: int, count: int, noise: float
) -> tuple[Array, Array, Array]:
    """Accuracy on train rows, accuracy × rows on test rows (F, 1 + P, L, K), and those rows."""
    train, test, rows = [], [], []
    for every in tables(data, discrete, bins, count, noise):
        scores = [_accuracies(counts) for counts in every]
        train.append([score[0] for score in scores])
        test.append([score[1] for score in scores])
        rows.append([counts[:, 0].sum((1, 2)) for counts in every])
    under = np.array(rows, dtype=np.float64).transpose(2, 0, 1)
    fits, hits = (np.array(each).transpose(2, 0, 3, 1) for each in (train, test))
    return fits, hits * under[:, :, None], under


def _accuracies(counts: Counts) -> list[Array]:
    """Class-balanced accuracy (F, L) of the majority of each bin, on train and on test rows."""
    balanced = [_balanced(each) for each in (counts.sum(0) - counts, counts)]
    said = np.argmax(balanced[0], axis=-1)[..., None]
    return [np.take_along_axis(each, said, -1).sum((-2, -1)) for each in balanced]


def _balanced(counts: Counts) -> Array:
    """Counts with every class that is there weighing the same, 1 in all."""
    weights = inverse_or_zero(counts.sum(-2, dtype=np.float64))
    return np.asarray(counts * (weights / (weights > 0).sum(-1, keepdims=True))[..., None, :])


def _by_lines(data: Data, others: Sequence[Factor], count: int) -> tuple[Array, Array, Array]:
    """R² of lines on train rows, explained squared deviations of test rows, and all of them."""
    parts = []
    for places, test in linear.labelled_sums(data, others, count)[0]:
        train = test.without_each()
        spread = [np.einsum("fll->fl", sums.cov_zz)[..., None] for sums in (train, test)]
        slope = train.cov_zs * inverse_or_zero(np.maximum(spread[0], 0.0))
        moved = (test.mean_z - train.mean_z)[..., None]
        shift = (test.mean_s - train.mean_s)[:, None] - slope * moved
        won = 2 * slope * test.cov_zs - slope**2 * spread[1] - shift**2
        n = test.n[:, None]
        fit = linear.correlations(train) ** 2
        parts.append((places, (fit, n[..., None] * won, n * test.var_s)))
    fits, over, under = linear.gathered_each(parts, len(others))
    # Codes come before permutations in the sums, after them here.
    return fits.swapaxes(1, 2), over.swapaxes(1, 2), under


def _reference(data: Data, count: int) -> tuple[Array, Array, int]:
    """Scores (1 + P, L, K) of the published code, without each fold (F, L, K), and rows."""
    shape = (1 + count, data.codes.shape[1], len(data.factors))
    scores, rest = np.empty(shape), np.empty((FOLDS, *shape[1:]))
    most = 0
    for place, factor in enumerate(data.factors):
        ((z, _, _),) = data.blocks([factor])
        train, test = split(len(z))
        most = max(most, train + test)
        values = factor.values if factor.labels is None else factor.labels
        for order, rows in enumerate(orders(len(z), count, data.seed)):
            used = values[rows][: train + test]
            scores[order, :, place] = _column(z[: train + test], used, train, factor, data.seed)
        kept = np.arange(train + test)
        for fold in range(FOLDS):
            some = kept[kept % FOLDS != fold]
            part = int(np.count_nonzero(some < train))
            rest[fold, :, place] = _column(z[some], values[some], part, factor, data.seed)
    return scores, rest, most


def _column(z: Array, values: NDArray[Any], train: int, factor: Factor, seed: int) -> Array:
    """The score of every code for one factor."""
    from sklearn.svm import LinearSVC

    if factor.labels is None:
        centred = z[:train] - z[:train].mean(0)
        target = values[:train] - values[:train].mean()
        return ratio((target @ centred) ** 2, (centred**2).sum(0) * (target @ target))
    if len(np.unique(values[:train])) < 2:  # rows of one class only: nothing to learn
        return np.full(z.shape[1], float(np.mean(values[train:] == values[0])))
    found = []
    for code in z.T:
        machine = LinearSVC(C=0.01, class_weight="balanced", random_state=seed)
        fitted(machine, code[:train, None], values[:train])
        found.append(np.mean(machine.predict(code[train:, None]) == values[train:]))
    return np.array(found)
