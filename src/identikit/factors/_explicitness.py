"""Explicitness: can a factor's classes be read off by a linear classifier?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from identikit._linalg import Array
from identikit.factors._bins import Labels
from identikit.factors._data import Data, prepare
from identikit.factors._factor import Kinds
from identikit.factors._permute import (
    TEST,
    TRAIN,
    Rows,
    check_held_out,
    is_reference,
    orders,
    pooled,
    split,
)
from identikit.factors._probe import CLASSES, PROBED, ROWS, area, logistic, probed
from identikit.factors._registry import metric
from identikit.factors._result import HELD_OUT, ONE_SPLIT, Score, mean_part, method
from identikit.moments import FOLDS

PERMUTATIONS, REFERENCE_PERMUTATIONS = PROBED, 5


@metric(
    "explicitness",
    "Can a linear classifier read each factor off the codes?",
    invariant_to="invertible affine maps",
    place=43,
    reference="Ridgeway and Mozer 2018",
)
def explicitness(
    codes: object,
    factors: object = None,
    *,
    names: Sequence[str] | None = None,
    kinds: Kinds = None,
    seed: int = 0,
    preset: str | None = None,
    permutations: int | None = None,
) -> Score:
    """Mean over factors and classes of the area under the ROC curve, one class against the rest.

    Logistic regression with a small ridge on whitened codes, scored on other rows; 0.5 is chance.
    Continuous factors are cut into 10 classes of equal frequency. At most 10,000 rows are used.
    preset="reference" fits the codes as they are, on two thirds of at most 15,000 rows.

    Parameters
    ----------
    codes, factors, names, kinds, seed
        As `prepare` takes them.
    preset : None or "reference"
        Over folds, or one split as in disentanglement_lib.
    permutations : int, optional
        For the chance level; by default 10, and 5 for the reference.
    """
    reference = is_reference(preset)
    count = permutations
    if count is None:
        count = REFERENCE_PERMUTATIONS if reference else PERMUTATIONS
    data = prepare(codes, factors, names=names, kinds=kinds, seed=seed)
    check_held_out(data.rows, "explicitness")
    if reference:
        values, without, n = _reference(data, count)
    else:
        found = probed(data, count)
        weight = np.broadcast_to(found.n[:, None], found.auc.shape)
        values, rest = pooled(found.auc * weight, weight)
        without, n = rest[:, 0], int(found.n.sum(0).max())
    titles = tuple(factor.name for factor in data.factors)
    how, most = (
        ("fitted on two thirds of the rows", f"{TRAIN:,} + {TEST:,}")
        if reference
        else ("with a small ridge on whitened codes", f"{ROWS:,}")
    )
    words = (
        f"Logistic regression {how}; {CLASSES} classes of continuous factors; {most} rows at most."
    )
    parts = (mean_part("explicitness", values, without, titles, 0.0),)
    return Score(
        "explicitness",
        parts,
        n,
        data.code_names,
        titles,
        data.excluded,
        method(words, parts, ONE_SPLIT if reference else HELD_OUT),
    )


def _reference(data: Data, count: int) -> tuple[Array, Array, int]:
    """Areas (1 + P, K), those without each fold (F, K), and rows used."""
    values = np.empty((1 + count, len(data.factors)))
    rest = np.empty((FOLDS, len(data.factors)))
    most = 0
    for place, factor in enumerate(data.factors):
        ((z, _, _),) = data.blocks([factor])
        train, test = split(len(z))
        used = np.arange(train + test)
        labels = factor.cut(CLASSES)
        most = max(most, len(used))
        for order, rows in enumerate(orders(len(z), count, data.seed)):
            values[order, place] = _area(z, labels[rows], used, train)
        for fold in range(FOLDS):
            rest[fold, place] = _area(z, labels, used[used % FOLDS != fold], train)
    return values, rest, most


def _area(z: Array, labels: Labels, used: Rows, train: int) -> float:
    fitted, scored = used[used < train], used[used >= train]
    classes = np.unique(labels[fitted])
    scored = scored[np.isin(labels[scored], classes)]
    if len(classes) < 2 or not len(scored):
        return 0.5
    shares = logistic(z[fitted], labels[fitted]).predict_proba(z[scored])
    return area(shares, np.searchsorted(classes, labels[scored]))
