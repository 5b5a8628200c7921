"""What is shown of codes against known factors, and against the latents of a world."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from identikit.factors import METRICS, Disentanglement
from identikit.report._audit import ERROR
from identikit.report._heat import MOST_CODES, MOST_FACTORS
from identikit.report._shown import BAD, DOUBTFUL, GOOD, Shown, Table, shows
from identikit.report.numbers import number, spread
from identikit.report.plots import plot_factors, plot_ladder
from identikit.report.words import factors as words
from identikit.report.words.audit import UP_TO, standing

if TYPE_CHECKING:
    from identikit.worlds import Score


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
        [Table(("metric",), names, titles, rows)],
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
        reading="Codes from top to bottom and factors from left to right, numbered from 0 as in "
        "the table of factors; the strongest colour is the largest of its panel, and negative "
        "correlations have the second colour. Disentangled codes have one strong cell a row, "
        f"complete ones one a column. Of many, the {MOST_CODES} codes with the largest entries and "
        f"the first {MOST_FACTORS} factors are drawn.",
        further=[_by_factor(found)],
        methods=_methods(found),
        version=found.version,
    )


def _by_factor(found: Disentanglement) -> Table:
    """Each factor, and the values of the metrics that have one for each."""
    each = {name: score.per_factor for name, score in found.scores.items() if score.per_factor}
    rows = [
        [
            factor.kind,
            str(factor.classes or number(None)),
            f"{factor.rows:,}",
            *(number(values.get(factor.name), 2) for values in each.values()),
        ]
        for factor in found.factors
    ]
    return Table(
        ("", "factor"),
        [(str(place), factor.name) for place, factor in enumerate(found.factors)],
        ["kind", "classes", "rows", *(METRICS[name].title for name in each)],
        rows,
        words=1,
        above="Factor by factor",
        below="Whole numbers, words and truth values are discrete unless said otherwise. A metric "
        "that leaves a factor out numbers the others without it.",
    )


def _methods(found: Disentanglement) -> list[tuple[str, str]]:
    """How to read the numbers, and how each was made."""
    said = [
        (
            "Numbers",
            "1 is the best a metric can say, and chance is what the same metric says of permuted "
            "rows; adjusted, (value − chance)/(1 − chance), is 0 at chance. No metric says all: "
            "read how much is there (R², explicitness) beside whether it has axes of its own (MCC, "
            "DCI, MIG, InfoMEC).",
        )
    ]
    for name, score in found.scores.items():
        about = METRICS[name]
        says = f"{about.question} {score.method} Unchanged by: {about.invariant_to}. "
        said.append((about.title, f"{says}{about.reference}."))
    if found.rotation is not None:
        said.append(
            (
                "Arbitrary axes",
                f"{found.rotation.rotations} random rotations, uniform over all, of what the codes "
                "hold (the fits of the factors by least squares from all codes, whitened) and of "
                f"the {found.rotation.factors} factors at variance 1, each scored by Pearson's MCC "
                "like the codes themselves; mean and 95 % range.",
            )
        )
    return [
        *said,
        (
            "Chance",
            "Rows of the factors permuted against those of the codes, and all of the metric done "
            "again; mean and 95 % range, or the smallest and the largest of fewer than 40 "
            "permutations.",
        ),
        (
            "Missing values",
            "A row without a factor's value has no part in that factor's scores, and in all others "
            "it has.",
        ),
    ]


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
        f"Codes and latents agree best {UP_TO[found.group].up_to}",
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
