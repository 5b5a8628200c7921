"""The three panels of a pair, each drawn onto given axes.

No panel holds a view's name: a name may be long or hostile, and belongs into the text around it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from identikit.auditing._result import Pair
from identikit.report._numbers import number, with_interval
from identikit.report._style import PALETTE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Rows drawn in a scatter and points in a spectrum: more would only make the page heavy.
MAX_POINTS = 300
MAX_SPECTRUM = 200
# Errors above this are drawn at the top edge with their number beside them.
LADDER_TOP = 1.25


def ladder(ax: Axes, pair: Pair, tolerance: float) -> None:
    """Held-out error of every rung with its interval; the chosen rung is ringed."""
    at = np.arange(len(pair.ladder), dtype=float)
    errors = np.array([rung.error for rung in pair.ladder])
    shown = np.minimum(errors, LADDER_TOP)
    low, high = np.array([rung.interval for rung in pair.ladder]).clip(0, LADDER_TOP).T
    inside = errors <= LADDER_TOP
    chosen = np.array([rung.group == pair.group for rung in pair.ladder])
    ax.axhline(1, color=PALETTE["muted"], lw=0.8, ls=(0, (1, 2)))
    ax.axhline(tolerance, color=PALETTE["second"], lw=0.9, ls=(0, (4, 2)))
    ax.plot(at, shown, color=PALETTE["line"], lw=1, zorder=1)
    ax.vlines(at[inside], low[inside], high[inside], color=PALETTE["accent"], lw=1.6)
    ax.plot(at[inside], shown[inside], "o", ms=4, color=PALETTE["accent"])
    ax.plot(at[~inside], shown[~inside], "^", ms=5, color=PALETTE["muted"])
    ax.plot(at[chosen], shown[chosen], "o", ms=10, mfc="none", mec=PALETTE["accent"], mew=1.3)
    for place, rung in enumerate(pair.ladder):
        if not inside[place]:
            text = number(rung.error, 1) if rung.error < 100 else ">99"
            _note(ax, text, (place, LADDER_TOP), 5, "muted")
        elif chosen[place]:
            text = with_interval(rung.error, rung.interval)[0]
            _note(ax, text, (place, high[place]), 7, "ink")
    _beside(ax, 1, "the mean", "muted")
    _beside(ax, tolerance, "tolerance", "second")
    ax.set_title("How strict a map is enough?")
    ax.set_ylabel("held-out error")
    ax.set_xticks(
        at,
        [rung.group for rung in pair.ladder],
        rotation=35,
        ha="right",
        va="center",
        # Anchored, the label ends at its tick whatever font the page is read in.
        rotation_mode="anchor",
    )
    ax.tick_params(axis="x", length=0, pad=5)
    ax.set_xlim(-0.6, len(at) - 0.4)
    ax.set_ylim(-0.04, LADDER_TOP + 0.15)
    ax.set_yticks([0, 0.25, 0.5, 0.75, 1])


def _note(ax: Axes, text: str, at: tuple[float, float], above: int, colour: str) -> None:
    ax.annotate(
        text, at, (0, above), textcoords="offset points", ha="center", color=PALETTE[colour]
    )


def _beside(ax: Axes, height: float, text: str, colour: str) -> None:
    """Name a line at the right edge, where no data can be."""
    ax.annotate(
        text,
        (1, height),
        (4, 0),
        xycoords=ax.get_yaxis_transform(),
        textcoords="offset points",
        va="center",
        color=PALETTE[colour],
        annotation_clip=False,
    )


def spectrum(ax: Axes, pair: Pair) -> None:
    """Canonical correlations over the band that independent views would fill."""
    count = len(pair.correlations)
    ax.set_title("How many directions are shared?")
    if count == 0:
        _absent(ax)
        return
    kept = np.unique(np.linspace(0, count - 1, min(count, MAX_SPECTRUM)).astype(int))
    ax.set_xlim(0.5, count + 0.5)
    ax.set_ylim(0, 1.03)
    ax.axhspan(0, pair.chance_edge, color=PALETTE["band"], lw=0)
    ax.axhline(pair.cca.chance, color=PALETTE["muted"], lw=0.9, ls=(0, (4, 2)))
    ax.plot(kept + 1, pair.correlations[kept], color=PALETTE["accent"], lw=1.3)
    if count <= 50:
        _dots(ax, kept + 1, pair.correlations[kept], "accent", 4.5)
    _beside(ax, pair.cca.chance, "chance", "muted")
    ax.set_xlabel("canonical direction")
    ax.set_ylabel("correlation")
    ax.locator_params(axis="x", integer=True)


def scatter(ax: Axes, pair: Pair) -> None:
    """First two canonical variates, a against b, around the diagonal."""
    rows, _, axes = pair.points.shape
    ax.set_title("Do the rows line up?")
    if rows == 0:
        _absent(ax)
        return
    kept = np.unique(np.linspace(0, rows - 1, min(rows, MAX_POINTS)).astype(int))
    points = pair.points[kept]
    reach = 1.08 * float(np.abs(points).max()) or 1.0
    ax.set_xlim(-reach, reach)
    ax.set_ylim(-reach, reach)
    ax.plot([-reach, reach], [-reach, reach], color=PALETTE["muted"], lw=0.8, ls=(0, (4, 2)))
    # Shape as well as colour: the two axes must be told apart in grey too.
    for axis, colour, mark in zip(range(axes), ("second", "accent"), "■●"):
        x, y = points[:, :, axis].T
        _dots(ax, x, y, colour, 2.4, alpha=0.6, square=mark == "■")
        _beside(ax, reach * (0.92 - 0.16 * axis), f"{mark} axis {axis + 1}", colour)
    ax.locator_params(nbins=4, steps=[1, 2, 5, 10])
    ax.set_xlabel("variate of a")
    ax.set_ylabel("variate of b")
    ax.set_box_aspect(1)


def _absent(ax: Axes) -> None:
    """Say that there is nothing to draw, rather than draw nothing."""
    ax.set_xticks([])
    ax.set_yticks([])
    ax.text(0.5, 0.5, "not computed", ha="center", color=PALETTE["muted"], transform=ax.transAxes)


def _dots(
    ax: Axes,
    x: NDArray[Any],
    y: NDArray[np.float64],
    colour: str,
    size: float,
    *,
    alpha: float = 1,
    square: bool = False,
) -> None:
    """Draw points as one path of tiny capped strokes: a tenth of the size of markers in SVG."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    vertices = np.repeat(np.column_stack([x, y]).astype(float), 2, axis=0)
    # Not quite zero, because the raster back end drops strokes without length.
    vertices[1::2, 0] += 1e-4 * np.ptp(ax.get_xlim())
    path = Path(vertices, np.tile([Path.MOVETO, Path.LINETO], len(x)))
    path.should_simplify = False  # it may drop strokes this short
    ax.add_patch(
        PathPatch(
            path,
            edgecolor=PALETTE[colour],
            facecolor="none",
            linewidth=size,
            capstyle="projecting" if square else "round",
            alpha=alpha,
            snap=False,
        )
    )
