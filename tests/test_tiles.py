"""Tiles: every pair of views once, each pass within its memory, the same audit as in one pass."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import identikit as ik
from conftest import close
from identikit.errors import InputError
from identikit.moments import default_memory, scatter_bytes, tiles

FOLDS = 5


@given(
    st.lists(st.integers(1, 40), min_size=2, max_size=9),
    st.integers(1, 10),
    st.floats(0.0, 1.2),
)
def test_every_pair_is_seen_once_within_the_budget(widths, folds, share):
    every = list(combinations(range(len(widths)), 2))
    least = max(scatter_bytes([widths[a], widths[b]], folds) for a, b in every)
    most = scatter_bytes(widths, folds)
    budget = int(least + share * (most - least))
    plan = tiles(widths, folds, budget)
    assert Counter(pair for tile in plan for pair in tile.pairs) == Counter(every)
    for tile in plan:
        assert scatter_bytes([widths[v] for v in tile.views], folds) <= budget
        assert {v for pair in tile.pairs for v in pair} <= set(tile.views)
    assert (len(plan) == 1) == (budget >= most or len(every) == 1)


def test_a_budget_for_all_makes_one_pass_and_half_of_it_few():
    widths = [10] * 8
    assert len(tiles(widths, FOLDS)) == 1
    half = scatter_bytes([10] * 4, FOLDS)
    # Chunks of two views, every two chunks in a pass: 6 passes instead of 28.
    assert len(tiles(widths, FOLDS, half)) == 6


def test_no_pass_reads_views_without_a_pair():
    for budget in np.linspace(scatter_bytes([7, 7], FOLDS), scatter_bytes([7] * 6, FOLDS), 20):
        assert all(tile.pairs for tile in tiles([7] * 6, FOLDS, int(budget)))


def test_a_budget_too_small_for_a_pair_raises():
    with pytest.raises(InputError, match="the statistics of 2 views with 40 columns in 5 folds"):
        tiles([5, 20, 20], FOLDS, scatter_bytes([20, 19], FOLDS))


def test_the_default_budget_is_a_share_of_the_machine():
    assert 2**24 < default_memory() < 2**50


# The audit in several passes.


def views(rng):
    base = rng.normal(size=(400, 4))
    return [
        base,
        base[:, ::-1] * 2 + 1,
        np.tanh(base @ rng.normal(size=(4, 5))),
        rng.normal(size=(400, 3)) + 10,
        base @ rng.normal(size=(4, 4)) + 0.1 * rng.normal(size=(400, 4)),
    ]


def assert_same(a, b, where="audit"):
    """Two documents are the same, numbers to 1e-9."""
    assert type(a) is type(b), f"{where}: {a!r} and {b!r}"
    if isinstance(a, dict):
        assert a.keys() == b.keys(), where
        for key in a:
            assert_same(a[key], b[key], f"{where}.{key}")
    elif isinstance(a, list):
        assert len(a) == len(b), where
        for k, pair in enumerate(zip(a, b)):
            assert_same(*pair, f"{where}[{k}]")
    elif isinstance(a, float):
        close(a, b, 1e-9, max(1.0, abs(b)))
    else:
        assert a == b, f"{where}: {a!r} and {b!r}"


def test_the_comparison_of_audits_raises_on_a_planted_fault(rng):
    data = views(rng)[:2]
    whole, other = ik.audit(data).to_dict(), ik.audit(data).to_dict()
    assert_same(whole, other)
    other["pairs"][0]["ladder"][0]["error"] = whole["pairs"][0]["ladder"][0]["error"] + 1e-6
    with pytest.raises(AssertionError):
        assert_same(whole, other)


SMALL = [scatter_bytes([5, 4], FOLDS), scatter_bytes([4, 4, 5], FOLDS)]


@pytest.mark.parametrize("memory", SMALL)
def test_an_audit_in_several_passes_is_the_audit_in_one(rng, memory):
    data = views(rng)
    assert len(tiles([view.shape[1] for view in data], FOLDS, memory)) > 1
    assert_same(ik.audit(data).to_dict(), ik.audit(data, memory=memory).to_dict())


@pytest.mark.parametrize("memory", SMALL)
def test_rows_dropped_in_one_view_are_dropped_in_every_pass(rng, memory):
    data = views(rng)
    for row, (view, column, value) in {
        3: (0, 1, np.nan),
        100: (2, 0, np.inf),
        101: (3, 2, -np.inf),
        399: (4, 3, np.nan),
    }.items():
        data[view][row, column] = value
    data[1][100, 0] = np.nan
    whole = ik.audit(data, drop_nonfinite=True).to_dict()
    assert whole["rows"] == 396
    assert_same(whole, ik.audit(data, drop_nonfinite=True, memory=memory).to_dict())
    groups = np.arange(400) // 10
    assert_same(
        ik.audit(data, groups=groups, drop_nonfinite=True).to_dict(),
        ik.audit(data, groups=groups, drop_nonfinite=True, memory=memory).to_dict(),
    )


@pytest.mark.parametrize("memory", [None, *SMALL])
def test_nonfinite_rows_raise_in_any_number_of_passes(rng, memory):
    data = views(rng)
    data[4][7, 0] = np.nan
    with pytest.raises(InputError, match=r"view 'view4' has NaN or infinity in 1 of 400 rows"):
        ik.audit(data, memory=memory)


def test_an_ill_conditioned_view_is_the_same_in_several_passes(rng):
    data = views(rng)
    turn = np.linalg.qr(rng.normal(size=(4, 4)))[0]
    data[1] = data[1] * np.logspace(0, -6, 4) @ turn
    whole, tiled = ik.audit(data), ik.audit(data, memory=SMALL[0])
    assert whole.verdict.group == tiled.verdict.group
    close(tiled.verdict.error, whole.verdict.error, 1e-8)
    for a, b in zip(whole.pairs["cca_mean"], tiled.pairs["cca_mean"]):
        close(b, a, 1e-8)


def test_an_audit_with_too_small_a_budget_raises(rng):
    with pytest.raises(InputError, match="larger memory budget"):
        ik.audit(views(rng), memory=scatter_bytes([4, 4], FOLDS))


@pytest.mark.parametrize("memory", [None, SMALL[0]])
def test_an_audit_without_a_finite_row_raises(rng, memory):
    data = views(rng)
    data[0][::2], data[3][1::2] = np.nan, np.inf
    with pytest.raises(InputError, match="rows"):
        ik.audit(data, drop_nonfinite=True, memory=memory)
