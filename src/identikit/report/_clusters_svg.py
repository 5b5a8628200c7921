"""Which views belong together, drawn for pages: the tree beside the matrix, and the plane."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any
from unicodedata import east_asian_width

import numpy as np

from identikit._linalg import Array

if TYPE_CHECKING:
    from identikit.auditing import Audit

Point = tuple[float, float]

#: Units of the plane: where dots may be, where names begin, and the height of a line of names.
ACROSS, NAMES, LINE = 166, 208, 17
#: Room for one name, the characters that it takes, and the width of one, of Chinese ones twice.
NAME, LETTERS, LETTER = 154, 18, 7.8
#: What is left free around the dots, and below them for the scale.
EDGE, BELOW = 20, 24


def joins(audit: Audit) -> Iterator[tuple[list[Point], bool]]:
    """The tree as brackets, each of four points, and whether it lies within a cluster.

    A point is a height, and a place among the leaves: the first leaf is at 0.5, the next at 1.5.
    """
    clusters = audit.clusters
    leaf = {name: place + 0.5 for place, name in enumerate(clusters.order)}
    at: list[Point] = [(0.0, leaf[view.name]) for view in audit.views]
    for a, b, height, _ in clusters.tree.tolist():
        (low, one), (other_low, other) = at[int(a)], at[int(b)]
        inside = clusters.gap is not None and height <= clusters.gap[0]
        yield [(low, one), (height, one), (height, other), (other_low, other)], inside
        at.append((height, (one + other) / 2))


def tree_svg(audit: Audit) -> Any:
    """The tree, 100 units wide and one unit a leaf: a page shows it row by row."""
    from markupsafe import Markup

    top = max(float(audit.clusters.tree[-1, 2]), 1e-9)
    paths, root = {True: "", False: ""}, 0.0
    for points, inside in joins(audit):
        ends = [f"{100 - 96 * height / top:.2f} {place:g}" for height, place in points]
        paths[inside] += f"M{'L'.join(ends)}"
        root = (points[1][1] + points[2][1]) / 2
    stem = f'<path class="branch" d="M0 {root:g}h4{paths[False]}"/>'
    within = f'<path class="branch together" d="{paths[True]}"/>' if paths[True] else ""
    return Markup(stem + within)


def plane_svg(audit: Audit, show: Callable[[str], str], label: str) -> Any:
    """The views in a plane, with their names at the right, as `Markup` for a page.

    Parameters
    ----------
    audit : Audit
        Of three views or more.
    show : callable
        How a name appears; what it returns is escaped.
    label : str
        What a screen reader says; plain words, no markup.
    """
    from markupsafe import Markup, escape

    clusters, names = audit.clusters, [view.name for view in audit.views]
    points, scale, high = _spread(clusters.coordinates)
    room = max(high, LINE * len(names) + 12)
    at = {name: (x, y + (room - high) / 2) for name, (x, y) in zip(names, points)}
    parts = [_halo([at[name] for name in one.views]) for one in clusters.best]
    alone = set(clusters.alone)
    order = sorted(names, key=lambda name: (at[name][1], at[name][0]))
    start = (room - LINE * len(names)) / 2 + LINE / 2
    for line, name in enumerate(order):
        (x, y), height = at[name], start + LINE * line
        parts.append(f'<path class="faint" d="M{x:.1f} {y:.1f}L{NAMES - 6} {height:.1f}"/>')
        text, fit = show(name), ""
        if LETTER * sum(1 + (east_asian_width(mark) in "WF") for mark in text) > NAME:
            fit = f' textLength="{NAME - 4}" lengthAdjust="spacingAndGlyphs"'
        parts.append(f'<text x="{NAMES}" y="{height + 4:.1f}"{fit}>{escape(text)}</text>')
    for name in names:
        (x, y), kind = at[name], "alone" if name in alone else "view"
        parts.append(f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="4.5"/>')
    unit, floor = _round(0.5 * ACROSS / scale), room + BELOW - 8
    parts.append(f'<path class="scale" d="M{EDGE} {floor - 4:.1f}v4h{unit * scale:.1f}v-4"/>')
    end = EDGE + 6 + unit * scale
    parts.append(f'<text class="unit" x="{end:.1f}" y="{floor:.1f}">error {unit:g}</text>')
    size = f"0 0 {NAMES + NAME} {room + BELOW:.0f}"
    drawn = "".join(parts)
    return Markup(
        f'<svg class="plane" viewBox="{size}" role="img" aria-label="{label}">{drawn}</svg>'
    )


def _spread(coordinates: Array) -> tuple[list[Point], float, float]:
    """Places in a box, the units that an error of 1 has, and the height of the box."""
    low, top = coordinates.min(axis=0), coordinates.max(axis=0)
    # Differences of rounding are not drawn large, and no picture is much higher than it is wide.
    reach = np.maximum(top - low, 0.0)
    scale = ACROSS / max(float(reach[0]), 0.1)
    high = float(reach[1]) * scale + 2 * EDGE
    places = (coordinates - (low + top) / 2) * [scale, -scale] + [EDGE + ACROSS / 2, high / 2]
    return [(float(x), float(y)) for x, y in places], scale, high


def _halo(points: Sequence[Point]) -> str:
    """A soft shape around the views of a cluster; nothing around a view on its own."""
    if len(points) < 2:
        return ""
    path = "L".join(f"{x:.1f} {y:.1f}" for x, y in _hull(points))
    return f'<path class="halo" d="M{path}z"/>'


def _hull(points: Sequence[Point]) -> list[Point]:
    """The corners of the smallest convex shape around points (Andrew's monotone chain).

    >>> _hull([(0, 0), (2, 0), (1, 0.5), (1, 2), (0, 0)])
    [(0, 0), (2, 0), (1, 2)]
    """

    def half(some: Sequence[Point]) -> list[Point]:
        corners = list[Point]()
        for x, y in some:
            while len(corners) > 1:
                (ax, ay), (bx, by) = corners[-2:]
                if (bx - ax) * (y - ay) > (by - ay) * (x - ax):
                    break
                corners.pop()
            corners.append((x, y))
        return corners

    ordered = sorted(set(points))
    return [*half(ordered)[:-1], *half(ordered[::-1])[:-1]] or ordered


def _round(length: float) -> float:
    """The largest of 1, 2 and 5 times a power of ten that is not above a length.

    >>> _round(0.31), _round(0.07)
    (0.2, 0.05)
    """
    scale = 10.0 ** math.floor(math.log10(length))
    best = max(times for times in (1, 2, 5) if times * scale <= length * (1 + 1e-9))
    return float(f"{best * scale:.6g}")
