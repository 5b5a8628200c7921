"""Exact sampling on the sphere: uniform, von Mises–Fisher, or with a precision per axis."""

from __future__ import annotations

from collections.abc import Callable
from math import log, pi, sqrt
from typing import Any

import numpy as np

from identikit._linalg import Array
from identikit.errors import InputError

#: How many proposals are drawn at a time; these fit into the processor's cache.
PIECE = 2**14
#: Below this the recursion for the radius loses digits, and numerical integration is used.
LEAST = -1.0
#: If a smaller share of proposals is accepted, sampling would take too long.
RAREST = 1e-4


def uniform(rows: int, d: int, rng: np.random.Generator) -> Array:
    """Uniform points on the unit sphere in d dimensions."""
    points = rng.standard_normal((rows, d))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    return points


def project(points: Array) -> Array:
    """Project points radially onto the unit sphere."""
    return np.asarray(points / np.linalg.norm(points, axis=1, keepdims=True))


def draw(precision: Array, pull: Array, rng: np.random.Generator) -> Array:
    """One exact draw per row of η (rows, d) from p(x) ∝ exp(−½ Σ λ_k x_k² + ηᵀx) on the sphere.

    This is the Fisher–Bingham distribution with a diagonal matrix; with λ = 0 it is von
    Mises–Fisher. On the sphere, λ + c gives the same density as λ for any c. So y ~ N(η/(λ + c),
    1/(λ + c)) is proposed, with c such that ‖y‖ is about 1, and its direction x = y/‖y‖ is accepted
    with probability R/max R. Here R(x) is the density of ‖y‖ at 1 given the direction, and p(x) is
    proportional to the density of the proposed directions times R. With a = Σ (λ_k + c) x_k²,
    b = ηᵀx,

        R = exp(−a/2 + b)/∫₀^∞ r^(d−1) exp(−a r²/2 + b r) dr,

    whose logarithm is concave in b. Its maximum over b is where E r = 1, and this maximum grows
    with a (derivative ½ Var r). So R is largest at the largest λ + c, and the draw is exact.
    (Compare Kent, Ganeiban and Mardia 2018, who use another proposal.)
    """
    rows, d = pull.shape
    added = _added(precision, np.einsum("ij,ij->j", pull, pull) / rows)
    inverse = 1 / (precision + added)
    deviations = np.sqrt(inverse)
    log_most = _largest(float(precision.max()) + added, d)
    # ‖y‖² and Σ λ_k y_k² are computed by one matrix product.
    sums = np.column_stack([np.ones(d), precision])
    points = np.empty((rows, d))
    tried = accepted = 0
    for start in range(0, rows, PIECE):
        out = points[start : start + PIECE]
        left, eta = np.arange(len(out)), pull[start : start + PIECE]
        while left.size:
            y = rng.standard_normal(eta.shape)
            y *= deviations
            y += eta * inverse
            squares, weighted = ((y * y) @ sums).T
            norms = np.sqrt(squares)
            b = np.einsum("ij,ij->i", y, eta) / norms
            log_density = _log_density(weighted / squares + added, b, d)
            kept = np.log(rng.random(left.size)) < log_density - log_most
            y /= norms[:, None]
            out[left[kept]] = y[kept]
            tried, accepted = tried + left.size, accepted + int(np.count_nonzero(kept))
            if tried > 10 * PIECE and accepted < RAREST * tried:
                raise InputError(
                    f"only {accepted} of {tried:,} proposals were accepted: the concentrations "
                    "differ by too much for an exact draw; make them more alike"
                )
            left, eta = left[~kept], eta[~kept]
    return points


def _added(precision: Array, squares: Array) -> float:
    """c with Σ 1/(λ_k + c) + η_k²/(λ_k + c)² = 1, so that proposals have norms of about 1."""
    from scipy.optimize import brentq

    def excess(c: float) -> float:
        inverse = 1 / (precision + c)
        return float((inverse + squares * inverse**2).sum() - 1)

    # The excess is negative at the upper end of the bracket, and infinite at −min λ.
    low, reach = -float(precision.min()), len(precision) + float(np.sqrt(squares.sum())) + 1.0
    near = reach / 2
    while excess(low + near) < 0:
        near /= 16
    return float(brentq(excess, low + near, low + reach))


def _log_density(a: Any, b: Any, d: int) -> Any:
    """log R: the density at 1 of a radius r ∝ r^(d−1) exp(−a r²/2 + b r)."""
    s = b / np.sqrt(a)
    return -((a - b) ** 2) / (2 * a) + d / 2 * np.log(a) - _log_integral(s, d)


def _largest(a: float, d: int) -> float:
    """The largest log R over all b: where the mean radius is 1."""
    from scipy.optimize import brentq

    def mean_radius(b: float) -> float:
        s = np.array([b / sqrt(a)])
        ratio = np.exp(_log_integral(s, d + 1) - _log_integral(s, d))
        return float(ratio[0]) / sqrt(a)

    # Integration by parts gives b = a E r − (d − 1) E 1/r, so that b is slightly below a where
    # E r = 1. If the distribution is very narrow, E 1/r is 1 up to rounding, and b is known
    # directly.
    b = a - d + 1.0
    if a < 1e6:
        b = brentq(lambda b: mean_radius(b) - 1, a - 2.0 * d - 10, a)
    return float(_log_density(np.array([a]), np.array([b]), d)[0])


def _log_integral(s: Array, d: int) -> Array:
    """log of e^(−s²/2) ∫₀^∞ t^(d−1) exp(−t²/2 + s t) dt.

    It is computed by J_{k+2} = s J_{k+1} + k J_k from J_1 = √(2π) Φ(s) and J_2 = e^(−s²/2) + s J_1.
    All terms are positive for s > 0. For clearly negative s, where they cancel, the trapezoidal
    rule over log t is used, which converges exponentially.
    """
    from scipy.special import ndtr

    result = np.empty_like(s)
    low = s < LEAST
    result[low] = _by_sum(s[low], d)
    t = s if not low.any() else s[~low]
    previous = sqrt(2 * pi) * ndtr(t)
    current = np.exp(-(t**2) / 2) + t * previous
    if d == 1:
        current = previous
    scale = 0.0
    for k in range(1, d - 1):
        previous, current = current, t * current + k * previous
        if k % 16 == 0:  # before it can overflow
            largest = float(np.max(current, initial=1.0))
            previous, current, scale = previous / largest, current / largest, scale + log(largest)
    result[~low] = np.log(current) + scale
    return result


def _by_sum(s: Array, d: int) -> Array:
    """`_log_integral` for s < 0 by the sum Σ h exp(d u − e^(2u)/2 + s e^u) around its mode."""
    if not s.size:
        return s
    # The mode of t^d exp(−t²/2 + s t), and a grid of log t that extends far to both sides of it.
    mode = np.log((s + np.sqrt(s**2 + 4 * d)) / 2)
    steps = np.linspace(-max(40 / d, 12 / sqrt(d)), 8 / sqrt(d), 201)
    u = mode[:, None] + steps
    t = np.exp(u)
    exponent = d * u - t**2 / 2 + s[:, None] * t
    top = exponent.max(axis=1, keepdims=True)
    total = np.log(np.exp(exponent - top).sum(axis=1) * (steps[1] - steps[0]))
    return np.asarray(top[:, 0] + total - s**2 / 2)


def near(z: Array, concentrations: Array, rng: np.random.Generator) -> Array:
    """A partner of each z: p(z⁺|z) ∝ exp(−½ Σ λ_k (z⁺_k − z_k)²) on the sphere, exactly."""
    return draw(concentrations, z * concentrations, rng)


def near_by_projection(z: Array, concentrations: Array, rng: np.random.Generator) -> Array:
    """The authors' approximation: z + N(0, 1/λ), kept if its norm is within 0.1 of 1, projected.

    This is what the code of Rusak et al. 2025 does. It only approximates the density of `near`.
    """
    points, deviations = np.empty_like(z), 1 / np.sqrt(concentrations)
    left = np.arange(len(z))
    while left.size:
        y = z[left] + rng.standard_normal((left.size, z.shape[1])) * deviations
        norms = np.linalg.norm(y, axis=1)
        kept = np.abs(norms - 1) < 0.1
        points[left[kept]] = y[kept] / norms[kept, None]
        left = left[~kept]
    return points


SAMPLERS: dict[str, Callable[[Array, Array, np.random.Generator], Array]] = {
    "exact": near,
    "approximate": near_by_projection,
}


def von_mises_fisher(directions: Array, kappa: float, rng: np.random.Generator) -> Array:
    """One exact draw per row v from p(z) ∝ exp(κ ⟨v, z⟩) on the sphere."""
    return draw(np.zeros(directions.shape[1]), kappa * directions, rng)
