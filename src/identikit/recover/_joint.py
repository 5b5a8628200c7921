"""Common axes of several covariances: joint diagonalisation by Jacobi rotations."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning

from identikit._linalg import Array
from identikit.errors import InputError
from identikit.family import stored
from identikit.recover._axes import SWEEPS, Axes, find_axes
from identikit.recover._ties import LEVEL, groups, leakages, tied_axes

#: How far a covariance may be from symmetric, and its eigenvalues below 0, relative to its size;
#: or, if that is larger, this many machine epsilons of the type in which it is stored.
ASYMMETRY, EPSILONS = 1e-8, 100


@dataclass(frozen=True, eq=False)
class JointDiagonal:
    """The axes that diagonalise all covariances, and which of them are identified.

    Attributes
    ----------
    unmixing : array (r, d)
        Rows w with wᵀC_e w' ≈ 0 for any two of them and every e; r is the rank of the mean
        covariance. Axes are sorted by how much their variances vary. They have mean variance 1, and
        the largest entry of their column of `mixing` is positive.
    mixing : array (d, r)
        The map back: C_e ≈ mixing diag(variances_e) mixingᵀ.
    variances : array (k, r)
        The variance of each axis in each environment.
    identified : array (r,) of bool
        Whether the axis is tied with no other: its variances are not proportional to theirs.
    ties : tuple of tuples of int
        Sets of tied axes; only the space that such a set spans is determined.
    errors : array (r,) or None
        How much of the other axes leaks into each axis by sampling error, in standard deviations;
        None for exact covariances, and for two without `rows`.
    off : float
        Size of the remaining off-diagonal entries relative to all (root of sums of squares).
    sweeps : int
        The number of sweeps of Jacobi rotations; 0 for one or two covariances, which need none.
    converged : bool
        Whether all axes have converged, except for tied ones.
    """

    unmixing: Array
    mixing: Array
    variances: Array
    identified: NDArray[np.bool_]
    ties: tuple[tuple[int, ...], ...]
    errors: Array | None
    off: float
    sweeps: int
    converged: bool


def joint_diagonalise(
    covariances: ArrayLike, *, rows: ArrayLike | None = None, max_sweeps: int = SWEEPS
) -> JointDiagonal:
    """Find W such that W C_e Wᵀ is diagonal for all covariances C_e = M diag(v_e) Mᵀ.

    The mean covariance is whitened, and the whitened covariances are diagonalised by the rotation
    that minimises their off-diagonal entries: in closed form for each pair of axes (Cardoso and
    Souloumiac 1996), and for all disjoint pairs at once. For two covariances this is the
    generalised eigenproblem C_1 w = λ C_0 w, which is solved directly. M is determined up to the
    order and scale of its columns if no two axes have proportional variances over environments.
    Axes count as tied if their variances are proportional within the sampling error of normal data,
    by a test at 5 % over all pairs (`tie_p_values`), or within rounding.

    Parameters
    ----------
    covariances : array (k, d, d)
        Symmetric and positive semi-definite. If their mean is rank-deficient, the directions
        without variance are left out.
    rows : int or array (k,), optional
        The number of rows behind each covariance, which is also its weight. By default it is
        estimated from the remaining off-diagonal entries of three or more covariances; exact
        covariances have none.
    max_sweeps : int
        The largest number of sweeps.

    Examples
    --------
    >>> M = np.array([[1.0, 2.0], [3.0, 1.0]])
    >>> found = joint_diagonalise([M @ np.diag(v) @ M.T for v in ([1, 1], [1, 2], [3, 1])])
    >>> np.abs(found.unmixing @ M).round(3)
    array([[0.775, 0.   ],
           [0.   , 0.866]])
    >>> found.identified
    array([ True,  True])
    >>> joint_diagonalise([M @ np.diag(v) @ M.T for v in ([1, 2], [2, 4])]).ties
    ((0, 1),)
    """
    C, eps = _covariances(covariances)
    if max_sweeps < 1:
        raise InputError(f"max_sweeps is {max_sweeps}; give at least 1")
    counts = None if rows is None else _rows(rows, len(C))
    weights = np.full(len(C), 1 / len(C)) if counts is None else counts / counts.sum()
    axes = find_axes(C, weights, eps=eps, max_sweeps=max_sweeps)
    tied, errors = axes.within_rounding(), None
    known = _rows_that_show(C, axes) if counts is None else (counts, counts)
    if known is not None:
        most, least = (2 * axes.variances**2 / (n[:, None] - 1) for n in known)
        tied |= tied_axes(axes.variances, least)
        errors = leakages(axes.variances, most, weights, tied)
    done = axes.converged | tied.any(axis=1)
    if not done.all():
        warnings.warn(
            f"after {axes.sweeps} sweeps axes still rotate by {axes.turning.max():.1g}: the "
            "covariances have no common axes, or max_sweeps is too small",
            ConvergenceWarning,
            stacklevel=2,
        )
    return JointDiagonal(
        axes.unmixing, axes.mixing, axes.variances, ~tied.any(axis=1) & axes.converged,
        groups(tied), errors, axes.off, axes.sweeps, bool(done.all()),
    )  # fmt: skip


def _rows_that_show(C: Array, axes: Axes) -> tuple[Array, Array] | None:
    """Estimate the rows behind the covariances from off-diagonal entries, with a lower bound.

    The correlation of two axes in one environment has variance 1/n. Rotation and whitening use up
    two of the k degrees of freedom of each pair of axes. The lower bound is the lower end of a 95 %
    interval, so that few environments do not look like many rows. None if only rounding errors are
    left, which is always the case for two covariances.
    """
    from scipy.stats import chi2

    k, d = axes.variances.shape
    deviations = np.sqrt(np.maximum(axes.variances, axes.rounding))
    inner = axes.unmixing @ C @ axes.unmixing.T / deviations[:, :, None] / deviations[:, None, :]
    freedom = (k - 2) * d * (d - 1) // 2
    squares = float((np.triu(inner, 1) ** 2).sum())
    if freedom < 1 or squares <= freedom * axes.rounding**2:
        return None
    most, least = freedom / squares, float(chi2.ppf(LEVEL, freedom)) / squares
    return np.full(k, max(most, 2.0)), np.full(k, max(least, 2.0))


def _covariances(given: ArrayLike) -> tuple[Array, float]:
    """The covariances in float64, and the machine epsilon of their original type."""
    array, eps = stored(given)
    square = array.ndim == 3 and array.shape[1] == array.shape[2] and 0 not in array.shape
    if not square or array.dtype.kind not in "fiub":
        raise InputError(
            f"the covariances have the shape {array.shape} and dtype {array.dtype}; expected real "
            "numbers (k, d, d), one square matrix for each environment"
        )
    C, tolerance = array.astype(np.float64), max(ASYMMETRY, EPSILONS * eps)
    for e, matrix in enumerate(C):
        size = np.abs(matrix).max()
        if not np.isfinite(size):
            raise InputError(f"covariance {e} has NaN or infinity in it; leave it out")
        if np.abs(matrix - matrix.T).max() > tolerance * size:
            raise InputError(f"covariance {e} is not symmetric")
        least = np.linalg.eigvalsh(matrix)[0]
        if least < -tolerance * len(matrix) * size:
            raise InputError(
                f"covariance {e} has the negative eigenvalue {least:.3g}, so it is not a covariance"
            )
    if not C.any():
        raise InputError("all covariances are 0: nothing varies")
    return (C + C.transpose(0, 2, 1)) / 2, eps


def _rows(given: ArrayLike, environments: int) -> Array:
    counts = np.asarray(given)
    if counts.dtype.kind not in "iuf":
        raise InputError(f"rows is {given!r}; expected numbers")
    if counts.shape not in ((), (environments,)):
        raise InputError(f"rows has the shape {counts.shape}; expected 1 or {environments} numbers")
    if not (counts > 1).all() or not np.isfinite(counts).all():
        raise InputError(f"rows is {given!r}; a covariance needs 2 rows or more")
    return np.broadcast_to(counts.astype(np.float64), environments)
