"""JSON lines: one object per row, whose fields are the columns, or one list of numbers per row."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from identikit.errors import InputError
from identikit.sources._bands import BandedRows
from identikit.sources._choice import Field, choose_fields, listed
from identikit.sources._lines import Lines, Span, text_eps
from identikit.sources.checks import FLOAT64_EPS
from identikit.sources.files import file_label
from identikit.sources.registry import (
    Table,
    register,
    register_frame,
    register_ids,
    register_table,
)

if TYPE_CHECKING:
    import pandas as pd

_SNIFFED = 100
# The name of the only column if rows are lists instead of objects.
_ROW = ""


@register(".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz")
def open_jsonl(path: Path, member: str | None, name: str) -> BandedRows:
    """Open the view in JSON lines; `sources._choice` says which fields it consists of."""
    table = JsonLines(path, file_label(name, path))
    names = choose_fields(table.fields, member, table.label)
    lists = table.fields[names[0]].lists
    first = next(table.blocks(0, names, lists, None))
    counts, width = [span.records for span in table.spans], first.shape[1]

    def pieces(band: int) -> Iterator[NDArray[Any]]:
        return table.blocks(band, names, lists, width)

    source = BandedRows(counts, width, np.dtype(float), pieces, name, table.label)
    few = first[:_SNIFFED].ravel().tolist()
    whole = all(value == int(value) for value in few if np.isfinite(value))
    source.eps = FLOAT64_EPS if whole else text_eps(map(repr, few))
    return source


@register_ids(".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz")
def read_jsonl_ids(path: Path, column: str, label: str) -> Iterator[NDArray[Any]]:
    """Yield the ids of all rows, from a field of integers or strings."""
    table = JsonLines(path, label)
    kind: type | None = None
    for first, objects in table.objects():
        ids = [table.value(each, column, row) for row, each in enumerate(objects, first)]
        kind = kind or type(ids[0])
        for row, each in enumerate(ids, first):
            if kind not in (int, str, bool) or type(each) is not kind:
                raise InputError(
                    f"{label}: row {row} (counting from 0) has {each!r} as {column!r}; expected "
                    "integers only or strings only, with none missing"
                )
        yield np.array(ids)


@register_frame(".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz")
def read_jsonl_frame(path: Path, label: str) -> pd.DataFrame:
    """All fields, as one column each."""
    import pandas as pd

    table = JsonLines(path, label)
    return pd.DataFrame.from_records([each for _, rows in table.objects() for each in rows])


@register_table(".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz")
def jsonl_table(path: Path, label: str) -> Table:
    """Describe the fields; their values are read as text."""
    import pandas as pd

    table = JsonLines(path, label)

    def frames(names: list[str]) -> Iterator[pd.DataFrame]:
        for _, objects in table.objects():
            rows = [[_text(each.get(name)) for name in names] for each in objects]
            yield pd.DataFrame(rows, columns=names, dtype=str)

    return Table(table.fields, frames)


def _text(value: object) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value)


class JsonLines:
    """The rows of a file, and the fields that the first rows have."""

    def __init__(self, path: Path, label: str) -> None:
        self.label = label
        self._lines = Lines(path, label, quoted=False)
        self.spans: list[Span] = list(self._lines.spans(lambda *_: None))
        if not self.spans:
            raise InputError(f"{label} is empty; expected one JSON object per line")
        _, objects = next(self.objects())
        few = list(islice(objects, _SNIFFED))
        names = dict.fromkeys(name for each in few for name in each)
        self.fields = {name: _field([each.get(name) for each in few]) for name in names}

    def objects(self, first: int = 0) -> Iterator[tuple[int, list[dict[str, Any]]]]:
        """Yield the number of a span's first row and its objects, from span `first` on."""
        row = sum(span.records for span in self.spans[:first])
        for span, data in zip(self.spans[first:], self._lines.read(self.spans[first:])):
            found: list[dict[str, Any]] = []
            for line in data.split(b"\n"):
                if line.strip(b"\r"):
                    found.append(self._object(line, row + len(found)))
            if len(found) != span.records:
                raise InputError(f"{self.label} changed while it was read")
            yield row, found
            row += len(found)

    def blocks(
        self, first: int, names: list[str], lists: bool, width: int | None
    ) -> Iterator[NDArray[Any]]:
        """Yield arrays of rows, from span `first` on."""
        for row, objects in self.objects(first):
            if lists:
                rows = [self.value(each, names[0], row + k) for k, each in enumerate(objects)]
            else:
                rows = [[each.get(name) for name in names] for each in objects]
            width = len(rows[0]) if width is None and isinstance(rows[0], list) else width
            for place, values in enumerate(rows):
                self._check(values, names, width or 0, row + place, lists=lists)
            yield np.array(rows, dtype=np.float64)

    def value(self, each: dict[str, Any], name: str, row: int) -> Any:
        """The value of a field in a row."""
        if name not in each:
            raise InputError(
                f"{self.label}: row {row} (counting from 0) has no field {name!r}; its fields are: "
                f"{listed(each)}"
            )
        return each[name]

    def _check(self, values: Any, names: list[str], width: int, row: int, *, lists: bool) -> None:
        """Refuse a row that is not a list of `width` numbers."""
        where = f"{self.label}: row {row} (counting from 0)"
        if not isinstance(values, list):
            raise InputError(f"{where} has {values!r:.60} as {names[0]!r}; expected a list")
        if len(values) != width:
            raise InputError(
                f"{where} holds a list of {len(values)} numbers in {names[0]!r}, and the first row "
                f"one of {width}; expected lists of the same length"
            )
        for place, value in enumerate(values):
            if not _is_number(value):
                what = f"place {place} of {names[0]!r}" if lists else repr(names[place])
                raise InputError(f"{where} has {value!r:.60} in {what}; expected a number")

    def _object(self, line: bytes, row: int) -> dict[str, Any]:
        try:
            found = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(
                f"{self.label}: row {row} (counting from 0) is not valid JSON: {error}"
            ) from error
        if isinstance(found, list):
            return {_ROW: found}
        if not isinstance(found, dict):
            raise InputError(
                f"{self.label}: row {row} (counting from 0) is {found!r:.60}; expected an object, "
                "or a list of numbers"
            )
        return found


def _field(values: list[Any]) -> Field:
    """Describe what a field holds, judging by its first values."""
    first = next((value for value in values if value is not None), None)
    if isinstance(first, list):
        return Field("lists", lists=bool(first) and _is_number(first[0]))
    if isinstance(first, bool) or not _is_number(first):
        return Field("empty" if first is None else type(first).__name__)
    whole = all(type(value) is int for value in values if value is not None)
    return Field("integer" if whole else "decimal", numbers=True, whole=whole)


def _is_number(value: object) -> bool:
    if not isinstance(value, int | float):
        return False
    try:
        float(value)
    except OverflowError:
        return False
    return True
