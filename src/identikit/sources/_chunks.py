"""What HDF5 and Zarr share: arrays in chunks, of which a band of whole chunks is read at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identikit.errors import InputError
from identikit.sources._groups import PIECE_BYTES, GroupedRows

#: Bytes of the largest band; where chunks are taller than that, they are unpacked several times.
_LARGEST_BAND = 256 * 2**20
_ID_ROWS = 65536


def chunked_rows(
    read: Callable[[int, int], NDArray[Any]],
    array: Any,
    name: str,
    label: str,
    resources: ExitStack,
) -> GroupedRows:
    """A source of the rows of a checked 2-D array.

    Parameters
    ----------
    read : callable
        Gives rows `start` to `stop`.
    array : h5py.Dataset or zarr.Array
        Has a shape, a dtype and chunks.
    name, label : str
        What reports call the view, and what errors call it.
    resources : ExitStack
        What has to be closed.
    """
    rows, width = array.shape
    row_bytes = width * array.dtype.itemsize
    tall = array.chunks[0] if array.chunks else 1
    band = min(tall * max(1, PIECE_BYTES // (tall * row_bytes)), max(1, _LARGEST_BAND // row_bytes))
    starts = range(0, rows, band)

    def pieces(group: int) -> Iterator[NDArray[Any]]:
        return (read(start, min(start + band, rows)) for start in starts[group:])

    counts = [min(band, rows - start) for start in starts]
    return GroupedRows(counts, width, array.dtype, pieces, name, label, resources)


def array_ids(array: Any, shape: tuple[int, ...], label: str) -> Iterator[NDArray[Any]]:
    """The ids in a 1-D array of integers or strings, in blocks.

    Parameters
    ----------
    array : object
        Is sliced.
    shape : tuple of int
        Its shape.
    label : str
        What the error shall call it.
    """
    if len(shape) != 1:
        raise InputError(f"{label} has shape {shape}; expected one id a row, in 1-D")
    for start in range(0, shape[0], _ID_ROWS):
        ids = np.asarray(array[start : start + _ID_ROWS])
        if ids.dtype.kind == "S":
            ids = np.char.decode(ids, "utf-8")
        if ids.dtype.kind in "OT" and all(isinstance(one, str) for one in ids):
            ids = np.array(ids.tolist(), dtype=str)
        if ids.dtype.kind not in "iuUb":
            raise InputError(f"{label} has dtype {ids.dtype}; expected integers or strings")
        yield ids
