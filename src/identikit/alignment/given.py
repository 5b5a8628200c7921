"""Validation of the in-memory input of transformers: real, finite rows with the known columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identikit.errors import InputError
from identikit.sources import is_in_memory as is_in_memory
from identikit.sources.array import as_array
from identikit.sources.checks import is_bfloat16, numeric_eps

Names = NDArray[np.object_]


def column_names(X: object) -> Names | None:
    """The names of a data frame's columns, if all of them are text."""
    names = list(getattr(X, "columns", ()))
    named = names and all(isinstance(name, str) for name in names)
    return np.array(names, dtype=object) if named else None


def check_names(X: object, known: Sequence[str] | Names | None, owner: str) -> None:
    """Refuse a data frame whose columns are not the known ones in the known order."""
    columns = column_names(X)
    if columns is not None and known is not None and list(columns) != list(known):
        raise InputError(
            f"the data frame has the columns {_listed(columns)}, but {owner} was fitted on "
            f"{_listed(known)}; give it these columns, in that order"
        )


def _listed(names: Sequence[str] | Names) -> str:
    few = ", ".join(map(str, names[:8]))
    return few if len(names) <= 8 else f"{few}, … ({len(names)} in all)"


def given_rows(
    X: object, owner: str, width: int | None = None, space: str = "X", *, vector: bool = False
) -> NDArray[Any]:
    """Check the rows and return them in their own type; errors are worded as in scikit-learn.

    Parameters
    ----------
    X : array, data frame or lists
        Anything with ``__array__``.
    owner : str
        The class that takes the rows, for messages.
    width : int, optional
        The number of columns that they must have.
    space : str
        The name of the space that the rows are from, for messages.
    vector : bool
        Whether a vector is accepted as one column, as it is for targets.
    """
    if hasattr(X, "tocsr"):
        raise InputError(f"X is sparse; {owner} takes dense rows: give it X.toarray()")
    array = as_array(X, "X")
    if array.dtype.kind == "c":
        raise InputError(
            f"Complex data not supported: X has dtype {array.dtype}; split it into real and "
            "imaginary columns"
        )
    if array.dtype.kind == "O" and not is_bfloat16(array.dtype):
        array = array.astype(np.float64)
    numeric_eps(array.dtype, f"X, rows of {space!r},")
    if vector and array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2:
        columns = "some" if width is None else width
        raise InputError(
            f"expected rows of {space!r} with {columns} columns, got the shape {array.shape}. "
            "Reshape your data: x.reshape(1, -1) makes one row of it"
        )
    for count, what in zip(array.shape, ("sample", "feature")):
        if count == 0:
            raise InputError(
                f"X has 0 {what}(s) (shape={array.shape}) while a minimum of 1 is required."
            )
    if width is not None and array.shape[1] != width:
        raise InputError(
            f"X has {array.shape[1]} features, but {owner} is expecting {width} features as input, "
            f"those of {space!r}"
        )
    finite = np.isfinite(array).all(axis=1)
    if not finite.all():
        raise InputError(
            f"X, rows of {space!r}, has NaN or infinity in {np.count_nonzero(~finite)} rows, the "
            f"first is row {int(np.argmin(finite))} (counting from 0); drop or fill these rows"
        )
    return array
