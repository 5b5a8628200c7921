"""1-D arrays, mostly in files: the parts of sparse matrices, ids and labels of rows."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import IO, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from identikit.errors import InputError
from identikit.sources._rows import StoredArray
from identikit.sources.files import explained, open_binary

#: Ids read at a time, and the most bytes they may take.
BLOCK, BLOCK_BYTES = 2**16, 2**24


class Vector(Protocol):
    """A 1-D array, perhaps in a file, of which slices are read."""

    @property
    def dtype(self) -> Any:
        """Of its entries."""

    @property
    def shape(self) -> tuple[int, ...]:
        """How many there are."""

    def __getitem__(self, where: slice, /) -> Any:
        """Some of them."""


class StoredVector:
    """An array in a stream.

    Parameters
    ----------
    stream : binary file
        Where to read from.
    stored : StoredArray
        Where the array lies in it.
    label : str
        What errors call it.
    """

    def __init__(self, stream: IO[bytes], stored: StoredArray, label: str) -> None:
        self.dtype, self.shape = stored.dtype, stored.shape
        self._stream, self._stored, self._label = stream, stored, label

    def __getitem__(self, where: slice) -> NDArray[Any]:
        start, stop, _ = where.indices(self.shape[0] if self.shape else 0)
        return self._stored.read(self._stream, start, max(stop - start, 0), self._label)


def vector_ids(vector: Vector, label: str) -> Iterator[NDArray[Any]]:
    """The ids or labels in an array of integers or strings, in blocks.

    Parameters
    ----------
    vector : Vector
        An id a row.
    label : str
        What the error calls it.
    """
    if len(vector.shape) != 1:
        raise InputError(
            f"{label} has shape {vector.shape} and dtype {vector.dtype}; expected 1-D, an integer "
            "or a string a row"
        )
    size = getattr(vector.dtype, "itemsize", 0)
    step = max(1, min(BLOCK, BLOCK_BYTES // max(size, 1)))
    for start in range(0, vector.shape[0], step):
        with explained(label, ValueError):  # text that is damaged
            ids = np.asarray(vector[start : start + step])
            if ids.dtype.kind == "S":
                ids = np.char.decode(ids, "utf-8")
            if ids.dtype.kind in "OT" and all(isinstance(one, str) for one in ids):
                ids = np.array(ids.tolist(), dtype=str)
        if ids.dtype.kind not in "iuUb":
            raise InputError(f"{label} has dtype {ids.dtype}; expected integers or strings")
        yield ids


def line_ids(path: Path, label: str, what: str = "an id") -> Iterator[NDArray[Any]]:
    """The ids or labels in a text file, one a line, in blocks of Python's strings.

    Parameters
    ----------
    path : Path
        The file; empty lines at its end do not count.
    label : str
        What errors call it.
    what : str
        What a line should hold.
    """
    open_binary(path, label).close()
    with path.open(encoding="utf-8-sig") as file:
        done, empty = 0, None
        try:
            while lines := [line.strip() for line in islice(file, BLOCK)]:
                for number, line in enumerate(lines, done + 1):
                    if line and empty:
                        raise InputError(f"{label}: line {empty} is empty; expected {what} a line")
                    empty = empty or (None if line else number)
                yield np.array([line for line in lines if line], dtype=object)
                done += len(lines)
        except UnicodeDecodeError as error:
            raise InputError(f"{label} is not UTF-8 text ({error}); save it as UTF-8") from error


def check_alike(
    values: NDArray[Any], label: str, numbers: tuple[type, ...], first: int = 0
) -> None:
    """Refuse objects that are neither all strings nor all numbers.

    Parameters
    ----------
    values : array of object (n,)
        The ids or labels.
    label : str
        What errors call them.
    numbers : tuple of type
        What numbers may be; true and false are numbers only if floats are.
    first : int
        The row of the first, for errors.
    """
    expected = (str,) if len(values) and isinstance(values[0], str) else numbers
    for row, value in enumerate(values, first):
        wrong = isinstance(value, bool) and float not in expected
        if wrong or not isinstance(value, expected):
            raise InputError(
                f"{label}: row {row} is {value!r} of type {type(value).__name__}; expected "
                "integers only or strings only, with none missing"
            )
