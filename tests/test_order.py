"""The order of the rows does not decide the verdict, and what depends on it is told."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.fft import dct
from scipy.signal import lfilter
from scipy.stats import norm, rankdata

import identikit as ik
from conftest import close
from identikit import accumulate
from identikit.auditing._order import LARGEST, Order, _curves, excess
from identikit.moments import assign_folds
from identikit.moments.memory import audit_bytes
from identikit.report import html


def only_pair(views, **options):
    (pair,) = ik.audit(views, **options).comparisons
    return pair


def fired(pair):
    return {check.name: check for check in pair.checks if not check.ok}


def networks(seed, n=3000, classes=10, noise=0.1):
    """Two random-feature networks of inputs that are stored by class."""
    rng = np.random.default_rng(seed)
    labels = np.sort(rng.integers(0, classes, n))
    inputs = 2 * rng.normal(size=(classes, 12))[labels] + rng.normal(size=(n, 12))
    return [
        np.tanh(inputs @ rng.normal(size=(12, 20)) / 4) + noise * rng.normal(size=(n, 20))
        for _ in range(2)
    ]


def dependent_runs(rng, groups=100, size=20, d=4, share=0.5):
    """y = x + noise/2 with runs of rows whose signals and noises have much in common."""
    of_row = np.repeat(np.arange(groups), size)

    def rows():
        own = rng.normal(size=(len(of_row), d))
        return np.sqrt(share) * rng.normal(size=(groups, d))[of_row] + np.sqrt(1 - share) * own

    X = rows()
    return X, X + 0.5 * rows()


# Rows stored by class


@pytest.mark.parametrize("seed", range(2))
def test_rows_stored_by_class_get_the_verdict_of_shuffled_ones(seed):
    views = networks(seed)
    order = np.random.default_rng(seed).permutation(len(views[0]))
    given, shuffled = only_pair(views), only_pair([view[order] for view in views])
    assert given.group == shuffled.group == "linear"
    assert given.error == pytest.approx(shuffled.error, abs=0.01)
    assert not given.order_only
    assert shuffled.blocked is None
    assert shuffled.warnings == []
    # Whole classes left out are another matter, and both numbers are there.
    assert set(fired(given)) == {"dependent rows"}
    assert given.blocked.group == given.group
    assert given.blocked.error > given.error + 0.03
    assert given.interval[0] <= given.error < given.blocked.error <= given.interval[1]
    assert (
        f"the error is {given.error:.2f} with scattered folds and {given.blocked.error:.2f} when "
        "whole stretches of rows are left out" in fired(given)["dependent rows"].message
    )


def test_the_blocked_error_is_that_of_folds_in_runs():
    X, Y = networks(0, n=1000)
    pair = only_pair([X, Y], drop_nonfinite=True)
    groups = assign_folds(1000, 5, seed=None).of()
    by_hand = only_pair([X, Y], groups=groups)
    rung = {rung.group: rung for rung in by_hand.ladder}[pair.blocked.group]
    assert pair.blocked.error == pytest.approx(rung.error, abs=1e-9)
    assert pair.blocked.interval == pytest.approx(rung.interval, abs=1e-9)


def test_both_errors_stand_in_every_report(tmp_path):
    audit = ik.audit(networks(0, n=1000))
    (pair,) = audit.comparisons
    (told,) = audit.to_dict()["pairs"]
    assert told["blocked"]["error"] == pair.blocked.error
    assert told["order_only"] is False
    assert audit.pairs["error_blocked"][0] == pair.blocked.error
    assert f"{pair.blocked.error:.2f}" in html(audit)
    assert "when whole stretches of rows are left out" in html(audit)
    X = np.random.default_rng(0).normal(size=(1000, 3))
    assert "error_blocked" not in ik.audit([X, X + 0.1]).pairs


@pytest.mark.slow
def test_tiles_saved_moments_and_workers_find_the_same(tmp_path):
    """Several passes, a file of moments, and rows left out."""
    views = [*networks(0, n=1000), *networks(1, n=1000)[:1]]
    views[1] = views[1].copy()
    views[1][3, 2] = np.nan
    options = {"drop_nonfinite": True, "seed": 3}
    first = ik.audit(views, **options)
    assert first.settings.fold_rule == "scattered blocks of rows"
    path = tmp_path / "x.moments"
    memory = (audit_bytes([20] * 3, 5, 1000) + audit_bytes([20] * 2, 5, 1000)) // 2
    others = [
        ik.audit(views, memory=memory, **options),
        ik.audit(views, save_moments=path, **options),
        ik.audit(views, engine="pool", **options),
    ]
    assert "passes" in others[0].settings.reading
    for other in others:
        for a, b in zip(first.comparisons, other.comparisons):
            assert (a.group, a.order_only) == (b.group, b.order_only)
            assert a.error == pytest.approx(b.error, abs=1e-9)
            assert a.interval == pytest.approx(b.interval, abs=1e-9)
            assert a.blocked.error == pytest.approx(b.blocked.error, abs=1e-9)
    # A file knows of no order.
    again = ik.audit(path)
    assert [pair.blocked for pair in again.comparisons] == [None] * 3
    assert again.comparisons[0].error == pytest.approx(first.comparisons[0].error, abs=1e-9)


def test_shards_merge_in_any_order_fold_by_fold(rng):
    X = rng.normal(size=(900, 3))
    parts = [accumulate([X[a : a + 300]], seed=5) for a in (0, 300, 600)]
    merged, turned = (sum(some[1:], some[0]) for some in (parts, parts[::-1]))
    labels = assign_folds(300, 5, seed=5).of()
    for fold in range(5):
        rows = X.reshape(3, 300, 3)[:, labels == fold].reshape(-1, 3)
        for moments in (merged, turned):
            assert moments.n(only=fold) == len(rows)
            close(moments.centre(0, only=fold), rows.mean(axis=0), 1e-12)


# Dependent runs


@pytest.mark.parametrize("seed", range(3))
def test_dependent_runs_are_told_and_the_wider_interval_is_reported(seed):
    X, Y = dependent_runs(np.random.default_rng(seed))
    pair = only_pair([X, Y])
    # y is x with much noise, which a warning of its own may say.
    assert {"dependent rows"} <= set(fired(pair)) <= {"dependent rows", "noise"}
    assert any("--groups" in warning for warning in pair.warnings)
    assert not pair.order_only
    scattered = {rung.group: rung for rung in pair.ladder}[pair.group].interval
    assert pair.interval == (
        min(scattered[0], pair.blocked.interval[0]),
        max(scattered[1], pair.blocked.interval[1]),
    )
    # Who gives the groups is not second-guessed.
    grouped = only_pair([X, Y], groups=np.repeat(np.arange(100), 20))
    assert grouped.blocked is None
    assert "depend on those nearby" not in " ".join(grouped.warnings)


def test_what_only_runs_of_rows_share_is_shared(rng):
    """150 independent runs are 150 samples, though rows of a run have nothing else in common."""
    of_run = np.repeat(rng.normal(size=(150, 4)), 20, axis=0)
    turned = of_run @ rng.normal(size=(4, 4))
    pair = only_pair([rows + 0.7 * rng.normal(size=rows.shape) for rows in (of_run, turned)])
    assert set(fired(pair)) == {"dependent rows"}
    assert pair.group == "linear"


@pytest.mark.slow
def test_intervals_of_dependent_runs_cover():
    """‖noise‖/2 over ‖x‖ is 0.5; with independent folds of rows alone, half of them do."""
    covered, told, narrow = 0, 0, 0
    for seed in range(60):
        pair = only_pair(dependent_runs(np.random.default_rng([1, seed])))
        (rung,) = [rung for rung in pair.ladder if rung.group == "identity"]
        told += "dependent rows" in fired(pair)
        covered += pair.interval[0] <= 0.5 <= pair.interval[1]
        narrow += rung.interval[0] <= 0.5 <= rung.interval[1]
    assert told == 60
    assert covered >= 52
    assert narrow < 50


# Views that share nothing but their order


def rows_in_order(kind, rng, n, d, shared):
    """Rows of one view; `shared` is what the order is."""
    X = rng.standard_t(2, size=(n, d)) if "heavy" in kind else rng.normal(size=(n, d))
    t = np.linspace(-1, 1, n)[:, None]
    if "sorted" in kind:
        return X[np.argsort(X[:, 0])]
    if kind == "skewed":
        X = np.exp(X)
        return X[np.argsort(X.sum(axis=1))]
    if kind == "drift":
        return X + 2 * t * rng.normal(size=d)
    if kind == "weak drift":
        return X + 0.5 * t * rng.normal(size=d)
    if kind == "bend":
        return X + 3 * t**2 * rng.normal(size=d)
    if kind == "walk":
        return X.cumsum(axis=0)
    if kind == "slow":
        return lfilter([1], [1, -0.95], X, axis=0)
    return X + 2 * rng.normal(size=(shared.max() + 1, d))[shared]


IN_ORDER = [
    *("sorted", "heavy sorted", "skewed", "drift", "weak drift", "bend", "walk", "slow"),
    *("classes", "runs"),
]


def independent_pair(kind, seed, n, d):
    """Two views whose rows have nothing to do with each other but their place."""
    rng = np.random.default_rng([seed, n, d])
    if kind == "classes":
        shared = np.sort(rng.integers(0, 10, n))
    else:
        shared = np.cumsum(rng.random(n) < 0.08)  # runs of twelve rows on average
    return [rows_in_order(kind, rng, n, d, shared) for _ in range(2)]


@pytest.mark.parametrize("kind", IN_ORDER)
def test_views_that_share_their_order_only_are_unrelated(kind):
    for seed, (n, d) in enumerate([(300, 2), (600, 8)]):
        pair = only_pair(independent_pair(kind, seed, n, d))
        assert pair.group == "unrelated", (kind, n, d)


@pytest.mark.slow
@pytest.mark.parametrize("kind", IN_ORDER)
def test_hardly_any_of_many_such_pairs_is_called_related(kind):
    """At most 2 of 40; all of the sorted ones of one column agree almost perfectly."""
    related = 0
    for seed in range(40):
        n, d = [(120, 3), (300, 1), (300, 6), (800, 12)][seed % 4]
        related += only_pair(independent_pair(kind, 100 + seed, n, d)).group != "unrelated"
    assert related <= 2


def test_an_audit_says_that_only_the_order_is_shared():
    X, Y = independent_pair("sorted", 0, 400, 1)
    audit = ik.audit([X, Y, -X], names=["x", "y", "minus x"])
    pairs = {(pair.a, pair.b): pair for pair in audit.comparisons}
    assert pairs["x", "minus x"].group == "permutation"
    found = pairs["x", "y"]
    assert found.error < 0.3
    assert (found.group, found.order_only, found.within_tolerance) == ("unrelated", True, False)
    assert "may come from the order of the rows alone" in fired(found)["dependent rows"].message
    # The worst pair, however small its error is.
    assert audit.verdict.order_only
    assert not audit.verdict.within_tolerance
    assert "clearly share is the order of their rows" in html(audit)
    assert audit.to_dict()["verdict"]["order_only"] is True


@pytest.mark.parametrize("slow", [0.9, 0.99])
def test_slow_rows_that_are_related_stay_so(rng, slow):
    X = lfilter([1], [1, -slow], rng.normal(size=(2000, 5)), axis=0)
    Y = X @ rng.normal(size=(5, 5)) + 0.3 * X.std() * rng.normal(size=(2000, 5))
    pair = only_pair([X, Y])
    assert pair.group == "linear"
    assert set(fired(pair)) == {"dependent rows"}


@pytest.mark.parametrize("kind", ["sorted", "walk", "classes"])
def test_a_view_and_itself_are_the_same_in_any_order(kind):
    X, _ = independent_pair(kind, 0, 400, 2)
    assert only_pair([X, X]).group == "identity"


# The parts


def test_excess_is_the_power_of_slow_changes():
    """A second route: SciPy's ranks and transform, one column and one count at a time."""
    walk = np.random.default_rng(0).normal(size=200).cumsum()
    scores = norm.ppf((rankdata(walk) - 0.5) / 200)
    power = dct(scores - scores.mean(), norm="ortho")[1:] ** 2 / np.var(scores, ddof=1)
    expected = max(power[:count].mean() for count in (1, 2, 4, 8, 16, 32))
    close(excess(walk[:, None]), expected, 1e-12)
    assert excess(np.exp(walk)[:, None]) == excess(walk[:, None])  # ranks only
    assert excess(np.ones((200, 3))) == excess(np.empty((200, 0))) == 1.0
    assert excess(walk[:10, None]) == 1.0


def alarms(kind, seeds, sizes):
    found = 0
    for seed in seeds:
        n, d = sizes[seed % len(sizes)]
        rng = np.random.default_rng([7, seed])
        if kind == "heavy":
            views = [rng.standard_t(1.5, size=(n, d)) for _ in range(2)]
        elif kind == "cauchy":
            views = [rng.normal(size=(n, d)) / np.abs(rng.normal(size=(n, 1))) for _ in range(2)]
        elif kind == "sparse":
            views = [(rng.random((n, d)) < 0.03) + 0.0 for _ in range(2)]
        else:
            views = [rng.normal(size=(n, d))] * 2
            views[1] = views[1] + 0.5 * rng.normal(size=(n, d))
        found += Order.of(views).dependent(0, 1)
    return found


@pytest.mark.parametrize("kind", ["white", "heavy", "cauchy", "sparse"])
def test_independent_rows_raise_no_alarm(kind):
    assert alarms(kind, range(30), [(40, 1), (150, 3), (600, 8)]) == 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["white", "heavy", "cauchy", "sparse"])
def test_at_most_one_in_a_hundred_independent_pairs_raises_an_alarm(kind):
    assert alarms(kind, range(1000, 1600), [(60, 2), (200, 4), (1000, 5), (2000, 20)]) <= 6


def test_weak_dependence_of_single_columns_is_found(rng):
    """Runs of 20 rows with an intraclass correlation of 0.1, a design effect of 2.9."""
    X = rng.normal(size=(6000, 6))
    X[:, 4] += np.sqrt(0.1 / 0.9) * np.repeat(rng.normal(size=300), 20)
    Y = rng.normal(size=(6000, 2))
    assert Order.of([X, Y]).dependence(0, 1) > LARGEST
    assert Order.of([rng.permutation(X), Y]).dependence(0, 1) == 1.0


def test_errors_in_runs_are_found_where_the_views_themselves_are_not(rng):
    """Signs are independent; how large the noise is, is not."""
    X = rng.choice([-1.0, 1.0], size=(2000, 3))
    spread = np.repeat(np.exp(rng.normal(size=100)), 20)[:, None]
    Y = np.sign(X + spread * rng.normal(size=X.shape))
    order = Order.of([X, Y])
    assert order.excess == (1.0, 1.0)
    assert order.dependent(0, 1)


def test_curves_know_neither_level_nor_slope(rng):
    scores, block = rng.normal(size=(400, 3)), np.repeat(np.arange(50), 8)
    levels, slopes = rng.normal(size=(2, 50, 3))
    lines = levels[block] + slopes[block] * np.arange(400)[:, None]
    plain = _curves(scores, 1)
    assert plain.shape == (50, 2, 3)
    close(np.abs(_curves(scores + lines, 1)), np.abs(plain), 1e-8)
    flat = plain.reshape(100, 3)
    close(flat.T @ flat, np.diag(np.square(flat).sum(axis=0)), 0.2)
    assert _curves(scores, 4).shape == (12, 2, 2)  # blocks enough for two axes


def test_few_rows_cannot_tell(rng):
    X = np.sort(rng.normal(size=(95, 1)), axis=0)
    assert Order.of([X, X]).stands_out(0, 1) is None
    Z = np.sort(rng.normal(size=(400, 1)), axis=0)
    assert Order.of([Z, Z]).stands_out(0, 1) is True
    Z[::3] = np.nan
    assert Order.of([Z, Z]).stands_out(0, 1) is True
