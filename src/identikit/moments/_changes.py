"""Moments in other units, in the coordinates of other moments, or without some of the rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from identikit._linalg import Array
from identikit.moments._moments import Moments
from identikit.moments._part import Part, StackLayout, less
from identikit.moments.sample import RowSample

__all__ = ["less_extremes"]

#: The remainder of a difference is precise enough if it is this many times the rounding error.
CLEAR = 1e3


def with_exponents(moments: Moments, exponents: Sequence[int]) -> Moments:
    """The same moments, with the numbers of each view in units of another power of two."""
    steps = [own - other for own, other in zip(moments.units, exponents)]
    each = np.repeat(steps, moments.widths)
    layout, inner = moments.layout, each
    if layout.roots is not None:  # the stored coordinates do not change, only their roots
        inner = np.zeros_like(each)
        roots = tuple(np.ldexp(root, step) for root, step in zip(layout.roots, steps))
        inverses = tuple(np.ldexp(inverse, -step) for inverse, step in zip(layout.inverses, steps))
        layout = StackLayout(layout.widths, roots, inverses)
    twice = 2 * np.array(steps)
    parts = tuple(
        Part(
            part.count,
            np.ldexp(part.mean, each),
            np.ldexp(part.scatter, inner[:, None] + inner),
            np.ldexp(part.cubic, twice[:, None] + each),
            np.ldexp(part.quartic, twice[:, None] + twice),
        )
        for part in moments.parts
    )
    sample, largest = moments.sample, moments.extremes
    return replace(
        moments,
        layout=layout,
        parts=parts,
        sample=RowSample(sample.size, sample.keys, np.ldexp(sample.rows, each)),
        extremes=largest and replace(largest, rows=np.ldexp(largest.rows, each)),
        exponents=tuple(exponents),
        _cache={},
        _pair={},
    )


def in_layout(moments: Moments, layout: StackLayout) -> Moments:
    """The same moments, with the scatter in another layout's coordinates."""
    own = moments.layout.roots
    if layout.roots is None or layout is moments.layout:
        return moments
    turns: Sequence[Array] = layout.inverses
    if own is not None:
        if all(np.array_equal(*pair) for pair in zip(own, layout.roots)):
            return replace(moments, layout=layout)  # a copy, from a file or another process
        turns = [root @ inverse for root, inverse in zip(own, layout.inverses)]
    parts = []
    for part in moments.parts:
        scatter = np.empty_like(part.scatter)
        for i, (left, a) in enumerate(zip(turns, layout.columns)):
            for right, b in zip(turns[i:], layout.columns[i:]):
                block = left.T @ part.scatter[a, b] @ right
                # Exactly symmetric, so that one triangle determines the matrix.
                scatter[a, b] = (block + block.T) / 2 if a == b else block
                scatter[b, a] = scatter[a, b].T
        parts.append(replace(part, scatter=scatter))
    return replace(moments, layout=layout, parts=tuple(parts), _cache={}, _pair={})


def less_extremes(moments: Moments, chosen: NDArray[np.bool_] | None = None) -> Moments | None:
    """The moments of all rows but the extreme ones, which are subtracted.

    Sums in float64 hold about 16 digits, so that rows a million times as large as the others can be
    subtracted, but rows ten million times as large cannot. The result is None in that case, if a
    fold would be left with fewer than two rows, or if the moments have no extremes.

    Parameters
    ----------
    moments : Moments
        With `extremes`.
    chosen : array (m,) of bool, optional
        Which of the extremes to remove; all by default.
    """
    if moments.extremes is None:
        return None
    out = moments.extremes if chosen is None else moments.extremes.only(chosen)
    parts = list(moments.parts)
    for fold in np.unique(out.folds):
        rows = out.rows[out.folds == fold]
        if parts[fold].count < len(rows) + 2:
            return None
        part = _clear(less(parts[fold], rows, moments.layout), parts[fold], moments.layout)
        if part is None:
            return None
        parts[fold] = part
    sample = moments.sample
    kept = np.ones(len(sample.keys), dtype=bool)
    for row in out.rows:
        kept &= (sample.rows != row).any(axis=1)
    return replace(
        moments,
        parts=tuple(parts),
        sample=RowSample(sample.size, sample.keys[kept], sample.rows[kept]),
        shards=(),
        extremes=None,
        distinct=None,
        _cache={},
        _pair={},
    )


def _clear(rest: Part, whole: Part, layout: StackLayout) -> Part | None:
    """The remaining moments if they are precise enough, otherwise None.

    A column in which only rounding error is left becomes constant. Each row may change a sum by
    half a unit in the last place, and n rows by √n times as much.
    """
    before, after = np.diagonal(whole.scatter), np.diagonal(rest.scatter)
    rounding: Array = 2.0**-52 * np.sqrt(whole.count) * before
    lost = after <= CLEAR * rounding
    if not lost.any():
        return rest
    if layout.roots is not None:  # a lost direction then affects many columns
        return None
    for columns in layout.columns:
        # Lost columns must be negligible compared with what is left of the view.
        if (CLEAR**2 * rounding[columns] * lost[columns]).sum() > after[columns].sum():
            return None
    scatter = np.where(lost[:, None] | lost, 0.0, rest.scatter)
    return replace(rest, scatter=scatter)
