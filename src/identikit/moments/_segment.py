"""A run of rows summed about one pivot: everything from one symmetric product a block."""

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

#: How far, in units of the first rows' spread, the mean of later ones may lie from the pivot.
DRIFT = 16.0


def augmented_width(layout: StackLayout) -> int:
    """Columns of an augmented row, rounded up to half cache lines of 4 numbers."""
    return -(-(layout.width + len(layout.widths) + 1) // 4) * 4


class Segment:
    """Sums of rows about a pivot that stays close to their mean, so that no digits cancel.

    Rows are ``[z, ‖x_1‖² … ‖x_k‖², 1, 0 …]`` with z = row − pivot, so that their Gram matrix holds
    the count, the sum, the scatter and the cubic and quartic sums of `Part` at once.

    Parameters
    ----------
    pivot : array (D,)
        A point near the mean of the first block.
    spread : array (k,)
        That block's mean squared distance from it, for each view.
    """

    def __init__(self, layout: StackLayout, pivot: Array, spread: Array) -> None:
        self.layout, self.pivot, self.spread = layout, pivot, spread
        size = augmented_width(layout)
        self.gram = np.empty((size, size))
        self.started = False

    def is_near(self, peaks: Array) -> bool:
        """Whether rows no farther from the pivot than this can have no mean that is far from it.

        Parameters
        ----------
        peaks : array (k,)
            The largest of their squared distances, for each view.
        """
        return bool((peaks <= DRIFT * self.spread).all())

    def is_far(self, few: Array) -> bool:
        """Whether rows of which these are some are so far off that a new pivot is due."""
        gaps = (few.mean(axis=0) - self.pivot) ** 2
        squares = np.array([gaps[c].sum() for c in self.layout.columns])
        return bool(np.any(squares > DRIFT * self.spread))

    def add(self, rows: Array) -> None:
        """Add augmented rows; C-contiguous, and used up if the layout has roots."""
        if self.layout.roots is not None:
            for columns, turn in zip(self.layout.columns, self.layout.inverses):
                rows[:, columns] = dgemm(1.0, rows[:, columns], turn)
        # SciPy's BLAS and no other in this loop, not even for a dot product: see `one_thread`.
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
    """Which places of a square matrix are above its diagonal."""
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
    """BLAS's dsyrk. SciPy's own wrapper holds Python's lock all the while; a foreign call does not.

    ``__pyx_capi__`` is how SciPy offers its BLAS to other languages.
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
    """``gram += rowsᵀ rows``, or ``=`` unless `keep`, in the lower triangle.

    Parameters
    ----------
    rows : array (n, d)
        In C order.
    gram : array (d, d)
        In C order; written in place, and not read unless `keep`.
    keep : bool
        Add to the old values.
    """
    assert rows.flags.c_contiguous
    assert gram.flags.c_contiguous
    n, d = rows.shape
    # To BLAS, which thinks in columns, the arrays are their transposes, and lower is upper.
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
