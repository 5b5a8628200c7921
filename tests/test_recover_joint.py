"""Joint diagonalisation and ICA by variances: exact cases, ties, their test, errors, bad input."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import eigh
from sklearn.exceptions import ConvergenceWarning, NotFittedError

import identikit as ik
from conftest import close
from identikit.errors import InputError
from identikit.recover import VarianceICA, joint_diagonalise, within_correlation
from identikit.recover._axes import oblique_axes


def amari(P: np.ndarray) -> float:
    """0 for a permutation with scales: how much of each row and column is off its largest entry."""
    P, d = np.abs(P), len(P)
    P = P / P.max(axis=1, keepdims=True)
    rows = (P.sum(axis=1) - 1).sum()
    columns = (P.sum(axis=0) / P.max(axis=0) - 1).sum()
    return float((rows + columns) / (2 * d * (d - 1)))


def exact(M: np.ndarray, variances: np.ndarray) -> np.ndarray:
    return np.einsum("ij,kj,lj->kil", M, variances, M)


def sampled(rng, M, variances, rows):
    return np.stack(
        [np.cov((rng.normal(size=(rows, M.shape[1])) * v**0.5 @ M.T).T) for v in variances]
    )


# Exact covariances


@given(st.integers(0, 2**32 - 1), st.integers(2, 7), st.integers(2, 8))
def test_exact_covariances_give_the_mixing_back(seed, d, k):
    rng = np.random.default_rng(seed)
    M = rng.normal(size=(d, d)) * 2.0 ** rng.integers(-20, 20, size=(d, 1))
    variances = rng.uniform(0.1, 3, size=(k, d))
    C = exact(M, variances)
    found = joint_diagonalise(C)
    assert found.converged
    inner = found.unmixing @ C @ found.unmixing.T
    # What each row of W holds of each column of M, in standard deviations.
    P = found.unmixing @ M * np.sqrt(variances.mean(axis=0))
    separated = found.identified
    close(np.abs(P[separated]).max(axis=1), np.ones(separated.sum()), 1e-5)
    for matrix, v in zip(inner, found.variances):
        close(np.diagonal(matrix), v, 1e-7)
        close(matrix[separated][:, separated], np.diag(v[separated]), 1e-4)
    close(found.variances.mean(axis=0), np.ones(d), 1e-9)
    close(found.unmixing @ found.mixing, np.eye(d), 1e-7)


def test_two_covariances_are_the_generalised_eigenproblem(rng):
    M, variances = rng.normal(size=(5, 5)), np.array([[1.0] * 5, [0.1, 0.5, 1.0, 2.0, 7.0]])
    C = exact(M, variances)
    found = joint_diagonalise(C)
    ratios, vectors = eigh(C[1], C[0])
    assert found.sweeps == 0
    close(np.sort(found.variances[1] / found.variances[0]), ratios, 1e-10, ratios)
    close(ratios, [0.1, 0.5, 1.0, 2.0, 7.0], 1e-10)
    assert amari(found.unmixing @ M) < 1e-10
    assert amari(vectors.T @ M) < 1e-10
    assert found.identified.all()
    assert found.ties == ()
    assert found.off < 1e-10


def test_two_equal_ratios_leave_a_plane_open(rng):
    M = rng.normal(size=(4, 4))
    variances = np.array([[1.0, 1, 1, 3], [2, 4, 4, 3], [5, 1, 1, 3]])
    variances[:, 2] *= 10
    found = joint_diagonalise(exact(M, variances))
    P = np.abs(found.unmixing @ M * np.sqrt(variances.mean(axis=0)))
    tied = P[:, [1, 2]].max(axis=1) > 1e-6
    assert found.identified.tolist() == (~tied).tolist()
    assert [list(group) for group in found.ties] == [np.flatnonzero(tied).tolist()]
    assert tied.sum() == 2
    # The other axes, and the plane, are exact.
    close(np.sort(P[~tied], axis=1)[:, :-1], np.zeros((2, 3)), 1e-7)
    close(P[np.ix_(tied, [0, 3])], np.zeros((2, 2)), 1e-7)
    # Sources turned in the plane have the same covariances: the verdict must not be monomial.
    turn, axes = np.eye(4), np.ix_(*2 * [np.flatnonzero(tied)])
    turn[axes] = np.array([[1, -1], [1, 1]]) / 2**0.5
    other = turn @ found.unmixing
    for C in exact(M, variances):
        inner = other @ C @ other.T
        close(inner, np.diag(np.diagonal(inner)), 1e-7)
    X = rng.normal(size=(2000, 4)) * np.sqrt(variances[rng.integers(3, size=2000)]) @ M.T
    verdict = ik.audit([X @ found.unmixing.T, X @ other.T], folds=5).verdict
    assert verdict.group not in ("identity", "permutation", "monomial")


def test_one_covariance_identifies_nothing_but_the_whitening(rng):
    M = rng.normal(size=(3, 3))
    found = joint_diagonalise([M @ M.T])
    assert not found.identified.any()
    assert found.ties == ((0, 1, 2),)
    close(found.unmixing @ M @ M.T @ found.unmixing.T, np.eye(3), 1e-9)
    assert joint_diagonalise([[[2.0]], [[3.0]]]).identified.all()


def test_equal_diagonals_are_no_stationary_point(rng):
    """[[1, b], [b, 1]] has nothing on the diagonal to turn to: the angle is 45°, not 0."""
    C = np.array([[[1, b], [b, 1]] for b in (0.1, -0.5, 0.3, 0.6)])
    found = joint_diagonalise(C)
    close(np.abs(found.unmixing[:, 0]), np.abs(found.unmixing[:, 1]), 1e-12)
    assert found.off < 1e-12
    assert found.identified.all()


def test_axes_follow_the_coordinates(rng):
    C = sampled(rng, rng.normal(size=(4, 4)), rng.uniform(0.1, 3, size=(6, 4)), 500)
    A = rng.normal(size=(4, 4)) * [[1e-4], [1.0], [1.0], [1e6]]
    found, moved = joint_diagonalise(C), joint_diagonalise(A @ C @ A.T)
    same = moved.unmixing @ A
    same *= np.sign((same * found.unmixing).sum(axis=1, keepdims=True))
    close(same, found.unmixing, 1e-5, np.abs(found.unmixing).max())
    close(moved.variances, found.variances, 1e-5)


def test_the_rotation_is_stationary_for_what_is_off_the_diagonals(rng):
    """Of sampled covariances none is diagonal: no small rotation of two axes leaves less."""
    C = sampled(rng, rng.normal(size=(5, 5)), rng.uniform(0.1, 3, size=(7, 5)), 300)
    found = joint_diagonalise(C)
    inner = found.unmixing @ C @ found.unmixing.T
    assert 1e-3 < found.off < 0.2

    def off(matrices):
        return (matrices**2).sum() - (np.einsum("kii->ki", matrices) ** 2).sum()

    share = off(inner) / (inner**2).sum()
    assert found.off == pytest.approx(share**0.5)
    for i, j in zip(*np.triu_indices(5, 1)):
        gradient = []
        for angle in (1e-4, -1e-4):
            turn = np.eye(5)
            turn[[i, j], [i, j]] = np.cos(angle)
            turn[i, j], turn[j, i] = np.sin(angle), -np.sin(angle)
            gradient.append(off(turn @ inner @ turn.T))
        assert abs(gradient[0] - gradient[1]) / 2e-4 < 1e-6
        assert min(gradient) > off(inner)


def test_dependent_directions_are_left_out(rng):
    M = rng.normal(size=(5, 2))
    variances = np.array([[1.0, 1.0], [1.0, 3.0], [4.0, 1.0]])
    found = joint_diagonalise(exact(M, variances))
    assert found.unmixing.shape == (2, 5)
    assert amari(found.unmixing @ M) < 1e-7
    assert found.identified.all()
    close(np.abs(found.mixing @ found.unmixing @ M), np.abs(M), 1e-7)


def test_a_variance_of_zero_is_a_variance(rng):
    M = rng.normal(size=(3, 3))
    variances = np.array([[0.0, 1, 2], [1, 0, 2], [1, 1, 0]])
    assert amari(joint_diagonalise(exact(M, variances)).unmixing @ M) < 1e-9
    assert joint_diagonalise(exact(M, variances), rows=100).identified.all()


def test_single_precision_covariances_have_coarser_ties(rng):
    variances = np.array([[1.0, 1.0], [2.0, 2.0 + 1e-5], [3.0, 3.0]])
    C = exact(np.eye(2), variances)
    assert joint_diagonalise(C).identified.all()
    assert not joint_diagonalise(C.astype(np.float32)).identified.any()


@pytest.mark.parametrize("d", [2, 3, 6, 7])
def test_sweeps_meet_every_pair_of_axes(rng, d):
    """Of even and odd numbers: a pair that is never turned would stay mixed."""
    M, variances = rng.normal(size=(d, d)), rng.uniform(0.1, 3, size=(5, d))
    found = joint_diagonalise(exact(M, variances))
    assert found.sweeps <= 12
    assert amari(found.unmixing @ M) < 1e-9


def test_64_matrices_take_far_fewer_than_30_sweeps(rng):
    M, variances = rng.normal(size=(64, 64)), np.abs(rng.normal(size=(64, 64))) / 2
    found = joint_diagonalise(exact(M, variances))
    assert found.sweeps <= 15
    assert amari(found.unmixing @ M) < 1e-8


def test_covariances_without_common_axes_are_reported(rng):
    X = rng.normal(size=(5, 8, 9))
    C = X @ X.transpose(0, 2, 1)
    found = joint_diagonalise(C)
    assert found.off > 0.2
    assert not found.identified.any()
    assert found.errors.min() > 0.7
    # Whoever says that they are of many rows hears that they cannot be.
    with pytest.warns(ConvergenceWarning, match="after 2 sweeps axes still rotate"):
        found = joint_diagonalise(C, rows=10**6, max_sweeps=2)
    assert not found.converged
    assert not found.identified.all()


# Sampling errors


@pytest.mark.parametrize(("d", "k"), [(2, 2), (2, 4), (2, 11), (4, 3)])
def test_tied_axes_are_rarely_called_identified(rng, d, k):
    """At most 5 % of the time, whatever the ratio and the mixing; here of 200 draws."""
    wrong = np.zeros(2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for _ in range(200):
            variances = np.exp(rng.normal(size=(k, 1))) * rng.uniform(0.1, 5, size=d)
            C = sampled(rng, rng.normal(size=(d, d)), variances, 200)
            wrong += np.array([joint_diagonalise(C, rows=n).identified.any() for n in (200, None)])
    # 5 % and three standard errors; of two covariances nothing but their rows tells.
    assert (wrong[: 1 if k == 2 else 2] <= 200 * 0.05 + 3 * (200 * 0.05 * 0.95) ** 0.5).all()


def test_axes_that_differ_are_told_apart_as_rows_grow(rng):
    variances = np.array([[1.0, 1, 1], [1, 1.3, 2], [1, 0.8, 3]])
    M = rng.normal(size=(3, 3))
    few = joint_diagonalise(sampled(rng, M, variances, 30), rows=30)
    C = sampled(rng, M, variances, 20_000)
    many = joint_diagonalise(C, rows=20_000)
    assert not few.identified.all()
    assert many.identified.all()
    # Without their number, rows are counted by what is left off the diagonals, here of 3 entries.
    assert joint_diagonalise(np.concatenate([C, C[::-1] * 2])).identified.all()
    assert many.errors.max() < 0.1 < few.errors.max()


def test_the_errors_are_what_leaks(rng):
    """Over draws, the root mean square of the leak into each axis is the error that is reported."""
    variances = np.array([[1.0, 1, 1], [0.3, 2, 1], [2, 0.5, 4], [1, 3, 0.2]])
    leaks, errors = [], []
    for _ in range(60):
        M = rng.normal(size=(3, 3))
        found = joint_diagonalise(sampled(rng, M, variances, 1000), rows=1000)
        P = found.unmixing @ M * np.sqrt(variances.mean(axis=0))
        order = np.abs(P).argmax(axis=1)
        assert sorted(order) == [0, 1, 2]
        leak = np.sqrt((P**2).sum(axis=1) - (P**2).max(axis=1))
        leaks.append(leak[np.argsort(order)])
        errors.append(found.errors[np.argsort(order)])
    close(np.sqrt(np.mean(np.square(leaks), axis=0)), np.mean(errors, axis=0), 0.2 * 0.05)
    assert 0.01 < np.mean(errors) < 0.1


def test_rows_weigh_covariances(rng):
    M, variances = np.eye(2), np.array([[1.0, 1.0], [3.0, 1.0], [1.0, 4.0]])
    C = exact(M, variances)
    bad = np.concatenate([C, [[[50.0, 40.0], [40.0, 50.0]]]])
    weighed = joint_diagonalise(bad, rows=[10_000, 10_000, 10_000, 2])
    assert amari(weighed.unmixing) < 0.02 < amari(joint_diagonalise(bad).unmixing)


def test_an_unknown_common_part_drops_out_of_differences(rng):
    """C_e = M diag(v_e) Mᵀ + N: exact covariances give M back although N is large and unknown."""
    M, N = rng.normal(size=(4, 4)), rng.normal(size=(4, 9))
    variances = rng.uniform(0.1, 3, size=(6, 4))
    C = exact(M, variances) + N @ N.T
    weights = np.full(6, 1 / 6)
    found = oblique_axes(C, weights)
    assert amari(found.unmixing @ M) < 1e-6
    assert amari(joint_diagonalise(C).unmixing @ M) > 0.05
    close(found.unmixing @ found.mixing, np.eye(4), 1e-8)
    spreads = 2 * found.variances**2 / 10**10
    ties, identified, errors = found.judged(spreads, spreads, weights, noise=True)
    assert ties == ()
    assert identified.all()
    assert errors.max() < 0.1
    # With two environments there is one difference, which has no axes of its own.
    half = np.array([0.5, 0.5])
    ties, identified, errors = oblique_axes(C[:2], half).judged(
        spreads[:2], spreads[:2], half, noise=True
    )
    assert ties == ((0, 1, 2, 3),)
    assert not identified.any()
    assert (errors > 1).all()


@pytest.mark.parametrize(
    ("covariances", "options", "says"),
    [
        (np.eye(3), {}, r"shape \(3, 3\) and dtype float64; expected real numbers \(k, d, d\)"),
        (np.ones((2, 3, 2)), {}, r"expected real numbers \(k, d, d\)"),
        ([[[1.0, np.nan], [np.nan, 1.0]]], {}, "covariance 0 has NaN"),
        ([np.eye(2), [[1.0, 0.5], [0.0, 1.0]]], {}, "covariance 1 is not symmetric"),
        ([np.eye(2), [[1.0, 2.0], [2.0, 1.0]]], {}, "covariance 1 has the negative eigenvalue -1"),
        (np.zeros((2, 2, 2)), {}, "nothing varies"),
        ([[["a"]]], {}, "expected real numbers"),
        ([np.eye(2)] * 3, {"rows": [5, 5]}, r"rows has the shape \(2,\); expected 1 or 3"),
        ([np.eye(2)] * 3, {"rows": 1}, "2 rows or more"),
        ([np.eye(2)] * 3, {"rows": "many"}, "rows is 'many'; expected numbers"),
        ([np.eye(2)] * 3, {"max_sweeps": 0}, "max_sweeps is 0"),
    ],
)
def test_bad_covariances(covariances, options, says):
    with pytest.raises(InputError, match=says):
        joint_diagonalise(covariances, **options)


# ICA by variances


def environments_and_sources(rng, draw, k=4, d=3, rows=1500):
    labels = np.repeat(np.arange(k), rows)
    scale = rng.uniform(0.2, 3, size=(k, d))
    return labels, draw(size=(k * rows, d)) * scale[labels] + 5 * rng.normal(size=(k, d))[labels]


@pytest.mark.parametrize("law", ["normal", "laplace", "uniform"])
def test_it_recovers_sources_that_differ_in_their_variances(rng, law):
    labels, S = environments_and_sources(rng, getattr(rng, law))
    ica = VarianceICA().fit(S @ rng.normal(size=(3, 3)) + 7, labels)
    assert ica.identified_.all()
    assert ica.variability_.ok
    X = S @ np.linalg.qr(rng.normal(size=(3, 3)))[0]
    ica = VarianceICA().fit(X, labels)
    s = ica.transform(X)
    assert within_correlation(S, s, labels).value > 0.99
    close(ica.inverse_transform(s), X, 1e-9)
    close(s.mean(axis=0), np.zeros(3), 1e-9)
    close(ica.mixing_ @ ica.components_.T, np.eye(3), 1e-9)
    inside = s - VarianceICA().fit(s, labels).means_[labels]
    close(
        [inside[labels == e].var(axis=0, ddof=1) for e in range(4)], ica.variances_, 1e-6
    )  # fmt: skip


def test_gaussian_sources_that_ica_cannot_see(rng):
    labels, M = np.repeat([0, 1], 2000), rng.normal(size=(3, 3))
    S = rng.normal(size=(4000, 3))
    assert not ik.ICA().fit(S @ M).axes_.identified.any()
    S *= np.array([[1.0, 1.0, 1.0], [0.5, 1.0, 2.0]])[labels]
    assert VarianceICA().fit(S @ M, labels).identified_.all()


def test_one_environment_and_equal_variances_are_named(rng):
    X = rng.normal(size=(4000, 3)) @ rng.normal(size=(3, 3))
    with pytest.warns(
        UserWarning, match="axes 0, 1, 2 cannot be distinguished: there is 1 environment"
    ):
        one = VarianceICA().fit(X, np.zeros(4000))
    assert not one.identified_.any()
    assert one.variability_.rank == 0
    with pytest.warns(UserWarning, match=r"axes 0, 1, 2 .* is the same in all environments"):
        equal = VarianceICA().fit(X, np.repeat([0, 1, 2, 3, 4], 800))
    assert not equal.identified_.any()
    assert not equal.variability_.ok
    assert equal.errors_.min() > 0.7


def test_heavy_tails_make_ratios_uncertain(rng):
    """Variances of such sources vary by far more than 2/n: taken as normal, axes look apart."""
    wrong = 0
    labels = np.repeat(np.arange(6), 300)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(60):
            X = rng.laplace(size=(1800, 2)) ** 3
            wrong += VarianceICA().fit(X, labels).identified_.any()
    assert wrong <= 12


def test_labels_may_be_words_and_in_any_order(rng):
    labels, S = environments_and_sources(rng, rng.normal)
    order = rng.permutation(len(S))
    words = np.array(["calm", "loud", "fast", "slow"])[labels]
    first = VarianceICA().fit(S, labels)
    second = VarianceICA().fit(S[order], words[order])
    close(np.abs(second.components_), np.abs(first.components_), 1e-7)
    assert set(second.environments_) == set(words)


def test_dependent_columns_of_a_frame_are_left_out_by_rank(rng):
    labels, S = environments_and_sources(rng, rng.normal)
    frame = pd.DataFrame(
        np.column_stack([S, S[:, 0] - S[:, 1], np.ones(len(S))]), columns=[*"abcde"]
    )
    ica = VarianceICA().set_output(transform="pandas").fit(frame, labels)
    assert ica.components_.shape == (3, 5)
    close(ica.inverse_transform(ica.transform(frame).to_numpy()), frame.to_numpy(), 1e-7)
    assert list(ica.transform(frame).columns) == [f"varianceica{i}" for i in range(3)]
    with pytest.raises(InputError, match="but VarianceICA was fitted on a, b, c, d, e"):
        ica.transform(frame[[*"edcba"]])


@pytest.mark.parametrize(
    ("labels", "says"),
    [
        (None, "requires y"),
        (np.arange(6), "each of the 6 rows has its own environment"),
        ([0, 0, 0, 1, 1, 2], "environment 2 has 1 sample"),
        ([0, 0, 1, 1], r"shape \(4,\), and there are 6 rows"),
        ([0, 0, 0, 1, 1, np.nan], "environment of row 5 is NaN"),
        ([0, 0, 0, 1, 1, None], "have the types NoneType, int, which cannot be sorted"),
    ],
)
def test_bad_labels(rng, labels, says):
    with pytest.raises(InputError, match=says):
        VarianceICA().fit(rng.normal(size=(6, 2)), labels)


def test_rows_that_do_not_vary_or_vary_too_much(rng):
    labels = [0, 0, 0, 1, 1, 1]
    with pytest.raises(InputError, match="constant within every environment"):
        VarianceICA().fit(np.repeat([[1.0, 2.0], [5.0, 6.0]], 3, axis=0), labels)
    with pytest.raises(InputError, match="overflow in float64"), np.errstate(all="ignore"):
        VarianceICA().fit(rng.normal(size=(6, 2)) * 1e200, labels)
    with pytest.raises(NotFittedError, match="not fitted yet"):
        VarianceICA().transform(np.ones((2, 2)))


# What is scored


def test_pooled_means_are_no_recovery(rng):
    """A guess of the environment alone has a high pooled correlation and none within."""
    labels = np.repeat(np.arange(5), 400)
    means = np.array([[0.0, 9], [1, 0], [5, 5], [9, 1], [7, 7]])
    u = rng.normal(size=(2000, 2)) + means[labels]
    guess = means[labels] + 0.1 * rng.normal(size=(2000, 2))
    pooled = ik.mcc(ik.accumulate([u, guess], folds=1, sample=0)).value
    assert within_correlation(u, guess, labels).value < 0.1 < 0.8 < pooled
    guess[[3, 7]] = np.nan
    assert within_correlation(u, u[:, ::-1] * [2, -1], labels).value == pytest.approx(1)
    assert within_correlation(u, guess, labels).value < 0.1


def test_scoring_needs_rows(rng):
    u = rng.normal(size=(6, 2))
    with pytest.raises(InputError, match=r"shape \(6, 2\) and the recovered ones \(5, 2\)"):
        within_correlation(u, u[:5], [0, 0, 0, 1, 1, 1])
    with pytest.raises(InputError, match="no row has both"):
        within_correlation(u, np.full((6, 2), np.nan), [0, 0, 0, 1, 1, 1])
