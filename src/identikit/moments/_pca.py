"""The subspace of a wide view: its leading principal directions, or all those of few rows."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import eigh

from identikit._linalg import GRAM_FLOOR, LARGEST_ROUNDING, Array, rank_tolerance, svd
from identikit._progress import Progress
from identikit.errors import InputError
from identikit.moments._folds import Folds
from identikit.moments._part import StackLayout
from identikit.moments._passes import describe_nonfinite, read_rows
from identikit.moments._randomised_pca import Directions, oversampled, randomised, sketch_bytes
from identikit.moments._scan import Reading
from identikit.moments._sizes import too_large
from identikit.moments.engines import Engine
from identikit.moments.memory import COPIES, LEAST_ROWS, allocated, block_rows, default_memory
from identikit.sources import Source, open_source

__all__ = ["Subspace", "in_few_rows", "leading", "reduction_bytes", "row_span", "span_bytes"]

#: The mean has its own direction if its squared distance from the subspace exceeds this share of
#: the average variance of a column.
FAR = 1e-4

#: A view is reduced to its row space if it has more than this many columns per row.
COLUMNS_A_ROW = 2

#: Numbers in memory per number of the view: as stored, centred, LAPACK's copy, and the basis.
HELD = 5


@dataclass(frozen=True, eq=False)
class Subspace:
    """The k leading principal directions of a view, exact or approximate, and the variance lost.

    They are computed from all rows, including those that are held out later, but without looking at
    any other view. What is held out on reduced views is therefore the fit of a map, not the choice
    of the subspace.

    Parameters
    ----------
    mean : array (d,)
        Mean of the rows.
    variance : float
        Mean squared distance of the rows from their mean.
    basis : array (d, k)
        Orthonormal columns in order of decreasing variance; fewer than requested if the others are
        rounding error.
    lost : float
        The share of the variance outside the subspace: 1 − ‖XQ‖²/‖X‖² for the centred rows X and
        the basis Q.
    exact : bool
        Whether the directions are eigenvectors of the full scatter matrix.
    bound : float
        Upper bound on the variance lost, as a multiple of what the best k directions lose: 1 if
        exact, otherwise 1 + k/(p − 1) with p additional directions in the sketch. It holds for the
        mean over the random numbers.
    """

    mean: Array
    variance: float
    basis: Array
    lost: float
    exact: bool
    bound: float

    def with_mean(self) -> Array:
        """The basis, with one more column along the mean if that lies outside the subspace.

        Without it the origin would move, so that a linear map could look affine or the reverse.
        """
        outside = self.mean - self.basis @ (self.basis.T @ self.mean)
        outside -= self.basis @ (self.basis.T @ outside)
        size = float(np.linalg.norm(outside))
        if size**2 * len(outside) <= FAR * self.variance:
            return self.basis
        frame = np.empty((len(outside), self.basis.shape[1] + 1), order="F")
        frame[:, :-1], frame[:, -1] = self.basis, outside / size
        return frame


def leading(
    source: Source,
    folds: Folds,
    k: int,
    memory: int | None = None,
    seed: int = 0,
    *,
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> Subspace:
    """The k directions in which the rows of a view vary most.

    If the scatter matrix fits into memory, they are its eigenvectors, computed in one pass.
    Otherwise they come from a randomised range finder with one power iteration (Halko, Martinsson
    and Tropp 2011, algorithm 4.4), in three passes. With centred rows X, this computes
    ``Q = qr(Xᵀ Ω)``, then ``Q = qr(XᵀX Q)``, and then the leading eigenvectors of ``QᵀXᵀX Q``,
    mapped back by Q. Ω has a row of random numbers for each *row* of the view, which depends only
    on the row's number and the seed. If two views of the same rows are rotations of each other,
    their subspaces are therefore rotations of each other too, however flat the spectrum is.

    The bound on the variance lost: for A = Xᵀ with best approximation A_k of rank k, and
    C = ``QQᵀA`` truncated to rank k, ‖A − C‖² ≤ ‖A − A_k‖² + ‖(1 − QQᵀ) A_k‖², and the mean of the
    last term is at most k/(p − 1) times the first (Halko et al., theorem 10.5). Power iterations
    make it smaller (Gu 2015).

    Parameters
    ----------
    source : Source
        The view.
    folds : Folds
        Only rows that are in a fold are used.
    k : int
        Number of directions, at least 1.
    memory : int, optional
        Bytes that this may take; half of the machine's memory by default.
    seed : int
        Seed of the random numbers.
    engine : Engine, optional
        Workers that read ranges of rows; this process by default.
    progress : callable, optional
        Called with ("reading", rows done, total rows), over all passes.
    """
    budget, d = default_memory() if memory is None else memory, source.width
    if not 1 <= k <= d:
        raise InputError(
            f"cannot find {k} leading directions of a view of {d} columns; give 1 to {d}"
        )
    folds = Folds(folds.rows, 1, None if folds.labels is None else np.minimum(folds.of(), 0))
    if exact_bytes(d, k) <= budget:
        found = _exact(source, folds, k, budget - exact_bytes(d, k), engine, progress)
        return subspace_of(source, found, True, 1.0)
    needed = sketch_bytes(d, k)
    if needed > budget:
        raise InputError(
            f"finding {k} leading directions of view {source.name!r} with {d} columns takes "
            f"{needed / 1e6:,.1f} MB, the budget is {budget / 1e6:,.1f} MB; give fewer directions, "
            "or a larger memory budget"
        )
    found = randomised(source, folds, k, seed, budget - needed, engine, progress)
    return subspace_of(source, found, False, 1 + k / (oversampled(k) - k - 1))


def reduction_bytes(width: int, k: int) -> int:
    """The least number of bytes that `leading` needs."""
    return min(exact_bytes(width, k), sketch_bytes(width, k))


def exact_bytes(width: int, k: int) -> int:
    """Bytes that the exact method needs.

    They are for three scatter matrices (two to be merged, and a contiguous one for LAPACK), the
    directions, LAPACK's workspace of less than 200 columns, and the smallest block of rows.
    """
    return allocated(8 * width * (3 * width + k + 200 + COPIES * LEAST_ROWS))


def _exact(
    source: Source,
    folds: Folds,
    k: int,
    room: int,
    engine: Engine | None,
    progress: Progress | None,
) -> Directions:
    d = source.width
    step = min(block_rows(d, room), folds.rows)
    reading = Reading(folds, StackLayout((d,)), step, sample=0)
    # Opened again and closed right after, because an open source may hold its last blocks in
    # memory.
    with closing(open_source(source.origin, source.name)) as own:
        summed = read_rows([own], reading, engine=engine, progress=progress)
    part = summed.moments.parts[0]
    del summed
    count, mean, columns = part.count, part.mean, part.scatter.diagonal().copy()
    scatter = np.array(part.scatter.T, order="F")
    del part
    # This driver needs no second matrix; eigenvalues are in ascending order.
    values, vectors = eigh(
        scatter,
        subset_by_index=(d - k, d - 1),
        driver="evr",
        overwrite_a=True,
        check_finite=False,
    )
    del scatter
    basis = np.asfortranarray(vectors[:, ::-1])
    return Directions(count, mean, columns, values[::-1], basis)


def subspace_of(source: Source, found: Directions, exact: bool, bound: float) -> Subspace:
    """Drop the directions that are rounding error, and compute the variance lost."""
    mean, values, basis = found.mean, found.values, found.basis
    total, n = float(found.columns.sum()), max(found.count, 1)
    # The rules for the rounding errors of columns and for the rank, applied to directions.
    noise = n * (4 * source.eps) ** 2 * np.einsum("ij,ij,i->j", basis, basis, mean**2)
    tolerance = rank_tolerance(n, source.width, source.eps)
    least = min(tolerance**2 * values[0], LARGEST_ROUNDING**2 * found.columns.max())
    kept = values > np.maximum(noise, max(least, GRAM_FLOOR * values[0]))
    if not kept.any():
        # A constant view is represented by the direction of its mean.
        size = float(np.linalg.norm(mean))
        line = mean / size if size > 0 else np.eye(1, len(mean))[0]
        return Subspace(mean, total / n, line[:, None], 1.0 if total > 0 else 0.0, exact, bound)
    if not kept.all():
        values, basis = values[kept], np.asfortranarray(basis[:, kept])
    lost = min(max(1 - float(values.sum()) / total, 0.0), 1.0)
    return Subspace(mean, total / n, basis, lost, exact, bound)


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
