"""Moments: streamed, split and merged in any way, they equal the batch values."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import reduce
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import close
from identikit.errors import InputError
from identikit.moments import Moments, accumulate, assign_folds
from identikit.moments._scan import squared_norms
from identikit.moments.sample import row_keys
from identikit.similarity import cca

EXACT = 1e-10
ODD = ("plain", "nearly constant column", "huge mean", "constant column", "duplicated rows")


def batch(views):
    """Count, means, scatter blocks and norm products of rows, in extended precision."""
    wide = [np.asarray(view).astype(np.longdouble) for view in views]
    means = [view.mean(axis=0) for view in wide]
    centred = [view - mean for view, mean in zip(wide, means)]
    norms = np.stack([(view**2).sum(axis=1) for view in centred])
    return means, [[a.T @ b for b in centred] for a in centred], norms @ norms.T


def scatter_scale(views, blocks, i, j):
    """√(S_ii S_jj), widened where the means are so far out that float64 cannot hold them better.

    A mean is stored in float64, with a rounding error of ε|mean|; in units of the standard
    deviation that is what a merge of two means can cost.
    """
    left, right = (np.sqrt(np.diagonal(blocks[v][v])) + 1e-10 for v in (i, j))
    slack = [
        np.sqrt(len(views[v])) * np.abs(views[v]).max(axis=0) / size
        for v, size in ((i, left), (j, right))
    ]
    return np.outer(left, right) * (1 + 8 * 2.0**-52 / EXACT * np.maximum.outer(*slack))


def assert_equals_batch(moments, views, tol=EXACT):
    """Compare with the batch values; scatter on its natural scale √(S_ii S_jj)."""
    means, blocks, norms = batch(views)
    assert moments.rows == len(views[0])
    for i, view in enumerate(views):
        close(moments.centre(i), means[i], 1e-14, 1 + np.abs(view).max(axis=0))
        for j in range(len(views)):
            scale = scatter_scale(views, blocks, i, j)
            close(moments.block(i, j), blocks[i][j], tol, scale)
    size = np.sqrt(np.diagonal(norms))
    wider = [
        2 * np.max(scatter_scale(views, blocks, i, i) / blocks[i][i].trace().clip(1e-20))
        for i in range(len(views))
    ]
    scale = np.outer(size, size) * np.maximum.outer(wider, wider).clip(1)
    close(moments.norm_products(), norms, tol, scale + 1e-20)


def make_views(seed, rows, widths, odd):
    rng = np.random.default_rng(seed)
    views = [rng.normal(size=(rows, width)) for width in widths]
    if odd == "nearly constant column":
        views[0][:, 0] = 3 + 1e-3 * views[0][:, 0]
    elif odd == "huge mean":
        # Multiples of 2⁻²⁰: a mean of 1e6 leaves the rows themselves without rounding.
        views = [1e6 + np.round(view * 2**20) / 2**20 for view in views]
    elif odd == "constant column":
        views[-1][:, -1] = 0.1
    elif odd == "duplicated rows":
        views = [np.repeat(view[: 1 + rows // 3], 3, axis=0)[:rows] for view in views]
    return views


@st.composite
def shards(draw):
    """Views, the places where their rows are cut, and how the pieces are read."""
    rows = draw(st.integers(1, 60))
    widths = draw(st.lists(st.integers(1, 5), min_size=1, max_size=3))
    views = make_views(draw(st.integers(0, 999)), rows, widths, draw(st.sampled_from(ODD)))
    cuts = sorted(draw(st.sets(st.integers(1, max(rows - 1, 1)), max_size=6)) - {rows})
    return views, cuts, draw(st.integers(1, rows)), draw(st.integers(1, 6))


def cut(views, cuts, **options):
    edges = [0, *cuts, len(views[0])]
    return [
        accumulate([view[start:stop] for view in views], **options)
        for start, stop in pairwise(edges)
    ]


def merge_in_pairs(parts):
    """A tree of merges."""
    while len(parts) > 1:
        parts = [reduce(Moments.__add__, parts[k : k + 2]) for k in range(0, len(parts), 2)]
    return parts[0]


@given(shards(), st.randoms(use_true_random=False), st.booleans())
@settings(max_examples=200)
def test_any_split_merged_in_any_order_equals_the_batch(case, random, tree):
    views, cuts, block_rows, folds = case
    parts = cut(views, cuts, folds=folds, block_rows=block_rows)
    random.shuffle(parts)
    merged = merge_in_pairs(parts) if tree else reduce(Moments.__add__, parts)
    assert_equals_batch(merged, views)


@given(shards())
@settings(max_examples=100)
def test_any_block_size_equals_the_batch_in_every_fold(case):
    views, _, block_rows, folds = case
    moments = accumulate(views, folds=folds, block_rows=block_rows)
    assert_equals_batch(moments, views)
    fold_of_row = assign_folds(len(views[0]), folds).of()
    for fold in range(folds):
        for option, chosen in (("only", fold_of_row == fold), ("without", fold_of_row != fold)):
            which = {option: fold}
            assert moments.n(**which) == np.count_nonzero(chosen)
            if not chosen.any():
                continue
            rows = [view[chosen] for view in views]
            means, blocks, _ = batch(rows)
            for i in range(len(views)):
                close(moments.centre(i, **which), means[i], 1e-14, 1 + np.abs(rows[i]).max())
                for j in range(len(views)):
                    scale = scatter_scale(rows, blocks, i, j)
                    close(moments.block(i, j, **which), blocks[i][j], EXACT, scale)


def same(a, b, tol=1e-12):
    assert a.rows == b.rows
    assert a.names == b.names
    assert a.eps == b.eps
    for i in range(len(a.widths)):
        close(a.centre(i), b.centre(i), tol)
        for j in range(len(a.widths)):
            close(a.block(i, j), b.block(i, j), tol, a.rows)
    close(a.norm_products(), b.norm_products(), tol, a.norm_products())
    np.testing.assert_array_equal(a.sample.keys, b.sample.keys)


@given(st.integers(0, 999), st.lists(st.integers(1, 5), min_size=1, max_size=3))
@settings(max_examples=40)
def test_merging_commutes_and_associates(seed, widths):
    views = make_views(seed, 50, widths, "plain")
    a, b, c = cut(views, [7, 30], folds=3)
    same(a + b, b + a)
    same((a + b) + c, a + (b + c))


def test_groups_give_the_folds_of_their_rows(rng):
    views = [rng.normal(size=(200, 3)), rng.normal(size=(200, 2))]
    groups = rng.integers(0, 23, size=200)
    moments = accumulate(views, folds=4, groups=groups, block_rows=17)
    fold_of_row = assign_folds(200, 4, groups).of()
    for fold in range(4):
        rows = [view[fold_of_row == fold] for view in views]
        close(moments.block(0, 1, only=fold), batch(rows)[1][0][1], EXACT, 200)


# Ill-conditioned shards are kept in other coordinates.


def ill_conditioned(rng, rows, width=6, condition=1e6):
    turn = np.linalg.qr(rng.normal(size=(width, width)))[0]
    return rng.normal(size=(rows, width)) * np.logspace(0, -np.log10(condition), width) @ turn


def shard_pair(rng, order):
    """Two shards, one or both kept in other coordinates than their own."""
    poor = [ill_conditioned(rng, 400), rng.normal(size=(400, 3)) + 50]
    rich = [rng.normal(size=(300, 6)) + 2, rng.normal(size=(300, 3))]
    poorer = [ill_conditioned(rng, 300, condition=1e7) + 1, rng.normal(size=(300, 3))]
    return {"ill first": (poor, rich), "well first": (rich, poor), "both ill": (poor, poorer)}[
        order
    ]


ORDERS = pytest.mark.parametrize("order", ["ill first", "well first", "both ill"])


@ORDERS
def test_shards_in_different_coordinates_merge(rng, order):
    data = shard_pair(rng, order)
    a, b = (accumulate(views) for views in data)
    assert (a.layout.roots is None) == (order == "well first")
    assert (b.layout.roots is None) == (order == "ill first")
    merged = a + b
    assert merged.names == a.names
    assert_equals_batch(merged, [np.concatenate(pair) for pair in zip(*data)])
    for f in range(5):
        close(merged.block(0, 1, only=f), (b + a).block(0, 1, only=f), 1e-9)


@ORDERS
def test_shards_in_different_coordinates_merge_to_exact_correlations(rng, order):
    data = shard_pair(rng, order)
    merged = accumulate(data[0]) + accumulate(data[1])
    bases = [
        np.linalg.qr(view - view.mean(axis=0))[0]
        for view in (np.concatenate(pair) for pair in zip(*data))
    ]
    expected = np.linalg.svd(bases[0].T @ bases[1], compute_uv=False)
    close(cca(merged).correlations, expected, 1e-8)


def test_ill_conditioned_shards_of_one_view_merge_to_its_correlations(rng):
    X = ill_conditioned(rng, 900)
    Y = X @ rng.normal(size=(6, 6)) + 1e-3 * rng.normal(size=(900, 6))
    parts = cut([X, Y], [100, 500])
    assert all(part.layout.roots is not None for part in parts)
    merged = reduce(Moments.__add__, parts)
    assert_equals_batch(merged, [X, Y])
    close(cca(merged).correlations, cca(accumulate([X, Y])).correlations, 1e-8)


# Hard data.


@pytest.mark.parametrize("parts", [2, 7, 100])
def test_a_mean_of_a_million_is_exact(rng, parts):
    views = [rng.normal(size=(1000, 3)) + 1e6, rng.normal(size=(1000, 2)) - 1e6]
    cuts = [1000 * k // parts for k in range(1, parts)]
    merged = merge_in_pairs(cut(views, cuts, folds=1))
    _, blocks, _ = batch(views)
    for i in range(2):
        for j in range(2):
            close(merged.block(i, j), blocks[i][j], EXACT, 1000)


@pytest.mark.parametrize("block_rows", [1, 64, 2000])
def test_float32_with_a_far_mean_is_exact(rng, block_rows):
    X = (rng.normal(size=(2000, 4)) + 1e4).astype(np.float32)
    assert_equals_batch(
        accumulate([X, X[:, ::-1] * np.float32(2)], block_rows=block_rows),
        [X, X[:, ::-1] * np.float32(2)],
    )


@pytest.mark.parametrize("block_rows", [1, 50, None])
@pytest.mark.parametrize("kind", ["trend", "sorted", "first block constant", "steps", "far start"])
def test_drifting_rows_stay_exact(rng, kind, block_rows):
    n = 3000 if block_rows != 1 else 300
    X = rng.normal(size=(n, 3))
    if kind == "trend":
        X += np.linspace(0, 1000, n)[:, None]
    elif kind == "sorted":
        X = np.sort(np.exp(3 * X), axis=0)
    elif kind == "first block constant":
        X[:50] = 7.0
    elif kind == "steps":
        X = 1e-3 * X + 100 * (6 * np.arange(n) // n)[:, None]
    else:
        # The first block sets the pivot; the rest lies 1e6 of its own sd away.
        X[:50] += 1e6
    Y = np.concatenate([X[:, :1] ** 2, rng.normal(size=(n, 1))], axis=1)
    for folds in (1, 5):
        assert_equals_batch(accumulate([X, Y], folds=folds, block_rows=block_rows), [X, Y])


# Empty parts, and shards that do not fit.


def test_more_folds_than_rows_leave_empty_folds_that_change_nothing(rng):
    views = [rng.normal(size=(3, 2)), rng.normal(size=(3, 1))]
    moments = accumulate(views, folds=7)
    assert sorted(part.count for part in moments.parts) == [0, 0, 0, 0, 1, 1, 1]
    assert_equals_batch(moments, views)
    assert_equals_batch(moments + moments, [np.tile(view, (2, 1)) for view in views])


def test_a_shard_without_finite_rows_is_neutral(rng):
    views = [rng.normal(size=(20, 3)), rng.normal(size=(20, 2))]
    whole = accumulate(views)
    empty = accumulate([np.full((4, 3), np.nan), np.zeros((4, 2))], drop_nonfinite=True)
    assert empty.rows == 0
    for merged in (whole + empty, empty + whole):
        assert merged.dropped == 4
        assert_equals_batch(merged, views)


def test_moments_that_do_not_fit_together_raise(rng):
    X = rng.normal(size=(20, 3))
    with pytest.raises(InputError, match=r"widths \(3,\) and \(2,\)"):
        accumulate([X]) + accumulate([X[:, :2]])
    with pytest.raises(InputError, match="5 and 4 folds"):
        accumulate([X]) + accumulate([X], folds=4)
    with pytest.raises(TypeError):
        accumulate([X]) + 1


def test_a_view_that_is_not_there_raises(rng):
    moments = accumulate([rng.normal(size=(20, 3))], names=["a"])
    assert moments.resolve("a") == moments.resolve(0) == moments.resolve(-1) == 0
    with pytest.raises(InputError, match="no view is called 'b'; there are a"):
        moments.resolve("b")
    with pytest.raises(InputError, match="there is no view 1; the moments hold 1 views"):
        moments.resolve(1)


def test_the_coarser_type_and_the_dropped_rows_survive_a_merge(rng):
    X = rng.normal(size=(20, 3))
    X[4, 1] = np.inf
    a = accumulate([X, X], drop_nonfinite=True)
    b = accumulate([X[:4].astype(np.float32), X[:4]])
    assert (a + b).eps == (2.0**-23, 2.0**-52)
    assert (a + b).dropped == 1
    assert (a + b).rows == 23


def test_nonfinite_rows_raise_or_are_dropped_from_all_views(rng):
    X, Y = rng.normal(size=(100, 3)), rng.normal(size=(100, 2)).astype(np.float32)
    X[70, 2], Y[40, 0], Y[70, 1], Y[99, 1] = np.nan, np.inf, np.nan, -np.inf
    with pytest.raises(InputError) as caught:
        accumulate([X, Y], names=["old", "new"], block_rows=8)
    message = str(caught.value)
    assert "view 'old' has NaN or infinity in 1 of 100 rows, the first is row 70" in message
    assert "view 'new' has NaN or infinity in 3 of 100 rows, the first is row 40" in message
    assert "--drop-nonfinite" in message
    keep = np.setdiff1d(np.arange(100), [40, 70, 99])
    for block_rows in (1, 8, None):
        moments = accumulate([X, Y], drop_nonfinite=True, block_rows=block_rows)
        assert moments.dropped == 3
        assert_equals_batch(moments, [X[keep], Y[keep]])


def test_squares_that_overflow_are_met_in_other_units(rng):
    X = rng.normal(size=(20, 2))
    moments = accumulate([X * 2.0**800])
    assert_equals_batch(moments, [np.ldexp(X, 800 - moments.exponents[0])])


@pytest.mark.parametrize("option", [{"block_rows": 0}, {"block_rows": -1}, {"sample": -1}])
def test_senseless_options_raise(rng, option):
    ((name, value),) = option.items()
    with pytest.raises(InputError, match=f"{name}.*{value}"):
        accumulate([rng.normal(size=(20, 2))], **option)


def test_too_little_memory_raises(rng):
    X = rng.normal(size=(20, 10))
    with pytest.raises(InputError, match=r"2 views with 20 columns in 5 folds need .* MB"):
        accumulate([X, X], memory=1000)


def test_progress_counts_rows_to_the_end(rng):
    calls = []
    accumulate(
        [rng.normal(size=(50, 2))],
        block_rows=20,
        progress=lambda _, done, rows: calls.append((done, rows)),
    )
    assert calls == [(20, 50), (40, 50), (50, 50)]


# Folds.


def assert_split_is_of(plan, start, stop):
    """Where `split` finds each fold is where `of` says."""
    found = np.full(stop - start, -1)
    for fold, chosen in plan.split(start, stop):
        assert np.all(found[chosen] == -1)
        found[chosen] = fold
    np.testing.assert_array_equal(found, plan.of(start, stop))


@given(
    st.one_of(st.integers(1, 2000), st.integers(2000, 200_000)),
    st.integers(1, 50),
    st.integers(-3, 2**40),
    st.data(),
)
@settings(max_examples=100)
def test_scattered_folds_are_even_and_the_same_in_any_order_of_reading(rows, folds, seed, data):
    plan = assign_folds(rows, folds, seed=seed)
    fold_of_row, size = plan.of(), plan.block
    assert len(fold_of_row) == rows
    sizes = np.bincount(fold_of_row, minlength=folds)
    assert len(sizes) == folds
    assert sizes.max() - sizes.min() <= size
    assert size <= max(1, rows // (256 * folds))
    # Every block is whole, and as many blocks in a row as there are folds are one in each.
    whole = fold_of_row[: rows // (size * folds) * size * folds].reshape(-1, folds, size)
    assert np.array_equal(
        np.sort(whole[:, :, 0], axis=1), np.tile(np.arange(folds), (len(whole), 1))
    )
    assert np.all(whole == whole[:, :, :1])
    start = data.draw(st.integers(0, rows - 1))
    stop = data.draw(st.integers(start + 1, min(rows, start + 5000)))
    again = assign_folds(rows, folds, seed=seed).within(start, stop)
    np.testing.assert_array_equal(again.of(start, stop), fold_of_row[start:stop])
    assert_split_is_of(again, start, stop)
    ends, some = plan.last_rows(start, stop), fold_of_row[start:stop]
    for fold in np.unique(some[-2 * folds * size :]):
        assert ends[fold] == start + np.flatnonzero(some == fold)[-1]
    assert set(some) <= set(ends)


def test_scattered_folds_depend_on_the_seed_and_look_random():
    first, other = (assign_folds(10_000, 5, seed=seed).of() for seed in (0, 1))
    assert 0.15 < np.mean(first == other) < 0.25
    for period in (2, 5, 10):  # rows that alternate are spread over all folds
        table = np.array([np.bincount(first[k::period], minlength=5) for k in range(period)])
        assert np.abs(table - 2000 / period).max() < 5 * np.sqrt(2000 / period)
    # And the row sample of the same seed has nothing to do with them.
    rows = np.arange(10_000.0)[:, None]
    kept = accumulate([rows], sample=1000).sample.rows[:, 0].astype(int)
    assert np.bincount(first[kept]).min() > 140


def test_blocks_are_small_and_rows_need_no_memory():
    assert [assign_folds(rows, 5).block for rows in (10, 2559, 2560, 50_000, 10**12)] == [
        *(1, 1, 2, 32, 64)
    ]
    assert len(assign_folds(10**12, 5).of(10**11, 10**11 + 1000)) == 1000


@given(st.integers(1, 2000), st.integers(1, 50))
def test_runs_are_even_and_in_order(rows, folds):
    plan = assign_folds(rows, folds, seed=None)
    fold_of_row = plan.of()
    assert_split_is_of(plan, 0, rows)
    assert np.array_equal(assign_folds(rows, folds).in_runs().of(), fold_of_row)
    assert len(fold_of_row) == rows
    assert np.array_equal(plan.of(rows // 3, rows), fold_of_row[rows // 3 :])
    ends = plan.last_rows(0, rows)
    assert all(fold_of_row[end] == fold for fold, end in ends.items() if fold in fold_of_row)
    assert all(np.flatnonzero(fold_of_row == fold)[-1] == ends[fold] for fold in set(fold_of_row))
    assert np.all(np.diff(fold_of_row) >= 0)
    sizes = np.bincount(fold_of_row, minlength=folds)
    assert len(sizes) == folds
    assert sizes.max() - sizes.min() <= 1


@given(st.lists(st.integers(0, 12), min_size=1, max_size=200), st.integers(1, 5))
def test_groups_never_straddle_folds(labels, folds):
    groups = np.array([f"g{label}" for label in labels])
    if len(set(labels)) < min(folds, 3):
        with pytest.raises(InputError, match="needs at least 3: give finer groups"):
            assign_folds(len(groups), folds, groups)
        return
    fold_of_row = assign_folds(len(groups), folds, groups).of()
    for group in np.unique(groups):
        assert len(np.unique(fold_of_row[groups == group])) == 1
    assert set(fold_of_row) == set(range(min(folds, len(set(labels)))))


def test_equal_groups_give_even_folds(rng):
    groups = rng.permutation(np.repeat(np.arange(40), 5))
    assert set(np.bincount(assign_folds(200, 4, groups).of())) == {50}


@pytest.mark.parametrize("folds", [0, -1, 2**15])
def test_an_impossible_number_of_folds_raises(folds):
    with pytest.raises(InputError, match=f"folds is {folds}; give a number from 1"):
        assign_folds(10, folds)


@pytest.mark.parametrize("groups", [np.arange(9), np.zeros((10, 1))])
def test_groups_of_another_length_raise(groups):
    with pytest.raises(InputError, match="the views have 10 rows; give one label per row"):
        assign_folds(10, 2, groups)


# The row sample.


def numbered(rows):
    """Two views in which every row says its number."""
    number = np.arange(rows, dtype=np.float64)[:, None]
    return [np.hstack([number, -number]), np.hstack([2 * number, number**2, number])]


def test_the_sample_holds_the_same_rows_of_the_data_whatever_the_blocks(seed):
    views = numbered(5000)
    samples = [
        accumulate(views, folds=folds, block_rows=block, sample=100, seed=seed).sample
        for folds, block in [(1, None), (5, None), (5, 3), (5, 101), (2, 4999)]
    ]
    expected = np.argsort(row_keys(0, 5000, seed))[:100]
    for sample in samples:
        assert sample.rows.shape == (100, 5)
        np.testing.assert_array_equal(sample.rows, np.hstack(views)[expected])


def test_the_sample_of_groups_is_the_sample_of_rows(rng, seed):
    views = numbered(600)
    plain = accumulate(views, sample=50, seed=seed)
    grouped = accumulate(views, groups=rng.integers(0, 30, 600), sample=50, seed=seed)
    np.testing.assert_array_equal(plain.sample.rows, grouped.sample.rows)


def test_the_sample_does_not_depend_on_the_order_of_merges():
    views = numbered(900)
    a, b, c = cut(views, [200, 500], sample=64)
    expected = (a + b + c).sample
    for merged in (c + (b + a), (a + c) + b, b + (a + c)):
        assert set(merged.sample.keys) == set(expected.keys)
    assert len(expected.keys) == 64
    known = {tuple(row) for row in np.hstack(views)}
    assert all(tuple(row) in known for row in expected.rows)


def test_a_sample_larger_than_the_data_is_the_data_and_zero_is_none(rng):
    views = numbered(40)
    order = np.argsort(row_keys(0, 40, 0))
    np.testing.assert_array_equal(accumulate(views, sample=99).sample.rows, np.hstack(views)[order])
    assert accumulate(views, sample=0).sample.rows.shape == (0, 5)


def test_the_sample_is_uniform_over_rows():
    """χ² over 20 bins of rows, summed over 50 seeds: 950 degrees of freedom, 5 sd either way."""
    total = 0.0
    for seed in range(50):
        rows = accumulate(numbered(4000), folds=1, sample=400, seed=seed).sample_of(0)[:, 0]
        counts = np.bincount(rows.astype(int) // 200, minlength=20)
        # Without replacement the variance of a count is smaller by the share left behind.
        total += np.sum((counts - 20) ** 2 / 20) / (1 - 400 / 4000)
    assert abs(total - 950) < 5 * np.sqrt(2 * 950)


def test_other_seeds_give_other_samples():
    drawn = [set(row_keys(0, 1000, seed).argsort()[:100].tolist()) for seed in range(20)]
    overlaps = [len(drawn[0] & other) for other in drawn[1:]]
    assert max(overlaps) < 30


# Memory.

MEMORY = """
import sys
import identikit
from identikit.moments import accumulate

def peak():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))

before = peak()
moments = accumulate(sys.argv[1:])
moments.norm_products()
assert moments.rows == 1_000_000
print((peak() - before) / 1024)
"""


@pytest.mark.slow(sample=True)
@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak memory from /proc")
def test_a_million_rows_cost_little_memory(tmp_path):
    rng = np.random.default_rng(0)
    for name in "ab":
        np.save(tmp_path / f"{name}.npy", rng.standard_normal((1_000_000, 32), dtype=np.float32))
    run = subprocess.run(
        [sys.executable, "-c", MEMORY, str(tmp_path / "a.npy"), str(tmp_path / "b.npy")],
        env=os.environ,
        capture_output=True,
        text=True,
        check=True,
    )
    assert float(run.stdout) < 150


def test_norms_are_the_same_where_numpy_has_no_function_for_them(monkeypatch):
    """NumPy 1 has no vecdot."""
    rows, found = np.random.default_rng(0).normal(size=(50, 7)), np.zeros((50, 3))
    monkeypatch.delattr(np, "vecdot", raising=False)
    squared_norms(rows, found[:, 1])
    close(found[:, 1], (rows**2).sum(axis=1), 1e-14)
    assert not found[:, [0, 2]].any()
