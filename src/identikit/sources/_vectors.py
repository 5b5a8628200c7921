"""1-D arrays, mostly in files: the parts of sparse matrices, and the ids and labels of rows."""

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

#: The number of ids that are read at a time, and the most bytes that they may take.
BLOCK, BLOCK_BYTES = 2**16, 2**24


class Vector(Protocol):
    """A 1-D array, perhaps in a file, that is read in slices."""

    @property
    def dtype(self) -> Any:
        """The dtype of its entries."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Its length, as a tuple."""

    def __getitem__(self, where: slice, /) -> Any:
        """A slice of its entries."""


class StoredVector:
    """A 1-D array in a binary stream."""

    def __init__(self, stream: IO[bytes], stored: StoredArray, label: str) -> None:
        self.dtype, self.shape = stored.dtype, stored.shape
        self._stream, self._stored, self._label = stream, stored, label

    def __getitem__(self, where: slice) -> NDArray[Any]:
        start, stop, _ = where.indices(self.shape[0] if self.shape else 0)
        return self._stored.read(self._stream, start, max(stop - start, 0), self._label)


def vector_ids(vector: Vector, label: str) -> Iterator[NDArray[Any]]:
    """Yield blocks of the ids or labels in an array of integers or strings."""
    if len(vector.shape) != 1:
        raise InputError(
            f"{label} has shape {vector.shape} and dtype {vector.dtype}; expected 1-D, one "
            "integer or string per row"
        )
    size = getattr(vector.dtype, "itemsize", 0)
    step = max(1, min(BLOCK, BLOCK_BYTES // max(size, 1)))
    for start in range(0, vector.shape[0], step):
        with explained(label, ValueError):  # damaged text
            ids = np.asarray(vector[start : start + step])
            if ids.dtype.kind == "S":
                ids = np.char.decode(ids, "utf-8")
            if ids.dtype.kind in "OT" and all(isinstance(one, str) for one in ids):
                ids = np.array(ids.tolist(), dtype=str)
        if ids.dtype.kind not in "iuUb":
            raise InputError(f"{label} has dtype {ids.dtype}; expected integers or strings")
        yield ids


def line_ids(path: Path, label: str, what: str = "one id") -> Iterator[NDArray[Any]]:
    """Yield blocks of the ids or labels in a text file, one per line, as Python strings.

    Empty lines at the end do not count. `what` says in the error what a line should hold.
    """
    open_binary(path, label).close()
    with path.open(encoding="utf-8-sig") as file:
        done, empty = 0, None
        try:
            while lines := [line.strip() for line in islice(file, BLOCK)]:
                for number, line in enumerate(lines, done + 1):
                    if line and empty:
                        raise InputError(
                            f"{label}: line {empty} is empty; expected {what} per line"
                        )
                    empty = empty or (None if line else number)
                yield np.array([line for line in lines if line], dtype=object)
                done += len(lines)
        except UnicodeDecodeError as error:
            raise InputError(f"{label} is not UTF-8 text ({error}); save it as UTF-8") from error


def check_alike(
    values: NDArray[Any], label: str, numbers: tuple[type, ...], first: int = 0
) -> None:
    """Refuse objects that are neither all strings nor all numbers of the given types.

    True and False count as numbers only if floats do. `first` is the row of the first value.
    """
    expected = (str,) if len(values) and isinstance(values[0], str) else numbers
    for row, value in enumerate(values, first):
        wrong = isinstance(value, bool) and float not in expected
        if wrong or not isinstance(value, expected):
            raise InputError(
                f"{label}: row {row} is {value!r} of type {type(value).__name__}; expected "
                "integers only or strings only, with none missing"
            )
