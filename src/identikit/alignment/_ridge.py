"""Least squares with a ridge, whose strength is chosen on the rows that it is fitted to."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from identikit._linalg import Array, inverse_or_zero
from identikit.alignment._stats import PairStats

#: With this many rows per column no ridge is used: it could remove at most a share of d/n of the
#: noise.
ROWS_A_COLUMN = 10

#: Strengths that are tried, as shares of the source's mean eigenvalue.
STRENGTHS = np.logspace(-4, 4, 65)

#: Eigenvalues below this share of the largest one are rounding.
SMALLEST = 1e-12

#: The share by which a ridge must lower the predicted squared error; otherwise none is used.
GAIN = 0.01


def ridge(stats: PairStats, strength: float, *, shift: bool) -> tuple[Array, Array]:
    """The map y ≈ x W + b that minimises Σ‖y − xW − b‖² + λ‖W‖²; without a shift, b is 0.

    W = V (Λ + λ)⁻¹ Vᵀ S_xy with S_xx = V Λ Vᵀ, about the means, or about 0 without a shift.
    The statistics are in the views' own coordinates, and `strength` is λ divided by the mean
    eigenvalue of the source's scatter.
    """
    about = stats if shift else _about_zero(stats)
    values, axes = about.spectrum
    with np.errstate(over="ignore"):  # an infinite ridge leaves the mean
        penalty = values + strength * values.mean()
    # Without a ridge, a direction without variance gets no weight: its eigenvalue is rounding.
    least = SMALLEST * values[0] if strength == 0 else 0.0
    inverse = inverse_or_zero(np.where(penalty > least, penalty, 0.0))
    weights: Array = (axes * inverse) @ (axes.T @ about.sxy)
    return weights, stats.y_mean - stats.x_mean @ weights if shift else np.zeros(len(stats.y_mean))


def choose_strength(stats: PairStats, *, shift: bool) -> float:
    """The strength with the least generalised cross-validation error; 0 if a ridge gains nothing.

    GCV(λ) = RSS(λ)/(n − 1 − df)², df = Σ Λ/(Λ + λ) (Golub, Heath and Wahba 1979), computed from
    the eigenvalues Λ of the source's scatter and the squared rows of VᵀS_xy. The statistics are in
    the views' own coordinates, of the rows that the map is fitted on.
    """
    if stats.n >= ROWS_A_COLUMN * len(stats.x_mean):
        return 0.0
    about = stats if shift else _about_zero(stats)
    values, axes = about.spectrum
    kept = values > SMALLEST * values[0]
    along = np.square(axes.T @ about.sxy).sum(axis=1)[kept]
    values, free = values[kept], stats.n - (1 if shift else 0)
    added = np.append(STRENGTHS, 0.0)[:, None] * (values.sum() / len(stats.x_mean))
    total = float(np.trace(about.syy))
    left = total - (along * (values + 2 * added) / np.square(values + added)).sum(axis=1)
    room = free - (values / (values + added)).sum(axis=1)
    if left[-1] <= 1e-12 * total and room[-1] >= 1:
        return 0.0  # an exact fit
    scores = np.maximum(left, 0.0) / np.square(np.maximum(room, 1e-6))
    if room[-1] < 1:  # with as many columns as rows, least squares fits anything
        scores[-1] = np.inf
    best = int(np.argmin(scores[:-1]))
    return 0.0 if scores[-1] <= (1 + GAIN) * scores[best] else float(STRENGTHS[best])


def _about_zero(stats: PairStats) -> PairStats:
    """The same rows with their scatter taken about zero instead of the means."""
    x, y, n = stats.x_mean, stats.y_mean, stats.n
    return replace(
        stats,
        x_mean=np.zeros_like(x),
        y_mean=np.zeros_like(y),
        sxx=stats.sxx + n * np.outer(x, x),
        sxy=stats.sxy + n * np.outer(x, y),
        syy=stats.syy + n * np.outer(y, y),
        of=None,
    )
