"""A factor: a checked column of a table, with its kind and its classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from identikit._linalg import Array
from identikit.errors import InputError
from identikit.factors._bins import Labels, equal_width, ranks, to_bins
from identikit.factors._result import Excluded
from identikit.moments import FOLDS

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
