"""The moments of one fold: sums of a run of rows about a pivot, and how two parts are merged."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cython_blas
from scipy.linalg.blas import dgemm, dsyr

from identikit._linalg import Array
from identikit._threads import one_thread

__all__ = ["Part", "StackLayout"]


@dataclass(frozen=True, eq=False)
class StackLayout:
    """The position of each view among the stacked columns, and the coordinates of its scatter.

    With ``roots`` R_v, scatter matrices are those of x'_v, where x_v = x'_v R_v; ``inverses`` are
    the F_v with x'_v = x_v F_v.
    """

    widths: tuple[int, ...]
    roots: tuple[Array, ...] | None = None
    inverses: tuple[Array, ...] = ()

    @cached_property
    def columns(self) -> tuple[slice, ...]:
        """The columns of each view."""
        ends = np.cumsum(self.widths).tolist()
        return tuple(slice(end - width, end) for end, width in zip(ends, self.widths))

    @cached_property
    def width(self) -> int:
        """Number of columns of all views together."""
        return sum(self.widths)

    def to_stored(self, rows: Array) -> Array:
        """Convert stacked rows to the coordinates in which the scatter is stored."""
        return rows if self.roots is None else self._apply(rows, self.inverses)

    def to_own(self, rows: Array) -> Array:
        """Convert stacked rows, or sums of them, from stored coordinates to the views' own."""
        return rows if self.roots is None else self._apply(rows, self.roots)

    def _apply(self, rows: Array, turns: Sequence[Array]) -> Array:
        return np.concatenate([rows[..., c] @ t for c, t in zip(self.columns, turns)], axis=-1)

    def traces(self, scatter: Array) -> Array:
        """Trace of each view's scatter, in the views' own coordinates."""
        blocks = [scatter[c, c] for c in self.columns]
        if self.roots is None:
            return np.array([np.trace(block) for block in blocks])
        return np.array([np.vdot(root, block @ root) for root, block in zip(self.roots, blocks)])


@dataclass(frozen=True, eq=False)
class Part:
    """Count, mean, and sums over rows z = (x₁ … x_k) centred on that mean.

    ``scatter`` = Σ z zᵀ; ``cubic[v]`` = Σ ‖x_v‖² z; ``quartic[v, w]`` = Σ ‖x_v‖² ‖x_w‖². The
    unbiased HSIC needs the last two in addition to the scatter (Song et al. 2007, feature form).
    """

    count: int
    mean: Array
    scatter: Array
    cubic: Array
    quartic: Array

    @staticmethod
    def empty(layout: StackLayout) -> Part:
        """The part with no rows: the neutral element of `merge`."""
        return _empty(layout.width, len(layout.widths))

    def __reduce__(self) -> tuple[Any, ...]:
        # A worker may see only a few of many folds; empty ones are pickled without their arrays.
        if self.count == 0:
            return _empty, self.cubic.shape[::-1]
        return Part, (self.count, self.mean, self.scatter, self.cubic, self.quartic)


def _empty(d: int, k: int) -> Part:
    return Part(0, np.zeros(d), np.zeros((d, d)), np.zeros((k, d)), np.zeros((k, k)))


def merge(a: Part, b: Part, layout: StackLayout) -> Part:
    """The moments of the rows of both, by the update of Chan, Golub and LeVeque (1983)."""
    if a.count == 0 or b.count == 0:
        return b if a.count == 0 else a
    count = a.count + b.count
    gap = b.mean - a.mean
    mean = a.mean + gap * (b.count / count)
    turned = layout.to_stored(gap) * np.sqrt(a.count * (b.count / count))
    scatter = np.outer(turned, turned)
    scatter += a.scatter
    scatter += b.scatter
    cubic_a, quartic_a = moved(a, a.mean - mean, layout)
    cubic_b, quartic_b = moved(b, b.mean - mean, layout)
    return Part(count, mean, scatter, cubic_a + cubic_b, quartic_a + quartic_b)


def less(part: Part, rows: Array, layout: StackLayout) -> Part:
    """The moments without some of the rows: the inverse of `merge`.

    With m the mean of all n rows and m' that of the n' remaining ones,
    S' = S − Σ (z − m)(z − m)ᵀ − n' (m' − m)(m' − m)ᵀ, where the sum is over the removed rows.
    """
    count = part.count - len(rows)
    gaps = rows - part.mean
    shift = -gaps.sum(axis=0) / count
    taken = layout.to_stored(np.concatenate([gaps, [np.sqrt(count) * shift]]))
    scatter = part.scatter - taken.T @ taken
    norms = np.stack([np.einsum("ij,ij->i", gaps[:, c], gaps[:, c]) for c in layout.columns])
    about = part.cubic - norms @ gaps, part.quartic - norms @ norms.T
    cubic, quartic = centred_norms(count, scatter, *about, shift, layout)
    return Part(count, part.mean + shift, scatter, cubic, quartic)


def moved(part: Part, shift: Array, layout: StackLayout) -> tuple[Array, Array]:
    """The cubic and quartic sums when every centred row z becomes z + shift."""
    products = _products(part.scatter, shift, layout)
    traces = layout.traces(part.scatter)
    cubic = part.cubic + _cubic_gain(part.count, products, traces, shift, layout)
    gain = _quartic_gain(part.count, part.cubic, products, traces, shift, layout)
    return cubic, part.quartic + gain


def centred_norms(
    n: int, scatter: Array, cubic: Array, quartic: Array, shift: Array, layout: StackLayout
) -> tuple[Array, Array]:
    """The inverse of `moved`: sums over centred rows z, from those over z + shift."""
    products, traces = _products(scatter, shift, layout), layout.traces(scatter)
    cubic = cubic - _cubic_gain(n, products, traces, shift, layout)
    return cubic, quartic - _quartic_gain(n, cubic, products, traces, shift, layout)


def _cubic_gain(n: int, products: Array, traces: Array, shift: Array, layout: StackLayout) -> Array:
    """Σ‖x_v+s_v‖²(z+s) − Σ‖x_v‖²z = 2 S_{·v} s_v + (tr S_vv + n‖s_v‖²) s, for every view v."""
    squares = np.array([shift[c] @ shift[c] for c in layout.columns])
    gain: Array = 2 * products + (traces + n * squares)[:, None] * shift
    return gain


def _quartic_gain(
    n: int, cubic: Array, products: Array, traces: Array, shift: Array, layout: StackLayout
) -> Array:
    """Σ‖x_v+s_v‖²‖x_w+s_w‖² − Σ‖x_v‖²‖x_w‖², for every pair of views."""
    columns = layout.columns
    squares = np.array([shift[c] @ shift[c] for c in columns])
    along = np.stack([cubic[:, c] @ shift[c] for c in columns], axis=1)
    across = np.stack([products[:, c] @ shift[c] for c in columns], axis=1)
    mixed = 2 * along + np.outer(traces, squares)
    gain: Array = mixed + mixed.T + 4 * across + n * np.outer(squares, squares)
    return gain


def _products(scatter: Array, shift: Array, layout: StackLayout) -> Array:
    """Row v is S_{·v} s_v, in the views' own coordinates."""
    parts = np.zeros((len(layout.columns), len(shift)))
    for v, c in enumerate(layout.columns):
        parts[v, c] = shift[c] if layout.roots is None else layout.roots[v] @ shift[c]
    with one_thread():
        return layout.to_own(parts @ scatter)


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
