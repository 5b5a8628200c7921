"""Every measure inside and just outside its invariance class, and against a second computation."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.linalg import orthogonal_procrustes
from scipy.optimize import linear_sum_assignment
from scipy.stats import spearmanr

import identikit as ik
from identikit.alignment import RUNGS
from identikit.errors import InputError
from identikit.similarity import MEASURES, Measure

Array = NDArray[np.float64]

every_measure = pytest.mark.parametrize("measure", MEASURES.values(), ids=MEASURES)


def views(seed: int = 0, n: int = 400, p: int = 5, q: int = 5) -> tuple[Array, Array]:
    """Two correlated views with unequal spreads, correlated columns and means away from zero."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p)) * np.linspace(0.5, 2, p) @ rng.normal(size=(p, p)) + 1.0
    Y = X @ rng.normal(size=(p, q)) + 2 * rng.normal(size=(n, q)) * np.linspace(1, 3, q)
    return X, Y + 0.3 * X[:, :1] ** 2


def rotation(rng: np.random.Generator, d: int) -> Array:
    return np.linalg.qr(rng.normal(size=(d, d)))[0]


def signed_permutation(rng: np.random.Generator, d: int) -> Array:
    return np.eye(d)[rng.permutation(d)] * rng.choice([-1.0, 1.0], d)


def member(group: str, rng: np.random.Generator, X: Array) -> Array:
    """X after a random map of the group."""
    d = X.shape[1]
    shift = rng.normal(size=d)
    maps: dict[str, Callable[[], Array]] = {
        "identity": lambda: X,
        "permutation": lambda: X @ signed_permutation(rng, d) + shift,
        "monomial": lambda: X @ signed_permutation(rng, d) * rng.uniform(0.3, 3, d) + shift,
        "rigid": lambda: X @ rotation(rng, d) + shift,
        "similarity": lambda: 2.5 * X @ rotation(rng, d) + shift,
        "linear": lambda: X @ rng.normal(size=(d, d)),
        "affine": lambda: X @ rng.normal(size=(d, d)) + shift,
    }
    return maps[group]()


def just_outside(group: str, rng: np.random.Generator, X: Array) -> Array:
    """X after a map of the next looser kind."""
    d = X.shape[1]
    maps: dict[str, Callable[[], Array]] = {
        "identity": lambda: X[:, ::-1],
        "permutation": lambda: X * np.logspace(-1, 1, d),
        "monomial": lambda: X @ rotation(rng, d),
        "rigid": lambda: 2 * X,
        "similarity": lambda: X @ (np.eye(d) + 9 * np.eye(d)[::-1] * (np.arange(d) < d // 2)),
        "linear": lambda: X + 1.0,
        "affine": lambda: np.tanh(2 * (X - X.mean(axis=0)) / X.std(axis=0)),
    }
    return maps[group]()


def noisy_copies(seed: int) -> tuple[Array, Array]:
    """Axes of falling spread under one noise: what is weighed, rotated or bent shows up."""
    rng = np.random.default_rng(seed)
    X = rng.laplace(size=(400, 5)) * np.logspace(0, -1, 5)
    return X, X + 0.1 * rng.normal(size=X.shape)


def centred(X: Array) -> Array:
    return X - X.mean(axis=0)


def basis(X: Array) -> Array:
    """Orthonormal basis of the centred columns."""
    return np.linalg.qr(centred(X))[0]


def canonical(X: Array, Y: Array) -> Array:
    return np.linalg.svd(basis(X).T @ basis(Y), compute_uv=False)


@every_measure
def test_every_measure_states_a_group_of_the_ladder(measure: Measure) -> None:
    assert measure.invariant_to in RUNGS
    assert measure.reference
    assert getattr(ik.similarity, measure.name) is measure.function


@every_measure
@pytest.mark.parametrize("seed", range(3))
def test_invariant_inside_its_class_and_not_just_outside(measure: Measure, seed: int) -> None:
    for pair in (views(seed), noisy_copies(seed)):
        rng = np.random.default_rng([seed, 1])
        value = measure(ik.accumulate(pair))
        moved = [member(measure.invariant_to, rng, view) for view in pair]
        # Neighbour sets and ranks do not move at all; the rest is rounding.
        tolerance = 1e-12 if measure.rows else 1e-9
        assert measure(ik.accumulate(moved)) == pytest.approx(value, abs=tolerance)
    X, Y = noisy_copies(seed)
    broken = [just_outside(measure.invariant_to, rng, X), Y]
    assert abs(measure(ik.accumulate(broken)) - measure(ik.accumulate([X, Y]))) > 0.01


@every_measure
def test_identical_views_are_one(measure: Measure) -> None:
    X, _ = views()
    assert measure(ik.accumulate([X, X])) == pytest.approx(1.0, abs=1e-9)


@every_measure
def test_symmetric_but_for_pwcca(measure: Measure) -> None:
    moments = ik.accumulate(views(q=4))
    forward, backward = measure(moments, 0, 1), measure(moments, 1, 0)
    if measure.name == "pwcca":
        assert abs(forward - backward) > 1e-3
    else:
        assert forward == pytest.approx(backward, abs=1e-12)


@every_measure
def test_no_value_above_one_for_unequal_widths(measure: Measure) -> None:
    """A view beside itself written twice: the most alike that views of unequal widths can be."""
    X, _ = views()
    value = measure(ik.accumulate([X, np.hstack([X, X])]))
    assert 0.5 < value <= 1 + 1e-9


@every_measure
def test_views_by_name_and_from_the_end(measure: Measure) -> None:
    moments = ik.accumulate(views(), names=["old", "new"])
    assert measure(moments, "old", "new") == measure(moments, 0, 1) == measure(moments, -2, -1)


@every_measure
def test_unknown_views_are_refused(measure: Measure) -> None:
    moments = ik.accumulate(views(), names=["old", "new"])
    with pytest.raises(InputError, match="no view is called 'newer'; there are old, new"):
        measure(moments, "old", "newer")
    for wrong in (2, -3):
        with pytest.raises(InputError, match=f"there is no view {wrong}; the moments hold 2 views"):
            measure(moments, wrong, 0)


@every_measure
def test_only_measures_that_say_so_look_at_rows(measure: Measure) -> None:
    X, Y = views()
    without = measure(ik.accumulate([X, Y], sample=0))
    if measure.rows:
        assert without is None
    else:
        assert without == measure(ik.accumulate([X, Y]))


# Meaningless values are absent.


@pytest.mark.parametrize("name", ["cca", "pwcca", "r2"])
@pytest.mark.parametrize("n", [4, 6, 7])
def test_none_where_any_data_would_fit(name: str, n: int) -> None:
    rng = np.random.default_rng(0)
    moments = ik.accumulate([rng.normal(size=(n, 6)), rng.normal(size=(n, 6))], folds=2)
    assert MEASURES[name](moments) is None


@pytest.mark.parametrize("n", [4, 6, 7])
def test_svcca_none_where_any_data_would_fit(n: int) -> None:
    rng = np.random.default_rng(0)
    moments = ik.accumulate([rng.normal(size=(n, 6)), rng.normal(size=(n, 6))], folds=2)
    result = ik.svcca(moments, variance=1.0)
    assert max(result.kept) == n - 1
    assert result.value is None


def test_saturation_begins_at_n_minus_one_directions() -> None:
    rng = np.random.default_rng(0)
    for n, meaningful in ((7, False), (8, True)):
        m = ik.accumulate([rng.normal(size=(n, 6)), rng.normal(size=(n, 2))], folds=2)
        for value in (ik.cca(m).mean, ik.cca(m).mean_square, ik.pwcca(m).value, ik.r2(m).forward):
            assert (value is not None) is meaningful
        # Two columns against seven rows or more cannot fit anything, so that way it stays.
        assert ik.r2(m).backward is not None


@every_measure
@pytest.mark.parametrize("constant", [0.0, 0.1, 1e6])  # the mean of 0.1 has to be rounded
def test_none_for_a_constant_view(measure: Measure, constant: float) -> None:
    X, _ = views()
    level = np.full((len(X), 3), constant)
    assert measure(ik.accumulate([X, level])) is None
    assert measure(ik.accumulate([level, X])) is None


def test_debiased_cka_needs_four_rows() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3, 2))
    result = ik.cka(ik.accumulate([X, X], folds=1), debiased=True)
    assert result.value is None
    assert result.chance == pytest.approx(ik.cka(ik.accumulate([X, X], folds=1)).chance)


def test_debiased_cka_of_rows_at_equal_distances_is_absent() -> None:
    simplex = np.eye(6)  # the unbiased norm of its kernel is exactly 0
    assert ik.cka(ik.accumulate([simplex, simplex], folds=1), debiased=True).value is None


def test_one_row_has_no_cka() -> None:
    X = np.ones((1, 2))
    assert ik.cka(ik.accumulate([X, X], folds=1)).value is None


def test_mutual_knn_is_none_if_every_row_is_a_neighbour() -> None:
    X, Y = views(n=12)
    for k, meaningful in ((10, True), (11, False), (12, False)):
        result = ik.mutual_knn(ik.accumulate([X, Y]), k=k)
        assert (result.value is not None) is meaningful
        assert (result.chance is not None) is meaningful


# Options.


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k": 0}, "svcca got k = 0 components; k must be at least 1"),
        ({"k": -2}, "svcca got k = -2 components"),
        ({"variance": 0.0}, r"svcca got variance = 0.0; it must be a share in \(0, 1\]"),
        ({"variance": 1.01}, "svcca got variance = 1.01"),
    ],
)
def test_svcca_refuses_nonsense(options: dict[str, float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        ik.svcca(ik.accumulate(views()), 0, 1, **options)  # type: ignore[arg-type]


def test_mutual_knn_refuses_no_neighbours() -> None:
    with pytest.raises(InputError, match="mutual_knn got k = 0 neighbours; k must be at"):
        ik.mutual_knn(ik.accumulate(views()), k=0)


# Each measure by another route, from rows.


@pytest.mark.parametrize(("p", "q"), [(5, 5), (3, 6), (6, 1)])
def test_cca_is_qr_and_svd(p: int, q: int) -> None:
    X, Y = views(1, p=p, q=q)
    result = ik.cca(ik.accumulate([X, Y]))
    r = canonical(X, Y)
    np.testing.assert_allclose(result.correlations, r, atol=1e-10)
    assert result.ranks == (p, q)
    assert result.rank == min(p, q)
    assert result.mean == result.value == pytest.approx(r.mean(), abs=1e-10)
    assert result.mean_square == pytest.approx((r**2).mean(), abs=1e-10)


@pytest.mark.parametrize("k", [1, 3, 5, 99])
def test_svcca_with_k_is_cca_of_singular_vectors(k: int) -> None:
    X, Y = views(2, q=4)
    U, V = (np.linalg.svd(centred(view), full_matrices=False)[0][:, :k] for view in (X, Y))
    r = np.linalg.svd(U.T @ V, compute_uv=False)
    result = ik.svcca(ik.accumulate([X, Y]), k=k)
    np.testing.assert_allclose(result.correlations, r, atol=1e-10)
    assert result.kept == (min(k, 5), min(k, 4))


@pytest.mark.parametrize("variance", [0.5, 0.9, 0.99, 1.0])
def test_svcca_with_a_share_of_variance(variance: float) -> None:
    X, Y = views(2)
    parts = []
    for view in (X, Y):
        U, s, _ = np.linalg.svd(centred(view), full_matrices=False)
        k = next(k for k in range(1, 6) if (s[:k] ** 2).sum() >= (variance - 1e-12) * (s @ s))
        parts.append(U[:, :k])
    result = ik.svcca(ik.accumulate([X, Y]), variance=variance)
    assert result.kept == (parts[0].shape[1], parts[1].shape[1])
    r = np.linalg.svd(parts[0].T @ parts[1], compute_uv=False)
    assert result.value == pytest.approx(r.mean(), abs=1e-10)


@pytest.mark.parametrize("q", [3, 5, 7])
def test_pwcca_by_its_definition(q: int) -> None:
    X, Y = views(3, q=q)
    left, r, _ = np.linalg.svd(basis(X).T @ basis(Y), full_matrices=False)
    variates = basis(X) @ left
    alpha = np.array([sum(abs(h @ unit) for unit in centred(X).T) for h in variates.T])
    result = ik.pwcca(ik.accumulate([X, Y]))
    np.testing.assert_allclose(result.weights, alpha, rtol=1e-9)
    assert result.value == pytest.approx(alpha @ r / alpha.sum(), abs=1e-10)


def test_pwcca_does_not_see_affine_maps_of_the_second_view() -> None:
    X, Y = views(3)
    rng = np.random.default_rng(9)
    value = ik.pwcca(ik.accumulate([X, Y])).value
    assert ik.pwcca(ik.accumulate([X, member("affine", rng, Y)])).value == pytest.approx(value)
    assert abs(ik.pwcca(ik.accumulate([member("affine", rng, X), Y])).value - value) > 1e-3
    assert ik.pwcca(ik.accumulate([3 * X + 1, Y])).value == pytest.approx(value)


def test_cka_from_gram_matrices() -> None:
    X, Y = views(4, q=7)
    K, L = (centred(view) @ centred(view).T for view in (X, Y))
    expected = np.vdot(K, L) / (np.linalg.norm(K) * np.linalg.norm(L))
    assert ik.cka(ik.accumulate([X, Y])).value == pytest.approx(expected, rel=1e-10)


def unbiased_hsic(X: Array, Y: Array) -> float:
    """Song et al. 2007, on n×n matrices with empty diagonals, written out."""
    n = len(X)
    K, L = X @ X.T, Y @ Y.T
    np.fill_diagonal(K, 0)
    np.fill_diagonal(L, 0)
    ones = K.sum() * L.sum() / ((n - 1) * (n - 2))
    return float((np.trace(K @ L) + ones - 2 / (n - 2) * (K @ L).sum()) / (n * (n - 3)))


def test_debiased_cka_from_gram_matrices() -> None:
    """F16: n = 60, 5 and 7 columns; the feature form equals the n×n form, uncentred data too."""
    X, Y = views(5, n=60, p=5, q=7)
    expected = unbiased_hsic(X, Y) / np.sqrt(unbiased_hsic(X, X) * unbiased_hsic(Y, Y))
    for folds in (1, 5):
        result = ik.cka(ik.accumulate([X, Y], folds=folds), debiased=True)
        assert result.debiased
        assert result.value == pytest.approx(expected, rel=1e-10)


def test_cka_chance_is_the_mean_over_all_pairings() -> None:
    X, Y = (view[:6] for view in views(6, p=2, q=3))
    values = [
        ik.cka(ik.accumulate([X, Y[list(order)]], folds=1, sample=0)).value
        for order in permutations(range(6))
    ]
    chance = ik.cka(ik.accumulate([X, Y], folds=1)).chance
    assert chance == pytest.approx(np.mean(values), rel=1e-10)


@pytest.mark.parametrize("q", [5, 3])
def test_procrustes_is_scipy_s(q: int) -> None:
    X, Y = views(7, q=q)
    A, B = (centred(view) / np.linalg.norm(centred(view)) for view in (X, Y))
    B = np.pad(B, ((0, 0), (0, 5 - q)))
    R, scale = orthogonal_procrustes(A, B)
    result = ik.procrustes(ik.accumulate([X, Y]))
    assert result.value == result.similarity == pytest.approx(scale, abs=1e-10)
    assert result.distance == pytest.approx(np.linalg.norm(A @ R - B) ** 2, abs=1e-10)


def test_procrustes_of_a_constant_view_has_no_distance() -> None:
    X, _ = views()
    assert ik.procrustes(ik.accumulate([X, np.zeros_like(X)])).distance is None


def test_pls_svd_by_standardising() -> None:
    X, Y = views(8)
    A, B = ((view - view.mean(axis=0)) / view.std(axis=0) for view in (X, Y))
    s = np.linalg.svd(A.T @ B / len(X), compute_uv=False)
    result = ik.pls_svd(ik.accumulate([X, Y]))
    np.testing.assert_allclose(result.singular_values, s, atol=1e-10)
    assert result.value == pytest.approx(s.sum() / 5, abs=1e-10)


def test_pls_svd_is_the_distance_after_the_best_rotation() -> None:
    """2M(1 − m_SVD) is the least mean squared distance of the standardised views."""
    X, Y = views(8)
    A, B = ((view - view.mean(axis=0)) / view.std(axis=0) for view in (X, Y))
    R, _ = orthogonal_procrustes(A, B)
    least = np.linalg.norm(A @ R - B) ** 2 / len(X)
    assert 10 * (1 - ik.pls_svd(ik.accumulate([X, Y])).value) == pytest.approx(least, rel=1e-9)


def test_pls_svd_leaves_constant_columns_out() -> None:
    X, Y = views(8)
    wider = [np.column_stack([view, np.full(len(view), 0.1)]) for view in (X, Y)]
    narrow, wide = ik.accumulate([X, Y]), ik.accumulate(wider)
    assert ik.pls_svd(wide).value == pytest.approx(ik.pls_svd(narrow).value, abs=1e-12)


def test_r2_is_least_squares() -> None:
    X, Y = views(9, q=3)

    def explained(source: Array, target: Array) -> float:
        design = np.column_stack([source, np.ones(len(source))])
        residual = target - design @ np.linalg.lstsq(design, target, rcond=None)[0]
        return float(1 - (residual**2).sum() / (centred(target) ** 2).sum())

    result = ik.r2(ik.accumulate([X, Y]))
    assert result.forward == pytest.approx(explained(X, Y), abs=1e-10)
    assert result.backward == pytest.approx(explained(Y, X), abs=1e-10)
    assert result.value == min(result.forward, result.backward)


def matched(correlations: Array) -> float:
    rows, columns = linear_sum_assignment(-np.abs(correlations))
    return float(np.abs(correlations[rows, columns]).mean())


@pytest.mark.parametrize("q", [5, 3, 8])
def test_mcc_is_corrcoef_and_assignment(q: int) -> None:
    X, Y = views(10, q=q)
    correlations = np.corrcoef(X, Y, rowvar=False)[:5, 5:]
    result = ik.mcc(ik.accumulate([X, Y]))
    assert result.value == pytest.approx(matched(correlations), abs=1e-10)
    a, b = result.columns.T
    assert len(set(a)) == len(set(b)) == len(a) == min(5, q)
    np.testing.assert_allclose(result.correlations, correlations[a, b], atol=1e-10)


def test_mcc_finds_a_planted_matching() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 6))
    order = rng.permutation(6)
    result = ik.mcc(ik.accumulate([X, -X[:, order]]))
    assert [int(order[b]) for b in result.columns[:, 1]] == result.columns[:, 0].tolist()
    np.testing.assert_allclose(result.correlations, -1, atol=1e-12)


def test_spearman_mcc_is_scipy_s_on_the_sample() -> None:
    X, Y = views(11, n=300)
    X = np.round(X, 1)  # ties get their mean rank
    moments = ik.accumulate([X, Y], sample=200)
    A, B = moments.sample_of(0), moments.sample_of(1)
    assert len(A) == 200
    correlations = spearmanr(A, B).statistic[:5, 5:]
    assert ik.spearman_mcc(moments).value == pytest.approx(matched(correlations), abs=1e-10)


def test_spearman_mcc_does_not_see_monotone_functions() -> None:
    X, Y = views(11)
    value = ik.spearman_mcc(ik.accumulate([X, Y])).value
    assert ik.spearman_mcc(ik.accumulate([X**3, -np.exp(Y / 9)])).value == pytest.approx(value)


def test_mutual_knn_by_brute_force() -> None:
    X, Y = views(12, n=80)
    moments = ik.accumulate([X, Y], sample=50)
    shared = 0
    for row in range(50):
        nearest = []
        for view in (0, 1):
            rows = moments.sample_of(view)
            distance = np.linalg.norm(rows - rows[row], axis=1)
            nearest.append(set(np.argsort(distance)[1:8].tolist()))
        shared += len(nearest[0] & nearest[1])
    result = ik.mutual_knn(moments, k=7)
    assert result.value == pytest.approx(shared / (7 * 50), abs=1e-12)
    assert result.chance == pytest.approx(7 / 49)
    assert (result.k, result.rows) == (7, 50)


# Reference fixtures.


def test_f15_pwcca_and_regression() -> None:
    """F15: n = 800, X = N·diag(1/j), j ≤ 30, Y = [X₁..₁₀ N(10×10), N(20)].

    Published run: R²(Y→X) .963 ± .005, PWCCA .679 ± .04, mean r .416 ± .015; and exactly
    R²(Y→X) = Σ_c ‖h_cᵀX‖² r_c² / ‖X‖².
    """
    rng = np.random.default_rng(0)
    X = rng.normal(size=(800, 30)) / np.arange(1, 31)
    Y = np.column_stack([X[:, :10] @ rng.normal(size=(10, 10)), rng.normal(size=(800, 20))])
    moments = ik.accumulate([X, Y])
    assert ik.r2(moments).backward == pytest.approx(0.963, abs=0.005)
    assert ik.pwcca(moments).value == pytest.approx(0.679, abs=0.04)
    assert ik.cca(moments).mean == pytest.approx(0.416, abs=0.015)
    left, r, _ = np.linalg.svd(basis(X).T @ basis(Y))
    weights = (((basis(X) @ left).T @ centred(X)) ** 2).sum(axis=1)
    expected = weights @ r**2 / (centred(X) ** 2).sum()
    assert ik.r2(moments).backward == pytest.approx(expected, abs=1e-12)


F19 = {  # cond(A): SVCCA at k = 16, the same on z-scored columns, linear CKA
    1: ((1.0, 1.0), (0.87, 0.93), (1.0, 1.0)),
    3: ((0.92, 0.98), (0.86, 0.90), (0.994, 0.998)),
    10: ((0.86, 0.91), (0.81, 0.86), (0.978, 0.990)),
    100: ((0.79, 0.86), (0.78, 0.84), (0.94, 0.98)),
    1000: ((0.77, 0.83), (0.76, 0.80), (0.91, 0.96)),
}


@pytest.mark.parametrize("condition", F19)
def test_f19_svcca_is_not_invariant_to_linear_maps(condition: int) -> None:
    """F19: n = 5000, M = 64, spectrum 1/j, f' = Af: CCA is 1 whatever A, SVCCA and CKA are not."""
    rng = np.random.default_rng(21)
    X = rng.normal(size=(5000, 64)) / np.arange(1, 65) @ rotation(rng, 64)
    singular = np.logspace(0, -np.log10(condition), 64)
    Y = X @ (rotation(rng, 64) * singular @ rotation(rng, 64))
    moments = ik.accumulate([X, Y])
    scaled = ik.accumulate([X / X.std(axis=0), Y / Y.std(axis=0)])
    np.testing.assert_allclose(ik.cca(moments).correlations, 1.0, atol=1e-9)
    values = (
        ik.svcca(moments, k=16).value,
        ik.svcca(scaled, k=16).value,
        ik.cka(moments).value,
    )
    for value, (low, high) in zip(values, F19[condition]):
        assert low - 1e-9 <= value <= high + 1e-9


def test_f24_more_columns_than_rows_force_ones() -> None:
    """F24: of p + q > n − 1 columns, exactly p + q − (n − 1) correlations are 1."""
    rng = np.random.default_rng(0)
    for p, q, n, ones in ((60, 60, 101, 20), (70, 50, 101, 20), (300, 300, 500, 101)):
        m = ik.accumulate([rng.normal(size=(n, p)), rng.normal(size=(n, q))], folds=1, sample=0)
        assert np.count_nonzero(ik.cca(m).correlations > 1 - 1e-9) == ones


@pytest.mark.slow
def test_f32_chance_level_of_cka() -> None:
    """F32: n = 50, d = 500, mean of 8 draws: biased .909 ± .003, debiased 0 ± .01."""
    rng = np.random.default_rng(0)
    pairs = [
        ik.accumulate([rng.normal(size=(50, 500)) for _ in range(2)], folds=1, sample=0)
        for _ in range(8)
    ]
    assert np.mean([ik.cka(m).value for m in pairs]) == pytest.approx(0.909, abs=0.003)
    assert np.mean([ik.cka(m).chance for m in pairs]) == pytest.approx(0.909, abs=0.003)
    assert np.mean([ik.cka(m, debiased=True).value for m in pairs]) == pytest.approx(0, abs=0.01)
