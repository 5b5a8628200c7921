"""Parquet files, decoded a few pages at a time whatever the size of their row groups."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from identikit.errors import InputError, require
from identikit.sources._checks import choose
from identikit.sources._columns import choose_columns, id_blocks
from identikit.sources._groups import PIECE_BYTES, GroupedRows, explained
from identikit.sources._registry import register, register_frame, register_ids
from identikit.sources._rows import file_label, open_binary

if TYPE_CHECKING:
    import pandas as pd

# Of a column chunk, which would otherwise be read whole before it is decoded.
_BUFFER_BYTES = 2**16
_ID_ROWS = 65536
# Of columns that may hold anything.
_BESIDE_ROWS = 4096


@register(".parquet", ".pq")
def open_parquet(path: Path, member: str | None, name: str) -> GroupedRows:
    """Open the columns of a Parquet file that are a view; which, `sources._columns` says."""
    label = file_label(name, path)
    with ExitStack() as stack, _explained(label):
        file = _open(path, label, stack)
        columns = choose_columns(file.schema_arrow, member, label)
        counts = _counts(file, label)
        names, groups = list(columns.names), range(file.num_row_groups)

        def batches(group: int, rows: int = 1) -> Iterator[Any]:
            with _explained(label):
                yield from file.iter_batches(rows, groups[group:], names, use_threads=False)

        width = columns.measure(batches, label)
        columns = replace(columns, width=width)
        rows = max(1, PIECE_BYTES // max(1, width * columns.dtype.itemsize))

        def pieces(group: int) -> Iterator[NDArray[Any]]:
            first = sum(counts[:group])
            return columns.blocks(lambda start: batches(start, rows), group, first, label)

        return GroupedRows(counts, width, columns.dtype, pieces, name, label, stack)


@register_ids(".parquet", ".pq")
def read_parquet_ids(path: Path, column: str, label: str) -> Iterator[NDArray[Any]]:
    """The ids of all rows, from a column of integers or strings."""
    with ExitStack() as stack, _explained(label):
        file = _open(path, label, stack)
        choose(file.schema_arrow.names, column, label)
        yield from id_blocks(
            file.iter_batches(_ID_ROWS, columns=[column], use_threads=False), column, label
        )


def parquet_batches(
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
    file = _open(path, label, stack)
    return file.schema_arrow, file.iter_batches(_BESIDE_ROWS, columns=columns, use_threads=False)


@register_frame(".parquet", ".pq")
def read_parquet_frame(path: Path, label: str) -> pd.DataFrame:
    """All columns, as pandas reads them."""
    with ExitStack() as stack, _explained(label):
        frame: pd.DataFrame = _open(path, label, stack).read().to_pandas()
    return frame


def _explained(label: str) -> Any:
    arrow = require("pyarrow", "io", "reading Parquet files")
    return explained(label, arrow.ArrowException, OSError, ValueError)


def _open(path: Path, label: str, stack: ExitStack) -> Any:
    open_binary(path, label).close()
    arrow = require("pyarrow", "io", "reading Parquet files")
    parquet = require("pyarrow.parquet", "io", "reading Parquet files")
    source = stack.enter_context(arrow.OSFile(str(path)))
    return stack.enter_context(
        parquet.ParquetFile(source, buffer_size=_BUFFER_BYTES, pre_buffer=False)
    )


def _counts(file: Any, label: str) -> list[int]:
    """Rows of every row group."""
    groups = [file.metadata.row_group(group) for group in range(file.num_row_groups)]
    counts = [group.num_rows for group in groups]
    # No closer look: pyarrow ends the process if a damaged column is asked how long it is.
    if min(counts, default=0) < 0 or sum(counts) != file.metadata.num_rows:
        raise InputError(
            f"{label} is damaged: its {len(groups)} row groups do not hold the "
            f"{file.metadata.num_rows} rows that were promised"
        )
    return counts
