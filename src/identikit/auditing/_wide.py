"""Views with far fewer rows than columns: maps between single columns, from the rows themselves.

Such views are compared in the span of their rows (`row_span`), whose coordinates are not the
original columns.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from identikit._linalg import Array
from identikit.alignment import RUNGS, PairStats, Rung
from identikit.moments import Folds
from identikit.sources import Source

#: The most columns for which an assignment is computed: its time grows with their cube.
MOST_COLUMNS = 1280

#: Bytes of a view that are read at a time.
CHUNK_BYTES = 2**24


@dataclass(frozen=True)
class Wide:
    """A pair in the span of its rows.

    Parameters
    ----------
    columns : tuple of int
        How many columns the two views have originally.
    residuals : dict of str to array (2, folds)
        Held-out squared errors of the rungs whose maps take columns to columns, fold by fold, from
        the first view to the second and back; only those rungs that could be computed.
    """

    columns: tuple[int, int]
    residuals: dict[str, Array]


def look_at_columns(a: Source, b: Source, folds: Folds) -> Wide:
    """The errors of the rungs whose maps take columns to columns, from the rows of a pair.

    Identity needs only the difference of the rows. A permutation, with or without scales, is an
    assignment of columns, which is left out if there are more than 1,280 of them.
    """
    columns, residuals = (a.width, b.width), {}
    if a.width == b.width:
        residuals["identity"] = _differences(a, b, folds)
        if a.width <= MOST_COLUMNS:
            x, y = (source.read(0, source.rows).astype(np.float64) for source in (a, b))
            for name, rung in RUNGS.items():
                if rung.of_axes and name not in residuals:
                    residuals[name] = _held_out(rung, x, y, folds)
    return Wide(columns, residuals)


def _differences(a: Source, b: Source, folds: Folds) -> Array:
    """Σ ‖y − x‖² fold by fold, which is the same in both directions."""
    step = max(1, CHUNK_BYTES // (8 * a.width))
    squares = np.empty(a.rows)
    for start in range(0, a.rows, step):
        x, y = (source.read(start, start + step).astype(np.float64) for source in (a, b))
        squares[start : start + step] = np.square(y - x).sum(axis=1)
    sums = [float(squares[there].sum()) for _, there in folds.split(0, a.rows)]
    return np.array([sums, sums])


def _held_out(rung: Rung, x: Array, y: Array, folds: Folds) -> Array:
    """Σ ‖y − h(x)‖² fold by fold, with h fitted on the other folds, and Σ ‖x − h(y)‖²."""
    sums = []
    for _, test in folds.split(0, len(x)):
        train = folds.of() >= 0
        train[test] = False
        means = x[train].mean(axis=0), y[train].mean(axis=0)
        left, right = x[train] - means[0], y[train] - means[1]
        # The fits use only the diagonal of each view's scatter.
        scatters = np.diag(np.square(left).sum(axis=0)), np.diag(np.square(right).sum(axis=0))
        stats = PairStats(len(left), *means, scatters[0], left.T @ right, scatters[1])
        weights = rung.fit(stats)[0]
        # The assignment takes most of the time; without scales it is the same in both directions.
        back = weights.T if rung.keeps_scale else rung.fit(stats.reversed())[0]
        left, right = x[test] - means[0], y[test] - means[1]
        sums.append([_squares(right - left @ weights), _squares(left - right @ back)])
    return np.array(sums).T


def _squares(rows: Array) -> float:
    return float(np.square(rows).sum())
