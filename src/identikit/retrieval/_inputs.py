"""What a migration is measured on: documents and queries of two models, judgments and slices."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identikit._linalg import Array
from identikit.errors import InputError
from identikit.retrieval._judgments import read_judgments
from identikit.retrieval._scores import Judgments
from identikit.retrieval._search import Rows, block_rows
from identikit.retrieval._space_map import METRICS
from identikit.sources import (
    BY_POSITION,
    Source,
    is_in_memory,
    open_sources,
    paired,
    read_labels,
    view_and_tags,
)
from identikit.sources.files import split_member
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
    slices : array of str or None
        The slice of each query.
    pairing, query_pairing : str
        How rows were paired.
    """

    old: Source
    new: Source
    old_queries: Array
    new_queries: Array
    own: Rows | None
    judgments: Judgments | None
    slices: NDArray[np.str_] | None
    pairing: str
    query_pairing: str


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
    seed: int,
) -> Iterator[Inputs]:
    """Open and check everything; the options are those of `migrate`."""
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
    labels = None
    if slices is not None:
        if queries is None:
            old, labels = _labels(slices, old)
        else:
            first, labels = _labels(slices, queries[0])
            queries = (first, queries[1])
    with ExitStack() as stack:
        rows = stack.enter_context(paired([old, new], ids, names))
        sources = open_sources(rows.views, rows.names)
        for source in sources:
            stack.enter_context(closing(source))
        if sources[0].rows < LEAST_DOCUMENTS:
            raise InputError(
                f"there are {sources[0].rows} documents; at least {LEAST_DOCUMENTS} are needed, "
                "some to fit a map on and others to search"
            )
        pairing = BY_POSITION if rows.matched is None else str(rows.matched)
        if queries is None:
            own = stand_ins(sources[0].rows, seed)
            tags = _picked(labels, rows.matched, sources[0].rows)
            yield Inputs(
                sources[0],
                sources[1],
                gathered(sources[0], own),
                gathered(sources[1], own),
                own,
                None,
                None if tags is None else tags[own],
                pairing,
                "documents stand in for queries",
            )
            return
        asked = stack.enter_context(
            paired(list(queries), query_ids, ["old queries", "new queries"])
        )
        views = open_sources(asked.views, asked.names)
        for view in views:
            stack.enter_context(closing(view))
        for source, view in zip(sources, views):
            _check_width(source, view)
        if views[0].rows < 2:
            raise InputError("there is one query; at least two are needed to compare anything")
        judgments = None
        if qrels is not None:
            judgments = read_judgments(
                qrels,
                views[0].rows,
                sources[0].rows,
                _names(query_ids, queries[0], asked.matched),
                _names(ids, old, rows.matched),
            )
            if len(np.unique(judgments.queries)) < 2:
                raise InputError(
                    "only one query has a relevant document among the judgments; at least two are "
                    "needed to compare anything"
                )
        yield Inputs(
            sources[0],
            sources[1],
            checked(read_whole(views[0]), views[0].name, metric),
            checked(read_whole(views[1]), views[1].name, metric),
            None,
            judgments,
            _picked(labels, asked.matched, views[0].rows),
            pairing,
            BY_POSITION if asked.matched is None else str(asked.matched),
        )


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
    squares = np.einsum("ij,ij->i", rows, rows)
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
            "cosine; leave them out of both models, or choose another metric (dot or l2)"
        )
    return rows


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


def _labels(given: Any, view: Any) -> tuple[Any, NDArray[Any]]:
    """The view, and the slice of each row: labels, a file of them, or a column of the view."""
    if isinstance(given, str | os.PathLike) and not _is_file(given):
        view, found = view_and_tags(view, {"slices": str(given)})
        return view, found["slices"]
    return view, read_labels(given, "slices")


def _picked(labels: NDArray[Any] | None, matched: Any, rows: int) -> NDArray[np.str_] | None:
    """The labels of the rows that were paired, as text."""
    if labels is None:
        return None
    found = labels if matched is None else matched.pick(labels)
    if len(found) != rows:
        raise InputError(f"there are {len(found)} labels of slices for {rows} rows; give one a row")
    return found.astype(str)


def _is_file(given: str | os.PathLike[str]) -> bool:
    path, member = split_member(given)
    return member is not None or path.exists()
