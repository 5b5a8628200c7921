"""The three panels of a pair, each drawn onto given axes.

No panel holds a view's name: a name may be long or hostile, and belongs into the text around it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from identikit.auditing.result import Pair, SharedAxes
from identikit.report.drawing import (
    MAX_POINTS,
    MAX_SPECTRUM,
    absent,
    beside,
    diagonal,
    dots,
    thinned,
)
from identikit.report.numbers import number, with_interval
from identikit.report.style import PALETTE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Errors above this are drawn at the top edge with their number beside them.
LADDER_TOP = 1.25


def ladder(ax: Axes, pair: Pair, tolerance: float | None) -> None:
    """Held-out error of every rung with its interval; the chosen rung is ringed.

    Apart from the ladder, a square is the error after ICA, if there is one, and a bar its control.
    """
    at = np.arange(len(pair.ladder), dtype=float)
    errors = np.array([rung.error for rung in pair.ladder])
    shown = np.minimum(errors, LADDER_TOP)
    low, high = np.array([rung.interval for rung in pair.ladder]).clip(0, LADDER_TOP).T
    inside = errors <= LADDER_TOP
    chosen = np.array([rung.group == pair.group for rung in pair.ladder])
    ax.axhline(1, color=PALETTE["muted"], lw=0.8, ls=(0, (1, 2)))
    if tolerance is not None:
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
    places, labels = list(at), [rung.group for rung in pair.ladder]
    if pair.ica is not None:
        places, labels = [*places, len(at) + 0.3], [*labels, "after ICA"]
        _after_ica(ax, pair.ica, places[-1])
    beside(ax, 1, "the mean", "muted")
    if tolerance is not None:
        beside(ax, tolerance, "tolerance", "second")
    ax.set_title("How strict a map is enough?")
    ax.set_ylabel("held-out error")
    ax.set_xticks(
        places,
        labels,
        rotation=35,
        ha="right",
        va="center",
        # Anchored, the label ends at its tick whatever font the page is read in.
        rotation_mode="anchor",
    )
    ax.tick_params(axis="x", length=0, pad=5)
    ax.set_xlim(-0.6, places[-1] + 0.6)
    ax.set_ylim(-0.04, LADDER_TOP + 0.15)
    ax.set_yticks([0, 0.25, 0.5, 0.75, 1])


def _after_ica(ax: Axes, ica: SharedAxes, place: float) -> None:
    ax.axvline(place - 0.65, color=PALETTE["line"], lw=0.8)
    low, high = np.clip(ica.rung.interval, 0, LADDER_TOP)
    error, chance = np.minimum([ica.rung.error, ica.random_rotation], LADDER_TOP)
    ax.vlines(place, low, high, color=PALETTE["second"], lw=1.6)
    ax.plot(place, error, "s", ms=4, color=PALETTE["second"])
    ax.plot(place, chance, "_", ms=9, mew=1.4, color=PALETTE["muted"])


def _note(ax: Axes, text: str, at: tuple[float, float], above: int, colour: str) -> None:
    ax.annotate(
        text, at, (0, above), textcoords="offset points", ha="center", color=PALETTE[colour]
    )


def spectrum(ax: Axes, pair: Pair) -> None:
    """Canonical correlations over the band that independent views would fill."""
    count = len(pair.correlations)
    ax.set_title("How many directions are shared?")
    if count == 0:
        absent(ax)
        return
    kept = thinned(count, MAX_SPECTRUM)
    ax.set_xlim(0.5, count + 0.5)
    ax.set_ylim(0, 1.03)
    ax.axhspan(0, pair.chance_edge, color=PALETTE["band"], lw=0)
    ax.axhline(pair.cca.chance, color=PALETTE["muted"], lw=0.9, ls=(0, (4, 2)))
    ax.plot(kept + 1, pair.correlations[kept], color=PALETTE["accent"], lw=1.3)
    if count <= 50:
        dots(ax, kept + 1, pair.correlations[kept], "accent", 4.5)
    beside(ax, pair.cca.chance, "chance", "muted")
    ax.set_xlabel("canonical direction")
    ax.set_ylabel("correlation")
    ax.locator_params(axis="x", integer=True)


def scatter(ax: Axes, pair: Pair) -> None:
    """First two canonical variates, a against b, around the diagonal."""
    rows, _, axes = pair.points.shape
    ax.set_title("Do the rows line up?")
    if rows == 0:
        absent(ax)
        return
    points = pair.points[thinned(rows, MAX_POINTS)]
    reach = 1.08 * float(np.abs(points).max()) or 1.0
    diagonal(ax, reach, "variate of a", "variate of b")
    # Shape as well as colour: the two axes must be told apart in grey too.
    for axis, colour, mark in zip(range(axes), ("second", "accent"), "■●"):
        x, y = points[:, :, axis].T
        dots(ax, x, y, colour, 2.4, alpha=0.6, square=mark == "■")
        beside(ax, reach * (0.92 - 0.16 * axis), f"{mark} axis {axis + 1}", colour)
