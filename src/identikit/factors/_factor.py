"""Factors: tables, arrays and files become checked columns, each with its kind and its classes."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from identikit._linalg import Array
from identikit.errors import InputError
from identikit.factors._resample import Labels, equal_width, ranks, to_bins
from identikit.factors._result import Excluded
from identikit.moments import FOLDS
from identikit.sources.array import as_array
from identikit.sources.files import open_binary, split_member
from identikit.sources.registry import frame_readers, kind_of
from identikit.sources.whole import array_names, read_array

if TYPE_CHECKING:
    import pandas as pd

Kinds = Mapping[str, str] | Sequence[str] | None

DISCRETE, CONTINUOUS = "discrete", "continuous"
#: Whole numbers with fewer rows per value than this are taken as a quantity, not as classes.
ROWS_A_CLASS = 10
#: A factor with missing values must be known in at least this many rows, two per fold.
LEAST_ROWS = 2 * FOLDS
#: The largest number, and the inverse of the smallest range, that can be squared in double
#: precision and stored in single precision.
LARGE = 1e30
#: pandas gives names with this prefix to columns without a header, such as row numbers it wrote.
UNNAMED = "Unnamed: "


@dataclass(frozen=True)
class Factor:
    """A factor and its values in the rows where it is known.

    `known` are those rows, or None if it is known in all. `numbers` are its values there (None for
    words), and `labels` its classes 0 … `classes` − 1 (None if it is continuous).
    """

    name: str
    kind: str
    known: NDArray[np.intp] | None
    numbers: Array | None
    labels: Labels | None
    classes: int

    def cut(self, bins: int, *, even: bool = False) -> Labels:
        """Its classes; for a continuous factor, bins of equal frequency, or `even` width."""
        if self.labels is not None:
            return self.labels
        return equal_width(self.values, bins) if even else to_bins(ranks(self.values), bins)

    @property
    def target(self) -> NDArray[Any]:
        """Its classes (whole numbers), or its numbers if it is continuous."""
        return self.values if self.labels is None else self.labels

    @property
    def values(self) -> Array:
        """Its numbers; only for a numeric factor."""
        assert self.numbers is not None
        return self.numbers


def kinds_by_name(kinds: Kinds, names: list[str]) -> dict[str, str]:
    """The kinds that the user gave, by factor name."""
    if kinds is None:
        return {}
    if isinstance(kinds, str) or (not isinstance(kinds, Mapping) and len(kinds) != len(names)):
        raise InputError(f"expected {len(names)} kinds, one per factor, got {kinds!r}")
    given = dict(kinds if isinstance(kinds, Mapping) else zip(names, kinds))
    for name, kind in given.items():
        if name not in names:
            raise InputError(
                f"kinds names {name!r}, which is not a factor; the factors are "
                f"{', '.join(map(repr, names))}"
            )
        if kind not in (DISCRETE, CONTINUOUS):
            raise InputError(
                f"the kind given for factor {name!r} is {kind!r}; expected {DISCRETE!r} or "
                f"{CONTINUOUS!r}"
            )
    return given


def read_factor(
    column: pd.Series[Any], kind: str | None, order: NDArray[np.intp]
) -> tuple[Factor | None, Excluded | None]:
    """A column as a factor (None if it cannot be scored), and what of it is excluded, if any."""
    name = str(column.name)
    if name.startswith(UNNAMED):
        return None, Excluded(
            "factor", name, "its column has no name, like the row numbers that pandas writes"
        )
    missing = column.isna().to_numpy(dtype=bool)
    there = column[~missing]
    numbers, values = _values(there, name, order[~missing])
    distinct, labels = np.unique(values, return_inverse=True)
    if len(distinct) < 2:
        only = f"one value only, {distinct[0]!s}" if len(distinct) else "no value in any row"
        return None, Excluded("factor", name, only)
    if len(there) < min(LEAST_ROWS, len(column)):
        return None, Excluded("factor", name, f"known in {len(there)} of {len(column)} rows only")
    if kind is None:
        whole = numbers is None or bool(np.all(numbers == np.floor(numbers)))
        many = numbers is not None and len(distinct) * ROWS_A_CLASS > max(
            len(there), 2 * ROWS_A_CLASS
        )
        kind = DISCRETE if whole and not many else CONTINUOUS
    if kind == CONTINUOUS and numbers is None:
        raise InputError(
            f"kinds declares factor {name!r} to be continuous, but its values are words"
        )
    if kind == DISCRETE and 2 * len(distinct) > len(there):
        return None, Excluded(
            "factor",
            name,
            f"{len(distinct)} classes in {len(there)} rows, fewer than two rows per class"
            + ("" if numbers is None else "; if it is a quantity, declare it continuous"),
        )
    gone = int(missing.sum())
    return (
        Factor(
            name,
            kind,
            np.flatnonzero(~missing) if gone else None,
            None if numbers is None else in_range(numbers),
            labels.astype(np.int64) if kind == DISCRETE else None,
            len(distinct) if kind == DISCRETE else 0,
        ),
        Excluded("rows", name, f"{gone} of {len(column)} rows have no value") if gone else None,
    )


def check_scale(values: Array, what: str) -> None:
    """Refuse numbers whose squares overflow or vanish."""
    if _out_of_range(values):
        largest, wide = float(np.abs(values).max()), float(np.ptp(values))
        raise InputError(
            f"{what} has values up to {largest:.3g} and a range of {wide:.3g}; squares of numbers "
            f"above {LARGE:g} or below {1 / LARGE:g} lose their precision: use another unit"
        )


def in_range(values: Array) -> Array:
    """The same numbers, divided by a power of two if their squares would overflow or vanish."""
    if not _out_of_range(values):
        return values
    _, exponent = np.frexp(np.abs(values).max())
    scaled: Array = np.ldexp(values, -int(exponent))
    return scaled


def _out_of_range(values: Array) -> bool:
    if not values.size:
        return False
    with np.errstate(over="ignore"):
        wide = np.ptp(values, axis=0)
    return bool(np.abs(values).max() > LARGE or ((wide > 0) & (wide < 1 / LARGE)).any())


def _values(
    there: pd.Series[Any], name: str, rows: NDArray[np.intp]
) -> tuple[Array | None, NDArray[Any]]:
    """The numbers of a column (None for words), and the values that define its classes."""
    import pandas as pd

    if isinstance(there.dtype, pd.CategoricalDtype):
        there = there.astype(there.cat.categories.dtype)
    if pd.api.types.is_bool_dtype(there.dtype) or (
        pd.api.types.is_numeric_dtype(there.dtype)
        and not pd.api.types.is_complex_dtype(there.dtype)
    ):
        numbers: Array = there.to_numpy(dtype=np.float64)
        bad = ~np.isfinite(numbers)
        if bad.any():
            raise InputError(
                f"factor {name!r} is infinite in {int(bad.sum())} rows, the first is row "
                f"{int(rows[bad].min())}; use finite numbers there, or NaN for missing values"
            )
        check_scale(in_range(numbers), f"factor {name!r}")
        return numbers, numbers
    if not all(isinstance(value, str) for value in there):
        raise InputError(
            f"factor {name!r} has values of type {type(there.iloc[0]).__name__} "
            f"({there.dtype}); expected only numbers, only booleans or only words"
        )
    return None, there.to_numpy(dtype=str)


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
