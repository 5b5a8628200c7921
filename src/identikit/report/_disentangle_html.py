"""Codes against known factors on one page: every number, the matrices, what was done."""

from __future__ import annotations

from typing import Any

from identikit.factors import METRICS, Disentanglement
from identikit.report._disentangle_figures import MOST_CODES, MOST_FACTORS, matrices_figure
from identikit.report._disentangle_words import TONES, chance, headline, lead, messages, spread
from identikit.report._page import render
from identikit.report._svg import inline

FIGURE_LABEL = (
    "One panel a metric: a matrix of codes, from top to bottom, and factors, from left to right. "
    "Stronger colours are larger. The numbers are in the JSON document."
)


def disentangle_html(found: Disentanglement) -> str:
    """Render codes against known factors as one HTML page.

    Parameters
    ----------
    found : Disentanglement
        The result to show.
    """
    from markupsafe import Markup

    figure = matrices_figure(found)
    says = headline(found)
    return render(
        "disentangle.html.j2",
        version=found.version,
        found=found,
        headline=says,
        sentence=lead(found),
        tone=TONES[says],
        metrics=[_metric(name, found) for name in found.scores],
        messages=messages(found),
        svg=None if figure is None else Markup(inline(figure, FIGURE_LABEL, "identikit-0")),
        most=(MOST_CODES, MOST_FACTORS),
    )


def _metric(name: str, found: Disentanglement) -> dict[str, Any]:
    score = found.scores[name]
    return {
        "about": METRICS[name],
        "score": score,
        "parts": [
            {"part": part, "value": spread(part), "chance": chance(part.chance)}
            for part in score.parts
        ],
    }
