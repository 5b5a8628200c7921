"""The panels of a pair of softmax models: what is identified, the two maps, the odds, the bounds.

No panel holds the name of a model or of a slice: a name may be long or hostile, and belongs into
the text and the tables around it, in which slices are numbered.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from identikit.auditing.models_result import (
    CLOSE,
    DIFFERENT,
    SAME,
    ModelPair,
    ModelReport,
    Slice,
)
from identikit.auditing.result import Interval
from identikit.family import Distances
from identikit.report.drawing import (
    MAX_POINTS,
    MAX_SPECTRUM,
    absent,
    beside,
    diagonal,
    dots,
    thinned,
)
from identikit.report.style import PALETTE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Distances below this are rounding.
LEAST = 1e-6
#: Slices of a pair that a page shows.
ON_PAGE = 40
#: Shape as well as colour: findings must be told apart in grey too.
MARKS = {
    SAME: ("o", "accent", "● same"),
    CLOSE: ("D", "muted", "◆ close in KL"),
    DIFFERENT: ("s", "second", "■ different"),
}
# These words name no value of an axis, so their heights are parts of the panel.
_named = partial(beside, in_panel_parts=True)


def label_spectra(ax: Axes, models: tuple[ModelReport, ModelReport]) -> None:
    """Singular values of the centred g of both models, as shares of the largest."""
    ax.set_title("How many dimensions do labels fix?")
    ax.set_yscale("log")
    smallest = []
    rows = zip(models, "ab", ("accent", "second"), "●■", "os", (2.4, 1.0), (0.94, 0.82))
    for model, letter, colour, sign, mark, width, place in rows:
        values, rank = model.diversity.singular_values, model.diversity.rank
        shares = np.maximum(values / values[0], 1e-17)
        smallest.append(shares[rank - 1])
        kept = thinned(len(shares), MAX_SPECTRUM)
        # Lines of unequal width: where one hides the other, both are seen.
        ax.plot(kept + 1, shares[kept], color=PALETTE[colour], lw=width)
        ax.plot(rank, shares[rank - 1], mark, ms=5, color=PALETTE[colour])
        _named(ax, place, f"{sign} {letter}: {rank} of {model.M}", colour)
    # What lies below the last value that counts is rounding, and its digits mean nothing.
    ax.set_ylim(min(smallest) / 10, 2)
    ax.set_xlabel("direction")
    ax.set_ylabel("singular value of g, relative")
    ax.locator_params(axis="x", integer=True)
    plain_ticks(ax, "y")


def log_odds(ax: Axes, pair: ModelPair) -> None:
    """Log-odds of two labels in one model against the other's; equal models lie on the diagonal."""
    ax.set_title("Do the log-odds agree?")
    _against(ax, pair.log_odds, "log-odds of a", "log-odds of b")


def two_maps(ax: Axes, pair: ModelPair) -> None:
    """Entries of A estimated from f against those estimated from g; one map is a diagonal."""
    ax.set_title("Do f and g move by one map?")
    entries = np.column_stack([pair.gauge.A_from_f.ravel(), pair.gauge.A_from_g.ravel()])
    kept = thinned(len(entries), MAX_POINTS)
    reach = 2 * float(np.abs(entries[:, 0]).max())
    _against(ax, entries[kept], "entry of A from f", "entry of A from g", reach)
    # Where g and g' are unrelated, the map from g has entries of any size.
    beyond = int(np.count_nonzero(np.abs(entries[:, 1]) > reach))
    if beyond:
        _named(ax, 0.94, f"{beyond} of {len(entries)}\nbeyond", "muted")


def bounds(ax: Axes, pair: ModelPair) -> None:
    """d_fg against d_LLV, below the published bound 2Mε and the sharper 2ε²."""
    ax.set_title("Does the distribution bound it?")
    apart = pair.distances
    if not isinstance(apart, Distances):
        absent(ax)
        return
    ax.set_xscale("log")
    ax.set_yscale("log")
    x, y = max(apart.llv, LEAST), max(apart.representation, LEAST)
    low, high, floor = min(x / 5, 0.02), max(4.0, 3 * x), min(y / 5, 1e-4)
    eps = np.geomspace(low, high, 60)
    for values, name, colour, dash in (
        (2 * apart.M * eps, "2Mε", "muted", (0, (4, 2))),
        (2 * eps**2, "2ε²", "second", (0, (1, 1))),
    ):
        seen = (values >= floor) & (values <= 3)
        ax.plot(eps[seen], values[seen], color=PALETTE[colour], lw=1.1, ls=dash)
        _named(ax, 0.28 if name == "2Mε" else 0.16, f"{name} bound", colour)
    ax.axhline(1, color=PALETTE["line"], lw=0.9)
    if apart.llv > LEAST:
        ax.plot(x, y, "o", ms=6, color=PALETTE["accent"])
        ax.plot(x, max(apart.certificate, y), "_", ms=11, mew=1.8, color=PALETTE["accent"])
        _named(ax, 0.52, "● this pair", "accent")
        _named(ax, 0.40, "– certificate", "accent")
    else:
        _named(ax, 0.46, "this pair:\nboth zero", "accent")
    ax.set_xlim(low, high)
    ax.set_ylim(floor, 3)
    ax.set_xlabel("d_LLV = ε")
    ax.set_ylabel("d_fg")
    for which in "xy":
        plain_ticks(ax, which)


def _against(ax: Axes, points: NDArray[np.float64], x: str, y: str, most: float = np.inf) -> None:
    reach = min(1.08 * float(np.abs(points).max()), most) or 1.0
    points = points[(np.abs(points) <= reach).all(axis=1)]
    diagonal(ax, reach, x, y)
    dots(ax, points[:, 0], points[:, 1], "accent", 2.4, alpha=0.6)


def plain_ticks(ax: Axes, which: str) -> None:
    """Powers of ten as plain text: superscripts would be drawn, and not follow the page's font."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    axis = ax.xaxis if which == "x" else ax.yaxis
    axis.set_major_locator(LogLocator(numticks=5))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_locator(NullLocator())


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


def slice_dots(
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
