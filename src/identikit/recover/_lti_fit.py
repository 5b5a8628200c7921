"""How an LTI system is found: least squares, joint diagonalisation, weighted least squares."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from identikit._linalg import Array, inverse_or_zero, rank_tolerance, svd
from identikit.errors import InputError
from identikit.recover._axes import EPS, Axes, White, find_axes, whitened
from identikit.recover._oblique import oblique_axes
from identikit.recover._trajectories import Trajectories, factors

#: Rounds of weighted least squares end where no slope changes by more than this share.
SETTLED = 1e-6
#: A variance counts as no smaller than this share of the largest one, where it is divided by.
LEAST = 1e-10
#: Spacings of float64 by which residuals may be off for all the sums that they come from.
SUMS = 100


@dataclass(frozen=True, eq=False)
class System:
    """What is found: the slopes of each lag, the axes of the residuals, and how sure these are.

    `spreads` are the sampling variances of `axes.variances`, `weights` those of environments.
    """

    coefficients: Array
    axes: Axes
    spreads: Array
    weights: Array


def identify(data: Trajectories, lags: int, instruments: int, rounds: int) -> System:
    """Identify a system from trajectories; see `LTI`.

    Under observation noise of one covariance Σ, y_{t+1} − Φ y_t is uncorrelated with y_{t−1}, and
    has the covariance −ΦΣ with y_t in every environment. So the slopes are those for which the
    covariances with the past are 0, and those with y_t one unknown matrix. The covariances of the
    residuals contain Σ + ΦΣΦᵀ in every environment: their differences are diagonalised.

    Parameters
    ----------
    data : Trajectories
    lags, instruments : int
        Observations that the next one is regressed on, and observations before these, if there is
        noise.
    rounds : int
        Of weighted least squares, at most.
    """
    d = data.rows.shape[1]
    F, counts = factors(data, lags + instruments)
    past, target = F[:, :, instruments * d : -d], F[:, :, -d:]
    weights, inside = counts / counts.sum(), (lags + instruments) * d
    columns, rows = past, target
    if instruments:
        # What of the target the past and the instruments explain, each in its own metric.
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
        # Directions without any control keep the slopes that they have.
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
    """Columns for what the covariance with y_t has in common in all environments.

    Parameters
    ----------
    upper : array (environments, m, m)
        R of the instruments and, last, the d columns of y_t.
    counts : array (environments,)
    d : int
    """
    chosen = np.zeros((upper.shape[1], d))
    chosen[-d:] = np.eye(d)
    found: Array = counts[:, None, None] * (np.linalg.pinv(upper.transpose(0, 2, 1)) @ chosen)
    return found


def _basis(columns: Array, counts: Array) -> Array:
    """Coordinates in which the columns of all environments are orthonormal, and independent."""
    rows = columns.reshape(-1, columns.shape[2])
    scale = inverse_or_zero(np.sqrt(np.einsum("ij,ij->j", rows, rows)))
    _, values, right = svd(rows * scale)
    kept = values > rank_tolerance(int(counts.sum()), rows.shape[1], EPS) * values[0]
    basis: Array = scale[:, None] * (right[kept].T / values[kept])
    return basis


def _slopes(regressors: Array, target: Array, weights: Array) -> Array:
    """Least squares of each column of the target, with a weight for each environment.

    Parameters
    ----------
    regressors, target : array (environments, rows, …)
        The regressors orthonormal over all environments, so that normal equations will do.
    weights : array (environments, columns of the target)
    """
    back = regressors.transpose(0, 2, 1)
    inner = np.tensordot(weights.T, back @ regressors, 1)
    right = np.einsum("kq,kiq->qi", weights, back @ target)[:, :, None]
    return np.asarray(np.linalg.solve(inner, right)[:, :, 0].T)


def _whitened(mean: Array, data: Trajectories, lags: int) -> White:
    """Whiten the mean covariance of the residuals, as far as it is no rounding of observations."""
    size = np.abs(data.ranges).max(axis=(0, 1))
    rounding = (lags + 1) * (4 * data.eps + SUMS * EPS) * size
    driven = np.diagonal(mean) > rounding**2
    mean = mean * driven * driven[:, None]
    white = whitened(mean, EPS, rounding * inverse_or_zero(np.sqrt(np.diagonal(mean))))
    if not len(white.map):
        raise InputError(
            "the observations follow from their past without error, as far as rounding tells: no "
            "control drives them, or an unstable system has outgrown it; there is none to recover"
        )
    return white
