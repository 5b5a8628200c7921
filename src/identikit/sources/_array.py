"""Arrays in memory, and whatever turns into one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identikit.errors import InputError
from identikit.sources import _torch
from identikit.sources._checks import check_matrix, is_bfloat16, numeric_eps


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
        An array, a tensor, a data frame, nested lists.
    label : str
        What the error shall call it.
    """
    if isinstance(view, np.ma.MaskedArray) and np.ma.is_masked(view):
        raise InputError(
            f"{label} is a masked array with masked entries, which have no value; "
            "fill them or drop their rows from every view"
        )
    try:
        return _torch.to_numpy(view) if _torch.is_tensor(view) else np.asarray(view)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(
            f"{label} is a {type(view).__name__} that does not convert to an array of rows × "
            f"columns: {error}"
        ) from error
