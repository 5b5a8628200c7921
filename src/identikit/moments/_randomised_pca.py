"""Leading principal directions by a randomised range finder that streams over the rows."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh, qr
from scipy.linalg.blas import dgemm, dger, dsyrk

from identikit._linalg import Array
from identikit._progress import Progress, share, silent
from identikit.errors import InputError
from identikit.moments._folds import Folds
from identikit.moments._passes import describe_nonfinite, spans_for, spans_of, sum_by_engine
from identikit.moments._scan import NonfiniteError, finite
from identikit.moments._sizes import too_large
from identikit.moments.engines import Engine
from identikit.moments.memory import COPIES, LEAST_ROWS, allocated, block_rows
from identikit.sources import Source, open_source

#: Random numbers are drawn for this many rows at a time, so that they do not depend on how rows are
#: divided into blocks and ranges.
DRAWN = 64

#: Passes over the rows: a sketch, a power iteration, and the projection.
PASSES = 3


@dataclass(frozen=True, eq=False)
class Directions:
    """Directions of a view, in columns of `basis`, and the scatter along each, largest first.

    `mean` and `columns` are the mean and the scatter of every column over `count` rows.
    """

    count: int
    mean: Array
    columns: Array
    values: Array
    basis: Array


def oversampled(k: int) -> int:
    """Number of columns of a sketch for k directions: more than k, because the last are inaccurate.

    There are always fewer than the view has, as otherwise the exact method takes less memory.
    """
    return k + max(10, k // 4)


def sketch_bytes(width: int, k: int) -> int:
    """Bytes that the randomised method needs: two bases, their products, and a block of rows."""
    columns = oversampled(k)
    rows = COPIES * LEAST_ROWS * width + (2 * LEAST_ROWS + DRAWN) * columns
    return allocated(8 * (2 * width * columns + 4 * columns**2 + rows))


def randomised(
    source: Source,
    folds: Folds,
    k: int,
    seed: int,
    room: int,
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> Directions:
    """Approximately the k leading directions of a view; see `leading`.

    `room` is the number of bytes for blocks of rows, beyond `sketch_bytes`.
    """
    columns, step = oversampled(k), block_rows(source.width, room)
    start = source.read(0, step)
    start = start[finite([start])]
    centre = start.mean(axis=0, dtype=np.float64) if len(start) else np.zeros(source.width)
    del start
    sketch = _Sketch(source.name, folds, step, seed, columns, centre)
    for number in range(PASSES - 1):
        sums = _read(source, sketch, engine, share(progress, number, PASSES) or silent)
        mean, _, product = sums.centred(sketch.centre)
        del sums
        # Householder QR gives orthonormal columns even if they differ only by rounding error.
        turned = qr(product, overwrite_a=True, mode="economic", check_finite=False)
        basis = np.asarray(turned[0], dtype=np.float64)
        sketch = replace(sketch, centre=mean, basis=basis, last=number == PASSES - 2)
        del product, turned
    sums = _read(source, sketch, engine, share(progress, PASSES - 1, PASSES) or silent)
    mean, squares, product = sums.centred(sketch.centre)
    values, vectors = eigh(
        product,
        lower=False,
        subset_by_index=(columns - k, columns - 1),
        driver="evr",
        overwrite_a=True,
        check_finite=False,
    )
    basis = dgemm(1.0, basis, np.asfortranarray(vectors[:, ::-1]))
    return Directions(sums.count, mean, squares, values[::-1], basis)


@dataclass(frozen=True, eq=False)
class _Sketch:
    """The settings of a pass, which are sent to the workers."""

    name: str
    folds: Folds
    step: int
    seed: int
    columns: int
    centre: Array
    basis: Array | None = None
    last: bool = False


@dataclass(frozen=True, eq=False)
class _Sums:
    """Sums over rows x and their coordinates w: count, Σx, Σx², Σw, and Σxwᵀ (last pass: Σwwᵀ).

    Coordinates are random numbers in the first pass, and ``x @ basis`` in the others.
    """

    count: int
    rows: Array
    squares: Array
    coordinates: Array
    product: Array
    last: bool

    def __add__(self, other: _Sums) -> _Sums:
        return _Sums(
            self.count + other.count,
            self.rows + other.rows,
            self.squares + other.squares,
            self.coordinates + other.coordinates,
            self.product + other.product,
            self.last,
        )

    def centred(self, centre: Array) -> tuple[Array, Array, Array]:
        """The mean of the rows, and the squares and the product about that mean.

        The sums are over rows less `centre`. The product is changed in place.
        """
        n = max(self.count, 1)
        # Arrays from another process may be read-only.
        product: Array = np.require(self.product, np.float64, ["F", "W"])
        left = self.coordinates if self.last else self.rows
        dger(-1.0 / n, left, self.coordinates, a=product, overwrite_a=1)
        return centre + self.rows / n, self.squares - self.rows**2 / n, product


def _read(source: Source, sketch: _Sketch, engine: Engine | None, progress: Progress) -> _Sums:
    """One pass over the rows."""
    rows = sketch.folds.rows

    def count(done: int) -> None:
        progress("reading", done, rows)

    try:
        if engine is None:
            return _sums(source, sketch, 0, rows, count)
        spans = spans_of(rows, spans_for(rows, engine.workers))
        sums: _Sums = sum_by_engine(engine, _sums_of_span, [source], sketch, spans, count)
        return sums
    except NonfiniteError as error:
        raise InputError(describe_nonfinite([source], sketch.step)) from error


def _sums_of_span(views: list[Any], item: tuple[_Sketch, int, int]) -> _Sums:
    """The task of a worker: open the view, read a range of rows, and close it."""
    with closing(open_source(views[0])) as source:
        return _sums(source, *item)


def _sums(
    source: Source,
    sketch: _Sketch,
    start: int,
    stop: int,
    count_rows: Callable[[int], None] | None = None,
) -> _Sums:
    d, columns = source.width, sketch.columns
    count, rows, squares, coordinates = 0, np.zeros(d), np.zeros(d), np.zeros(columns)
    product = np.zeros((columns if sketch.last else d, columns), order="F")
    for first in range(start, stop, sketch.step):
        after = min(first + sketch.step, stop)
        kept = np.flatnonzero(sketch.folds.of(first, after) >= 0)
        if len(kept):
            x, w = _block(source, sketch, first, after, kept)
            # Transposes are Fortran-ordered views, to which SciPy's BLAS can add in place.
            if sketch.last:
                dsyrk(1.0, w, beta=1.0, c=product, overwrite_c=1)
            else:
                dgemm(1.0, x.T, w, trans_b=1, beta=1.0, c=product, overwrite_c=1)
            count += len(x)
            rows += x.sum(axis=0)
            squares += np.einsum("ij,ij->j", x, x)
            coordinates += w.sum(axis=1)
        if count_rows is not None:
            count_rows(after - start)
    return _Sums(count, rows, squares, coordinates, product, sketch.last)


def _block(
    source: Source, sketch: _Sketch, first: int, after: int, kept: NDArray[np.intp]
) -> tuple[Array, Array]:
    """The rows `kept` of a block, less the centre, and their coordinates, one column per row."""
    block = source.read(first, after)
    if len(kept) < len(block):
        block = block[kept]
    x: Array = np.subtract(block, sketch.centre, dtype=np.float64, order="C")
    if not np.isfinite(np.einsum("ij,ij->", x, x)):
        if not finite([block]).all():
            raise NonfiniteError("a row holds NaN or infinity")
        raise too_large([sketch.name])
    if sketch.basis is not None:
        return x, dgemm(1.0, sketch.basis, x.T, trans_a=1)
    drawn = _normals(first, after, sketch.columns, sketch.seed)
    return x, np.asfortranarray(drawn[:, kept] if len(kept) < len(drawn.T) else drawn)


def _normals(start: int, stop: int, columns: int, seed: int) -> Array:
    """Independent normal numbers, one column per row, from the row's number and the seed."""
    chunks = range(start // DRAWN, -(-stop // DRAWN))
    generators = [np.random.default_rng([seed % 2**32, chunk]) for chunk in chunks]
    draws = np.concatenate([each.standard_normal((DRAWN, columns)) for each in generators])
    return draws[start - chunks[0] * DRAWN : stop - chunks[0] * DRAWN].T
