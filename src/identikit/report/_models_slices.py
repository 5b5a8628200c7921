"""Two models slice by slice: tables for the terminal, and dots with their intervals.

The panels hold no slice's name: a name may be long or hostile, and belongs into the table beside
them, whose rows are numbered.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from identikit.auditing.models_result import (
    CLOSE,
    DIFFERENT,
    SAME,
    SMALL_KL,
    ModelPair,
    Slice,
)
from identikit.auditing.result import Interval
from identikit.report._models_figures import LEAST, plain_ticks
from identikit.report.drawing import beside, sheet
from identikit.report.numbers import shortened, small
from identikit.report.style import PALETTE
from identikit.report.terminal import named_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from rich.table import Table

#: Slices of a pair that a page shows, and a terminal; and pairs of which a terminal shows any.
ON_PAGE, IN_TERMINAL, PAIRS = 40, 12, 5
TITLES = ["finding", "inputs", "logit gap (95 %)", "KL a to b", "KL b to a", "TV"]
#: Shape as well as colour: findings must be told apart in grey too.
MARKS = {
    SAME: ("o", "accent", "● same"),
    CLOSE: ("D", "muted", "◆ close in KL"),
    DIFFERENT: ("s", "second", "■ different"),
}


def chosen(slices: Sequence[Slice], most: int) -> list[tuple[int, Slice]]:
    """Slices with their numbers from 1; of too many, half the nearest and half the farthest.

    Parameters
    ----------
    slices : sequence of Slice
        All slices of a pair.
    most : int
        How many may be shown.
    """
    numbered = list(enumerate(slices, 1))
    if len(numbered) <= most:
        return numbered
    ranked = sorted(numbered, key=lambda each: each[1].logit_gap)
    return sorted(ranked[: most // 2] + ranked[-(most // 2) :], key=lambda each: each[0])


def left_out(slices: Sequence[Slice], most: int) -> str:
    """What is said where not all slices are shown."""
    if len(slices) <= most:
        return ""
    half = most // 2
    return (
        f"The {half} nearest and the {half} farthest of {len(slices):,} slices; all are in the "
        "JSON document."
    )


def slice_tables(pairs: Sequence[ModelPair], width: int) -> list[tuple[str, Table]]:
    """A small table a pair, each with the words above it; only of the first few pairs.

    Parameters
    ----------
    pairs : sequence of ModelPair
        In the order in which they are shown.
    width : int
        Columns of the terminal.
    """
    tables = []
    sliced = [pair for pair in pairs if pair.slices]
    names = shortened((name for pair in sliced for name in (pair.a, pair.b)), 40)
    for place, pair in enumerate(sliced[:PAIRS], 1):
        shown = [each for _, each in chosen(pair.slices, IN_TERMINAL)]
        table = named_table(
            ("slice",),
            [(each.name,) for each in shown],
            TITLES,
            [_cells(each) for each in shown],
            right=(1, 3, 4, 5),
            width=width,
            styles=["green" if each.same else "yellow" for each in shown],
            spare=[(5,), (4,)],
        )
        notes = [str(table.caption or ""), left_out(pair.slices, IN_TERMINAL)]
        if place == PAIRS < len(sliced):
            more = len(sliced) - PAIRS
            notes.append(f"Slices of {more} more pairs are in the JSON document and the report.")
        table.caption, table.caption_justify = " ".join(filter(None, notes)) or None, "left"
        between = f"{names[pair.a]} and {names[pair.b]}, slice" if pairs[1:] else "Slice"
        tables.append((f"{between} by slice", table))
    return tables


def _cells(each: Slice) -> list[str]:
    said = ends(each.logit_gap_interval)
    gap = small(each.logit_gap) + (f" ({said})" if said else "")
    return [each.finding, f"{each.inputs:,}", gap, *map(small, (each.kl, each.kl_reverse, each.tv))]


def ends(interval: Interval | None) -> str:
    """Of an interval that says something: there is one, and it is wider than rounding.

    >>> ends((0.02, 0.0315)), ends((0.0, 1e-9)), ends(None)
    ('0.02–0.0315', '', '')
    """
    if interval is None or interval[1] < LEAST:
        return ""
    return "–".join(map(small, interval))


def slices_figure(slices: Sequence[Slice], tolerance: float) -> Figure:
    """Relative logit gap and KL of the slices with their 95 % intervals, on logarithmic axes.

    Parameters
    ----------
    slices : sequence of Slice
        All slices of a pair; drawn are those that `chosen` leaves on a page.
    tolerance : float
        The largest gap that counts as the same; a line.
    """
    shown = chosen(slices, ON_PAGE)
    gaps = [(each.logit_gap, each.logit_gap_interval) for _, each in shown]
    kls = [(each.kl, each.kl_interval) for _, each in shown]
    panel = partial(_dots, shown=shown)
    return sheet(
        [
            partial(panel, values=gaps, limit=tolerance, title="How far apart are the logits?",
                    x="relative logit gap"),
            partial(panel, values=kls, limit=SMALL_KL, title="How far apart are predictions?",
                    x="KL, a to b, in nats", legend=True),
        ]
    )  # fmt: skip


def _dots(
    ax: Axes,
    shown: Sequence[tuple[int, Slice]],
    values: Sequence[tuple[float, Interval | None]],
    limit: float,
    title: str,
    x: str,
    *,
    legend: bool = False,
) -> None:
    """A row a slice; what is rounding stands at the left edge, what is infinite at the right."""
    at = np.array([value for value, _ in values])
    bars = np.array([interval or (value, value) for value, interval in values])
    finite = np.isfinite(at)
    drawn = np.concatenate([bars[finite].ravel(), at[finite], [limit]])
    drawn = drawn[drawn > LEAST]
    low = LEAST if (at < LEAST).any() else max(LEAST, min(drawn.min(initial=1), 1e-2) / 2)
    high = 3 * max(drawn.max(initial=1e-2), 10 * low)
    places = np.arange(len(at))
    ax.set_title(title)
    ax.set_xscale("log")
    if limit > low:
        ax.axvline(limit, color=PALETTE["muted"], lw=0.8, ls=(0, (4, 2)))
    findings = np.array([each.finding for _, each in shown])
    for line, finding in enumerate(each for each in MARKS if each in findings):
        mark, colour, words = MARKS[finding]
        here = findings == finding
        if legend:
            beside(ax, 0.94 - 0.1 * line, words, colour, in_panel_parts=True)
        for edge, some in ((mark, here & finite), (">", here & ~finite)):
            if some.any():  # what is empty has no extent, and the layout no room for it
                rows, ink = places[some], PALETTE[colour]
                ax.hlines(rows, *bars[some].clip(low, high).T, color=ink, lw=1.4)
                ax.plot(at[some].clip(low, high), rows, edge, ms=4, color=ink, clip_on=False)
    ax.set_xlim(low, high)
    ax.set_ylim(len(at) - 0.4, -0.6)
    every = max(1, -(-len(at) // 12))
    ax.set_yticks(places[::every], [str(number) for number, _ in shown[::every]])
    ax.set_xlabel(x)
    ax.set_ylabel("slice")
    plain_ticks(ax, "x")
