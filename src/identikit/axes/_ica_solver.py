"""The rotation that makes whitened rows as non-Gaussian as possible, axis by axis.

Minimise Σ σ_i E[log cosh s_i] over rotations W, s = W z, with σ_i = +1 for an axis with heavy tails
and −1 for one with light tails: the sign of K_i = E[ψ'(s_i)] − E[s_i ψ(s_i)], ψ = tanh. Rotating s
by exp(E), with E antisymmetric, changes this by ⟨E, D⟩, with the gradient

    D = (G − Gᵀ)/2,   G_ij = σ_i E[ψ(s_i) s_j],

and if the axes are independent the Hessian is diagonal, (|K_i| + |K_j|)/2. FastICA's fixed-point
iteration (Hyvärinen 1999) is Newton's method with that Hessian, and is fast as long as the Hessian
is right. With several Gaussian axes, or axes that depend on each other, it is not, and the
iteration stalls. L-BFGS then continues from there with that Hessian as preconditioner, and
converges (Ablin, Cardoso and Gramfort 2018, "Faster ICA under orthogonal constraint").

python-picard implements the same paper. It works in double precision, and its line search evaluates
the contrast itself; on 50,000 × 64 numbers a fit takes three to eight times as long. It is
therefore optional, and serves as an independent check in the tests (benchmarks/ica.py compares the
times).
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identikit._linalg import Array, svd
from identikit.errors import require

Rows = NDArray[Any]

#: How many numbers a block of rows has, so that it stays in the cache between the products and the
#: tanh; and the most rows of a block, so that sums in single precision are short.
BLOCK = 2**16
BLOCK_ROWS = 2**10

#: The fixed-point iteration has stalled if three steps have neither halved the gradient nor raised
#: Σ|K| by this share. Far from the optimum the gradient is no guide, but Σ|K| rises.
RISE = 0.01

#: How many steps L-BFGS remembers, the smallest curvature in its preconditioner, and how often it
#: shortens a step.
MEMORY = 7
LEAST_CURVATURE = 1e-2
SHORTENINGS = 6

#: L-BFGS fixes the signs σ after this many passes, since the contrast jumps when one changes.
SETTLED = 60


@dataclass(frozen=True, eq=False)
class Rotation:
    """Axes in the rows of `weights` W (k, k), and the contrast there.

    `signs` are σ, `score`, `slope` and `curvature` are E[ψ(s) zᵀ], E[ψ'(s)] and K, and `gradient`
    is D, all after so many `passes` over the rows.
    """

    weights: Array
    signs: Array
    score: Array
    slope: Array
    curvature: Array
    gradient: Array
    passes: int = 1

    @property
    def size(self) -> float:
        """The largest entry of the gradient."""
        return float(np.abs(self.gradient).max())

    @property
    def contrast(self) -> float:
        """Σ|K|, which is 0 if all axes are Gaussian."""
        return float(np.abs(self.curvature).sum())


def solve(rows: Rows, start: Array, tol: float, max_iter: int, min_iter: int = 1) -> Rotation:
    """Find the axes from `start`, by the fixed-point iteration, then L-BFGS if that stalls.

    The rows (n, k) have second moments exactly I: ψ is almost linear, so that deviations from I
    would dominate the rest. Sums have the precision of the rows; float32 takes a third of the time,
    and is accurate to a gradient of 1e-7. At least `min_iter` passes are made, since a start may be
    near a saddle point, where the gradient is small too.
    """
    point = _fixed_point(rows, _at(rows, start), tol, max_iter, min_iter)
    return point if point.size < tol else _quasi_newton(rows, point, tol, max_iter)


def solve_by_picard(rows: Rows, start: Array, tol: float, max_iter: int) -> Rotation:
    """`solve` by python-picard (extra ``ica``)."""
    picard = require("picard", "ica", "ICA(solver='picard')").picard
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about convergence: the gradient computed below shows it
        _, weights, _, passes = picard(
            np.ascontiguousarray(rows.T, dtype=np.float64),
            ortho=True,
            extended=True,
            whiten=False,
            centering=False,
            w_init=start,
            tol=tol,
            max_iter=max_iter,
            return_n_iter=True,
        )
    return replace(_at(rows, weights), passes=int(passes) + 1)


def _at(rows: Rows, weights: Array, signs: Array | None = None) -> Rotation:
    """Evaluate the contrast in one pass over the rows; signs are those of K unless given."""
    n, width = rows.shape
    step = int(np.clip(BLOCK // width, 64, BLOCK_ROWS))
    turn = np.ascontiguousarray(weights.T, dtype=rows.dtype)
    room, product = np.empty((step, width), rows.dtype), np.empty((width, width), rows.dtype)
    score, squares = np.zeros((width, width)), np.zeros(width)
    for first in range(0, n, step):
        block = rows[first : first + step]
        psi = room[: len(block)]
        np.matmul(block, turn, out=psi)
        np.tanh(psi, out=psi)
        np.matmul(psi.T, block, out=product)
        score += product
        squares += np.einsum("ij,ij->j", psi, psi)
    score /= n
    slope = 1.0 - squares / n
    inner = score @ weights.T
    curvature = slope - np.diagonal(inner)
    signs = np.where(curvature < 0, -1.0, 1.0) if signs is None else signs
    return Rotation(weights, signs, score, slope, curvature, _skew(signs[:, None] * inner))


def _skew(matrix: Array) -> Array:
    half: Array = (matrix - matrix.T) / 2
    return half


def _fixed_point(rows: Rows, point: Rotation, tol: float, max_iter: int, min_iter: int) -> Rotation:
    """W ← the rotation nearest to E[ψ'] W − E[ψ zᵀ], times σ so that axes do not flip."""
    seen = [point]
    while (point.size >= tol or len(seen) < min_iter) and len(seen) < max_iter:
        step = point.signs[:, None] * (point.slope[:, None] * point.weights - point.score)
        left, _, right = svd(step)
        point = _at(rows, left @ right)
        seen.append(point)
        if len(seen) > 3 and point.size >= tol:
            before = seen[-4]
            if point.size > before.size / 2 and point.contrast < (1 + RISE) * before.contrast:
                break
    return replace(point, passes=len(seen))


def _quasi_newton(rows: Rows, point: Rotation, tol: float, max_iter: int) -> Rotation:
    """L-BFGS over rotations. A step is shortened if the contrast rises steeply at its end."""
    passes = point.passes
    settled = passes + SETTLED
    steps: list[tuple[Array, Array]] = []
    while point.size >= tol and passes < max_iter:
        size = np.abs(point.curvature)
        hessian = np.maximum((size[:, None] + size) / 2, LEAST_CURVATURE)
        direction = _direction(point.gradient, hessian, steps)
        descent = float(np.vdot(direction, point.gradient))
        if descent >= 0:
            steps, direction = [], -point.gradient / hessian
            descent = float(np.vdot(direction, point.gradient))
        length = min(1.0, 1.0 / float(np.abs(direction).max()))
        for _ in range(SHORTENINGS):
            there = _at(rows, _turned(point.weights, length * direction), point.signs)
            passes += 1
            ascent = float(np.vdot(direction, there.gradient))
            if ascent <= -0.5 * descent or passes >= max_iter:
                break
            length *= float(np.clip(descent / (descent - ascent), 0.1, 0.5))
        signs = np.where(there.curvature < 0, -1.0, 1.0)
        if passes < settled and (signs != point.signs).any():
            inner = there.score @ there.weights.T
            steps, there = [], replace(there, signs=signs, gradient=_skew(signs[:, None] * inner))
        else:
            change = there.gradient - point.gradient
            if np.vdot(direction, change) > 0:
                steps = [*steps, (length * direction, change)][-MEMORY:]
        point = there
    return replace(point, passes=passes)


def _direction(gradient: Array, hessian: Array, steps: list[tuple[Array, Array]]) -> Array:
    """The two-loop recursion of L-BFGS: −H⁻¹ D, with H corrected by the stored steps."""
    rest, shares = gradient, []
    for step, change in reversed(steps):
        share = float(np.vdot(step, rest) / np.vdot(step, change))
        rest = rest - share * change
        shares.append(share)
    rest = rest / hessian
    for (step, change), share in zip(steps, reversed(shares)):
        rest = rest + (share - float(np.vdot(change, rest) / np.vdot(step, change))) * step
    return -rest


def _turned(weights: Array, skew: Array) -> Array:
    """Apply the Cayley rotation (I − E/2)⁻¹ (I + E/2) ≈ exp(E) after W."""
    identity = np.eye(len(skew))
    turned = np.linalg.solve(identity - skew / 2, (identity + skew / 2) @ weights)
    return np.asarray(turned, dtype=np.float64)
