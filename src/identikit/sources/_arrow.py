"""Parquet, Arrow's file and stream formats, and Feather version 2, which is Arrow's file format.

pyarrow reads them one piece at a time: some rows of a Parquet file, a record batch of the others.
https://arrow.apache.org/docs/format/Columnar.html#serialization-and-interprocess-communication-ipc
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from identikit.errors import InputError, require
from identikit.sources import memory
from identikit.sources._bands import BandedRows
from identikit.sources._choice import Field
from identikit.sources._columns import id_blocks, index_columns, pyarrow, table_fields, view_columns
from identikit.sources.checks import choose
from identikit.sources.files import explained, open_binary
from identikit.sources.registry import kind_of, register_table

if TYPE_CHECKING:
    import pandas as pd

_PARQUET = (".parquet", ".pq")
# Read buffer of a Parquet column, which would otherwise be read whole before it is decoded.
_BUFFER_BYTES = 2**16
# Rows of a batch if columns of a Parquet file are read whose values may have any size.
_ROWS = 4096
_FILE, _FEATHER_1 = b"ARROW1", b"FEA1"
# Precedes every message since version 0.15 of the format.
_CONTINUES = b"\xff\xff\xff\xff"


@register_table(*_PARQUET, ".arrow", ".feather", ".ipc")
class ArrowTable:
    """A table in one of these formats; its file is open until all of it is read."""

    def __init__(self, path: Path, label: str) -> None:
        self._path, self._label = path, label
        open_binary(path, label).close()
        with ExitStack() as stack, _explained(label):
            source = stack.enter_context(pyarrow().OSFile(os.fsencode(path)))
            parquet = kind_of(path) in _PARQUET
            self._file: Any = _Parquet(source, label) if parquet else _Messages(source, label, path)
            self._resources = stack.pop_all()

    @property
    def fields(self) -> dict[str, Field]:
        """What the columns hold; two of the same name are an error."""
        with _explained(self._label):
            return table_fields(self._file.schema, self._label)

    @property
    def index(self) -> Collection[object]:
        return index_columns(self._file.schema)

    def rows(self, chosen: list[str], name: str) -> BandedRows:
        file, label = self._file, self._label
        with ExitStack() as stack, _explained(label):
            stack.enter_context(self._resources)
            columns = view_columns(file.schema, chosen, label)
            batches = partial(file.batches, columns=chosen)
            width = columns.measure(partial(batches, rows=1), label)
            row_bytes = width * columns.dtype.itemsize
            file.check_sizes(row_bytes)
            columns = replace(columns, width=width)
            some = partial(batches, rows=max(1, memory.PIECE_BYTES // max(1, row_bytes)))

            def pieces(band: int) -> Iterator[NDArray[Any]]:
                return columns.blocks(some, band, sum(file.counts[:band]), label)

            return BandedRows(file.counts, width, columns.dtype, pieces, name, label, stack)

    def ids(self, column: str) -> Iterator[NDArray[Any]]:
        """Yield the ids of all rows, from a column of integers or strings."""
        with self._resources, _explained(self._label):
            choose(self._file.schema.names, column, self._label)
            yield from id_blocks(self._file.batches(0, [column]), column, self._label)

    def frame(self) -> pd.DataFrame:
        with self._resources, _explained(self._label):
            table = pyarrow().Table.from_batches(self._file.batches(0), self._file.schema)
            frame: pd.DataFrame = table.to_pandas()
        return frame

    def frames(self, names: list[str]) -> Iterator[pd.DataFrame]:
        """Yield some columns with Arrow's types, in which integers may be missing."""
        import pandas as pd

        again = ArrowTable(self._path, self._label)
        with again._resources, _explained(self._label):
            for batch in again._file.batches(0, names):
                yield batch.to_pandas(types_mapper=partial(pd.ArrowDtype))

    def close(self) -> None:
        self._resources.close()


class _Parquet:
    """The row groups of a Parquet file."""

    def __init__(self, source: Any, label: str) -> None:
        parquet = require("pyarrow.parquet", "io", "reading Parquet files")
        self._file = parquet.ParquetFile(source, buffer_size=_BUFFER_BYTES, pre_buffer=False)
        self._label = label
        self.schema = self._file.schema_arrow
        metadata = self._file.metadata
        groups = range(metadata.num_row_groups)
        self.counts = [metadata.row_group(group).num_rows for group in groups]
        # No closer check: pyarrow kills the process if a damaged column is asked for its length.
        if min(self.counts, default=0) < 0 or sum(self.counts) != metadata.num_rows:
            raise InputError(
                f"{label} is damaged: its {len(self.counts)} row groups do not hold the "
                f"{metadata.num_rows} rows that were promised"
            )

    def batches(
        self, first: int, columns: list[str] | None = None, rows: int = _ROWS
    ) -> Iterator[Any]:
        """Yield batches of `rows` rows, from row group `first` on, with these columns only."""
        groups = range(first, len(self.counts))
        with _explained(self._label):
            yield from self._file.iter_batches(rows, groups, columns, use_threads=False)

    def check_sizes(self, row_bytes: int) -> None:
        """Refuse nothing: one page is decoded at a time, whatever sizes the row groups declare."""


@dataclass(frozen=True)
class _Batch:
    """A record batch in the file: its first byte, its length and its rows."""

    start: int
    length: int
    rows: int


class _Messages:
    """The record batches of an Arrow file or stream.

    Both are a sequence of messages: a schema, dictionaries, record batches, an end. The file format
    adds a marker before them and an index after them.
    """

    def __init__(self, source: Any, label: str, path: Path) -> None:
        self._source, self._label = source, label
        self._ipc = require("pyarrow.ipc", "io", "reading Arrow files")
        begin = source.read_at(len(_FILE), 0)
        if begin.startswith(_FEATHER_1):
            raise InputError(
                f"{label} is in version 1 of the Feather format; write it again as version 2"
            )
        index = self._ipc.open_file(source) if begin == _FILE else None
        self._start = 0 if index is None else 8
        self._dictionaries = False
        with ExitStack() as stack:
            # Mapped, so that the bodies of messages, which are not needed here, are not read.
            mapped = source
            if source.size():
                mapped = stack.enter_context(pyarrow().memory_map(os.fsencode(path)))
            self._batches = list(self._walk(mapped))
        self.counts = [batch.rows for batch in self._batches]
        self.schema = self._reader().schema
        if index is None:
            whole = self._end == source.size()
        else:
            whole = index.num_record_batches == len(self.counts) and index.schema == self.schema
        # If damage turned a batch into a dictionary, its rows would be lost silently.
        if not whole or (self._dictionaries and "dictionary<" not in str(self.schema)):
            raise InputError(
                f"{label} is damaged: it holds {len(self.counts)} record batches, which does not "
                "agree with its end; write or copy the file again"
            )
        for number, count in enumerate(self.counts):
            if count == 0:  # it is never read later, so check now that it is empty
                next(self.batches(number, self.schema.names[:1]))

    def batches(
        self,
        first: int,
        columns: list[str] | None = None,
        rows: int = _ROWS,  # noqa: ARG002  # the writer chose
    ) -> Iterator[Any]:
        """Yield record batches of their stored lengths, from a given one on, with these columns.

        All iterators share the position in the file, so only the latest may be used.
        """
        with _explained(self._label):
            reader = self._reader(columns)
            if first:
                reader.read_next_batch()  # this also reads the dictionaries, which all need
                self._source.seek(self._batches[first].start)
            for count in self.counts[first:]:
                batch = next(reader, None)
                if batch is None or batch.num_rows != count:
                    raise InputError(f"{self._label} changed or became shorter while it was read")
                # Wrong offsets in a file would otherwise lead to reads outside of its memory.
                batch.validate(full=True)
                yield batch

    def check_sizes(self, row_bytes: int) -> None:
        """Refuse batches that declare many more rows than their bytes can hold."""
        for batch in self._batches:
            memory.check_unpacked(
                batch.rows * row_bytes, batch.length, "a record batch", self._label
            )

    def _reader(self, columns: list[str] | None = None) -> Any:
        self._source.seek(self._start)
        fields = columns and [self.schema.get_field_index(name) for name in columns]
        options = self._ipc.IpcReadOptions(included_fields=fields, use_threads=False)
        return self._ipc.open_stream(self._source, options=options)

    def _walk(self, mapped: Any) -> Iterator[_Batch]:
        """Yield every record batch, found by the headers of the messages; nothing is unpacked."""
        place, size = self._start, self._source.size()
        nothing = pyarrow().schema([])
        marked = self._source.read_at(4, place) == _CONTINUES
        prefix = 8 if marked else 4
        while place < size:
            if (self._source.read_at(4, place) == _CONTINUES) != marked:
                raise self._damaged(place, "does not begin like the first")
            try:
                mapped.seek(place)
                message = self._ipc.read_message(mapped)
            except EOFError:
                self._end = place + prefix
                return
            kind, length = message.type, prefix + len(message.metadata) + len(message.body)
            if (kind == "schema") != (place == self._start):
                raise self._damaged(place, f"is a {kind}, which does not belong there")
            if kind == "record batch":
                # With a schema without columns, so that no column has to be unpacked.
                rows = self._ipc.read_record_batch(message, nothing).num_rows
                if rows < 0:
                    raise self._damaged(place, f"promises {rows} rows")
                yield _Batch(place, length, rows)
            elif kind == "dictionary":
                self._dictionaries = True
            elif kind != "schema":
                raise self._damaged(place, f"is a {kind}, which is not part of a table")
            place += length
        raise InputError(f"{self._label} is truncated: the marker at its end is missing")

    def _damaged(self, place: int, words: str) -> InputError:
        return InputError(
            f"{self._label} is damaged or not an Arrow file: the message at byte {place} {words}"
        )


def _explained(label: str) -> Any:
    return explained(label, pyarrow().ArrowException, OSError, ValueError)
