"""The figure of a pair as a few kilobytes of SVG: what `plots.plot_pair` draws, for pages.

Matplotlib takes a third of a second for this figure, and a page has dozens. The panels have the
same content as those in `_panels.py`; their colours and letters are classes of the page's style.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from identikit.auditing.result import Pair
from identikit.report._panels import LADDER_TOP
from identikit.report.drawing import MAX_POINTS, MAX_SPECTRUM, thinned
from identikit.report.numbers import number, with_interval

#: Units of a panel, and of the margins around its axes; ten of them are a small letter's height.
WIDTH, HEIGHT = 245, 214
LEFT, RIGHT, TOP, BOTTOM = 36, 42, 24, 36
#: The rungs' names are turned, and need more room below.
BELOW_LADDER = 52


def pair_svg(pair: Pair, tolerance: float, label: str) -> Any:
    """Ladder, spectrum and scatter side by side, as `Markup` for a page.

    Parameters
    ----------
    pair : Pair
        One of `Audit.comparisons`.
    tolerance : float
        The largest error that counts as the same; a line in the ladder.
    label : str
        What a screen reader says; plain words, no markup.
    """
    from markupsafe import Markup

    panels = [_ladder(pair, tolerance), _spectrum(pair), _scatter(pair)]
    drawn = "".join(
        f'<g transform="translate({place * WIDTH} 0)">{"".join(panel.parts)}</g>'
        for place, panel in enumerate(panels)
    )
    size = f"0 0 {len(panels) * WIDTH} {HEIGHT}"
    return Markup(
        f'<svg class="panels" viewBox="{size}" role="img" aria-label="{label}">{drawn}</svg>'
    )


@dataclass
class Panel:
    """Axes with their title, and what has been drawn on them so far."""

    title: str
    x: tuple[float, float] = (0.0, 1.0)
    y: tuple[float, float] = (0.0, 1.0)
    bottom: float = BOTTOM
    square: bool = False
    parts: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.high = HEIGHT - TOP - self.bottom
        self.wide = self.high if self.square else WIDTH - LEFT - RIGHT
        self.write(LEFT, 12, self.title, "title")
        self.parts.append(f'<path d="M{LEFT} {TOP}v{_at(self.high)}h{_at(self.wide)}"/>')

    def place(self, x: float, y: float) -> tuple[float, float]:
        """Where a point of the data is, in units of the figure."""
        across = (x - self.x[0]) / (self.x[1] - self.x[0])
        up = (y - self.y[0]) / (self.y[1] - self.y[0])
        return LEFT + across * self.wide, TOP + (1 - up) * self.high

    def write(self, x: float, y: float, text: str, kind: str = "", turned: float = 0) -> None:
        """Words at a place of the figure; `kind` says how they look and to which side they go."""
        from markupsafe import escape

        turn = f' transform="rotate({turned:g} {_at(x)} {_at(y)})"' if turned else ""
        look = f' class="{kind}"' if kind else ""
        self.parts.append(f'<text x="{_at(x)}" y="{_at(y)}"{look}{turn}>{escape(text)}</text>')

    def beside(self, y: float, text: str, kind: str = "") -> None:
        """Words at the right edge, where no data can be."""
        self.write(LEFT + self.wide + 4, self.place(0, y)[1] + 3, text, kind)

    def line(self, points: Iterable[tuple[float, float]], kind: str) -> None:
        """A line through points of the data."""
        path = "L".join(f"{_at(x)} {_at(y)}" for x, y in (self.place(*each) for each in points))
        if path:
            self.parts.append(f'<path class="{kind}" d="M{path}"/>')

    def dots(self, points: Iterable[tuple[float, float]], kind: str) -> None:
        """Points of the data as one path of strokes without length, which have round ends."""
        path = "".join(f"M{_at(x)} {_at(y)}h0" for x, y in (self.place(*each) for each in points))
        if path:
            self.parts.append(f'<path class="{kind}" d="{path}"/>')

    def ticks(self, across: Sequence[float], up: Sequence[float], x: str = "", y: str = "") -> None:
        """Numbers beside both axes, and what the axes show."""
        floor = TOP + self.high
        marks = [f"M{_at(self.place(value, 0)[0])} {_at(floor)}v3" for value in across]
        marks += [f"M{LEFT} {_at(self.place(0, value)[1])}h-3" for value in up]
        self.parts.append(f'<path d="{"".join(marks)}"/>')
        for value in across:
            self.write(self.place(value, 0)[0], floor + 12, f"{value:g}", "middle")
        for value in up:
            self.write(LEFT - 5, self.place(0, value)[1] + 3, f"{value:g}", "end")
        if x:
            self.write(LEFT + self.wide / 2, floor + 26, x, "middle")
        if y:
            self.write(9, TOP + self.high / 2, y, "middle", -90)


def _ladder(pair: Pair, tolerance: float) -> Panel:
    """Held-out error of every rung with its interval; the chosen rung is ringed."""
    labels = [rung.group for rung in pair.ladder]
    places = [*map(float, range(len(labels)))]
    if pair.ica is not None:
        places, labels = [*places, len(places) + 0.3], [*labels, "after ICA"]
    ends = -0.6, places[-1] + 0.6
    panel = Panel("How strict a map is enough?", ends, (-0.04, LADDER_TOP + 0.15), BELOW_LADDER)
    panel.line([(ends[0], 1), (ends[1], 1)], "dotted")
    panel.line([(ends[0], tolerance), (ends[1], tolerance)], "dashed second")
    shown = [min(rung.error, LADDER_TOP) for rung in pair.ladder]
    panel.line(list(zip(places, shown)), "faint")
    for place, rung, height in zip(places, pair.ladder, shown):
        x, y = panel.place(place, height)
        if rung.error > LADDER_TOP:
            panel.parts.append(f'<path class="over" d="M{_at(x - 3)} {_at(y + 3)}h6l-3 -6z"/>')
            text = number(rung.error, 1) if rung.error < 100 else ">99"
            panel.write(x, y - 6, text, "middle")
            continue
        low, high = np.clip(rung.interval, 0, LADDER_TOP)
        panel.line([(place, low), (place, high)], "bar")
        panel.dots([(place, height)], "dot")
        if rung.group == pair.group:
            panel.parts.append(f'<circle class="ring" cx="{_at(x)}" cy="{_at(y)}" r="5.5"/>')
            above = min(panel.place(place, high)[1], y - 6)
            panel.write(x, above - 4, with_interval(rung.error, rung.interval)[0], "middle ink")
    if pair.ica is not None:
        _after_ica(panel, pair, places[-1])
    panel.beside(1, "the mean")
    panel.beside(tolerance, "tolerance", "second")
    panel.ticks([], [0, 0.25, 0.5, 0.75, 1], y="held-out error")
    for place, label in zip(places, labels):
        panel.write(panel.place(place, 0)[0] + 3, TOP + panel.high + 11, label, "end", -35)
    return panel


def _after_ica(panel: Panel, pair: Pair, place: float) -> None:
    """A square for the error after ICA, and a bar for its control, apart from the ladder."""
    if pair.ica is None:
        return
    panel.line([(place - 0.65, panel.y[0]), (place - 0.65, panel.y[1])], "faint")
    low, high = np.clip(pair.ica.rung.interval, 0, LADDER_TOP)
    panel.line([(place, low), (place, high)], "bar second")
    panel.dots([(place, min(pair.ica.rung.error, LADDER_TOP))], "dot square second")
    x, y = panel.place(place, min(pair.ica.random_rotation, LADDER_TOP))
    panel.parts.append(f'<path class="control" d="M{_at(x - 5)} {_at(y)}h10"/>')


def _spectrum(pair: Pair) -> Panel:
    """Canonical correlations over the band that independent views would fill."""
    title, count = "How many directions are shared?", len(pair.correlations)
    if count == 0:
        return _absent(Panel(title))
    panel = Panel(title, (0.5, count + 0.5), (0, 1.03))
    (x, y), (right, floor) = panel.place(0.5, pair.chance_edge), panel.place(count + 0.5, 0)
    size = f'width="{_at(right - x)}" height="{_at(floor - y)}"'
    panel.parts.append(f'<rect class="band" x="{_at(x)}" y="{_at(y)}" {size}/>')
    panel.line([(0.5, pair.cca.chance), (count + 0.5, pair.cca.chance)], "dashed")
    points = [
        (place + 1, float(pair.correlations[place])) for place in thinned(count, MAX_SPECTRUM)
    ]
    panel.line(points, "curve")
    if count <= 50:
        panel.dots(points, "dot")
    panel.beside(pair.cca.chance, "chance")
    across = [tick for tick in _nice(0.5, count + 0.5, 6) if tick == int(tick)]
    panel.ticks(across, [0, 0.2, 0.4, 0.6, 0.8, 1], "canonical direction", "correlation")
    return panel


def _scatter(pair: Pair) -> Panel:
    """First two canonical variates, a against b, around the diagonal."""
    rows, _, axes = pair.points.shape
    title = "Do the rows line up?"
    if rows == 0:
        return _absent(Panel(title, square=True))
    points = pair.points[thinned(rows, MAX_POINTS)]
    reach = 1.08 * float(np.abs(points).max()) or 1.0
    panel = Panel(title, (-reach, reach), (-reach, reach), square=True)
    panel.line([(-reach, -reach), (reach, reach)], "dashed")
    # Shape as well as colour: the two axes must be told apart in grey too.
    for axis, (kind, mark) in enumerate(zip(("second square", "accent"), "■●")):
        if axis < axes:
            panel.dots(points[:, :, axis].tolist(), f"cloud {kind}")
            panel.beside(reach * (0.92 - 0.16 * axis), f"{mark} axis {axis + 1}", kind)
    marks = _nice(-reach, reach, 5)
    panel.ticks(marks, marks, "variate of a", "variate of b")
    return panel


def _absent(panel: Panel) -> Panel:
    """Say that there is nothing to draw, rather than draw nothing."""
    panel.write(LEFT + panel.wide / 2, TOP + panel.high / 2, "not computed", "middle")
    return panel


def _nice(low: float, high: float, most: int) -> list[float]:
    """At most so many round numbers at equal distances, between two ends.

    >>> _nice(-2.3, 2.3, 5), _nice(0.5, 16.5, 6)
    ([-2.0, -1.0, 0.0, 1.0, 2.0], [5.0, 10.0, 15.0])
    """
    scale = 10.0 ** math.floor(math.log10((high - low) / most))
    steps = (scale * times for times in (1, 2, 5, 10, 20))
    step = next(s for s in steps if math.floor(high / s) - math.ceil(low / s) < most)
    first, last = math.ceil(low / step), math.floor(high / step)
    return [float(f"{place * step:.6g}") for place in range(first, last + 1)]


def _at(value: float) -> str:
    """A coordinate to a tenth of a unit."""
    return f"{value:.1f}".removesuffix(".0")
