"""Rows that are there several times: counted in the pass, and kept in one fold."""

from __future__ import annotations

import re

import numpy as np
import pytest
from typer.testing import CliRunner

import identikit as ik
from identikit.cli import app
from identikit.errors import InputError
from identikit.moments import _distinct, accumulate, duplicate_groups
from identikit.moments._distinct import SIZE, DistinctKeeper, hash_rows, stacked
from identikit.sources import open_sources

KINDS = [np.float16, np.float32, np.float64, np.int8, np.int64, bool]


def copies(rng, distinct=40, each=50, width=6):
    """Independent views of a few distinct rows, each there many times, shuffled."""
    order = rng.permutation(np.repeat(np.arange(distinct), each))
    return [rng.normal(size=(distinct, width))[order] for _ in range(2)], order


def sketch(rows, lots=7):
    keeper = DistinctKeeper(1)
    for some in np.array_split(rows, lots):
        keeper.add([some])
    return keeper.distinct()


# Hashes.


@pytest.mark.parametrize("kind", KINDS)
def test_rows_that_differ_have_different_hashes(kind):
    """All rows of 14 zeros and ones: whole numbers, whose bits are mostly zero."""
    rows = (np.arange(2**14)[:, None] >> np.arange(14) & 1).astype(kind)
    assert len(np.unique(hash_rows(rows))) == 2**14
    once = np.eye(3000).astype(kind)
    assert len(np.unique(hash_rows(once))) == 3000


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("width", [1, 2, 3, 8, 17])
def test_equal_rows_have_equal_hashes_however_they_lie(rng, kind, width):
    rows = (4 * rng.normal(size=(50, width))).astype(kind)
    hashes = hash_rows(rows)
    assert np.array_equal(hash_rows(np.asfortranarray(rows)), hashes)
    assert np.array_equal(hash_rows(rows[::-1])[::-1], hashes)
    assert np.array_equal(hash_rows(np.hstack([rows, rows])[:, :width]), hashes)
    assert np.array_equal(hash_rows(rows[7:9]), hashes[7:9])


def test_views_that_are_exchanged_are_another_row(rng):
    a, b = (hash_rows(rng.normal(size=(100, 3))) for _ in range(2))
    assert not (stacked([a, b]) == stacked([b, a])).any()
    assert not (stacked([a, a]) == stacked([b, b])).any()


# The count.


@pytest.mark.parametrize("distinct", [1, 40, SIZE - 1])
def test_few_distinct_rows_are_counted_exactly(rng, distinct):
    rows = rng.normal(size=(distinct, 3))[rng.permutation(np.arange(5000) % distinct)]
    assert sketch(rows).estimate(5000) == distinct


def test_rows_that_are_all_distinct_are_never_taken_for_fewer():
    for seed in range(50):
        rows = np.random.default_rng(seed).normal(size=(3000, 2))
        assert sketch(rows).estimate(3000) == 3000


@pytest.mark.parametrize("each", [2, 5, 20])
def test_many_distinct_rows_are_estimated(rng, each):
    rows = np.repeat(rng.normal(size=(40_000 // each, 2)), each, axis=0)
    assert sketch(rows).estimate(40_000) == pytest.approx(40_000 / each, rel=0.13)


def test_one_row_that_is_half_of_all_is_seen(rng):
    rows = rng.normal(size=(40_000, 2))
    rows[rng.random(40_000) < 0.5] = 0.0
    assert sketch(rows).estimate(40_000) == pytest.approx(20_000, rel=0.13)


def few_valued(kind):
    """Rows that differ, of few values a column: what an additive hash alone spreads badly."""
    binary = (np.arange(2**15)[:, None] >> np.arange(15) & 1).astype(kind)
    apart = np.zeros((2**15, 30), dtype=kind)
    apart[:, 1::2] = binary
    return [binary, apart, np.eye(3000, dtype=kind)]


@pytest.mark.parametrize("kind", KINDS)
def test_distinct_rows_of_few_values_are_not_taken_for_fewer(kind):
    for rows in few_valued(kind):
        assert sketch(rows).estimate(len(rows)) == len(rows)
        twice = np.concatenate([rows, rows[::-1]])
        assert sketch(twice).estimate(len(twice)) == pytest.approx(len(rows), rel=0.13)


def test_distinct_rows_that_share_places_are_not_taken_for_fewer():
    """Ones in odd columns of float32: the quick sum keeps nine bits of them."""
    rows = few_valued(np.float32)[1]
    for size in (64, 256):
        keeper = DistinctKeeper(1, size)
        keeper.add([rows])
        assert keeper.distinct().estimate(len(rows)) == len(rows)


def test_few_rows_are_hashed_beyond_the_first(rng, monkeypatch):
    """The quick sum leaves about 2 × SIZE rows of each threefold more to be hashed."""
    hashed = []
    original = _distinct._hash

    def counted(words):
        hashed.append(len(words))
        return original(words)

    monkeypatch.setattr(_distinct, "_hash", counted)
    rows = rng.normal(size=(100_000, 4)).astype(np.float32)
    assert sketch(rows).estimate(100_000) == 100_000
    assert sum(hashed) < 2 * 15 * SIZE  # of the stacked rows, and of the only view's


def test_rows_that_are_left_out_are_not_counted(rng):
    views = [rng.normal(size=(700, 3)), rng.normal(size=(700, 2)).astype(np.float32)]
    views[0][[3, 300, 301, 699]] = np.nan
    for block_rows in (13, None):
        found = accumulate(views, drop_nonfinite=True, block_rows=block_rows)
        counts = [int(each.sum()) for _, each in found.distinct.smallest]
        assert counts == [696] * 3


def test_parts_merge_to_the_whole(rng):
    rows = rng.normal(size=(3000, 2))[rng.integers(0, 3000, size=9000)]
    whole = sketch(rows)
    first, second = sketch(rows[:2000]), sketch(rows[2000:])
    for merged in (first + second, second + first):
        for (a, b), (c, d) in zip(merged.smallest, whole.smallest, strict=True):
            assert np.array_equal(a, c)
            assert np.array_equal(b, d)


def test_moments_count_them_by_view_and_together(rng):
    few = rng.normal(size=(30, 3)).astype(np.float32)[rng.integers(0, 30, size=700)]
    many = rng.normal(size=(700, 2))
    for options in ({}, {"block_rows": 13}, {"groups": np.arange(700) % 50}):
        found = accumulate([few, many], **options).distinct
        counts = [found.estimate(700, view) for view in (None, 0, 1)]
        assert counts == [700, len(np.unique(few, axis=0)), 700]
    merged = accumulate([few[:300], many[:300]]) + accumulate([few[300:], many[300:]])
    assert merged.distinct.estimate(700, 0) == 30


# The check, and what helps.


def warning(audit):
    return next(check for check in audit.comparisons[0].checks if check.name == "duplicate rows")


def test_copies_are_reported_and_leak_no_more_in_groups(rng):
    views, order = copies(rng)
    audit = ik.audit(views)
    assert not warning(audit).ok
    assert "only 40 of 2000 rows are distinct" in warning(audit).message
    assert 'groups="duplicates"' in warning(audit).message
    grouped = ik.audit(views, groups="duplicates")
    assert grouped.verdict.group == "unrelated"
    labels = duplicate_groups(open_sources(views))
    assert len(np.unique(labels)) == 40
    assert len(np.unique(np.stack([labels, order.astype(np.uint64)]), axis=1).T) == 40


def test_an_estimate_is_said_to_be_one(rng):
    half = rng.normal(size=(2000, 3))[rng.permutation(4000) // 2]
    words = warning(ik.audit([half, half[:, ::-1]])).message
    assert re.search(r"only about [12]\d00 of 4000 rows are distinct", words)


@pytest.mark.slow
def test_independent_views_of_copies_are_unrelated_in_groups():
    """The leak at its rate: with copies apart most pairs look related, kept together few do."""
    apart = together = 0
    for seed in range(20):
        views, _ = copies(np.random.default_rng(seed))
        apart += ik.audit(views).verdict.group != "unrelated"
        together += ik.audit(views, groups="duplicates").verdict.group != "unrelated"
    assert apart >= 10
    assert together <= 4


def test_copies_in_one_view_are_reported(rng):
    few = rng.normal(size=(30, 4))[rng.integers(0, 30, size=900)]
    found = warning(ik.audit([few, rng.normal(size=(900, 4))], names=["few", "many"]))
    assert not found.ok
    assert "view 'few' has 30 distinct rows among 900" in found.message
    assert found.value == 30 / 900


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_rows_that_are_distinct_are_not_reported(rng, kind):
    X = rng.normal(size=(3000, 4)).astype(kind)
    assert warning(ik.audit([X, X[:, ::-1]])).ok


def test_what_repeats_is_said_to_repeat_whatever_its_kind(rng):
    classes = np.eye(7)[rng.integers(0, 7, size=500)]
    coarse = rng.integers(-3, 4, size=(500, 1)).astype(np.float16)
    found = warning(ik.audit([classes, coarse]))
    together = len(np.unique(np.hstack([classes, coarse]), axis=0))
    assert f"only {together} of 500 rows are distinct" in found.message


def test_other_words_for_groups_are_refused(rng):
    message = "groups is 'copies'; give one label per row, or 'duplicates'"
    with pytest.raises(InputError, match=message):
        accumulate([rng.normal(size=(20, 2))], groups="copies")


def test_copies_share_a_fold(rng):
    views, _ = copies(rng, distinct=10, each=6)
    moments = accumulate(views, groups="duplicates")
    assert moments.grouped
    assert [part.count for part in moments.parts] == [12] * 5
    # Two distinct rows a fold: its centred rows have rank one.
    assert all(np.linalg.matrix_rank(part.scatter) == 1 for part in moments.parts)


def test_the_commands_take_the_word(rng, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    views, _ = copies(rng)
    for name, view in zip("ab", views):
        np.save(f"{name}.npy", view)
    arguments = ["a.npy", "b.npy", "--groups", "duplicates", "-q"]
    done = CliRunner().invoke(app, ["audit", *arguments, "--json"])
    assert done.exit_code == 0, done.output
    assert '"whole groups of rows"' in done.stdout
    assert CliRunner().invoke(app, ["moments", *arguments, "-o", "x.moments"]).exit_code == 0
    assert ik.Moments.load("x.moments").grouped
