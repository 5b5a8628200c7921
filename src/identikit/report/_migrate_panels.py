"""The panels of a migration: gains on staying, and indexes that are half migrated."""

from __future__ import annotations

from typing import TYPE_CHECKING

from identikit.report.drawing import BELOW, absent
from identikit.report.style import PALETTE
from identikit.report.words.migrate import OPTIONS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from identikit.retrieval import Migration

TITLES = {"ndcg": "nDCG@10", "mrr": "MRR@10", "recall": "recall@k", "overlap": "overlap@k"}


def gains(ax: Axes, found: Migration, measure: str) -> None:
    """Paired differences to staying with their 95 % intervals, an option a line.

    Parameters
    ----------
    ax : Axes
        Where to draw.
    found : Migration
        The result.
    measure : str
        One of the measures.
    """
    options = [each for each in found.options[::-1] if each.values and each.name != "stay"]
    ax.axvline(0, color=PALETTE["muted"], lw=0.8, ls=(0, (4, 2)))
    for height, option in enumerate(options):
        value = option.values[measure]
        chosen = option.name == found.verdict.choice
        colour = PALETTE["second" if chosen else "accent"]
        if value.difference_interval is not None:
            ax.hlines(height, *value.difference_interval, color=colour, lw=1.8)
        ax.plot(value.difference or 0.0, height, "o", ms=4.5, color=colour)
    ax.set_yticks(range(len(options)), [OPTIONS[option.name] for option in options])
    ax.set_ylim(-0.6, len(options) - 0.4)
    ax.set_xlabel(f"{TITLES[measure]}, more than staying")
    ax.set_title("What does each option gain?")


def half_migrated(ax: Axes, found: Migration, measure: str) -> None:
    """The measure over the share of the index that is new, with and without a map.

    Parameters
    ----------
    ax : Axes
        Where to draw.
    found : Migration
        The result.
    measure : str
        One of the measures.
    """
    if not found.half:
        absent(ax)
        return
    for way, colour in (("map", "accent"), ("no map", "second")):
        points = [point for point in found.half if point.way == way]
        if points:
            shares = [point.share for point in points]
            ax.plot(
                shares,
                [point.values[measure].mean for point in points],
                "o-",
                ms=3.5,
                lw=1.4,
                color=PALETTE[colour],
                label="the rest mapped" if way == "map" else "the rest as it was",
            )
    stay = found.options[0].values[measure].mean
    ax.axhline(stay, color=PALETTE["muted"], lw=0.8, ls=(0, (4, 2)), label="staying")
    ax.set_ylim(bottom=0)
    ax.set_xlabel("share of the index that is new")
    ax.set_ylabel(TITLES[measure])
    ax.set_title("And half way?")
    ax.legend(**BELOW)
