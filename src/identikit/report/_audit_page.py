"""The page of an audit: every pair at a glance, who belongs together, pair by pair, in numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from identikit.auditing.result import Audit, Pair
from identikit.report._clusters_svg import LETTERS, plane_svg, tree_svg
from identikit.report._pair_svg import pair_svg
from identikit.report.drawing import MAX_POINTS
from identikit.report.layer_names import Side, two_models
from identikit.report.numbers import (
    isolated,
    number,
    percent,
    percents,
    shortened,
    with_interval,
)
from identikit.report.words import audit as words
from identikit.report.words import clusters as cluster_words
from identikit.similarity import Scored

#: Pairs that get a figure, the worst and those nearest to the tolerance: with 20 views there are
#: 190 pairs, and a page must stay a page.
WORST, NEAREST = 20, 10
#: Views from which on the cells of the matrix are narrow, and those from which on they have room
#: for nothing but the error.
NARROW, TINY = 7, 15
#: Pairs that are named behind a warning that others have in other numbers.
ALIKE = 3
PLANE_LABEL = "The views in a plane, with their names; the errors are in the matrix above."
FIGURE_LABEL = (
    "Three panels: the held-out error of every rung of maps, the canonical correlations beside "
    "their chance level, and the aligned rows. The numbers are in the tables of this page."
)


def page_of(audit: Audit, pairs: list[Pair]) -> dict[str, Any]:
    """What the page of an audit needs besides: every pair at a glance, one by one, in numbers."""
    # Over the range of the errors: from 1 on all are as bad, and below the tolerance as good.
    top = min(1.0, max(audit.settings.tolerance, *(pair.error for pair in pairs)))
    names = [view.name for view in audit.views]
    show = isolated(names)
    drawn = _figures(pairs, audit.settings.tolerance)
    targets = {id(pair): f"pair-{index}" for index, pair in enumerate(drawn)}
    cells = _cells_of(pairs, top, targets)
    several, order = len(names) > 2, audit.clusters.order
    brief = shortened(names, LETTERS).__getitem__
    sides = two_models(names)
    return {
        "audit": audit,
        "settings": audit.settings,
        "sentence": cluster_words.summary(audit, show),
        "reductions": words.reductions(audit.views, show),
        "order": order,
        "matrix": [[cells.get((row, column)) for column in order] for row in order],
        "size": " tiny" if len(names) >= TINY else " many" if len(names) >= NARROW else "",
        "top": number(top, 2),
        "tree": tree_svg(audit) if several else None,
        "plane": plane_svg(audit, brief, PLANE_LABEL) if several else None,
        "in_plane": percent(audit.clusters.in_plane),
        "clusters": _clusters(audit) if several else [],
        "layers": sides and _layers(sides, cells),
        "cards": [_card(audit, pair, targets[id(pair)]) for pair in drawn],
        "worst": min(WORST, len(drawn)),
        "pairs": pairs,
        "numbers": _numbers(pairs),
        "warnings": warnings_of(pairs, show),
        "rungs": words.UP_TO,
        "ica": any(pair.ica for pair in pairs),
        "max_points": MAX_POINTS,
    }


def _figures(pairs: list[Pair], tolerance: float) -> list[Pair]:
    """The pairs that get a figure, from the worst to the best."""
    near = sorted(pairs[WORST:], key=lambda pair: abs(pair.error - tolerance))[:NEAREST]
    chosen = {id(pair) for pair in (*pairs[:WORST], *near)}
    return [pair for pair in pairs if id(pair) in chosen]


def warnings_of(pairs: Sequence[Pair], show: Callable[[str], str]) -> list[tuple[str, int]]:
    """The warnings, one a check: that of the most pairs, their number, and who has one like it."""
    by_check: dict[str, dict[str, list[Pair]]] = {}
    for pair in pairs:
        for check in pair.checks:
            if not check.ok:
                by_check.setdefault(check.name, {}).setdefault(check.message, []).append(pair)
    found = []
    for messages in by_check.values():
        (text, own), *others = sorted(messages.items(), key=lambda item: -len(item[1]))
        alike = [pair for _, more in others for pair in more]
        if alike:
            named = "; ".join(f"{show(pair.a)} and {show(pair.b)}" for pair in alike[:ALIKE])
            more = f" and {len(alike) - ALIKE} more pairs" if len(alike) > ALIKE else ""
            text = f"{text} Likewise, in other numbers: {named}{more}."
        found.append((text, len(own)))
    return sorted(found, key=lambda item: -item[1])


def _cells_of(
    pairs: list[Pair], top: float, targets: dict[int, str]
) -> dict[tuple[str, str], dict[str, Any]]:
    """The cell of each pair in a matrix, under its two names in either order."""
    cells = {}
    for index, pair in enumerate(pairs):
        cells[pair.a, pair.b] = cells[pair.b, pair.a] = {
            "error": with_interval(pair.error, pair.interval)[0],
            "brief": number(min(pair.error, 9.99), 2),
            "variance": percent(pair.variance),
            "group": pair.group,
            "shade": min(1.0, pair.error / top),
            "target": targets.get(id(pair), f"row-{index}"),
            "size": pair.error,
        }
    return cells


def _clusters(audit: Audit) -> list[dict[str, Any]]:
    """The clusters of a table: at the gap, then those at the tolerance, with two views or more."""
    found = audit.clusters
    rows = []
    for kind, some in (("gap", found.at_gap), ("tolerance", found.at_tolerance)):
        for one in some:
            if one.error is not None and one.variance is not None:
                low, high = (number(end) for end in one.error)
                rows.append(
                    {
                        "kind": kind,
                        "views": one.views,
                        "group": one.group,
                        "error": low if low == high else f"{low} to {high}",
                        "variance": percents(*one.variance),
                    }
                )
    return rows


def _layers(
    sides: tuple[Side, Side], cells: dict[tuple[str, str], dict[str, Any]]
) -> dict[str, Any]:
    """The matrix of all layers of one model against all of the other."""
    rows = []
    for layer, view in zip(sides[0].layers, sides[0].views):
        line = [cells.get((view, other)) for other in sides[1].views]
        least = min((cell["size"] for cell in line if cell), default=None)
        rows.append((layer, [(cell, cell and cell["size"] == least) for cell in line]))
    return {"a": sides[0].model, "b": sides[1].model, "across": sides[1].layers, "rows": rows}


def _card(audit: Audit, pair: Pair, target: str) -> dict[str, Any]:
    held_out = pair.cca.held_out_interval
    return {
        "pair": pair,
        "id": target,
        "standing": words.standing(pair),
        "error": with_interval(pair.error, pair.interval),
        "variance": percent(pair.variance),
        "blocked": pair.blocked and with_interval(pair.blocked.error, pair.blocked.interval),
        "held_out_interval": None if held_out is None else [number(end) for end in held_out],
        "ladder": [
            (
                rung,
                [
                    with_interval(rung.error, rung.interval),
                    with_interval(rung.forward, rung.forward_interval),
                    with_interval(rung.backward, rung.backward_interval),
                ],
                rung.group == pair.group,
            )
            for rung in (*pair.ladder, *([pair.ica.rung] if pair.ica else []))
        ],
        "measures": _measures(pair),
        "ica": pair.ica and with_interval(pair.ica.rung.error, pair.ica.rung.interval),
        "svg": pair_svg(pair, audit.settings.tolerance, FIGURE_LABEL),
    }


def _measures(pair: Pair) -> list[tuple[str, tuple[str, ...] | None]]:
    """Every measure of a pair: value with interval, chance with its band, calibrated value, p."""
    return [
        (_title(key), None if scored is None else _cells(scored))
        for key, scored in pair.measures.items()
    ]


def _cells(scored: Scored) -> tuple[str, ...]:
    sure = "" if scored.interval is None else "({} to {})".format(*map(number, scored.interval))
    band = "({} to {})".format(*map(number, scored.band))
    return (
        *(number(scored.value), sure, number(scored.chance), band),
        *(number(scored.calibrated), number(scored.p)),
    )


def _title(key: str) -> str:
    return key.replace("_", " ")


def _numbers(pairs: list[Pair]) -> dict[str, Any]:
    """The table of all numbers: titled columns, and a row of values for every pair."""
    present = {rung.group for pair in pairs for rung in pair.ladder}
    rungs = [group for group in words.UP_TO if group in present]
    ica = any(pair.ica for pair in pairs)
    measures = list(dict.fromkeys(key for pair in pairs for key in pair.measures))
    others = [key for key in measures if key not in ("cca", "cka")]
    columns = [
        ("verdict", ["error", "low", "high", "variance"]),
        ("error by rung", rungs),
        ("after ICA", ["error", "random rotation"] if ica else []),
        ("CCA", ["mean", "held out", "chance", "adjusted R²", "rank"]),
        ("CKA", ["biased", "debiased", "chance"]),
        ("other measures", [_title(key) for key in others]),
        ("calibrated", [_title(key) for key in measures]),
    ]
    rows = []
    for pair in pairs:
        errors = {rung.group: rung.error for rung in pair.ladder}
        cca, cka = pair.cca, pair.cka
        after = (pair.ica.rung.error, pair.ica.random_rotation) if pair.ica else (None, None)
        rows.append(
            (
                pair,
                [
                    *(pair.error, *pair.interval, pair.variance),
                    *map(errors.get, rungs),
                    *(after if ica else ()),
                    *(cca.mean, cca.held_out, cca.chance, cca.adjusted_r2, cca.rank),
                    *(cka.value, cka.debiased, cka.chance),
                    *(scored and scored.value for scored in map(pair.measures.get, others)),
                    *(scored and scored.calibrated for scored in map(pair.measures.get, measures)),
                ],
            )
        )
    return {"columns": [column for column in columns if column[1]], "rows": rows}
