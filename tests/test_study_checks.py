"""Checks of claims: planted cases, invariances, how often their intervals cover, and Holm."""

from __future__ import annotations

from math import inf, nan
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from conftest import close
from identikit.errors import InputError
from identikit.studies import (
    INCONCLUSIVE,
    NOT,
    REPRODUCED,
    UNMEASURED,
    Claim,
    Column,
    Finding,
    above,
    below,
    best,
    by_interval,
    column,
    equal,
    falls,
    higher,
    holds,
    judge,
    mean_interval,
    ordered,
    rises,
    trend,
    within,
    worst,
)

DRAWS = st.lists(st.floats(-1e3, 1e3, width=32), min_size=2, max_size=12)
UP, DOWN, FLAT = [[1, 2, 3.1], [0, 1, 2]], [[3, 2, 1.1], [2, 1, 0]], [[1, 2, 3], [3, 2, 1]]

PLANTED: list[tuple[Any, tuple[Any, ...], str]] = [
    (above, ([1.2, 1.25, 1.3], 1), REPRODUCED),
    (above, ([0.7, 0.75, 0.8], 1), NOT),
    (above, ([0.9, 1.0, 1.2], 1), INCONCLUSIVE),
    (below, ([0.7, 0.8, 0.9], 1.1), REPRODUCED),
    (below, ([1.7, 1.8, 1.9], 1.1), NOT),
    (below, ([0.7, 1.1, 1.4], 1.1), INCONCLUSIVE),
    (within, ([0.5, 0.52, 0.51], 0.4, 0.6), REPRODUCED),
    (within, ([0.7, 0.72, 0.71], 0.4, 0.6), NOT),
    (within, ([0.3, 0.32, 0.31], 0.4, 0.6), NOT),
    (within, ([0.5, 0.58, 0.61], 0.4, 0.6), INCONCLUSIVE),
    (rises, ([1, 10, 100], UP), REPRODUCED),
    (rises, ([1, 10, 100], DOWN), NOT),
    (rises, ([1, 10, 100], FLAT), INCONCLUSIVE),
    (rises, ([1, 10, 100], np.full((3, 3), 0.3)), NOT),
    (falls, ([1, 10, 100], DOWN), REPRODUCED),
    (falls, ([1, 10, 100], UP), NOT),
    (falls, ([1, 10, 100], FLAT), INCONCLUSIVE),
    (falls, ([1, 10, 100], np.full((3, 3), 0.3)), NOT),
    (higher, ([5, 9, 1], [4, 8.1, 0]), REPRODUCED),
    (higher, ([4, 8.1, 0], [5, 9, 1]), NOT),
    (higher, ([5, 9, 1], [9, 1, 5]), INCONCLUSIVE),
    (higher, ([5, 9, 1], [5, 9, 1]), NOT),
    (ordered, ([[5, 9, 1], [4, 8.1, 0], [3, 7, -1.1]],), REPRODUCED),
    (ordered, ([[5, 9, 1], [3, 7, -1.1], [4, 8.1, 0]],), NOT),
    (ordered, ([[5, 9, 1], [4, 8.1, 0], [4.1, 7, 0.1]],), INCONCLUSIVE),
    (equal, ([5, 9, 1], [5.1, 8.9, 1], 0.5), REPRODUCED),
    (equal, ([5, 9, 1], [4, 8.1, 0], 0.5), NOT),
    (equal, ([5, 9, 1], [4, 9.1, 1.3], 0.5), INCONCLUSIVE),
    (holds, ([0.5, 1.0], 1.0), REPRODUCED),
    (holds, ([0.5, 1.1, 0.2], 1.0), NOT),
    (holds, ([0.5, inf, nan], 1.0), NOT),
    (holds, ([0.5, nan], 1.0), INCONCLUSIVE),
]


def test_the_worst_of_several_findings():
    good, better = above([1.2, 1.25, 1.3], 1, "good"), above([5.0, 5.1, 5.2], 1, "better")
    bad, worse = above([0.7, 0.75, 0.8], 1, "bad"), above([-5.0, -5.1, -5.2], 1, "worse")
    open_, empty = above([0.9, 1.0, 1.2], 1, "open"), above([], 1, "empty")
    assert worst([better, good]).comment == "good"
    assert worst([good, open_]).comment == "open"
    assert worst([bad, open_, worse, good]).comment == "worse"
    assert worst([worse, empty]).comment == "worse"
    assert worst([good, open_, empty]).comment == "empty"


@pytest.mark.parametrize(("check", "given", "verdict"), PLANTED)
def test_a_planted_case_is_judged_as_planted(check: Any, given: Any, verdict: str):
    found = check(*given, "why")
    assert (found.verdict, found.comment) == (verdict, "why")


@pytest.mark.parametrize(
    ("check", "given"),
    [
        (above, ([], 1)),
        (below, ([], 1)),
        (within, ([], 0, 1)),
        (rises, ([1, 2], [])),
        (rises, ([1, 2], np.empty((0, 2)))),
        (rises, ([1], [[0.1], [0.2]])),
        (falls, ([], [])),
        (higher, ([], [1, 2])),
        (higher, ([1, 2], [])),
        (ordered, ([[5, 9], [4, 8.1], []],)),
        (equal, ([], [], 0.1)),
        (holds, ([], 1)),
    ],
)
def test_what_was_left_out_is_not_measured(check: Any, given: Any):
    assert check(*given, "why") == Finding(None, None, UNMEASURED, "why")


@pytest.mark.parametrize("bad", [nan, inf])
def test_what_is_not_finite_decides_nothing(bad: float):
    for found in (
        above([1, 2, bad], 0, ""),
        rises([1, 2], [[bad, 2], [1, 2]], ""),
        rises([1, 2], [[1, bad], [1, 2]], ""),
        higher([1, 2, bad], [0, 0, bad], ""),
        ordered([[3, 4, 5], [2, 3, 4.1], [bad, 0, 0]], ""),
        equal([bad, 1], [0, 1], 1, ""),
    ):
        assert found == Finding(None, None, INCONCLUSIVE, "")


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: above([[1, 2]], 0, ""), r"the shape \(1, 2\); expected one value per seed"),
        (lambda: higher([1, 2], [1, 2, 3], ""), "2 seeds cannot be paired with 3"),
        (lambda: rises([1, 2], [1, 2], ""), r"shape \(2,\); expected one row per seed and 2"),
        (lambda: ordered([[1, 2]], ""), "an order needs at least two groups; 1 were given"),
        (lambda: best([1, 2], [1], None, 0), "there are 2 values and 1 losses"),
    ],
)
def test_what_does_not_fit_is_said(call: Any, says: str):
    with pytest.raises(InputError, match=says):
        call()


def test_a_claim_is_of_one_of_three_kinds():
    assert Claim("a", "A.", 1, "Table 1", lambda _: judge([])).kind == "paper"
    with pytest.raises(ValueError, match="the kind is 'ours'; expected one of"):
        Claim("a", "A.", 1, "Table 1", lambda _: judge([]), "ours")


# Against other routes


@given(DRAWS, st.floats(-1e3, 1e3, width=32))
def test_p_is_that_of_the_t_test_and_decides_as_the_interval_does(values: list[float], bar: float):
    assume(np.std(values) > 1e-6)
    found = above(values, bar, "")
    expected = stats.ttest_1samp(values, bar).pvalue
    assert found.p == pytest.approx(expected, rel=1e-6, abs=1e-300)
    assume(abs(expected - 0.05) > 1e-9)
    assert (found.verdict != INCONCLUSIVE) == (expected < 0.05)


def test_p_is_against_the_nearest_bar(rng: np.random.Generator):
    values = rng.normal(0.45, 0.1, size=8)
    close(within(values, 0, 0.5, "").p, stats.ttest_1samp(values, 0.5).pvalue, 1e-12)
    close(within(values, 0.4, 9, "").p, stats.ttest_1samp(values, 0.4).pvalue, 1e-12)
    assert judge(list(values)).p is None
    assert judge([1.0], low=0).p is None
    # Equal values at the bar, or away from it: nothing was left to chance.
    assert (above([1.0, 1.0], 1.0, "").p, above([1.0, 1.0], 2.0, "").p) == (0, 0)


@given(DRAWS, st.floats(-10, 10))
def test_so_many_seeds_would_decide_and_one_fewer_would_not(values: list[float], bar: float):
    found = above(values, bar, "")
    mean, spread = float(np.mean(values)), float(np.std(values, ddof=1))
    if found.verdict != INCONCLUSIVE:
        assert found.seeds is None
        return

    def half(n: int) -> float:
        return float(stats.t.ppf(0.975, n - 1) * spread / n**0.5)

    if found.seeds is None:
        assert half(10_000) >= abs(mean - bar) * (1 - 1e-9)
    else:
        assert found.seeds > len(values)
        assert half(found.seeds) < abs(mean - bar) * (1 + 1e-9)
        assert half(found.seeds - 1) >= abs(mean - bar) * (1 - 1e-9)


def test_no_number_of_seeds_decides_a_mean_on_the_bar():
    assert above([0.0, 2.0], 1.0, "") == Finding(
        1.0, mean_interval([0, 2])[1], INCONCLUSIVE, "", p=1.0
    )
    assert above([1.5], 1.0, "") == Finding(1.5, None, INCONCLUSIVE, "")


def test_seeds_that_would_tell_do_tell(rng: np.random.Generator):
    """Twice as many seeds of the same kind as the estimate asks for decide in most draws."""
    told = []
    for _ in range(60):
        first = rng.normal(0.5, 1, size=5)
        found = above(first, 0, "")
        if found.seeds is not None and found.value > 0.25:
            told.append(above(rng.normal(found.value, 1, size=2 * found.seeds), 0, ""))
    assert len(told) > 10
    assert np.mean([found.verdict == REPRODUCED for found in told]) > 0.6


@given(st.integers(2, 6), st.integers(2, 8), st.integers(0, 10**6))
def test_slopes_are_those_of_least_squares(levels: int, seeds: int, seed: int):
    rng = np.random.default_rng(seed)
    x = rng.permutation(np.geomspace(1, 1e3, levels))
    values = rng.normal(size=(seeds, levels))
    slopes = [stats.linregress(stats.rankdata(x), row).slope for row in values]
    expected = judge(slopes, low=0)
    found = rises(x, values, "")
    close(found.value, expected.value, 1e-12)
    close(found.interval, expected.interval, 1e-11)


def test_equal_x_are_one_place():
    assert rises([1, 1, 2], [[0, 2, 3], [0, 2, 3.1]], "").value == pytest.approx(2.05)


# Invariances


@given(st.integers(2, 5), st.integers(2, 6), st.integers(0, 10**6), st.sampled_from([0, 1]))
def test_what_rises_falls_upside_down(levels: int, seeds: int, seed: int, trend: int):
    rng = np.random.default_rng(seed)
    x, values = np.arange(levels), rng.normal(size=(seeds, levels)) + trend * np.arange(levels)
    up, down = rises(x, values, ""), falls(x, -values, "")
    assert (up.verdict, up.seeds, up.p) == (down.verdict, down.seeds, down.p)
    assert (up.value, up.interval[::-1]) == (-down.value, tuple(-end for end in down.interval))
    back = rises(-x, values[:, ::-1] * 0 - values, "")
    assert back.verdict == up.verdict
    # Only ranks of x matter, and the order of columns and of seeds does not.
    shuffle, order = rng.permutation(levels), rng.permutation(seeds)
    other = rises(np.exp(x)[shuffle], values[order][:, shuffle], "")
    assert other.verdict == up.verdict
    assert other.value == pytest.approx(up.value, abs=1e-12)


@given(DRAWS, st.integers(0, 10**6))
def test_pairs_keep_their_verdict_when_both_are_moved(a: list[float], seed: int):
    rng = np.random.default_rng(seed)
    b, shift = np.array(a) + rng.normal(size=len(a)), rng.normal(size=len(a))
    found, moved = higher(a, b, ""), higher(a + shift, b + shift, "")
    assert found.value == pytest.approx(moved.value, abs=1e-9)
    close(found.interval, moved.interval, 1e-8)
    assert higher(-b, np.negative(a), "") == found
    assert ordered([a, b], "") == found
    assert equal(a, b, 0.5, "").verdict == equal(b, a, 0.5, "").verdict
    assert above(np.subtract(a, b), 1e-300, "").verdict == found.verdict


@given(DRAWS, st.floats(-1e3, 1e3), st.floats(-1e3, 1e3))
def test_below_is_above_upside_down(values: list[float], bar: float, other: float):
    up, down = above(values, bar, ""), below(np.negative(values), -bar, "")
    assert (up.verdict, up.seeds) == (down.verdict, down.seeds)
    low, high = sorted((bar, other))
    both = within(values, low, high, "").verdict
    sides = {above(values, low, "").verdict, below(values, high, "").verdict}
    assert (both == REPRODUCED) == (sides == {REPRODUCED})
    assert (both == NOT) == (NOT in sides)


def test_an_order_stands_as_its_worst_step_does():
    top, low = np.array([5.0, 9.0, 1.0]), np.array([0.0, 4.1, -4.0])
    unsure, failed = top + np.array([0.5, -0.4, -0.3]), top + np.array([0.9, 1, 1.1])
    worse = failed + np.array([3, 3, 3.1])
    assert ordered([top, low, low - [1, 1, 1.3]], "").value == pytest.approx(1.1)
    assert ordered([top, unsure, low], "") == higher(top, unsure, "")
    assert ordered([top, failed, unsure], "").verdict == NOT
    assert ordered([top, failed, worse], "") == higher(failed, worse, "")


# What an interval promises


def test_the_interval_of_a_paired_difference_covers_19_of_20(rng: np.random.Generator):
    """4,000 draws of 5 seeds; the share that covers is within 4.5 of its standard errors."""
    shared = 10 * rng.normal(size=(4000, 5))
    a, b = shared + 0.3 + rng.normal(size=(4000, 5)), shared + rng.normal(size=(4000, 5))
    found = [higher(*pair, "") for pair in zip(a, b)]
    covered = np.mean([low <= 0.3 <= high for low, high in (one.interval for one in found)])
    assert abs(covered - 0.95) < 4.5 * (0.95 * 0.05 / 4000) ** 0.5
    # Where there is no difference, one in twenty is decided, half of them either way.
    none = [higher(*pair, "").verdict for pair in zip(a - 0.3, b)]
    for verdict in (REPRODUCED, NOT):
        assert abs(none.count(verdict) / 4000 - 0.025) < 4.5 * (0.025 * 0.975 / 4000) ** 0.5


# Seeds that reached the optimum


def test_the_seeds_at_the_optimum_and_their_share():
    values, losses = [0.9, 0.1, 0.8, 0.2], [1.0, 3.0, 1.05, nan]
    assert best(values, losses, 1.0, 0.1) == ([0.9, 0.8], 0.5)
    assert best(values, losses, None, 0.01) == ([0.9], 0.25)
    assert best(values, losses, 0.5, 0.1) == ([], 0.0)
    assert best(values, losses, [1.0, 2.95, 0.9, 0.0], 0.1) == ([0.9, 0.1], 0.5)
    assert best([[1, 2], [3, 4]], [9, 1], None, 0.1) == ([[3, 4]], 0.5)
    assert best([], [], None, 0.1) == ([], 0.0)
    assert best([1, 2], [nan, nan], None, 0.1) == ([], 0.0)
    assert above(*best([], [], None, 0.1)[:1], 0.5, "").verdict == UNMEASURED


# Columns


ROWS = pd.DataFrame(
    {
        "seed": [2, 0, 1, 0, 1, 2, 0, 1, 2],
        "arm": ["a"] * 3 + ["b"] * 3 + ["c"] * 3,
        "r2": [0.92, 0.9, 0.91, 0.8, 0.8, 0.83, 0.1, 0.9, 0.2],
        "loss": [1.0, 1.01, 1.02, 1.5, 1.4, 1.0, 1, 1, 1],
        "floor": 1.0,
    }
)


def test_a_column_has_one_value_a_seed_and_says_what_counts():
    a, b = (column("rows", "r2", "R²", arm=arm) for arm in "ab")
    tables = {"rows": pd.concat([ROWS, ROWS.assign(r2=ROWS["r2"] + 0.02)])}
    close(a.values(tables), [0.91, 0.92, 0.93], 1e-12)
    found = a.least(0.8)(tables)
    assert (found.verdict, found.comment) == (REPRODUCED, "R²; 0.8 or more counts.")
    assert a.most(0.8)(tables).verdict == NOT
    assert a.between(0.8, 0.95)(tables).comment == "R²; 0.8 to 0.95 counts."
    assert a.holds(0.94)(tables).verdict == REPRODUCED
    assert column("rows", "r2", "", arm=("a", "b")).values(tables)[0] == pytest.approx(0.86)
    gap = a.less(b, "R², less that of b")
    assert gap.positive()(tables).verdict == REPRODUCED
    assert b.less(a, "").positive()(tables).verdict == NOT
    assert gap.positive()(tables).comment == "R², less that of b; above 0 counts."
    nothing = column("rows", "r2", "", arm="d")
    for found in (nothing.least(0.9), nothing.less(a, "").positive(), a.less(nothing, "").most(1)):
        assert found(tables).verdict == UNMEASURED


def test_a_column_of_the_seeds_at_their_floor():
    loss, floor = (column("rows", name, "", arm="b") for name in ("loss", "floor"))
    kept = column("rows", "r2", "R²", arm="b").reached(loss, floor, 0.05)
    found = kept.least(0.8)({"rows": ROWS})
    assert (found.value, found.verdict) == (0.83, INCONCLUSIVE)
    assert found.comment == (
        "R², of the 33% of seeds within 0.05 of the floor (1 of 3, 6% to 79%); 0.8 or more counts."
    )


def test_a_trend_is_over_the_columns_of_a_table():
    wide = pd.DataFrame(UP, columns=[1, 10, 100])
    assert trend(rises, lambda _: wide, "R²", "width")({}) == rises(
        [1, 10, 100], UP, "R²: the slope from one width to the next; above 0 counts."
    )
    assert trend(falls, lambda _: wide, "", "")({}).verdict == NOT
    assert trend(falls, lambda _: wide.iloc[:0], "", "")({}).verdict == UNMEASURED


@pytest.mark.parametrize(
    ("interval", "verdict"),
    [((0.4, 0.6), REPRODUCED), ((0.4, 1.2), INCONCLUSIVE), ((1.1, 1.2), NOT), ((-2, -1), NOT),
     ((nan, 1), INCONCLUSIVE), (None, INCONCLUSIVE)],
)  # fmt: skip
def test_a_value_with_an_interval_of_its_own(interval: Any, verdict: str):
    assert by_interval(0.5, interval, 0, 1, "").verdict == verdict


def test_words_may_depend_on_the_tables():
    found = Column(lambda _: [1.0, 1.1], lambda t: f"Of {len(t)} tables").least(0)({"a": ROWS})
    assert found.comment == "Of 1 tables; 0 or more counts."


def test_a_difference_of_other_seeds_has_the_variance_of_both(rng: np.random.Generator):
    a, b = rng.normal(1, 0.1, size=8), rng.normal(0, 2, size=4)
    found = higher(a, b, "", paired=False)
    test = stats.ttest_ind(a, b, equal_var=False)
    close(found.p, test.pvalue, 1e-9)
    close(found.interval, list(test.confidence_interval(0.95)), 1e-9)
    assert higher(a, [], "", paired=False).verdict == UNMEASURED


def test_a_share_of_seeds_is_judged_by_wilson():
    tables = {"rows": pd.DataFrame({"seed": range(20), "right": [True] * 19 + [False]})}
    right = column("rows", "right", "Seeds that are right")
    found = right.often(0.7)(tables)
    assert (found.value, found.verdict) == (0.95, REPRODUCED)
    assert found.comment == "Seeds that are right; a share of 0.7 or more counts."
    low, high = found.interval
    assert 0.7 < low < 0.95 < high < 1
    assert right.often(0.9)(tables).verdict == INCONCLUSIVE
    assert right.often(0.999)(tables).verdict == NOT
    assert right.often(0.5)({"rows": tables["rows"][:0]}).verdict == UNMEASURED
