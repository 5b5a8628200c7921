"""Chance levels: canonical correlations of independent views."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from identikit._linalg import Array
from identikit.errors import InputError

#: Below this width the limit law is too high by one per cent or more, and a simulation is cheap.
SMALL = 32


def cca_chance(n: int, p: int, q: int) -> float:
    """Expected mean canonical correlation of independent views of n rows and p and q columns.

    Squared correlations of independent Gaussian views follow the Jacobi ensemble, and Wachter's law
    in the limit of large widths. The mean of r is exact for one column, simulated below 32 columns
    (with a fixed seed), and otherwise the mean of √t under Wachter's law. For p = q, c = p/(n−1)
    and φ = arcsin √c that mean is (sin 2φ − 2φ cos 2φ)/(π sin² φ). If p + q > n − 1, then
    p + q − n + 1 correlations are 1.

    Parameters
    ----------
    n : int
        Number of rows.
    p, q : int
        Ranks of the two views.

    Examples
    --------
    >>> round(cca_chance(55034, 768, 768), 3)
    0.1
    """
    N, p, q = _checked(n, p, q)
    if q >= N:
        return 1.0
    if p + q > N:
        ones = p + q - N
        rest = cca_chance(n, N - q, N - p) if N - q else 0.0
        return (ones + (p - ones) * rest) / p
    if p == 1:
        from scipy.special import gammaln

        log_mean = gammaln((q + 1) / 2) + gammaln(N / 2) - gammaln(q / 2) - gammaln((N + 1) / 2)
        return float(np.exp(log_mean))
    if p < SMALL:
        return _simulated(N, p, q)
    if p == q:
        phi = np.arcsin(np.sqrt(p / N))
        return float((np.sin(2 * phi) - 2 * phi * np.cos(2 * phi)) / (np.pi * np.sin(phi) ** 2))
    return _wachter_mean(p / N, q / N)


def cca_chance_square(n: int, p: int, q: int) -> float:
    """Expected mean *squared* canonical correlation of independent views: max(p, q)/(n − 1).

    This is exact, and for any data it is also the exact mean over all pairings of the rows.
    """
    N, p, q = _checked(n, p, q)
    return min(q / N, 1.0)


def cca_chance_edge(n: int, p: int, q: int) -> float:
    """The limit of the largest canonical correlation of independent views of this shape.

    It is √λ₊ with λ₊ = (√(c₁(1−c₂)) + √(c₂(1−c₁)))², the upper edge of Wachter's law.
    """
    N, p, q = _checked(n, p, q)
    if p + q >= N:
        return 1.0
    return float(np.sqrt(_edges(p / N, q / N)[1]))


def adjusted_r2(mean_square: float, n: int, p: int, q: int) -> float:
    """Mean squared canonical correlation, adjusted for chance: (R² − q/N)/(1 − q/N), q ≥ p.

    N = n − 1. It is 0 on average for independent views and 1 for equal ones (Ezekiel's formula).
    """
    chance = cca_chance_square(n, p, q)
    return (mean_square - chance) / (1.0 - chance)


def _checked(n: int, p: int, q: int) -> tuple[int, int, int]:
    if n < 2 or min(p, q) < 1:
        raise InputError(f"a chance level needs n ≥ 2 and p, q ≥ 1; got n = {n}, p = {p}, q = {q}")
    return n - 1, min(p, q), max(p, q)


def _edges(c1: float, c2: float) -> tuple[float, float]:
    a, b = np.sqrt(c1 * (1 - c2)), np.sqrt(c2 * (1 - c1))
    return float((a - b) ** 2), float(min((a + b) ** 2, 1.0))


def _wachter_mean(c1: float, c2: float) -> float:
    """∫ √t w(t) dt with w(t) = √((λ₊−t)(t−λ₋)) / (2π c₁ t(1−t)).

    The substitution t = λ₋ + (λ₊−λ₋) sin² θ makes the integrand smooth, even as λ₋ → 0 or λ₊ → 1.
    """
    low, high = _edges(c1, c2)
    nodes, weights = _quadrature()
    theta = (nodes + 1) * np.pi / 4
    sine, cosine = np.sin(theta), np.cos(theta)
    t = low + (high - low) * sine**2
    rest = (1 - high) + (high - low) * cosine**2
    density = 2 * (high - low) ** 2 * (sine * cosine) ** 2 / (2 * np.pi * c1 * np.sqrt(t) * rest)
    return float(weights @ density * np.pi / 4)


@lru_cache(maxsize=1)
def _quadrature() -> tuple[Array, Array]:
    nodes, weights = np.polynomial.legendre.leggauss(400)
    return nodes, weights


@lru_cache(maxsize=1024)
def _simulated(N: int, p: int, q: int) -> float:
    """Mean of r over draws of the Jacobi ensemble: r² are the eigenvalues of (A + B)⁻¹ A.

    A and B are Wishart matrices with q and N − q degrees of freedom, drawn by Bartlett's
    decomposition, so that the cost does not depend on N.
    """
    rng = np.random.default_rng(0)
    draws = 8000 // p  # each draw is itself a mean over p correlations
    factors = []
    for freedom in (q, N - q):
        L = np.tril(rng.normal(size=(draws, p, p)), -1)
        index = np.arange(p)
        L[:, index, index] = np.sqrt(rng.chisquare(freedom - index, size=(draws, p)))
        factors.append(L)
    A, B = (L @ L.transpose(0, 2, 1) for L in factors)
    whitener = np.linalg.inv(np.linalg.cholesky(A + B))
    # The singular values of the whitened factor of A are the correlations r, not their squares.
    r = np.linalg.svd(whitener @ factors[0], compute_uv=False)
    return float(r.mean())
