"""JSON lines: one object per row, whose fields are the columns, or one list of numbers per row."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from identikit.errors import InputError
from identikit.sources._bands import BandedRows
from identikit.sources._choice import Field, listed
from identikit.sources._lines import Lines, text_eps
from identikit.sources.checks import FLOAT64_EPS
from identikit.sources.registry import register_table

if TYPE_CHECKING:
    import pandas as pd

_SNIFFED = 100
# The name of the only column if rows are lists instead of objects.
_ROW = ""


@register_table(".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz")
class JsonLines:
    """The rows of a file, and the fields that the first rows have."""

    index: Collection[object] = ()

    def __init__(self, path: Path, label: str) -> None:
        self._label, self._lines = label, Lines(path, label, quoted=False)
        self._spans = list(self._lines.spans(lambda *_: None))
        if not self._spans:
            raise InputError(f"{label} is empty; expected one JSON object per line")
        few = next(self._objects())[1][:_SNIFFED]
        names = dict.fromkeys(name for each in few for name in each)
        self.fields = {name: _field([each.get(name) for each in few]) for name in names}

    def rows(self, chosen: list[str], name: str) -> BandedRows:
        first = next(self._blocks(0, chosen, None))
        counts, width = [span.records for span in self._spans], first.shape[1]

        def pieces(band: int) -> Iterator[NDArray[Any]]:
            return self._blocks(band, chosen, width)

        source = BandedRows(counts, width, np.dtype(float), pieces, name, self._label)
        few = first[:_SNIFFED].ravel().tolist()
        whole = all(value == int(value) for value in few if np.isfinite(value))
        source.eps = FLOAT64_EPS if whole else text_eps(map(repr, few))
        return source

    def ids(self, column: str) -> Iterator[NDArray[Any]]:
        """Yield the ids of all rows, from a field of integers or strings."""
        kind: type | None = None
        for first, objects in self._objects():
            ids = [self._value(each, column, row) for row, each in enumerate(objects, first)]
            kind = kind or type(ids[0])
            for row, each in enumerate(ids, first):
                if kind not in (int, str, bool) or type(each) is not kind:
                    raise InputError(
                        f"{self._label}: row {row} (counting from 0) has {each!r} as {column!r}; "
                        "expected integers only or strings only, with none missing"
                    )
            yield np.array(ids)

    def frame(self) -> pd.DataFrame:
        import pandas as pd

        return pd.DataFrame.from_records([each for _, rows in self._objects() for each in rows])

    def frames(self, names: list[str]) -> Iterator[pd.DataFrame]:
        import pandas as pd

        for _, objects in self._objects():
            rows = [[_text(each.get(name)) for name in names] for each in objects]
            yield pd.DataFrame(rows, columns=names, dtype=str)

    def close(self) -> None:
        pass  # nothing is open between two calls

    def _objects(self, first: int = 0) -> Iterator[tuple[int, list[dict[str, Any]]]]:
        """Yield the number of a span's first row and its objects, from span `first` on."""
        row = sum(span.records for span in self._spans[:first])
        for span, data in zip(self._spans[first:], self._lines.read(self._spans[first:])):
            lines = [line for line in data.split(b"\n") if line.strip(b"\r")]
            found = [self._object(line, at) for at, line in enumerate(lines, row)]
            if len(found) != span.records:
                raise InputError(f"{self._label} changed while it was read")
            yield row, found
            row += len(found)

    def _blocks(self, first: int, names: list[str], width: int | None) -> Iterator[NDArray[Any]]:
        lists = self.fields[names[0]].lists
        for row, objects in self._objects(first):
            if lists:
                rows = [self._value(each, names[0], row + k) for k, each in enumerate(objects)]
            else:
                rows = [[each.get(name) for name in names] for each in objects]
            width = len(rows[0]) if width is None and isinstance(rows[0], list) else width
            for place, values in enumerate(rows):
                self._check(values, names, width or 0, row + place, lists=lists)
            yield np.array(rows, dtype=np.float64)

    def _value(self, each: dict[str, Any], name: str, row: int) -> Any:
        if name not in each:
            raise InputError(
                f"{self._label}: row {row} (counting from 0) has no field {name!r}; its fields "
                f"are: {listed(each)}"
            )
        return each[name]

    def _check(self, values: Any, names: list[str], width: int, row: int, *, lists: bool) -> None:
        """Refuse a row that is not a list of `width` numbers."""
        where = f"{self._label}: row {row} (counting from 0)"
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
                f"{self._label}: row {row} (counting from 0) is not valid JSON: {error}"
            ) from error
        if isinstance(found, list):
            return {_ROW: found}
        if not isinstance(found, dict):
            raise InputError(
                f"{self._label}: row {row} (counting from 0) is {found!r:.60}; expected an object, "
                "or a list of numbers"
            )
        return found


def _text(value: object) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value)


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
