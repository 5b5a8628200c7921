"""Axes that covariances share beside one unknown part: C_e = M diag(v_e) Mᵀ + N.

N is the same in all environments, so it is in none of the differences C_e − C̄ = M diag(v_e − v̄) Mᵀ.
These are indefinite: no whitening makes M a rotation, and the axes are found without that.
"""

from __future__ import annotations

import numpy as np

from identikit._linalg import Array, inverse_or_zero
from identikit.recover._axes import EPS, SINE, Axes, rotation, settled, whitened
from identikit.recover._ties import Pairs, total_leak

STEPS = 200
#: Of a step, the largest size; and what keeps it from growing where two axes are nearly tied.
LARGEST = 0.5
RIDGE = 1e-2


def oblique_axes(C: Array, weights: Array) -> Axes:
    """Diagonalise the differences of covariances from their mean.

    After the best rotation, all pairs at once by W ← (I + U) W with the U that leaves least off the
    diagonals to first order (Ziehe, Laskov, Nolte and Müller 2004). The `variances` are of C_e
    itself, and so contain those of N.

    Parameters
    ----------
    C : array (k, d, d)
        Symmetric, with a positive definite mean.
    weights : array (k,)
        Of each, which sum to 1.
    """
    white = whitened(np.tensordot(weights, C, 1))
    whole = white.map @ C @ white.map.T
    D = (whole - np.tensordot(weights, whole, 1)) * np.sqrt(weights)[:, None, None]
    unmixing, sweeps, _ = rotation(D)
    turning = np.zeros(len(unmixing))
    for _ in range(STEPS if len(C) > 2 else 0):
        inner = unmixing @ D @ unmixing.T
        step = _step(inner)
        turning = np.abs(step).max(axis=1)
        size = float(np.linalg.norm(step))
        unmixing = unmixing + step @ unmixing * min(1.0, LARGEST / max(size, LARGEST))
        # Of length 1, or the least would be off the diagonals of W = 0.
        unmixing /= np.linalg.norm(unmixing, axis=1, keepdims=True)
        if size < SINE:
            break
    inner = unmixing @ D @ unmixing.T
    totals = np.einsum("kii->ki", unmixing @ whole @ unmixing.T)
    return settled(
        unmixing @ white.map, white.back @ np.linalg.inv(unmixing), totals, inner, sweeps, turning,
        max(EPS**0.5, EPS * white.condition),
    )  # fmt: skip


def _step(inner: Array) -> Array:
    """U: of each pair of axes the U_ij and U_ji that make Σ_e (E_ij + U_ij D_j + U_ji D_i)² least.

    D are the diagonals and E what is off them; z = Σ_e D Dᵀ and y_ij = Σ_e D_j E_ij.
    """
    D = np.einsum("kii->ki", inner)
    z = D.T @ D
    size = np.diagonal(z)
    y = np.einsum("kj,kij->ij", D, inner)
    np.fill_diagonal(y, 0.0)
    determinant = (1 + RIDGE) * np.outer(size, size) - z**2
    step = z * y.T - size[:, None] * y
    np.fill_diagonal(step, 0.0)
    return np.asarray(step * inverse_or_zero(np.maximum(determinant, 0.0)))


def oblique_leakages(totals: Array, spreads: Array, weights: Array, tied: Pairs) -> Array:
    """The standard error of each axis, as `leakages` has it, of axes found from differences.

    To first order the leak of axis j into axis i is Σ_e w_e (z_ij D_ei − z_ii D_ej) n_e over
    z_ii z_jj − z_ij², with D the centred variances and n_e the error of the two's covariance.

    Parameters
    ----------
    totals, spreads : array (k, d)
        Variances with those of N, and their sampling variances.
    weights : array (k,)
        Of the environments; they sum to 1.
    tied : array (d, d) of bool
        Which pairs are.
    """
    D = totals - weights @ totals
    z = (weights[:, None] * D).T @ D
    size = np.diagonal(z)
    turned = (z * D[:, :, None] - size[:, None] * D[:, None, :]) * weights[:, None, None]
    turned *= inverse_or_zero(np.maximum(np.outer(size, size) - z**2, 0.0))
    deviation = np.sqrt(spreads)
    noise = deviation[:, :, None] * deviation[:, None, :] / 2
    return total_leak((turned**2 * noise).sum(axis=0), tied)
