"""Common axes of several covariances, with or without an unknown common noise covariance.

Covariances C_e = M diag(v_e) Mᵀ are whitened. What remains is a rotation, which is found by Jacobi
rotations of disjoint pairs of axes at once. If C_e = M diag(v_e) Mᵀ + N with N the same in all
environments, N cancels in the differences C_e − C̄ = M diag(v_e − v̄) Mᵀ. These are indefinite, so
that no whitening makes M a rotation; they are diagonalised by a matrix that need not be orthogonal.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from identikit._linalg import Array, inverse_or_zero, rank_tolerance, svd, whitening
from identikit.recover._ties import Pairs, groups, leakages, tied_axes, total_leak

EPS = 2.0**-52
#: If all sines of rotation angles are below this, the sweeps have converged.
SINE = 1e-10
#: An axis that still rotates by more than this has not converged.
STILL = 1e-4
SWEEPS = 30
#: The number of steps towards oblique axes, the largest size of a step, and the regularisation that
#: keeps steps small when two axes are nearly tied.
STEPS, LARGEST, RIDGE = 200, 0.5, 1e-2


@dataclass(frozen=True, eq=False)
class Axes:
    """The axes that were found; `turning` is how far each axis rotated in the last sweep."""

    unmixing: Array
    mixing: Array
    variances: Array
    off: float
    sweeps: int
    turning: Array
    rounding: float

    @property
    def converged(self) -> NDArray[np.bool_]:
        """Whether each axis has converged."""
        return np.asarray(self.turning <= STILL)

    def within_rounding(self) -> Pairs:
        """Pairs of axes whose variances, scaled to mean 1, differ by no more than rounding errors.

        The error of an axis is the rounding error divided by the gap between the variances, so that
        the gap must be much larger than the rounding error.
        """
        v = self.variances
        gaps = np.abs(v[:, :, None] - v[:, None, :]).max(axis=0)
        tied = gaps <= self.rounding * max(1.0, float(np.abs(v).max()))
        np.fill_diagonal(tied, False)
        return np.asarray(tied)

    def judged(
        self, spreads: Array, normal: Array, weights: Array, *, noise: bool = False
    ) -> tuple[tuple[tuple[int, ...], ...], NDArray[np.bool_], Array]:
        """Sets of tied axes, whether each axis is identified, and its standard error.

        `spreads` (k, d) are the sampling variances of the variances, and `normal` those of normal
        data; `noise` says that the variances include an unknown part that all environments share.
        """
        tied = tied_axes(self.variances, spreads, noise=noise)
        leaks = oblique_leakages if noise else leakages
        errors = leaks(self.variances, normal, weights, tied)
        return groups(tied), ~tied.any(axis=1) & self.converged, errors


class White(NamedTuple):
    """W with W C Wᵀ = I, its right inverse, and the condition number of C's correlations."""

    map: Array
    back: Array
    condition: float


def find_axes(
    C: Array,
    weights: Array,
    *,
    start: White | None = None,
    eps: float = EPS,
    max_sweeps: int = SWEEPS,
) -> Axes:
    """Diagonalise covariances (k, d, d) whose mean is positive semi-definite; weights sum to 1.

    `start` is a whitening of the mean, or an approximate unmixing; `eps` is the machine epsilon of
    the type in which the numbers were stored.
    """
    first = start or whitened(np.tensordot(weights, C, 1), eps)
    inner = first.map @ C @ first.map.T
    if start is not None:
        again = whitened(np.tensordot(weights, inner, 1), eps)
        inner = again.map @ inner @ again.map.T
        first = White(again.map @ first.map, first.back @ again.back, first.condition)
    turn, sweeps, turning = rotation(inner * np.sqrt(weights)[:, None, None], max_sweeps)
    inner = turn @ inner @ turn.T
    variances = np.einsum("kii->ki", inner)
    rounding = max(eps**0.5, 100 * len(turn) * eps * first.condition)
    return settled(
        turn @ first.map, first.back @ turn.T, variances, inner, sweeps, turning, rounding
    )


def settled(
    unmixing: Array,
    mixing: Array,
    variances: Array,
    inner: Array,
    sweeps: int,
    turning: Array,
    rounding: float,
) -> Axes:
    """Sort axes by how much their variances vary, and choose signs; `inner` should be diagonal.

    The order does not depend on the coordinates in which the covariances are given.
    """
    beside = inner * (1 - np.eye(len(unmixing)))
    off = float((beside**2).sum() / max((inner**2).sum(), 1e-300))
    order = np.argsort(-variances.var(axis=0), kind="stable")
    mixing = mixing[:, order]
    signs = np.sign(mixing[np.abs(mixing).argmax(axis=0), np.arange(len(order))])
    return Axes(
        signs[:, None] * unmixing[order],
        mixing * signs,
        variances[:, order],
        off**0.5,
        sweeps,
        turning[order],
        rounding,
    )


def whitened(mean: Array, eps: float = EPS, rounding: Array | None = None) -> White:
    """Whiten by the symmetric root if the matrix has full rank, otherwise by any root.

    `rounding` (d,) are the errors of the columns as shares of their standard deviations.
    """
    scale = np.sqrt(np.maximum(np.diagonal(mean), 0.0))
    tolerance = rank_tolerance(len(mean), len(mean), eps)
    found = whitening(mean, None, scale, tolerance, rounding).map
    left, values, right = svd(scale[:, None] * found)
    forth, back = found.T, scale[:, None] * (left / values) @ right
    if len(forth) == len(mean):
        # Make the root symmetric, so that the axes of a single covariance favour no column.
        first, _, last = svd(forth)
        turn = (first @ last).T
        forth, back = turn @ forth, back @ turn.T
    return White(forth, back, float((values[0] / values[-1]) ** 2) if values.size else 1.0)


def rotation(C: Array, max_sweeps: int = SWEEPS) -> tuple[Array, int, Array]:
    """The rotation that best diagonalises C, the number of sweeps, and the last angles (sines)."""
    k, d, _ = C.shape
    if k == 1 or d == 1:
        return np.eye(d), 0, np.zeros(d)
    if k == 2:
        # After whitening the two add up to a multiple of I, so that they share eigenvectors.
        return np.linalg.eigh(C[0])[1].T, 0, np.zeros(d)
    # Put environments last, so that a row of all matrices is contiguous in memory.
    C = np.ascontiguousarray(np.moveaxis(C, 0, 2))
    other, turn, every = np.empty_like(C), np.eye(d), np.arange(d)
    sweeps = 0
    while sweeps < max_sweeps:
        sweeps += 1
        turning = np.zeros(d)
        for partner, lower, alone in _round_robin(d):
            diagonal = C[every, every]
            gap, twice = diagonal - diagonal[partner], 2 * C[every, partner]
            on = np.einsum("dk,dk->d", gap, gap) - np.einsum("dk,dk->d", twice, twice)
            angle = np.arctan2(2 * np.einsum("dk,dk->d", gap, twice), on) / 4
            # Partners rotate by opposite angles: each becomes c × itself + s × the other.
            angle = np.where(lower, angle, -angle[partner])
            angle[alone] = 0.0
            c, s = np.cos(angle), np.sin(angle)
            np.take(C, partner, axis=0, out=other)
            C *= c[:, None, None]
            other *= s[:, None, None]
            C += other
            np.take(C, partner, axis=1, out=other)
            C *= c[:, None]
            other *= s[:, None]
            C += other
            turn = c[:, None] * turn + s[:, None] * turn[partner]
            turning = np.maximum(turning, np.abs(s))
        if turning.max() < SINE:
            break
    return turn, sweeps, turning


@lru_cache(maxsize=8)
def _round_robin(d: int) -> tuple[tuple[NDArray[Any], NDArray[Any], NDArray[Any]], ...]:
    """Every pair of d axes once, in steps of disjoint pairs.

    For each step: the partner of every axis, which of the two comes first, and axes without one.
    """
    even = d + d % 2
    circle, steps = np.arange(even), []
    for _ in range(even - 1):
        partner = np.empty(even, dtype=np.intp)
        partner[circle] = circle[::-1]
        partner, alone = partner[:d], np.flatnonzero(partner[:d] >= d)
        partner[alone] = alone
        steps.append((partner, np.arange(d) < partner, alone))
        circle = np.concatenate([circle[:1], circle[-1:], circle[1:-1]])
    return tuple(steps)


def oblique_axes(C: Array, weights: Array) -> Axes:
    """Diagonalise the differences of covariances from their mean.

    Starting from the best rotation, all pairs are updated at once by W ← (I + U) W, where U
    minimises the off-diagonal entries to first order (Ziehe, Laskov, Nolte and Müller 2004). The
    mean must be positive definite. `variances` are those of C_e itself, and so include those of N.
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
        # Rows have length 1; otherwise W = 0 would minimise the off-diagonal entries.
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
    """For each pair of axes, the U_ij and U_ji that minimise Σ_e (E_ij + U_ij D_j + U_ji D_i)².

    D are the diagonal and E the off-diagonal entries; z = Σ_e D Dᵀ and y_ij = Σ_e D_j E_ij.
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
    """The standard error of each axis found from differences, in the sense of `leakages`.

    To first order the leakage of axis j into axis i is Σ_e w_e (z_ij D_ei − z_ii D_ej) n_e divided
    by z_ii z_jj − z_ij², with D the centred variances and n_e the error of the covariance of the
    two axes. `totals` (k, d) include the variances of N; `spreads` are their sampling variances.
    """
    D = totals - weights @ totals
    z = (weights[:, None] * D).T @ D
    size = np.diagonal(z)
    turned = (z * D[:, :, None] - size[:, None] * D[:, None, :]) * weights[:, None, None]
    turned *= inverse_or_zero(np.maximum(np.outer(size, size) - z**2, 0.0))
    deviation = np.sqrt(spreads)
    noise = deviation[:, :, None] * deviation[:, None, :] / 2
    return total_leak((turned**2 * noise).sum(axis=0), tied)
