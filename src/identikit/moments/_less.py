"""Removing rows from moments again."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from identikit._linalg import Array
from identikit.moments._moments import Moments
from identikit.moments._part import Part, StackLayout, less
from identikit.moments.sample import RowSample

#: The remainder of a difference is precise enough if it is this many times the rounding error.
CLEAR = 1e3


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
