"""The panel of matched components: how stable they are, beside what chance would give."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from identikit.axes import Components
from identikit.report.drawing import BELOW
from identikit.report.style import PALETTE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BINS = 40


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
    ax.set_xlabel(f"stability: mean similarity of its members\n{_numbers(found)}")
    ax.set_ylabel("components")
    # Below both lines of the label.
    ax.legend(**BELOW | {"bbox_to_anchor": (0.5, -0.28)})


def _numbers(found: Components) -> str:
    """What is said of all components at once."""
    words = [
        f"PW-MCC {found.pw_mcc:.2f} (chance {found.pw_mcc_chance:.2f})",
        f"unique {found.unique:.0%} (chance {found.unique_chance:.0%})",
    ]
    if found.subspace is not None:
        words.append(f"span {found.subspace.overlap:.2f} (chance {found.subspace.chance:.2f})")
    return ", ".join(words)
