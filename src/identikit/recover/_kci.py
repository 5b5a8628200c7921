"""Kernel tests of independence, on all rows and on many random halves of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from identikit._linalg import Array

Floats = NDArray[np.floating[Any]]
#: Widths of Gaussian kernels on standardised data with fewer than 200 rows, fewer than 1,200, and
#: more, as in the code of Zhang et al.; and the ridge of the regression on z.
PLAIN, CONDITIONAL = (0.8, 0.5, 0.3), (1.2, 0.7, 0.4)
RIDGE = 1e-3
#: Kernel matrices of one variable have rank 30 or so; the remainder of the diagonal is dropped.
LEFT = 1e-12


def independence(x: Floats, y: Floats, halves: Floats, width: float | None = None) -> Array:
    """p-values of x ⟂ y on all rows, on each half, and on each complementary half.

    The statistic Σ_ij K_ij L_ij of centred Gaussian kernels (HSIC; Gretton et al. 2008) against the
    gamma law with its mean and variance under independence.

    `halves` (rows, B) is 1 if a row is in the half, otherwise 0. They are not centred again, but
    reuse the kernels and means of all rows, and so cost very little; the regressions of
    `conditional_independence` are not repeated either. Columns are standardised, unless a `width`
    of both kernels is given. float32 data are processed in float32.
    """
    n = len(x)
    K, L = (_centred(_kernel(_squares(each, width), n, PLAIN, width)) for each in (x, y))
    sizes = _totals(np.ones(n), halves)
    statistic = _sums(K * L, halves)
    mean = _totals(np.diagonal(K), halves) * _totals(np.diagonal(L), halves) / sizes
    spreads = [_sums(np.square(each, out=each), halves) for each in (K, L)]
    return _gamma_tail(statistic, mean, 2 * spreads[0] * spreads[1] / sizes**2)


def conditional_independence(x: Array, y: Array, z: Array, halves: Floats) -> Array:
    """p-values of x ⟂ y given z, for the same subsets as `independence` (KCI; Zhang et al. 2011).

    From the kernels of (x, z/2) and of y, the part that a kernel ridge regression on z explains is
    removed: R K R with R = ε (K_z + ε I)⁻¹. With M = R K R ∘ R L R the statistic is Σ_ij M_ij, and
    under the null it has the mean Σ_i M_ii and the variance 2 Σ_ij M_ij². So no eigenvalues are
    needed for the gamma approximation, and R is I minus a matrix of low rank.
    """
    n, given = len(x), _squares(z)
    together = _squares(x)
    together += 0.25 * given
    explained = _explained(_kernel(given, n, CONDITIONAL))
    M = _residual(_kernel(together, n, CONDITIONAL), explained)
    M *= _residual(_kernel(_squares(y), n, CONDITIONAL), explained)
    statistic, mean = _sums(M, halves), _totals(np.diagonal(M), halves)
    return _gamma_tail(statistic, mean, 2 * _sums(np.square(M, out=M), halves))


# Matrices are changed in place: for a few hundred rows, allocating new ones dominates the cost.


def _squares(x: Floats, width: float | None = None) -> Array:
    """Squared distances between rows; columns are standardised unless a width is given."""
    rows = x.reshape(len(x), -1)
    if width is None:
        rows = (rows - rows.mean(axis=0)) / rows.std(axis=0, ddof=1)
    if rows.shape[1] == 1:
        squares: Array = np.subtract.outer(rows[:, 0], rows[:, 0])
        return np.square(squares, out=squares)
    norms = np.einsum("ij,ij->i", rows, rows)
    squares = np.add.outer(norms, norms)
    squares -= (2 * rows) @ rows.T
    return squares


def _kernel(
    squares: Array, n: int, widths: tuple[float, float, float], width: float | None = None
) -> Array:
    squares *= -0.5 / (width or widths[(n >= 200) + (n >= 1200)]) ** 2
    return np.exp(squares, out=squares)


def _centred(K: Array) -> Array:
    means = K.mean(axis=0)
    K -= means
    K -= (means - means.mean())[:, None]
    return K


def _explained(K: Array) -> Array:
    """B with B Bᵀ = I − R: the part that a kernel ridge regression on z explains."""
    from scipy.linalg import cholesky, solve_triangular
    from scipy.linalg.lapack import dpstrf

    # Pivoted Cholesky K = F Fᵀ; the rank is low, since z is one variable.
    factor, pivots, rank, _ = dpstrf(K, lower=1, tol=LEFT)
    F = np.empty((len(K), rank))
    F[pivots - 1] = np.tril(factor)[:, :rank]
    F -= F.mean(axis=0)
    root = cholesky(F.T @ F + RIDGE * np.eye(rank), lower=True)
    explained: Array = solve_triangular(root, F.T, lower=True)
    return np.ascontiguousarray(explained.T)


def _residual(K: Array, B: Array) -> Array:
    """R K R of the centred kernel, R = I − B Bᵀ."""
    K = _centred(K)
    half = K @ B
    half -= 0.5 * B @ (B.T @ half)
    both = B @ half.T
    K -= both
    K -= both.T
    return K


def _sums(M: Array, halves: Floats) -> Array:
    """Σ_ij M_ij over all rows, each half and each complementary half, for a symmetric M."""
    halves = halves.astype(M.dtype, copy=False)
    rows = M.sum(axis=0)
    inside = np.einsum("ij,ij->j", halves, M @ halves)
    whole = rows.sum()
    return np.concatenate([[whole], inside, whole - 2 * rows @ halves + inside])


def _totals(values: Array, halves: Floats) -> Array:
    whole, inside = values.sum(), values @ halves
    return np.concatenate([[whole], inside, whole - inside])


def _gamma_tail(statistic: Array, mean: Array, variance: Array) -> Array:
    from scipy.special import gammaincc

    # Rounding may make a statistic of 0 slightly negative.
    return np.asarray(gammaincc(mean**2 / variance, np.maximum(statistic, 0) * mean / variance))
