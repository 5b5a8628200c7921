"""Reading runs: dictionaries of atoms, or activations of the same rows, become unit vectors.

Vectors are held in memory, or read in pieces, a few coordinates at a time. They are used only for
inner products, which are computed for a few rows of the product at a time.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from identikit._linalg import Array, standard_deviations
from identikit.errors import InputError
from identikit.sources import Source, name_apart, open_source, unpack
from identikit.sources.scaled import ScaledSource, unit_exponents
from identikit.sources.whole import read_whole

Floats = NDArray[np.float32]
Numbers = NDArray[np.intp]

#: Bytes of a strip of the product of vectors in memory: large enough for BLAS to be efficient.
STRIP_BYTES = 2**26

#: Rows whose inner products are summed at a time.
CHUNK = 2048

#: Bytes of a block of activations in float64, and its smallest number of rows: with fewer rows,
#: adding up products takes longer than computing them.
BLOCK_BYTES, BLOCK_ROWS = 2**25, 1024

#: Up to this many neighbouring rows stay together in a shuffle: neighbours may be dependent.
TOGETHER = 64

#: Vectors are tied if this many random projections of them agree within this tolerance.
PROJECTIONS, SAME = 4, 1e-5

#: Squares of numbers below this lose digits or underflow; above its inverse they overflow.
LEAST = 2.0**-450


@dataclass(frozen=True, eq=False)
class Vectors:
    """`count` vectors in R^d, which need not fit into memory.

    A call of `pieces` goes through the coordinates once and yields arrays (count, some
    coordinates). `whole` is the full array (count, d), if it is in memory.
    """

    count: int
    pieces: Callable[[], Iterator[Floats]]
    whole: Floats | None = None


def held(matrix: Floats) -> Vectors:
    """Vectors in the rows of a matrix."""
    return Vectors(len(matrix), lambda: iter([matrix]), matrix)


def subset(vectors: Vectors, chosen: Numbers) -> Vectors:
    """The chosen vectors, in the order given."""
    if vectors.whole is not None:
        return held(vectors.whole[chosen])
    return Vectors(len(chosen), lambda: (piece[chosen] for piece in vectors.pieces()))


def total(runs: Sequence[Vectors], index: Numbers, sign: NDArray[np.int8]) -> Vectors:
    """Row c is Σ_r sign[c, r] · (vector index[c, r] of run r), leaving out indices of −1."""

    def added(parts: Sequence[Floats]) -> Floats:
        out = np.zeros((len(index), parts[0].shape[1]), np.float32)
        for part, places, signs in zip(parts, index.T, sign.T):
            there = np.flatnonzero(places >= 0)
            out[there] += signs[there, None] * part[places[there]]
        return out

    wholes = [run.whole for run in runs if run.whole is not None]
    if len(wholes) == len(runs):
        return held(added(wholes))
    return Vectors(len(index), lambda: map(added, zip(*(run.pieces() for run in runs))))


def strips(
    left: Vectors, right: Vectors, signed: bool, memory: int = 0
) -> Iterator[tuple[slice, Floats]]:
    """Similarities of all pairs of vectors, some rows at a time: (which rows, the block).

    They are absolute values unless `signed`. Of vectors that are read from files, a strip takes a
    quarter of the `memory` (in bytes), since every strip is a pass over the files.
    """
    room = STRIP_BYTES if left.whole is not None and right.whole is not None else memory // 4
    step = max(1, room // (4 * right.count))
    for start in range(0, left.count, step):
        rows = slice(start, min(start + step, left.count))
        products = (a[rows] @ b.T for a, b in zip(left.pieces(), right.pieces()))
        block = next(products)
        for product in products:
            block += product
        yield rows, block if signed else np.abs(block, out=block)


def best_match(left: Vectors, right: Vectors, signed: bool, memory: int = 0) -> Array:
    """For every vector of `left`, the largest similarity with a vector of `right`."""
    best = [block.max(axis=1) for _, block in strips(left, right, signed, memory)]
    return np.concatenate(best).astype(np.float64)


def paired(left: Vectors, right: Vectors, rows: Numbers, columns: Numbers) -> Array:
    """Inner products of vectors `rows` of one set with vectors `columns` of the other, in pairs."""
    out = np.zeros(len(rows))
    for a, b in zip(left.pieces(), right.pieces()):
        for start in range(0, len(rows), CHUNK):
            some = slice(start, start + CHUNK)
            products = a[rows[some]].astype(np.float64)
            products *= b[columns[some]]
            out[some] += products.sum(axis=1)
    return out


@dataclass(frozen=True, eq=False)
class Run:
    """One run of `atoms` components with `dims` coordinates each, and their unit vectors.

    `used` are the numbers of the components that have a direction; all others are zero or constant.
    `tied` are sets of components that are equal up to scale. `reordered` gives the vectors with
    their coordinates in another order.
    """

    name: str
    atoms: int
    dims: int
    used: Numbers
    vectors: Vectors
    tied: tuple[tuple[int, ...], ...]
    reordered: Callable[[Numbers], Vectors]

    @property
    def matrix(self) -> Floats:
        """The unit vectors of atoms as rows; atoms are always in memory."""
        assert self.vectors.whole is not None
        return self.vectors.whole


def open_runs(
    runs: Sequence[object] | Mapping[str, object],
    names: Sequence[str] | None,
    stack: ExitStack,
) -> list[Source]:
    """Open two or more runs under distinct names; the stack closes them."""
    if isinstance(runs, str | os.PathLike) or hasattr(runs, "__array__"):
        raise InputError(
            f"expected a list of runs, got one {type(runs).__name__}; give two or more: [A, B]"
        )
    runs, names = unpack(runs, names)
    runs = list(runs)
    if len(runs) < 2:
        raise InputError(f"got {len(runs)} run(s); components are matched between two or more")
    if isinstance(names, str) or (names is not None and len(names) != len(runs)):
        raise InputError(f"expected {len(runs)} names, one per run, got {names!r}")
    sources: list[Source] = []
    for number, run in enumerate(runs):
        name = None if isinstance(run, str | os.PathLike) else f"run{number}"
        source = open_source(run, name if names is None else names[number], number)
        stack.callback(source.close)
        sources.append(source)
    name_apart(sources, names)
    return sources


def read_atoms(sources: Sequence[Source], axis: str, signed: bool) -> list[Run]:
    """Read dictionaries whose atoms are rows or columns with equally many coordinates."""
    found = [_atoms(source, axis, signed) for source in sources]
    first = found[0]
    for other in found[1:]:
        if other.dims != first.dims:
            other_axis = "columns" if axis == "rows" else "rows"
            raise InputError(
                f"the atoms of run {first.name!r} have {first.dims} coordinates, those of run "
                f"{other.name!r} have {other.dims}; cosines need the same number. Atoms were taken "
                f"from {axis}; if they are {other_axis}, set axis={other_axis!r}"
            )
    if first.dims == 1:
        raise InputError("atoms with one coordinate are all parallel: there is nothing to match")
    return found


def _atoms(source: Source, axis: str, signed: bool) -> Run:
    matrix = read_whole(source)
    matrix = matrix if axis == "rows" else matrix.T
    units = np.empty(matrix.shape, np.float32)
    peaks = np.empty(len(matrix))
    for start in range(0, len(matrix), CHUNK):
        some = slice(start, start + CHUNK)
        block = matrix[some].astype(np.float64)
        # Divide by the largest entry first, so that squares neither overflow nor underflow.
        peak = peaks[some] = np.abs(block).max(axis=1)
        with np.errstate(invalid="ignore"):
            block /= np.where(peak > 0, peak, 1.0)[:, None]
            units[some] = block / np.maximum(np.linalg.norm(block, axis=1), 1.0)[:, None]
    wrong = np.flatnonzero(~np.isfinite(peaks))
    if len(wrong):
        raise InputError(
            f"run {source.name!r} has NaN or infinity in {len(wrong)} of {len(matrix)} atoms, the "
            f"first is atom {wrong[0]} (counting from 0); repair them or leave them out"
        )
    used = _directed(source, peaks > 0)
    units = units if len(used) == len(units) else units[used]
    tied = _ties(held(units), used, signed)
    atoms, dims = matrix.shape
    return Run(source.name, atoms, dims, used, held(units), tied, lambda c: held(units[:, c]))


def _directed(source: Source, there: NDArray[np.bool_]) -> Numbers:
    used = np.flatnonzero(there)
    if not len(used):
        raise InputError(
            f"run {source.name!r} has no component with a direction: all {len(there)} are zero or "
            "constant"
        )
    return used


def read_activations(sources: Sequence[Source], memory: int, signed: bool) -> list[Run]:
    """Read activations of the same rows; each column becomes a unit vector over the rows.

    They are kept in memory if all together take at most a quarter of it, and are otherwise read
    again for every product.
    """
    first = sources[0]
    for other in sources[1:]:
        if other.rows != first.rows:
            raise InputError(
                f"run {first.name!r} has {first.rows} rows and run {other.name!r} has "
                f"{other.rows}; activations are correlated over the same rows in the same order"
            )
    if first.rows < 3:
        raise InputError(f"correlations need three rows or more, not {first.rows}")
    width = max(source.width for source in sources)
    step = min(first.rows, max(BLOCK_ROWS, BLOCK_BYTES // (8 * width)))
    small = 4 * first.rows * sum(source.width for source in sources) <= memory // 4
    return [_activations(source, step, small, signed) for source in sources]


def _activations(source: Source, step: int, small: bool, signed: bool) -> Run:
    """Columns of one run, centred and scaled to norm 1; read anew unless it is `small`."""
    source, mean, scale = _standardised(source, step)
    used = _directed(source, scale > 0)
    cache: Floats | None = None

    def read(rows: Numbers) -> Floats:
        if cache is not None:
            return cache[:, rows]
        several = np.split(rows, np.flatnonzero(np.diff(rows) != 1) + 1)
        block = np.concatenate([source.read(int(r[0]), int(r[-1]) + 1) for r in several])
        units = (block[:, used].astype(np.float64) - mean[used]) / scale[used]
        return np.ascontiguousarray(units.T, dtype=np.float32)

    def reordered(order: Numbers) -> Vectors:
        starts = range(0, source.rows, step)
        return Vectors(len(used), lambda: (read(order[at : at + step]) for at in starts))

    vectors = reordered(np.arange(source.rows))
    if small:
        cache = np.concatenate(list(vectors.pieces()), axis=1)
        vectors = held(cache)
    tied = _ties(vectors, used, signed)
    return Run(source.name, source.width, source.rows, used, vectors, tied, reordered)


def _standardised(source: Source, step: int) -> tuple[Source, Array, Array]:
    """A run with the mean and scale of its columns, rescaled by powers of two if necessary."""
    with np.errstate(over="ignore", invalid="ignore"):
        mean, scale = _column_moments(source, step)
    # A nonzero column almost never has mean 0, and the mean does not suffer from lost squares.
    small = (scale < LEAST) & (np.abs(mean) < LEAST) & (mean != 0)
    if not small.any() and (np.maximum(np.abs(mean), scale) < 1 / LEAST).all():  # false for NaN
        return source, mean, scale
    source = ScaledSource(source, unit_exponents(source))
    return source, *_column_moments(source, step)


def _column_moments(source: Source, step: int) -> tuple[Array, Array]:
    """Mean and root sum of squared deviations of each column (Chan, Golub and LeVeque's update)."""
    mean, scatter, wrong, first = np.zeros(source.width), np.zeros(source.width), 0, -1
    for start in range(0, source.rows, step):
        block = source.read(start, min(start + step, source.rows)).astype(np.float64)
        bad = np.flatnonzero(~np.isfinite(block).all(axis=1))
        if len(bad):
            first = start + int(bad[0]) if first < 0 else first
            wrong += len(bad)
            continue
        centre = block.mean(axis=0)
        gap, after = centre - mean, start + len(block)
        scatter += np.square(block - centre).sum(axis=0)
        scatter += gap**2 * (start * len(block) / after)
        mean += gap * (len(block) / after)
    if wrong:
        raise InputError(
            f"run {source.name!r} has NaN or infinity in {wrong} of {source.rows} rows, the first "
            f"is row {first} (counting from 0); repair them or leave these rows out of every run"
        )
    return mean, standard_deviations(scatter, mean, source.rows, source.eps)


def shuffled_rows(rows: int, rng: np.random.Generator) -> Numbers:
    """A random order of rows that keeps up to 64 neighbours (at most 1 % of all) together."""
    size = max(1, min(TOGETHER, rows // 100))
    starts = rng.permutation(np.arange(0, rows, size))
    order = (starts[:, None] + np.arange(size)).ravel()
    return order[order < rows]


def _ties(vectors: Vectors, used: Numbers, signed: bool) -> tuple[tuple[int, ...], ...]:
    """Sets of vectors that are equal, or opposite if signs do not count.

    They are found by a few random projections, which only equal vectors share. Comparing all pairs
    would take as long as the product of two runs.
    """
    rng = np.random.default_rng(0)
    marks = np.zeros((vectors.count, PROJECTIONS))
    for piece in vectors.pieces():
        marks += piece @ rng.standard_normal((piece.shape[1], PROJECTIONS)).astype(np.float32)
    if not signed:
        marks *= np.where(marks[:, :1] < 0, -1.0, 1.0)
    marks = marks[order := np.argsort(marks[:, 0], kind="stable")]
    groups: list[list[int]] = []
    taken = np.zeros(len(marks), dtype=bool)
    for place in np.flatnonzero(np.diff(marks[:, 0]) <= SAME):
        if taken[place]:
            continue
        stop = int(np.searchsorted(marks[:, 0], marks[place, 0] + SAME, side="right"))
        near = place + np.flatnonzero(
            (np.abs(marks[place:stop] - marks[place]) <= SAME).all(axis=1) & ~taken[place:stop]
        )
        if len(near) > 1:
            taken[near] = True
            groups.append(sorted(used[order[near]].tolist()))
    return tuple(tuple(group) for group in sorted(groups))
