"""Sums of a run of rows about one pivot, by one symmetric matrix product per block."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cython_blas
from scipy.linalg.blas import dgemm, dsyr

from identikit._linalg import Array
from identikit.moments._part import Part, StackLayout, centred_norms

#: The largest squared distance of the mean of later rows from the pivot, as a multiple of the mean
#: squared distance of the first rows.
DRIFT = 16.0


def augmented_width(layout: StackLayout) -> int:
    """Number of columns of an augmented row, rounded up to a multiple of 4 (half a cache line)."""
    return -(-(layout.width + len(layout.widths) + 1) // 4) * 4


class Segment:
    """Sums of rows about a pivot that is close to their mean, so that no digits cancel.

    Rows are augmented to ``[z, ‖x_1‖² … ‖x_k‖², 1, 0 …]`` with z = row − pivot, so that their Gram
    matrix holds the count, the sum, the scatter and the cubic and quartic sums of `Part` at once.

    The pivot is a point near the mean of the first block, and `spread` that block's mean squared
    distance from it, for each view.
    """

    def __init__(self, layout: StackLayout, pivot: Array, spread: Array) -> None:
        self.layout, self.pivot, self.spread = layout, pivot, spread
        size = augmented_width(layout)
        self.gram = np.empty((size, size))
        self.started = False

    def is_near(self, peaks: Array) -> bool:
        """Whether the mean of some rows must be near the pivot, as all of these rows are.

        `peaks` are their largest squared distances from the pivot, for each view.
        """
        return bool((peaks <= DRIFT * self.spread).all())

    def is_far(self, few: Array) -> bool:
        """Whether a few rows of a block are so far from the pivot that a new one is needed."""
        gaps = (few.mean(axis=0) - self.pivot) ** 2
        squares = np.array([gaps[c].sum() for c in self.layout.columns])
        return bool(np.any(squares > DRIFT * self.spread))

    def add(self, rows: Array) -> None:
        """Add augmented rows, which must be C-contiguous; overwrites them if there are roots."""
        if self.layout.roots is not None:
            for columns, inverse in zip(self.layout.columns, self.layout.inverses):
                rows[:, columns] = dgemm(1.0, rows[:, columns], inverse)
        # Only SciPy's BLAS is used in this loop, not NumPy's, even for a dot product; `one_thread`
        # says why.
        add_gram(rows, self.gram, self.started)
        self.started = True

    def part(self) -> Part:
        """The moments about the mean, from the sums about the pivot; call it only once."""
        layout, d = self.layout, self.layout.width
        norms, one = slice(d, d + len(layout.widths)), d + len(layout.widths)
        n = round(self.gram[one, one])
        mean = np.zeros(len(self.gram))
        mean[:d] = self.gram[one, :d] / n
        dsyr(-n, mean, a=self.gram.T, overwrite_a=1)
        _mirror_lower(self.gram)
        scatter, shift = self.gram[:d, :d], layout.to_own(mean[:d])
        about_pivot = layout.to_own(self.gram[norms, :d]), self.gram[norms, norms]
        cubic, quartic = centred_norms(n, scatter, *about_pivot, shift, layout)
        return Part(n, self.pivot + shift, scatter, cubic, quartic)


@cache
def _above(size: int) -> NDArray[np.bool_]:
    """A mask of the entries above the diagonal of a square matrix."""
    return np.tri(size, k=-1, dtype=bool).T


def _mirror_lower(matrix: Array, tile: int = 512) -> None:
    """Copy the lower triangle onto the upper one, in place and in tiles."""
    for start in range(0, len(matrix), tile):
        stop = start + tile
        matrix[start:stop, stop:] = matrix[stop:, start:stop].T
        corner = matrix[start:stop, start:stop]
        np.copyto(corner, corner.T.copy(), where=_above(len(corner)))


@cache
def _dsyrk() -> Callable[..., None]:
    """BLAS's dsyrk by ctypes, which releases the global interpreter lock; SciPy's wrapper does not.

    ``__pyx_capi__`` is SciPy's interface to its BLAS for other languages.
    """
    capsule = cython_blas.__pyx_capi__["dsyrk"]
    name, pointer = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    name.restype, name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    address: Any = pointer(capsule, name(capsule))
    kinds = [ctypes.c_char_p] * 2 + [ctypes.c_void_p] * 8
    function: Callable[..., None] = ctypes.CFUNCTYPE(None, *kinds)(address)
    return function


@cache
def _int(number: int) -> Any:
    return ctypes.byref(ctypes.c_int(number))


@cache
def _double(number: float) -> Any:
    return ctypes.byref(ctypes.c_double(number))


def add_gram(rows: Array, gram: Array, keep: bool) -> None:
    """``gram += rowsᵀ rows`` in the lower triangle, or ``gram = rowsᵀ rows`` unless `keep`.

    Both arrays must be in C order.
    """
    assert rows.flags.c_contiguous
    assert gram.flags.c_contiguous
    n, d = rows.shape
    # BLAS uses column order, so that it sees the transposed arrays, and lower becomes upper.
    _dsyrk()(
        b"U",
        b"N",
        _int(d),
        _int(n),
        _double(1.0),
        rows.ctypes.data,
        _int(d),
        _double(float(keep)),
        gram.ctypes.data,
        _int(d),
    )
