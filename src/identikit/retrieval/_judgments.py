"""Read judgments: which document is relevant to which query, and how much."""

from __future__ import annotations

import csv
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identikit.errors import InputError
from identikit.retrieval._scores import Judgments
from identikit.sources.files import open_binary, split_member
from identikit.sources.whole import read_array

#: What the columns of a table of judgments may be called, without regard to case, "-" and "_".
QUERY = ("query", "queryid", "qid", "topic")
DOCUMENT = ("document", "documentid", "doc", "docid", "docno", "corpusid", "pid", "passageid")
GRADE = ("grade", "relevance", "rel", "score", "label")

_EXPECTED = (
    "expected four columns as TREC has them (query, anything, document, grade), or a table with a "
    "header that names the columns query, document and grade"
)

Triples = tuple[Sequence[Any], Sequence[Any], Sequence[Any]]


def read_judgments(
    given: Any,
    queries: int,
    documents: int,
    query_ids: NDArray[Any] | None = None,
    document_ids: NDArray[Any] | None = None,
) -> Judgments:
    """Judgments with the rows of their queries and documents.

    Parameters
    ----------
    given : path, data frame or array
        A file (TREC's four columns; or .csv or .tsv with a header; or three columns of numbers in
        a .npy or .npz file), a data frame with these columns, or rows (query, document, grade).
    queries, documents : int
        How many there are.
    query_ids, document_ids : array of str, optional
        What judgments call them. Without ids, they are named by their row, from 0.
    """
    label, (names, docs, grades) = _triples(given)
    worth = _numbers(grades, label)
    rows = _rows(names, query_ids, queries, "query", label)
    columns = _rows(docs, document_ids, documents, "document", label)
    known = (rows >= 0) & (columns >= 0)
    if not known.any():
        raise InputError(
            f"{label}: none of the {len(rows):,} judgments is of a query and a document that are "
            f"there ({int((rows < 0).sum()):,} name unknown queries, such as "
            f"{str(names[int((rows < 0).argmax())])!r}, and {int((columns < 0).sum()):,} unknown "
            f"documents, such as {str(docs[int((columns < 0).argmax())])!r}); check that ids are "
            "written in the same way, and give those of the queries and of the documents"
        )
    unknown = int((rows < 0).sum()), int(((columns < 0) & (rows >= 0)).sum())
    kept = known & (worth > 0)
    if not kept.any():
        raise InputError(f"{label}: no judgment has a grade above 0, so nothing is relevant")
    rows, columns, worth = rows[kept], columns[kept], worth[kept]
    once = _once(rows, columns, worth, documents, label)
    return Judgments(rows[once], columns[once], worth[once], *unknown)


def _triples(given: Any) -> tuple[str, Triples]:
    if isinstance(given, str | os.PathLike):
        path, member = split_member(given)
        label = f"judgments ({path})"
        if path.suffix.lower() in (".npy", ".npz"):
            return label, _columns(read_array(path, member, label), label)
        return label, _from_text(path, label)
    label = "judgments"
    if hasattr(given, "columns") and hasattr(given, "iloc"):
        fields = [str(name) for name in given.columns]
        places = _places(fields)
        if places is None:
            raise InputError(
                f"{label}: the data frame has the columns {', '.join(map(repr, fields))}; expected "
                "columns called query, document and grade"
            )
        query, document, grade = (given.iloc[:, place].tolist() for place in places)
        return label, (query, document, grade)
    if isinstance(given, list | tuple):
        given = np.array([tuple(row) for row in given], dtype=object)
    return label, _columns(np.asarray(given), label)


def _columns(table: NDArray[Any], label: str) -> Triples:
    if table.ndim != 2 or table.shape[1] != 3 or not len(table):
        raise InputError(
            f"{label} have shape {table.shape}; expected rows of (query, document, grade)"
        )
    return table[:, 0].tolist(), table[:, 1].tolist(), table[:, 2].tolist()


def _from_text(path: Path, label: str) -> Triples:
    open_binary(path, label).close()
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise InputError(f"{label} is not UTF-8 text ({error}); save it as UTF-8") from error
    numbered = [(number, line) for number, line in enumerate(lines, 1) if line.strip()]
    if not numbered:
        raise InputError(f"{label} is empty; {_EXPECTED}")
    between = "\t" if "\t" in numbered[0][1] else "," if "," in numbered[0][1] else None
    rows = [_fields(line, between) for _, line in numbered]
    places, first = _places(rows[0]), 1
    if places is None:
        if len(rows[0]) != 4:
            raise InputError(f"{label} begins with {numbered[0][1].strip()!r}; {_EXPECTED}")
        places, first = (0, 2, 3), 0
    width = len(rows[0])
    for (number, line), row in zip(numbered, rows):
        if len(row) != width:
            raise InputError(
                f"{label}: line {number} is {line.strip()!r}, with {len(row)} fields; the first "
                f"line has {width}"
            )
    chosen = rows[first:]
    if not chosen:
        raise InputError(f"{label} has a header and nothing else; expected one judgment per line")
    query, document, grade = ([row[place] for row in chosen] for place in places)
    return query, document, grade


def _fields(line: str, between: str | None) -> list[str]:
    if between is None:
        return line.split()
    return [field.strip() for field in next(csv.reader([line], delimiter=between))]


def _places(fields: Sequence[str]) -> tuple[int, int, int] | None:
    """Which columns hold the query, the document and the grade, if their names say so."""
    plain = [field.lower().replace("-", "").replace("_", "").strip() for field in fields]
    places = []
    for known in (QUERY, DOCUMENT, GRADE):
        there = [place for place, name in enumerate(plain) if name in known]
        if len(there) != 1:
            return None
        places.append(there[0])
    return places[0], places[1], places[2]


def _numbers(grades: Sequence[Any], label: str) -> NDArray[np.float64]:
    try:
        worth = np.array([float(grade) for grade in grades])
    except (TypeError, ValueError):
        bad = next(grade for grade in grades if not _is_number(grade))
        raise InputError(f"{label}: the grade {bad!r} is not a number; {_EXPECTED}") from None
    if not np.isfinite(worth).all():
        raise InputError(
            f"{label}: {int((~np.isfinite(worth)).sum())} grades are NaN or infinite, the first in "
            f"judgment {int((~np.isfinite(worth)).argmax())}; leave such judgments out"
        )
    return worth


def _is_number(grade: Any) -> bool:
    try:
        float(grade)
    except (TypeError, ValueError):
        return False
    return True


def _rows(
    names: Sequence[Any], ids: NDArray[Any] | None, count: int, what: str, label: str
) -> NDArray[np.int64]:
    """The row of each name; -1 if there is none."""
    if ids is not None:
        place = {str(name): row for row, name in enumerate(ids.tolist())}
        return np.array([place.get(_text(name), -1) for name in names], dtype=np.int64)
    try:
        # By way of text, so that "7" and 7 are the same row, and 7.5 is none.
        rows = np.array([int(_text(name)) for name in names], dtype=np.int64)
    except (ValueError, OverflowError):
        bad = next(_text(name) for name in names if not _text(name).lstrip("-").isdigit())
        raise InputError(
            f"{label}: {bad!r} is not the number of a row; without ids, each {what} is named by "
            f"its row, from 0: give the ids of the {'queries' if what == 'query' else 'documents'}"
        ) from None
    return np.where((rows >= 0) & (rows < count), rows, -1)


def _text(name: Any) -> str:
    """A name as text; a table of floats holds the id 7 as 7.0."""
    if isinstance(name, float) and name.is_integer():
        return str(int(name))
    return str(name).strip()


def _once(
    rows: NDArray[np.int64],
    columns: NDArray[np.int64],
    worth: NDArray[np.float64],
    documents: int,
    label: str,
) -> NDArray[np.int64]:
    """The first judgment of each pair; two with different grades are an error."""
    pairs, first, same = np.unique(
        rows * documents + columns, return_index=True, return_inverse=True
    )
    other = worth != worth[first][same.ravel()]
    if other.any():
        query, document = divmod(int(pairs[same.ravel()[other.argmax()]]), documents)
        raise InputError(
            f"{label}: {int(other.sum()):,} pairs are judged again with another grade, for example "
            f"query {query} with document {document} (rows, counting from 0); keep one judgment "
            "of each pair"
        )
    return np.sort(first)
