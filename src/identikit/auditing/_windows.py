"""A few stretches of consecutive rows, for checks that need the order, which moments lack."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from identikit._linalg import Array, orthonormal_columns
from identikit.auditing._order import Order
from identikit.moments import Moments
from identikit.sources import Source

#: Rows of a window, and the fewest rows for which windows are read.
ROWS, FEWEST = 2048, 60

#: The most leading principal axes of a view that are used, and the rows that each of them needs.
AXES, ROWS_AN_AXIS = 24, 40

#: Bytes of a wide view that are read at a time.
CHUNK_BYTES = 2**24


@dataclass(frozen=True)
class Window:
    """Consecutive rows of all views, after `prepared`; rows that are not finite are zero.

    Parameters
    ----------
    first, last : int
        Numbers of the first row and the last.
    scores : tuple of array (n, k)
        The prepared scores of each view.
    order : Order, optional
        The same rows without that preparation; only for the window of all rows together.
    """

    first: int
    last: int
    scores: tuple[Array, ...]
    order: Order | None = None
    _transforms: dict[int, NDArray[np.complex128]] = field(default_factory=dict, repr=False)

    def transform(self, view: int) -> NDArray[np.complex128]:
        """Fourier transforms of a view's scores (k, frequencies), computed once for all pairs."""
        if view not in self._transforms:
            self._transforms[view] = np.fft.rfft(np.ascontiguousarray(self.scores[view].T), axis=1)
        return self._transforms[view]


def read_windows(sources: Sequence[Source], moments: Moments) -> tuple[Window, ...]:
    """Windows at the start, the middle and the end, after one that joins the three.

    If there are few rows, there is one window of all rows; with fewer than 60, there is none.
    """
    rows = sources[0].rows
    if rows < FEWEST:
        return ()
    size = min(ROWS, rows // 3)
    starts = [0, (rows - size) // 2, rows - size]
    if size < FEWEST:
        size, starts = rows, [0]
    parts: list[list[Array]] = [[] for _ in starts]
    whole, plain = [], []
    for view, source in enumerate(sources):
        found = [_leading(source, moments, view, start, size) for start in starts]
        plain.append(np.concatenate(found))
        whole.append(prepared(plain[-1]))
        for part, scores in zip(parts, found):
            part.append(prepared(scores))
    together = Window(0, rows - 1, tuple(whole), Order.of(plain))
    if len(starts) == 1:
        return (together,)
    ends = [start + size - 1 for start in starts]
    return (together, *(Window(a, b, tuple(part)) for a, b, part in zip(starts, ends, parts)))


def _leading(source: Source, moments: Moments, view: int, start: int, size: int) -> Array:
    """Rows of a view along its leading principal axes."""
    values, axes = moments.principal(view)
    axes = axes[:, : min(AXES, moments.whiten(view).rank)]
    axes = axes[:, values[: axes.shape[1]] > 0]
    centre, step = moments.centre(view), max(1, CHUNK_BYTES // (8 * source.width))
    scores = np.empty((size, axes.shape[1]))
    with np.errstate(invalid="ignore", over="ignore"):
        for first in range(0, size, step):
            stop = min(first + step, size)
            block = source.read(start + first, start + stop).astype(np.float64)
            scores[first:stop] = (block - centre) @ axes
    return scores


def prepared(scores: Array) -> Array:
    """Scores prepared for the comparison of shifts: orthonormal columns, close to white noise.

    The columns of the scores are sorted by variance, largest first.

    1. Rows of more than the median norm are scaled down to it, so that no single row dominates.
    2. The prediction from the row before (an autoregression of order one) is subtracted from each
       axis, so that views that change slowly agree at one shift and not at every small one.
    3. The first step is repeated.
    """
    with np.errstate(invalid="ignore"):
        finite = np.isfinite(scores.sum(axis=1))
    scores = np.where(finite[:, None], scores, 0.0)[:, : len(scores) // ROWS_AN_AXIS]
    if np.count_nonzero(finite) < FEWEST / 2:
        return scores[:, :0]
    scores = _without_outliers(scores, finite)
    same = np.clip(np.einsum("ij,ij->j", scores[1:], scores[:-1]), 0.0, 1.0)
    return _without_outliers(np.concatenate([scores[:1], scores[1:] - same * scores[:-1]]), finite)


def _without_outliers(scores: Array, finite: NDArray[np.bool_]) -> Array:
    """Orthonormal columns without outliers, in a few rounds, as outliers can hide others."""
    scores = orthonormal(scores, finite)
    for _ in range(3):
        norms: Array = np.sqrt(np.square(scores).sum(axis=1))
        median = np.median(norms[finite])
        nearer = np.divide(median, norms, out=np.ones_like(norms), where=norms > median)
        scores = orthonormal(scores * nearer[:, None], finite)
    return scores


def orthonormal(scores: Array, finite: NDArray[np.bool_]) -> Array:
    """Orthonormal columns with the span of the centred ones; rows that are not finite are zero."""
    mean = scores[finite].mean(axis=0)
    scores = np.where(finite[:, None], scores - mean, 0.0)
    return orthonormal_columns(scores)
