"""Labels that queries or documents are sliced by: where they are found, and whose they are."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from identikit.errors import InputError
from identikit.sources import read_labels, view_and_tags
from identikit.sources.files import split_member

#: More slices than this are no slices; numbers are to be put into ranges first.
MOST_SLICES = 100

#: What slices may be of.
QUERIES, DOCUMENTS = "queries", "documents"

Pair = tuple[Any, Any]


class Labels(NamedTuple):
    """Labels of slices, and the views without the column that held them.

    `of` says whose labels they are: "queries", "documents", or None if only their number can tell.
    """

    found: NDArray[Any]
    of: str | None
    documents: Pair
    queries: Pair | None


class Slices(NamedTuple):
    """One label for every query, or for every document."""

    labels: NDArray[np.str_]
    of: str


def find_labels(given: Any, documents: Pair, queries: Pair | None) -> Labels:
    """Labels from a sequence, from a file, or from a column of the queries' or documents' table.

    A column is looked for in the old queries' table first, then in the old documents'.
    """
    if not isinstance(given, str | os.PathLike) or _is_file(given):
        return Labels(read_labels(given, "slices"), None, documents, queries)
    reasons = []
    for of, pair in ((QUERIES, queries), (DOCUMENTS, documents)):
        if pair is None:
            continue
        try:
            first, tags = view_and_tags(pair[0], {"slices": str(given)})
        except InputError as error:
            reasons.append(f"the old {of}: {error}")
            continue
        pair = first, _without(pair[1], str(given))
        if of == DOCUMENTS:
            return Labels(tags["slices"], of, pair, queries)
        others = _without(documents[0], str(given)), _without(documents[1], str(given))
        return Labels(tags["slices"], of, others, pair)
    raise InputError(f"there is no column {str(given)!r} to slice by; {'; '.join(reasons)}")


def placed(labels: Labels, documents: tuple[Any, int], queries: tuple[Any, int] | None) -> Slices:
    """The labels of the rows that were paired, as text.

    `documents` and `queries` are each the result of pairing and the number of rows left by it.
    """
    expected = []
    for of, rows in ((QUERIES, queries), (DOCUMENTS, documents)):
        if rows is None or labels.of not in (None, of):
            continue
        matched, count = rows
        before = count if matched is None else matched.of[0]
        expected.append(f"of the {before:,} {of}")
        if len(labels.found) == before:
            found = labels.found if matched is None else matched.pick(labels.found)
            found = found.astype(str)
            distinct = len(np.unique(found))
            if distinct > MOST_SLICES:
                raise InputError(
                    f"the {of} have {distinct:,} different labels of slices; give at most "
                    f"{MOST_SLICES}, such as ranges of years in place of dates"
                )
            return Slices(found, of)
    raise InputError(
        f"there are {len(labels.found):,} labels of slices; expected one for each "
        f"{', or one for each '.join(expected)}"
    )


def _without(view: Any, column: str) -> Any:
    """A view without this column, if it has one: a label is a dimension of no model."""
    try:
        return view_and_tags(view, {"slices": column})[0]
    except InputError:
        return view


def _is_file(given: str | os.PathLike[str]) -> bool:
    path, member = split_member(given)
    return member is not None or path.exists()
