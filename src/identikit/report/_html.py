"""An audit on one page: every pair at a glance, then one by one, then in numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from identikit.auditing.result import Audit, Pair
from identikit.report._order import shared, worst_first
from identikit.report._page import render
from identikit.report._svg import inline
from identikit.report._words import GROUPS, compose, headline, reductions, standing
from identikit.report.drawing import MAX_POINTS
from identikit.report.numbers import isolated, number, with_interval
from identikit.report.plots import plot_pair
from identikit.similarity import Scored

# Pairs that get a figure; with 20 views there are 190 pairs, and a page must stay a page.
MAX_FIGURES = 30
FIGURE_LABEL = (
    "Three panels: the held-out error of every group of maps, the canonical correlations beside "
    "their chance level, and the aligned rows. The numbers are in the tables of this page."
)


def html(audit: Audit, story: Sequence[str] = ()) -> str:
    """Render an audit as one HTML page.

    Parameters
    ----------
    audit : Audit
        The result to show.
    story : sequence of str
        A headline and paragraphs to open with; the verdict's own sentence then comes last.
    """
    pairs = worst_first(audit)
    # Over the range of the errors: from 1 on all are as bad, and below the tolerance as good.
    top = min(1.0, max(audit.settings.tolerance, *(pair.error for pair in pairs)))
    show = isolated(view.name for view in audit.views)
    return render(
        "audit.html.j2",
        names=[view.name for view in audit.views],
        version=audit.version,
        audit=audit,
        settings=audit.settings,
        headline=story[0] if story else headline(audit.verdict, len(audit.views)),
        story=story[1:],
        standing=standing(audit.verdict),
        sentence=compose(
            audit.verdict, audit.rows, len(audit.views), audit.settings.tolerance, show
        ),
        reductions=reductions(audit.views, show),
        matrix=_matrix(audit, pairs, top),
        top=number(top, 2),
        cards=[_card(audit, pair, index) for index, pair in enumerate(pairs[:MAX_FIGURES])],
        pairs=pairs,
        numbers=_numbers(pairs),
        warnings=shared(pair.warnings for pair in pairs),
        groups=GROUPS,
        ica=any(pair.ica for pair in pairs),
        max_points=MAX_POINTS,
    )


def _matrix(audit: Audit, pairs: list[Pair], top: float) -> list[list[dict[str, Any] | None]]:
    cells = {}
    for index, pair in enumerate(pairs):
        cell = {
            "error": with_interval(pair.error, pair.interval)[0],
            "group": pair.group,
            "shade": min(1.0, pair.error / top),
            "target": f"pair-{index}" if index < MAX_FIGURES else f"row-{index}",
        }
        cells[pair.a, pair.b] = cells[pair.b, pair.a] = cell
    names = [view.name for view in audit.views]
    return [[cells.get((row, column)) for column in names] for row in names]


def _card(audit: Audit, pair: Pair, index: int) -> dict[str, Any]:
    from markupsafe import Markup

    figure = plot_pair(pair, tolerance=audit.settings.tolerance)
    held_out = pair.cca.held_out_interval
    return {
        "pair": pair,
        "standing": standing(pair),
        "error": with_interval(pair.error, pair.interval),
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
        "svg": Markup(inline(figure, FIGURE_LABEL, f"identikit-{index}")),
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
    rungs = [group for group in GROUPS if group in present]
    ica = any(pair.ica for pair in pairs)
    measures = list(dict.fromkeys(key for pair in pairs for key in pair.measures))
    others = [key for key in measures if key not in ("cca", "cka")]
    columns = [
        ("verdict", ["error", "low", "high"]),
        ("error by group", rungs),
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
                    *(pair.error, *pair.interval),
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
