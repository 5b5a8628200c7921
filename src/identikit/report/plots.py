"""Figures of results: each takes a result and returns a `matplotlib.figure.Figure`.

Pyplot is never touched, so that a figure can be made anywhere: ``figure.savefig("ladder.svg")``.

>>> import numpy as np, identikit as ik
>>> X = np.random.default_rng(0).normal(size=(200, 3))
>>> figure = ik.plots.plot_ladder(ik.audit([X, 2 * X]).comparisons[0])
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from identikit.auditing.models_result import SMALL_KL
from identikit.factors import METRICS
from identikit.report._axes_panels import distances, stability
from identikit.report._clusters_panels import errors, plane, tree
from identikit.report._heat import heat
from identikit.report._migrate_panels import gains, half_migrated
from identikit.report._models_panels import (
    ON_PAGE,
    bounds,
    chosen,
    label_spectra,
    log_odds,
    slice_dots,
    two_maps,
)
from identikit.report._panels import ladder, scatter, spectrum
from identikit.report.drawing import sheet

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from identikit.auditing import Audit, Layers, ModelPair, Pair
    from identikit.axes import Components, NearIdentifiability
    from identikit.factors import Disentanglement
    from identikit.retrieval import Migration

__all__ = [
    "plot_clusters",
    "plot_factors",
    "plot_ladder",
    "plot_layers",
    "plot_migration",
    "plot_models",
    "plot_near",
    "plot_pair",
    "plot_scatter",
    "plot_slices",
    "plot_spectrum",
    "plot_stability",
    "stability_figure",
]

#: Panels in a row of `plot_factors`.
ACROSS = 3


def plot_clusters(audit: Audit) -> Figure:
    """Which views belong together: their tree, the matrix of errors in its order, and a plane.

    The tree joins views at the mean error between them; the thick branches are the clusters below
    its widest gap (`Clusters.at_gap`). In the plane distances are errors, as far as a plane allows.

    Parameters
    ----------
    audit : Audit
        What `identikit.audit` returns.
    """
    return sheet(
        [partial(tree, audit=audit), partial(errors, audit=audit), partial(plane, audit=audit)]
    )


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


def plot_models(pair: ModelPair) -> Figure:
    """Two softmax models in six panels: labels, log-odds, maps; ladder, spectrum and bounds.

    Parameters
    ----------
    pair : ModelPair
        One of `ModelsAudit.pairs`.
    """
    return sheet(
        [
            partial(label_spectra, models=pair.models),
            partial(log_odds, pair=pair),
            partial(two_maps, pair=pair),
        ],
        [
            partial(ladder, pair=pair.embedding, tolerance=pair.tolerance),
            partial(spectrum, pair=pair.embedding),
            partial(bounds, pair=pair),
        ],
    )


def plot_slices(pair: ModelPair) -> Figure | None:
    """Relative logit gap and KL of slices with their 95 % intervals; None if there are no slices.

    Of many slices, those with the smallest and those with the largest gaps are drawn.

    Parameters
    ----------
    pair : ModelPair
        One of `ModelsAudit.pairs`.
    """
    if not pair.slices:
        return None
    drawn = chosen(pair.slices, ON_PAGE)
    gap = partial(
        slice_dots,
        shown=drawn,
        values=[(each.logit_gap, each.logit_gap_interval) for _, each in drawn],
        limit=pair.tolerance,
        title="How far apart are the logits?",
        x="relative logit gap",
    )
    kl = partial(
        slice_dots,
        shown=drawn,
        values=[(each.kl, each.kl_interval) for _, each in drawn],
        limit=SMALL_KL,
        title="How far apart are predictions?",
        x="KL, a to b, in nats",
        legend=True,
    )
    return sheet([gap, kl])


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


def plot_migration(found: Migration) -> Figure:
    """Paired differences of all options to staying, and indexes of which a share is new.

    Parameters
    ----------
    found : Migration
        What `identikit.migrate` returns.
    """
    measure = "ndcg" if "ndcg" in found.options[0].values else "overlap"
    return sheet(
        [
            partial(gains, found=found, measure=measure),
            partial(half_migrated, found=found, measure=measure),
        ]
    )


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
    panels: list[Callable[[Axes], None]] = [
        partial(heat, title=METRICS[name].title, matrix=score.matrix, what=score.matrix_of or "")
        for name, score in found.scores.items()
        if score.matrix is not None
    ]
    if not panels:
        return None
    across = min(ACROSS, len(panels))
    panels += [lambda ax: ax.set_axis_off()] * (-len(panels) % across)
    return sheet(*(panels[start : start + across] for start in range(0, len(panels), across)))


stability_figure = plot_stability
