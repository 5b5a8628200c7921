"""Figures of results: each takes a result and returns a `matplotlib.figure.Figure`.

Pyplot is never touched, so that a figure can be made anywhere: ``figure.savefig("ladder.svg")``.

>>> import numpy as np, identikit as ik
>>> X = np.random.default_rng(0).normal(size=(200, 3))
>>> figure = ik.plots.plot_ladder(ik.audit([X, 2 * X]).comparisons[0])
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from identikit.auditing.result import Pair
from identikit.report._disentangle_figures import heat, matrices_figure
from identikit.report._near_panel import distances
from identikit.report._panels import ladder, scatter, spectrum
from identikit.report._stability import stability
from identikit.report.drawing import sheet

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from identikit.auditing import Layers
    from identikit.axes import Components, NearIdentifiability
    from identikit.factors import Disentanglement


def plot_pair(pair: Pair, *, tolerance: float | None = None) -> Figure:
    """Ladder, spectrum and scatter side by side.

    Parameters
    ----------
    pair : Pair
        One of `Audit.comparisons`.
    tolerance : float, optional
        The largest error that counts as the same; a line in the ladder if it is given.
    """
    return sheet(
        [
            partial(ladder, pair=pair, tolerance=tolerance),
            partial(spectrum, pair=pair),
            partial(scatter, pair=pair),
        ]
    )


def plot_ladder(pair: Pair, *, tolerance: float | None = None) -> Figure:
    """Held-out error of every rung with its 95 % interval; the chosen rung is ringed.

    Parameters
    ----------
    pair : Pair
        One of `Audit.comparisons`.
    tolerance : float, optional
        The largest error that counts as the same; a line if it is given.
    """
    return sheet([partial(ladder, pair=pair, tolerance=tolerance)])


def plot_spectrum(pair: Pair) -> Figure:
    """Canonical correlations beside the band that independent views would fill.

    Parameters
    ----------
    pair : Pair
        One of `Audit.comparisons`.
    """
    return sheet([partial(spectrum, pair=pair)])


def plot_scatter(pair: Pair) -> Figure:
    """First two canonical variates, a against b; equal views lie on the diagonal.

    Parameters
    ----------
    pair : Pair
        One of `Audit.comparisons`.
    """
    return sheet([partial(scatter, pair=pair)])


def plot_layers(found: Layers) -> Figure:
    """Calibrated values of every pair of layers: those of a down, those of b across.

    Parameters
    ----------
    found : Layers
        What `identikit.layers` returns.
    """
    title, what = "Which layer is like which?", f"calibrated {found.measure}"
    # What has no value has an empty cell.
    matrix, sides = np.nan_to_num(found.calibrated), ("layer of a", "layer of b")
    return sheet([partial(heat, title=title, matrix=matrix, what=what, sides=sides)])


def plot_near(found: NearIdentifiability) -> Figure:
    """Mean distances after the best map of each rung over the diameter, raw and whitened.

    Parameters
    ----------
    found : NearIdentifiability
        What `identikit.near_identifiability` returns.
    """
    kinds = dict.fromkeys(way.coordinates for way in found.directions)
    return sheet([partial(distances, found=found, coordinates=kind) for kind in kinds])


def plot_stability(found: Components) -> Figure:
    """Histogram of stability, those that replicate apart, beside the range of chance levels.

    Parameters
    ----------
    found : Components
        What `identikit.match_components` returns.
    """
    return sheet([partial(stability, found=found)])


def plot_factors(found: Disentanglement) -> Figure | None:
    """One panel a metric that has a matrix of codes against factors; None if none has one.

    Parameters
    ----------
    found : Disentanglement
        What `identikit.disentangle` returns.
    """
    return matrices_figure(found)


stability_figure = plot_stability
