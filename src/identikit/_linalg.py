"""Linear algebra that all packages share: one rank rule, one whitening, one eigensolver."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dgeqrf, dgeqrf_lwork, dpocon, dpotrf, dtrtri

Array = NDArray[np.float64]

#: A scatter matrix in plain float64 says nothing of eigenvalues below this share of the largest.
GRAM_FLOOR = 1e-13

#: A standardised scatter with a reciprocal condition above this is whitened by Cholesky's factor.
WELL_CONDITIONED = 1e-5

#: No direction is dropped that holds more than this of a standardised column's spread: in wide
#: views the largest singular value is many columns' worth, and no yardstick for rounding.
LARGEST_ROUNDING = 2.0**-5

#: Above this share of the largest eigenvalue, correlations from a scatter matrix are good to 1e-9.
GRAM_EXACT = 1e-8


def rank_tolerance(rows: int, width: int, eps: float) -> float:
    """Smallest singular value, as a share of the largest, that counts towards the rank.

    ``min(max(n, d) ε, √ε)`` with ε the machine epsilon of the type that numbers were *stored* in.
    The first is the usual rule. The second is a limit for large n: at √ε a direction still stands
    far above rounding (in float16 the usual rule would leave no direction from n = 1024 on). See
    also `LARGEST_ROUNDING`.

    >>> rank_tolerance(1000, 32, 2.0**-23) == 1000 * 2.0**-23
    True
    >>> rank_tolerance(10**6, 32, 2.0**-10)
    0.03125
    """
    return float(min(max(rows, width) * eps, eps**0.5))


@cache
def _blas() -> Any:
    from threadpoolctl import ThreadpoolController  # scikit-learn brings it

    return ThreadpoolController()


def one_thread(size: int = 64) -> AbstractContextManager[Any]:
    """One BLAS thread for work on matrices of moderate size.

    LAPACK's reductions are many small steps with a barrier each. A second thread gains a few per
    cent on an idle machine, and costs a factor of 50 where another process has the second core.
    NumPy and SciPy each bring a BLAS, and the idle threads of one spin in the way of the other.
    """
    return _blas().limit(limits=1) if 64 <= size <= 2048 else nullcontext()


def blas_threads() -> int:
    """Threads that BLAS may use here: the cores, or what the user or a pool has set."""
    return max(int(library["num_threads"]) for library in _blas().info())


def random_rotation(width: int, rng: np.random.Generator) -> Array:
    """A rotation or reflection, uniform over all of them (Haar; Stewart 1980)."""
    turn, upper = np.linalg.qr(rng.normal(size=(width, width)))
    uniform: Array = turn * np.sign(np.diagonal(upper))
    return uniform


def svd(matrix: Array) -> tuple[Array, Array, Array]:
    """Thin singular value decomposition."""
    with one_thread(min(matrix.shape)):
        left, values, right = np.linalg.svd(matrix, full_matrices=False)
    return left, values, right


def singular_values(matrix: Array) -> Array:
    """Singular values, largest first.

    As roots of the eigenvalues of the smaller Gram matrix, three times as fast, where none is so
    small that squaring costs digits: σ is then off by at most ε σ₁²/2σ, 1e-11 σ₁.
    """
    with one_thread(min(matrix.shape)):
        wide = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T
        values = np.linalg.eigvalsh(wide @ wide.T)[::-1]
        if len(values) and values[-1] > 1e-9 * values[0]:
            return np.asarray(np.sqrt(values), dtype=np.float64)
        return np.asarray(np.linalg.svd(matrix, compute_uv=False), dtype=np.float64)


def eigh(matrix: Array) -> tuple[Array, Array]:
    """Eigenvalues, largest first and never negative, and eigenvectors in columns."""
    with one_thread(min(matrix.shape)):
        values, vectors = np.linalg.eigh(matrix)
    return np.maximum(values[::-1], 0.0), np.ascontiguousarray(vectors[:, ::-1])


def orthonormal_columns(columns: Array) -> Array:
    """Columns turned and scaled to be orthonormal, fewer of them if they are dependent.

    They come from the Gram matrix, so that directions below `GRAM_FLOOR` are rounding.
    """
    values, vectors = eigh(columns.T @ columns)
    kept = values > GRAM_FLOOR * values.max(initial=0.0)
    result: Array = columns @ (vectors[:, kept] / np.sqrt(values[kept]))
    return result


def triangle(rows: Array, *, overwrite: bool = False) -> Array:
    """R of rows = QR, without Q: the same inner products of columns in as few rows as possible.

    Parameters
    ----------
    overwrite : bool
        Overwrite a matrix in Fortran order, which saves the memory of a copy.
    """
    rows = np.asfortranarray(rows, dtype=np.float64)
    room, _ = dgeqrf_lwork(*rows.shape)  # without it LAPACK goes column by column
    factors, *_ = dgeqrf(rows, lwork=int(room), overwrite_a=overwrite)
    upper: Array = np.triu(factors[: min(rows.shape)])
    return upper


def span(factor: Array, rows: int, eps: float) -> Array:
    """Orthonormal basis (M, r) of the space that the rows of some matrix span, given its R.

    Parameters
    ----------
    factor : array (m, M)
        R of the matrix, or anything with its inner products of columns.
    rows : int
        How many rows the matrix itself has, for the rank tolerance.
    eps : float
        Machine epsilon of the type that its numbers were stored in.
    """
    _, values, right = svd(factor)
    if not values.any():
        return np.empty((factor.shape[1], 0))
    least = rank_tolerance(rows, factor.shape[1], eps) * values[0]
    basis: Array = right[: int(np.count_nonzero(values > least))].T
    return basis


def spacings(mean: Array, eps: float) -> Array:
    """The unit in the last place of a column's mean, in the type that the column was stored in.

    ε 2^⌊log₂|m|⌋ with ε the machine epsilon: stored numbers are off by up to half of it. It is at
    least the rounding error of the mean itself, which is summed up in float64.

    >>> spacings(np.array([1000.0, 0.0]), 2.0**-10).tolist()
    [0.5, 0.0]
    """
    _, exponent = np.frexp(mean)
    spacing = np.where(mean != 0, np.ldexp(eps, exponent - 1), 0.0)
    return np.maximum(spacing, 4 * 2.0**-52 * np.abs(mean))


def standard_deviations(scatter_diagonal: Array, mean: Array, rows: int, eps: float) -> Array:
    """Root of the scatter's diagonal; 0 for a column whose spread is rounding of its mean.

    That is so if the standard deviation is no more than the unit in the last place of the mean
    (`spacings`): rounding alone makes 0.3 to 0.5 of that.
    """
    rounding = rows * spacings(mean, eps) ** 2
    return np.sqrt(np.where(scatter_diagonal > rounding, scatter_diagonal, 0.0))


def rounding_shares(mean: Array, scale: Array, rows: int, eps: float) -> Array:
    """How large the rounding of a standardised column may look: u_j √n (1 + √(d/n)).

    u_j is the unit in the last place of the mean, over the root of the column's scatter. The
    factor is that of the largest singular value of n × d independent errors (Marchenko and Pastur
    1967); such a unit is 3.5 deviations of them, so a direction of errors stays well below.
    """
    widest = np.sqrt(rows) + np.sqrt(len(mean))
    shares: Array = widest * spacings(mean, eps) * inverse_or_zero(scale)
    return shares


def inverse_or_zero(values: Array) -> Array:
    """1/x, and 0 where x is 0."""
    return np.divide(1.0, values, out=np.zeros_like(values), where=values > 0)


class Whitening(NamedTuple):
    """Coordinates in which a centred view is orthonormal: ``X @ map`` has orthonormal columns.

    Of the singular values of the standardised view, `smallest` is the least that counts and
    `dropped` the largest that does not; both are 0 where the view is so well conditioned that they
    were not computed. `tolerance` is what had to be exceeded. `settled` is whether a scatter matrix
    holds all the digits that this needed.
    """

    map: Array
    smallest: float
    dropped: float
    tolerance: float
    settled: bool

    @property
    def rank(self) -> int:
        """Number of directions kept."""
        return int(self.map.shape[1])


def whitening(
    scatter: Array,
    root: Array | None,
    scale: Array,
    tolerance: float,
    rounding: Array | None = None,
) -> Whitening:
    """Whiten a view given by its scatter, on standardised columns and with a rank tolerance.

    Columns are standardised first, so that the rank does not depend on their units. With
    ``root`` = R the scatter is that of X' where X = X' R: well conditioned coordinates of an
    ill-conditioned view, so that small directions keep their digits.

    Parameters
    ----------
    scatter : array (d, d)
        Scatter of the view, in X' if a root is given.
    root : array (d, d) or None
        R, if the scatter is that of X'.
    scale : array (d,)
        Root of the diagonal of X's scatter (0 for a constant column).
    tolerance : float
        The least singular value kept, as a share of the largest.
    rounding : array (d,), optional
        How large the errors of each standardised column may be (`rounding_shares`). A direction v
        counts only if its singular value is above √Σ v_j² u_j²: far from zero numbers are stored
        coarsely, whatever their spread.
    """
    inverse = inverse_or_zero(scale)
    if rounding is None:
        rounding = np.zeros(len(scale))
    settled = True
    if root is None:
        standardised = scatter * inverse[:, None] * inverse
        coarsest = float(rounding.max(initial=0.0))
        factor = _inverse_factor(
            standardised, max(WELL_CONDITIONED, tolerance**2, min(coarsest**2, 1.0))
        )
        if factor is not None:
            return Whitening(inverse[:, None] * factor, 0.0, 0.0, 0.0, True)
        values, vectors = eigh(standardised)
        singular, turn = np.sqrt(values), inverse[:, None] * vectors
        errors = np.sqrt((rounding**2) @ vectors**2)
        # A constant column is a zero that costs no digits. Half the tolerance, because a direction
        # near the border must be judged by exact digits.
        share = values[: np.count_nonzero(scale)] / max(values[0], 1e-300)
        doubtful = (share < GRAM_EXACT) & (share > (tolerance / 2) ** 2 - GRAM_FLOOR)
        # Rounding may have taken all of a direction from the scatter that the rows still have.
        reach = np.sqrt(values[: len(share)] + GRAM_FLOOR * values[0])
        doubtful &= reach > errors[: len(share)] / 2
        settled = not doubtful.any()
        tolerance = max(tolerance, GRAM_FLOOR**0.5)
    else:
        # Merged moments may be stored in coordinates that fit only a part of their rows.
        stored = np.sqrt(np.maximum(np.diagonal(scatter), 0.0))
        unit = inverse_or_zero(stored)
        values, vectors = eigh(scatter * unit[:, None] * unit)
        kept = values > GRAM_FLOOR * values[0]
        values, vectors = values[kept], vectors[:, kept]
        inner = (vectors.T * stored) @ root * inverse
        left, singular, right = svd(np.sqrt(values)[:, None] * inner)
        errors = np.sqrt(right**2 @ rounding**2)
        turn = (unit[:, None] * vectors / np.sqrt(values)) @ left * singular
    if singular.size == 0 or singular[0] == 0.0:
        return Whitening(np.empty((len(scale), 0)), 0.0, 0.0, 0.0, True)
    least = np.maximum(min(tolerance * float(singular[0]), LARGEST_ROUNDING), errors)
    counts = singular > least
    if counts.all():
        return Whitening(turn / singular, float(singular[-1]), 0.0, float(least[-1]), settled)
    # Where columns are rounded differently, a direction may count and a larger one not.
    first = int(np.argmin(counts))
    smallest = float(singular[counts].min(initial=np.inf)) if counts.any() else 0.0
    dropped = float(singular[first])
    return Whitening(
        turn[:, counts] / singular[counts], smallest, dropped, float(least[first]), settled
    )


def _inverse_factor(matrix: Array, least: float) -> Array | None:
    """L⁻ᵀ of the Cholesky factor L, if the matrix is better conditioned than 1/`least`.

    Ten times as fast as eigenvectors; the condition is that of the 1-norm, which is the larger.
    """
    with one_thread(len(matrix)):
        factor, failed = dpotrf(matrix.T, lower=0, clean=1)
        if failed:
            return None
        condition, _ = dpocon(factor, np.abs(matrix).sum(axis=0).max())
        if condition <= least:
            return None
        inverse: Array = dtrtri(factor)[0]
    return inverse


def well_conditioned_root(scatter: Array, scale: Array) -> tuple[Array, Array]:
    """F and R = F⁻¹ such that X F is nearly orthonormal, from a scatter that has lost digits.

    The eigenvalues that rounding has taken are floored, so that X F has a condition number at which
    a second scatter matrix, taken in X F, is exact again.
    """
    if not scale.any():  # a constant view is left as it is
        return np.eye(len(scale)), np.eye(len(scale))
    safe = np.where(scale > 0, scale, 1.0)
    values, vectors = eigh(scatter / safe[:, None] / safe)
    root = np.sqrt(np.maximum(values, GRAM_FLOOR * max(values[0], 1e-300)))
    return (vectors / safe[:, None]) / root, (root[:, None] * vectors.T) * safe
