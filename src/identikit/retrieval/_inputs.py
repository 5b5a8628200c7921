"""What a migration is measured on: documents and queries of two models, judgments and slices."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from identikit._linalg import Array
from identikit.errors import InputError
from identikit.retrieval._judgments import read_judgments
from identikit.retrieval._scores import Judgments
from identikit.retrieval._search import Rows, block_rows
from identikit.retrieval._slices import DOCUMENTS, QUERIES, Labels, Slices, find_labels, placed
from identikit.retrieval._space_map import METRICS
from identikit.sources import (
    BY_POSITION,
    Source,
    is_in_memory,
    open_sources,
    paired,
    picked_rows,
    read_labels,
    view_and_tags,
)
from identikit.sources.whole import read_whole

#: Documents that stand in for queries if there are none: so many, or this share of all.
STAND_INS, STAND_IN_SHARE = 1000, 0.2
#: Fewer documents than this cannot be split into some to fit a map on and others to search.
LEAST_DOCUMENTS = 50


@dataclass(eq=False)
class Inputs:
    """Everything that is measured on; the documents are read in blocks.

    Attributes
    ----------
    old, new : Source
        The documents.
    old_queries, new_queries : array
        The queries, in double precision.
    own : array of int or None
        The documents that stand in for queries; None if there are queries.
    judgments : Judgments or None
    slices : Slices or None
    pairing, query_pairing : str
        How rows were paired.
    dropped : Dropped
        How many rows of zeros were left out.
    """

    old: Source
    new: Source
    old_queries: Array
    new_queries: Array
    own: Rows | None
    judgments: Judgments | None
    slices: Slices | None
    pairing: str
    query_pairing: str
    dropped: Dropped


class Dropped(NamedTuple):
    """How many documents, queries, and judgments of either were left out, as rows of zeros."""

    documents: int = 0
    queries: int = 0
    judgments: int = 0


class Given(NamedTuple):
    """Both models' views of some rows, how they were paired, and which of them are kept."""

    views: list[Source]
    matched: Any
    rows: int
    kept: Rows | None

    @property
    def pairing(self) -> str:
        return BY_POSITION if self.matched is None else str(self.matched)

    @property
    def dropped(self) -> int:
        return 0 if self.kept is None else self.rows - len(self.kept)


@contextmanager
def opened(
    old: Any,
    new: Any,
    queries: Any,
    qrels: Any,
    slices: Any,
    metric: str,
    ids: Any,
    query_ids: Any,
    names: Sequence[str] | None,
    drop_zeros: bool,
    seed: int,
) -> Iterator[Inputs]:
    """Open and check everything; the options are those of `migrate`."""
    _check_call(queries, qrels, metric, query_ids)
    labels = None
    if slices is not None:
        labels = find_labels(slices, (old, new), None if queries is None else tuple(queries))
        (old, new), queries = labels.documents, labels.queries
    drop = drop_zeros and metric == "cosine"
    with ExitStack() as stack:
        documents = _given(stack, (old, new), ids, names, drop)
        sources = documents.views
        if sources[0].rows < LEAST_DOCUMENTS:
            raise InputError(
                f"there are {sources[0].rows} documents; at least {LEAST_DOCUMENTS} are needed, "
                "some to fit a map on and others to search"
            )
        if queries is None:
            yield _without_queries(documents, labels, seed)
            return
        asked = _given(stack, queries, query_ids, ["old queries", "new queries"], drop)
        for source, view in zip(sources, asked.views):
            _check_width(source, view)
        if asked.views[0].rows < 2:
            raise InputError("there is one query; at least two are needed to compare anything")
        judgments, lost = None, 0
        if qrels is not None:
            every = read_judgments(
                qrels,
                asked.rows,
                documents.rows,
                _names(query_ids, queries[0], asked.matched),
                _names(ids, old, documents.matched),
            )
            judgments = every.among(_kept(asked), _kept(documents))
            lost = len(every.queries) - len(judgments.queries)
            if len(np.unique(judgments.queries)) < 2:
                raise InputError(
                    "only one query has a relevant document among the judgments; at least two are "
                    "needed to compare anything"
                )
        yield Inputs(
            sources[0],
            sources[1],
            checked(read_whole(asked.views[0]), asked.views[0].name, metric),
            checked(read_whole(asked.views[1]), asked.views[1].name, metric),
            None,
            judgments,
            _slices(labels, documents, asked),
            documents.pairing,
            asked.pairing,
            Dropped(documents.dropped, asked.dropped, lost),
        )


def _check_call(queries: Any, qrels: Any, metric: str, query_ids: Any) -> None:
    if metric not in METRICS:
        raise InputError(f"the metric is {metric!r}; give one of {', '.join(METRICS)}")
    if queries is None and qrels is not None:
        raise InputError("judgments are of queries; give the queries in both models too (queries=)")
    if queries is None and query_ids is not None:
        raise InputError("there are ids of queries, but no queries; give them too (queries=)")
    if queries is not None and (isinstance(queries, str | os.PathLike) or len(queries) != 2):
        raise InputError(
            "queries are two views of the same queries, one of each model; give (old, new)"
        )


def _given(stack: ExitStack, pair: Any, ids: Any, names: Sequence[str] | None, drop: bool) -> Given:
    """Pair and open two views; rows of zeros in either are left out of both if asked for."""
    rows = stack.enter_context(paired(list(pair), ids, names))
    views = open_sources(rows.views, rows.names)
    for view in views:
        stack.enter_context(closing(view))
    count, kept = views[0].rows, None
    if drop and not (there := _directed(views)).all():
        kept = np.flatnonzero(there)
        if not len(kept):
            raise InputError(f"all rows of view {views[0].name!r} or {views[1].name!r} are zeros")
        views = [stack.enter_context(closing(picked_rows(view, kept))) for view in views]
    return Given(views, rows.matched, count, kept)


def _directed(views: Sequence[Source]) -> NDArray[np.bool_]:
    """Which rows have a direction in all of these views."""
    there = np.ones(views[0].rows, dtype=bool)
    for view in views:
        size = block_rows(view.width)
        for start in range(0, view.rows, size):
            stop = min(start + size, view.rows)
            rows = checked(view.read(start, stop), view.name, "dot", start)
            there[start:stop] &= _squares(rows) > 0
    return there


def _kept(given: Given) -> Rows:
    return np.arange(given.rows) if given.kept is None else given.kept


def _without_queries(documents: Given, labels: Labels | None, seed: int) -> Inputs:
    """The inputs if documents stand in for queries: labels of documents are theirs."""
    old, new = documents.views
    own = stand_ins(old.rows, seed)
    every = _slices(labels, documents, None)
    return Inputs(
        old,
        new,
        gathered(old, own),
        gathered(new, own),
        own,
        None,
        None if every is None else Slices(every.labels[own], QUERIES),
        documents.pairing,
        "documents stand in for queries",
        Dropped(documents.dropped),
    )


def _slices(labels: Labels | None, documents: Given, asked: Given | None) -> Slices | None:
    if labels is None:
        return None
    found = placed(
        labels,
        (documents.matched, documents.rows),
        None if asked is None else (asked.matched, asked.rows),
    )
    rows = documents if asked is None or found.of == DOCUMENTS else asked
    return found._replace(labels=found.labels[_kept(rows)])


def stand_ins(documents: int, seed: int) -> Rows:
    """Rows of documents that stand in for queries, in order."""
    count = min(STAND_INS, int(STAND_IN_SHARE * documents))
    drawn = np.random.default_rng([seed, 1]).choice(documents, count, replace=False)
    return np.sort(drawn).astype(np.int64)


def gathered(source: Source, rows: Rows) -> Array:
    """Some rows of a source, in double precision; `rows` are in order."""
    out = np.empty((len(rows), source.width))
    size = block_rows(source.width)
    for start in range(0, source.rows, size):
        first, last = np.searchsorted(rows, [start, start + size])
        if last > first:
            block = source.read(start, min(start + size, source.rows))
            out[first:last] = block[rows[first:last] - start]
    return out


def checked(rows: NDArray[Any], name: str, metric: str, first: int = 0) -> Array:
    """Rows in double precision; an error if one has no place in the metric's space.

    `first` is the row of the view that they begin with.
    """
    rows = np.asarray(rows, dtype=np.float64)
    squares = _squares(rows)
    if not np.isfinite(squares).all():
        bad = ~np.isfinite(rows).all(axis=1)
        if bad.any():
            raise InputError(
                f"view {name!r} has NaN or infinity in {int(bad.sum())} rows, the first is row "
                f"{first + int(bad.argmax())} (counting from 0); leave such rows out of both models"
            )
        raise InputError(f"view {name!r} holds numbers whose squares overflow; rescale it")
    if metric == "cosine" and not squares.all():
        bad = squares == 0
        raise InputError(
            f"view {name!r} has {int(bad.sum())} rows of zeros, the first is row "
            f"{first + int(bad.argmax())} (counting from 0), which have no direction and so no "
            "cosine; leave them out of both models with drop_zeros (--drop-zeros), or choose "
            "another metric (dot or l2)"
        )
    return rows


def _squares(rows: Array) -> Array:
    return np.asarray(np.einsum("ij,ij->i", rows, rows))


def _check_width(documents: Source, queries: Source) -> None:
    if documents.width != queries.width:
        raise InputError(
            f"the documents of view {documents.name!r} have {documents.width} columns and the "
            f"queries of view {queries.name!r} have {queries.width}; give the queries of the same "
            "model, in the order old, new"
        )


def _names(ids: Any, view: Any, matched: Any) -> NDArray[Any] | None:
    """The ids of the rows of a view, if there are any, of those that were paired."""
    if isinstance(ids, str):
        # Of several views, the first names its columns before the colon.
        found = view_and_tags(view, {"ids": ids.split(":")[0]})[1]["ids"]
    elif ids is not None:
        found = read_labels(ids[0], "ids")
    elif matched is not None or _has_index(view):
        found = np.asarray(view.index)
    else:
        return None
    return np.asarray(found if matched is None else matched.pick(found)).astype(str)


def _has_index(view: Any) -> bool:
    """Whether this is a data frame whose index holds ids, not just the rows' numbers."""
    index = getattr(view, "index", None) if is_in_memory(view) else None
    return hasattr(view, "iloc") and type(index).__name__ != "RangeIndex"
