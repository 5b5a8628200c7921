"""A matrix as a picture: codes against factors, layers against layers.

No panel holds a name: a name may be long or hostile, and belongs into the text around it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from identikit.report.drawing import beside
from identikit.report.numbers import number
from identikit.report.style import PALETTE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Codes and factors drawn: more would be lines, not cells.
MOST_CODES, MOST_FACTORS = 64, 32
LEVELS = 12


def shown_codes(matrix: NDArray[np.float64]) -> NDArray[np.intp]:
    """The codes that are drawn: all, or those with the largest entries, in their order."""
    if len(matrix) <= MOST_CODES:
        return np.arange(len(matrix))
    return np.sort(np.argsort(-np.abs(matrix).max(axis=1), kind="stable")[:MOST_CODES])


def heat(
    ax: Axes,
    title: str,
    matrix: NDArray[np.float64],
    what: str,
    sides: tuple[str, str] = ("code", "factor"),
) -> None:
    """Cells, the first of `sides` down and the other across; the darkest is the largest.

    Negative ones have another colour.
    """
    rows = shown_codes(matrix)
    drawn = matrix[rows, :MOST_FACTORS]
    largest = float(np.abs(drawn).max()) or 1.0
    level = np.rint(np.abs(drawn) / largest * LEVELS).astype(int)
    for colour, sign in (("accent", drawn >= 0), ("second", drawn < 0)):
        for step in range(1, LEVELS + 1):
            _cells(ax, np.argwhere(sign & (level == step)), colour, step / LEVELS)
    ax.set_title(title)
    ax.set_xlim(-0.5, drawn.shape[1] - 0.5)
    ax.set_ylim(len(drawn) - 0.5, -0.5)
    _ticks(ax, "x", np.arange(drawn.shape[1]), 12)
    _ticks(ax, "y", rows, 10)
    ax.set_xlabel(sides[1])
    ax.set_ylabel(sides[0])
    ax.tick_params(length=0)
    beside(ax, 0.95, f"largest\n{number(largest, 2)}", "muted", in_panel_parts=True)
    # A line a word: there is little room beside a panel.
    beside(ax, 0.5, what.replace(" ", "\n"), "muted", in_panel_parts=True)


def _cells(ax: Axes, places: NDArray[np.intp], colour: str, strength: float) -> None:
    """Squares of one strength as one path: small in SVG, and the colour follows the page."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    if not len(places):
        return
    half = 0.47
    corners = np.array([[-half, -half], [half, -half], [half, half], [-half, half], [-half, -half]])
    vertices = (places[:, None, ::-1] + corners).reshape(-1, 2)
    one = [Path.MOVETO, Path.LINETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY]
    path = Path(vertices, np.tile(one, len(places)))
    ax.add_patch(PathPatch(path, facecolor=PALETTE[colour], linewidth=0, alpha=strength))


def _ticks(ax: Axes, which: str, numbers: NDArray[np.intp], most: int) -> None:
    """Numbers from 0, as codes are called; not more than fit."""
    every = max(1, -(-len(numbers) // most))
    places = np.arange(0, len(numbers), every)
    set_ticks = ax.set_xticks if which == "x" else ax.set_yticks
    set_ticks(places, [str(numbers[place]) for place in places])
