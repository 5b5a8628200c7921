"""The same but for a temperature, or for the order of the labels: found, and said in words."""

from __future__ import annotations

import json
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import close
from identikit.auditing import ModelPair, audit_models
from identikit.auditing.models_result import DIFFERENT, ORDER, SAME, TEMPERATURE
from identikit.family import Pair, SoftmaxModel, up_to
from test_models import relabelled, warmer


def only(a: SoftmaxModel, b: SoftmaxModel) -> ModelPair:
    (pair,) = audit_models([a, b]).pairs
    return pair


def parts(rng, K=10, bias=True):
    """f, g and bias of a model and of the same one in another gauge."""
    f, g, A = rng.normal(size=(200, 4)), rng.normal(size=(K, 4)), rng.normal(size=(4, 4))
    add = rng.normal(size=K) if bias else None
    return (f, g, add), (f @ A.T, g @ np.linalg.inv(A) + 1, add)


@pytest.mark.parametrize("bias", [False, True])
def test_reordered_labels_are_matched(bias, rng):
    first, (f, g, add) = parts(rng, bias=bias)
    order = rng.permutation(10)
    other = SoftmaxModel(f, g[order], None if add is None else add[order], name="b")
    pair = only(SoftmaxModel(*first, name="a"), other)
    assert pair.finding == ORDER
    assert not pair.same
    # Label k of a is the label of b that holds row k.
    expected = np.argsort(order)
    assert pair.up_to.order.tolist() == expected.tolist()
    close(pair.up_to.temperature, 1.0, 1e-9)
    assert pair.up_to.logit_gap < 1e-6
    assert pair.sentence.startswith("The same up to an order of the labels (relative logit gap <1e")
    moved = int(np.flatnonzero(expected != np.arange(10))[0])
    assert f"label {moved} of the first model is label {expected[moved]} of the" in pair.sentence
    assert pair.sentence.endswith("; give the labels in one order.")
    assert "temperature" not in pair.sentence
    document = json.loads(json.dumps(pair.to_dict()))["up_to"]
    assert document["order"] == expected.tolist()
    # And in that order they are the same.
    back = other.g[expected], None if add is None else other.bias[expected]
    assert only(SoftmaxModel(*first), SoftmaxModel(f, *back)).finding == SAME


@pytest.mark.parametrize("factor", [0.5, 1.3, 20.0])
@pytest.mark.parametrize("side", ["f", "g"])
def test_a_temperature_is_told_by_its_factor(side, factor, rng):
    first, (f, g, _) = parts(rng, bias=False)
    other = (factor * f, g) if side == "f" else (f, factor * g)
    pair = only(SoftmaxModel(*first, name="a"), SoftmaxModel(*other, name="b"))
    assert pair.finding == TEMPERATURE
    close(pair.up_to.temperature, factor, 1e-9)
    assert pair.up_to.order is None
    says = f"the logits of the second model are {factor:.3g} times those of the first"
    assert pair.sentence.startswith(f"The same up to a temperature of {factor:.3g} (")
    assert says in pair.sentence
    assert "counter-rotation" not in pair.sentence
    assert pair.to_dict()["up_to"]["order"] is None
    close(pair.gauge.kappa, abs(factor - 1), 1e-9)


def test_a_bias_has_the_temperature_too(rng):
    (f, g, add), (f2, g2, _) = parts(rng)
    pair = only(SoftmaxModel(f, g, add), SoftmaxModel(f2, 3 * g2, 3 * add))
    assert pair.finding == TEMPERATURE
    # If g alone is scaled, the bias is another one, and no factor makes up for it.
    assert only(SoftmaxModel(f, g, 5 * add), SoftmaxModel(f2, 3 * g2, 5 * add)).up_to is None


def test_a_temperature_under_candidates(rng):
    f, g = rng.normal(size=(200, 3)), rng.normal(size=(20, 3))
    chosen = np.argsort(rng.random((200, 20)), axis=1)[:, :6]
    pair = only(*(SoftmaxModel(c * f, g, candidates=chosen) for c in (1, 0.25)))
    assert pair.finding == TEMPERATURE
    close(pair.up_to.temperature, 0.25, 1e-9)


def test_both_at_once(rng):
    first, (f, g, _) = parts(rng, bias=False)
    pair = only(SoftmaxModel(*first), SoftmaxModel(2 * f, g[::-1]))
    assert pair.finding == ORDER
    assert "up to an order of the labels and a temperature of 2 (" in pair.sentence
    assert "the logits of the second model are 2 times" in pair.sentence
    close(pair.up_to.temperature, 2.0, 1e-9)


def test_tables_are_matched(rng):
    table = SoftmaxModel(rng.normal(size=(200, 3)), rng.normal(size=(8, 3))).log_prob()
    a, b = (SoftmaxModel.from_log_prob(t) for t in (table, table[:, ::-1].astype("f4")))
    assert only(a, b).up_to.order.tolist() == list(range(7, -1, -1))


def test_noise_leaves_a_hint(rng):
    """Too far apart to be called the same, and yet clearly in another order."""
    (f, g, _), _ = parts(rng, K=30, bias=False)
    pair = only(SoftmaxModel(f, g), SoftmaxModel(f + 0.3 * rng.normal(size=f.shape), g[::-1]))
    assert pair.finding not in (ORDER, SAME)
    assert pair.up_to.order.tolist() == list(range(29, -1, -1))
    (note,) = [note for note in pair.notes if "another order of the labels" in note]
    assert f"would be {pair.up_to.logit_gap:.2g} and not {pair.gauge.logit_gap:.2g}" in note


@pytest.mark.parametrize(("M", "K"), [(1, 300), (2, 300), (4, 10)])
def test_other_labels_are_no_order(M, K, rng):
    """In few dimensions many labels always match well: chance does as much, and none is claimed."""
    f = rng.normal(size=(200, M))
    pair = only(*(SoftmaxModel(f, rng.normal(size=(K, M))) for _ in range(2)))
    assert pair.finding == DIFFERENT
    assert pair.up_to is None
    g = rng.normal(size=(K, M))
    assert only(SoftmaxModel(f, g), SoftmaxModel(f, g[rng.permutation(K)])).finding == ORDER


def test_opposite_logits_are_no_temperature(rng):
    (f, g, _), _ = parts(rng, bias=False)
    pair = only(SoftmaxModel(f, g), SoftmaxModel(f, -g))
    assert pair.up_to is None
    assert up_to(Pair(SoftmaxModel(f, g), SoftmaxModel(f, -g)), 0.1).temperature == 0


def test_many_labels_are_left_in_their_order(rng):
    """Another order is searched for among 2,000 labels at most."""
    f, g = rng.normal(size=(20, 3)), rng.normal(size=(2001, 3))
    assert up_to(Pair(SoftmaxModel(f, g), SoftmaxModel(f, g[::-1])), 0.1).order is None


@settings(max_examples=20)
@given(st.integers(0, 10**6), st.booleans())
def test_the_best_order_and_factor_by_brute_force(seed, bias):
    """‖Z_b − c Z_a‖ over all 120 orders of five labels, c by least squares."""
    rng = np.random.default_rng(seed)
    (f, g, add), (f2, g2, _) = parts(rng, K=5, bias=bias)
    order = np.roll(np.arange(5), rng.integers(1, 5))
    bent = f2 * (1 + 0.02 * rng.normal(size=f2.shape))
    b = SoftmaxModel(bent, 1.5 * g2[order], None if add is None else 1.5 * add[order])
    a = SoftmaxModel(f, g, add)
    za, zb = (m.logits() - m.logits().mean(axis=1, keepdims=True) for m in (a, b))
    best = {}
    for each in permutations(range(5)):
        z = zb[:, each]
        factor = max((z * za).sum() / np.square(za).sum(), 0)
        best[np.linalg.norm(z - factor * za) / np.linalg.norm(z)] = (each, factor)
    found = up_to(Pair(a, b), 0.0, seed)
    expected, factor = best[min(best)]
    assert tuple(found.order) == expected
    close(found.temperature, factor, 1e-9)
    close(found.logit_gap, min(best), 1e-7)


def test_reports_say_it(rng):
    for make, words in ((relabelled, "an order of the labels"), (warmer, "a temperature of 0.5")):
        assert f"The same up to {words}" in only(*make(rng)).sentence
