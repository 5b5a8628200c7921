"""The three panels of many views, drawn onto given axes: their tree, their errors, their plane.

These are the only panels that hold names: shortened, printable, and never read as mathematics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from identikit.report._clusters_svg import joins
from identikit.report.numbers import number, shortened
from identikit.report.style import PALETTE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from identikit.auditing import Audit

#: Characters of a name.
LETTERS = 16
#: Views up to which the cells of the matrix hold their numbers.
MOST_NUMBERS = 8


def tree(ax: Axes, audit: Audit) -> None:
    """The views as leaves, joined at the mean error between them; clusters have thick branches."""
    clusters, names = audit.clusters, _names(audit)
    for points, inside in joins(audit):
        heights, places = zip(*points)
        colour, width = ("accent", 2.0) if inside else ("muted", 1.0)
        ax.plot(heights, places, color=PALETTE[colour], lw=width, solid_capstyle="round")
    tolerance = audit.settings.tolerance
    ax.axvline(tolerance, color=PALETTE["second"], lw=0.9, ls=(0, (4, 2)))
    ax.set_title("Which views belong together?")
    ax.set_xlabel("error (dashed: the tolerance)")
    right = max(1.02 * float(clusters.tree[-1, 2]), 1.2 * tolerance, 0.01)
    # The leaves are at the right, beside the matrix.
    ax.set_xlim(right, 0)
    ax.set_ylim(len(names), 0)
    ax.set_yticks(
        np.arange(len(names)) + 0.5, [names[name] for name in clusters.order], parse_math=False
    )
    ax.yaxis.tick_right()
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)


def errors(ax: Axes, audit: Audit) -> None:
    """The error of every pair in the order of the leaves; the darker, the larger, up to 1."""
    from matplotlib.colors import LinearSegmentedColormap

    place = {name: number for number, name in enumerate(audit.clusters.order)}
    matrix = np.full((len(place), len(place)), np.nan)
    for pair in audit.comparisons:
        i, j = place[pair.a], place[pair.b]
        matrix[i, j] = matrix[j, i] = pair.error
    colours = LinearSegmentedColormap.from_list("errors", ["#fdf8ef", "#8a3000"])
    shades = colours.with_extremes(bad=PALETTE["band"])
    ends = np.arange(len(place) + 1)
    ax.pcolormesh(ends, ends, np.minimum(matrix, 1.0), cmap=shades, vmin=0, vmax=1)
    if len(place) <= MOST_NUMBERS:
        for i, j in np.argwhere(~np.isnan(matrix)):
            colour = "white" if matrix[i, j] > 0.6 else PALETTE["ink"]
            text = number(float(matrix[i, j]), 2)
            ax.text(j + 0.5, i + 0.5, text, ha="center", va="center", color=colour, fontsize=7)
    ax.set_title("How large is the error?")
    ax.set_xlim(0, len(place))
    ax.set_ylim(len(place), 0)
    ax.set_xticks([])
    ax.set_yticks([])
    ax.set_xlabel("the same views, from left to right")
    for side in ax.spines.values():
        side.set_visible(False)


def plane(ax: Axes, audit: Audit) -> None:
    """The views in a plane, where distances are errors as far as a plane allows."""
    names, alone = _names(audit), set(audit.clusters.alone)
    x, y = audit.clusters.coordinates.T
    for rank, view in enumerate(np.lexsort((x, -y))):
        name = audit.views[view].name
        colour = PALETTE["second" if name in alone else "accent"]
        # Names stand in a column, since the dots of views that agree are close to each other.
        ax.annotate(
            names[name],
            (x[view], y[view]),
            (1.06, 1 - (rank + 0.5) / len(names)),
            textcoords="axes fraction",
            va="center",
            fontsize=7,
            color=PALETTE["ink"],
            parse_math=False,
            arrowprops={"arrowstyle": "-", "color": PALETTE["line"], "lw": 0.7},
        )
        ax.plot(x[view], y[view], "o", ms=5, mfc="none" if name in alone else colour, mec=colour)
    reach = max(float(np.ptp(x)), float(np.ptp(y)), 0.1) * 0.55
    for values, limit in ((x, ax.set_xlim), (y, ax.set_ylim)):
        centre = float(values.min() + values.max()) / 2
        limit(centre - reach, centre + reach)
    ax.set_box_aspect(1)
    ax.set_title("Who is near whom?")
    ax.set_xlabel("in units of the error")
    ax.locator_params(nbins=4, steps=[1, 2, 5, 10])


def _names(audit: Audit) -> dict[str, str]:
    return shortened((view.name for view in audit.views), LETTERS)
