"""A factor: a column of a table, checked, with its kind and its classes."""

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
#: Whole numbers with fewer rows a value than this are taken as a quantity, not as classes.
ROWS_A_CLASS = 10
#: A factor with missing values must be known in this many rows, two a fold.
LEAST_ROWS = 2 * FOLDS
#: Largest number, and smallest range inverted, that squares and single precision can hold.
LARGE = 1e30
#: What pandas calls a column whose header is empty, as that of the row numbers it writes.
UNNAMED = "Unnamed: "


@dataclass(frozen=True)
class Factor:
    """A factor where it is known.

    `known` are those rows, or None for all. `numbers` are its values there (None for words), and
    `labels` its classes 0 … `classes` − 1 (None if it is continuous).
    """

    name: str
    kind: str
    known: NDArray[np.intp] | None
    numbers: Array | None
    labels: Labels | None
    classes: int

    def cut(self, bins: int, *, even: bool = False) -> Labels:
        """Its classes; of a continuous factor, bins of equal frequency or of `even` width."""
        if self.labels is not None:
            return self.labels
        return equal_width(self.values, bins) if even else to_bins(ranks(self.values), bins)

    @property
    def target(self) -> NDArray[Any]:
        """Its classes (whole numbers), or its numbers if it is continuous."""
        return self.values if self.labels is None else self.labels

    @property
    def values(self) -> Array:
        """Its numbers, of a factor that has them."""
        assert self.numbers is not None
        return self.numbers


def kinds_by_name(kinds: Kinds, names: list[str]) -> dict[str, str]:
    """The kinds that were given, by name.

    Parameters
    ----------
    kinds : mapping, sequence or None
        By name, or one a factor.
    names : list of str
        Of the factors.
    """
    if kinds is None:
        return {}
    if isinstance(kinds, str) or (not isinstance(kinds, Mapping) and len(kinds) != len(names)):
        raise InputError(f"expected {len(names)} kinds, one a factor, got {kinds!r}")
    given = dict(kinds if isinstance(kinds, Mapping) else zip(names, kinds))
    for name, kind in given.items():
        if name not in names:
            raise InputError(
                f"kinds has {name!r}, which is no factor; they are {', '.join(map(repr, names))}"
            )
        if kind not in (DISCRETE, CONTINUOUS):
            raise InputError(
                f"factor {name!r} is said to be {kind!r}; expected {DISCRETE!r} or {CONTINUOUS!r}"
            )
    return given


def read_factor(
    column: pd.Series[Any], kind: str | None, order: NDArray[np.intp]
) -> tuple[Factor | None, Excluded | None]:
    """A column as a factor, or why it is none, or how many of its rows are missing."""
    name = str(column.name)
    if name.startswith(UNNAMED):
        return None, Excluded(
            "factor", name, "its column has no name, as the row numbers of pandas"
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
        raise InputError(f"factor {name!r} is said to be continuous, but its values are words")
    if kind == DISCRETE and 2 * len(distinct) > len(there):
        return None, Excluded(
            "factor",
            name,
            f"{len(distinct)} classes in {len(there)} rows, fewer than two rows a class"
            + ("" if numbers is None else "; if it is a quantity, call it continuous"),
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
            f"{what} reaches {largest:.3g} and varies by {wide:.3g}; beyond {LARGE:g} or below "
            f"{1 / LARGE:g} squares lose their digits: give it another unit"
        )


def in_range(values: Array) -> Array:
    """The same numbers, over a power of two if their squares would overflow or vanish."""
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
    """The numbers of a column, None for words, and what tells its classes apart."""
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
                f"{int(rows[bad].min())}; give it a number, or leave it missing (NaN)"
            )
        check_scale(in_range(numbers), f"factor {name!r}")
        return numbers, numbers
    if not all(isinstance(value, str) for value in there):
        raise InputError(
            f"factor {name!r} has values of type {type(there.iloc[0]).__name__} "
            f"({there.dtype}); expected numbers, truth values or words, one kind throughout"
        )
    return None, there.to_numpy(dtype=str)
