"""Figures of a pair: the ladder, the canonical spectrum, the aligned views.

Each takes a result and returns a `matplotlib.figure.Figure`; pyplot is never touched.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from identikit.auditing._result import Pair
from identikit.report._panels import ladder, scatter, spectrum
from identikit.report._style import STYLE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Inches a panel.
WIDTH, HEIGHT = 3.4, 2.95


def pair_figure(pair: Pair, tolerance: float) -> Figure:
    """Ladder, spectrum and scatter side by side.

    Parameters
    ----------
    pair : Pair
        The pair to draw.
    tolerance : float
        The largest error that counts as the same; a line in the ladder.
    """
    return _figure(
        partial(ladder, pair=pair, tolerance=tolerance),
        partial(spectrum, pair=pair),
        partial(scatter, pair=pair),
    )


def ladder_figure(pair: Pair, tolerance: float) -> Figure:
    """Held-out error of every rung with its 95 % interval; the chosen rung is filled.

    Parameters
    ----------
    pair : Pair
        The pair to draw.
    tolerance : float
        The largest error that counts as the same.
    """
    return _figure(partial(ladder, pair=pair, tolerance=tolerance))


def spectrum_figure(pair: Pair) -> Figure:
    """Canonical correlations beside the band that independent views would fill.

    Parameters
    ----------
    pair : Pair
        The pair to draw.
    """
    return _figure(partial(spectrum, pair=pair))


def scatter_figure(pair: Pair) -> Figure:
    """First two canonical variates, a against b; equal views lie on the diagonal.

    Parameters
    ----------
    pair : Pair
        The pair to draw.
    """
    return _figure(partial(scatter, pair=pair))


def _figure(*panels: Callable[[Axes], None]) -> Figure:
    from matplotlib import style
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    # From the defaults, so that a user's own settings (usetex, say) cannot break a report.
    with style.context(["default", STYLE]):
        size = (WIDTH * len(panels), HEIGHT)
        figure = Figure(size, layout=ConstrainedLayoutEngine(wspace=0.06))
        for ax, draw in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels):
            draw(ax)
    return figure
