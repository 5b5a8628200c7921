"""Columns of Arrow and Parquet tables: choose those of the view, and read its rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identikit.errors import InputError, require
from identikit.sources._choice import Field, choose_fields

# Given the number of a band, gives its record batches and all later ones. pyarrow has no types.
Batches = Callable[[int], Iterator[Any]]


@dataclass(frozen=True)
class Columns:
    """The columns of a view; `width` is None if only a row can tell the length of its lists."""

    names: tuple[str, ...]
    dtype: np.dtype[Any]
    width: int | None
    lists: bool

    def blocks(self, batches: Batches, band: int, first: int, label: str) -> Iterator[Any]:
        """Yield arrays of rows from `band` on, whose first row is row `first` of the table."""
        width = self.width
        for batch in batches(band):
            missing = self._null_rows(batch)
            if missing.any():
                raise InputError(self._describe_nulls(batches, label))
            if not self.lists:
                block = np.empty((batch.num_rows, len(self.names)), self.dtype)
                for number, name in enumerate(self.names):
                    block[:, number] = _numbers(batch.column(name))
            elif batch.num_rows:
                lists = _stored(batch.column(self.names[0]))
                lengths = np.asarray(_compute().list_value_length(lists))
                width = int(lengths[0]) if width is None else width
                if (wrong := lengths != width).any():
                    raise InputError(
                        f"{label}: column {self.names[0]!r} holds a list of {width} numbers in its "
                        f"first row and one of {lengths[wrong.argmax()]} in row "
                        f"{first + int(wrong.argmax())}; expected lists of the same length"
                    )
                block = _numbers(lists.flatten()).reshape(batch.num_rows, width)
            else:
                continue
            first += len(block)
            yield block

    def measure(self, batches: Batches, label: str) -> int:
        """The number of dimensions; the first row is read if necessary."""
        if self.width is not None:
            return self.width
        first = next(self.blocks(batches, 0, 0, label), None)
        return 1 if first is None else int(first.shape[1])

    def _null_rows(self, batch: Any) -> NDArray[np.bool_]:
        missing = np.zeros(batch.num_rows, dtype=bool)
        for name in self.names:
            column = _stored(batch.column(name))
            if column.null_count:
                missing |= np.asarray(column.is_null())
            if self.lists and (items := _stored(column.flatten())).null_count:
                row_of_item = np.asarray(_compute().list_parent_indices(column))
                missing[row_of_item[np.asarray(items.is_null())]] = True
        return missing

    def _describe_nulls(self, batches: Batches, label: str) -> str:
        rows, bad, first = 0, 0, -1
        for batch in batches(0):
            missing = self._null_rows(batch)
            if first < 0 and missing.any():
                first = rows + int(missing.argmax())
            rows, bad = rows + batch.num_rows, bad + int(missing.sum())
        many = f"columns {self.names[0]!r} to {self.names[-1]!r} have"
        one = f"column {self.names[0]!r} has"
        return (
            f"{label}: {many if len(self.names) > 1 else one} nulls in {bad} of {rows} rows, the "
            f"first is row {first} (counting from 0); fill them, or leave those rows out of every "
            "view"
        )


def view_columns(schema: Any, chosen: list[str], label: str) -> Columns:
    """The chosen columns: one of lists, or several of numbers."""
    kinds = [_stored_type(schema.field(name).type) for name in chosen]
    if not _field(kinds[0]).lists:
        dtype = np.result_type(*(kind.to_pandas_dtype() for kind in kinds))
        return Columns(tuple(chosen), dtype, len(chosen), lists=False)
    shape = getattr(schema.field(chosen[0]).type, "shape", None)
    if shape is not None and len(shape) != 1:
        raise InputError(
            f"{label}: column {chosen[0]!r} holds tensors of shape {tuple(shape)}; expected one "
            "axis: flatten them before saving"
        )
    (kind,) = kinds
    width = getattr(kind, "list_size", None)
    return Columns((chosen[0],), np.dtype(kind.value_type.to_pandas_dtype()), width, lists=True)


def table_fields(schema: Any, label: str) -> dict[str, Field]:
    fields = {field.name: _field(field.type) for field in schema}
    if len(fields) < len(schema):
        twice = next(name for name in schema.names if schema.names.count(name) > 1)
        raise InputError(f"{label} has two columns named {twice!r}; rename one of them")
    return fields


def index_columns(schema: Any) -> list[object]:
    """The columns that pandas recorded as the index of the data frame that it saved."""
    try:
        return list(schema.pandas_metadata["index_columns"])
    except (TypeError, ValueError, LookupError):
        return []


def id_blocks(batches: Iterable[Any], column: str, label: str) -> Iterator[NDArray[Any]]:
    """Yield the ids of consecutive rows, from a column of integers or strings."""
    pa, rows = pyarrow(), 0
    for batch in batches:
        values = _stored(batch.column(column))
        if pa.types.is_dictionary(values.type):
            values = values.dictionary_decode()
        plain = pa.types.is_integer(values.type) or pa.types.is_boolean(values.type)
        if not (plain or _is_text(values.type)):
            raise InputError(
                f"{label}: column {column!r} has type {values.type}; expected integers or strings"
            )
        if values.null_count:
            first = rows + int(np.asarray(values.is_null()).argmax())
            raise InputError(
                f"{label}: column {column!r} is null in row {first}; every row needs an id"
            )
        ids = values.to_numpy(zero_copy_only=False)
        rows += len(ids)
        yield ids if ids.dtype.kind in "iub" else np.array(ids.tolist(), dtype=str)


def table_array(table: Any, label: str) -> NDArray[Any]:
    """The view in a pyarrow.Table or RecordBatch in memory, by the same rules as for a file."""
    pa = pyarrow()
    if isinstance(table, pa.RecordBatch):
        table = pa.Table.from_batches([table])
    try:
        fields = table_fields(table.schema, label)
        names = choose_fields(fields, None, label, index_columns(table.schema))
        columns = view_columns(table.schema, names, label)
    except InputError as error:
        raise InputError(f"{error}; for a table in memory, use table.select([...])") from error
    batches = table.select(names).to_batches()
    blocks = list(columns.blocks(lambda _: iter(batches), 0, 0, label))
    return np.concatenate(blocks) if blocks else np.empty((0, 1), columns.dtype)


def is_table(view: object) -> bool:
    """Whether this is a pyarrow table; pyarrow is not imported to find out."""
    return type(view).__module__ == "pyarrow.lib" and type(view).__name__ in (
        "Table",
        "RecordBatch",
    )


def pyarrow() -> Any:
    return require("pyarrow", "io", "reading Parquet and Arrow files")


def _compute() -> Any:
    return require("pyarrow.compute", "io", "reading Parquet and Arrow files")


def _field(shown: Any) -> Field:
    types, kind = pyarrow().types, _stored_type(shown)
    lists = types.is_fixed_size_list(kind) or types.is_list(kind) or types.is_large_list(kind)
    real = _is_real(kind)
    return Field(
        str(shown),
        lists=lists and _is_real(kind.value_type),
        numbers=real,
        whole=real and not types.is_floating(kind),
    )


def _is_real(kind: Any) -> bool:
    types = pyarrow().types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind))


def _is_text(kind: Any) -> bool:
    types = pyarrow().types
    # The oldest supported pyarrow has no function for the third type.
    return bool(types.is_string(kind) or types.is_large_string(kind) or str(kind) == "string_view")


def _stored_type(kind: Any) -> Any:
    """The storage type of an extension type, for example of tensors of fixed shape."""
    while isinstance(kind, pyarrow().BaseExtensionType):
        kind = kind.storage_type
    return kind


def _stored(array: Any) -> Any:
    while isinstance(array, pyarrow().ExtensionArray):
        array = array.storage
    return array


def _numbers(array: Any) -> NDArray[Any]:
    numbers: NDArray[Any] = _stored(array).to_numpy(zero_copy_only=False)
    return numbers
