"""Axes that several covariances share: joint diagonalisation by Jacobi rotations."""

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

#: How far a covariance may be from symmetric, and its eigenvalues below 0, as shares of its size;
#: and in machine epsilons of the type that it is stored in, where these are coarser.
ASYMMETRY, EPSILONS = 1e-8, 100


@dataclass(frozen=True, eq=False)
class JointDiagonal:
    """The axes that diagonalise all covariances, and which of them these determine.

    Attributes
    ----------
    unmixing : array (r, d)
        Rows w with wᵀC_e w' = 0 for any two of them and every e, as far as that can be; r is the
        rank of the mean covariance. Axes stand in the order of how much their variances vary, with
        mean variance 1 and the largest entry of their column of `mixing` positive.
    mixing : array (d, r)
        The map back: C_e ≈ mixing diag(variances_e) mixingᵀ.
    variances : array (k, r)
        Of each axis in each environment.
    identified : array (r,) of bool
        Whether the axis is tied with no other: its variances have no constant ratio to theirs.
    ties : tuple of tuples of int
        Groups of axes that are: only the space that a group spans is determined.
    errors : array (r,) or None
        What leaks into each axis from the others by sampling error, in standard deviations;
        None for exact covariances, and for two without `rows`.
    off : float
        Size of what is left off the diagonals, as a share of all (root of sums of squares).
    sweeps : int
        Of Jacobi rotations; 0 for one or two covariances, which need none.
    converged : bool
        Whether all axes stand still, but for those that are tied.
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

    The mean covariance is whitened, and the whitened set diagonalised by the rotation that leaves
    the least off the diagonals, pair of axes by pair of axes in closed form (Cardoso and Souloumiac
    1996), all disjoint pairs at once. Of two covariances it is the generalised eigenproblem
    C_1 w = λ C_0 w, solved as such. M is determined up to order and scale of its columns if no two
    axes have the same variances in all environments but for one ratio. Axes count as tied if such
    a ratio is within the sampling error of normal data, by a test at 5 % over all pairs
    (`tie_p_values`), or within rounding.

    Parameters
    ----------
    covariances : array (k, d, d)
        Symmetric and positive semi-definite. Dependent directions are left out, by the rank of
        the mean.
    rows : int or array (k,), optional
        How many rows each covariance is of; they weigh as much. By default what is left off the
        diagonals tells, of three covariances or more: nothing of exact ones.
    max_sweeps : int
        At which to give up.

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
            f"after {axes.sweeps} sweeps axes still turn by {axes.turning.max():.1g}: the "
            "covariances have no common axes, or max_sweeps is too small",
            ConvergenceWarning,
            stacklevel=2,
        )
    return JointDiagonal(
        axes.unmixing, axes.mixing, axes.variances, ~tied.any(axis=1) & axes.converged,
        groups(tied), errors, axes.off, axes.sweeps, bool(done.all()),
    )  # fmt: skip


def _rows_that_show(C: Array, axes: Axes) -> tuple[Array, Array] | None:
    """Of how many rows covariances look, by what is left off their diagonals; and the fewest.

    The correlation of two axes in one environment has variance 1/n. Rotation and whitening have
    made two of k for each pair of axes what they are. The fewest rows are the lower end of a 95 %
    interval, so that few environments are not taken for many rows. None if only rounding is left,
    as it is of two covariances whatever they are.
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
    """The covariances in float64, and the machine epsilon of the type they came in."""
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
                f"covariance {e} has the negative eigenvalue {least:.3g}, and so is none"
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
        raise InputError(f"rows is {given!r}; a covariance is of 2 rows or more")
    return np.broadcast_to(counts.astype(np.float64), environments)
