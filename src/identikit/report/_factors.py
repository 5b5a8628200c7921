"""What is shown of codes against known factors, and against the latents of a world."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from identikit.factors import METRICS, Disentanglement
from identikit.report._audit import ERROR
from identikit.report._heat import MOST_CODES, MOST_FACTORS
from identikit.report._shown import BAD, DOUBTFUL, GOOD, Shown, Table, shows
from identikit.report._svg import inline
from identikit.report.numbers import number, spread
from identikit.report.plots import plot_factors, plot_ladder
from identikit.report.words import factors as words
from identikit.report.words.audit import RUNGS, standing

if TYPE_CHECKING:
    from identikit.worlds import Score

FIGURE_LABEL = (
    "One panel a metric: a matrix of codes, from top to bottom, and factors, from left to right. "
    "Stronger colours are larger. The numbers are in the JSON document."
)


@shows("Disentanglement")
def factors(found: Disentanglement) -> Shown:
    """MCC beside what it has to be read against, and every metric with its chance level."""
    headline = words.headline(found)
    names, rows = [], []
    for name, score in found.scores.items():
        title, several = METRICS[name].title, len(score.parts) > 1
        if several:
            names.append((title,))
            rows.append(("", "", "", ""))
        for part in score.parts:
            names.append((f"  {part.name}" if several else title,))
            chance = words.chance_level(part.chance)
            cells = words.part_value(part), chance, number(part.adjusted, 2), f"{score.n:,}"
            rows.append(cells)
    titles = ("value (95 %)", "chance (95 %)", "adjusted", "rows")
    return Shown(
        "disentangle",
        f"Do these {len(found.codes)} codes have an axis for each of {len(found.factors)} known "
        "factors?",
        words.summary(found),
        [Table(("metric",), names, titles, rows, words=2)],
        partial(plot_factors, found),
        headline,
        {words.ALIGNED: GOOD, words.CHANCE: BAD}.get(headline, DOUBTFUL),
        facts=[
            f"{found.rows:,} rows",
            f"{len(found.codes)} codes",
            f"{len(found.factors)} factors",
            "as in the field's own implementations" if found.preset else "held out",
            f"seed {found.seed}",
        ],
        warnings=[(text, 1) for text in words.left_out(found)],
        warnings_are="remarks",
        names=[factor.name for factor in found.factors],
        template="disentangle.html.j2",
        values=partial(_page, found),
        version=found.version,
    )


def _page(found: Disentanglement) -> dict[str, Any]:
    from markupsafe import Markup

    figure = plot_factors(found)
    return {
        "result": found,
        "metrics": [
            {
                "about": METRICS[name],
                "score": score,
                "parts": [
                    {
                        "part": part,
                        "value": words.part_value(part),
                        "chance": words.chance_level(part.chance),
                    }
                    for part in score.parts
                ],
            }
            for name, score in found.scores.items()
        ],
        "matrices": None if figure is None else Markup(inline(figure, FIGURE_LABEL, "identikit-0")),
        "most": (MOST_CODES, MOST_FACTORS),
    }


@shows("Score")
def score(found: Score) -> Shown:
    """The rung, what of each block is there, and whether the axes are."""
    rows = [((name,), ["R², held out", number(value)]) for name, value in found.r2.items()]
    rows.append((("axes",), ["MCC, held out", number(found.mcc)]))
    if found.rotation is not None:
        rows.append((("axes",), ["MCC of a random rotation", number(found.rotation)]))
    rows += [
        ((rung.group,), ["error, held out", spread(rung.error, rung.interval)])
        for rung in found.ladder
    ]
    names, cells = zip(*rows)
    return Shown(
        "score",
        "Which of a world's latents have the codes found, and up to what?",
        words.of_world(found),
        [Table(("of",), names, ["measure", "value"], cells, words=1)],
        lambda: plot_ladder(found.pair),
        f"Codes and latents agree best {RUNGS[found.group].up_to}",
        standing(found.pair).replace(" ", "-"),
        reading="The held-out error of the best map of each rung between codes and latents.",
        warnings=[(text, 1) for text in found.pair.warnings],
        methods=[
            ("Error", ERROR),
            ("R²", "Of the latents of each block, held out, by a linear map of the codes."),
            (
                "MCC",
                "The mean correlation of latents with codes, matched one to one, held out. An MCC "
                "no higher than that of a random rotation of the latents says that the axes were "
                "not found, however high it is.",
            ),
        ],
    )
