"""Components over runs: the assignment, its consistency, chance, intervals, bad input, the verb."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from itertools import combinations, permutations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from safetensors.numpy import save_file
from scipy.optimize import linear_sum_assignment
from scipy.stats import beta
from typer.testing import CliRunner, Result

from conftest import close
from identikit import stability_figure
from identikit.axes import Components, Subspace, match_components
from identikit.axes._components_chance import (
    best_median,
    best_tail,
    cosine_tail,
    discovery_cut,
    upper_tail,
    within_atoms,
    within_coordinates,
)
from identikit.cli import app
from identikit.errors import InputError
from identikit.inference import jackknife_interval

Array = NDArray[np.float64]


def unit(X: NDArray) -> NDArray[np.float32]:
    return (X / np.linalg.norm(X, axis=1, keepdims=True)).astype(np.float32)


def planted(
    rng: np.random.Generator,
    sizes: tuple[int, ...],
    d: int = 40,
    noise: float = 0.2,
    signed: bool = True,
) -> tuple[list[Array], list[NDArray[np.intp]]]:
    """Runs of the first atoms of one dictionary in random order; and which atom each one is."""
    atoms = rng.normal(size=(max(sizes), d))
    runs, orders = [], []
    for size in sizes:
        order = rng.permutation(size)
        signs = 1 if signed else rng.choice([-1, 1], size=(size, 1))
        runs.append(signs * (atoms[order] + noise * rng.normal(size=(size, d))))
        orders.append(order)
    return runs, orders


def atoms_of(found: Components, orders: list[NDArray[np.intp]]) -> NDArray[np.intp]:
    """Which planted atom every member is, −1 where there is no member."""
    named = [order[column] for order, column in zip(orders, found.index.T)]
    return np.where(found.index >= 0, np.stack(named, axis=1), -1)


# One assignment


@pytest.mark.parametrize("signed", [True, False])
def test_the_assignment_is_the_best_of_all(rng: np.random.Generator, signed: bool) -> None:
    A, B = unit(rng.normal(size=(4, 3))), unit(rng.normal(size=(6, 3)))
    S = A @ B.T if signed else np.abs(A @ B.T)
    best = max(S[np.arange(4), list(p)].sum() for p in permutations(range(6), 4))
    for method in ("dense", "sparse"):
        found = match_components([A, B], signed=signed, assignment=method, candidates=6)
        assert found.pw_mcc == pytest.approx(best / 4, abs=1e-5)
        assert S[*found.index.T].sum() == pytest.approx(best, abs=1e-5)
        assert [len(set(column)) for column in found.index.T] == [4, 4]
        assert found.methods == (method,)
        assert found.gap < 1e-4


@pytest.mark.parametrize("candidates", [1, 4, 16])
@pytest.mark.parametrize("share", [0.0, 0.6])
def test_the_bound_of_a_sparse_assignment_holds(
    rng: np.random.Generator, candidates: int, share: float
) -> None:
    A, B = rng.normal(size=(200, 20)), rng.normal(size=(230, 20))
    shared = int(share * 200)
    B[:shared] = A[:shared] + 0.3 * B[:shared]
    A, B = unit(A), unit(B)
    rows, columns = linear_sum_assignment(A @ B.T, maximize=True)
    best = float((A @ B.T)[rows, columns].sum())
    found = match_components([A, B], assignment="sparse", candidates=candidates)
    assert [len(set(column)) for column in found.index.T] == [200, 200]
    value = (A @ B.T)[*found.index.T].sum()
    assert 200 * found.pw_mcc == pytest.approx(value, abs=1e-4)
    assert value <= best + 1e-4
    assert best <= value * (1 + found.gap) + 1e-4
    if candidates == 16:
        assert value > 0.99 * best


def test_a_sparse_assignment_of_equal_vectors_comes_to_an_end() -> None:
    A = np.ones((50, 3))
    # Not enough memory for what is left over either: that is assigned sparsely again.
    found = match_components([A, A], memory=100, candidates=3)
    assert [sorted(column) for column in found.index.T] == [list(range(50))] * 2
    assert found.stability.sum() == pytest.approx(50, abs=1e-3)


def test_the_memory_decides_between_dense_and_sparse(rng: np.random.Generator) -> None:
    runs, orders = planted(rng, (60, 60))
    enough, less = 8 * 60 * 60, 8 * 60 * 60 - 1
    dense, sparse = match_components(runs, memory=enough), match_components(runs, memory=less)
    assert (dense.methods, dense.gap) == (("dense",), 0.0)
    assert sparse.methods == ("sparse",)
    assert 0 <= sparse.gap < 0.01
    np.testing.assert_array_equal(atoms_of(sparse, orders), atoms_of(dense, orders))


# All runs


@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("sizes", [(50, 50), (50, 50, 50), (30,) * 6, (30, 45, 60), (60, 45)])
def test_planted_permutations_are_recovered_exactly(
    rng: np.random.Generator, sizes: tuple[int, ...], signed: bool
) -> None:
    runs, orders = planted(rng, sizes, signed=signed)
    found = match_components(runs, signed=signed)
    atoms = atoms_of(found, orders)
    named = atoms.max(axis=1)
    np.testing.assert_array_equal(np.where(atoms >= 0, named[:, None], -1), atoms)
    # Every atom of two runs or more has a component, with a member in each run that has it.
    expected = [sum(size > atom for size in sizes) for atom in range(max(sizes))]
    assert sorted(named) == [atom for atom, count in enumerate(expected) if count > 1]
    np.testing.assert_array_equal((atoms >= 0).sum(axis=1), np.array(expected)[named])
    assert found.fraction == 1.0
    assert found.replicates.sum() == min(sizes)


@pytest.mark.parametrize("kind", ["atoms", "activations"])
def test_signs_turn_members_the_same_way(rng: np.random.Generator, kind: str) -> None:
    runs, _ = planted(rng, (12, 12, 12), d=200, signed=False)
    given = runs if kind == "atoms" else [run.T for run in runs]
    found = match_components(given, kind=kind, signed=False)
    assert (found.sign[:, 0] == 1).all()
    for component, signs in zip(found.index, found.sign):
        turned = np.stack([s * run[i] for s, run, i in zip(signs, runs, component)])
        assert (np.corrcoef(turned) > 0.8).all()


def test_matches_compose_around_every_circle(rng: np.random.Generator) -> None:
    """Noise so large that the best matches of pairs contradict each other; ours cannot."""
    runs, _ = planted(rng, (40,) * 4, d=10, noise=1.5)
    found = match_components(runs)
    assert (found.index >= 0).all()
    for column in found.index.T:
        assert sorted(column) == list(range(40))

    def to(r: int, s: int) -> NDArray[np.intp]:
        out = np.empty(40, np.intp)
        out[found.index[:, r]] = found.index[:, s]
        return out

    def best(r: int, s: int) -> NDArray[np.intp]:
        S = unit(runs[r]) @ unit(runs[s]).T
        return linear_sum_assignment(S, maximize=True)[1]

    for r, s, t in permutations(range(4), 3):
        np.testing.assert_array_equal(to(s, t)[to(r, s)], to(r, t))
    assert any(
        (best(s, t)[best(r, s)] != best(r, t)).any() for r, s, t in permutations(range(4), 3)
    )


@pytest.mark.parametrize("signed", [True, False])
def test_no_run_can_be_matched_better_to_the_others(rng: np.random.Generator, signed: bool) -> None:
    """The optimality condition of coordinate ascent, with all assignments made anew by SciPy."""
    runs = [unit(rng.normal(size=(size, 6))) for size in (20, 25, 25)]
    found = match_components(runs, signed=signed)
    # Of the 25 components some may have one member, and are not reported.
    assert len(found) >= 20
    for r, run in enumerate(runs):
        others = np.zeros((len(found), 6))
        for s, other in enumerate(runs):
            if s != r:
                there = found.index[:, s] >= 0
                others[there] += found.sign[there, s, None] * other[found.index[there, s]]
        there = np.flatnonzero(found.index[:, r] >= 0)
        S = run[found.index[there, r]] @ others.T
        S = S if signed else np.abs(S)
        a, b = linear_sum_assignment(S, maximize=True)
        assert S[np.arange(len(there)), there].sum() >= S[a, b].sum() * (1 - 1e-5)


def test_more_runs_help_to_match_what_two_cannot(rng: np.random.Generator) -> None:
    """With much noise a run is matched better to the mean of many runs than to any one of them."""
    runs, orders = planted(rng, (80,) * 10, d=20, noise=0.9)
    found = match_components(runs)
    right = (atoms_of(found, orders)[:, 0] == atoms_of(found, orders)[:, 1]).mean()
    pair = match_components(runs[:2])
    alone = (atoms_of(pair, orders)[:, 0] == atoms_of(pair, orders)[:, 1]).mean()
    assert right > alone + 0.05


def test_two_runs_are_the_optimal_assignment(rng: np.random.Generator) -> None:
    A, B = rng.normal(size=(90, 12)), rng.normal(size=(70, 12))
    S = unit(A).astype(np.float64) @ unit(B).T
    a, b = linear_sum_assignment(S, maximize=True)
    found = match_components([A, B])
    assert {tuple(pair) for pair in found.index} == set(zip(a, b))
    close(found.stability.sum(), S[a, b].sum(), 1e-4)
    assert found.sweeps == 0


# Stability and its intervals


def cosines(runs: list[Array], found: Components, component: int) -> Array:
    members = np.stack(
        [
            sign * run[i] / np.linalg.norm(run[i])
            for run, i, sign in zip(runs, found.index[component], found.sign[component])
            if i >= 0
        ]
    )
    return members @ members.T


@pytest.mark.parametrize("signed", [True, False])
def test_stability_and_its_interval_are_their_formulas(
    rng: np.random.Generator, signed: bool
) -> None:
    runs, _ = planted(rng, (20, 30, 30, 30), noise=0.5, signed=signed)
    found = match_components(runs, signed=signed)
    assert (np.diff(found.stability) <= 0).all()
    for c in range(len(found)):
        G = cosines(runs, found, c)
        k = len(G)
        pairs = G[np.triu_indices(k, 1)]
        assert found.stability[c] == pytest.approx(pairs.mean(), abs=1e-6)
        there = found.index[c] >= 0
        close(found.similarity[c, there], (G.sum(axis=1) - 1) / (k - 1), 1e-6)
        without = [np.delete(np.delete(G, r, 0), r, 1) for r in range(k)]
        means = np.array([H[np.triu_indices(k - 1, 1)].mean() for H in without])
        low, high = jackknife_interval(pairs.mean(), means, floor=-1.0)
        close(found.interval[c], [low, min(high, 1.0)], 1e-5)
    assert np.isnan(found.similarity[found.index < 0]).all()


def test_components_of_two_members_have_no_interval(rng: np.random.Generator) -> None:
    runs, _ = planted(rng, (20, 30, 30))
    found = match_components(runs)
    two = (found.index >= 0).sum(axis=1) == 2
    assert two.sum() == 10
    assert np.isnan(found.interval[two]).all()
    assert not np.isnan(found.interval[~two]).any()
    assert match_components(runs[:2]).fraction_interval is None


def test_intervals_cover_the_stability_that_more_runs_have(seed: int) -> None:
    """Runs are draws: 95 % intervals from four runs hold the mean over many nearly as often."""
    rng = np.random.default_rng(seed)
    d, noise, hit, count = 50, 0.6, 0, 0
    expected = 1 / (1 + noise**2)  # of a noisy copy with another, at these lengths
    for _ in range(10):
        runs, _ = planted(rng, (40,) * 4, d=d, noise=noise)
        found = match_components(runs)
        inside = (found.interval[:, 0] <= expected) & (expected <= found.interval[:, 1])
        hit, count = hit + inside.sum(), count + len(found)
    assert 0.8 < hit / count <= 1.0


def test_the_interval_of_the_fraction_leaves_out_one_run_at_a_time(
    rng: np.random.Generator,
) -> None:
    runs, _ = planted(rng, (40,) * 4, noise=1.0)
    found = match_components(runs, threshold=0.5)
    G = [cosines(runs, found, c) for c in range(40)]

    def share(chosen: list[int]) -> float:
        parts = [g[np.ix_(chosen, chosen)] for g in G]
        means = [(p.sum(axis=1) - 1) / (len(chosen) - 1) for p in parts]
        return float(np.mean([(m >= 0.5).all() for m in means]))

    assert 0 < found.fraction < 1
    assert found.fraction == pytest.approx(share([0, 1, 2, 3]))
    without = np.array([share([s for s in range(4) if s != r]) for r in range(4)])
    low, high = jackknife_interval(found.fraction, without, floor=0.0)
    close(found.fraction_interval, [low, min(high, 1.0)], 1e-9)


def test_a_component_that_one_run_lacks_does_not_replicate(rng: np.random.Generator) -> None:
    runs, orders = planted(rng, (30,) * 4, d=60)
    runs[2][orders[2] == 7] = rng.normal(size=60)
    found = match_components(runs)
    broken = atoms_of(found, orders).max(axis=1) == 7
    assert broken.sum() == 1
    np.testing.assert_array_equal(found.replicates, ~broken)
    np.testing.assert_array_equal(found.passes[broken][0], [True, True, False, True])
    assert found.fraction == pytest.approx(29 / 30)


def test_a_threshold_takes_the_place_of_chance(rng: np.random.Generator) -> None:
    runs, _ = planted(rng, (30, 30), noise=0.7)
    found = match_components(runs, threshold=0.7)
    np.testing.assert_array_equal(found.replicates, found.stability >= 0.7)
    assert 0 < found.fraction < match_components(runs).fraction


# Chance


@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize(("d", "m"), [(2, 5), (8, 30), (100, 300)])
def test_the_law_of_the_best_cosine_is_that_of_random_atoms(
    rng: np.random.Generator, d: int, m: int, signed: bool
) -> None:
    X = rng.normal(size=(4000, m, d)) if d < 100 else None
    if X is None:
        # The first coordinate of a random direction is its cosine with a fixed one.
        first = rng.normal(size=(4000, m))
        cosine = first / np.sqrt(first**2 + rng.chisquare(d - 1, size=first.shape))
    else:
        cosine = X[:, :, 0] / np.linalg.norm(X, axis=2)
    best = (cosine if signed else np.abs(cosine)).max(axis=1)
    assert (best <= best_median(d, m, signed)).mean() == pytest.approx(0.5, abs=0.03)
    for level in (0.1, 0.9):
        x = np.quantile(best, level)
        assert best_tail(x, d, m, signed) == pytest.approx(1 - level, abs=0.02)


def test_the_tail_of_a_cosine_is_a_beta_law() -> None:
    x = np.array([-0.9, -0.2, 0.0, 0.1, 0.5, 0.99])
    two_sided = beta.sf(x**2, 0.5, 9 / 2)
    close(cosine_tail(x, 10, True), np.where(x > 0, two_sided / 2, 1 - two_sided / 2), 1e-12)
    close(cosine_tail(x[3:], 10, False), two_sided[3:], 1e-12)
    close(cosine_tail(x[:3], 10, False), [1, 1, 1], 0)
    # In the plane the angle is uniform.
    close(cosine_tail(np.array([np.cos(0.3)]), 2, True), [0.3 / np.pi], 1e-12)


def test_false_discoveries_are_controlled_as_benjamini_and_hochberg_do(
    rng: np.random.Generator,
) -> None:
    p = np.concatenate([rng.uniform(size=300) ** 4, rng.uniform(size=700)])
    rejected = p <= discovery_cut(p, 0.1)
    expected = [
        any(p_i <= 0.1 * rank / len(p) for rank in [np.count_nonzero(p <= p_i)]) for p_i in p
    ]
    largest = max(p[expected])
    np.testing.assert_array_equal(rejected, p <= largest)
    assert discovery_cut(np.array([0.5, 0.9]), 0.1) < 0


@pytest.mark.long
@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("k", [2, 3, 5])
@pytest.mark.parametrize(("m", "d"), [(20, 8), (150, 40)])
def test_random_atoms_do_not_replicate(
    rng: np.random.Generator, m: int, d: int, k: int, signed: bool
) -> None:
    found = match_components([rng.normal(size=(m, d)) for _ in range(k)], signed=signed)
    assert found.replicates.sum() <= 1
    assert (found.p_values < 0.05).mean() < 0.05 + 3 * (0.05 / m) ** 0.5
    # At the level of chance for two runs, and below it for more.
    assert found.stability.mean() < found.chance_level.mean()
    assert found.stability.mean() > 0.6 * found.chance_level.mean()
    close(found.chance_level.mean(), best_median(d, m, signed), 0.12)


def test_random_atoms_give_any_discovery_as_often_as_was_asked_for(
    rng: np.random.Generator,
) -> None:
    runs = ([rng.normal(size=(40, 20)) for _ in range(2)] for _ in range(60))
    assert sum(match_components(pair, fdr=0.1).replicates.any() for pair in runs) <= 14


def test_false_discoveries_among_planted_ones(rng: np.random.Generator) -> None:
    atoms, wrong, right = rng.normal(size=(150, 64)), 0, 0
    for _ in range(5):
        runs = []
        for _ in range(2):
            run = rng.normal(size=(300, 64))
            run[:150] = atoms + 0.5 * run[:150]
            runs.append(run)
        found = match_components(runs)
        real = (found.index[:, 0] == found.index[:, 1]) & (found.index[:, 0] < 150)
        wrong += np.count_nonzero(found.replicates & ~real)
        right += np.count_nonzero(found.replicates & real)
    assert right == 5 * 150
    assert wrong / (wrong + right) < 0.05


def test_chance_is_that_of_the_dimensions_that_atoms_fill(rng: np.random.Generator) -> None:
    """Random atoms of a 12-dimensional subspace of R^200 match as in R^12, not as in R^200."""
    basis = np.linalg.qr(rng.normal(size=(200, 12)))[0]
    runs = [rng.normal(size=(300, 12)) @ basis.T for _ in range(2)]
    found = match_components(runs)
    close(found.chance_level.mean(), best_median(12, 300, True), 0.03)
    assert best_median(200, 300, True) < 0.25
    assert found.replicates.sum() <= 1


def test_chance_knows_of_a_direction_that_all_atoms_share(rng: np.random.Generator) -> None:
    shared = np.zeros(100)
    shared[0] = 10.0
    runs = [rng.normal(size=(200, 100)) + shared for _ in range(2)]
    found = match_components(runs)
    assert found.stability.mean() > 0.55  # half of it the shared direction's
    assert found.replicates.sum() <= 1
    assert found.chance_level.mean() == pytest.approx(found.stability.mean(), abs=0.05)


def test_random_axes_of_a_basis_have_the_chance_of_random_directions(
    rng: np.random.Generator,
) -> None:
    """Orthogonal atoms: those that a component has not matched say nothing about its direction."""
    turn = np.linalg.qr(rng.normal(size=(30, 30)))[0]
    found = match_components([np.eye(30), turn], signed=False)
    close(found.chance_level, np.full(30, best_median(30, 30, False)), 0.02)
    assert found.replicates.sum() <= 1
    assert match_components([turn, turn[::-1]], signed=False).fraction == 1.0


# Dictionaries whose atoms are no random directions

KINDS = ("gaussian", "sparse", "sparse positive", "student", "profile", "massive", "mixed")


def atoms_like(kind: str, rng: np.random.Generator, m: int, d: int) -> Array:
    """Unit atoms of one kind; two draws share nothing but what they look like."""
    X = rng.normal(size=(m, d))
    if kind == "sparse":
        X *= rng.random((m, d)) < 0.05
    elif kind == "sparse positive":
        X = np.abs(X) * (rng.random((m, d)) < 5 / d)
    elif kind == "student":
        X = rng.standard_t(2, size=(m, d))
    elif kind == "profile":  # some coordinates are large in all atoms
        X *= np.exp(0.8 * np.random.default_rng(99).normal(size=d))
    elif kind == "massive":  # one coordinate is huge in some atoms
        X[:, 7] *= np.where(rng.random(m) < 0.1, 20, 1)
    elif kind == "mixed":  # a tenth of the atoms is sparse
        X[: m // 10] *= rng.random((m // 10, d)) < 0.01
    X[np.arange(m), rng.integers(d, size=m)] += 1e-9  # no atom of zeros
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def half_shared(kind: str, rng: np.random.Generator, m: int, d: int) -> list[Array]:
    """Two runs whose first half are one dictionary's, with noise of a third of their norm."""
    shared, runs = atoms_like(kind, rng, m // 2, d), []
    for _ in range(2):
        noise = rng.normal(size=shared.shape)
        noise /= 3 * np.linalg.norm(noise, axis=1, keepdims=True)
        noisy = shared + (np.abs(noise) if "positive" in kind else noise)
        runs.append(np.concatenate([noisy, atoms_like(kind, rng, m - m // 2, d)]))
    return runs


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_independent_dictionaries_of_any_kind_do_not_replicate(
    rng: np.random.Generator, kind: str
) -> None:
    runs = [atoms_like(kind, rng, 300, 256) for _ in range(2)]
    found = match_components(runs)
    assert found.fraction <= 0.05
    assert found.stability.mean() < found.chance_level.mean() * 1.02
    passing = {null.name: null.passing for null in found.nulls}
    assert len(passing) == 3
    assert found.null == min(passing, key=lambda name: passing[name])
    # What the other nulls are for.
    if kind in ("sparse", "sparse positive", "student"):
        assert passing["random directions"] > 0.2
    if kind == "profile":
        assert passing["entries permuted within atoms"] > 0.5


@pytest.mark.parametrize("kind", KINDS)
def test_shared_atoms_of_any_kind_are_found(rng: np.random.Generator, kind: str) -> None:
    found = match_components(half_shared(kind, rng, 300, 256))
    real = (found.index[:, 0] == found.index[:, 1]) & (found.index[:, 0] < 150)
    # Atoms of one to three coordinates come together by chance, and cannot be told from that.
    least = 0.6 if kind == "sparse positive" else 0.95
    assert np.count_nonzero(found.replicates & real) >= least * 150
    assert np.count_nonzero(found.replicates & ~real) <= 0.08 * found.replicates.sum()


@pytest.mark.slow
@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_false_discoveries_and_power_over_seeds(kind: str, signed: bool) -> None:
    false, wrong, right, count = [], 0, 0, 0
    for seed in range(5):
        rng = np.random.default_rng(seed)
        runs = [atoms_like(kind, rng, 400, 256) for _ in range(2)]
        false.append(match_components(runs, signed=signed, seed=seed).fraction)
        found = match_components(half_shared(kind, rng, 400, 256), signed=signed, seed=seed)
        real = (found.index[:, 0] == found.index[:, 1]) & (found.index[:, 0] < 200)
        right += np.count_nonzero(found.replicates & real)
        wrong += np.count_nonzero(found.replicates & ~real)
        count += 200
    assert max(false) <= 0.05
    assert np.mean(false) <= 0.02
    assert right / count > (0.6 if kind == "sparse positive" else 0.95)
    assert wrong / (wrong + right) < 0.05


def test_atoms_on_coordinates_match_by_chance() -> None:
    """Two sets of coordinate axes agree however they came about: no permutation tells them."""
    found = match_components([np.eye(30), np.eye(30)[::-1]], signed=False)
    assert found.fraction == 0.0
    assert found.pw_mcc == found.pw_mcc_chance == 1.0


def test_permutations_keep_what_they_say(rng: np.random.Generator) -> None:
    X = unit(np.abs(rng.standard_t(2, size=(40, 30))) * (rng.random((40, 30)) < 0.3))
    X[3] = 0.0
    within = within_atoms(X, rng)
    np.testing.assert_array_equal(np.sort(within, axis=1), np.sort(X, axis=1))
    assert (within != X).any(axis=1).sum() > 30
    mixed = within_coordinates(X, rng)
    norms = np.linalg.norm(mixed, axis=1)
    assert np.all((np.abs(norms - 1) < 1e-5) | (norms == 0))
    np.testing.assert_array_equal((mixed > 0).sum(axis=0), (X > 0).sum(axis=0))


def test_the_tail_is_counted_and_never_lighter_than_exponential(rng: np.random.Generator) -> None:
    draws = np.sort(rng.exponential(size=400))
    x = np.quantile(draws, [0.1, 0.5, 0.9])
    close(upper_tail(draws, x), [0.9, 0.5, 0.1], 0.01)
    far = upper_tail(draws, np.array([12.0]))[0]
    assert np.exp(-12) / 30 < far < np.exp(-12) * 300
    x = np.linspace(0, 15, 500)
    assert (np.diff(upper_tail(draws, x)) <= 1e-12).all()
    # One draw far out makes the tail heavy; an exponential through many of them would miss it.
    heavy = np.sort(np.append(draws[:-1], 40.0))
    assert upper_tail(heavy, np.array([40.0]))[0] >= 1 / 401
    assert upper_tail(heavy, np.array([41.0]))[0] > 1e-5
    assert (upper_tail(np.ones(50), np.array([1.0, 1.0 - 1e-7])) > 0.9).all()


def test_p_values_of_permuted_entries_are_uniform_at_chance() -> None:
    """Over independent pairs of sparse runs: 5 % are below 5 %, by the null that is right."""
    small = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        found = match_components([atoms_like("sparse", rng, 120, 128) for _ in range(2)])
        small.append((found.p_values < 0.05).mean())
    assert np.mean(small) < 0.05


# Two runs at a time, and spans


@pytest.mark.parametrize("signed", [True, False])
def test_pw_mcc_is_the_mean_over_optimal_assignments(
    rng: np.random.Generator, signed: bool
) -> None:
    runs, _ = planted(rng, (20, 30, 30), noise=0.8, signed=signed)
    values = []
    for a, b in combinations(runs, 2):
        S = unit(a).astype(float) @ unit(b).T
        S = S if signed else np.abs(S)
        rows, columns = linear_sum_assignment(S, maximize=True)
        values.append(S[rows, columns].mean())
    found = match_components(runs, signed=signed)
    assert found.pw_mcc == pytest.approx(np.mean(values), abs=1e-5)
    pair = match_components(runs[:2], signed=signed)
    assert pair.pw_mcc == pytest.approx(values[0], abs=1e-5)
    assert found.pw_mcc_chance == pytest.approx(np.nanmean(found.chance))


def test_pw_mcc_of_unrelated_runs_is_at_most_its_chance(rng: np.random.Generator) -> None:
    for kind in ("gaussian", "student"):
        found = match_components([atoms_like(kind, rng, 200, 64) for _ in range(3)])
        assert 0.8 * found.pw_mcc_chance < found.pw_mcc < found.pw_mcc_chance


@pytest.mark.parametrize("signed", [True, False])
def test_a_best_match_is_unique_if_no_other_has_it(rng: np.random.Generator, signed: bool) -> None:
    runs = [unit(rng.normal(size=(size, 5))) for size in (12, 20, 15)]
    expected = np.zeros(3)
    for r, s in permutations(range(3), 2):
        S = runs[r] @ runs[s].T
        best = list((S if signed else np.abs(S)).argmax(axis=1))
        expected[r] += sum(best.count(choice) == 1 for choice in best) / len(best) / 2
    found = match_components(runs, signed=signed)
    close([run.unique for run in found.runs], expected, 1e-12)
    assert found.unique == pytest.approx(expected.mean())
    # Vectors that choose at random among q, of m: (1 − 1/q)^(m−1).
    pairs = [(12, 20), (12, 15), (20, 12), (20, 15), (15, 12), (15, 20)]
    assert found.unique_chance == pytest.approx(np.mean([(1 - 1 / q) ** (m - 1) for m, q in pairs]))
    # Every atom split into two: of the finer run none is unique, of the coarser one all may be.
    fine = np.repeat(runs[0], 2, axis=0) + 1e-3 * rng.normal(size=(24, 5))
    split = match_components([fine, runs[0]], signed=signed)
    assert [run.unique for run in split.runs] == [0.0, 1.0]


def spans(rng: np.random.Generator, d: int = 60, k: int = 4) -> list[Array]:
    """Two runs of 40 atoms in one span of k directions, all others without a span."""
    basis = np.linalg.qr(rng.normal(size=(d, k)))[0].T
    made = [rng.normal(size=(40, k)) @ basis + 0.05 * rng.normal(size=(40, d)) for _ in range(2)]
    return [unit(np.concatenate([run, rng.normal(size=(20, d))])) for run in made]


def span_of(runs: Sequence[Array], seed: int = 0) -> Subspace | None:
    """The shared span of all atoms: the threshold is one that none of them reaches."""
    found = match_components(runs, threshold=1.0, seed=seed)
    assert not found
    return found.subspace


def test_a_span_that_recurs_where_atoms_do_not(rng: np.random.Generator) -> None:
    runs = spans(rng)
    span = span_of(runs)
    assert span is not None
    assert (span.directions, span.atoms, span.uniform) == (4, (60, 60), 4 / 60)
    assert span.overlap > 0.8
    assert span.chance == pytest.approx(4 / 60, abs=0.1)
    assert span.recurs
    # The overlap by another route: principal angles.
    bases = [np.linalg.svd(run.astype(float))[2][:4] for run in runs]
    cosines = np.linalg.svd(bases[0] @ bases[1].T, compute_uv=False)
    assert span.overlap == pytest.approx(np.mean(cosines**2), abs=1e-6)
    # More atoms than coordinates, and fewer, are the same.
    wide = [np.concatenate([run, np.zeros((60, 100), np.float32)], axis=1) for run in runs]
    other = span_of(wide)
    assert other is not None
    assert other.overlap == pytest.approx(span.overlap, abs=1e-5)


def test_spans_that_have_nothing_to_do_with_each_other(rng: np.random.Generator) -> None:
    apart = span_of([spans(rng)[0], spans(rng)[0]])
    assert apart is not None
    assert apart.overlap < 0.3
    assert span_of([rng.normal(size=(50, 60)) for _ in range(2)]) is None
    assert span_of([rng.normal(size=(1, 60)) for _ in range(2)]) is None
    identical = match_components([np.linalg.qr(rng.normal(size=(30, 30)))[0]] * 2)
    assert identical.subspace is None  # no atom is left over


@pytest.mark.parametrize("kind", ["profile", "massive"])
def test_large_coordinates_are_no_shared_span(kind: str) -> None:
    """Leading directions along coordinates that are large in all atoms overlap, and mean little."""
    recur = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        runs = [unit(atoms_like(kind, rng, 150, 60)) for _ in range(2)]
        span = span_of(runs, seed)
        assert span is not None
        assert span.chance > 0.5 > 2 * span.uniform or kind == "profile"
        recur.append(span.recurs)
    assert sum(recur) <= 2


# Activations


def sources(rng: np.random.Generator, rows: int = 600, m: int = 10, k: int = 3) -> list[Array]:
    S = rng.laplace(size=(rows, m))
    return [
        5 + (S[:, rng.permutation(m)] + 0.3 * rng.normal(size=S.shape)) * rng.choice([-2, 1], m)
        for _ in range(k)
    ]


def test_activations_are_matched_by_their_correlations(rng: np.random.Generator) -> None:
    runs = sources(rng)
    found = match_components(runs, kind="activations")
    C = np.corrcoef(np.concatenate(runs, axis=1).T)
    for c in range(len(found)):
        rows = found.index[c] + 10 * np.arange(3)
        G = C[np.ix_(rows, rows)] * np.outer(found.sign[c], found.sign[c])
        close(found.similarity[c], (G.sum(axis=1) - 1) / 2, 1e-6)
        assert found.stability[c] == pytest.approx(np.abs(C[np.ix_(rows, rows)]).sum() / 6 - 0.5)
    assert found.fraction == 1.0
    assert found.settings.signed is False


def test_activations_are_the_same_from_files_and_in_little_memory(
    rng: np.random.Generator, tmp_path: Path
) -> None:
    runs = sources(rng, rows=5000)
    paths = [tmp_path / f"{number}.npy" for number in range(3)]
    for path, run in zip(paths, runs):
        np.save(path, run)
    whole = match_components(runs, kind="activations")
    read = match_components(paths, kind="activations", memory=10_000)
    np.testing.assert_array_equal(read.index, whole.index)
    close(read.similarity, whole.similarity, 1e-6)
    close(read.chance_level, whole.chance_level, 1e-6)
    assert read.runs[0].name == "0"


def test_activations_far_from_zero_keep_their_digits(rng: np.random.Generator) -> None:
    runs = sources(rng, m=4, k=2)
    far = [run + 1e7 for run in runs]
    near, moved = (match_components(some, kind="activations") for some in (runs, far))
    np.testing.assert_array_equal(near.index, moved.index)
    close(moved.stability, near.stability, 1e-6)


def test_chance_of_correlations_comes_from_shuffled_rows(rng: np.random.Generator) -> None:
    """For independent Gaussian rows it is the law of cosines in n − 1 dimensions."""
    runs = [rng.normal(size=(300, 25)) for _ in range(2)]
    found = match_components(runs, kind="activations")
    close(found.chance_level, np.full(25, best_median(299, 25, False)), 0.01)
    assert found.replicates.sum() <= 1
    # Rare events coincide by chance far more than Gaussian columns correlate.
    rare = [(rng.uniform(size=(2000, 60)) < 0.004).astype(float) for _ in range(2)]
    rare[0][0] = rare[1][1] = 1.0  # no column without an event
    found = match_components(rare, kind="activations")
    assert (found.chance_level > 1.5 * best_median(1999, 60, False)).all()
    assert found.fraction < 0.05


def test_chance_of_correlations_knows_that_neighbouring_rows_depend_on_each_other(
    rng: np.random.Generator,
) -> None:
    """Columns that change slowly: shuffled row by row, chance would be half of what it is."""
    window = np.ones(8)
    runs = [
        np.apply_along_axis(np.convolve, 0, rng.normal(size=(7007, 12)), window, "valid")
        for _ in range(2)
    ]
    found = match_components(runs, kind="activations")
    assert (found.chance_level > 1.8 * best_median(6999, 12, False)).all()
    assert found.replicates.sum() <= 1


# What may come in


def test_every_form_of_the_same_atoms(rng: np.random.Generator, tmp_path: Path) -> None:
    runs, _ = planted(rng, (20, 25))
    expected = match_components(runs).index
    save_file(
        {"decoder.weight": np.ascontiguousarray(runs[0].T, np.float32)}, tmp_path / "a.safetensors"
    )
    np.save(tmp_path / "b.npy", runs[1].T)
    paths = [f"{tmp_path / 'a.safetensors'}::decoder.weight", tmp_path / "b.npy"]
    from_files = match_components(paths, axis="columns")
    np.testing.assert_array_equal(from_files.index, expected)
    assert [run.name for run in from_files.runs] == ["a::decoder.weight", "b"]
    frames = match_components([pd.DataFrame(run) for run in runs], names=["first", "second"])
    np.testing.assert_array_equal(frames.index, expected)
    assert [run.name for run in frames.runs] == ["first", "second"]
    halves = match_components([run.astype(np.float16) for run in runs])
    np.testing.assert_array_equal(np.sort(halves.index, axis=0), np.sort(expected, axis=0))
    assert [run.name for run in halves.runs] == ["run0", "run1"]


def test_the_scale_of_an_atom_does_not_matter(rng: np.random.Generator) -> None:
    runs, _ = planted(rng, (20, 20))
    scaled = [run * np.logspace(-200, 200, 20)[:, None] for run in runs]
    plain, wild = match_components(runs), match_components(scaled)
    np.testing.assert_array_equal(plain.index, wild.index)
    close(wild.stability, plain.stability, 1e-6)


def test_equal_names_are_told_apart(tmp_path: Path, rng: np.random.Generator) -> None:
    np.save(tmp_path / "a.npy", rng.normal(size=(5, 8)))
    found = match_components([tmp_path / "a.npy"] * 3)
    assert [run.name for run in found.runs] == ["a", "a (2)", "a (3)"]
    close(found.stability, np.ones(5), 1e-6)


def test_zero_atoms_and_constant_columns_are_named_and_left_out(rng: np.random.Generator) -> None:
    runs, orders = planted(rng, (20, 20, 20))
    runs[1][[3, 11]] = 0.0
    found = match_components(runs)
    assert [run.excluded for run in found.runs] == [(), (3, 11), ()]
    assert [run.matched for run in found.runs] == [20, 18, 20]
    assert not np.isin(found.index[:, 1], [3, 11]).any()
    atoms = atoms_of(found, orders)
    assert ((atoms == atoms[:, :1]) | (atoms < 0)).all()
    assert found.fraction == 1.0  # of the 18 that the second run has
    columns = [run.T.copy() for run in runs]
    columns[0][:, 5] = 1e3
    constant = match_components(columns, kind="activations")
    assert [run.excluded for run in constant.runs] == [(5,), (3, 11), ()]
    assert not np.isnan(constant.table["similarity"]).any()


def test_tied_atoms_are_reported(rng: np.random.Generator) -> None:
    runs, _ = planted(rng, (30, 30))
    runs[0][4], runs[0][9], runs[0][20] = 2 * runs[0][7], -runs[0][2], 0.1 * runs[0][7]
    signed, unsigned = (match_components(runs, signed=signed) for signed in (True, False))
    assert [run.tied for run in signed.runs] == [((4, 7, 20),), ()]
    assert [run.tied for run in unsigned.runs] == [((2, 9), (4, 7, 20)), ()]
    columns = match_components([run.T for run in runs], kind="activations")
    assert [run.tied for run in columns.runs] == [((2, 9), (4, 7, 20)), ()]


@pytest.mark.parametrize("signed", [True, False])
def test_atoms_that_are_all_the_same_are_chance(signed: bool) -> None:
    same = [np.ones((6, 5)) * np.arange(1, 7)[:, None] for _ in range(2)]
    found = match_components(same, signed=signed)
    assert found.runs[0].tied == ((0, 1, 2, 3, 4, 5),)
    assert not np.isnan(found.chance).any()
    close(found.stability, np.ones(6), 1e-6)
    assert found.fraction == 0.0


def broken(change) -> list[Array]:
    runs, _ = planted(np.random.default_rng(0), (8, 8, 8), d=6)
    change(runs)
    return runs


def put(runs: list[Array], value: float) -> None:
    runs[1][5, 2] = value


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite(value: float) -> None:
    runs = broken(lambda runs: put(runs, value))
    with pytest.raises(InputError, match=r"'run1' has NaN or infinity in 1 of 8 atoms.* atom 5"):
        match_components(runs)
    with pytest.raises(InputError, match=r"'run1' has NaN or infinity in 1 of 8 rows.* row 5"):
        match_components(runs, kind="activations")


@pytest.mark.parametrize(
    ("runs", "options", "words"),
    [
        (np.ones((4, 3)), {}, "a list of runs, got one ndarray"),
        ("a.npy", {}, "a list of runs, got one str"),
        ([np.eye(3)], {}, r"got 1 run\(s\)"),
        ([np.eye(3)] * 2, {"names": ["a"]}, "expected 2 names, one per run"),
        ([np.eye(3)] * 2, {"names": "ab"}, "expected 2 names"),
        (
            [np.eye(3), np.eye(4)],
            {},
            "'run0' have 3 coordinates.*'run1' have 4.*if they are columns",
        ),
        ([np.eye(3), np.eye(4)], {"axis": "columns"}, "if they are rows"),
        ([np.ones((3, 1))] * 2, {}, "one coordinate are all parallel"),
        ([np.eye(3), np.zeros((2, 3))], {}, "'run1' has no component with a direction: all 2"),
        ([np.eye(3) + 0j, np.eye(3)], {}, "complex128"),
        ([np.eye(3), [["a", "b"]]], {}, "real numbers"),
        ([np.eye(3), np.ones(3)], {}, "1-D"),
        ([np.eye(3)] * 2, {"kind": "axes"}, "kind is 'axes'"),
        ([np.eye(3)] * 2, {"axis": "rows", "kind": "activations"}, "axis is for atoms"),
        ([np.eye(3)] * 2, {"axis": 1}, "axis is 1"),
        ([np.eye(3)] * 2, {"threshold": 1.5}, "threshold is 1.5"),
        ([np.eye(3)] * 2, {"fdr": 0.0}, "fdr is 0.0"),
        ([np.eye(3)] * 2, {"assignment": "greedy"}, "assignment is 'greedy'"),
        ([np.eye(3)] * 2, {"candidates": 0}, "candidates is 0"),
        ([np.eye(3), np.eye(4)], {"kind": "activations"}, "3 rows and run 'run1' has 4"),
        ([np.eye(2)] * 2, {"kind": "activations"}, "three rows or more, not 2"),
        ([np.eye(3), np.ones((3, 2))], {"kind": "activations"}, "'run1' has no component"),
    ],
)
def test_wrong_input_is_named(runs: object, options: dict, words: str) -> None:
    with pytest.raises(InputError, match=words):
        match_components(runs, **options)


# The result


@pytest.fixture(scope="module")
def uneven() -> Components:
    rng = np.random.default_rng(0)
    runs, _ = planted(rng, (20, 30, 30), noise=0.6, signed=False)
    runs[0][3] = 0.0
    return match_components(runs, signed=False, names=["a", "b", "<c>"])


def test_the_table_has_a_row_a_member_and_no_nan(uneven: Components) -> None:
    table = uneven.table
    assert len(table) == (uneven.index >= 0).sum()
    assert not np.isnan(table[["similarity", "chance", "p_value", "stability"]].to_numpy()).any()
    assert table["low"].isna().sum() == 2 * ((uneven.index >= 0).sum(axis=1) == 2).sum()
    whole = int(np.flatnonzero((uneven.index >= 0).all(axis=1))[0])
    members = table[table["component"] == whole]
    assert list(members["run"]) == ["a", "b", "<c>"]
    assert list(members["index"]) == list(uneven.index[whole])
    close(members["similarity"].mean(), uneven.stability[whole], 1e-9)
    assert list(table["run"].value_counts()[["a", "b", "<c>"]]) == [
        run.matched for run in uneven.runs
    ]
    two = match_components([np.eye(4), np.eye(4)]).table
    assert "low" not in two.columns


def test_the_document_is_strict_json_and_says_all(uneven: Components, tmp_path: Path) -> None:
    uneven.save(tmp_path / "found.json")
    document = json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))
    assert document == uneven.to_dict()
    assert document["runs"][0]["excluded"] == [3]
    assert document["replicating"]["of"] == 19
    assert document["replicating"]["components"] == uneven.replicates.sum()
    assert document["settings"]["signed"] is False
    assert len(document["components"]) == len(uneven)
    absent = [c for c in document["components"] if c["interval"] is None]
    assert {len(c["members"]) for c in absent} == {2}
    assert document["assignment"] == {"methods": ["dense"], "gap": 0.0, "sweeps": uneven.sweeps}


def test_the_result_does_not_depend_on_the_order_of_runs(rng: np.random.Generator) -> None:
    runs, _ = planted(rng, (30,) * 3, noise=0.5)
    one, other = match_components(runs), match_components(runs[::-1])
    assert {tuple(row) for row in one.index} == {tuple(row[::-1]) for row in other.index}
    close(np.sort(one.stability), np.sort(other.stability), 1e-6)


def test_the_figure_counts_every_component(uneven: Components) -> None:
    from matplotlib.figure import Figure

    before = "matplotlib.pyplot" in sys.modules
    figure = stability_figure(uneven)
    assert isinstance(figure, Figure)
    assert ("matplotlib.pyplot" in sys.modules) == before
    (ax,) = figure.axes
    heights = [patch.get_height() for container in ax.containers for patch in container]
    assert sum(heights) == len(uneven)
    lines = [line.get_xdata()[0] for line in ax.lines]
    assert lines == [pytest.approx(np.median(uneven.chance_level))]
    limited = match_components([np.eye(4), np.eye(4)], threshold=0.7)
    assert [line.get_xdata()[0] for line in stability_figure(limited).axes[0].lines][1] == 0.7


# The verb


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    runs, _ = planted(np.random.default_rng(0), (30, 30, 30))
    runs[1][4], runs[2][:9] = 0.0, runs[2][9]
    for name, run in zip("abc", runs):
        np.save(f"{name}.npy", run)
    return tmp_path


def run_verb(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["components", *arguments])


def test_the_verb_says_what_comes_back(folder: Path) -> None:
    result = run_verb("a.npy", "b.npy", "--quiet")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("29 components have a match above chance in all 2 runs")
    said = " ".join(result.stdout.split())
    assert "100.0% of what the smallest run has" in said
    assert re.search(r"at a mean cosine of 0\.9\d where chance has 0\.\d\d", said)
    assert re.search(r"\(PW-MCC\) of 0\.\d\d, by chance at most 0\.\d\d; \d+% have a best", said)
    assert "strictest of 3 nulls" in said
    assert "entries permuted within atoms, level 0." in said
    assert "b, zero or constant, left out: 1 (4)" in result.stdout
    assert "mean cosine, with its sign" in result.stdout
    assert "candidates" not in result.stdout
    result = run_verb("a.npy", "c.npy", "--memory", "1KB", "--unsigned", "--threshold", "0.7", "-q")
    assert "c, equal to another, matched by chance: 10 (0, 1, 2, 3, 4, 5, 6, 7, …)" in result.stdout
    assert "among the nearest candidates" in result.stdout
    assert "up to the sign" in result.stdout
    assert "each member with a cosine of 0.7 or more, at a mean" in result.stdout.replace("\n", " ")


def test_a_share_is_said_with_its_strength(rng: np.random.Generator) -> None:
    S = rng.normal(size=(400, 30))
    runs = [S + 0.9 * rng.normal(size=S.shape) for _ in range(2)]
    found = match_components(runs, kind="activations")
    assert found.fraction == 1.0
    assert found.subspace is None
    assert re.search(r"at a mean correlation of 0\.5\d where chance has 0\.1\d", found.summary())
    assert "false-discovery rate of 0.05, a low bar: 0 of them reach 0.9." in found.summary()
    nothing = match_components([rng.normal(size=(30, 20)) for _ in range(2)])
    assert nothing.summary().startswith(
        "0 components have a match above chance in all 2 runs: 0.0% of what the smallest run has. "
        "Above chance is at a false-discovery rate of 0.05. Matched"
    )
    left = match_components(spans(rng), threshold=0.999)
    assert "The 4 leading directions of atoms that do not come back overlap by 0." in left.summary()
    assert left.summary().endswith("their span is shared.")
    assert "span 0." in stability_figure(left).axes[0].get_xlabel()
    document = left.to_dict()
    assert document["subspace"]["recurs"] is True
    assert document["pw_mcc"] == {"value": left.pw_mcc, "chance": left.pw_mcc_chance}
    assert document["unique"] == {"value": left.unique, "chance": left.unique_chance}
    assert document["chance"]["null"] == left.null
    assert len(document["chance"]["nulls"]) == 3
    assert document["runs"][0]["unique"] == left.runs[0].unique
    json.dumps(document, allow_nan=False)


def test_the_verb_writes_json_and_figures(folder: Path) -> None:
    result = run_verb("a.npy", "b.npy", "c.npy", "--json", "-o", "o.json", "--figure", "f.svg")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert document == json.loads(Path("o.json").read_text(encoding="utf-8"))
    assert "wrote o.json\nwrote f.svg" in result.stderr
    assert "<svg" in Path("f.svg").read_text(encoding="utf-8")
    assert run_verb("a.npy", "b.npy", "--figure", "f.png", "-q").exit_code == 0
    assert Path("f.png").read_bytes().startswith(b"\x89PNG")
    options = ["--activations", "--names", "x,y", "--json"]
    named = json.loads(run_verb("a.npy", "b.npy", *options).stdout)
    assert [run["name"] for run in named["runs"]] == ["x", "y"]
    assert (named["settings"]["kind"], named["settings"]["signed"]) == ("activations", False)
    columns = json.loads(run_verb("a.npy", "b.npy", "--axis", "columns", "--json").stdout)
    assert columns["runs"][0]["atoms"] == 40


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["a.npy"], "got 1 run(s)"),
        (["a.npy", "nope.npy"], "there is no such file"),
        (["a.npy", "b.npy", "--figure", "f.txt"], "--figure f.txt has the suffix '.txt'"),
        (["a.npy", "b.npy", "--figure", "f.svg", "-o", "f.svg"], "are both f.svg"),
        (["a.npy", "b.npy", "-o", "a.npy"], "a.npy is one of the inputs"),
        (["a.npy", "b.npy", "--figure", "no/f.svg"], "there is no directory no"),
        (["a.npy", "b.npy", "--memory", "lots"], "--memory is 'lots'"),
    ],
)
def test_what_the_verb_refuses(folder: Path, arguments: list[str], words: str) -> None:
    result = run_verb(*arguments)
    assert result.exit_code == 2
    assert words in result.stderr.replace("\n", " ")
    assert result.stdout == ""


def test_the_verb_loads_nothing_heavy_for_its_help() -> None:
    code = (
        "import sys, identikit.cli\n"
        "print(sorted({'numpy', 'scipy', 'pandas', 'matplotlib', 'rich'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "numpy" not in done.stdout
    assert "scipy" not in done.stdout
