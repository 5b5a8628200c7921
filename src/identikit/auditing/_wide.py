"""Views with far fewer rows than columns: what speaks of single columns, from the rows themselves.

Such views are compared in the span of their rows, which has no columns of theirs (`row_span`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from identikit._linalg import Array
from identikit.alignment import RUNGS, PairStats, Rung
from identikit.moments import Folds
from identikit.sources import Source

#: The most columns of which an assignment is looked for: its time grows with their cube.
MOST_COLUMNS = 1280

#: Bytes of a view that are read at a time.
CHUNK_BYTES = 2**24


@dataclass(frozen=True)
class Wide:
    """A pair in the span of its rows.

    Parameters
    ----------
    columns : tuple of int
        How many the two views have of their own.
    residuals : dict of str to array (2, folds)
        Held-out squared errors of the rungs that speak of columns, fold by fold, from the first
        view to the second and back; as far as there are such maps and they could be had.
    """

    columns: tuple[int, int]
    residuals: dict[str, Array]


def look_at_columns(a: Source, b: Source, folds: Folds) -> Wide:
    """The rungs of a pair that speak of single columns, from its rows.

    Identity needs nothing but the difference of the rows. A permutation, with or without scales,
    is an assignment of columns, which is left out above 1,280 of them.

    Parameters
    ----------
    a, b : Source
        Both with far fewer rows than columns.
    folds : Folds
        Which rows count, and what is held out together.
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
    """Σ ‖y − x‖² fold by fold, which is the same both ways."""
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
        # Of the scatters of either view a fit reads no more than the diagonal.
        scatters = np.diag(np.square(left).sum(axis=0)), np.diag(np.square(right).sum(axis=0))
        stats = PairStats(len(left), *means, scatters[0], left.T @ right, scatters[1])
        weights = rung.fit(stats)[0]
        # An assignment takes most of the time, and without scales it is the same both ways.
        back = weights.T if rung.keeps_scale else rung.fit(stats.reversed())[0]
        left, right = x[test] - means[0], y[test] - means[1]
        sums.append([_squares(right - left @ weights), _squares(left - right @ back)])
    return np.array(sums).T


def _squares(rows: Array) -> float:
    return float(np.square(rows).sum())
