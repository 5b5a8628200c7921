"""Figures of a pair: the ladder, the canonical spectrum, the aligned views.

Each takes a result and returns a `matplotlib.figure.Figure`; pyplot is never touched.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from identikit.auditing._result import Pair
from identikit.report._drawing import sheet
from identikit.report._panels import ladder, scatter, spectrum

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def pair_figure(pair: Pair, tolerance: float) -> Figure:
    """Ladder, spectrum and scatter side by side.

    Parameters
    ----------
    pair : Pair
        The pair to draw.
    tolerance : float
        The largest error that counts as the same; a line in the ladder.
    """
    return sheet(
        [
            partial(ladder, pair=pair, tolerance=tolerance),
            partial(spectrum, pair=pair),
            partial(scatter, pair=pair),
        ]
    )


def ladder_figure(pair: Pair, tolerance: float | None = None) -> Figure:
    """Held-out error of every rung with its 95 % interval; the chosen rung is filled.

    Parameters
    ----------
    pair : Pair
        The pair to draw.
    tolerance : float, optional
        The largest error that counts as the same; a line if it is given.
    """
    return sheet([partial(ladder, pair=pair, tolerance=tolerance)])


def spectrum_figure(pair: Pair) -> Figure:
    """Canonical correlations beside the band that independent views would fill.

    Parameters
    ----------
    pair : Pair
        The pair to draw.
    """
    return sheet([partial(spectrum, pair=pair)])


def scatter_figure(pair: Pair) -> Figure:
    """First two canonical variates, a against b; equal views lie on the diagonal.

    Parameters
    ----------
    pair : Pair
        The pair to draw.
    """
    return sheet([partial(scatter, pair=pair)])
