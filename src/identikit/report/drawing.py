"""What figures are made of: the sheet that panels stand on, and the marks within a panel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from identikit.report.style import PALETTE, STYLE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Inches a panel.
WIDTH, HEIGHT = 3.4, 2.95
# Rows drawn in a scatter and points in a spectrum: more would only make the page heavy.
MAX_POINTS = 300
MAX_SPECTRUM = 200

# A legend under the panel, where no line can be.
BELOW: dict[str, Any] = {
    "frameon": False, "fontsize": 7, "ncols": 2,
    "loc": "upper center", "bbox_to_anchor": (0.5, -0.2),
}  # fmt: skip


def sheet(*rows: Sequence[Callable[[Axes], None]]) -> Figure:
    """A figure of equally long rows of panels, each given as the function that draws it."""
    from matplotlib import style
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    shape = len(rows), len(rows[0])
    # From the defaults, so that a user's own settings (usetex, say) cannot break a report.
    with style.context(["default", STYLE]):
        engine = ConstrainedLayoutEngine(wspace=0.06, hspace=0.08)
        figure = Figure((WIDTH * shape[1], HEIGHT * shape[0]), layout=engine)
        for places, panels in zip(figure.subplots(*shape, squeeze=False), rows):
            for ax, draw in zip(places, panels):
                draw(ax)
    return figure


def thinned(count: int, most: int) -> NDArray[np.intp]:
    """Places of at most `most` of `count` things, evenly spread, the first and the last kept.

    >>> thinned(9, 3), thinned(2, 3)
    (array([0, 4, 8]), array([0, 1]))
    """
    return np.unique(np.linspace(0, count - 1, min(count, most)).astype(np.intp))


def diagonal(ax: Axes, reach: float, x: str, y: str) -> None:
    """A square from -reach to reach, its axes named, and the line on which equal values lie."""
    ax.set_xlim(-reach, reach)
    ax.set_ylim(-reach, reach)
    ax.plot([-reach, reach], [-reach, reach], color=PALETTE["muted"], lw=0.8, ls=(0, (4, 2)))
    ax.locator_params(nbins=4, steps=[1, 2, 5, 10])
    ax.set_xlabel(x)
    ax.set_ylabel(y)
    ax.set_box_aspect(1)


def beside(
    ax: Axes, height: float, text: str, colour: str, *, in_panel_parts: bool = False
) -> None:
    """Words at the right edge, where no data can be, at a height on the y axis or of the panel."""
    ax.annotate(
        text,
        (1, height),
        (4, 0),
        xycoords="axes fraction" if in_panel_parts else ax.get_yaxis_transform(),
        textcoords="offset points",
        va="center",
        color=PALETTE[colour],
        annotation_clip=False,
    )


def absent(ax: Axes) -> None:
    """Say that there is nothing to draw, rather than draw nothing."""
    ax.set_xticks([])
    ax.set_yticks([])
    ax.text(0.5, 0.5, "not computed", ha="center", color=PALETTE["muted"], transform=ax.transAxes)


def dots(
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
