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
from collections.abc import Collection, Iterator
from itertools import pairwise
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from identikit.errors import InputError
from identikit.sources._bands import BandedRows
from identikit.sources._choice import Field
from identikit.sources._lines import Lines, Span, blank, inside_quotes, text_eps
from identikit.sources.checks import FLOAT64_EPS, choose
from identikit.sources.files import explained
from identikit.sources.registry import register_table

if TYPE_CHECKING:
    import pandas as pd

_SNIFFED, _COUNTING, _RISING = 1000, 3, 8
# Number of rows whose digits are counted to find their precision.
_COUNTED = 20
_WHOLE = re.compile(r"[+-]?\d+")
# Without leading zeros, so that "007" remains text.
_INTEGER = re.compile(r"0|-?[1-9]\d{0,17}")


@register_table(".csv", ".tsv", ".csv.gz", ".tsv.gz")
class TextTable:
    """Finds the rows of a table, checks that they have the same length, and inspects its columns.

    Columns without a name belong to no view.
    """

    index: Collection[object] = ()

    def __init__(self, path: Path, label: str) -> None:
        self._lines, self._label = Lines(path, label, quoted=True), label
        look = _Look(path, label)
        spans = list(self._lines.spans(look))
        if not spans:
            raise InputError(f"{label} is empty; expected at least one row of cells")
        self._separator, first = look.separator, look.first_rows()
        titles = first.iloc[0].tolist()
        names = [str(place) for place in range(first.shape[1])]
        if _is_header(titles):
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
        self._names, self._first, self._spans = names, first, spans
        self.fields = {name: _field(first[at]) for at, name in enumerate(names) if name}

    def rows(self, chosen: list[str], name: str) -> BandedRows:
        places = [self._names.index(each) for each in chosen]

        def pieces(band: int) -> Iterator[NDArray[Any]]:
            for _, frame in self._frames(places, band, dtype=np.float64):
                yield frame[places].to_numpy()

        counts = [span.records for span in self._spans]
        source = BandedRows(counts, len(places), np.dtype(float), pieces, name, self._label)
        if all(self.fields[each].whole for each in chosen):
            source.eps = FLOAT64_EPS
        else:
            few = self._first[places].head(_COUNTED).to_numpy().ravel().tolist()
            source.eps = text_eps(cell for cell in few if isinstance(cell, str))
        return source

    def ids(self, column: str) -> Iterator[NDArray[Any]]:
        """Yield the ids in a column: integers if every cell is one, otherwise text."""
        place = self._names.index(choose(self._names, column, self._label))
        whole = all(_INTEGER.fullmatch(cell) for cells in self._texts(place) for cell in cells)
        for cells in self._texts(place):
            yield np.array(cells, dtype=np.int64 if whole else str)

    def frame(self) -> pd.DataFrame:
        """All columns, with the types and names that pandas gives them."""
        with self._lines.stream() as file:
            file.seek(self._spans[0].start)
            frame = self._parsed(file, low_memory=False, encoding_errors="strict")
        names = [name or f"Unnamed: {place}" for place, name in enumerate(self._names)]
        return frame.set_axis(names, axis=1)

    def frames(self, names: list[str]) -> Iterator[pd.DataFrame]:
        places = [self._names.index(name) for name in names]
        for _, frame in self._frames(places, dtype=str, keep_default_na=False):
            yield frame.set_axis(names, axis=1)

    def close(self) -> None:
        pass  # nothing is open between two calls

    def _texts(self, place: int) -> Iterator[list[str]]:
        """Yield the cells of a column; an empty cell is an error."""
        strict: dict[str, Any] = {
            "dtype": str,
            "keep_default_na": False,
            "encoding_errors": "strict",
        }
        for row, frame in self._frames([place], **strict):
            cells = [str(cell).strip() for cell in frame[place]]
            if "" in cells:
                raise InputError(
                    f"{self._label}: column {self._names[place]!r} is empty in row "
                    f"{row + cells.index('')} (counting from 0); every row needs a value"
                )
            yield cells

    def _frames(
        self, places: list[int], first: int = 0, **options: Any
    ) -> Iterator[tuple[int, pd.DataFrame]]:
        """Yield the number of a span's first row and some of its columns, from span `first` on."""
        row = sum(span.records for span in self._spans[:first])
        for span, data in zip(self._spans[first:], self._lines.read(self._spans[first:])):
            with explained(self._label, ValueError, TypeError, OverflowError):
                try:
                    frame = self._parsed(io.BytesIO(data), usecols=sorted(places), **options)
                except (ValueError, TypeError, OverflowError):
                    if options["dtype"] is np.float64:
                        self._explain(data, places, row)
                    raise
            if len(frame) != span.records:
                raise InputError(
                    f"{self._label} has {span.records} rows from byte {span.start} on by its line "
                    f"breaks, but {len(frame)} rows were read; it has quotes within cells, or it "
                    "changed while it was read"
                )
            yield row, frame
            row += span.records

    def _parsed(self, file: IO[bytes], **options: Any) -> pd.DataFrame:
        return parsed(file, self._separator, len(self._names), **options)

    def _explain(self, data: bytes, places: list[int], row: int) -> None:
        """Raise an error that names the first cell that is not a number."""
        import pandas as pd

        texts = self._parsed(io.BytesIO(data), usecols=sorted(places), dtype=str)
        for place in sorted(places):
            column = texts[place]
            bad = column.notna() & pd.to_numeric(column, errors="coerce").isna()
            if bad.any():
                at = int(bad.to_numpy().argmax())
                raise InputError(
                    f"{self._label}: row {row + at} (counting from 0) of column "
                    f"{self._names[place]!r} is {column.iloc[at]!r}, which is not a number; "
                    "correct it, or choose other columns with path::names"
                )


def parsed(file: IO[bytes], separator: str, width: int, **options: Any) -> pd.DataFrame:
    """Read rows without a header, whose columns are called 0, 1, 2 …"""
    import pandas as pd

    fixed = {"sep": separator, "header": None, "names": range(width), "index_col": False}
    options = {"encoding_errors": "replace", **fixed, **options}
    frame: pd.DataFrame = pd.read_csv(file, **options)
    return frame


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
        with explained(self.label, ValueError):
            sample = io.BytesIO(self._sample)
            return parsed(sample, self.separator, self._width, dtype=str, nrows=_SNIFFED)


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
