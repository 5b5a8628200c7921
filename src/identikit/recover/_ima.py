"""Independent mechanism analysis: how far the columns of a Jacobian are from orthogonal.

Gresele et al. 2021 (the contrast), Reizinger et al. 2022 (its relation to the VAE).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from identikit._linalg import Array, rank_tolerance
from identikit.errors import InputError


def ima_contrast(jacobians: ArrayLike) -> Array:
    """The local contrast c = Σ_k log‖J_:k‖ − ½ log det JᵀJ of each Jacobian, in nats.

    It is 0 if the columns are orthogonal, positive otherwise, and infinite if they are linearly
    dependent (up to rounding errors of their type). The global contrast C_IMA of a mixing is the
    mean of the local contrasts over its sources, ``ima_contrast(J).mean()``. The contrast of the
    mean Jacobian is a different number, and can be 0 even if the local contrasts are not.

    Columns are scaled to length 1, so that c = −Σ_k log|R_kk| with J = QR. This avoids JᵀJ, whose
    condition number is that of J squared. Gresele et al. 2021.

    Parameters
    ----------
    jacobians : array (rows, D, d) or (D, d)
        ∂x/∂z of the mixing (or decoder), with D ≥ d and one column per source. For an unmixing,
        pass the inverses.

    Returns
    -------
    array (rows,)
        One contrast per Jacobian; for a single matrix, the shape is (1,).

    Examples
    --------
    >>> ima_contrast([[1, 1], [0, 1]]).round(4)  # ½ log 2
    array([0.3466])
    >>> ima_contrast([[[1, 1], [0, 1]], [[0, -2], [3, 0]]]).round(4)
    array([0.3466, 0.    ])
    """
    columns, eps = _jacobians(jacobians)
    _, D, d = columns.shape
    # Divide by the largest entry first, so that squares neither overflow nor underflow.
    largest = np.abs(columns).max(axis=1, keepdims=True, initial=0.0)
    columns = columns / np.where(largest > 0, largest, 1.0)
    lengths = np.sqrt(np.einsum("nij,nij->nj", columns, columns))[:, None]
    columns /= np.where(largest > 0, lengths, 1.0)
    # The raw form of LAPACK holds R transposed, next to the Householder reflections of Q.
    factors, _ = np.linalg.qr(columns, mode="raw")
    kept = np.abs(np.einsum("nii->ni", factors[:, :, :d]))
    dependent = (kept <= rank_tolerance(D, d, eps)).any(axis=1)
    contrasts = -np.log(np.where(dependent[:, None], 1.0, kept)).sum(axis=1)
    # Columns of length 1 have |R_kk| ≤ 1, up to rounding.
    return np.where(dependent, np.inf, np.maximum(contrasts, 0.0))


@dataclass(frozen=True, eq=False)
class LinearGap:
    """The gap of a linear VAE, and the posterior that attains it: N(`mean_map` x, `variances`).

    Attributes
    ----------
    value : float
        log p(x) − ELBO*(x) in nats, the same for every x.
    mean_map : array (d, D)
        γ² P⁻¹ Wᵀ.
    variances : array (d,)
        1 / P_kk.
    """

    value: float
    mean_map: Array
    variances: Array


def linear_elbo_gap(weights: ArrayLike, precision: float) -> LinearGap:
    """The gap between log-likelihood and best ELBO with a diagonal posterior, linear decoder.

    x ~ N(W z, γ⁻² I) and z ~ N(0, I) have P = I + γ² WᵀW as the precision of z given x, and

        log p(x) − ELBO*(x) = ½ (Σ_k log P_kk − log det P)  →  c(W)  as γ² → ∞.

    P is the Gram matrix of [I; γW], so that the gap is exactly the contrast (`ima_contrast`) of
    [I; γW], and P itself need not be computed. The limit is from Reizinger et al. 2022; the linear
    case follows by direct calculation.

    Parameters
    ----------
    weights : array (D, d)
        W.
    precision : float
        γ², the decoder's inverse variance.

    Examples
    --------
    >>> W = np.random.default_rng(0).normal(size=(5, 3))
    >>> [round(linear_elbo_gap(W, p).value, 4) for p in (1.0, 100.0, 1e4, 1e12)]
    [0.3298, 1.177, 1.216, 1.2164]
    >>> ima_contrast(W).round(4)
    array([1.2164])
    """
    matrix = np.asarray(weights, dtype=np.float64)
    if matrix.ndim != 2 or not np.isfinite(matrix).all():
        raise InputError(
            "the weights of a linear decoder must be a matrix (D, d) of finite numbers; these have "
            f"shape {matrix.shape} and {np.count_nonzero(~np.isfinite(matrix))} entries that are "
            "not finite"
        )
    root = math.sqrt(_positive(precision))
    d = matrix.shape[1]
    stacked = np.vstack([np.eye(d), root * matrix])
    orthonormal, triangle = np.linalg.qr(stacked)
    mean_map = np.linalg.solve(triangle, root * orthonormal[d:].T)
    variances = 1 / np.einsum("ij,ij->j", stacked, stacked)
    return LinearGap(float(ima_contrast(stacked)[0]), mean_map, variances)


def self_consistent_variance(
    jacobians: ArrayLike, precision: float, curvature: ArrayLike = 0.0
) -> Array:
    """The optimal posterior variances of a near-deterministic decoder, (rows, d).

    σ_k² ≈ 1 / (−n''(μ_k) + γ² ‖J_:k‖²) with J the decoder's Jacobian at the mean μ and n the log
    density of a latent's prior. This is exact for a linear decoder with a Gaussian prior. Reizinger
    et al. 2022.

    Parameters
    ----------
    jacobians : array (rows, D, d) or (D, d)
        J at each mean, with respect to the latents that the posterior is over.
    precision : float
        γ², the decoder's inverse variance.
    curvature : array (rows, d) or float
        n'' at each mean: 0 for a uniform prior, −1 for a standard normal one.

    Examples
    --------
    >>> self_consistent_variance([[3.0, 0.0], [4.0, 1.0]], 4.0, -1.0).round(3)
    array([[0.01, 0.2 ]])
    """
    columns, _ = _jacobians(jacobians)
    squares = np.einsum("nij,nij->nj", columns, columns)
    total = _positive(precision) * squares - np.asarray(curvature, dtype=np.float64)
    if not (total > 0).all():
        raise InputError(
            "−n'' + γ²‖J_:k‖² must be positive for a variance to exist, and is "
            f"{np.min(total):g} somewhere: a larger precision, or a log-concave prior, is needed"
        )
    return np.asarray(1 / total, dtype=np.float64)


def _jacobians(values: ArrayLike) -> tuple[NDArray[np.float64], float]:
    """Jacobians as (rows, D, d) in float64, and the machine epsilon of their original type."""
    given = np.asarray(values)
    if given.dtype.kind not in "iuf":
        raise InputError(f"Jacobians must be real numbers, not {given.dtype}")
    eps = float(np.finfo(given.dtype if given.dtype.kind == "f" else np.float64).eps)
    array = np.asarray(given, dtype=np.float64)
    if array.ndim == 2:
        array = array[None]
    if array.ndim != 3 or 0 in array.shape[1:]:
        raise InputError(
            "Jacobians must be an array (rows, D, d), or one matrix (D, d); these have shape "
            f"{given.shape}"
        )
    if array.shape[1] < array.shape[2]:
        raise InputError(
            "a Jacobian must have at least as many rows (observed) as columns (sources); these "
            f"are {array.shape[1]} × {array.shape[2]}: pass ∂x/∂z, not its transpose"
        )
    bad = ~np.isfinite(array).all(axis=(1, 2))
    if bad.any():
        raise InputError(
            f"{np.count_nonzero(bad)} of {len(array)} Jacobians have NaN or infinite entries, the "
            f"first at row {np.argmax(bad)}"
        )
    return array, eps


def _positive(precision: float) -> float:
    if not (precision > 0 and math.isfinite(precision)):
        raise InputError(f"the decoder's precision γ² must be a positive number, not {precision}")
    return float(precision)
