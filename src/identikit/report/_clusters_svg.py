"""Which views belong together, drawn for pages: the tree beside the matrix, the views in a plane."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from identikit.auditing import Audit

Point = tuple[float, float]

#: Units of the plane: where dots may be, where names begin, and the height of a line of names.
ACROSS, NAMES, LINE = 250, 286, 18
#: Room for one name, and the characters that it takes.
NAME, LETTERS = 150, 22


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
    stem = f'<path class="apart" d="M0 {root:g}h4{paths[False]}"/>'
    return Markup(stem + (f'<path class="together" d="{paths[True]}"/>' if paths[True] else ""))


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
    room = max(210, LINE * len(names) + 12)
    points, scale = _spread(clusters.coordinates, ACROSS - 40, room - 60)
    points = [(20 + x, 20 + y) for x, y in points]
    at = dict(zip(names, points))
    parts = [_halo([at[name] for name in one.views]) for one in clusters.best]
    alone = set(clusters.alone)
    order = sorted(names, key=lambda name: (at[name][1], at[name][0]))
    start = (room - LINE * len(names)) / 2 + LINE / 2
    for line, name in enumerate(order):
        (x, y), height = at[name], start + LINE * line
        parts.append(f'<path class="faint" d="M{x:.1f} {y:.1f}L{NAMES - 6} {height:.1f}"/>')
        parts.append(f'<text x="{NAMES}" y="{height + 4:.1f}">{escape(show(name))}</text>')
    for name in names:
        (x, y), kind = at[name], "alone" if name in alone else "view"
        parts.append(f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="4.5"/>')
    unit = _round(100 / scale)
    parts.append(f'<path class="scale" d="M20 {room - 14}v4h{unit * scale:.1f}v-4"/>')
    parts.append(f'<text class="unit" x="{26 + unit * scale:.1f}" y="{room - 8}">error {unit:g}</text>')
    size = f"0 0 {NAMES + NAME} {room}"
    drawn = "".join(parts)
    return Markup(
        f'<svg class="plane" viewBox="{size}" role="img" aria-label="{label}">{drawn}</svg>'
    )


def _spread(coordinates: Any, wide: float, high: float) -> tuple[list[Point], float]:
    """Places in a box, and the units that an error of 1 has; small differences stay small."""
    low, top = coordinates.min(axis=0), coordinates.max(axis=0)
    reach = np.maximum(top - low, 0.0)
    scale = float(min(wide / max(reach[0], 0.1), high / max(reach[1], 0.1)))
    middle = (low + top) / 2
    places = (coordinates - middle) * [scale, -scale] + [wide / 2, high / 2]
    return [(float(x), float(y)) for x, y in places], scale


def _halo(points: Sequence[Point]) -> str:
    """A soft shape behind the views of a cluster; nothing behind a view on its own."""
    if len(points) < 2:
        return ""
    x, y = (sum(values) / len(points) for values in zip(*points))
    around = sorted(points, key=lambda point: math.atan2(point[1] - y, point[0] - x))
    path = "L".join(f"{x:.1f} {y:.1f}" for x, y in around)
    return f'<path class="halo" d="M{path}z"/>'


def _round(length: float) -> float:
    """The largest of 1, 2 and 5 times a power of ten that is not above a length.

    >>> _round(0.31), _round(0.07)
    (0.2, 0.05)
    """
    scale = 10.0 ** math.floor(math.log10(length))
    best = max(times for times in (1, 2, 5) if times * scale <= length * (1 + 1e-9))
    return float(f"{best * scale:.6g}")
