"""From regression coefficients to Markov parameters, and from these to a state space."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from identikit._linalg import Array, rank_tolerance, svd
from identikit.errors import InputError


@dataclass(frozen=True, eq=False)
class StateSpace:
    """x_{t+1} = A x_t + B u_t, y_t = C x_t, up to a similarity transform of the state.

    `singular_values` are those of the Hankel matrix; the number above rounding error is the order.
    """

    A: Array
    B: Array
    C: Array
    singular_values: Array

    def markov(self, count: int) -> Array:
        """C B, C A B, C A² B, …"""
        found, inside = [], self.B
        for _ in range(count):
            found.append(self.C @ inside)
            inside = self.A @ inside
        return np.stack(found)


def markov_parameters(coefficients: Array, first: Array, count: int) -> Array:
    """G_1 = C B and G_k = Σ_i Φ_i G_{k−i}: the effect of a unit of each control k steps later.

    `coefficients` (lags, d_y, d_y) are Φ_i, the coefficients of y_{t+1} on y_{t+1−i}; `first` is
    G_1.
    """
    found = [first]
    for k in range(1, count):
        found.append(sum(phi @ found[k - i] for i, phi in enumerate(coefficients[:k], 1)))
    return np.stack(found)


def transfer(coefficients: Array, first: Array, z: ArrayLike) -> Array:
    """H(z) = (I − Σ_i Φ_i z^−i)^−1 G_1/z = C (zI − A)^−1 B, at each z; (…, d_y, d_u) complex."""
    points = np.asarray(z, dtype=np.complex128)
    if not np.isfinite(points).all() or (points == 0).any():
        raise InputError("a transfer function is evaluated at finite z other than 0")
    powers = points[..., None] ** -np.arange(1.0, len(coefficients) + 1)
    inner = np.eye(len(first)) - np.tensordot(powers, coefficients, 1)
    return np.asarray(np.linalg.solve(inner, first / points[..., None, None]))


def ho_kalman(markov: Array, rows: int, columns: int, order: int | None = None) -> StateSpace:
    """A, B, C from Markov parameters, by the singular value decomposition of their Hankel matrix.

    H_ij = G_{i+j−1} = O R with O = [C; CA; …] and R = [B, AB, …]; shifted by one step it is O A R
    (Ho and Kalman 1966). It has rows × columns blocks; `order` is the number of states to keep, by
    default all that are above rounding error.
    """
    d_y, d_u = markov.shape[1:]

    def hankel(start: int) -> Array:
        blocks = [[markov[start + i + j] for j in range(columns)] for i in range(rows)]
        return np.block(blocks)

    now, later = hankel(0), hankel(1)
    left, values, right = svd(now)
    least = rank_tolerance(len(now), now.shape[1], 2.0**-52) * values[0]
    rank = int(np.count_nonzero(values > least))
    if order is not None and order not in range(1, rank + 1):
        raise InputError(
            f"order is {order}; the Hankel matrix has rank {rank}: give a number from 1 to {rank}"
        )
    rank = rank if order is None else order
    root = np.sqrt(values[:rank])
    observing, reaching = left[:, :rank] * root, root[:, None] * right[:rank]
    A = (left[:, :rank] / root).T @ later @ (right[:rank] / root[:, None]).T
    return StateSpace(A, reaching[:, :d_u].copy(), observing[:d_y].copy(), values)
