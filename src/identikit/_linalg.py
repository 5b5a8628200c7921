"""Linear algebra that all packages share: one rank rule, one whitening, one eigensolver."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dgeqrf, dgeqrf_lwork, dpocon, dpotrf, dtrtri

from identikit._threads import one_thread

Array = NDArray[np.float64]

#: Eigenvalues of a float64 scatter matrix below this share of the largest are rounding errors.
GRAM_FLOOR = 1e-13

#: A standardised scatter matrix whose reciprocal condition number is above this is whitened by its
#: Cholesky factor.
WELL_CONDITIONED = 1e-5

#: A direction with more than this share of a standardised column's spread is never dropped. In wide
#: views the largest singular value sums up many columns and is too large a scale for rounding.
LARGEST_ROUNDING = 2.0**-5

#: Eigenvalues above this share of the largest give correlations with errors of at most 1e-9.
GRAM_EXACT = 1e-8


def rank_tolerance(rows: int, width: int, eps: float) -> float:
    """Smallest singular value, as a share of the largest, that counts towards the rank.

    ``min(max(n, d) ε, √ε)`` with ε the machine epsilon of the type that numbers were *stored* in.
    The first term is the usual rule. The second limits it for large n, where a direction of √ε is
    still far above rounding (in float16 the usual rule would leave no direction from n = 1024 on).
    See also `LARGEST_ROUNDING`.

    >>> rank_tolerance(1000, 32, 2.0**-23) == 1000 * 2.0**-23
    True
    >>> rank_tolerance(10**6, 32, 2.0**-10)
    0.03125
    """
    return float(min(max(rows, width) * eps, eps**0.5))


def random_rotation(width: int, rng: np.random.Generator) -> Array:
    """A random rotation or reflection from the uniform (Haar) distribution (Stewart 1980)."""
    rotation, upper = np.linalg.qr(rng.normal(size=(width, width)))
    uniform: Array = rotation * np.sign(np.diagonal(upper))
    return uniform


def svd(matrix: Array) -> tuple[Array, Array, Array]:
    """Thin singular value decomposition."""
    with one_thread(min(matrix.shape)):
        left, values, right = np.linalg.svd(matrix, full_matrices=False)
    return left, values, right


def thin_svd(matrix: Array, least: float = 1e-7) -> tuple[Array, Array, Array]:
    """Thin singular value decomposition by the smaller Gram matrix, which is twice as fast.

    LAPACK's own routine is used if the smallest eigenvalue of the Gram matrix is below the share
    `least` of the largest, as squaring then loses digits: the vectors of one side have relative
    errors of up to ε/least.
    """
    if matrix.shape[0] > matrix.shape[1]:
        right, values, left = thin_svd(matrix.T, least)
        return left.T, values, right.T
    squares, left = eigh(matrix @ matrix.T)
    if not (len(squares) and squares[-1] > least * squares[0]):
        return svd(matrix)
    values = np.sqrt(squares)
    return left, values, (left / values).T @ matrix


def polar(matrix: Array) -> Array:
    """UVᵀ of the thin SVD UΣVᵀ: the nearest matrix with orthonormal columns or rows."""
    if matrix.shape[0] < matrix.shape[1]:
        return polar(matrix.T).T
    with one_thread(min(matrix.shape)):
        # At unit scale, squares neither overflow nor underflow.
        left, _, right = thin_svd(
            matrix / max(float(np.abs(matrix).max(initial=0.0)), 1e-300), 1e-9
        )
        factor: Array = left @ right
        # One step of Newton and Schulz, since one of the sides is orthonormal to a few digits only.
        gap = factor.T @ factor
        gap[np.diag_indices_from(gap)] -= 1.0
        return factor - factor @ (gap / 2)


def thin_svds(stack: Array) -> tuple[Array, Array, Array]:
    """`thin_svd` of every matrix of a stack, in one call, which other threads can run beside."""
    if stack.shape[1] > stack.shape[2]:
        right, values, left = thin_svds(stack.swapaxes(1, 2))
        return left.swapaxes(1, 2), values, right.swapaxes(1, 2)
    squares, left = np.linalg.eigh(stack @ stack.swapaxes(1, 2))
    if not (squares[:, 0] > 1e-9 * squares[:, -1]).all():
        found = [thin_svd(matrix, 1e-9) for matrix in stack]
        return tuple(np.array(each) for each in zip(*found))  # type: ignore[return-value]
    values, left = np.sqrt(squares[:, ::-1]), left[:, :, ::-1]
    return left, values, (left / values[:, None, :]).swapaxes(1, 2) @ stack


def singular_values(matrix: Array) -> Array:
    """Singular values of a matrix, or of every matrix of a stack, largest first.

    They are computed as square roots of the eigenvalues of the smaller Gram matrix, which is three
    times as fast, unless one is so small that squaring it loses digits. The error of σ is then at
    most ε σ₁²/2σ, which is 1e-11 σ₁.
    """
    with one_thread(min(matrix.shape[-2:])):
        wide = matrix if matrix.shape[-2] <= matrix.shape[-1] else matrix.swapaxes(-1, -2)
        values = np.linalg.eigvalsh(wide @ wide.swapaxes(-1, -2))[..., ::-1]
        if values.size and (values[..., -1] > 1e-9 * values[..., 0]).all():
            return np.asarray(np.sqrt(values), dtype=np.float64)
        return np.asarray(np.linalg.svd(matrix, compute_uv=False), dtype=np.float64)


def eigh(matrix: Array) -> tuple[Array, Array]:
    """Eigenvalues, largest first and never negative, and eigenvectors in columns."""
    with one_thread(min(matrix.shape)):
        values, vectors = np.linalg.eigh(matrix)
    return np.maximum(values[::-1], 0.0), np.ascontiguousarray(vectors[:, ::-1])


def orthonormal_columns(columns: Array) -> Array:
    """An orthonormal basis of the space that the columns span.

    It is computed from the Gram matrix, in which directions below `GRAM_FLOOR` are rounding errors.
    """
    values, vectors = eigh(columns.T @ columns)
    kept = values > GRAM_FLOOR * values.max(initial=0.0)
    result: Array = columns @ (vectors[:, kept] / np.sqrt(values[kept]))
    return result


def triangle(rows: Array, *, overwrite: bool = False) -> Array:
    """R of the QR decomposition, which has the same inner products of columns in fewer rows.

    Parameters
    ----------
    overwrite : bool
        Overwrite a matrix in Fortran order, which saves the memory of a copy.
    """
    rows = np.asfortranarray(rows, dtype=np.float64)
    room, _ = dgeqrf_lwork(*rows.shape)  # without workspace LAPACK goes column by column
    factors, *_ = dgeqrf(rows, lwork=int(room), overwrite_a=overwrite)
    upper: Array = np.triu(factors[: min(rows.shape)])
    return upper


def span(factor: Array, rows: int, eps: float) -> Array:
    """Orthonormal basis (M, r) of the row space of a matrix, given R of its QR decomposition.

    Parameters
    ----------
    factor : array (m, M)
        R, or any other matrix with the same inner products of columns.
    rows : int
        Number of rows of the matrix itself, for the rank tolerance.
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

    ε 2^⌊log₂|m|⌋ with ε the machine epsilon; the rounding error of a stored number is at most half
    of it. The result is at least the rounding error of the mean itself, which is computed in
    float64.

    >>> spacings(np.array([1000.0, 0.0]), 2.0**-10).tolist()
    [0.5, 0.0]
    """
    _, exponent = np.frexp(mean)
    spacing = np.where(mean != 0, np.ldexp(eps, exponent - 1), 0.0)
    return np.maximum(spacing, 4 * 2.0**-52 * np.abs(mean))


def standard_deviations(scatter_diagonal: Array, mean: Array, rows: int, eps: float) -> Array:
    """Square root of the scatter's diagonal; 0 for a column that is constant up to rounding.

    A column counts as constant if its standard deviation is at most the unit in the last place of
    its mean (`spacings`); rounding alone causes 0.3 to 0.5 of that.
    """
    rounding = rows * spacings(mean, eps) ** 2
    return np.sqrt(np.where(scatter_diagonal > rounding, scatter_diagonal, 0.0))


def rounding_shares(mean: Array, scale: Array, rows: int, eps: float) -> Array:
    """Bound on the rounding errors of each standardised column: u_j √n (1 + √(d/n)).

    u_j is the unit in the last place of the mean, divided by the square root of the column's
    scatter. The factor is the largest singular value of n × d independent errors of variance 1
    (Marchenko and Pastur 1967). One unit is 3.5 standard deviations of a rounding error, so that a
    direction of rounding errors stays well below the bound.
    """
    widest = np.sqrt(rows) + np.sqrt(len(mean))
    shares: Array = widest * spacings(mean, eps) * inverse_or_zero(scale)
    return shares


def inverse_or_zero(values: Array) -> Array:
    """1/x, and 0 where x is 0."""
    return np.divide(1.0, values, out=np.zeros_like(values), where=values > 0)


class Whitening(NamedTuple):
    """A linear map that whitens a centred view: ``X @ map`` has orthonormal columns.

    `smallest` is the smallest singular value of the standardised view that counts towards the rank,
    and `dropped` the largest that does not. Both are 0 if the view is so well conditioned that they
    were not computed. `tolerance` is the value that a singular value had to exceed. `settled` says
    whether the scatter matrix was precise enough to decide the rank.
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
    """Whiten a view given by its scatter matrix, with a rank tolerance.

    Columns are standardised first, so that the rank does not depend on their units. With
    ``root`` = R the scatter matrix is that of X', where X = X' R. X' are well-conditioned
    coordinates of an ill-conditioned view, in which small directions keep their digits.

    Parameters
    ----------
    scatter : array (d, d)
        Scatter matrix of the view, or of X' if a root is given.
    root : array (d, d) or None
        R, if the scatter matrix is that of X'.
    scale : array (d,)
        Square root of the diagonal of X's scatter matrix (0 for a constant column).
    tolerance : float
        The smallest singular value kept, as a share of the largest.
    rounding : array (d,), optional
        Bound u_j on the rounding errors of each standardised column (`rounding_shares`). A
        direction v counts only if its singular value is above √Σ v_j² u_j², because numbers far
        from zero are stored coarsely, whatever their spread.
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
        singular, directions = np.sqrt(values), inverse[:, None] * vectors
        errors = np.sqrt((rounding**2) @ vectors**2)
        # Constant columns are exact zeros and are left out. Half the tolerance is used because a
        # direction near the threshold must be judged with full precision.
        share = values[: np.count_nonzero(scale)] / max(values[0], 1e-300)
        doubtful = (share < GRAM_EXACT) & (share > (tolerance / 2) ** 2 - GRAM_FLOOR)
        # A direction that the rows do have may be lost completely in the rounded scatter matrix.
        reach = np.sqrt(values[: len(share)] + GRAM_FLOOR * values[0])
        doubtful &= reach > errors[: len(share)] / 2
        settled = not doubtful.any()
        tolerance = max(tolerance, GRAM_FLOOR**0.5)
    else:
        # The coordinates of merged moments may be well conditioned for only a part of the rows.
        stored = np.sqrt(np.maximum(np.diagonal(scatter), 0.0))
        unit = inverse_or_zero(stored)
        values, vectors = eigh(scatter * unit[:, None] * unit)
        kept = values > GRAM_FLOOR * values[0]
        values, vectors = values[kept], vectors[:, kept]
        inner = (vectors.T * stored) @ root * inverse
        left, singular, right = svd(np.sqrt(values)[:, None] * inner)
        errors = np.sqrt(right**2 @ rounding**2)
        directions = (unit[:, None] * vectors / np.sqrt(values)) @ left * singular
    if singular.size == 0 or singular[0] == 0.0:
        return Whitening(np.empty((len(scale), 0)), 0.0, 0.0, 0.0, True)
    least = np.maximum(min(tolerance * float(singular[0]), LARGEST_ROUNDING), errors)
    counts = singular > least
    if counts.all():
        return Whitening(directions / singular, float(singular[-1]), 0.0, float(least[-1]), settled)
    # As columns differ in rounding, a direction may count while a larger one does not.
    first = int(np.argmin(counts))
    smallest = float(singular[counts].min(initial=np.inf)) if counts.any() else 0.0
    dropped = float(singular[first])
    return Whitening(
        directions[:, counts] / singular[counts], smallest, dropped, float(least[first]), settled
    )


def _inverse_factor(matrix: Array, least: float) -> Array | None:
    """L⁻ᵀ of the Cholesky factor L, or None if the condition number is 1/`least` or more.

    This is ten times as fast as eigenvectors. The condition number is that of the 1-norm, which is
    larger than that of the 2-norm.
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
    """F and R = F⁻¹ such that X F is nearly orthonormal, from a scatter matrix that lost digits.

    Eigenvalues that are lost in rounding are replaced by a lower bound. X F is then so well
    conditioned that its own scatter matrix, from a second pass over the rows, is accurate.
    """
    if not scale.any():  # a constant view needs no other coordinates
        return np.eye(len(scale)), np.eye(len(scale))
    safe = np.where(scale > 0, scale, 1.0)
    values, vectors = eigh(scatter / safe[:, None] / safe)
    root = np.sqrt(np.maximum(values, GRAM_FLOOR * max(values[0], 1e-300)))
    return (vectors / safe[:, None]) / root, (root[:, None] * vectors.T) * safe
