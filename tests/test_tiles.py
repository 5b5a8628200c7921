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
from identikit.auditing._plan import plan
from identikit.errors import InputError
from identikit.moments import default_memory, scatter_bytes, tiles
from identikit.moments.memory import audit_bytes

pytestmark = pytest.mark.long

FOLDS, ROWS = 5, 400


@given(
    st.lists(st.integers(1, 40), min_size=2, max_size=9),
    st.integers(1, 10),
    st.integers(1, 10**6),
    st.floats(0.0, 1.2),
)
def test_every_pair_is_seen_once_within_the_budget(widths, folds, rows, share):
    every = list(combinations(range(len(widths)), 2))
    least = max(audit_bytes([widths[a], widths[b]], folds, rows) for a, b in every)
    most = audit_bytes(widths, folds, rows)
    budget = int(least + share * (most - least))
    passes = tiles(widths, folds, budget, rows)
    assert Counter(pair for tile in passes for pair in tile.pairs) == Counter(every)
    for tile in passes:
        assert audit_bytes([widths[v] for v in tile.views], folds, rows) <= budget
        assert {v for pair in tile.pairs for v in pair} <= set(tile.views)
    assert (len(passes) == 1) == (budget >= most or len(every) == 1)


def test_a_budget_for_all_makes_one_pass_and_half_of_it_few():
    widths = [10] * 8
    assert len(tiles(widths, FOLDS)) == 1
    half = audit_bytes([10] * 4, FOLDS, ROWS)
    # Chunks of two views, every two chunks in a pass: 6 passes instead of 28.
    assert len(tiles(widths, FOLDS, half, ROWS)) == 6


def test_no_pass_reads_views_without_a_pair():
    least, most = (audit_bytes([7] * count, FOLDS, ROWS) for count in (2, 6))
    for budget in np.linspace(least, most, 20):
        assert all(tile.pairs for tile in tiles([7] * 6, FOLDS, int(budget), ROWS))


def test_a_budget_too_small_for_a_pair_raises():
    with pytest.raises(InputError, match="the statistics of 2 views with 40 columns in 5 folds"):
        tiles([5, 20, 20], FOLDS, audit_bytes([20, 19], FOLDS, ROWS), ROWS)


def test_the_default_budget_is_a_share_of_the_machine():
    assert 2**24 < default_memory() < 2**50


@given(st.lists(st.integers(1, 5000), min_size=1, max_size=30), st.integers(1, 20))
def test_an_audit_counts_more_than_its_scatter_matrices(widths, folds):
    assert audit_bytes(widths, folds, 10) > scatter_bytes(widths, folds)


# The audit in several passes.


def views(rng):
    base = rng.normal(size=(ROWS, 4))
    return [
        base,
        base[:, ::-1] * 2 + 1,
        np.tanh(base @ rng.normal(size=(4, 5))),
        rng.normal(size=(ROWS, 3)) + 10,
        base @ rng.normal(size=(4, 4)) + 0.1 * rng.normal(size=(ROWS, 4)),
    ]


def document(audit):
    """All that an audit says, but for how the views were read."""
    found = audit.to_dict()
    del found["settings"]["reading"]
    return found


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
    whole, other = document(ik.audit(data)), document(ik.audit(data))
    assert_same(whole, other)
    other["pairs"][0]["ladder"][0]["error"] = whole["pairs"][0]["ladder"][0]["error"] + 1e-6
    with pytest.raises(AssertionError):
        assert_same(whole, other)


SMALL = [audit_bytes([5, 4], FOLDS, ROWS), audit_bytes([4, 4, 5], FOLDS, ROWS)]


@pytest.mark.parametrize("memory", SMALL)
def test_an_audit_in_several_passes_is_the_audit_in_one(rng, memory):
    data = views(rng)
    assert len(tiles([view.shape[1] for view in data], FOLDS, memory, ROWS)) > 1
    whole, tiled = ik.audit(data), ik.audit(data, memory=memory)
    assert_same(document(whole), document(tiled))
    assert whole.settings.reading == "All views were read in one pass."
    assert tiled.settings.reading == plan([4, 4, 5, 3, 4], FOLDS, ROWS, memory).says


@pytest.mark.parametrize("memory", SMALL[:1])
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
    whole = document(ik.audit(data, drop_nonfinite=True))
    assert whole["rows"] == 396
    assert_same(whole, document(ik.audit(data, drop_nonfinite=True, memory=memory)))
    groups = np.arange(400) // 10
    assert_same(
        document(ik.audit(data, groups=groups, drop_nonfinite=True)),
        document(ik.audit(data, groups=groups, drop_nonfinite=True, memory=memory)),
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
    with pytest.raises(InputError, match=r"every view reduced to 2 columns.*larger memory budget"):
        ik.audit(views(rng), memory=audit_bytes([2, 1], FOLDS, ROWS))


@pytest.mark.parametrize("memory", [None, SMALL[0]])
def test_an_audit_without_a_finite_row_raises(rng, memory):
    data = views(rng)
    data[0][::2], data[3][1::2] = np.nan, np.inf
    with pytest.raises(InputError, match="rows"):
        ik.audit(data, drop_nonfinite=True, memory=memory)
