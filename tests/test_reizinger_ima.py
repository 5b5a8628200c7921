"""Independent mechanism analysis: the contrast, the exact linear VAE, and the fixtures of both."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import multivariate_normal, ortho_group

import identikit as ik
from conftest import close
from identikit.errors import InputError
from identikit.factors import rotation_level
from identikit.recover import linear_elbo_gap, self_consistent_variance

# The fixture of the exact linear case.
W = np.random.default_rng(0).normal(size=(5, 3))
GAPS = {1.0: 0.3298, 10.0: 0.9301, 1e2: 1.1770, 1e3: 1.2123, 1e4: 1.2160, 1e12: 1.2164}


def by_gram(jacobians: np.ndarray) -> np.ndarray:
    """The definition, ½ (log det diag JᵀJ − log det JᵀJ)."""
    gram = jacobians.swapaxes(-1, -2) @ jacobians
    diagonal = np.log(np.einsum("...ii->...i", gram)).sum(-1)
    return 0.5 * (diagonal - np.linalg.slogdet(gram)[1])


def rotation(d: int, rng: np.random.Generator) -> np.ndarray:
    return ortho_group.rvs(d, random_state=rng)


def moebius(z: np.ndarray, pole: np.ndarray, turn: np.ndarray, alpha: float) -> np.ndarray:
    away = z - pole
    return alpha * (away / (away**2).sum(-1, keepdims=True)) @ turn.T


def moebius_jacobian(z: np.ndarray, pole: np.ndarray, turn: np.ndarray, alpha: float) -> np.ndarray:
    """α A (I − 2 u uᵀ) / r²."""
    r = np.linalg.norm(z - pole, axis=-1)
    u = (z - pole) / r[:, None]
    reflections = np.eye(z.shape[1]) - 2 * u[:, :, None] * u[:, None]
    return alpha * turn @ reflections / r[:, None, None] ** 2


# The contrast


@pytest.mark.parametrize("a", [-3.0, 0.0, 0.5, 1.0, 1e4])
def test_shear(a):
    """½ log(1 + a²); .3466 at a = 1."""
    close(ik.ima_contrast([[1, a], [0, 1]]), [0.5 * np.log1p(a**2)], 1e-12)
    close(ik.ima_contrast([[1, 1], [0, 1]]), [0.3466], 5e-5)


@pytest.mark.parametrize(("D", "d"), [(2, 2), (5, 5), (9, 4), (3, 1)])
def test_orthogonal_columns_have_none(D, d, rng):
    columns = rotation(D, rng)[:, :d]
    stack = np.stack([columns, columns * np.logspace(-4, 4, d)])
    close(ik.ima_contrast(stack), np.zeros(2), 1e-12)


@pytest.mark.parametrize(("D", "d"), [(3, 3), (8, 8), (20, 4)])
def test_the_definition(D, d, rng):
    jacobians = rng.normal(size=(200, D, d))
    contrasts = ik.ima_contrast(jacobians)
    assert contrasts.min() > 0
    good = np.linalg.cond(jacobians) < 1e3  # the definition squares the condition
    close(contrasts[good], by_gram(jacobians)[good], 1e-9)
    close(ik.ima_contrast(jacobians[7]), contrasts[7:8], 0)


@given(
    arrays(np.float64, (4, 3), elements=st.floats(-3, 3, width=16)),
    st.integers(0, 10**6),
    st.permutations(range(3)),
    arrays(np.float64, 3, elements=st.floats(0.01, 100)),
)
def test_invariance(jacobian, seed, order, scales):
    """J → Q J D Π changes nothing."""
    if np.linalg.cond(jacobian) > 1e6:
        return
    turn = rotation(4, np.random.default_rng(seed))
    changed = (turn @ jacobian * scales)[:, order]
    close(ik.ima_contrast(changed), ik.ima_contrast(jacobian), 1e-8)


def test_a_rotation_of_the_sources_changes_it(rng):
    """J → J R with columns of unequal length; of equal length it does not."""
    turn = rotation(3, rng)
    orthogonal = rotation(3, rng)
    assert ik.ima_contrast(orthogonal * [1, 2, 4] @ turn)[0] > 0.05
    close(ik.ima_contrast(3 * orthogonal @ turn), [0.0], 1e-12)


def test_moebius_maps_have_none_and_others_some(rng):
    z = rng.uniform(-0.5, 0.5, size=(50, 3))
    pole, turn = np.array([0.9, -1.1, 0.7]), rotation(3, rng)
    jacobians = moebius_jacobian(z, pole, turn, 1.5)
    steps = 1e-6 * np.eye(3)
    numeric = np.stack(
        [(moebius(z + h, pole, turn, 1.5) - moebius(z - h, pole, turn, 1.5)) / 2e-6 for h in steps],
        axis=2,
    )
    close(numeric, jacobians, 1e-7)
    close(ik.ima_contrast(jacobians), np.zeros(50), 1e-12)
    assert ik.ima_contrast(rng.normal(size=(3, 3)) @ jacobians).min() > 1e-3


def test_mean_of_local_contrasts_is_not_that_of_the_mean():
    """J(±1) = [[1, ±1], [0, 1]]: .3466 against 0."""
    local = np.array([[[1, 1], [0, 1]], [[1, -1], [0, 1]]])
    close(ik.ima_contrast(local).mean(), 0.3466, 5e-5)
    close(ik.ima_contrast(local.mean(0)), [0.0], 1e-15)


def test_likelihood_less_its_regularised_form_is_the_contrast(rng):
    """x = f(z), f triangular: log p from a density of x, L_IMA from the columns of J_f."""
    lower = np.tril(rng.normal(size=(3, 3))) + 2 * np.eye(3)
    z = rng.normal(size=(20, 3))
    log_p = multivariate_normal(cov=lower @ lower.T).logpdf(z @ lower.T)
    log_prior = -0.5 * (z**2).sum(1) - 1.5 * np.log(2 * np.pi)
    l_ima = log_prior - np.log(np.linalg.norm(lower, axis=0)).sum()
    close(log_p - l_ima, np.full(20, ik.ima_contrast(lower)[0]), 1e-10)


def test_the_published_numbers_of_the_triangular_decoder():
    """log p 14.851, L_IMA 7.779, C_IMA 7.072: a triangular map with two of them has the third."""
    lower = np.array([[1.0, 0.0], [np.sqrt(np.expm1(2 * 7.072)), 1.0]])
    log_prior = -0.7
    lower *= np.exp((log_prior - 14.851) / 2)
    close(log_prior - np.linalg.slogdet(lower)[1], 14.851, 1e-9)
    close(log_prior - np.log(np.linalg.norm(lower, axis=0)).sum(), 7.779, 5e-4)
    close(ik.ima_contrast(lower), [7.072], 1e-9)


def test_ill_conditioned_columns_keep_their_digits():
    """Columns at an angle of 1e-10: JᵀJ in float64 would be singular."""
    angle = 1e-10
    close(ik.ima_contrast([[1, 1], [0, angle]]), [-np.log(angle)], 1e-5)
    close(ik.ima_contrast([[1e200, 1e-200], [0, 1e-200]]), [0.3466], 5e-5)


def test_dependent_columns_are_infinitely_far(rng):
    dependent = rng.normal(size=(4, 3))
    dependent[:, 2] = dependent[:, :2] @ [0.3, -1.7]
    with_zero = np.eye(3)
    with_zero[:, 1] = 0
    assert np.isposinf(ik.ima_contrast(dependent)).all()
    assert np.isposinf(ik.ima_contrast(dependent.astype("f4"))).all()
    assert np.isinf(ik.ima_contrast([with_zero, np.eye(3)])).tolist() == [True, False]


@pytest.mark.parametrize(
    ("jacobians", "words"),
    [
        (np.ones((2, 3)), "2 × 3: pass ∂x/∂z, not its transpose"),
        (np.ones(3), r"these have shape \(3,\)"),
        (np.ones((4, 0, 0)), r"these have shape \(4, 0, 0\)"),
        ([np.eye(2), [[1, np.nan], [0, 1]]], "1 of 2 Jacobians .* the first at row 1"),
        ([["a", "b"]], "real numbers"),
    ],
)
def test_bad_jacobians(jacobians, words):
    with pytest.raises(InputError, match=words):
        ik.ima_contrast(jacobians)


def test_no_jacobians_have_no_contrasts():
    assert ik.ima_contrast(np.empty((0, 3, 2))).shape == (0,)


# The exact linear case


@pytest.mark.parametrize("precision", GAPS)
def test_gaps_of_the_linear_decoder(precision):
    """The published numbers; the limit is the contrast of W."""
    close(linear_elbo_gap(W, precision).value, GAPS[precision], 5e-5)
    close(ik.ima_contrast(W), [1.2164], 5e-5)


@pytest.mark.parametrize("precision", [1.0, 1e2, 1e4])
def test_the_gap_is_that_of_every_x(precision, rng):
    """log p by the density of x; the ELBO by the closed form of its three parts."""
    found = linear_elbo_gap(W, precision)
    x = rng.normal(size=(50, 5))
    log_p = multivariate_normal(cov=W @ W.T + np.eye(5) / precision).logpdf(x)

    def elbo(means, variances):
        errors = ((x - means @ W.T) ** 2).sum(1) + (variances * (W**2).sum(0)).sum()
        likelihood = 0.5 * (5 * np.log(precision / (2 * np.pi)) - precision * errors)
        kl = 0.5 * (variances + means**2 - 1 - np.log(variances)).sum(1)
        return likelihood - kl

    best = elbo(x @ found.mean_map.T, found.variances)
    close(log_p - best, np.full(50, found.value), 1e-6)
    # Nothing else does better: neither another mean nor another variance.
    assert (elbo(x @ found.mean_map.T + 0.01, found.variances) < best).all()
    for factor in (0.9, 1.1):
        assert (elbo(x @ found.mean_map.T, factor * found.variances) < best).all()


def test_the_gap_at_high_precision_in_exact_arithmetic():
    """Integer W and γ²: det P by Sarrus' rule in whole numbers."""
    weights, precision = np.array([[1, 2, 0], [0, 1, 5], [3, 0, 1], [1, 1, 1]]), 10**12
    P = [
        [int(i == j) + precision * int(weights[:, i] @ weights[:, j]) for j in range(3)]
        for i in range(3)
    ]
    determinant = sum(
        P[0][i] * (P[1][(i + 1) % 3] * P[2][(i + 2) % 3] - P[1][(i + 2) % 3] * P[2][(i + 1) % 3])
        for i in range(3)
    )
    ratio = P[0][0] * P[1][1] * P[2][2] / determinant
    found = linear_elbo_gap(weights, precision)
    close(found.value, 0.5 * np.log(ratio), 1e-12)
    close(found.mean_map @ weights, np.eye(3), 1e-10)


@pytest.mark.parametrize("precision", [1.0, 1e4, 1e8])
def test_self_consistency_is_exact_in_the_linear_case(precision):
    """1 / (1 + γ² ‖W_:k‖²)."""
    expected = 1 / (1 + precision * (W**2).sum(0))
    close(linear_elbo_gap(W, precision).variances, expected, 1e-14)
    close(self_consistent_variance([W, 2 * W], precision, -1.0)[0], expected, 1e-14)


def test_a_wide_linear_decoder_has_a_finite_gap():
    """Three latents of two numbers: W has dependent columns, P has not."""
    close(linear_elbo_gap(W[:2], 1e4).value, 0.5 * np.log(gram_ratio(W[:2], 1e4)), 1e-8)


def gram_ratio(weights, precision):
    P = np.eye(weights.shape[1]) + precision * weights.T @ weights
    return np.diag(P).prod() / np.linalg.det(P)


def test_bad_linear_decoders():
    with pytest.raises(InputError, match=r"shape \(3,\) and 1 entries that are not finite"):
        linear_elbo_gap([1, 2, np.nan], 1.0)
    for precision in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(InputError, match="precision γ² must be a positive number"):
            linear_elbo_gap(W, precision)
    with pytest.raises(InputError, match="log-concave prior"):
        self_consistent_variance(W, 1e-6, 1.0)


# What an MCC is worth


def test_random_rotations_in_three_dimensions(rng):
    """MCC .829 on average in d = 3, .773 in d = 4; and one of them is rigid, no more."""
    for d, expected in ((3, 0.829), (4, 0.773)):
        sources = rng.uniform(-0.5, 0.5, size=(20_000, d))
        close(rotation_level(sources, sources, rotations=1000).of_factors.mean, expected, 0.01)
    assert ik.audit([sources, sources @ rotation(4, rng)]).verdict.group == "rigid"
