"""Many vectors, read in pieces of their coordinates, and the products of two such sets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from identikit._linalg import Array

Floats = NDArray[np.float32]
Numbers = NDArray[np.intp]

#: Bytes of a strip of a product of vectors in memory: enough for BLAS, little beside the vectors.
STRIP_BYTES = 2**26

#: Rows whose inner products are summed at a time.
CHUNK = 2048


@dataclass(frozen=True, eq=False)
class Vectors:
    """A number of vectors in R^d, of which d may be too many for the memory.

    Parameters
    ----------
    count : int
        How many.
    pieces : callable
        A call goes through the coordinates once, and gives arrays (count, some coordinates).
    whole : array (count, d), optional
        All of them, if they are in memory.
    """

    count: int
    pieces: Callable[[], Iterator[Floats]]
    whole: Floats | None = None


def held(matrix: Floats) -> Vectors:
    """Vectors in the rows of a matrix."""
    return Vectors(len(matrix), lambda: iter([matrix]), matrix)


def subset(vectors: Vectors, chosen: Numbers) -> Vectors:
    """Some of the vectors, in that order."""
    if vectors.whole is not None:
        return held(vectors.whole[chosen])
    return Vectors(len(chosen), lambda: (piece[chosen] for piece in vectors.pieces()))


def total(runs: Sequence[Vectors], index: Numbers, sign: NDArray[np.int8]) -> Vectors:
    """Row c is Σ_r sign[c, r] · (vector index[c, r] of run r), where that index is not −1."""

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


def strips(left: Vectors, right: Vectors, memory: int) -> Iterator[tuple[slice, Floats]]:
    """The inner products of all vectors with all, some rows at a time: (which rows, the block).

    Parameters
    ----------
    left, right : Vectors
        Of the same coordinates, in the same pieces.
    memory : int
        Bytes that there are in all. Of vectors that are read from files a strip takes a quarter
        of it, since each strip is a pass over them.
    """
    room = STRIP_BYTES if left.whole is not None and right.whole is not None else memory // 4
    step = max(1, room // (4 * right.count))
    for start in range(0, left.count, step):
        rows = slice(start, min(start + step, left.count))
        products = (a[rows] @ b.T for a, b in zip(left.pieces(), right.pieces()))
        block = next(products)
        for product in products:
            block += product
        yield rows, block


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
