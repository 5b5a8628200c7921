"""The leading principal subspace of a view that is too wide for its full scatter matrix."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh

from identikit._linalg import GRAM_FLOOR, LARGEST_ROUNDING, Array, rank_tolerance
from identikit._progress import Progress
from identikit.errors import InputError
from identikit.moments._folds import Folds
from identikit.moments._part import StackLayout
from identikit.moments._passes import read_rows
from identikit.moments._randomised_pca import Directions, oversampled, randomised, sketch_bytes
from identikit.moments._scan import Reading
from identikit.moments.engines import Engine
from identikit.moments.memory import COPIES, LEAST_ROWS, allocated, block_rows, default_memory
from identikit.sources import Source, open_source

#: The mean has its own direction if its squared distance from the subspace exceeds this share of
#: the average variance of a column.
FAR = 1e-4


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
