"""The leading subspace of a view that is too wide to be looked at whole."""

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

#: How far outside its subspace a mean counts, squared, in units of a column's mean variance.
FAR = 1e-4


@dataclass(frozen=True, eq=False)
class Subspace:
    """The k leading principal directions of a view, or nearly these, and what they leave out.

    They are found on all rows, those that errors are held out on among them, but without a look at
    any other view: what is held out on reduced views is the fit of a map, not the subspace.

    Parameters
    ----------
    mean : array (d,)
        Mean of the rows.
    variance : float
        Mean squared distance from it.
    basis : array (d, k)
        Orthonormal columns, by falling variance; fewer than were asked for if more are rounding.
    lost : float
        1 − ‖XQ‖²/‖X‖² for the centred rows X and the basis Q, summed over all rows: the share of
        the variance outside.
    exact : bool
        Whether these are eigenvectors of the scatter itself.
    bound : float
        How many times as much as the best k directions these may lose: 1 if exact, otherwise
        1 + k/(p − 1), with p directions more in the sketch, in the mean over its random numbers.
    """

    mean: Array
    variance: float
    basis: Array
    lost: float
    exact: bool
    bound: float

    def with_mean(self) -> Array:
        """The basis, and one column more along the mean where that lies outside.

        Otherwise the origin would move, and a linear map seem affine or the other way round.
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

    By eigendecomposition of its scatter, in one pass, where that fits the memory; otherwise by a
    randomised range finder with one power iteration (Halko, Martinsson and Tropp 2011, algorithm
    4.4), in three. With centred rows X, ``Q = qr(Xᵀ Ω)``, ``Q = qr(XᵀX Q)``, and then the leading
    eigenvectors of ``QᵀXᵀX Q``, turned back. Ω has a row of random numbers for each *row* of the
    view, by its number and the seed, so that views of the same rows that are rotations of each
    other get subspaces that are so too, however flat their spectrum is.

    The bound: of Xᵀ = A, with A_k its best approximation of rank k and C = ``QQᵀA`` cut to rank k,
    ‖A − C‖² ≤ ‖A − A_k‖² + ‖(1 − QQᵀ) A_k‖², and the mean of the last term is at most k/(p − 1)
    times the first (Halko et al., theorem 10.5); power iterations make it smaller (Gu 2015).

    Parameters
    ----------
    source : Source
        The view.
    folds : Folds
        Which rows count: those that are in a fold.
    k : int
        How many directions, at least 1.
    memory : int, optional
        Bytes that this may take; half of the machine's memory by default.
    seed : int
        Of the random numbers.
    engine : Engine, optional
        Workers that read ranges of rows; this process by default.
    progress : callable, optional
        Called with (rows done, rows in all), over all passes.
    """
    budget, d = default_memory() if memory is None else memory, source.width
    if not 1 <= k <= d:
        raise InputError(f"a view of {d} columns has no {k} leading directions; give 1 to {d}")
    folds = Folds(folds.rows, 1, None if folds.labels is None else np.minimum(folds.of(), 0))
    if exact_bytes(d, k) <= budget:
        found = _exact(source, folds, k, budget - exact_bytes(d, k), engine, progress)
        return subspace_of(source, found, True, 1.0)
    needed = sketch_bytes(d, k)
    if needed > budget:
        raise InputError(
            f"to find {k} leading directions of view {source.name!r} with {d} columns takes "
            f"{needed / 1e6:,.1f} MB, the budget is {budget / 1e6:,.1f} MB; give fewer directions, "
            "or a larger memory budget"
        )
    found = randomised(source, folds, k, seed, budget - needed, engine, progress)
    return subspace_of(source, found, False, 1 + k / (oversampled(k) - k - 1))


def reduction_bytes(width: int, k: int) -> int:
    """Bytes without which `leading` cannot do."""
    return min(exact_bytes(width, k), sketch_bytes(width, k))


def exact_bytes(width: int, k: int) -> int:
    """Bytes of the exact route.

    Three scatter matrices, since two may have to be merged and LAPACK wants one without gaps; the
    directions; LAPACK's own work, less than 200 columns; and the smallest block of rows.
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
    # Opened again, and closed at once: a source may keep the memory of its last blocks.
    with closing(open_source(source.origin, source.name)) as own:
        summed = read_rows([own], reading, engine=engine, progress=progress)
    part = summed.moments.parts[0]
    del summed
    count, mean, columns = part.count, part.mean, part.scatter.diagonal().copy()
    scatter = np.array(part.scatter.T, order="F")  # which is symmetric
    del part
    # The driver that needs no second matrix; eigenvalues come in rising order.
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
    """Leave out the directions that are rounding, and say what is lost."""
    mean, values, basis = found.mean, found.values, found.basis
    total, n = float(found.columns.sum()), max(found.count, 1)
    # What rounding the stored numbers adds along a direction, and what it leaves of the rank: the
    # rules for columns, applied to directions.
    noise = n * (4 * source.eps) ** 2 * np.einsum("ij,ij,i->j", basis, basis, mean**2)
    tolerance = rank_tolerance(n, source.width, source.eps)
    least = min(tolerance**2 * values[0], LARGEST_ROUNDING**2 * found.columns.max())
    kept = values > np.maximum(noise, max(least, GRAM_FLOOR * values[0]))
    if not kept.any():
        # A constant view: along its mean that shows.
        size = float(np.linalg.norm(mean))
        line = mean / size if size > 0 else np.eye(1, len(mean))[0]
        return Subspace(mean, total / n, line[:, None], 1.0 if total > 0 else 0.0, exact, bound)
    if not kept.all():
        values, basis = values[kept], np.asfortranarray(basis[:, kept])
    lost = min(max(1 - float(values.sum()) / total, 0.0), 1.0)
    return Subspace(mean, total / n, basis, lost, exact, bound)
