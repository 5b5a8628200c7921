"""The panels of near-identifiability and of components across runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from identikit.report.drawing import BELOW, beside
from identikit.report.style import PALETTE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from identikit.axes import Components, NearIdentifiability

BINS = 40


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
    ax.set_ylabel("distance over diameter")
    ax.set_xticks(range(len(names)), names, rotation=35, ha="right", rotation_mode="anchor")


def stability(ax: Axes, found: Components) -> None:
    """Histogram of stability, those that replicate apart, beside the range of chance levels."""
    values, chance = found.stability, found.chance_level
    low = min(0.0, float(values.min()), float(chance.min()))
    bins = [float(edge) for edge in np.linspace(low, 1.0, BINS + 1)]
    good = found.replicates
    ax.axvspan(
        float(chance.min()), float(chance.max()), color=PALETTE["band"], lw=0, label="chance"
    )
    ax.hist(
        [values[good], values[~good]],
        bins,
        stacked=True,
        color=[PALETTE["accent"], PALETTE["muted"]],
        label=["in every run", "not in every run"],
    )
    middle = float(np.median(chance))
    ax.axvline(middle, color=PALETTE["second"], lw=0.9, ls=(0, (4, 2)), label="its median")
    if found.settings.threshold is not None:
        ax.axvline(found.settings.threshold, color=PALETTE["ink"], lw=0.9, label="threshold")
    ax.set_xlim(low, 1.0)
    ax.set_title("Which components come back?")
    lines = ["stability: mean similarity of its members", *_numbers(found)]
    ax.set_xlabel("\n".join(lines))
    ax.set_ylabel("components")
    # Below all lines of the label.
    ax.legend(**BELOW | {"bbox_to_anchor": (0.5, -0.12 - 0.08 * len(lines))})


def _numbers(found: Components) -> list[str]:
    """What is said of all components at once, each beside its chance level."""
    lines = [
        f"PW-MCC {found.pw_mcc:.2f} (chance {found.pw_mcc_chance:.2f}), "
        f"unique {found.unique:.0%} ({found.unique_chance:.0%})"
    ]
    if found.subspace is not None:
        lines.append(f"span {found.subspace.overlap:.2f} (chance {found.subspace.chance:.2f})")
    return lines
