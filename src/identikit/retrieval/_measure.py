"""Measures of rankings over queries: means, paired differences to staying, slices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from identikit._linalg import Array
from identikit.retrieval._intervals import (
    FEW,
    LEAST_QUERIES,
    differing,
    drawn_counts,
    means,
    simultaneous,
)
from identikit.retrieval._scores import (
    MEASURES,
    Judgments,
    judged_measures,
    overlap,
    overlap_within,
)
from identikit.retrieval._search import Rows
from identikit.retrieval.migration_result import Interval, Slice, Value

#: For each option, what each measure is for each query.
PerQuery = dict[str, dict[str, Array]]


def per_query(
    rankings: Mapping[str, Rows], reference: Rows, judgments: Judgments | None, k: int
) -> PerQuery:
    """Every measure of every query; NaN where a query has no relevant document."""
    found: PerQuery = {}
    for name, ranking in rankings.items():
        judged = {} if judgments is None else judged_measures(ranking, judgments, k)
        found[name] = judged | {"overlap": overlap(ranking, reference, k)}
    return found


def values(measured: PerQuery, resamples: int, seed: int) -> dict[str, dict[str, Value]]:
    """Means over queries and paired differences to "stay", with intervals."""
    names = list(measured)
    found: dict[str, dict[str, Value]] = {name: {} for name in names}
    stay = measured["stay"]
    for measure in stay:
        columns = np.column_stack([measured[name][measure] for name in names])
        there = ~np.isnan(columns[:, 0])
        columns, base = columns[there], stay[measure][there]
        counts = drawn_counts(len(base), resamples, [seed, 3])
        of, than = means(columns, counts), means(columns - base[:, None], counts, alike=True)
        for place, name in enumerate(names):
            found[name][measure] = Value(
                float(of.value[place]),
                interval(of.low[place], of.high[place]),
                None if name == "stay" else float(than.value[place]),
                None if name == "stay" else interval(than.low[place], than.high[place]),
            )
    return found


def by_query(measured: PerQuery, labels: NDArray[np.str_], measure: str) -> dict[str, Array]:
    """For each label the measure of its queries, a column for each option."""
    columns = np.column_stack([each[measure] for each in measured.values()])
    there = ~np.isnan(columns[:, 0])
    return {str(label): columns[there & (labels == label)] for label in np.unique(labels[there])}


def by_document(
    rankings: Mapping[str, Rows],
    reference: Rows,
    judgments: Judgments | None,
    labels: NDArray[np.str_],
    k: int,
) -> dict[str, Array]:
    """For each label what is found of its documents, a column for each option.

    With judgments it is nDCG if only the documents with the label are relevant, and otherwise the
    share of those among re-embedding's top k. Queries without such a document are left out.
    """
    found = {}
    for label in np.unique(labels):
        inside = labels == label
        if judgments is None:
            columns = [overlap_within(each, reference, k, inside) for each in rankings.values()]
        else:
            counted = judgments.within(inside)
            if not len(counted.queries):
                continue
            columns = [judged_measures(each, counted, k)["ndcg"] for each in rankings.values()]
        part = np.column_stack(columns)
        part = part[~np.isnan(part[:, 0])]
        if len(part):
            found[str(label)] = part
    return found


def in_slices(
    names: Sequence[str], parts: Mapping[str, Array], measure: str, resamples: int, seed: int
) -> tuple[Slice, ...]:
    """Each option in each slice, and each option's worst slice.

    Slices of documents share queries; intervals of the worst one are then, if anything, too wide.

    Parameters
    ----------
    names : sequence of str
        The options, "stay" among them.
    parts : mapping
        For each slice, a row for each of its queries and a column for each option.
    """
    labels, columns = list(parts), list(parts.values())
    counts = [
        drawn_counts(len(part), resamples, [seed, 4, number]) for number, part in enumerate(columns)
    ]
    gaps = [part - part[:, [list(names).index("stay")]] for part in columns]
    of = [means(part, count) for part, count in zip(columns, counts)]
    than = [means(gap, count, alike=True) for gap, count in zip(gaps, counts)]
    large = [place for place, part in enumerate(columns) if len(part) >= LEAST_QUERIES]
    joint = simultaneous(
        [gaps[place] for place in large], [counts[place] for place in large], alike=True
    )
    found = []
    for column, name in enumerate(names):
        worst = min(large, key=lambda place: than[place].value[column], default=None)
        for place, label in enumerate(labels):
            chosen = name != "stay" and place == worst and len(large) > 1
            wide = joint[large.index(place)] if chosen else than[place]
            value = Value(
                float(of[place].value[column]),
                interval(of[place].low[column], of[place].high[column]),
                None if name == "stay" else float(than[place].value[column]),
                None if name == "stay" else interval(wide.low[column], wide.high[column]),
            )
            found.append(Slice(name, label, len(columns[place]), measure, value, chosen))
    return tuple(found)


def rough(measured: PerQuery, measure: str) -> str | None:
    """A remark if few queries tell an option from staying; None if enough do."""
    stay = measured["stay"][measure]
    there = ~np.isnan(stay)
    names = [name for name in measured if name != "stay"]
    gaps = np.column_stack([measured[name][measure][there] - stay[there] for name in names])
    count, few = len(gaps), {}
    for name, differs in zip(names, differing(gaps).tolist()):
        if differs < min(FEW, count / 2):
            few[name] = differs
    if not few:
        return None
    listed = ", ".join(f"{name} {differs}" for name, differs in few.items())
    return (
        f"Only few of {count:,} queries differ from staying in {MEASURES[measure]} ({listed}); "
        "the intervals of these differences are rough."
    )


def interval(low: float, high: float) -> Interval | None:
    """The ends as numbers; None if there are none."""
    return None if np.isnan(low) else (float(low), float(high))
