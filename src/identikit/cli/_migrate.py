"""`identikit migrate`: the embedding model changed; stay, map, or re-embed?"""

from __future__ import annotations

from pathlib import Path

from identikit.cli import _shared as shared
from identikit.errors import InputError

EXAMPLE = "identikit migrate old.npy new.npy --queries old_q.npy new_q.npy --qrels qrels.txt"


def command(
    old: str,
    new: str,
    queries: tuple[str, str] | None = None,
    qrels: str | None = None,
    slice_: str | None = None,
    metric: str = "cosine",
    k: int = 10,
    n: int = 50,
    id_: str | None = None,
    ids: list[str] | None = None,
    query_id: str | None = None,
    query_ids: list[str] | None = None,
    names: list[str] | None = None,
    fit_rows: int | None = None,
    fit_on_queries: bool = False,
    kinds: str = "rigid,affine",
    drop_zeros: bool = False,
    resamples: int = 1000,
    seed: int = 0,
    save_query_map: Path | None = None,
    save_index_map: Path | None = None,
    report: Path | None = None,
    output: Path | None = None,
    json: bool = False,
    quiet: bool = False,
) -> None:
    """Measure what can be done when the embedding model of a search index changes.

    OLD : The documents' vectors by the old model.
    NEW : The same documents' vectors by the new model.
    --queries OLDQ NEWQ : The queries' vectors by the old and by the new model. Without them, some
        documents stand in for queries, which flatters.
    --qrels FILE : Judgments of documents for queries: the four columns of TREC, or a table (.csv,
        .tsv) whose header names query, document and grade, or three columns of numbers (.npy,
        data.npz::qrels). Queries and documents are named by id, or by row from 0 if there are none.
    --slice COLUMN : A column of the old queries' table or else of the old documents' table, such as
        language, or a file with a label for each query or for each document. Every option is
        measured on the queries of each label too, or on what is found of its documents.
    --metric cosine|dot|l2 : What the index orders documents by.
    --k : How many documents a search returns.
    --n : How many documents are rescored by the new model for each query, after the map.
    --id COLUMN : Pair documents by this column or array of each file, and not by position.
    --ids FILE : Pair documents by ids that are in files of their own. Give the option twice, first
        for OLD.
    --query-id COLUMN : The same for queries.
    --query-ids FILE : The same for queries.
    --names A,B : What the old and the new model are called.
    --fit-rows : How many documents a map is fitted on. These need vectors of the new model. By
        default 10,000, or 20 for each column if that is more.
    --fit-on-queries : Fit maps on queries too, always on others than those that are searched.
    --kinds A,B,... : The kinds of maps to choose from: rigid, affine, low_rank, network (needs the
        extra torch). One replaces a simpler one only where it searches better on documents held
        out, beyond the interval.
    --drop-zeros : Leave documents and queries out whose vector is zero in either model. Without it
        they are an error if the metric is cosine.
    --resamples : How often queries are resampled for the intervals.
    --save-query-map FILE.safetensors : Where to save a map that leads new queries into the old
        index, for `identikit apply`. It is fitted on all documents that maps are fitted on.
    --save-index-map FILE.safetensors : Where to save a map that leads the old index into the new
        space.
    --seed : The seed of folds, samples and resamples.
    """
    from identikit.retrieval import migrate

    for option, files in (("--ids", ids), ("--query-ids", query_ids)):
        if files and len(files) != 2:
            raise InputError(f"{option} was given {len(files)} times; give it for old and for new")
    asked = queries or ()
    inputs = [old, new, *asked, qrels, *(ids or ()), *(query_ids or ())]
    saved = {"--save-query-map": save_query_map, "--save-index-map": save_index_map}
    shared.check_targets(output, report, inputs, others=saved)
    with shared.progress_bar(quiet) as progress:
        found = migrate(
            old,
            new,
            queries=queries,
            qrels=qrels,
            slices=slice_,
            metric=metric,
            k=k,
            n=n,
            ids=shared.choose_ids(id_, ids),
            query_ids=_query_ids(query_id, query_ids),
            names=shared.split_names(names),
            fit_rows=fit_rows,
            fit_on_queries=fit_on_queries,
            kinds=[kind.strip() for kind in kinds.split(",")],
            keep_maps=any(saved.values()),
            drop_zeros=drop_zeros,
            resamples=resamples,
            seed=seed,
            progress=progress,
        )
    for name, target in zip(("queries", "index"), saved.values()):
        if target is not None:
            found.space_maps[name].save(target)
    shared.deliver(found, output=output, report=report, json=json, quiet=quiet)


def _query_ids(column: str | None, files: list[str] | None) -> str | list[str] | None:
    if column is not None and files:
        raise InputError("--query-id and --query-ids both say how queries are paired; give one")
    return column if column is not None else files or None
