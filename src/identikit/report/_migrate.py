"""What is shown of a migration: the verdict, all options in one table, and what lies between."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from identikit.report._shown import BAD, DOUBTFUL, GOOD, Shown, Table, shows
from identikit.report.numbers import ABSENT, number, shortened
from identikit.report.plots import plot_migration
from identikit.report.words import migrate as words

if TYPE_CHECKING:
    from identikit.retrieval import Migration
    from identikit.retrieval.migration_result import Option, Value

#: Titles of the measures, short.
MEASURES = {"ndcg": "nDCG@10", "mrr": "MRR@10", "recall": "recall", "overlap": "overlap"}


@shows("Migration")
def migration(found: Migration) -> Shown:
    """One row an option: means, the paired difference to staying, and vectors to compute."""
    old, new = shortened(found.names, 40).values() if found.names[0] != found.names[1] else ("", "")
    judged = f", {found.judged:,} of them judged" if found.judged else ", none judged"
    asked = "documents in place of queries" if found.stand_ins else f"queries{judged}"
    return Shown(
        "migrate",
        "The embedding model changed: stay, map, or re-embed?",
        words.summary(found),
        [_options(found)],
        partial(plot_migration, found),
        words.HEADLINES[found.verdict.choice],
        GOOD if found else DOUBTFUL if found.stand_ins else BAD,
        facts=[
            f"{old} to {new}",
            f"{found.documents:,} documents",
            f"{found.queries:,} {asked}",
            found.metric,
            f"top {found.k}",
            f"seed {found.seed}",
        ],
        further=[*_slices(found), _half(found), *_calibration(found)],
        reading="Dots are differences to staying over the same queries, with 95 % intervals; the "
        "option of the verdict has the second colour. On the right, new queries search an index of "
        "which a share is new, and the rest is either mapped or left as it was.",
        notes=[words.cost(found), *_maps(found)],
        warnings=[(text, 1) for text in found.warnings],
        warnings_are="remarks",
        methods=[
            (_title(name), f"{text[0].upper()}{text[1:]}.") for name, text in found.methods.items()
        ],
        remark=f"{found.verdict.reason}",
        names=list(found.names),
        version=found.version,
    )


def _title(name: str) -> str:
    return {
        "held_out": "Held out",
        "ndcg": "nDCG and MRR",
        "stand_ins": "Documents in place of queries",
    }.get(name, f"{name[0].upper()}{name[1:]}")


def _options(found: Migration) -> Table:
    measures = list(found.options[0].values)
    lead = found.verdict.measure if found.verdict.measure in measures else measures[0]
    titles = [
        *(MEASURES[name] for name in measures),
        f"{MEASURES[lead]}\ngain (95 %)",
        "documents\nto embed",
        "vectors\na query",
    ]
    rows = [_row(option, measures, lead) for option in found.options]
    last = len(titles)
    spare = [(place,) for place, name in enumerate(measures) if name in ("mrr", "recall")]
    names = [(words.OPTIONS[option.name],) for option in found.options]
    why = [option.why_not for option in found.options if option.why_not]
    return Table(
        ("option",),
        names,
        titles,
        rows,
        styles=["bold" if each.name == found.verdict.choice else "" for each in found.options],
        spare=[*spare, (last - 1,)],
        below="".join(f"No swap: {text}." for text in why),
    )


def _row(option: Option, measures: list[str], lead: str) -> list[str]:
    if option.cost is None:
        return [ABSENT] * (len(measures) + 3)
    return [
        *(number(option.values[name].mean) for name in measures),
        _difference(option.values[lead]),
        f"{option.cost.documents:,}",
        f"{option.cost.per_query:,}",
    ]


def _difference(value: Value) -> str:
    if value.difference is None:
        return ABSENT
    if value.difference_interval is None:
        return f"{value.difference:+.3f}"
    low, high = value.difference_interval
    return f"{value.difference:+.3f} ({low:+.3f} to {high:+.3f})"


def _slices(found: Migration) -> list[Table]:
    if not found.slices:
        return []
    names = [(words.OPTIONS[part.option], part.slice) for part in found.slices]
    rows = [
        [
            f"{part.queries:,}",
            number(part.value.mean),
            _difference(part.value),
            "worst" if part.worst else "",
        ]
        for part in found.slices
    ]
    measure = MEASURES[found.slices[0].measure]
    titles = ("queries", measure, "gain (95 %)", "")
    above = f"Slices of the {found.sliced}"
    return [Table(("option", "slice"), names, titles, rows, above=above)]


def _half(found: Migration) -> Table:
    measures = list(found.options[0].values)
    names = [
        ("the rest mapped" if point.way == "map" else "the rest as it was", f"{point.share:.0%}")
        for point in found.half
    ]
    rows = [[number(point.values[name].mean) for name in measures] for point in found.half]
    titles = [MEASURES[name] for name in measures]
    return Table(("", "new"), names, titles, rows, above="While a share of the index is new")


def _calibration(found: Migration) -> list[Table]:
    rows = found.calibration.rows
    if not rows:
        return []
    options = [name for name in rows[0] if name not in ("threshold", "passing")]
    return [
        Table(
            ("threshold before",),
            [(number(row["threshold"]),) for row in rows],
            [*(words.OPTIONS[name] for name in options), "documents a query\nthat pass"],
            [
                [*(number(row[name]) for name in options), small_count(row["passing"])]
                for row in rows
            ],
            above=f"What a threshold on the {_score(found.metric)} becomes, if as many pairs of a "
            "query and a document shall pass it",
        )
    ]


def small_count(value: float) -> str:
    """A mean count, with two digits if it is small."""
    return f"{value:,.0f}" if value >= 9.5 else f"{value:.2g}"


def _score(metric: str) -> str:
    return {"cosine": "cosine", "dot": "inner product", "l2": "distance"}[metric]


def _maps(found: Migration) -> list[str]:
    what = {0: "queries", 1: "documents"}
    return [
        f"The map of {what[place]}, from {each.source} to {each.target}, is {each.kind}; fitted on "
        f"{each.fitted_on:,} documents, its error on others is {each.error:.3f} (0 is exact, 1 no "
        "better than the mean)."
        for place, each in enumerate(found.maps)
    ]
