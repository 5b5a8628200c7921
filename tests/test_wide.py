"""Wide views: leading subspaces, projected rows, the choice of a way, and the memory it takes."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from io import StringIO
from itertools import combinations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.lib.format import open_memmap

import identikit as ik
from conftest import close
from identikit.alignment import RUNGS, axis_free
from identikit.auditing._plan import plan, reduce_views
from identikit.auditing.result import View
from identikit.errors import InputError
from identikit.moments import Folds, assign_folds, leading, reduction_bytes
from identikit.moments._pca import exact_bytes
from identikit.moments._randomised_pca import oversampled, randomised, sketch_bytes
from identikit.moments.memory import audit_bytes, block_rows
from identikit.report import html, print_result
from identikit.report.words.audit import reductions
from identikit.similarity import MEASURES
from identikit.sources import open_source, open_sources
from identikit.sources.projected import Projected

AXIS_FREE = axis_free()

pytestmark = pytest.mark.long

FOLDS = 5


def turn(rng, d):
    return np.linalg.qr(rng.normal(size=(d, d)))[0]


def sloping(rng, n=900, d=150, low=-1.5, mean=3.0):
    """Rows whose standard deviations fall evenly to 10**low, in directions that are no axes."""
    return rng.normal(size=(n, d)) * np.logspace(0, low, d) @ turn(rng, d) + mean


def find(array, k, memory=None, **settings):
    folds = settings.pop("folds", None) or assign_folds(len(array), FOLDS)
    return leading(open_source(array), folds, k, memory, **settings)


def both_routes(d, k):
    """Budgets that take the exact route and the randomised one."""
    assert sketch_bytes(d, k) < exact_bytes(d, k)
    return exact_bytes(d, k), sketch_bytes(d, k)


def centred_svd(array):
    rows = np.asarray(array, np.float64)
    return np.linalg.svd(rows - rows.mean(axis=0), full_matrices=False)


def lost_share(array, basis):
    rows = np.asarray(array, np.float64)
    rows = rows - rows.mean(axis=0)
    return 1 - np.sum((rows @ basis) ** 2) / np.sum(rows**2)


# The leading subspace.


def test_the_exact_route_finds_the_subspace_of_an_svd(rng):
    X = sloping(rng)
    found = find(X, 20)
    _, values, right = centred_svd(X)
    assert found.exact
    assert found.bound == 1.0
    close(np.linalg.svd(found.basis.T @ right[:20].T, compute_uv=False), np.ones(20), 1e-12)
    # Direction by direction, in order, but for the sign.
    close(np.abs(np.diagonal(found.basis.T @ right[:20].T)), np.ones(20), 1e-9)
    close(found.lost, np.sum(values[20:] ** 2) / np.sum(values**2), 1e-12)
    close(found.mean, X.mean(axis=0), 1e-12)
    close(found.variance, np.sum(values**2) / len(X), 1e-9)


@pytest.mark.parametrize("route", [0, 1])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, ">f4", np.int64])
def test_what_is_lost_is_what_is_missing(rng, route, dtype):
    X = (100 * sloping(rng, d=80)).astype(dtype)
    found = find(X, 15, both_routes(80, 15)[route])
    assert found.exact == (route == 0)
    assert found.basis.shape == (80, 15)
    close(found.basis.T @ found.basis, np.eye(15), 1e-13)
    close(found.lost, lost_share(X, found.basis), 1e-10)


@pytest.mark.parametrize("low", [0.0, -0.5, -2.0])
def test_the_randomised_route_keeps_its_bound(rng, low):
    X = sloping(rng, low=low)
    for k in (1, 10, 60):
        found = find(X, k, both_routes(150, k)[1])
        values = centred_svd(X)[1] ** 2
        best = values[k:].sum() / values.sum()
        assert not found.exact
        assert found.bound > 1
        assert best <= found.lost <= found.bound * best
        # One power iteration does much better than the bound without any.
        assert found.lost <= 1.35 * best


@given(st.integers(1, 20000), st.data())
def test_a_sketch_is_never_wider_than_the_view(d, data):
    k = data.draw(st.integers(1, d))
    if sketch_bytes(d, k) < exact_bytes(d, k):
        assert k < oversampled(k) < d


@pytest.mark.parametrize("route", [0, 1])
def test_rotated_views_get_rotated_subspaces_whatever_the_spectrum(rng, route):
    X = rng.normal(size=(500, 100))
    R, budget = turn(rng, 100), both_routes(100, 12)[route]
    a, b = find(X, 12, budget), find(X @ R + 5, 12, budget)
    close(np.linalg.svd(a.basis.T @ R @ b.basis, compute_uv=False), np.ones(12), 1e-9)


@pytest.mark.parametrize("route", [0, 1])
def test_a_low_rank_is_found_whole_and_nothing_is_added(rng, route):
    X = rng.normal(size=(300, 7)) @ rng.normal(size=(7, 90)) + rng.normal(size=90)
    found = find(X, 20, both_routes(90, 20)[route])
    assert found.basis.shape == (90, 7)
    assert found.lost < 1e-12
    few = find(rng.normal(size=(12, 90)), 20, both_routes(90, 20)[route])
    assert few.basis.shape == (90, 11)  # one less than the rows, for the mean
    assert few.lost < 1e-12


@pytest.mark.parametrize("route", [0, 1])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_rounding_is_no_direction(rng, route, dtype):
    X = (rng.normal(size=(600, 5)) @ rng.normal(size=(5, 90)) + 2).astype(dtype)
    assert find(X, 20, both_routes(90, 20)[route]).basis.shape == (90, 5)


@pytest.mark.parametrize("route", [0, 1])
def test_one_large_direction_does_not_hide_the_others(rng, route):
    """Half precision tells directions apart that are far below the root of its spacing."""
    X = rng.normal(size=(800, 90))
    X[:, :] += 30 * rng.normal(size=(800, 1))
    found = find(X.astype(np.float16), 20, both_routes(90, 20)[route])
    assert found.basis.shape == (90, 20)


@pytest.mark.parametrize("route", [0, 1])
def test_the_seed_and_the_blocks_do_not_matter_to_the_result(rng, route):
    X = sloping(rng, d=60, low=-0.3)
    budget = both_routes(60, 8)[route]
    found = find(X, 8, budget, seed=3)
    assert np.array_equal(found.basis, find(X, 8, budget, seed=3).basis)
    blocks = {block_rows(60, room) for room in (0, 60 * 8 * 5 * 300)}
    assert len(blocks) == 2
    if route == 1:
        other = leading_in_blocks(X, 8, 60 * 8 * 5 * 300)
        close(np.abs(other.basis.T @ find(X, 8, budget).basis), np.eye(8), 1e-10)
        assert not np.allclose(found.lost, find(X, 8, budget, seed=4).lost, rtol=1e-9)


def leading_in_blocks(array, k, room):
    source = open_source(array)
    return randomised(source, Folds(source.rows, 1), k, 0, room)


@pytest.mark.parametrize("route", [0, 1])
def test_rows_that_are_in_no_fold_do_not_count(rng, route):
    X = sloping(rng, d=60)
    keep = rng.random(len(X)) < 0.7
    keep[:300] = False  # whole blocks
    budget = both_routes(60, 8)[route]
    bad = X.copy()
    bad[~keep] = np.nan
    found = find(bad, 8, budget, folds=assign_folds(len(X), FOLDS).only(keep))
    close(found.mean, X[keep].mean(axis=0), 1e-12)
    close(found.lost, lost_share(X[keep], found.basis), 1e-10)
    if route == 0:
        close(np.abs(np.diagonal(found.basis.T @ find(X[keep], 8).basis)), np.ones(8), 1e-9)


class Halves:
    """An engine in this process: items and results are pickled, and merged in twos."""

    workers = 2

    def reduce(self, task, views, items, done):
        assert len(items) > 1
        results = []
        for number, item in enumerate(items):
            results.append(
                pickle.loads(pickle.dumps(task(views, pickle.loads(pickle.dumps(item)))))
            )
            done(number)
        while len(results) > 1:
            results = [
                results[i] + results[i + 1] if i + 1 < len(results) else results[i]
                for i in range(0, len(results), 2)
            ]
        return results[0]


@pytest.mark.parametrize("route", [0, 1])
def test_an_engine_finds_the_same(rng, route):
    X = sloping(rng, n=5000, d=40)
    budget, told = both_routes(40, 6)[route], []
    alone = find(X, 6, budget)
    shared = find(X, 6, budget, engine=Halves(), progress=lambda *news: told.append(news))
    close(np.abs(np.diagonal(shared.basis.T @ alone.basis)), np.ones(6), 1e-10)
    close(shared.lost, alone.lost, 1e-10)
    assert told[-1][1] == told[-1][2] == len(X) * (1 if route == 0 else 3)
    bad = X.copy()
    bad[3000, 3] = np.inf
    with pytest.raises(InputError, match="the first is row 3000"):
        find(bad, 6, budget, engine=Halves())


def test_progress_reaches_the_end_over_all_passes(rng):
    told = []
    find(rng.normal(size=(700, 50)), 5, both_routes(50, 5)[1], progress=lambda *n: told.append(n))
    assert [done for _, done, _ in told] == sorted(done for _, done, _ in told)
    assert told[-1] == ("reading", 2100, 2100)


@pytest.mark.parametrize("k", [0, 31])
def test_a_number_of_directions_that_there_is_not_raises(rng, k):
    with pytest.raises(
        InputError, match=rf"cannot find {k} leading directions of a view of 30 columns"
    ):
        find(rng.normal(size=(50, 30)), k)


def test_a_budget_for_neither_route_raises(rng):
    with pytest.raises(InputError, match="5 leading directions of view 'view0' with 50 columns"):
        find(rng.normal(size=(80, 50)), 5, reduction_bytes(50, 5) - 1)


@pytest.mark.parametrize("route", [0, 1])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_row_that_is_not_finite_is_named(rng, route, value):
    X = sloping(rng, d=50)
    X[[0, 700], 3] = value
    with pytest.raises(InputError, match=r"'view0' has NaN or infinity in 2 of 900 rows.* row 0"):
        find(X, 5, both_routes(50, 5)[route])


@pytest.mark.parametrize("route", [0, 1])
def test_squares_that_overflow_raise(rng, route):
    X = rng.normal(size=(300, 50))
    X[200] *= 1e200
    with pytest.raises(InputError, match=r"squares overflow; rescale the views \(view0\)"):
        find(X, 5, both_routes(50, 5)[route])


# The mean.


def test_the_mean_gets_a_direction_of_its_own_where_it_lies_outside(rng):
    X = rng.normal(size=(300, 4)) @ rng.normal(size=(4, 40))
    inside, outside = X + X[0], X + 0.3 * rng.normal(size=40)
    assert find(inside, 10).with_mean().shape == (40, 4)
    found = find(outside, 10)
    frame = found.with_mean()
    assert frame.shape == (40, 5)
    close(frame.T @ frame, np.eye(5), 1e-13)
    # Nothing of the rows is outside now, not even their mean.
    close(outside @ frame @ frame.T, outside, 1e-12)


# Projected rows.


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, ">f8", np.int8, bool])
def test_projected_rows_are_the_product(rng, dtype):
    X = (rng.normal(size=(150, 30)) * 3).astype(dtype)
    basis = turn(rng, 30)[:, :7]
    recipe = Projected(X, X.mean(axis=0, dtype=np.float64), basis)
    source = open_source(recipe, "a")
    assert (source.name, source.rows, source.width) == ("a", 150, 7)
    assert source.eps == open_source(X).eps
    assert source.origin is recipe
    block = source.read(3, 140)
    assert block.dtype == np.float64
    assert not block.flags.writeable
    close(block, X[3:140].astype(np.float64) @ basis, 1e-13)
    assert source.read(150, 150).shape == (0, 7)


def test_a_large_mean_costs_no_digits(rng):
    X = rng.normal(size=(200, 20)) + 1e9
    centre = X.mean(axis=0)
    basis = np.linalg.qr(np.column_stack([centre, rng.normal(size=(20, 3))]))[0][:, 1:]
    block = open_source(Projected(X, centre, basis)).read(0, 200)
    offset = block - (X - centre) @ basis
    close(offset - offset[0], np.zeros((200, 3)), 1e-13)
    assert np.ptp(X @ basis - (X - centre) @ basis) > 1e-8  # as it would be without the centre


def test_rows_that_are_not_finite_stay_so_and_touch_no_others(rng):
    X = rng.normal(size=(100, 20))
    X[5, 3], X[70, 0] = np.nan, -np.inf
    block = open_source(Projected(X, np.zeros(20), turn(rng, 20)[:, :4])).read(0, 100)
    assert np.flatnonzero(~np.isfinite(block).any(axis=1)).tolist() == [5, 70]
    assert np.flatnonzero(~np.isfinite(block).all(axis=1)).tolist() == [5, 70]


def test_a_recipe_travels_and_knows_its_file(rng, tmp_path):
    X = rng.normal(size=(50, 20)).astype(np.float32)
    np.save(tmp_path / "x.npy", X)
    recipe = Projected(str(tmp_path / "x.npy"), np.zeros(20), turn(rng, 20)[:, :4])
    source = pickle.loads(pickle.dumps(recipe)).open_source("b")
    assert source.files == (tmp_path / "x.npy",)
    assert source.eps == 2.0**-23
    close(source.read(0, 50), X.astype(np.float64) @ recipe.basis, 1e-6)
    source.close()
    with pytest.raises(ValueError, match="closed"):
        source.read(0, 1)


# The choice.


def held(chosen, widths):
    """Bytes of the bases."""
    return sum(8 * widths[v] * chosen.widths[v] for v in chosen.reduced)


@given(
    st.lists(st.integers(1, 16384), min_size=2, max_size=5),
    st.integers(5, 12),
    st.integers(10, 10**7),
    st.floats(-5.0, 0.3),
)
@example([16384, 16384], 5, 10**6, -2.0)
@example([16384, 64], 5, 10**6, -2.0)
@example([900, 300, 300], 5, 200, -1.0)
def test_the_choice_stays_within_the_budget(widths, folds, rows, power):
    budget = int(audit_bytes(widths, folds, rows) * 10**power)
    try:
        chosen = plan(widths, folds, rows, budget)
    except InputError as error:
        assert "larger memory budget" in str(error)  # noqa: PT017
        few = [min(width, 2) for width in widths]
        bases = sum(8 * 2 * width for width in widths if width > 2)
        reducing = [reduction_bytes(width, 1) for width in widths if width > 2]
        projecting = 8 * 192 * max(widths)
        least = max([audit_bytes(sorted(few)[-2:], folds, rows), *reducing])
        assert least + bases + projecting > budget
        return
    assert sorted(pair for tile in chosen.tiles for pair in tile.pairs) == list(
        combinations(range(len(widths)), 2)
    )
    # Within the budget: every pass beside all bases, and every reduction beside all bases.
    bases = held(chosen, widths)
    for tile in chosen.tiles:
        needed = audit_bytes([chosen.widths[v] for v in tile.views], folds, rows)
        assert needed + bases <= budget
    for v, width in enumerate(widths):
        assert chosen.widths[v] <= width
        assert (v in chosen.reduced) == (chosen.widths[v] < width)
        if v in chosen.reduced:
            assert reduction_bytes(width, chosen.widths[v] - 1) + bases <= budget
    assert 128 <= chosen.block_rows <= 16384
    # Reduced only if a pair does not fit, and then all views to one width, or less if rows are few.
    pairs = max(audit_bytes([a, b], folds, rows) for a, b in combinations(widths, 2))
    assert bool(chosen.reduced) == (pairs > budget)
    if chosen.reduced:
        (limit,) = {chosen.widths[v] for v in chosen.reduced}
        assert all(
            widths[v] <= limit or limit == rows
            for v in range(len(widths))
            if v not in chosen.reduced
        )
        assert chosen.choice == f"reduced to {limit - 1} dimensions"


def test_the_limit_is_the_largest_that_fits():
    widths, rows = [3000, 2000], 10**5
    for budget in (10**8, 3 * 10**8, 10**9):
        limit = plan(widths, FOLDS, rows, budget).widths[0]
        assert 2 < limit < 2000
        more = [limit + 1] * 2
        bases = 8 * sum(widths) * (limit + 1)
        reducing = max(reduction_bytes(width, limit) for width in widths)
        projecting = 8 * 192 * 3000
        needed = max(audit_bytes(more, FOLDS, rows), reducing) + bases + projecting
        assert needed > budget


def test_the_choice_changes_where_the_bytes_do():
    widths, rows = [60, 50, 40], 1000
    everything = audit_bytes(widths, FOLDS, rows)
    pair = audit_bytes([60, 50], FOLDS, rows)
    assert plan(widths, FOLDS, rows).choice == "one pass"
    assert plan(widths, FOLDS, rows, everything).choice == "one pass"
    assert plan(widths, FOLDS, rows, everything - 1).choice == "3 passes over pairs"
    assert plan(widths, FOLDS, rows, pair).choice == "3 passes over pairs"
    assert plan(widths, FOLDS, rows, pair - 1).choice.startswith("reduced to ")


def test_only_the_views_that_are_too_wide_are_reduced():
    budget = audit_bytes([1000, 1000], FOLDS, 5000)
    chosen = plan([64, 16384, 500], FOLDS, 5000, budget)
    assert chosen.reduced == (1,)
    assert chosen.widths[0] == 64
    assert chosen.widths[2] == 500
    assert 100 < chosen.widths[1] < 1100


def test_few_rows_need_few_directions():
    chosen = plan([16384, 16384, 300], FOLDS, 200, 10**9)
    assert chosen.widths == (200, 200, 300)
    assert chosen.reduced == (0, 1)


def test_little_room_means_small_blocks_and_care():
    widths, rows = [60, 50], 10**6
    need = audit_bytes(widths, FOLDS, rows)
    tight, wide = plan(widths, FOLDS, rows, need), plan(widths, FOLDS, rows, 10**11)
    assert tight.careful
    assert not wide.careful
    assert tight.block_rows == 128
    assert wide.block_rows == block_rows(110)


def test_a_budget_for_two_columns_at_least():
    with pytest.raises(InputError, match=r"every view reduced to 2 columns.*larger memory budget"):
        plan([400, 400], FOLDS, 10**5, 10**6)


@pytest.mark.parametrize(
    ("budget", "words"),
    [
        (10**12, "All views were read in one pass."),
        (30 * 10**6, r"The views were read in 6 passes over pairs, as all of them at once would "
         r"take 4\d\.\d MB of memory, and 30\.0 MB may be used\."),
        (8 * 10**6, r"Of 4 views, 4 were reduced to \d+ dimensions or less, as all .*; then they "
         r"were read in 6 passes over pairs\."),
    ],
)  # fmt: skip
def test_the_choice_is_said_in_a_sentence(budget, words):
    import re

    says = plan([120] * 4, FOLDS, 400, budget).says
    assert re.fullmatch(words, says), says


# The audit of reduced views.


def by_svd(array, k):
    """Rows in the k leading directions and that of the mean outside of them, by NumPy alone."""
    rows = np.asarray(array, np.float64)
    right = centred_svd(rows)[2][:k]
    mean = rows.mean(axis=0)
    outside = mean - right.T @ (right @ mean)
    return rows @ np.column_stack([right.T, outside / np.linalg.norm(outside)])


def budget_for(k, n, d, views=2):
    """The smallest budget that leaves k directions."""
    low, high = 0, 10**12
    while low < high:
        middle = (low + high) // 2
        try:
            enough = min(plan([d] * views, FOLDS, n, middle).widths) >= k + 1
        except InputError:
            enough = False
        low, high = (low, middle) if enough else (middle + 1, high)
    assert plan([d] * views, FOLDS, n, low).choice == f"reduced to {k} dimensions"
    return low


def assert_pairs_agree(reduced, reference, tol):
    """The rungs and measures that need no axes agree; the others are absent."""
    a, b = reduced.comparisons[0], reference.comparisons[0]
    assert [rung.group for rung in a.ladder] == list(AXIS_FREE)
    errors = {rung.group: rung for rung in b.ladder}
    for rung in a.ladder:
        other = errors[rung.group]
        close(rung.error, other.error, tol)
        close(rung.interval, other.interval, 10 * tol)
        close(rung.forward, other.forward, tol)
        close(rung.backward, other.backward, tol)
    close(a.correlations, b.correlations, tol)
    close([a.cca.mean, a.cca.held_out], [b.cca.mean, b.cca.held_out], tol)
    close([a.cka.value, a.cka.debiased], [b.cka.value, b.cka.debiased], tol)
    for name, measure in MEASURES.items():
        if measure.invariant_to in AXIS_FREE:
            close(a.measures[name].value, b.measures[name].value, tol)
            close(a.measures[name].chance, b.measures[name].chance, 1e-3 + 10 * tol)
        else:
            assert a.measures[name] is None, name
    assert a.measures["mcc"] is None
    assert a.measures["spearman_mcc"] is None
    names = {check.name for check in a.checks}
    assert not names & {"dominant column", "rank", "widths"}
    assert names >= {"asymmetry", "chance", "outlier rows"}


def test_reduced_views_give_what_their_projections_by_svd_give(rng):
    X = sloping(rng, n=500, d=90)
    Y = np.tanh(X @ rng.normal(size=(90, 90)) / 15) + 0.3 * rng.normal(size=(500, 90)) + 1
    budget = budget_for(12, 500, 90)
    reduced = ik.audit([X, Y], memory=budget)
    assert reduced.settings.reading == plan([90, 90], FOLDS, 500, budget).says
    assert [view.reduced_to for view in reduced.views] == [12, 12]
    assert [view.dims for view in reduced.views] == [90, 90]
    assert_pairs_agree(reduced, ik.audit([by_svd(X, 12), by_svd(Y, 12)]), 1e-8)
    for view, array in zip(reduced.views, (X, Y)):
        values = centred_svd(array)[1] ** 2
        close(view.lost, values[12:].sum() / values.sum(), 1e-10)
    document = reduced.to_dict()["views"]
    assert document[0]["reduced_to"] == 12
    assert document[0]["lost"] == reduced.views[0].lost
    whole = ik.audit([X[:, :5], Y[:, :5]]).to_dict()["views"][0]
    assert whole["reduced_to"] is None
    assert whole["lost"] is None


def nearly_low_rank(rng, n=600, d=100, rank=12):
    small = 1e-6 * rng.normal(size=(n, d))
    return rng.normal(size=(n, rank)) @ rng.normal(size=(rank, d)) + small


PLANTED = {
    "rigid": lambda rng, X, d: X @ turn(rng, d) + 3,
    "similarity": lambda rng, X, d: 2 * X @ turn(rng, d) + 1,
    "linear": lambda rng, X, d: X @ (np.eye(d) + rng.normal(size=(d, d)) / np.sqrt(d)),
    "affine": lambda rng, X, d: X @ (np.eye(d) + rng.normal(size=(d, d)) / np.sqrt(d)) + 4,
    "unrelated": lambda rng, X, d: nearly_low_rank(rng, len(X), d),
}


@pytest.mark.parametrize("group", PLANTED)
def test_a_planted_map_is_found_after_the_reduction_too(rng, group):
    X = nearly_low_rank(rng)
    X = X - X.mean(axis=0) if group == "affine" else X + 1.0 * (group != "linear")
    Y = PLANTED[group](rng, X, 100)
    whole, reduced = ik.audit([X, Y]), ik.audit([X, Y], memory=budget_for(20, 600, 100))
    assert max(view.lost for view in reduced.views) < 1e-9
    assert reduced.verdict.group == group
    assert whole.verdict.group == group
    # What is left out may cost no more than its share of the variance.
    close(reduced.verdict.error, whole.verdict.error, 1e-3 if group != "unrelated" else 0.02)


@pytest.mark.parametrize("group", ["identity", "permutation"])
def test_axes_are_no_matter_of_reduced_views(rng, group):
    X = sloping(rng, n=600, d=100)
    Y = X if group == "identity" else X[:, rng.permutation(100)]
    assert ik.audit([X, Y]).verdict.group == group
    reduced = ik.audit([X, Y], memory=budget_for(20, 600, 100))
    assert reduced.verdict.group == "rigid"
    assert reduced.verdict.error < 1e-6
    assert {rung.group for rung in reduced.comparisons[0].ladder} == set(AXIS_FREE)
    assert set(AXIS_FREE) < set(RUNGS)


def test_a_wide_view_beside_narrow_ones(rng):
    wide = sloping(rng, n=500, d=200, low=-3)
    narrow = wide[:, :6] + 0.1 * rng.normal(size=(500, 6))
    other = narrow @ turn(rng, 6)
    budget = audit_bytes([90, 90], FOLDS, 500)
    chosen = plan([200, 6, 6], FOLDS, 500, budget)
    assert chosen.reduced == (0,)
    reduced, whole = ik.audit([wide, narrow, other], memory=budget), ik.audit([wide, narrow, other])
    assert [view.reduced_to for view in reduced.views] == [chosen.widths[0] - 1, None, None]
    by_name = {(pair.a, pair.b): pair for pair in reduced.comparisons}
    # The pair of narrow views is compared as ever.
    ladders = [pair.ladder for pair in (by_name["view1", "view2"], whole.comparisons[2])]
    assert [rung.group for rung in ladders[0]] == list(RUNGS)
    close(*([rung.error for rung in rungs] for rungs in ladders), 1e-9)
    matched = (by_name["view1", "view2"].measures["mcc"], whole.comparisons[2].measures["mcc"])
    close(*(scored.value for scored in matched), 1e-9)
    assert by_name["view0", "view1"].measures["mcc"] is None
    assert whole.comparisons[0].measures["mcc"] is not None


@pytest.mark.parametrize("groups", [None, np.arange(500) // 10])
def test_rows_dropped_from_reduced_views(rng, groups):
    X, Y = sloping(rng, n=500, d=90), sloping(rng, n=500, d=90)
    Y[:, :40] += X[:, :40]
    bad = [4, 250, 499]
    X[bad[:2], 3], Y[bad[1:], 7] = np.nan, np.inf
    reduced = ik.audit([X, Y], memory=budget_for(12, 500, 90), drop_nonfinite=True, groups=groups)
    assert reduced.rows == 497
    assert reduced.settings.dropped == 3
    few = []
    for array in (X, Y):
        rows = np.full((500, 13), np.nan)
        kept = np.setdiff1d(np.arange(500), bad)
        rows[kept] = by_svd(array[kept], 12)
        few.append(rows)
    assert_pairs_agree(reduced, ik.audit(few, drop_nonfinite=True, groups=groups), 1e-8)


def test_a_row_that_is_not_finite_is_named_before_any_is_reduced(rng):
    X, Y = sloping(rng, n=500, d=90), sloping(rng, n=500, d=90)
    Y[321, 0] = np.nan
    with pytest.raises(InputError, match=r"view 'b' has NaN or infinity in 1 of 500 .* row 321"):
        ik.audit([X, Y], names=["a", "b"], memory=budget_for(12, 500, 90))


@pytest.mark.parametrize("value", [0.0, 7.0, 1 / 3])
def test_a_wide_constant_view_raises(rng, value):
    X, Y = sloping(rng, n=500, d=90), np.full((500, 90), value, np.float32)
    with pytest.raises(InputError, match="view 'view1' is constant"):
        ik.audit([X, Y], memory=budget_for(12, 500, 90))


def test_stored_precision_outlives_the_reduction(rng):
    X = sloping(rng, n=500, d=90).astype(np.float16)
    chosen = plan([90, 90], FOLDS, 500, budget_for(12, 500, 90))
    sources = open_sources([X, X], ["a", "b"])
    views, what = reduce_views(sources, chosen, assign_folds(500, FOLDS))
    assert [view.eps for view in views] == [2.0**-10] * 2
    assert [view.name for view in views] == ["a", "b"]
    assert {v: record.dims for v, record in what.items()} == {0: 12, 1: 12}
    assert views[0].width == 13


def test_every_view_is_reduced_in_its_turn(rng):
    X = sloping(rng, n=500, d=90)
    told = []
    chosen = plan([90, 90], FOLDS, 500, budget_for(12, 500, 90))
    reduce_views(
        open_sources([X, X]), chosen, assign_folds(500, FOLDS), progress=lambda *n: told.append(n)
    )
    assert {news[0] for news in told} == {"reducing"}
    assert told[-1][1] == told[-1][2]


# Words.


def test_a_sentence_for_each_reduced_view():
    views = [View("a", 16384, 500, 99.0, 1810, 0.0321), View("b", 64, 64, 20.0)]
    (text,) = reductions(views, repr)
    assert text == (
        "View 'a' is too wide for the memory: of its 16,384 columns 1,810 leading directions were "
        "compared, which leave out 3.21% of its variance and have no axes to pair."
    )


def test_terminal_and_page_say_it_once_a_view(rng):
    from rich.console import Console

    X, Y = sloping(rng, n=300, d=60), sloping(rng, n=300, d=60)
    result = ik.audit([X, Y], names=["a<b", "c"], memory=budget_for(5, 300, 60))
    console = Console(file=StringIO(), width=400)
    print_result(result, console)
    assert console.file.getvalue().count("is too wide for the memory: of its 60 columns 5 ") == 2
    page = html(result)
    assert page.count("is too wide for the memory") == 2
    assert "a&lt;b" in page
    whole = html(ik.audit([X[:, :5], Y[:, :5]]))
    assert "too wide" not in whole


# Memory.

PEAK = """
import sys
import numpy as np
import identikit as ik

def peak():
    with open("/proc/self/status") as status:
        return next(1024 * int(line.split()[1]) for line in status if line.startswith("VmHWM"))

rows = np.random.default_rng(0).normal(size=(300, 20))
ik.audit([rows, rows])
before = peak()
result = ik.audit(sys.argv[2:], memory=int(sys.argv[1]))
print(peak() - before, result.views[0].reduced_to)
"""


def peak_of_audit(folder, n, d, budget, views=2):
    """Bytes that an audit adds to a process, and to how many directions it reduced a view."""
    paths = [folder / f"{view}.npy" for view in range(views)]
    for path in paths:
        rng = np.random.default_rng(1)
        array = open_memmap(path, "w+", np.float32, (n, d))
        for start in range(0, n, 250):
            array[start : start + 250] = rng.standard_normal((min(250, n - start), d), np.float32)
        array.flush()
    run = subprocess.run(
        [sys.executable, "-c", PEAK, str(budget), *map(str, paths)],
        env=os.environ,
        capture_output=True,
        text=True,
        check=True,
    )
    used, directions = run.stdout.split()
    return int(used), directions


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak memory from /proc")
@pytest.mark.parametrize(
    ("n", "d", "budget", "choice"),
    [
        (2500, 3000, 80 * 10**6, "reduced to "),
        (2500, 400, 190 * 10**6, "one pass"),
    ],
)
def test_the_peak_is_below_the_budget(tmp_path, n, d, budget, choice):
    assert plan([d, d], FOLDS, n, budget).choice.startswith(choice)
    used, directions = peak_of_audit(tmp_path, n, d, budget)
    assert used < budget
    assert used > budget / 3  # it is not for nothing that there is a budget
    assert (directions != "None") == (choice == "reduced to ")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak memory from /proc")
@pytest.mark.parametrize(
    ("n", "d", "budget", "views"),
    [
        (3000, 16384, 6 * 10**8, 2),
        (2500, 3000, 4 * 10**8, 2),
        (4000, 1000, 10**8, 4),
    ],
)
def test_the_peak_of_wide_views_is_below_the_budget(tmp_path, n, d, budget, views):
    used, directions = peak_of_audit(tmp_path, n, d, budget, views)
    assert used < budget
    assert int(directions) > 100
