"""The embedding model changed: what can be done, measured on one index."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import ArrayLike

from identikit._progress import Progress, silent
from identikit._version import __version__
from identikit.errors import InputError
from identikit.retrieval._calibration import calibrated
from identikit.retrieval._inputs import LEAST_DOCUMENTS, Inputs, opened
from identikit.retrieval._measure import (
    PerQuery,
    by_document,
    by_query,
    in_slices,
    per_query,
    rough,
    values,
)
from identikit.retrieval._options import OPTIONS, Found, search_all
from identikit.retrieval._plan import KINDS, SHARES, drawn_plan
from identikit.retrieval._scores import CUT
from identikit.retrieval._slices import QUERIES
from identikit.retrieval._verdict import (
    agreement_verdict,
    judged_verdict,
    pairing_in_doubt,
    without_queries,
)
from identikit.retrieval.migration_result import (
    CHECK_PAIRING,
    FLATTERS,
    Cost,
    Half,
    MapUsed,
    Migration,
    Option,
    Slice,
    Value,
    Verdict,
)

#: Fewer resamples do not give the ends of a 95 % interval.
LEAST_RESAMPLES = 200


def migrate(
    old: object,
    new: object,
    *,
    queries: Sequence[object] | None = None,
    qrels: object = None,
    slices: str | ArrayLike | None = None,
    metric: str = "cosine",
    k: int = 10,
    n: int = 50,
    ids: str | Sequence[object] | None = None,
    query_ids: str | Sequence[object] | None = None,
    names: Sequence[str] | None = None,
    fit_rows: int | None = None,
    fit_on_queries: bool = False,
    kinds: Sequence[str] = KINDS,
    keep_maps: bool = False,
    drop_zeros: bool = False,
    resamples: int = 1000,
    seed: int = 0,
    progress: Progress | None = None,
) -> Migration:
    """Measure what can be done when the embedding model of a search index changes.

    The options are *stay* (old queries on old vectors), *swap* (new queries on old vectors),
    *map-queries* (new queries mapped into the old index), *map-index* (the old index mapped into
    the new space), *map-rescore* (the best n of map-queries, rescored by the new model) and
    *re-embed*. All are searched exactly, on the same index and with the same queries. Maps are held
    out: every document meets a map that was fitted on other documents.

    For each option: overlap@k, the share of re-embedding's top k that it finds; with judgments
    nDCG@10 (Järvelin and Kekäläinen 2002, the grade as the gain), MRR@10 and recall@k; paired
    differences to *stay* with 95 % intervals by resampling queries; and the vectors to compute.

    Parameters
    ----------
    old, new : array or path
        The documents' vectors by the old and the new model.
    queries : pair of array or path, optional
        The queries' vectors by the old and the new model. Without them, some documents stand in for
        queries, which flatters, and the verdict is that it cannot say.
    qrels : array, data frame or path, optional
        Judgments (query, document, grade): TREC's four columns, a table with a header, or three
        columns of numbers. Queries and documents are named by id, or without ids by row, from 0.
    slices : str or array, optional
        Measure on parts too. The name of a column, which is looked for in the old queries' table
        and then in the old documents'; or labels of all queries or of all documents, or a file of
        them. A slice of queries is these queries. A slice of documents is all queries, of which
        only documents with the label count: as relevant, or without judgments as what re-embedding
        finds. If documents stand in for queries, their labels are those of queries.
    metric : str
        cosine, dot or l2: what the index orders documents by. With cosine, vectors may have any
        length.
    k : int
        How many documents a search returns.
    n : int
        How many documents *map-rescore* embeds and rescores for every query.
    ids, query_ids : str or sequence, optional
        Pair the rows of documents (of queries) by these ids and not by position: the name of a
        column, or ids of both models, [ids_old, ids_new].
    names : sequence of str, optional
        Names of the old and the new model.
    fit_rows : int, optional
        The number of documents that a map is fitted on: these have to be embedded with the new
        model even if the index is not. By default 10,000, or 20 for each column if that is more.
    fit_on_queries : bool
        Fit maps on queries too, always on others than those that are searched.
    kinds : sequence of str
        The kinds of maps to choose from; see `fit_space_map`. One replaces a simpler one only where
        it searches better on documents held out, beyond the interval.
    keep_maps : bool
        Fit both maps once more on all documents to fit on, for use: `found.space_maps["queries"]`
        leads new queries into the old index, and `found.space_maps["index"]` the old index into the
        new space. `save` writes a file for `identikit apply`.
    drop_zeros : bool
        With cosine, leave documents and queries out whose vector is zero in either model, and say
        how many. Otherwise they are an error, as they have no direction.
    resamples : int
        How often queries are resampled.
    seed : int
    progress : callable, optional
        Called with what is done, how much of it, and how much there is.

    Returns
    -------
    Migration

    Examples
    --------
    >>> import numpy as np, identikit as ik
    >>> rng = np.random.default_rng(0)
    >>> turn = np.linalg.qr(rng.normal(size=(8, 8)))[0]
    >>> documents, queries = rng.normal(size=(400, 8)), rng.normal(size=(60, 8))
    >>> found = ik.migrate(documents, documents @ turn, queries=(queries, queries @ turn))
    >>> [option.name for option in found.options if option.values["overlap"].mean > 0.99]
    ['stay', 'map-queries', 'map-index', 'map-rescore', 're-embed']
    >>> found.verdict.choice
    'stay'
    """
    depth = max(k, CUT)
    _check_numbers(k, n, depth, resamples, fit_rows)
    if fit_on_queries and queries is None:
        raise InputError("there are no queries to fit maps on; give queries too (queries=)")
    tell = silent if progress is None else progress
    with opened(
        old, new, queries, qrels, slices, metric, ids, query_ids, names, drop_zeros, seed
    ) as inputs:
        most = inputs.old.rows - (inputs.own is not None)
        if depth > most:
            raise InputError(f"a search can return {most} documents here; k is {k}")
        n = min(n, most)
        plan = drawn_plan(inputs, fit_rows, fit_on_queries, seed)
        found = search_all(inputs, metric, depth, n, plan, kinds, keep_maps, tell, seed)
        measured = _in_order(per_query(found.rankings, found.rankings["re-embed"],
                                       inputs.judgments, k))  # fmt: skip
        verdict = _verdict(inputs, found, measured, k / most, resamples, seed)
        measure = "overlap" if inputs.judgments is None else "ndcg"
        judged = next(iter(measured.values())).get("ndcg")
        return Migration(
            version=__version__,
            names=(inputs.old.name, inputs.new.name),
            widths=(inputs.old.width, inputs.new.width),
            documents=inputs.old.rows,
            queries=len(inputs.old_queries),
            judged=0 if judged is None else int((~np.isnan(judged)).sum()),
            stand_ins=inputs.own is not None,
            fitted_on_queries=fit_on_queries,
            metric=metric,
            k=k,
            n=n,
            resamples=resamples,
            seed=seed,
            pairing=inputs.pairing,
            query_pairing=inputs.query_pairing,
            verdict=verdict,
            options=_options(inputs, found, values(measured, resamples, seed), n),
            sliced=None if inputs.slices is None else inputs.slices.of,
            slices=_slices(inputs, found, measured, measure, k, resamples, seed),
            half=_half(inputs, found, measured, k, resamples, seed),
            maps=_maps(inputs, found),
            calibration=calibrated(found.scores, metric, inputs.old.rows),
            per_query=measured,
            space_maps=found.space_maps,
            warnings=tuple(_warnings(inputs, verdict, rough(measured, measure))),
        )


def _check_numbers(k: int, n: int, depth: int, resamples: int, fit_rows: int | None) -> None:
    if k < 1:
        raise InputError(f"k is {k}; a search returns at least 1 document")
    if n < depth:
        raise InputError(
            f"n is {n}, but the top {depth} is looked at; rescore at least {depth} documents"
        )
    if resamples < LEAST_RESAMPLES:
        raise InputError(f"there are {resamples} resamples; give at least {LEAST_RESAMPLES}")
    if fit_rows is not None and fit_rows < LEAST_DOCUMENTS // 2:
        raise InputError(
            f"a map cannot be fitted on {fit_rows} documents; give at least {LEAST_DOCUMENTS // 2}"
        )


def _in_order(measured: PerQuery) -> PerQuery:
    return {name: measured[name] for name in OPTIONS if name in measured}


def _verdict(
    inputs: Inputs, found: Found, measured: PerQuery, chance: float, resamples: int, seed: int
) -> Verdict:
    overlaps = {name: each["overlap"] for name, each in measured.items()}
    doubt = pairing_in_doubt(overlaps["stay"], chance, found.errors, resamples, seed)
    if doubt is not None:
        return doubt
    if inputs.judgments is None:
        verdict = agreement_verdict(overlaps, resamples, seed)
        return verdict if inputs.own is None else without_queries(verdict)
    there = ~np.isnan(measured["stay"]["ndcg"])
    return judged_verdict(
        {name: each["ndcg"][there] for name, each in measured.items()}, resamples, seed
    )


def _options(
    inputs: Inputs, found: Found, values_of: dict[str, dict[str, Value]], n: int
) -> tuple[Option, ...]:
    fitted = found.plan.fitted_on
    costs = {
        "stay": Cost(0, 1, 0),
        "swap": Cost(0, 1, 0),
        "map-queries": Cost(fitted, 1, fitted),
        "map-index": Cost(fitted, 1, fitted),
        "map-rescore": Cost(fitted, 1 + n, fitted),
        "re-embed": Cost(inputs.old.rows, 1, 0),
    }
    why_not = (
        f"the old vectors have {inputs.old.width} columns and the new queries {inputs.new.width}"
    )
    return tuple(
        Option(name, values_of[name], costs[name])
        if name in values_of
        else Option(name, {}, None, why_not)
        for name in OPTIONS
    )


def _slices(
    inputs: Inputs,
    found: Found,
    measured: PerQuery,
    measure: str,
    k: int,
    resamples: int,
    seed: int,
) -> tuple[Slice, ...]:
    if inputs.slices is None:
        return ()
    names, labels = list(measured), inputs.slices.labels
    if inputs.slices.of == QUERIES:
        parts = by_query(measured, labels, measure)
    else:
        rankings = {name: found.rankings[name] for name in names}
        parts = by_document(rankings, rankings["re-embed"], inputs.judgments, labels, k)
    return in_slices(names, parts, measure, resamples, seed)


def _half(
    inputs: Inputs, found: Found, measured: PerQuery, k: int, resamples: int, seed: int
) -> tuple[Half, ...]:
    reference = found.rankings["re-embed"]
    points = []
    for way, rankings in found.mixed.items():
        named = {f"{share}": ranking for share, ranking in zip(SHARES, rankings)}
        of = per_query(named, reference, inputs.judgments, k)
        values_of = values({"stay": measured["stay"], **of}, resamples, seed)
        points += [Half(way, share, values_of[f"{share}"]) for share in SHARES]
    return tuple(points)


def _maps(inputs: Inputs, found: Found) -> tuple[MapUsed, ...]:
    old, new = inputs.old.name, inputs.new.name
    ways = {"queries": (new, old), "index": (old, new)}
    return tuple(
        MapUsed(*ways[name], found.kinds[name], found.errors[name], found.plan.fitted_on)
        for name in ways
    )


def _warnings(inputs: Inputs, verdict: Verdict, few: str | None) -> Iterator[str]:
    if verdict.choice == CHECK_PAIRING:
        yield verdict.reason
    if few is not None:
        yield few
    if any(inputs.dropped):
        lost = inputs.dropped
        yield (
            f"{lost.documents:,} documents and {lost.queries:,} queries are zeros in one of the "
            f"models and were left out, with {lost.judgments:,} judgments of them."
        )
    if inputs.own is not None:
        yield f"{FLATTERS[0].upper()}{FLATTERS[1:]}."
    judgments = inputs.judgments
    if judgments is None:
        return
    for count, what in (
        (judgments.unknown_queries, "queries"),
        (judgments.unknown_documents, "documents"),
    ):
        if count:
            yield f"{count:,} judgments are of {what} that are not there, and were left out."
    without = len(inputs.old_queries) - int(judgments.judged(len(inputs.old_queries)).sum())
    if without:
        yield f"{without:,} queries have no relevant document; judged measures leave them out."
