"""Panels that studies share: a curve, dots, a heat map, and a scatter plot after a map.

Each function draws tidy rows onto given axes, inside `report.drawing.sheet`. Means are over seeds
(column `seed`) and have the same interval as in the checks; several rows of one seed are averaged
first. Values that are not finite are left out, and a panel without any values says so. `labels` are
words for categories, for values of `by`, and for the names of the columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from identikit._linalg import Array
from identikit.errors import InputError
from identikit.report.drawing import BELOW, MAX_POINTS, absent, beside, diagonal, thinned
from identikit.report.drawing import dots as draw_dots
from identikit.report.style import PALETTE
from identikit.studies._study import mean_interval

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure
    import pandas as pd

# Names for annotations, so that a study need not import matplotlib, which is slow.
Axes: TypeAlias = "matplotlib.axes.Axes"
Figure: TypeAlias = "matplotlib.figure.Figure"

DASHED = (0, (4, 2))
# Lines differ in marker and dash as well as in colour, so that they can be distinguished in grey.
LOOKS = [
    (colour, marker, dash)
    for dash in ("-", DASHED, (0, (1, 1)))
    for colour, marker in (("accent", "o"), ("second", "s"), ("ink", "D"))
]
MAX_TICKS = 8
# The numbers on the cells must be legible in the light and in the dark theme.
STRONGEST = 0.5


def curve(
    ax: Axes, table: pd.DataFrame, x: str, y: str, by: str | None = None,
    labels: Mapping[Any, str] | None = None, chance: float | None = None, log_x: bool = False,
) -> None:  # fmt: skip
    """Draw the mean of y over seeds against x, with its 95 % interval: one line per value of `by`.

    Parameters
    ----------
    ax : Axes
    table : DataFrame
        One row per seed and x, with the columns `seed`, x, y and `by`.
    x, y : str
        Columns of numbers.
    by : str, optional
        Column with one line per value, in the order of first appearance.
    labels : mapping, optional
    chance : float, optional
        Height of a dashed line at the level of chance.
    log_x : bool
        Whether the axis of x is logarithmic. It still has a place for 0.
    """
    labels = labels or {}
    if _nothing(ax, table, (x, y), y, labels, chance):
        return
    for place, (name, own) in enumerate(_groups(table, by)):
        at = np.sort(own[x].unique())
        means, halves = _summaries([own[own[x] == each] for each in at], y)
        ax.errorbar(at, means, halves, label=labels.get(name, str(name)), lw=1.5, **_look(place))
    if log_x:
        _log_axis(ax, np.sort(table[x].unique()))
    if by is not None:
        ax.legend(**BELOW)


def dots(
    ax: Axes, table: pd.DataFrame, x: str, y: str, by: str | None = None,
    labels: Mapping[Any, str] | None = None, chance: float | None = None,
) -> None:  # fmt: skip
    """Draw one dot per seed and, beside the dots, their mean with its 95 % interval, by category.

    x is the column of categories and y that of numbers. The values of `by` are drawn side by side
    within a category, in the order of first appearance. All else is as for `curve`.
    """
    labels = labels or {}
    if _nothing(ax, table, (x, y), y, labels, chance):
        return
    levels, groups = _levels(table[x]), _groups(table, by)
    ax.set_xlim(-0.6, len(levels) - 0.4)
    width = 0.8 / len(groups)
    for place, (name, own) in enumerate(groups):
        cells = [own[own[x] == level] for level in levels]
        centres = np.arange(len(levels)) + width * (place - (len(groups) - 1) / 2)
        for centre, cell in zip(centres, cells):
            values = _by_seed(cell, y)
            across = centre + width * np.linspace(-0.3, -0.1, len(values))
            draw_dots(ax, across, values, LOOKS[place % len(LOOKS)][0], 3.2, alpha=0.55)
        means, halves = _summaries(cells, y)
        style = _look(place) | {"ls": "none", "label": labels.get(name, str(name))}
        ax.errorbar(centres + 0.15 * width, means, halves, **style)
    ax.set_xticks(range(len(levels)), [labels.get(level, str(level)) for level in levels])
    if by is not None:
        ax.legend(**BELOW)


def heat_map(
    ax: Axes, table: pd.DataFrame, x: str, y: str, value: str,
    labels: Mapping[Any, str] | None = None,
) -> None:  # fmt: skip
    """Draw the mean of a value over seeds for every x and y; larger means have stronger colours.

    The table has one row per seed and cell, with the columns `seed`, x, y and value. Numbers in x
    and y are drawn in ascending order, and words in the order of first appearance.
    """
    from matplotlib.patches import Rectangle

    labels = labels or {}
    if _nothing(ax, table, (x, y), value, labels):
        return
    across, up = _levels(table[x]), _levels(table[y])
    found = {place: _by_seed(cell, value) for place, cell in table.groupby([x, y], sort=False)}
    means = {place: float(values.mean()) for place, values in found.items() if len(values)}
    least, most = min(means.values()), max(means.values())
    for column, a in enumerate(across):
        for row, b in enumerate(up):
            mean = means.get((a, b))
            if mean is not None:
                strength = STRONGEST * ((mean - least) / (most - least) if most > least else 1)
                corner = column - 0.48, row - 0.48
                ax.add_patch(Rectangle(corner, 0.96, 0.96, fc=PALETTE["accent"], alpha=strength))
            text = "–" if mean is None else f"{mean:.3g}"
            ax.text(column, row, text, ha="center", va="center", fontsize=7)
    ax.set_xlim(-0.5, len(across) - 0.5)
    ax.set_ylim(-0.5, len(up) - 0.5)
    if table[y].dtype.kind not in "biuf":
        ax.invert_yaxis()
    ax.set_xticks(range(len(across)), [labels.get(level, str(level)) for level in across])
    ax.set_yticks(range(len(up)), [labels.get(level, str(level)) for level in up])
    ax.tick_params(length=0)


def scatter_after_map(ax: Axes, truth: ArrayLike, image: ArrayLike) -> None:
    """Draw codes after a map against the true latents, with the line of equality.

    `image` has the codes mapped onto the true latents, row by row. The first three coordinates are
    drawn, relative to the mean of the truth, in standard deviations of the truth.
    """
    z, codes = (np.asarray(side, float) for side in (truth, image))
    z, codes = (side[:, None] if side.ndim == 1 else side for side in (z, codes))
    if z.shape != codes.shape:
        raise InputError(
            f"the truth has the shape {z.shape} and the image {codes.shape}; give the same rows "
            "and coordinates for both"
        )
    fine = np.isfinite(z).all(axis=1) & np.isfinite(codes).all(axis=1)
    if not fine.any():
        absent(ax)
        return
    z, codes = z[fine, :3], codes[fine, :3]
    spread = np.where(np.ptp(z, axis=0) > 0, z.std(axis=0), 1.0)
    shown = thinned(len(z), MAX_POINTS)
    points = ((np.stack([z, codes]) - z.mean(axis=0)) / spread)[:, shown]
    reach = 1.08 * float(np.abs(points).max()) or 1.0
    diagonal(ax, reach, "truth", "code, after the map")
    for place, (colour, mark) in enumerate(zip(("accent", "second", "ink"), "●■●")):
        if place < z.shape[1]:
            x, y = points[:, :, place]
            draw_dots(ax, x, y, colour, 2.4, alpha=0.6, square=mark == "■")
            if z.shape[1] > 1:
                beside(ax, reach * (0.92 - 0.16 * place), f"{mark} z{place + 1}", colour)


def _nothing(
    ax: Axes, table: pd.DataFrame, axes: tuple[str, str], value: str, labels: Mapping[Any, str],
    chance: float | None = None,
) -> bool:  # fmt: skip
    """Label the axes and draw the level of chance; True if there is nothing else to draw."""
    ax.set_xlabel(labels.get(axes[0], axes[0]))
    ax.set_ylabel(labels.get(axes[1], axes[1]))
    nothing = not len(_by_seed(table, value))
    if nothing:
        absent(ax)
    elif chance is not None:
        ax.axhline(chance, color=PALETTE["muted"], lw=0.9, ls=DASHED)
        beside(ax, chance, "chance", "muted")
    return nothing


def _groups(table: pd.DataFrame, by: str | None) -> list[tuple[Any, pd.DataFrame]]:
    return [("", table)] if by is None else list(table.groupby(by, sort=False))


def _look(place: int) -> dict[str, Any]:
    colour, marker, dash = LOOKS[place % len(LOOKS)]
    line = {"color": PALETTE[colour], "marker": marker, "ls": dash}
    return {**line, "ms": 3.2, "elinewidth": 0.9, "capsize": 2}


def _levels(column: pd.Series[Any]) -> list[Any]:
    """The values of a column: numbers in ascending order, words in order of first appearance."""
    values = list(dict.fromkeys(column))
    return sorted(values) if column.dtype.kind in "biuf" else values


def _by_seed(rows: pd.DataFrame, column: str) -> Array:
    # A column that contains only None has the dtype object.
    rows = rows.assign(**{column: rows[column].astype(float)})
    means: Array = rows[np.isfinite(rows[column])].groupby("seed")[column].mean().to_numpy(float)
    return means


def _summaries(cells: list[pd.DataFrame], column: str) -> tuple[Array, Array]:
    """Means over seeds and the half-widths of their intervals; NaN where there is none."""
    means, halves = [], []
    for cell in cells:
        values = _by_seed(cell, column)
        mean, interval = mean_interval(list(values)) if len(values) else (np.nan, None)
        means.append(mean)
        halves.append(np.nan if interval is None else interval[1] - mean)
    return np.array(means), np.array(halves)


def _log_axis(ax: Axes, places: Array) -> None:
    positive = places[places > 0]
    if len(positive) < len(places):
        ax.set_xscale("symlog", linthresh=positive[0] if len(positive) else 1.0)
    else:
        ax.set_xscale("log")
    ticks = places[thinned(len(places), MAX_TICKS)]
    ax.set_xticks(ticks, [f"{tick:,g}" for tick in ticks])
    ax.set_xticks([], minor=True)
