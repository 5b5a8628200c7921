"""Reading factors: arrays, tables and files become a data frame with one column per factor."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from identikit.errors import InputError
from identikit.sources.array import as_array
from identikit.sources.files import open_binary, split_member
from identikit.sources.registry import frame_readers, kind_of
from identikit.sources.whole import array_names, read_array

if TYPE_CHECKING:
    import pandas as pd


def read_factors(factors: object, names: Sequence[str] | None) -> pd.DataFrame:
    """A data frame with one named column per factor.

    Parameters
    ----------
    factors : array, data frame, mapping or path
        An array n × K, the values of each factor by its name, or a file: .npy, .npz (`path::name`,
        or one vector per factor), or any table, such as .csv, .parquet or .jsonl.
    names : sequence of str, optional
        For a matrix, the names of its columns; for a table, the columns to use, in this order.
    """
    import pandas as pd

    if isinstance(names, str):
        raise InputError(f"expected a list of factor names, got the one string {names!r}")
    found = _from_path(factors) if isinstance(factors, str | os.PathLike) else factors
    if isinstance(found, pd.Series):
        found = found.to_frame("factor 0" if found.name is None else found.name)
    if isinstance(found, Mapping):
        found = _from_mapping(found)
    if isinstance(found, pd.DataFrame):
        return _chosen(found, names)
    values = _native(as_array(found, "the factors"))
    values = values[:, None] if values.ndim == 1 else values
    if values.ndim != 2 or values.shape[1] == 0:
        raise InputError(f"the factors have shape {values.shape}; expected rows × factors")
    if names is not None and len(names) != values.shape[1]:
        raise InputError(
            f"expected {values.shape[1]} factor names, one per column, got {len(names)}: "
            f"{', '.join(map(repr, names))}"
        )
    titles = [f"factor {place}" for place in range(values.shape[1])] if names is None else names
    frame = pd.DataFrame(
        {place: pd.Series(column) for place, column in enumerate(values.T)}
    ).infer_objects()
    frame.columns = pd.Index(_distinct(titles), dtype=object)
    return frame


def _from_path(path: str | os.PathLike[str]) -> object:
    file, member = split_member(path)
    label, suffix, tables = f"the factors ({file})", kind_of(file), frame_readers()
    open_binary(file, label).close()  # raises a clear error if the path is wrong
    if suffix not in (".npy", ".npz", *tables):
        known = ", ".join([".npy", ".npz", *tables])
        raise InputError(f"{label} has the suffix {file.suffix!r}; expected one of {known}")
    if suffix == ".npy":
        return read_array(file, member, label)
    if suffix == ".npz":
        return _from_npz(file, member, label)
    if member is not None:
        raise InputError(f"{label}: a {suffix} file has no named arrays; leave out '::{member}'")
    try:
        return tables[suffix](file, label)
    except InputError:
        raise
    except (OSError, ValueError, EOFError) as error:  # pandas' own errors are ValueErrors
        raise InputError(f"{label} cannot be read: {error}") from error


def _from_npz(file: Path, member: str | None, label: str) -> object:
    inside = array_names(file, label)
    if member is not None or len(inside) < 2:
        return read_array(file, member, label)
    vectors = {name: read_array(file, name, label) for name in inside}
    if any(vector.ndim != 1 for vector in vectors.values()):
        raise InputError(
            f"{label} holds {len(inside)} arrays that are not all vectors; choose one of them with "
            f"path::name: {', '.join(map(repr, inside))}"
        )
    return vectors


def _from_mapping(values: Mapping[Any, Any]) -> pd.DataFrame:
    import pandas as pd

    columns = {
        str(name): _native(as_array(value, f"factor {name!r}")) for name, value in values.items()
    }
    shapes = {name: column.shape for name, column in columns.items()}
    if not columns or any(len(shape) != 1 for shape in shapes.values()):
        raise InputError(f"expected one vector per factor, got shapes {shapes}")
    if len(set(shapes.values())) > 1:
        raise InputError(f"factors have different numbers of rows: {shapes}")
    return pd.DataFrame({name: pd.Series(column) for name, column in columns.items()})


def _chosen(frame: pd.DataFrame, names: Sequence[str] | None) -> pd.DataFrame:
    """The columns that were asked for, or all columns."""
    import pandas as pd

    frame = frame.reset_index(drop=True)
    for place, kind in enumerate(frame.dtypes):
        if isinstance(kind, np.dtype) and not kind.isnative:
            frame.isetitem(place, _native(frame.iloc[:, place].to_numpy()))
    frame.columns = pd.Index([str(column) for column in frame.columns], dtype=object)
    if names is None:
        _distinct(list(frame.columns))
        return frame
    absent = [name for name in names if name not in frame.columns]
    if absent:
        raise InputError(
            f"the factors have no column {', '.join(map(repr, absent))}; they have: "
            f"{', '.join(map(repr, frame.columns))}"
        )
    return frame[_distinct(names)]


def _native(values: NDArray[Any]) -> NDArray[Any]:
    """The same values in the machine's own byte order, which pandas insists on."""
    return values.astype(values.dtype.newbyteorder("="), copy=False)


def _distinct(names: Sequence[str]) -> list[str]:
    names = [str(name) for name in names]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(f"several factors are called {twice[0]!r}; give each a different name")
    return names
