"""One rank rule, one whitening, one symmetric eigendecomposition for everybody."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

#: A scatter matrix in plain float64 says nothing of eigenvalues below this share of the largest.
GRAM_FLOOR = 1e-13

#: No direction is dropped that holds more than this of a standardised column's spread: in wide
#: views the largest singular value is many columns' worth, and no yardstick for rounding.
LARGEST_ROUNDING = 2.0**-5

#: Above this share of the largest eigenvalue, correlations from a scatter matrix are good to 1e-9.
GRAM_EXACT = 1e-8


def rank_tolerance(rows: int, width: int, eps: float) -> float:
    """Smallest singular value, as a share of the largest, that counts towards the rank.

    ``min(max(n, d) ε, √ε)`` with ε the spacing of the type the numbers were *stored* in: the usual
    rule for small n; at √ε a direction still stands far above rounding, so no larger n may cost it
    its place (in float16 the usual rule would leave no direction at all from n = 1024 on). And see
    `LARGEST_ROUNDING`.

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


def one_thread(size: int) -> AbstractContextManager[Any]:
    """One BLAS thread for work on matrices of moderate size.

    LAPACK's reductions are many small steps with a barrier each. A second thread gains a few per
    cent on an idle machine, and costs a factor of 50 where another process has the second core.
    """
    return _blas().limit(limits=1) if 64 <= size <= 2048 else nullcontext()


def svd(matrix: Array) -> tuple[Array, Array, Array]:
    """Thin singular value decomposition."""
    with one_thread(min(matrix.shape)):
        left, values, right = np.linalg.svd(matrix, full_matrices=False)
    return left, values, right


def singular_values(matrix: Array) -> Array:
    """Singular values, largest first."""
    with one_thread(min(matrix.shape)):
        values = np.linalg.svd(matrix, compute_uv=False)
    return values.astype(np.float64, copy=False)


def eigvalsh(matrix: Array) -> Array:
    """Eigenvalues of a symmetric matrix, smallest first."""
    with one_thread(min(matrix.shape)):
        values = np.linalg.eigvalsh(matrix)
    return values.astype(np.float64, copy=False)


def eigh(matrix: Array) -> tuple[Array, Array]:
    """Eigenvalues, largest first and never negative, and eigenvectors in columns."""
    with one_thread(min(matrix.shape)):
        values, vectors = np.linalg.eigh(matrix)
    return np.maximum(values[::-1], 0.0), np.ascontiguousarray(vectors[:, ::-1])


def standard_deviations(scatter_diagonal: Array, mean: Array, rows: int, eps: float) -> Array:
    """Root of the scatter's diagonal; 0 for a column whose spread is rounding of its mean."""
    rounding = rows * (4 * eps * mean) ** 2
    return np.sqrt(np.where(scatter_diagonal > rounding, scatter_diagonal, 0.0))


def inverse_or_zero(values: Array) -> Array:
    """1/x, and 0 where x is 0."""
    return np.divide(1.0, values, out=np.zeros_like(values), where=values > 0)


class Whitening(NamedTuple):
    """Coordinates in which a centred view is orthonormal: ``X @ map`` has orthonormal columns.

    `values` are the singular values of the standardised view, for the kept directions; `dropped`
    is the largest one that did not count (0 if none was dropped), `tolerance` what had to be
    exceeded.
    """

    map: Array
    values: Array
    dropped: float
    tolerance: float

    @property
    def rank(self) -> int:
        """Number of directions kept."""
        return int(self.map.shape[1])


def whitening(scatter: Array, root: Array | None, scale: Array, tolerance: float) -> Whitening:
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
    """
    inverse = inverse_or_zero(scale)
    if root is None:
        values, vectors = eigh(scatter * inverse[:, None] * inverse)
        singular, turn = np.sqrt(values), inverse[:, None] * vectors
        tolerance = max(tolerance, GRAM_FLOOR**0.5)
    else:
        # Merged moments may be stored in coordinates that fit only a part of their rows.
        stored = np.sqrt(np.maximum(np.diagonal(scatter), 0.0))
        unit = inverse_or_zero(stored)
        values, vectors = eigh(scatter * unit[:, None] * unit)
        kept = values > GRAM_FLOOR * values[0]
        values, vectors = values[kept], vectors[:, kept]
        inner = (vectors.T * stored) @ root * inverse
        left, singular, _ = svd(np.sqrt(values)[:, None] * inner)
        turn = (unit[:, None] * vectors / np.sqrt(values)) @ left * singular
    if singular.size == 0 or singular[0] == 0.0:
        return Whitening(np.empty((len(scale), 0)), np.empty(0), 0.0, 0.0)
    least = min(tolerance * float(singular[0]), LARGEST_ROUNDING)
    rank = int(np.count_nonzero(singular > least))
    dropped = float(singular[rank]) if rank < len(singular) else 0.0
    return Whitening(turn[:, :rank] / singular[:rank], singular[:rank], dropped, least)


def well_conditioned_root(scatter: Array, scale: Array) -> tuple[Array, Array]:
    """F and R = F⁻¹ such that X F is nearly orthonormal, from a scatter that has lost digits.

    The eigenvalues that rounding has taken are floored, so that X F has a condition number at which
    a second scatter matrix, taken in X F, is exact again.
    """
    safe = np.where(scale > 0, scale, 1.0)
    values, vectors = eigh(scatter / safe[:, None] / safe)
    root = np.sqrt(np.maximum(values, GRAM_FLOOR * max(values[0], 1e-300)))
    return (vectors / safe[:, None]) / root, (root[:, None] * vectors.T) * safe


def needs_second_pass(scatter: Array, scale: Array, tolerance: float) -> bool:
    """Whether a direction that counts is too small for this scatter matrix to hold its digits."""
    varies = scale > 0
    if not varies.any():
        return False
    part, scale = scatter[np.ix_(varies, varies)], scale[varies]
    values = eigvalsh(part / scale[:, None] / scale)
    share = values / values[-1]
    # Half the tolerance: a direction near the border must be judged by exact digits.
    return bool(np.any((share < GRAM_EXACT) & (share > (tolerance / 2) ** 2 - GRAM_FLOOR)))
