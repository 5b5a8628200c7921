"""Fitting an LTI system: least squares, joint diagonalisation, weighted least squares.

There is one trajectory per environment. Each is reduced to a few rows by a QR decomposition before
it is regressed on its past.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from identikit._linalg import Array, inverse_or_zero, rank_tolerance, svd, triangle
from identikit.alignment.given import given_rows
from identikit.errors import InputError
from identikit.recover._axes import EPS, Axes, White, find_axes, oblique_axes, whitened
from identikit.recover._environments import Environments, read_environments
from identikit.sources.checks import numeric_eps

#: Rounds of weighted least squares end when no slope changes by more than this share.
SETTLED = 1e-6
#: Divisors are at least this share of the largest variance.
LEAST = 1e-10
#: Rounding error of residuals from the sums behind them, in machine epsilons.
SUMS = 100


@dataclass(frozen=True, eq=False)
class Trajectories:
    """Observations in time order, and where the trajectory of each environment starts."""

    rows: Array
    environments: Environments
    starts: tuple[int, ...]
    eps: float

    @property
    def spans(self) -> list[slice]:
        """The rows of each environment."""
        return [slice(a, b) for a, b in zip(self.starts, (*self.starts[1:], len(self.rows)))]

    @cached_property
    def ranges(self) -> tuple[Array, Array]:
        """The smallest and the largest value of every column in each environment."""
        rows, starts = self.rows, self.starts
        return np.minimum.reduceat(rows, starts), np.maximum.reduceat(rows, starts)


def read_trajectories(
    observations: object,
    environments: ArrayLike,
    least: Callable[[int], int],
    width: int | None = None,
) -> Trajectories:
    """Check that each environment is one trajectory, and long enough.

    `least` gives the smallest number of steps for a number of columns; `width` is the required
    number of columns.
    """
    given = given_rows(observations, "LTI", width, "observations")
    rows, eps = given.astype(np.float64), numeric_eps(given.dtype, "the observations")
    known = read_environments(environments, len(rows))
    starts = np.flatnonzero(np.diff(known.codes, prepend=-1))
    order = known.codes[starts]
    if len(starts) > len(known.labels):
        again = next(i for i, code in enumerate(order) if code in order[:i])
        raise InputError(
            f"environment {known.labels[order[again]]!s} begins again at row {starts[again]}: each "
            "environment is one trajectory, so its rows must be adjacent and in time order; if a "
            "trajectory was interrupted, give its parts different labels"
        )
    counts, steps = known.counts, least(rows.shape[1])
    if counts.min() < steps:
        short = int(counts.argmin())
        raise InputError(
            f"environment {known.labels[short]!s} has too few rows: {counts[short]}, and {steps} "
            f"are needed for {rows.shape[1]} observed columns with these lags and instruments; "
            "give longer trajectories, or reduce lags and instruments"
        )
    return Trajectories(rows, known, tuple(map(int, starts)), eps)


def lagged(rows: Array, lags: int) -> Array:
    """Columns y_{t−lags+1}, …, y_t, y_{t+1}, oldest first, for every t for which all exist."""
    steps = len(rows) - lags
    return np.hstack([rows[lag : lag + steps] for lag in range(lags + 1)])


def factors(trajectories: Trajectories, lags: int) -> tuple[Array, Array]:
    """For each environment, R of the QR of its centred lagged columns, and its number of rows.

    Regressions on these few rows give the same sums of squares and products of residuals as on all
    rows, with one intercept per environment, and no condition number is squared.
    """
    width = (lags + 1) * trajectories.rows.shape[1]
    found = np.zeros((len(trajectories.starts), width, width))
    counts = np.empty(len(found))
    for e, span in enumerate(trajectories.spans):
        columns = lagged(trajectories.rows[span], lags)
        columns -= columns.mean(axis=0)
        upper = triangle(columns)
        found[e, : len(upper)], counts[e] = upper, len(columns)
    return found, counts


@dataclass(frozen=True, eq=False)
class System:
    """The system that was found: slopes of each lag, axes of the residuals, and their accuracy.

    `spreads` are the sampling variances of `axes.variances`, `weights` those of the environments.
    """

    coefficients: Array
    axes: Axes
    spreads: Array
    weights: Array


def identify(data: Trajectories, lags: int, instruments: int, rounds: int) -> System:
    """Identify a system from trajectories; see `LTI`.

    With observation noise of the same covariance Σ in all environments, y_{t+1} − Φ y_t is
    uncorrelated with y_{t−1}, and has the covariance −ΦΣ with y_t in every environment. So the
    slopes are those for which the covariances with the past are 0 and those with y_t are one
    unknown matrix. The covariances of the residuals contain Σ + ΦΣΦᵀ in every environment, so their
    differences are diagonalised.

    Each observation is regressed on `lags` observations before it; `instruments` is the number of
    observations before those that are used as instruments, if there is noise.
    """
    d = data.rows.shape[1]
    F, counts = factors(data, lags + instruments)
    past, target = F[:, :, instruments * d : -d], F[:, :, -d:]
    weights, inside = counts / counts.sum(), (lags + instruments) * d
    columns, rows = past, target
    if instruments:
        # The part of the target that the past and the instruments explain.
        rows = target[:, :inside]
        columns = np.concatenate([past[:, :inside], _common(F[:, :inside, :inside], counts, d)], 2)
    basis = _basis(columns, counts)
    regressors = columns @ basis

    def axes_of(slopes: Array, last: Axes | None = None) -> Axes:
        residuals = target - past @ (basis @ slopes)[: lags * d]
        R = residuals.transpose(0, 2, 1) @ residuals / (counts - 1)[:, None, None]
        if instruments:
            return oblique_axes(R, weights)
        if last is None:
            start = _whitened(np.tensordot(weights, R, 1), data, lags)
        else:
            start = White(last.unmixing, last.mixing, 1.0)
        return find_axes(R, weights, start=start)

    slopes = _slopes(regressors, rows, np.ones((len(F), d)))
    axes = axes_of(slopes)
    for _ in range(rounds):
        inverse = 1 / np.maximum(axes.variances, LEAST * axes.variances.max())
        own = _slopes(regressors, rows @ axes.unmixing.T, inverse)
        # Directions without any control keep their slopes.
        change = (own - slopes @ axes.unmixing.T) @ axes.mixing.T
        slopes = slopes + change
        axes = axes_of(slopes, axes)
        if np.abs(change).max() < SETTLED * np.abs(slopes).max():
            break
    phi = (basis @ slopes)[: lags * d]
    coefficients = phi.reshape(lags, d, d)[::-1].transpose(0, 2, 1)
    spreads = 2 * axes.variances**2 / (counts - 1)[:, None]
    return System(coefficients, axes, spreads, weights)


def _common(upper: Array, counts: Array, d: int) -> Array:
    """Columns for the covariance with y_t that all environments have in common.

    `upper` (environments, m, m) is R of the instruments, followed by the d columns of y_t.
    """
    chosen = np.zeros((upper.shape[1], d))
    chosen[-d:] = np.eye(d)
    return np.asarray(counts[:, None, None] * (np.linalg.pinv(upper.transpose(0, 2, 1)) @ chosen))


def _basis(columns: Array, counts: Array) -> Array:
    """Coordinates in which the columns of all environments together are orthonormal."""
    rows = columns.reshape(-1, columns.shape[2])
    scale = inverse_or_zero(np.sqrt(np.einsum("ij,ij->j", rows, rows)))
    _, values, right = svd(rows * scale)
    kept = values > rank_tolerance(int(counts.sum()), rows.shape[1], EPS) * values[0]
    return np.asarray(scale[:, None] * (right[kept].T / values[kept]))


def _slopes(regressors: Array, target: Array, weights: Array) -> Array:
    """Least squares of each column of the target, with weights (environments, columns).

    The regressors are orthonormal over all environments, so that normal equations are accurate.
    """
    back = regressors.transpose(0, 2, 1)
    inner = np.tensordot(weights.T, back @ regressors, 1)
    right = np.einsum("kq,kiq->qi", weights, back @ target)[:, :, None]
    return np.asarray(np.linalg.solve(inner, right)[:, :, 0].T)


def _whitened(mean: Array, data: Trajectories, lags: int) -> White:
    """Whiten the mean covariance of the residuals, ignoring rounding errors of observations."""
    size = np.abs(data.ranges).max(axis=(0, 1))
    rounding = (lags + 1) * (4 * data.eps + SUMS * EPS) * size
    driven = np.diagonal(mean) > rounding**2
    mean = mean * driven * driven[:, None]
    white = whitened(mean, EPS, rounding * inverse_or_zero(np.sqrt(np.diagonal(mean))))
    if not len(white.map):
        raise InputError(
            "the past predicts the observations without error, up to rounding: either no control "
            "drives them, or the system is unstable and the controls are lost in rounding; there "
            "are no controls to recover"
        )
    return white
