"""Compared models on one page: each model, every pair in numbers, then one by one."""

from __future__ import annotations

from typing import Any

from identikit.auditing.models_result import (
    BLOCKS,
    CLOSE,
    DIFFERENT,
    ORDER,
    SAME,
    TEMPERATURE,
    TWO_MAPS,
    ModelPair,
    ModelsAudit,
)
from identikit.family import Distances
from identikit.report._models_figures import models_figure
from identikit.report._models_slices import ON_PAGE, chosen, ends, left_out, slices_figure
from identikit.report._models_table import lead, numbers, worst_first
from identikit.report._page import render
from identikit.report._svg import inline, sized
from identikit.report.numbers import isolated, shortened, with_interval

# Pairs that get a figure: a page must stay a page.
MAX_FIGURES = 20
# The page names a tone after each of the audit's three standings; a finding borrows one.
TONES = {
    SAME: "within-tolerance",
    BLOCKS: "above-tolerance",
    TEMPERATURE: "above-tolerance",
    ORDER: "above-tolerance",
    CLOSE: "unrelated",
    TWO_MAPS: "above-tolerance",
    DIFFERENT: "above-tolerance",
}
FIGURE_LABEL = (
    "Six panels: the singular values of the label embeddings, the log-odds of one model against "
    "the other's, the map estimated from f against the one from g, the held-out error of every "
    "rung, the canonical correlations, and the distance of the representations below its "
    "bounds. The numbers are in the tables of this page."
)
SLICES_LABEL = (
    "Two panels: the relative logit gap of every slice, and its KL divergence, with their "
    "intervals. The numbers are in the table above."
)


def models_html(audit: ModelsAudit) -> str:
    """Render compared models as one HTML page.

    Parameters
    ----------
    audit : ModelsAudit
        The result to show.
    """
    pairs = worst_first(audit)
    return render(
        "models.html.j2",
        names=[model.name for model in audit.models],
        version=audit.version,
        audit=audit,
        headline=_headline(audit),
        sentence=lead(audit, isolated(model.name for model in audit.models)),
        tone=TONES[SAME if audit.same else audit.worst.finding],
        pairs=[(pair, list(numbers(pair).items())) for pair in pairs],
        cards=[_card(audit, pair, index) for index, pair in enumerate(pairs[:MAX_FIGURES])],
        tones=TONES,
        ends=ends,
    )


def _headline(audit: ModelsAudit) -> str:
    if audit.same:
        kind = "an affine" if any(model.bias for model in audit.models) else "a linear"
        free = any(left for pair in audit.pairs for left in pair.gauge.free)
        return f"The same models, up to {kind} map{' of what is identified' if free else ''}"
    return {
        BLOCKS: "The same models, but by a map for each block of candidates",
        TEMPERATURE: "The same models, but for a temperature",
        ORDER: "The same models, but for the order of their labels",
        CLOSE: "Close predictions, other embeddings",
        TWO_MAPS: "Related on each side, but not the same models",
    }.get(audit.worst.finding, "Not the same models within the tolerance")


def _card(audit: ModelsAudit, pair: ModelPair, index: int) -> dict[str, Any]:
    from markupsafe import Markup

    by_name = {model.name: model for model in audit.models}
    figure = models_figure(pair, (by_name[pair.a], by_name[pair.b]), audit.tolerance)
    return {
        "pair": pair,
        "embedding": with_interval(pair.embedding.error, pair.embedding.interval),
        "distances": _distances(pair),
        "ladder": [
            (rung, with_interval(rung.error, rung.interval), rung.group == pair.embedding.group)
            for rung in pair.embedding.ladder
        ],
        "svg": Markup(inline(figure, FIGURE_LABEL, f"identikit-{index}")),
        "slices": _slices(audit, pair, index) if pair.slices else None,
    }


def _slices(audit: ModelsAudit, pair: ModelPair, index: int) -> dict[str, Any]:
    rows = chosen(pair.slices, ON_PAGE)
    show = shortened((each.name for _, each in rows), 32)
    figure = slices_figure(pair.slices, audit.tolerance)
    return {
        "rows": [(number, show[each.name], each) for number, each in rows],
        "left_out": left_out(pair.slices, ON_PAGE),
        "svg": sized(figure, SLICES_LABEL, f"identikit-slices-{index}"),
    }


def _distances(pair: ModelPair) -> list[tuple[str, float, str]]:
    """Every distance with its meaning and whether it is exact, sampled or a bound."""
    words = {
        "kl": "KL divergence, a to b",
        "kl_reverse": "KL divergence, b to a",
        "js": "Jensen–Shannon divergence",
        "tv": "total variation",
        "logit": "logit distance",
        "llv": "d_LLV",
        "svd_f": "d_SVD of f",
        "svd_g": "d_SVD of g",
        "representation": "d_fg, the larger of the two",
        "bound": "bound 2Mε on d_fg",
        "sharper_bound": "bound 2ε² on d_fg",
        "certificate": "certificate: d_fg is at most this",
    }
    apart = pair.distances
    rows = [
        (title, float(getattr(apart, name)), apart.kinds[name])
        for name, title in words.items()
        if name in apart.kinds
    ]
    if isinstance(apart, Distances):
        terms = zip(("t1", "t2", "λ t3", "λ t4"), apart.terms)
        rows += [(f"term {name} of d_LLV", term, apart.kinds["llv"]) for name, term in terms]
    return rows
