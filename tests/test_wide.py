"""Wide views: the choice of a way, the audit of reduced views, and the memory it takes."""

from __future__ import annotations

import os
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
from identikit.moments import assign_folds, reduction_bytes
from identikit.moments.memory import audit_bytes, block_rows
from identikit.report import html, print_result
from identikit.report.words.audit import reductions
from identikit.similarity import MEASURES
from identikit.sources import open_sources

AXIS_FREE = axis_free()

pytestmark = pytest.mark.long

FOLDS = 5


def turn(rng, d):
    return np.linalg.qr(rng.normal(size=(d, d)))[0]


def sloping(rng, n=900, d=150, low=-1.5, mean=3.0):
    """Rows whose standard deviations fall evenly to 10**low, in directions that are no axes."""
    return rng.normal(size=(n, d)) * np.logspace(0, low, d) @ turn(rng, d) + mean


def centred_svd(array):
    rows = np.asarray(array, np.float64)
    return np.linalg.svd(rows - rows.mean(axis=0), full_matrices=False)


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


def test_the_choice_is_said_in_a_sentence():
    everything, pair = (audit_bytes([120] * count, FOLDS, 400) for count in (4, 2))

    def says(budget):
        return plan([120] * 4, FOLDS, 400, budget).says

    def why(budget):
        return (
            f"as all of them at once would take {everything / 1e6:,.1f} MB of memory, and "
            f"{budget / 1e6:,.1f} MB may be used"
        )

    assert says(everything) == "All views were read in one pass."
    assert says(pair) == f"The views were read in 6 passes over pairs, {why(pair)}."
    less = plan([120] * 4, FOLDS, 400, pair - 1)
    assert less.says == (
        f"Of 4 views, 4 were {less.choice} or less, {why(pair - 1)}; then they were read in "
        "6 passes over pairs."
    )


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
