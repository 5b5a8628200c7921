"""Tables as text: .csv and .tsv, with or without a header, perhaps packed with gzip.

Cells are separated by commas (in .csv also by semicolons, or tabs, if the first line has no comma)
and may be quoted. The first row is a header if none of its cells is a number, if its numbers count
0, 1, 2 … as pandas names columns, or if eight or more of them rise beside text; without a header
columns are called 0, 1, 2 … A column is one of numbers if its first cell is one, and of integers if
its first thousand are. Empty cells and NA are missing values.
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
# Rows whose digits are counted.
_COUNTED = 20
_WHOLE = re.compile(r"[+-]?\d+")
# As a program writes it: no zeros before it, so that the text "007" stays one.
_INTEGER = re.compile(r"0|-?[1-9]\d{0,17}")


@register(".csv", ".tsv", ".csv.gz", ".tsv.gz")
def open_csv(path: Path, member: str | None, name: str) -> BandedRows:
    """Open the columns of a table in text that are a view; which, `sources._choice` says."""
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
    """The ids of all rows: integers if every cell of the column is one, else text."""
    table = read_structure(path, label)
    place = table.names.index(choose(table.names, column, label))
    whole = all(_INTEGER.fullmatch(cell) for cells in table.texts(place) for cell in cells)
    for cells in table.texts(place):
        yield np.array(cells, dtype=np.int64 if whole else str)


@register_frame(".csv", ".tsv", ".csv.gz", ".tsv.gz")
def read_frame(path: Path, label: str) -> pd.DataFrame:
    """All columns as pandas reads and names them: numbers, text, true or false.

    Parameters
    ----------
    path : Path
        The file.
    label : str
        What errors call it.
    """
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
    """The columns that have a name, as text."""
    table = read_structure(path, label)

    def frames(names: list[str]) -> Iterator[pd.DataFrame]:
        places = [table.names.index(name) for name in names]
        for _, frame in table.frames(places, dtype=str, keep_default_na=False):
            yield frame.set_axis(names, axis=1)

    return Table({name: field for name, field in table.fields.items() if name}, frames)


@dataclass(frozen=True)
class TextTable:
    """What is known of a table before its rows are read.

    Parameters
    ----------
    lines : Lines
        The file.
    separator : str
        Between cells.
    names : list of str
        Of the columns.
    fields : dict of str to Field
        What they hold.
    first : DataFrame
        The first rows, as text.
    spans : list of Span
        Where the rows lie, without the header.
    """

    lines: Lines
    separator: str
    names: list[str]
    fields: dict[str, Field]
    first: pd.DataFrame
    spans: list[Span]

    @property
    def label(self) -> str:
        """What errors call the table."""
        return self.lines.label

    def numbers(self, first: int, places: list[int]) -> Iterator[NDArray[Any]]:
        """The numbers of some columns, from a span on."""
        for _, frame in self.frames(places, first, dtype=np.float64):
            yield frame[places].to_numpy()

    def texts(self, place: int) -> Iterator[list[str]]:
        """The cells of a column, none of them empty."""
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
        """Some columns of every span, from one on, and the number of the span's first row."""
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
                    f"{self.label} was found to hold {span.records} rows from byte {span.start} "
                    f"on, and now {len(frame)}; it has quotes within cells, or changed while it "
                    "was read"
                )
            yield row, frame
            row += span.records

    def _parsed(self, data: bytes, places: list[int], **options: Any) -> pd.DataFrame:
        """Some columns of whole records."""
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
        """Raise with the place of the first cell that is no number."""
        import pandas as pd

        texts = self._parsed(data, places, dtype=str)
        for place in sorted(places):
            column = texts[place]
            bad = column.notna() & pd.to_numeric(column, errors="coerce").isna()
            if bad.any():
                at = int(bad.to_numpy().argmax())
                raise InputError(
                    f"{self.label}: row {row + at} (counting from 0) of column "
                    f"{self.names[place]!r} is {column.iloc[at]!r}, which is no number; correct "
                    "it, or choose other columns with path::names"
                )


def read_structure(path: Path, label: str) -> TextTable:
    """Find the rows of a table, check that they are of one length, and see what columns hold.

    Parameters
    ----------
    path : Path
        The file.
    label : str
        What errors call it.
    """
    lines = Lines(path, label, quoted=True)
    look = _Look(path, label)
    spans = list(lines.spans(look))
    if not spans:
        raise InputError(f"{label} is empty; expected a row of cells at least")
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
    """Keeps the first rows of a table, and finds rows that are longer or shorter than the first."""

    def __init__(self, path: Path, label: str) -> None:
        self.label, self.separator, self.first_end = label, "", 0
        self._tabs = ".tsv" in [suffix.lower() for suffix in path.suffixes[-2:]]
        self._width, self._sample, self._sampled = 0, b"", 0

    def __call__(self, data: bytes, ends: NDArray[np.intp], lines: int) -> None:
        """Look at some whole records."""
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
                f"{self.separator!r}, and the first row has {self._width}; expected rows of one "
                "length"
            )

    def first_rows(self) -> pd.DataFrame:
        """The first rows, the header among them, as text."""
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
    """Whether the first row names the columns; a missing cell says nothing."""
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
    """What a column holds, by its first cells."""
    cells = column.dropna().tolist()
    if not cells or _number(cells[0]) is None:
        return Field("text" if cells else "empty")
    # A cell that is no number is an error later on, with its place.
    whole = all(_WHOLE.fullmatch(cell.strip()) or _number(cell) is None for cell in cells)
    return Field("integer" if whole else "decimal", numbers=True, whole=whole)
