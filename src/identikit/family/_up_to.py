"""Whether two models have equal logits up to a common factor or another order of the labels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from identikit._linalg import Array, svd
from identikit.family._pair import Ints, Pair

#: Up to this many labels, another order is searched for, at the cost of K × K matrices.
MATCHED = 2000


@dataclass(frozen=True)
class UpTo:
    """The factor and the order of labels that bring the logits of a closest to those of b.

    Z_b(x, order[k]) ≈ `temperature` Z_a(x, k) for the label-centred logits: label k of a is label
    `order[k]` of b (None if the order is already the same). `logit_gap` is the remaining difference
    divided by the spread of Z_b. `chance` is the gap that the best order leaves if the labels of b
    are drawn at random with the same covariance; it is small with few dimensions and many labels
    (None without an order).
    """

    temperature: float
    order: Ints | None
    logit_gap: float
    chance: float | None


def up_to(pair: Pair, tolerance: float, seed: int = 0) -> UpTo:
    """The temperature between two models, and another order of labels if there clearly is one.

    ‖Z_b − c Z_a‖ is smallest for c = ⟨Z_a, Z_b⟩/‖Z_a‖². The best order of the labels maximises
    Σ_k ⟨Z_a(·, k), Z_b(·, order[k])⟩ for any factor, which is an assignment problem. The order is
    accepted if it leaves less than half of the gap and less than half of the gap at chance.

    Parameters
    ----------
    pair : Pair
    tolerance : float
        The gap up to which no other order is searched for.
    seed : int
        Seed of the labels that are drawn for `chance`.
    """
    gap, ours, theirs = pair.logit_norms
    product = (ours**2 + theirs**2 - gap**2) / 2
    factor, left = _factor(product, ours, theirs)
    as_given = UpTo(factor, None, left, None)
    if as_given.logit_gap <= tolerance or pair.candidates or pair.K > MATCHED:
        return as_given
    first, second = pair.label_vectors
    order, product = _best_order(first @ second.T)
    factor, left = _factor(product, ours, theirs)
    if not left < as_given.logit_gap / 2:
        return as_given
    drawn = _like(second, seed)
    _, by_chance = _best_order(first @ drawn.T)
    _, chance = _factor(by_chance, ours, float(np.linalg.norm(drawn)))
    return UpTo(factor, order, left, chance) if left < chance / 2 else as_given


def _factor(product: float, ours: float, theirs: float) -> tuple[float, float]:
    """c ≥ 0, and ‖Z_b − c Z_a‖/‖Z_b‖, which is the sine of the angle between Z_a and Z_b."""
    if not (product > 0 and ours > 0 and theirs > 0):
        return 0.0, 1.0
    cosine = min(product / (ours * theirs), 1.0)
    return product / ours**2, (1.0 - cosine**2) ** 0.5


def _best_order(products: Array) -> tuple[Ints, float]:
    from scipy.optimize import linear_sum_assignment

    rows, order = linear_sum_assignment(products, maximize=True)
    return order.astype(np.intp), float(products[rows, order].sum())


def _like(labels: Array, seed: int) -> Array:
    """The same number of labels, drawn at random with the same covariance."""
    _, values, right = svd(labels)
    rng = np.random.default_rng([seed, 2])
    drawn = rng.normal(size=(len(labels), len(values))) * values @ right
    return np.asarray(drawn - drawn.mean(axis=0))
