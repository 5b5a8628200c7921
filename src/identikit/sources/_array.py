"""Arrays in memory, and whatever turns into one."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identikit.errors import InputError
from identikit.sources import _torch
from identikit.sources._checks import check_matrix, is_bfloat16, numeric_eps
from identikit.sources._columns import is_table, table_array


class ArraySource:
    """Rows of a NumPy array with any strides; blocks are read-only windows on it.

    Parameters
    ----------
    array : ndarray
        Two-dimensional, of a real dtype.
    name : str
        What reports call the view.
    """

    def __init__(self, array: NDArray[Any], name: str) -> None:
        label = f"view {name!r}"
        self.name = name
        self.eps = numeric_eps(array.dtype, label)
        self.rows, self.width = check_matrix(array.shape, label)
        self._array = array
        self.origin: object = array
        self.files: tuple[Path, ...] = ()

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Rows `start` to `stop`."""
        block = self._array[start:stop]
        if is_bfloat16(block.dtype):
            return block.astype(np.float32)
        # The memory is the caller's own: a slip further on must fail, not change their data.
        block.flags.writeable = False
        return block

    def close(self) -> None:
        """Nothing to let go of."""


def as_array(view: object, label: str) -> NDArray[Any]:
    """A plain NumPy array of what came, without a copy where that is possible.

    Parameters
    ----------
    view : object
        An array, a tensor, a data frame, a table of pyarrow, nested lists.
    label : str
        What the error shall call it.
    """
    if isinstance(view, np.ma.MaskedArray) and np.ma.is_masked(view):
        raise InputError(
            f"{label} is a masked array with masked entries, which have no value; "
            "fill them or drop their rows from every view"
        )
    if is_table(view):
        return table_array(view, label)
    if (lists := _list_column(view, label)) is not None:
        if lists.dtype != object:
            arrow = sys.modules["pyarrow"]
            return table_array(arrow.table({str(lists.name): lists.array.__arrow_array__()}), label)
        view = _rows_of(lists, label)
    try:
        return _torch.to_numpy(view) if _torch.is_tensor(view) else np.asarray(view)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(
            f"{label} is a {type(view).__name__} that does not convert to an array of rows × "
            f"columns: {error}"
        ) from error


def _list_column(view: Any, label: str) -> Any:
    """The column of lists of a data frame that has one, which is then the view; or None."""
    frame = getattr(sys.modules.get("pandas"), "DataFrame", None)
    if frame is None or not isinstance(view, frame):
        return None
    columns = [view.iloc[:, number] for number in range(view.shape[1])]
    lists = [column for column in columns if _holds_lists(column)]
    if len(lists) > 1:
        raise InputError(
            f"{label} has {len(lists)} columns of lists, {lists[0].name!r} and {lists[1].name!r} "
            f"among them; keep one, for example frame[[{lists[0].name!r}]]"
        )
    return lists[0] if lists else None


def _holds_lists(column: Any) -> bool:
    if column.dtype != object:
        # pandas' name for a type of pyarrow, of which a list has the type of its items.
        return hasattr(getattr(column.dtype, "pyarrow_dtype", None), "value_type")
    there = column[column.notna()]
    return len(there) > 0 and isinstance(there.iloc[0], list | tuple | np.ndarray)


def _rows_of(lists: Any, label: str) -> list[Any]:
    """The rows of a column of lists, all of one length."""
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
                f"first row and of {len(row)} in row {number}; expected lists of one length"
            )
    return rows
