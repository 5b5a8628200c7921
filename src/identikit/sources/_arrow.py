"""Arrow's file and stream formats, and Feather version 2, which is the former.

Both are a row of messages: a schema, dictionaries, record batches; the file format puts a mark
before and an index after them. The messages' headers are walked here, because pyarrow would unpack
every batch to tell how many rows it has. A record batch is then read whole.
https://arrow.apache.org/docs/format/Columnar.html#serialization-and-interprocess-communication-ipc
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from numpy.typing import NDArray

from identikit.errors import InputError, require
from identikit.sources._checks import choose
from identikit.sources._columns import choose_columns, id_blocks
from identikit.sources._groups import GroupedRows, explained
from identikit.sources._registry import register, register_frame, register_ids
from identikit.sources._rows import file_label, open_binary, size_of
from identikit.sources._unpacking import check_unpacked

if TYPE_CHECKING:
    import pandas as pd

_MAGIC = b"ARROW1"
_FEATHER_1 = b"FEA1"
_CONTINUES = 0xFFFFFFFF
_KINDS = _SCHEMA, _DICTIONARY, _RECORD_BATCH = 1, 2, 3


@register(".arrow", ".feather", ".ipc")
def open_arrow(path: Path, member: str | None, name: str) -> GroupedRows:
    """Open the columns of an Arrow file that are a view; which, `sources._columns` says."""
    label = file_label(name, path)
    with ExitStack() as stack, _explained(label):
        file = _File(stack.enter_context(open_binary(path, label)), label)
        columns = choose_columns(file.schema, member, label)
        fields = [file.schema.get_field_index(column) for column in columns.names]
        counts = [message.rows for message in file.messages]

        def batches(group: int) -> Iterator[Any]:
            return file.batches(group, fields)

        width = columns.measure(batches, label)
        file.check_sizes(width * columns.dtype.itemsize)
        columns = replace(columns, width=width)

        def pieces(group: int) -> Iterator[NDArray[Any]]:
            return columns.blocks(batches, group, sum(counts[:group]), label)

        return GroupedRows(counts, width, columns.dtype, pieces, name, label, stack)


@register_ids(".arrow", ".feather", ".ipc")
def read_arrow_ids(path: Path, column: str, label: str) -> Iterator[NDArray[Any]]:
    """The ids of all rows, from a column of integers or strings."""
    with open_binary(path, label) as stream, _explained(label):
        file = _File(stream, label)
        choose(file.schema.names, column, label)
        if file.late_dictionaries and hasattr(file.schema.field(column).type, "index_type"):
            raise InputError(
                f"{label}: the dictionary of column {column!r} changes within the file; save the "
                "column as plain strings"
            )
        fields = [file.schema.get_field_index(column)]
        yield from id_blocks(file.batches(0, fields), column, label)


def arrow_batches(
    path: Path, columns: list[str] | None, label: str, stack: ExitStack
) -> tuple[Any, Iterator[Any]]:
    """The schema of a file, and record batches of some of its columns.

    Parameters
    ----------
    path : Path
        The file.
    columns : list of str or None
        Their names; None for all.
    label : str
        What errors shall call the file.
    stack : ExitStack
        Receives what has to be closed.
    """
    stack.enter_context(_explained(label))
    file = _File(stack.enter_context(open_binary(path, label)), label)
    names = file.schema.names if columns is None else columns
    return file.schema, file.batches(0, [file.schema.get_field_index(name) for name in names])


@dataclass(frozen=True)
class _Message:
    """A record batch in the file: its first byte, its length, its rows, and if it is packed."""

    start: int
    length: int
    rows: int
    packed: bool


class _File:
    """The record batches of an open file."""

    def __init__(self, stream: IO[bytes], label: str) -> None:
        self._stream, self._label = stream, label
        self._size = size_of(stream)
        self._arrow = require("pyarrow", "io", "reading Arrow files")
        self.late_dictionaries = False
        first = self._start()
        self.messages = list(self._walk(first))
        # The schema and the dictionaries, without which no batch can be read.
        ends = self.messages[0].start if self.messages else self._end
        self._head = self._bytes(first, ends - first)
        self.schema = self._open(self._head).schema
        self._check_whole(first > 0)

    def batches(self, first: int, fields: list[int]) -> Iterator[Any]:
        """Record batches from a given one on, with these columns only."""
        with _explained(self._label):
            for message in self.messages[first:]:
                data = self._bytes(message.start, message.length, self._head)
                batch = self._open(data, fields).read_next_batch()
                # Wrong offsets in a file would otherwise be followed out of its memory.
                batch.validate(full=True)
                if batch.num_rows != message.rows:
                    raise InputError(f"{self._label} is damaged: a record batch changed its length")
                yield batch

    def check_sizes(self, row_bytes: int) -> None:
        """Refuse batches that promise more rows than their bytes can hold."""
        for message in self.messages:
            size = message.rows * row_bytes
            # A boolean, the smallest number, is an eighth of the byte that NumPy gives it.
            if not message.packed and size > 8 * message.length:
                raise InputError(
                    f"{self._label} is damaged: a record batch of {message.length} bytes promises "
                    f"{message.rows} rows"
                )
            check_unpacked(size, message.length, "a record batch", self._label)

    def _check_whole(self, indexed: bool) -> None:
        """Refuse a file in which batches were lost, or that says two things of itself."""
        if indexed:
            index = self._arrow.ipc.open_file(self._arrow.PythonFile(self._stream, "r"))
            sound = index.num_record_batches == len(self.messages) and index.schema == self.schema
        else:
            sound = self._after == self._size
        if self.late_dictionaries:
            sound &= "dictionary<" in str(self.schema)
        # The only batches that nobody reads later on.
        for number, message in enumerate(self.messages):
            if message.rows == 0:
                sound &= next(self.batches(number, [0])).num_rows == 0
        if not sound:
            raise InputError(
                f"{self._label} is damaged: it was found to hold {len(self.messages)} record "
                "batches, and its end does not agree; write or copy the file again"
            )

    def _open(self, data: bytearray, fields: list[int] | None = None) -> Any:
        options = self._arrow.ipc.IpcReadOptions(included_fields=fields, use_threads=False)
        return self._arrow.ipc.open_stream(self._arrow.py_buffer(data), options=options)

    def _start(self) -> int:
        start = self._bytes(0, min(8, self._size))
        if start.startswith(_FEATHER_1):
            raise InputError(
                f"{self._label} is in version 1 of the Feather format; write it again as version 2"
            )
        if not start.startswith(_MAGIC):
            return 0
        if self._size < 16 or self._bytes(self._size - 6, 6) != _MAGIC:
            raise InputError(
                f"{self._label} is truncated: it lacks the mark at its end ({self._size} bytes "
                "were found); write or copy the file again"
            )
        return 8

    def _walk(self, place: int) -> Iterator[_Message]:
        """Every record batch, by the headers of the messages alone."""
        seen, first, usual = False, place, 0
        while True:
            (length,) = struct.unpack("<I", self._bytes(place, 4))
            prefix = 4
            if length == _CONTINUES:  # absent before version 0.15
                (length,) = struct.unpack("<I", self._bytes(place + 4, 4))
                prefix = 8
            if place > first and prefix != usual:
                raise InputError(
                    f"{self._label} is damaged: the message at byte {place} begins unlike the first"
                )
            usual = prefix
            if length == 0:
                self._end, self._after = place, place + prefix
                return
            try:
                kind, body, rows, packed = _header(self._bytes(place + prefix, length))
            except (struct.error, IndexError) as error:
                raise InputError(
                    f"{self._label} is damaged or no Arrow file: the message at byte {place} has a "
                    "header that cannot be read"
                ) from error
            if kind not in _KINDS or (kind == _SCHEMA) != (place == first):
                raise InputError(
                    f"{self._label} is damaged or no Arrow file: the message at byte {place} is of "
                    f"kind {kind}, which does not belong there"
                )
            if kind == _RECORD_BATCH:
                seen = True
                yield _Message(place, prefix + length + body, rows, packed)
            self.late_dictionaries |= seen and kind == _DICTIONARY
            place += prefix + length + body

    def _bytes(self, start: int, length: int, head: bytes | bytearray = b"") -> bytearray:
        """Bytes of the file, after those of `head`."""
        # Before any memory is taken for them.
        if length > self._size - start:
            raise InputError(
                f"{self._label} is truncated or no Arrow file: {length} bytes are expected from "
                f"byte {start} on, but it has {self._size}"
            )
        found, done = bytearray(len(head) + length), len(head)
        found[:done] = head
        self._stream.seek(start)
        while done < len(found):
            got = self._stream.readinto(memoryview(found)[done:])  # type: ignore[attr-defined]
            if not got:
                raise InputError(f"{self._label} became shorter while it was read")
            done += got
        return found


@register_frame(".arrow", ".feather", ".ipc")
def read_arrow_frame(path: Path, label: str) -> pd.DataFrame:
    """All columns, as pandas reads them."""
    with ExitStack() as stack, _explained(label):
        schema, batches = arrow_batches(path, None, label, stack)
        arrow = require("pyarrow", "io", "reading Arrow files")
        frame: pd.DataFrame = arrow.Table.from_batches(batches, schema).to_pandas()
    return frame


def _explained(label: str) -> Any:
    arrow = require("pyarrow", "io", "reading Arrow files")
    return explained(label, arrow.ArrowException, OSError, ValueError)


def _header(data: bytearray) -> tuple[int, int, int, bool]:
    """Kind of a message, bytes of its body, rows of its batch and if it is packed.

    That is four fields of two FlatBuffers.
    """
    (message,) = struct.unpack_from("<I", data)
    kind, body = _field(data, message, 1, "<B"), _field(data, message, 3, "<q")
    rows, packed = 0, False
    if kind == _RECORD_BATCH:
        batch = message + _place(data, message, 2)
        batch += struct.unpack_from("<I", data, batch)[0]
        rows, packed = _field(data, batch, 0, "<q"), _place(data, batch, 3) > 0
    if body < 0 or rows < 0:
        raise IndexError
    return kind, body, rows, packed


def _field(data: bytearray, table: int, number: int, form: str) -> int:
    place = _place(data, table, number)
    value: int = struct.unpack_from(form, data, table + place)[0] if place else 0
    return value


def _place(data: bytearray, table: int, number: int) -> int:
    """Where a field lies after the start of its table; 0 if it is absent, and so 0 or empty."""
    (back,) = struct.unpack_from("<i", data, table)
    if back > table:
        raise IndexError
    (size,) = struct.unpack_from("<H", data, table - back)
    entry = 4 + 2 * number
    return int(struct.unpack_from("<H", data, table - back + entry)[0]) if entry < size else 0
