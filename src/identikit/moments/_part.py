"""The moments of one fold, and how two of them are merged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from identikit._linalg import Array, one_thread

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
