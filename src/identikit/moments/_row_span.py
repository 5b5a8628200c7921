"""The row space of a view with far more columns than rows, which loses nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from identikit._linalg import Array, svd
from identikit.errors import InputError
from identikit.moments._folds import Folds
from identikit.moments._passes import describe_nonfinite
from identikit.moments._pca import Subspace, subspace_of
from identikit.moments._randomised_pca import Directions
from identikit.moments._sizes import too_large
from identikit.moments.memory import allocated
from identikit.sources import Source

#: A view is reduced to its row space if it has more than this many columns per row.
COLUMNS_A_ROW = 2

#: Numbers in memory per number of the view: as stored, centred, LAPACK's copy, and the basis.
HELD = 5


def in_few_rows(rows: int, width: int) -> bool:
    """Whether a view has so few rows that it should be reduced to its row space."""
    return width > COLUMNS_A_ROW * rows


def span_bytes(rows: int, width: int) -> int:
    """Bytes that `row_span` needs."""
    return allocated(8 * HELD * rows * width)


def row_span(source: Source, folds: Folds) -> Subspace:
    """All directions in which the rows vary, by SVD of the centred rows.

    n rows vary in at most n − 1 directions, however many columns they have, and an isometry of that
    subspace changes no inner product of rows. Everything that does not depend on single columns is
    therefore the same in these coordinates. The cost is n²d operations without any d × d matrix.

    The coordinates are rotated so that all have the same variance. A regression with fewer rows
    than columns takes the solution of smallest norm for standardised columns, and standardising
    principal axes would discard their different variances.

    Parameters
    ----------
    source : Source
        The view; all of its rows are read at once.
    folds : Folds
        Only rows that are in a fold are used.
    """
    rows = source.read(0, source.rows)[folds.of() >= 0].astype(np.float64)
    if not np.isfinite(rows).all():
        raise InputError(describe_nonfinite([source], source.rows))
    mean = rows.mean(axis=0)
    rows -= mean
    with np.errstate(over="ignore"):
        columns = np.square(rows).sum(axis=0)
    if not np.isfinite(columns.sum()):
        raise too_large([source.name])
    _, values, right = svd(rows)
    basis = np.asfortranarray(right[: max(len(rows) - 1, 1)].T)
    found = Directions(len(rows), mean, columns, values[: basis.shape[1]] ** 2, basis)
    subspace = subspace_of(source, found, True, 1.0)
    k = subspace.basis.shape[1]
    turned = np.asfortranarray(subspace.basis @ level(found.values[:k]))
    return replace(subspace, basis=turned)


def level(values: Array) -> Array:
    """An orthogonal Q such that all diagonal entries of ``Qᵀ diag(values) Q`` are the same.

    Each rotation mixes an entry that is too small with one that is too large, so that one of the
    two becomes equal to the mean (Bendel and Mickey 1978).
    """
    k, mean = len(values), float(np.mean(values))
    rotation, left = np.eye(k), np.array(values, dtype=np.float64)
    order = np.argsort(left)
    low, high = 0, k - 1  # the smallest and the largest entry that is not yet equal to the mean
    while low < high:
        a, b = order[low], order[high]
        gap = left[b] - left[a]
        if gap <= 0:
            break
        # cos² such that one entry becomes the mean, and the other keeps the sum of both unchanged.
        share = min(max((left[b] - mean) / gap, 0.0), 1.0)
        cos, sin = np.sqrt(share), np.sqrt(1 - share)
        rotation[:, [a, b]] = rotation[:, [a, b]] @ np.array([[cos, sin], [sin, -cos]])
        left[a], left[b] = mean, left[a] + left[b] - mean
        low += 1
        if left[b] < mean:  # the entry was too large and is now too small: it is next
            order[low - 1], low, high = b, low - 1, high - 1
    return rotation
