"""Chance levels, corrections, held-out values and the coverage of intervals."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.stats import kstest

import identikit as ik
from identikit.alignment import ladder
from identikit.errors import InputError
from identikit.inference import (
    adjusted_r2,
    cca_chance,
    cca_chance_edge,
    cca_chance_square,
    held_out_cca,
    jackknife_interval,
    mean_of_folds,
)
from identikit.inference._independent import coherence_draw
from identikit.moments import assign_folds

Array = NDArray[np.float64]


def independent(rng: np.random.Generator, n: int, p: int, q: int, folds: int = 1) -> ik.Moments:
    pair = [rng.normal(size=(n, p)), rng.normal(size=(n, q))]
    return ik.accumulate(pair, folds=folds, sample=0)


def correlated(rng: np.random.Generator, n: int, d: int, rho: float, folds: int = 2) -> ik.Moments:
    """Two Gaussian views, every canonical correlation rho."""
    X = rng.normal(size=(n, d))
    Y = rho * X + np.sqrt(1 - rho**2) * rng.normal(size=(n, d))
    return ik.accumulate([X, Y], folds=folds, sample=0)


# Chance levels in closed form.


def wachter_mean(c1: float, c2: float) -> float:
    """∫ √t w(t) dt by adaptive quadrature of the density as it is written in the literature."""
    a, b = np.sqrt(c1 * (1 - c2)), np.sqrt(c2 * (1 - c1))
    low, high = (a - b) ** 2, (a + b) ** 2

    def density(t: float) -> float:
        return float(np.sqrt((high - t) * (t - low)) / (2 * np.pi * c1 * np.sqrt(t) * (1 - t)))

    return float(quad(density, low, high, limit=500, epsabs=1e-10)[0])


@pytest.mark.parametrize(("n", "p", "q"), [(1000, 64, 64), (300, 100, 100), (2000, 700, 700)])
def test_f23_closed_form_is_the_wachter_integral(n: int, p: int, q: int) -> None:
    """F23: the closed form for p = q against quadrature."""
    expected = wachter_mean(p / (n - 1), q / (n - 1))
    assert cca_chance(n, p, q) == pytest.approx(expected, abs=1e-4)


def test_f23_at_one_half() -> None:
    """F23: c = 1/2 gives 2/π exactly."""
    assert cca_chance(201, 100, 100) == pytest.approx(2 / np.pi, abs=1e-12)


@pytest.mark.parametrize(("n", "p", "q"), [(1000, 128, 256), (500, 40, 400), (900, 33, 34)])
def test_unequal_widths_are_the_wachter_integral(n: int, p: int, q: int) -> None:
    expected = wachter_mean(p / (n - 1), q / (n - 1))
    assert cca_chance(n, p, q) == pytest.approx(expected, abs=1e-6)
    assert cca_chance(n, q, p) == cca_chance(n, p, q)


def test_f34_chance_level_of_gpt2() -> None:
    """F34: d = 16, 64, 256, 768 at n = 55 034: .014, .029, .058, .100, each ± .0006."""
    for d, expected in ((16, 0.014), (64, 0.029), (256, 0.058), (768, 0.100)):
        assert cca_chance(55034, d, d) == pytest.approx(expected, abs=0.0006)


def test_f22_table_of_chance_levels() -> None:
    """F22, table 8.2: formula values, and the small widths where the limit law is too high."""
    for d, n, expected in ((64, 1000, 0.216), (64, 10000, 0.068), (100, 300, 0.509)):
        assert cca_chance(n, d, d) == pytest.approx(expected, abs=6e-4)
    for d, n, expected in ((768, 4000, 0.380), (768, 2000, 0.549)):
        assert cca_chance(n, d, d) == pytest.approx(expected, abs=6e-4)
    assert cca_chance(1000, 128, 256) == pytest.approx(0.480, abs=6e-4)
    for d, share in ((2, 0.959), (5, 0.977), (10, 0.984)):
        limit = wachter_mean(d / 999, d / 999)
        assert cca_chance(1000, d, d) / limit == pytest.approx(share, abs=0.01)


@pytest.mark.parametrize(
    ("n", "p", "q", "draws", "tolerance"),
    [
        (1000, 64, 64, 20, 0.002),
        (300, 100, 100, 20, 0.002),
        (1000, 128, 256, 5, 0.002),
        (1000, 10, 10, 100, 0.002),
        (200, 3, 7, 1000, 0.003),
        (60, 2, 2, 1000, 0.004),
        (80, 1, 6, 1000, 0.006),
        (40, 10, 25, 200, 0.004),
        (30, 20, 25, 200, 0.004),
        pytest.param(10000, 64, 64, 20, 0.002, marks=pytest.mark.slow),
        pytest.param(4000, 768, 768, 1, 0.002, marks=pytest.mark.slow),
    ],
)
def test_f22_simulated_chance_level(n: int, p: int, q: int, draws: int, tolerance: float) -> None:
    """F22: the mean correlation of independent views, simulated."""
    rng = np.random.default_rng([n, p, q])
    means = [ik.cca(independent(rng, n, p, q)).correlations.mean() for _ in range(draws)]
    assert np.mean(means) == pytest.approx(cca_chance(n, p, q), abs=tolerance)


@pytest.mark.parametrize(
    ("n", "p", "q", "simulated"),
    [(1000, 64, 64, 0.480), (300, 100, 100, 0.935), (1000, 128, 256, 0.775)],
)
def test_f25_edge_of_the_spectrum(n: int, p: int, q: int, simulated: float) -> None:
    """F25: the largest correlation of independent views lies at most .02 below the edge."""
    rng = np.random.default_rng(0)
    largest = np.mean([ik.cca(independent(rng, n, p, q)).correlations[0] for _ in range(5)])
    edge = cca_chance_edge(n, p, q)
    assert largest == pytest.approx(simulated, abs=0.01)
    assert edge - 0.02 <= largest <= edge + 0.005


def test_edge_at_the_width_of_gpt2() -> None:
    assert cca_chance_edge(55034, 768, 768) == pytest.approx(0.235, abs=6e-4)
    assert cca_chance_edge(2000, 768, 768) == pytest.approx(0.97, abs=6e-3)
    assert cca_chance_edge(100, 60, 39) == 1.0


def test_f24_forced_ones_count_in_the_chance_level() -> None:
    """F24: p + q − (n − 1) correlations are 1, the others follow the complement's law."""
    rng = np.random.default_rng(0)
    for n, p, q in ((101, 60, 60), (101, 70, 50), (500, 300, 300)):
        mean = np.mean([ik.cca(independent(rng, n, p, q)).correlations.mean() for _ in range(3)])
        assert cca_chance(n, p, q) == pytest.approx(mean, abs=0.005)
    assert cca_chance(10, 9, 3) == cca_chance(10, 3, 12) == 1.0


def test_one_column_each_is_the_mean_of_a_correlation() -> None:
    """For p = q = 1, E|r| = Γ(N/2) / (√π Γ((N+1)/2)); with n = 4 that is 1/2."""
    assert cca_chance(4, 1, 1) == pytest.approx(0.5, abs=1e-12)


@pytest.mark.parametrize("arguments", [(1, 1, 1), (10, 0, 3), (10, 3, 0), (0, 2, 2)])
def test_impossible_shapes_are_refused(arguments: tuple[int, int, int]) -> None:
    n, p, q = arguments
    message = f"needs n ≥ 2 and p, q ≥ 1; got n = {n}, p = {p}, q = {q}"
    for function in (cca_chance, cca_chance_square, cca_chance_edge):
        with pytest.raises(InputError, match=message):
            function(n, p, q)


# The squared correlation: exact.


@pytest.mark.parametrize(("p", "q"), [(1, 2), (2, 3), (3, 1)])
def test_f20_exact_mean_over_all_pairings(p: int, q: int) -> None:
    """F20, exactly: over all 720 orders of six rows the mean of R²_CCA is max(p, q)/(n − 1)."""
    rng = np.random.default_rng(0)
    X, Y = rng.standard_cauchy(size=(6, p)), rng.normal(size=(6, q))
    values = [
        ik.cca(ik.accumulate([X, Y[list(order)]], folds=1, sample=0)).mean_square
        for order in permutations(range(6))
    ]
    assert np.mean(values) == pytest.approx(max(p, q) / 5, abs=1e-9)
    assert cca_chance_square(6, p, q) == max(p, q) / 5


def hostile_pair(kind: str) -> tuple[Array, Array]:
    rng = np.random.default_rng(1)
    if kind == "cauchy":
        return rng.standard_cauchy(size=(150, 6)), rng.standard_cauchy(size=(150, 9))
    if kind == "binary":
        X, Y = rng.random(size=(150, 6)), rng.random(size=(150, 9))
        return (X < 0.1).astype(float), (Y < 0.1).astype(float)
    X, Y = rng.normal(size=(150, 6)), rng.normal(size=(150, 9))
    return X.cumsum(axis=0), Y.cumsum(axis=0)


@pytest.mark.parametrize("kind", ["cauchy", "binary", "random walk"])
def test_f20_permutation_mean(kind: str) -> None:
    """F20: n = 150, 6 and 9 columns of any distribution: 9/149 over permutations of the rows."""
    X, Y = hostile_pair(kind)
    rng = np.random.default_rng(1)
    values = [
        ik.cca(ik.accumulate([X, rng.permutation(Y)], folds=1, sample=0)).mean_square
        for _ in range(300)
    ]
    error = np.std(values) / np.sqrt(len(values))
    assert error < 0.004  # so that the next line can fail
    assert np.mean(values) == pytest.approx(9 / 149, abs=4 * error)


def test_f21_random_walks_look_related() -> None:
    """F21: two independent random walks, n = 150, 6 and 9 columns: R²_CCA .5 to .6, chance .06."""
    value = ik.cca(ik.accumulate(hostile_pair("random walk"), sample=0)).mean_square
    assert 0.5 < value < 0.6


# Corrections.

F26 = {  # rho: n, raw mean r, chance-adjusted mean r, held out on the other half, adjusted R²
    0.5: [
        (100, 0.61, 0.22, 0.12, 0.185),
        (200, 0.55, 0.31, 0.30, 0.218),
        (500, 0.52, 0.39, 0.44, 0.238),
        (2000, 0.50, 0.44, 0.48, 0.246),
    ],
    0.9: [
        (100, 0.904, None, 0.745, 0.741),
        (200, 0.901, None, 0.857, 0.780),
        (500, 0.901, None, 0.886, 0.800),
        (2000, 0.900, None, 0.897, 0.807),
    ],
}


@pytest.mark.parametrize(("rho", "row"), [(rho, row) for rho, rows in F26.items() for row in rows])
def test_f26_corrections(rho: float, row: tuple[int, float, float | None, float, float]) -> None:
    """F26, table 8.3: d = 32, mean of 12 draws, ± .02 (adjusted R² ± .01 from n = 200 on)."""
    n, raw, adjusted, held_out, square = row
    rng = np.random.default_rng([n, int(100 * rho)])
    draws = [correlated(rng, n, 32, rho) for _ in range(12)]
    mean = np.mean([ik.cca(m).mean for m in draws])
    assert mean == pytest.approx(raw, abs=0.02)
    assert np.mean([held_out_cca(m).value for m in draws]) == pytest.approx(held_out, abs=0.02)
    corrected = [adjusted_r2(ik.cca(m).mean_square, n, 32, 32) for m in draws]
    assert np.mean(corrected) == pytest.approx(square, abs=0.02 if n < 200 else 0.01)
    if adjusted is not None:
        chance = cca_chance(n, 32, 32)
        assert (mean - chance) / (1 - chance) == pytest.approx(adjusted, abs=0.02)


@pytest.mark.parametrize("n", [100, 200, 500, 2000])
def test_f27_corrections_are_zero_for_independent_views(n: int) -> None:
    """F27: d = 32: held-out, chance-adjusted and adjusted R² are 0 ± .015."""
    rng = np.random.default_rng(n)
    draws = [independent(rng, n, 32, 32, folds=2) for _ in range(12)]
    chance = cca_chance(n, 32, 32)
    zeros = (
        np.mean([held_out_cca(m).value for m in draws]),
        np.mean([(ik.cca(m).mean - chance) / (1 - chance) for m in draws]),
        np.mean([adjusted_r2(ik.cca(m).mean_square, n, 32, 32) for m in draws]),
    )
    np.testing.assert_allclose(zeros, 0.0, atol=0.015)


def test_adjusted_r2_is_one_for_equal_views() -> None:
    assert adjusted_r2(1.0, 100, 5, 7) == 1.0
    assert adjusted_r2(cca_chance_square(100, 5, 7), 100, 5, 7) == 0.0


# Held-out CCA.


def direct_held_out(X: Array, Y: Array, folds: int) -> list[float]:
    """Directions by QR and SVD on the other folds' rows, correlations on the fold's."""
    fold_of_row = assign_folds(len(X), folds).of()
    means = []
    for fold in range(folds):
        train, test = fold_of_row != fold, fold_of_row == fold
        (Q, R), (P, S) = (np.linalg.qr(view[train] - view[train].mean(axis=0)) for view in (X, Y))
        left, _, right = np.linalg.svd(Q.T @ P, full_matrices=False)
        a, b = X[test] @ np.linalg.solve(R, left), Y[test] @ np.linalg.solve(S, right.T)
        means.append(np.mean([np.corrcoef(u, v)[0, 1] for u, v in zip(a.T, b.T)]))
    return means


@pytest.mark.parametrize("q", [4, 6])
def test_held_out_cca_from_rows(q: int) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(203, 4)) + 3
    Y = np.column_stack([X, X[:, :2]])[:, :q] * 2 + rng.normal(size=(203, q))
    result = held_out_cca(ik.accumulate([X, Y], folds=5))
    np.testing.assert_allclose(result.folds, direct_held_out(X, Y, 5), atol=1e-8)
    assert result.value == pytest.approx(result.folds.mean())
    assert result.interval[0] < result.value < result.interval[1]


def test_held_out_cca_of_a_constant_view_is_absent() -> None:
    X = np.random.default_rng(0).normal(size=(50, 3))
    assert held_out_cca(ik.accumulate([X, np.ones((50, 2))])) is None


def test_held_out_cca_needs_two_folds() -> None:
    X = np.random.default_rng(0).normal(size=(50, 3))
    with pytest.raises(InputError, match="at least two folds of two rows or more"):
        held_out_cca(ik.accumulate([X, X], folds=1))


# Intervals.


def test_jackknife_of_a_mean_is_the_t_interval() -> None:
    """The jackknife of a mean of F values is the textbook t interval."""
    from scipy.stats import t

    values = np.array([1.0, 4.0, 2.0, 6.0, 3.0])
    mean, (low, high) = mean_of_folds(values)
    half = t.ppf(0.975, 4) * values.std(ddof=1) / np.sqrt(5)
    assert mean == pytest.approx(3.2)
    assert (low, high) == pytest.approx((3.2 - half, 3.2 + half))
    assert jackknife_interval(0.1, values, floor=0.0)[0] == 0.0
    narrow, wide = (mean_of_folds(values, level)[1] for level in (0.5, 0.99))
    assert wide[0] < narrow[0] < narrow[1] < wide[1]


@pytest.mark.parametrize(
    ("n", "d", "error", "noise"),
    [
        (1000, 3, 0.5, "laplace"),
        pytest.param(500, 2, 0.3, "normal", marks=pytest.mark.slow),
        pytest.param(1000, 5, 0.1, "normal", marks=pytest.mark.slow),
        pytest.param(2000, 10, 0.7, "normal", marks=pytest.mark.slow),
    ],
)
def test_intervals_of_the_affine_error_cover(n: int, d: int, error: float, noise: str) -> None:
    """A nominal 95 % interval covers the population's error in 88 to 99 % of 400 repetitions.

    y = x A + ε with E‖ε‖² = e² E‖y‖², so that the best affine map has the error e.
    """
    rng = np.random.default_rng([n, d])
    A = rng.normal(size=(d, d))
    spread = error / np.sqrt(1 - error**2) * np.linalg.norm(A) / np.sqrt(d)
    covered = 0
    for _ in range(400):
        X = rng.normal(size=(n, d))
        size = spread if noise == "normal" else spread / np.sqrt(2)
        Y = X @ A + size * getattr(rng, noise)(size=(n, d))
        forward, _ = ladder(ik.accumulate([X, Y], sample=0), names=("affine",))["affine"]
        low, high = jackknife_interval(forward.error, forward.leave_one_out(), floor=0.0)
        covered += low <= error <= high
    assert 0.88 <= covered / 400 <= 0.99


@pytest.mark.parametrize(("N", "p", "q"), [(40, 4, 6), (40, 30, 20), (12, 12, 5), (9, 1, 1)])
def test_coherence_draws_are_blocks_of_uniform_rotations(N: int, p: int, q: int) -> None:
    """Second moments 1/N, singular values at most 1, and every entry the law of a unit vector's."""
    rng = np.random.default_rng([N, p, q])
    draws = np.array([coherence_draw(rng, N, p, q) for _ in range(2000)])
    assert draws.shape == (2000, p, q)
    assert np.linalg.norm(draws, 2, axis=(1, 2)).max() <= 1 + 1e-9
    second = np.einsum("kab,kcd->abcd", draws, draws) / 2000
    expected = np.einsum("ac,bd->abcd", np.eye(p), np.eye(q)) / N
    assert np.abs(second - expected).max() < 6 * np.sqrt(2 / 2000) / N
    # A coordinate of a uniform unit vector in N dimensions: c² is Beta(1/2, (N − 1)/2).
    assert kstest(draws[:, 0, -1] ** 2, "beta", args=(0.5, (N - 1) / 2)).pvalue > 1e-4
