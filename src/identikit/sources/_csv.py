"""Tables as text: .csv and .tsv, with or without a header, perhaps compressed with gzip.

Cells are separated by commas in .csv (or by semicolons or tabs, if the first line has no comma) and
by tabs in .tsv; they may be quoted. The first row is a header if none of its cells is a number, if
its numbers are 0, 1, 2 …, as pandas names columns, or if it also has text and eight or more
increasing numbers. Without a header, columns are called 0, 1, 2 … A column holds numbers if its
first cell is a number, and integers if its first thousand cells are. Empty cells and NA are missing
values.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from identikit.errors import InputError
from identikit.sources._bands import BandedRows
from identikit.sources._choice import Field, choose_fields
from identikit.sources._lines import Lines, Span, blank, inside_quotes, text_eps
from identikit.sources.checks import FLOAT64_EPS, choose
from identikit.sources.files import explained, file_label
from identikit.sources.registry import (
    Table,
    register,
    register_frame,
    register_ids,
    register_table,
)

if TYPE_CHECKING:
    import pandas as pd

_SNIFFED, _COUNTING, _RISING = 1000, 3, 8
# Number of rows whose digits are counted to find their precision.
_COUNTED = 20
_WHOLE = re.compile(r"[+-]?\d+")
# Without leading zeros, so that "007" remains text.
_INTEGER = re.compile(r"0|-?[1-9]\d{0,17}")


@register(".csv", ".tsv", ".csv.gz", ".tsv.gz")
def open_csv(path: Path, member: str | None, name: str) -> BandedRows:
    """Open the view in a text table; `sources._choice` says which columns it consists of."""
    table = read_structure(path, file_label(name, path))
    chosen = choose_fields(table.fields, member, table.label, [""])
    places = [table.names.index(each) for each in chosen]
    counts = [span.records for span in table.spans]

    def pieces(band: int) -> Iterator[NDArray[Any]]:
        return table.numbers(band, places)

    source = BandedRows(counts, len(places), np.dtype(float), pieces, name, table.label)
    if all(table.fields[each].whole for each in chosen):
        source.eps = FLOAT64_EPS
    else:
        few = table.first[places].head(_COUNTED).to_numpy().ravel().tolist()
        source.eps = text_eps(cell for cell in few if isinstance(cell, str))
    return source


@register_ids(".csv", ".tsv", ".csv.gz", ".tsv.gz")
def read_csv_ids(path: Path, column: str, label: str) -> Iterator[NDArray[Any]]:
    """Yield the ids of all rows: integers if every cell of the column is one, otherwise text."""
    table = read_structure(path, label)
    place = table.names.index(choose(table.names, column, label))
    whole = all(_INTEGER.fullmatch(cell) for cells in table.texts(place) for cell in cells)
    for cells in table.texts(place):
        yield np.array(cells, dtype=np.int64 if whole else str)


@register_frame(".csv", ".tsv", ".csv.gz", ".tsv.gz")
def read_frame(path: Path, label: str) -> pd.DataFrame:
    """All columns, with the types and names that pandas gives them."""
    import pandas as pd

    table = read_structure(path, label)
    with table.lines.stream() as file:
        file.seek(table.spans[0].start)
        frame: pd.DataFrame = pd.read_csv(
            file,
            sep=table.separator,
            header=None,
            names=range(len(table.names)),
            index_col=False,
            low_memory=False,
        )
    names = [name or f"Unnamed: {place}" for place, name in enumerate(table.names)]
    return frame.set_axis(names, axis=1)


@register_table(".csv", ".tsv", ".csv.gz", ".tsv.gz")
def csv_table(path: Path, label: str) -> Table:
    """Describe the columns that have a name; their values are read as text."""
    table = read_structure(path, label)

    def frames(names: list[str]) -> Iterator[pd.DataFrame]:
        places = [table.names.index(name) for name in names]
        for _, frame in table.frames(places, dtype=str, keep_default_na=False):
            yield frame.set_axis(names, axis=1)

    return Table({name: field for name, field in table.fields.items() if name}, frames)


@dataclass(frozen=True)
class TextTable:
    """What is known about a table before its rows are read.

    `first` holds the first rows as text, and `spans` say where the rows lie, without the header.
    """

    lines: Lines
    separator: str
    names: list[str]
    fields: dict[str, Field]
    first: pd.DataFrame
    spans: list[Span]

    @property
    def label(self) -> str:
        """What error messages call the table."""
        return self.lines.label

    def numbers(self, first: int, places: list[int]) -> Iterator[NDArray[Any]]:
        """Yield the numbers in some columns, from span `first` on."""
        for _, frame in self.frames(places, first, dtype=np.float64):
            yield frame[places].to_numpy()

    def texts(self, place: int) -> Iterator[list[str]]:
        """Yield the cells of a column; an empty cell is an error."""
        strict: dict[str, Any] = {
            "dtype": str,
            "keep_default_na": False,
            "encoding_errors": "strict",
        }
        for row, frame in self.frames([place], **strict):
            cells = [str(cell).strip() for cell in frame[place]]
            if "" in cells:
                raise InputError(
                    f"{self.label}: column {self.names[place]!r} is empty in row "
                    f"{row + cells.index('')} (counting from 0); every row needs a value"
                )
            yield cells

    def frames(
        self, places: list[int], first: int = 0, **options: Any
    ) -> Iterator[tuple[int, pd.DataFrame]]:
        """Yield the number of a span's first row and some of its columns, from span `first` on."""
        row = sum(span.records for span in self.spans[:first])
        for span, data in zip(self.spans[first:], self.lines.read(self.spans[first:])):
            with explained(self.label, ValueError, TypeError, OverflowError):
                try:
                    frame = self._parsed(data, places, **options)
                except (ValueError, TypeError, OverflowError):
                    if options["dtype"] is np.float64:
                        self._explain(data, places, row)
                    raise
            if len(frame) != span.records:
                raise InputError(
                    f"{self.label} has {span.records} rows from byte {span.start} on by its line "
                    f"breaks, but {len(frame)} rows were read; it has quotes within cells, or it "
                    "changed while it was read"
                )
            yield row, frame
            row += span.records

    def _parsed(self, data: bytes, places: list[int], **options: Any) -> pd.DataFrame:
        """Parse some columns of complete records."""
        import pandas as pd

        frame: pd.DataFrame = pd.read_csv(
            io.BytesIO(data),
            sep=self.separator,
            header=None,
            names=range(len(self.names)),
            usecols=sorted(places),
            index_col=False,
            **{"encoding_errors": "replace", **options},
        )
        return frame

    def _explain(self, data: bytes, places: list[int], row: int) -> None:
        """Raise an error that names the first cell that is not a number."""
        import pandas as pd

        texts = self._parsed(data, places, dtype=str)
        for place in sorted(places):
            column = texts[place]
            bad = column.notna() & pd.to_numeric(column, errors="coerce").isna()
            if bad.any():
                at = int(bad.to_numpy().argmax())
                raise InputError(
                    f"{self.label}: row {row + at} (counting from 0) of column "
                    f"{self.names[place]!r} is {column.iloc[at]!r}, which is not a number; "
                    "correct it, or choose other columns with path::names"
                )


def read_structure(path: Path, label: str) -> TextTable:
    """Find the rows of a table, check that they have the same length, and inspect its columns."""
    lines = Lines(path, label, quoted=True)
    look = _Look(path, label)
    spans = list(lines.spans(look))
    if not spans:
        raise InputError(f"{label} is empty; expected at least one row of cells")
    first = look.first_rows()
    titles = first.iloc[0].tolist()
    header = _is_header(titles)
    names = [str(place) for place in range(first.shape[1])]
    if header:
        first = first.iloc[1:]
        names = ["" if title != title else str(title).strip() for title in titles]
        begin, *others = spans
        rest = Span(begin.start + look.first_end, begin.stop, begin.records - 1)
        spans = [rest, *others] if rest.records else others
    twice = next((name for name in names if name and names.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"{label} has two columns named {twice!r}; rename one of them")
    if not spans:
        raise InputError(f"{label} has a header and no rows; expected at least one row")
    fields = {name: _field(first[place]) for place, name in enumerate(names)}
    return TextTable(lines, look.separator, names, fields, first, spans)


class _Look:
    """Keeps the first rows of a table, and refuses rows whose length differs from the first."""

    def __init__(self, path: Path, label: str) -> None:
        self.label, self.separator, self.first_end = label, "", 0
        self._tabs = ".tsv" in [suffix.lower() for suffix in path.suffixes[-2:]]
        self._width, self._sample, self._sampled = 0, b"", 0

    def __call__(self, data: bytes, ends: NDArray[np.intp], lines: int) -> None:
        """Inspect some complete records."""
        empty, codes = blank(data, ends), np.frombuffer(data, np.uint8)
        starts = np.append(0, ends[:-1])
        inside = inside_quotes(codes) if b'"' in data else np.zeros(1, dtype=bool)
        if not self._width:
            begin = int(np.argmin(empty))
            self.first_end = int(ends[begin])
            head = data[starts[begin] : self.first_end]
            kinds = ("\t",) if self._tabs else (",", ";", "\t")
            self.separator = next((kind for kind in kinds if kind.encode() in head), kinds[0])
        if self._sampled < _SNIFFED:
            self._sample += data[: ends[min(_SNIFFED, len(ends) - 1)]]
            self._sampled += len(ends)
        between = (codes == ord(self.separator)) & ~inside
        cells = 1 + np.add.reduceat(between, starts, dtype=np.int64)
        self._width = self._width or int(cells[begin])
        wrong = (cells != self._width) & ~empty
        if wrong.any():
            at = int(wrong.argmax())
            line = lines + 1 + data.count(b"\n", 0, int(starts[at]))
            raise InputError(
                f"{self.label}: line {line} has {cells[at]} cells separated by "
                f"{self.separator!r}, and the first row has {self._width}; expected rows of the "
                "same length"
            )

    def first_rows(self) -> pd.DataFrame:
        """The first rows as text, including the header."""
        import pandas as pd

        with explained(self.label, ValueError):
            return pd.read_csv(
                io.BytesIO(self._sample),
                sep=self.separator,
                header=None,
                names=range(self._width),
                index_col=False,
                dtype=str,
                nrows=_SNIFFED,
                encoding_errors="replace",
            )


def _is_header(cells: list[Any]) -> bool:
    """Whether the first row names the columns; missing cells are ignored."""
    there = [cell for cell in cells if cell == cell]
    numbers = [value for value in map(_number, there) if value is not None]
    counting = len(numbers) >= _COUNTING and numbers == list(range(len(numbers)))
    rising = len(numbers) >= _RISING and all(a < b for a, b in pairwise(numbers))
    text = len(numbers) < len(there)
    return counting or (text and (not numbers or rising))


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None


def _field(column: pd.Series[str]) -> Field:
    """Describe what a column holds, judging by its first cells."""
    cells = column.dropna().tolist()
    if not cells or _number(cells[0]) is None:
        return Field("text" if cells else "empty")
    # A later cell that is not a number is reported, with its row, when it is read.
    whole = all(_WHOLE.fullmatch(cell.strip()) or _number(cell) is None for cell in cells)
    return Field("integer" if whole else "decimal", numbers=True, whole=whole)
