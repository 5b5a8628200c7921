"""Moments without some of the rows that went into them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from identikit._linalg import Array
from identikit.moments._moments import Moments
from identikit.moments._part import Part, StackLayout, less
from identikit.moments.sample import RowSample

#: A sum keeps its digits if what is left is this many times what rounding may have made of it.
CLEAR = 1e3


def less_extremes(moments: Moments, chosen: NDArray[np.bool_] | None = None) -> Moments | None:
    """The moments of all rows but the extreme ones, by taking these out again.

    Sums in float64 hold about 16 digits: rows a million times as large as the others leave enough,
    rows ten million times as large do not. Then nothing is returned, nor if a fold would be left
    with fewer than two rows, or if nobody kept the extremes.

    Parameters
    ----------
    moments : Moments
        With `extremes`.
    chosen : array (m,) of bool, optional
        Which of the extremes to take out; all by default.
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
    )


def _clear(rest: Part, whole: Part, layout: StackLayout) -> Part | None:
    """What is left, if its digits are; a column of which only rounding is left is constant.

    Each row may round a sum by half a unit in its last place, and n of them by √n as much.
    """
    before, after = np.diagonal(whole.scatter), np.diagonal(rest.scatter)
    rounding: Array = 2.0**-52 * np.sqrt(whole.count) * before
    lost = after <= CLEAR * rounding
    if not lost.any():
        return rest
    if layout.roots is not None:  # a direction across columns, of which each has lost a part
        return None
    for columns in layout.columns:
        # Nothing, or next to nothing, of all that the view has left.
        if (CLEAR**2 * rounding[columns] * lost[columns]).sum() > after[columns].sum():
            return None
    scatter = np.where(lost[:, None] | lost, 0.0, rest.scatter)
    return replace(rest, scatter=scatter)
