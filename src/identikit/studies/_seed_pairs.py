"""Panels of pairs of seeds: their lines over a setting, dots, and d_fg beside its bounds."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd

from identikit.report.drawing import BELOW, absent, beside, dots, thinned
from identikit.report.style import PALETTE
from identikit.studies._columns import where
from identikit.studies._figures import DASHED, LOOKS, MAX_TICKS, Axes, curve
from identikit.studies._study import per_seed

#: What `identikit models` tolerates of κ, the logit gap and the error of a map.
TOLERANCE = 0.1

Panel = Callable[[Axes], None]


def lines(
    pairs: pd.DataFrame, x: str, columns: Mapping[str, str], by: str | None = None
) -> pd.DataFrame:
    """Columns of a table of pairs against x, as `curve` takes them: x, value, line and seed.

    The value is that of `per_seed`: over seeds it has the mean of the pairs, and the interval that
    the checks judge. `columns` maps each column to the name of its line; with `by`, every value of
    that column has a line of its own.

    >>> table = pd.DataFrame({"a": [0, 0, 1], "b": [1, 2, 2], "M": 2, "r2": [0.9, 0.5, 0.7]})
    >>> lines(table, "M", {"r2": "R²"})["value"].round(6).to_list()
    [0.7, 1.1, 0.3]
    """
    kept = pairs.astype(dict.fromkeys(columns, float))
    parts = [
        pd.DataFrame({"value": per_seed(own, column), "line": ", ".join(filter(None, name))})
        .rename_axis("seed").reset_index().assign(**{x: at})
        for column, words in columns.items()
        for name, line in (
            [((words,), kept)] if by is None
            else [((words, str(value)), each) for value, each in kept.groupby(by, sort=False)]
        )
        for at, own in line.groupby(x)
    ]  # fmt: skip
    empty = pd.DataFrame({"seed": 0, "value": 0.0, "line": "", x: pairs[x]})[:0]
    return pd.concat(parts, ignore_index=True) if parts else empty


def curves(
    title: str, table: pd.DataFrame, x: str, words: str, log_x: bool = False, log_y: bool = False,
    tolerance: bool = False,
) -> Panel:  # fmt: skip
    """A panel with the table of `lines`; `words` labels its x axis.

    With `tolerance`, the tolerance of `identikit models` is drawn, too.
    """

    def draw(ax: Axes) -> None:
        ax.set_title(title)
        curve(ax, table, x, "value", "line", {x: words, "value": ""}, log_x=log_x)
        if not log_x:
            places = np.unique(table[x])
            ax.set_xticks(places[thinned(len(places), MAX_TICKS)])
        if log_y:
            plain_log(ax)
        if tolerance:
            tolerated(ax)

    return draw


def dotted(
    title: str, pairs: pd.DataFrame, x: str, columns: Mapping[str, str], words: str
) -> Panel:
    """A panel with one dot per pair, for every value of x and every column, side by side.

    `words` is put before each value of x. `columns` maps columns to their names in the legend.
    """

    def draw(ax: Axes) -> None:
        ax.set_title(title)
        ax.set_ylabel("one dot per pair")
        groups = list(pairs.groupby(x))
        ax.set_xticks(range(len(groups)), [f"{words} {at:g}" for at, _ in groups])
        ax.set_xlim(-0.5, len(groups) - 0.5)
        width = 0.8 / len(columns)
        for place, ((column, name), look) in enumerate(zip(columns.items(), LOOKS)):
            for at, (_, own) in enumerate(groups):
                middle = at + width * (place - (len(columns) - 1) / 2)
                across = np.linspace(middle - width / 3, middle + width / 3, len(own))
                dots(ax, across, own[column].to_numpy(float), look[0], 4)
            ax.plot([], [], "o", ms=4, color=PALETTE[look[0]], label=name)
        ax.margins(y=0.1)
        ax.autoscale(axis="y")
        if len(columns) > 1:
            ax.legend(**BELOW)

    return draw


def bounds(title: str, pairs: pd.DataFrame) -> Panel:
    """A panel of d_fg against ε = d_LLV, one dot per pair, with the bounds 2Mε and 2ε²."""

    def draw(ax: Axes) -> None:
        ax.set_title(title)
        if pairs.empty:
            absent(ax)
            return
        ax.loglog()
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_major_formatter("{x:g}")
            axis.set_minor_formatter("")
        low_x, low_y = (
            10 ** np.floor(np.log10(pairs.loc[pairs[name] > 0, name].min()))
            for name in ("llv", "representation")
        )
        ax.set_xlim(low_x, max(2, 1.2 * pairs["llv"].max()))
        ax.set_ylim(low_y, 2)
        ε = np.geomspace(*ax.get_xlim(), 50)
        for M, (colour, _, dash) in zip(sorted(set(pairs["M"])), LOOKS):
            own = where(pairs, M=M)
            dots(ax, own["llv"].to_numpy(), own["representation"].to_numpy(), colour, 2.5)
            ax.plot(ε, 2 * M * ε, color=PALETTE[colour], lw=1.2, ls=dash, label=f"2Mε, M = {M}")
        ax.plot(ε, 2 * ε**2, color=PALETTE["muted"], lw=1.2, ls=DASHED, label="2ε² (sharper)")
        ax.set_xlabel("ε = d_LLV")
        ax.set_ylabel("d_fg")
        ax.legend(**BELOW)

    return draw


def tolerated(ax: Axes) -> None:
    ax.axhline(TOLERANCE, color=PALETTE["muted"], lw=0.9, ls=DASHED)
    beside(ax, TOLERANCE, "tolerance", "muted")


def plain_log(ax: Axes) -> None:
    """A logarithmic y axis whose numbers are plain text, which follows the font of a page."""
    ax.set_yscale("log")
    ax.yaxis.set_major_formatter("{x:g}")
    ax.yaxis.set_minor_formatter("")
