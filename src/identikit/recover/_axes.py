"""Rotations that diagonalise several matrices: Jacobi's, of disjoint pairs of axes together."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from identikit._linalg import Array, rank_tolerance, svd, whitening
from identikit.recover._ties import Pairs

EPS = 2.0**-52
#: Sines of rotations below this are rounding: the sweeps have converged.
SINE = 1e-10
#: An axis that still turns by more than this has not converged.
STILL = 1e-4
SWEEPS = 30


@dataclass(frozen=True, eq=False)
class Axes:
    """What the rotations lead to; `turning` is how far each axis turned in the last sweep."""

    unmixing: Array
    mixing: Array
    variances: Array
    off: float
    sweeps: int
    turning: Array
    rounding: float

    @property
    def converged(self) -> NDArray[np.bool_]:
        """Of each axis, whether it stands still."""
        return np.asarray(self.turning <= STILL)

    def within_rounding(self) -> Pairs:
        """Pairs of axes whose variances, of mean 1, differ by no more than rounding makes of them.

        An axis is off by rounding over the gap, so that the gap has to stand well above it.
        """
        v = self.variances
        gaps = np.abs(v[:, :, None] - v[:, None, :]).max(axis=0)
        tied = gaps <= self.rounding * max(1.0, float(np.abs(v).max()))
        np.fill_diagonal(tied, False)
        return np.asarray(tied)


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
    """Diagonalise covariances whose mean is positive semi-definite.

    Parameters
    ----------
    C : array (k, d, d)
        Symmetric.
    weights : array (k,)
        Of each, which sum to 1.
    start : White, optional
        A whitening of the mean, or an unmixing that is nearly right.
    eps : float
        Spacing of the type that the numbers were stored in.
    max_sweeps : int
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
    """Axes in the order of how much their variances vary, with a sign; `inner` is what is diagonal.

    The order does not depend on the coordinates that the covariances are given in.
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
    """Whiten by the symmetric root; what lacks rank, by any.

    Parameters
    ----------
    mean : array (d, d)
    eps : float
    rounding : array (d,), optional
        How large the errors of each column are, as shares of its standard deviation.
    """
    scale = np.sqrt(np.maximum(np.diagonal(mean), 0.0))
    tolerance = rank_tolerance(len(mean), len(mean), eps)
    found = whitening(mean, None, scale, tolerance, rounding).map
    left, values, right = svd(scale[:, None] * found)
    forth, back = found.T, scale[:, None] * (left / values) @ right
    if len(forth) == len(mean):
        # The rotation that makes it symmetric: of one covariance, axes that prefer no column.
        first, _, last = svd(forth)
        turn = (first @ last).T
        forth, back = turn @ forth, back @ turn.T
    return White(forth, back, float((values[0] / values[-1]) ** 2) if values.size else 1.0)


def rotation(C: Array, max_sweeps: int = SWEEPS) -> tuple[Array, int, Array]:
    """The rotation that leaves least off the diagonals, sweeps, and what axes last turned by."""
    k, d, _ = C.shape
    if k == 1 or d == 1:
        return np.eye(d), 0, np.zeros(d)
    if k == 2:
        # Whitened, the two add up to a multiple of I: the eigenvectors of one are the other's.
        return np.linalg.eigh(C[0])[1].T, 0, np.zeros(d)
    # Environments last, so that a row or a column of all matrices is one piece of memory.
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
            # Partners turn by opposite angles: each becomes c times itself and s times the other.
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

    Of each step: the partner of every axis, which of the two comes first, and who has no partner.
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
