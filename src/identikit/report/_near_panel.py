"""The panel of near-identifiability: how far views are apart after the best map of each rung."""

from __future__ import annotations

from typing import TYPE_CHECKING

from identikit.axes import NearIdentifiability
from identikit.report.drawing import beside
from identikit.report.style import PALETTE

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def distances(ax: Axes, found: NearIdentifiability, coordinates: str) -> None:
    """Mean distance with its 95 % interval, either way, beside that of shuffled rows.

    Parameters
    ----------
    ax : Axes
        Where to draw.
    found : NearIdentifiability
        The result.
    coordinates : str
        "raw" or "whitened".
    """
    ways = [way for way in found.directions if way.coordinates == coordinates]
    names = list(dict.fromkeys(error.group for way in ways for error in way.errors))
    for which, (way, colour) in enumerate(zip(ways, ("accent", "second"))):
        for error in way.errors:
            at = names.index(error.group) + 0.2 * (which - 0.5)
            ax.plot([at - 0.1, at + 0.1], [error.chance] * 2, color=PALETTE["muted"], lw=1.2)
            ax.vlines(at, *error.mean_interval, color=PALETTE[colour], lw=1.6)
            ax.plot(at, error.mean, "o", ms=4, color=PALETTE[colour])
        words = "a to b" if which == 0 else "b to a"
        beside(ax, 0.95 - 0.1 * which, words, colour, in_panel_parts=True)
    beside(ax, 0.7, "shuffled\nrows", "muted", in_panel_parts=True)
    ax.set_ylim(bottom=0)
    ax.set_title(f"How near, in {coordinates} coordinates?")
    ax.set_ylabel("mean distance over the diameter")
    ax.set_xticks(range(len(names)), names, rotation=35, ha="right", rotation_mode="anchor")
