"""The largest rows: kept in any order of reading, taken out exactly, and what they decide."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from functools import reduce
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import identikit as ik
from conftest import HANGS, close
from identikit.auditing._influence import extreme_rows
from identikit.errors import InputError
from identikit.moments import Moments, accumulate, assign_folds, less_extremes
from test_moments_file import rewrite, set_at

pytestmark = pytest.mark.long

#: Rows that are faulty in both views of `faulty`.
BAD = [3, 700, 1999]


def faulty(rng, size, rows=2000, bad=BAD):
    """Independent views with a few shared rows of this size."""
    X, Y = rng.normal(size=(rows, 5)) + 1, rng.normal(size=(rows, 4))
    for row, sign in zip(bad, (1, -1, 1)):
        X[row], Y[row] = sign * size * (1 + rng.random()), sign * size * (1 + rng.random())
    return X, Y


def planted(moments, size):
    """Which of the kept rows were planted."""
    return (np.abs(moments.extremes.rows) > size / 2).any(axis=1)


# The sketch.


def test_one_row_in_a_thousand_is_kept():
    found = [accumulate([np.ones((n, 1))]).extremes.size for n in (10, 8000, 20_000, 100_000)]
    assert found == [8, 8, 20, 64]


@pytest.mark.parametrize("block_rows", [1, 7, 500, None])
def test_the_largest_rows_are_kept_whatever_the_blocks(rng, block_rows):
    views = faulty(rng, 50.0, rows=300, bad=[3, 70, 299])
    moments = accumulate(views, block_rows=block_rows)
    found = moments.extremes.only(planted(moments, 50.0))
    assert found.numbers.tolist() == [3, 70, 299]
    assert found.folds.tolist() == assign_folds(300, 5).of()[[3, 70, 299]].tolist()
    close(found.rows, np.hstack(views)[[3, 70, 299]], 0)


def test_every_view_keeps_its_own_largest_rows(rng):
    """Brute force, where rows are summed about zero: the 8 of largest norm of each view."""
    views = [rng.normal(size=(400, 3)), rng.normal(size=(400, 6))]
    kept = accumulate(views, folds=1).extremes
    norms = [np.square(view).sum(axis=1) for view in views]
    expected = set.union(*(set(np.argsort(-norm)[:8].tolist()) for norm in norms))
    assert set(kept.numbers.tolist()) == expected


def test_parts_in_any_order_keep_the_rows_that_dominate(rng):
    views = faulty(rng, 50.0, rows=300, bad=[3, 70, 299])
    edges = [0, 50, 60, 200, 300]
    parts = [accumulate([v[a:b] for v in views]) for a, b in pairwise(edges)]
    for order in ([0, 1, 2, 3], [3, 1, 0, 2]):
        merged = reduce(Moments.__add__, [parts[k] for k in order])
        chosen = planted(merged, 50.0)
        assert merged.extremes.rows[chosen].shape == (3, 9)
        assert merged.extremes.size == 8
        # Numbers are those in the part that a row was read from.
        assert sorted(merged.extremes.numbers[chosen].tolist()) == [3, 10, 99]


@pytest.mark.parametrize("threads", [1, 3])
def test_threads_keep_what_one_keeps(rng, threads):
    views = faulty(rng, 50.0, rows=2**17)
    with threadpool_limits(threads):
        moments = accumulate(views)
    assert sorted(moments.extremes.numbers[planted(moments, 50.0)].tolist()) == BAD


def test_rows_that_are_left_out_are_not_kept(rng):
    X, Y = faulty(rng, 50.0)
    X[700, 0] = np.nan
    moments = accumulate([X, Y], drop_nonfinite=True)
    assert sorted(moments.extremes.numbers[planted(moments, 50.0)].tolist()) == [3, 1999]


@pytest.mark.parametrize("offset", [0.0, 100.0])
@pytest.mark.parametrize("row", [0, 1, 700, 2304, 2999])
@pytest.mark.parametrize("rows", [2305, 3000])
def test_an_extreme_row_is_kept_wherever_it_stands(rng, rows, row, offset):
    """Also if it is the first, or alone in the last block."""
    X = rng.normal(size=(rows, 3)) + offset
    row = min(row, rows - 1)
    X[row] = 1e6
    for options in ({}, {"folds": 1}, {"block_rows": 1152}, {"block_rows": 3}):
        kept = accumulate([X], **options).extremes
        assert row in kept.numbers[kept.rows[:, 0] == 1e6], options


def test_equal_rows_are_kept_in_their_order():
    """Of equal sizes the first ones: all rows tie here, about zero."""
    X = np.tile([[1.0, -1.0], [-1.0, 1.0]], (100, 1))
    assert accumulate([X], folds=1).extremes.numbers.tolist() == list(range(8))


# Taken out again.


def assert_same_moments(rest, views, keep, tol):
    """Against the rows themselves, fold by fold."""
    folds = assign_folds(len(keep), 5).of()
    for fold in range(5):
        some = [view[keep & (folds == fold)] for view in views]
        centred = [view - view.mean(axis=0) for view in some]
        assert rest.n(only=fold) == len(some[0])
        for i, view in enumerate(some):
            close(rest.centre(i, only=fold), view.mean(axis=0), tol)
            for j in range(len(some)):
                expected = centred[i].T @ centred[j]
                close(rest.block(i, j, only=fold), expected, tol, len(view) * np.ones((1, 1)))


@pytest.mark.parametrize(("size", "tol"), [(30.0, 1e-12), (1e3, 1e-10), (1e4, 2e-9), (1e6, 1e-5)])
def test_moments_without_rows_are_those_of_the_others(rng, size, tol):
    views = faulty(rng, size)
    moments = accumulate(views)
    rest = less_extremes(moments, planted(moments, size))
    keep = np.ones(2000, dtype=bool)
    keep[BAD] = False
    assert rest.rows == 1997
    assert_same_moments(rest, views, keep, tol)
    # The moments that they were taken from are as they were.
    assert moments.rows == 2000
    close(moments.centre(0), views[0].mean(axis=0), 1e-12 * size)


def test_the_fourth_moments_come_out_too(rng):
    views = faulty(rng, 30.0)
    moments = accumulate(views)
    keep = np.ones(2000, dtype=bool)
    keep[BAD] = False
    expected = accumulate([view[keep] for view in views])
    found = less_extremes(moments, planted(moments, 30.0))
    close(found.norm_products() / expected.norm_products(), np.ones((2, 2)), 1e-9)
    close(
        ik.cka(found, 0, 1, debiased=True).value, ik.cka(expected, 0, 1, debiased=True).value, 1e-9
    )


def test_an_ill_conditioned_view_keeps_its_digits(rng):
    """In the coordinates of a second pass, where the scatter is that of other columns."""
    Z = rng.normal(size=(2000, 4))
    X = Z * np.logspace(0, -6, 4) @ np.linalg.qr(rng.normal(size=(4, 4)))[0]
    X[BAD] *= 100
    moments = accumulate([X, Z])
    assert moments.layout.roots is not None
    far = np.isin(moments.extremes.numbers, BAD)
    keep = np.ones(2000, dtype=bool)
    keep[BAD] = False
    rest, expected = less_extremes(moments, far), accumulate([X[keep], Z[keep]])
    close(ik.cca(rest).correlations, ik.cca(expected).correlations, 1e-6)


@pytest.mark.parametrize("size", [1e8, 1e12])
def test_digits_that_are_lost_are_not_made_up(rng, size):
    moments = accumulate(faulty(rng, size))
    assert less_extremes(moments, planted(moments, size)) is None


def test_a_column_that_only_an_extreme_row_has_is_constant_without_it(rng):
    X, Y = faulty(rng, 100.0)
    X[:, 2] = 0.0
    X[700, 2] = 1e4
    moments = accumulate([X, Y])
    rest = less_extremes(moments, planted(moments, 100.0))
    assert rest.whiten(0).rank == 4


def test_too_few_rows_are_left_untouched(rng):
    moments = accumulate([rng.normal(size=(10, 2))])
    assert less_extremes(moments) is None
    assert less_extremes(replace(moments, extremes=None)) is None


def test_the_sample_loses_them_too(rng):
    views = faulty(rng, 100.0, rows=300, bad=[3, 70, 299])
    moments = accumulate(views)
    rest = less_extremes(moments, planted(moments, 100.0))
    assert len(rest.sample.keys) == 297
    assert np.abs(rest.sample.rows).max() < 50


# Files.


@pytest.fixture
def saved(tmp_path, rng) -> Path:
    path = tmp_path / "x.moments"
    accumulate(faulty(rng, 50.0)).save(path)
    return path


def test_a_file_keeps_them(saved, rng):
    moments, again = accumulate(faulty(np.random.default_rng(0), 50.0)), Moments.load(saved)
    assert again.extremes.size == moments.extremes.size
    for name in ("numbers", "folds", "rows"):
        assert np.array_equal(getattr(again.extremes, name), getattr(moments.extremes, name))
    assert again.distinct.size == moments.distinct.size
    for a, b in zip(again.distinct.smallest, moments.distinct.smallest, strict=True):
        assert np.array_equal(a[0], b[0])
        assert np.array_equal(a[1], b[1])


def test_a_file_may_have_none(tmp_path, rng):
    path = tmp_path / "old.moments"
    moments = accumulate(faulty(rng, 50.0))
    replace(moments, extremes=None, distinct=None).save(path)
    old = Moments.load(path)
    assert old.extremes is None
    assert old.distinct is None
    assert old.rows == 2000
    # Merged with others, the extremes of a part are known, and the distinct rows of nobody.
    both = old + moments
    assert both.extremes is not None
    assert both.distinct is None
    names = [check.name for check in ik.audit(old).comparisons[0].checks]
    assert "influence" not in names
    assert "duplicate rows" not in names


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda header: header.pop("extremes") and None, "'extremes' is missing"),
        (set_at("extremes", 7), "'extremes' cannot be '7'"),
        (set_at("extremes", [8]), "'extremes' cannot be"),
        (set_at("extremes", [8, 17]), "'extremes' cannot be"),
        (set_at("extremes", [8, -1]), "cannot be '-1'"),
        (set_at("extremes", [8, 3]), "its arrays do not match its header"),
        (set_at("extremes", None), "its arrays do not match its header"),
        (set_at("distinct", [1024, 5]), "'distinct' cannot be"),
        (set_at("distinct", [1024, 1024, 1024, 1025]), "'distinct' cannot be"),
        (set_at("distinct", [1024, 1024, 1024, 1]), "its arrays do not match its header"),
        (set_at("distinct", [2000, 1024, 1024, 1024]), "its count of distinct rows is impossible"),
    ],
)
def test_a_header_that_cannot_be_is_refused(saved, change, words):
    rewrite(saved, change)
    with pytest.raises(InputError, match=words):
        Moments.load(saved)


def test_numbers_that_cannot_be_are_refused(saved):
    good = saved.read_bytes()

    def spoilt(name, place, value):
        saved.write_bytes(good)
        rewrite(saved, arrays=lambda arrays: arrays[name].reshape(-1).__setitem__(place, value))

    for name, place, value, words in (
        ("extreme_rows", 2, np.float64(np.nan), "not finite"),
        ("extreme_folds", 0, np.uint64(5), "folds that do not exist or have fewer"),
        ("extreme_folds", 0, np.uint64(2**64 - 1), "folds that do not exist or have fewer"),
        ("distinct_hashes", 1, np.uint64(0), "count of distinct rows is impossible"),
        ("distinct_counts", 0, np.uint64(0), "count of distinct rows is impossible"),
        ("distinct_counts", 0, np.uint64(2000), "count of distinct rows is impossible"),
    ):
        spoilt(name, place, value)
        with pytest.raises(InputError, match=words):
            Moments.load(saved)


# What they decide.


def checked(pair, name):
    return next(check for check in pair.checks if check.name == name)


@pytest.mark.parametrize(("rows", "size"), [([700], 1e6), ([3, 700], 1e4), ([3, 700, 1999], 1e2)])
def test_independent_views_that_share_bad_rows_are_not_the_same(rng, rows, size):
    X, Y = rng.normal(size=(2, 2000, 8))
    for row, sign in zip(rows, (1, -1, 1)):
        X[row] = Y[row] = sign * size
    audit = ik.audit([X, Y])
    pair = audit.comparisons[0]
    assert pair.group != "unrelated"
    assert pair.error < 0.5
    assert not pair.within_tolerance
    assert not audit.verdict.within_tolerance
    assert pair.influence.numbers == tuple(rows)
    assert pair.influence.group_without == "unrelated"
    assert pair.influence.error_without == pytest.approx(1, abs=0.05)
    keep = np.delete(np.arange(2000), rows)
    alone = ik.audit([X[keep], Y[keep]], groups=assign_folds(2000, 5).of()[keep]).comparisons[0]
    best = min(rung.error for rung in alone.ladder)
    assert pair.influence.error_without == pytest.approx(best, abs=1e-4)
    check = checked(pair, "influence")
    assert not check.ok
    assert f"decided by {len(rows)} row" in check.message
    assert json.loads(audit.to_json())["pairs"][0]["influence"]["numbers"] == rows


def test_rows_too_large_to_be_taken_out_decide_too(rng):
    X, Y = rng.normal(size=(2, 2000, 8))
    X[700] = Y[700] = 1e9
    pair = ik.audit([X, Y]).comparisons[0]
    assert pair.influence.error_without is None
    assert not pair.within_tolerance
    assert "beside it the others are too small" in checked(pair, "influence").message


def test_a_view_that_is_constant_but_for_a_few_rows_is_decided_by_them(rng):
    X = np.zeros((500, 3))
    X[[5, 250, 400]] = rng.normal(size=(3, 3))
    pair = ik.audit([X, X]).comparisons[0]
    assert pair.influence.rows == 3
    assert pair.influence.error_without is None


def test_large_rows_that_fit_the_others_decide_nothing(rng):
    X = rng.normal(size=(2000, 4))
    X[BAD] *= 1e3
    Y = X @ rng.normal(size=(4, 4))
    for noise in (0.0, 0.001):
        pair = ik.audit([X, Y + noise * rng.normal(size=Y.shape)]).comparisons[0]
        assert pair.influence is None
        assert checked(pair, "influence").ok
        assert pair.within_tolerance


def test_bad_rows_in_one_view_that_spoil_the_rest_are_named(rng):
    """The same views but for two rows: the error is theirs, and without them there is none."""
    X = rng.normal(size=(2000, 4))
    Y = X.copy()
    Y[[3, 700]] = [[400.0], [-300.0]] * np.ones(4)
    pair = ik.audit([X, Y]).comparisons[0]
    assert pair.error > 0.5
    assert pair.influence.numbers == (3, 700)
    assert pair.influence.error_without < 1e-6
    assert not pair.within_tolerance


def test_ordinary_rows_do_not_stand_out(rng):
    for views in (
        rng.normal(size=(2, 500, 4)),
        rng.uniform(size=(2, 60, 1)),
        np.eye(40)[None].repeat(2, 0),
    ):
        assert not extreme_rows(accumulate(list(views)), 0, 1).any()
        assert ik.audit(list(views)).comparisons[0].influence is None


def test_a_pair_with_a_small_error_may_be_the_worst(rng):
    """Three views: one pair has a larger error and is within the tolerance, one is not."""
    X, Y = rng.normal(size=(2, 2000, 4))
    Z = X + 0.05 * rng.normal(size=X.shape)
    for view in (X, Y, Z):
        view[700] = 1e4
    audit = ik.audit([X, Y, Z], names=["x", "y", "z"], tolerance=0.2)
    assert not audit.verdict.within_tolerance
    assert {audit.verdict.a, audit.verdict.b} != {"x", "z"}


@pytest.mark.slow
def test_heavy_tails_of_the_same_views_are_not_decided_by_rows():
    """Views that are the same but for a map and noise that scales with the rows: 40 draws."""
    found = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        X = rng.standard_t(2.5, size=(1000, 6))
        noise = 0.1 * np.linalg.norm(X, axis=1, keepdims=True) * rng.normal(size=X.shape)
        found += (
            ik.audit([X, X @ rng.normal(size=(6, 6)) + noise]).comparisons[0].influence is not None
        )
    assert found <= 4


# The command as a user runs it.


def shell(folder, *arguments):
    """An audit of a.npy and b.npy in a process of its own."""
    views = [str(folder / name) for name in ("a.npy", "b.npy")]
    command = [sys.executable, "-m", "identikit", "audit", *views, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=HANGS)


@pytest.mark.parametrize(("rows", "size"), [([700], 1e6), ([3, 700], 1e4)])
def test_the_command_fails_on_pairs_that_bad_rows_decide(rng, tmp_path, rows, size):
    X, Y = rng.normal(size=(2, 2000, 8))
    for row, sign in zip(rows, (1, -1)):
        X[row] = Y[row] = sign * size
    np.save(tmp_path / "a.npy", X)
    np.save(tmp_path / "b.npy", Y)
    done = shell(tmp_path, "--fail-above", "0.1")
    assert done.returncode == 1, done.stderr
    assert f"is decided by {len(rows)} of the rows; without" in done.stderr
    assert "but a few rows decide that" in " ".join(done.stdout.split())
    assert shell(tmp_path, "-q").returncode == 0


def test_the_command_fails_on_unrelated_pairs_whatever_the_limit(rng, tmp_path):
    X, Y = rng.normal(size=(2, 400, 3))
    np.save(tmp_path / "a.npy", X)
    np.save(tmp_path / "b.npy", Y)
    done = shell(tmp_path, "--fail-above", "5")
    assert done.returncode == 1, done.stderr
    assert "'a' and 'b' are unrelated, which is above any limit" in done.stderr
