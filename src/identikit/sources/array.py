"""Arrays in memory, and whatever can be converted to one: data frames, tables, AnnData."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identikit.errors import InputError
from identikit.sources._choice import Field, default_places
from identikit.sources._columns import is_table, table_array
from identikit.sources._source import RowSource
from identikit.sources.checks import is_bfloat16, numeric_eps
from identikit.sources.device import is_tensor, to_numpy

#: The name of the pseudo-column that holds the names of an AnnData's rows.
OBS_NAMES = "obs_names"

# pandas' names for the contents of a column of objects that are not numbers.
_NO_NUMBERS = ("string", "empty", "datetime", "datetime64", "date", "time", "timedelta", "bytes")


class ArraySource(RowSource):
    """Rows of a NumPy array with any strides; blocks are read-only views of it."""

    def __init__(self, array: NDArray[Any], name: str) -> None:
        label = f"view {name!r}"
        super().__init__(name, label, array.shape, numeric_eps(array.dtype, label), array)
        self._array = array

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Rows `start` to `stop`."""
        block = self._array[start:stop]
        if is_bfloat16(block.dtype):
            return block.astype(np.float32)
        # The memory belongs to the caller: a mistake in later code must fail, not change the data.
        block.flags.writeable = False
        return block


def as_array(view: object, label: str) -> NDArray[Any]:
    """Convert an array, a tensor, a data frame, a pyarrow table or nested lists to a NumPy array.

    Nothing is copied where that is possible. `label` is what error messages call it.
    """
    if isinstance(view, np.ma.MaskedArray) and np.ma.is_masked(view):
        raise InputError(
            f"{label} is a masked array with masked entries, which have no value; "
            "fill them or drop their rows from every view"
        )
    if is_table(view):
        return table_array(view, label)
    if is_frame(view):
        view = _frame_rows(view, label)
        if is_table(view):
            return table_array(view, label)
    try:
        return to_numpy(view) if is_tensor(view) else np.asarray(view)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(
            f"{label} is a {type(view).__name__} that does not convert to an array of rows × "
            f"columns: {error}"
        ) from error


def is_frame(view: object) -> bool:
    """Whether this is a pandas data frame; pandas is not imported to find out."""
    frame = getattr(sys.modules.get("pandas"), "DataFrame", None)
    return frame is not None and isinstance(view, frame)


def _frame_rows(view: Any, label: str) -> Any:
    """The columns of a data frame that form the view, as an object that converts to an array."""
    columns = [view.iloc[:, place] for place in range(view.shape[1])]
    fields = [(str(column.name), _field(column)) for column in columns]
    if not fields:
        return view
    places = default_places(fields, label)
    chosen = columns[places[0]]
    if not fields[places[0]][1].lists:
        return view if len(places) == len(columns) else view.iloc[:, places]
    if chosen.dtype != object:
        arrow = sys.modules["pyarrow"]
        return arrow.table({str(chosen.name): chosen.array.__arrow_array__()})
    return _rows_of(chosen, label)


def _field(column: Any) -> Field:
    """Describe what a column of a data frame holds."""
    from pandas.api import types

    kind, shown = column.dtype, str(column.dtype)
    objects = shown == "object"
    if _holds_lists(column):
        return Field("lists", lists=True)
    if objects and types.infer_dtype(column, skipna=True) in _NO_NUMBERS:
        return Field("text")
    numbers = objects or types.is_numeric_dtype(kind)
    return Field(shown, numbers=numbers, whole=numbers and not types.is_float_dtype(kind))


def _holds_lists(column: Any) -> bool:
    if column.dtype != object:
        # A pyarrow type within pandas; only list types have a type of their items.
        return hasattr(getattr(column.dtype, "pyarrow_dtype", None), "value_type")
    there = column[column.notna()]
    return len(there) > 0 and isinstance(there.iloc[0], list | tuple | np.ndarray)


def _rows_of(lists: Any, label: str) -> list[Any]:
    """The rows of a column of lists, which must have the same length."""
    rows: list[Any] = lists.tolist()
    for number, row in enumerate(rows):
        if not isinstance(row, list | tuple | np.ndarray):
            raise InputError(
                f"{label}: column {lists.name!r} has {row!r} in row {number}; expected a list of "
                "numbers in every row"
            )
        if len(row) != len(rows[0]):
            raise InputError(
                f"{label}: column {lists.name!r} holds a list of {len(rows[0])} numbers in its "
                f"first row and one of {len(row)} in row {number}; expected lists of the same "
                "length"
            )
    return rows


def is_anndata(view: object) -> bool:
    """Whether this is an AnnData object; anndata is not imported to find out."""
    return type(view).__module__.split(".")[0] == "anndata" and hasattr(view, "obs")


def matrix_of(view: Any, label: str) -> object:
    """The matrix X of an AnnData object."""
    if view.X is None:
        raise InputError(
            f"{label} is an AnnData without a matrix X; pass one of its arrays, for example "
            "adata.obsm['X_pca']"
        )
    matrix: object = view.X
    return matrix


def obs_columns(view: Any) -> dict[str, Any]:
    """The columns of an AnnData's table obs by name, and the names of the rows as one more."""
    return {OBS_NAMES: view.obs_names, **{str(name): view.obs[name] for name in view.obs.columns}}
