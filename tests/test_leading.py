"""The leading subspace of a wide view, and its projected rows."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import close
from identikit.errors import InputError
from identikit.moments import Folds, assign_folds, leading, reduction_bytes
from identikit.moments._pca import exact_bytes, level, oversampled, randomised, sketch_bytes
from identikit.moments.memory import block_rows
from identikit.sources import open_source
from identikit.sources.projected import Projected
from test_wide import FOLDS, centred_svd, sloping, turn

pytestmark = pytest.mark.long


def find(array, k, memory=None, **settings):
    folds = settings.pop("folds", None) or assign_folds(len(array), FOLDS)
    return leading(open_source(array), folds, k, memory, **settings)


def both_routes(d, k):
    """Budgets that take the exact route and the randomised one."""
    assert sketch_bytes(d, k) < exact_bytes(d, k)
    return exact_bytes(d, k), sketch_bytes(d, k)


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


# The span of few rows.


@pytest.mark.parametrize("k", [1, 2, 3, 10, 101])
def test_a_rotation_that_levels_the_variances(rng, k):
    values = np.sort(rng.exponential(size=k) ** 3)[::-1]
    turn = level(values)
    np.testing.assert_allclose(turn.T @ turn, np.eye(k), atol=1e-12)
    np.testing.assert_allclose(np.diagonal(turn.T * values @ turn), values.mean(), rtol=1e-10)
