"""Checked codes and factors: what can be scored, what cannot, and why."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from identikit._linalg import Array
from identikit.errors import InputError
from identikit.factors._factor import (
    Factor,
    Kinds,
    check_scale,
    in_range,
    kinds_by_name,
    read_factor,
    read_factors,
)
from identikit.factors._result import Excluded
from identikit.sources import open_source
from identikit.sources.whole import read_whole

T = TypeVar("T")


@dataclass(frozen=True)
class Data:
    """Codes that vary and factors with at least two values, with the rows in random order.

    `eps` is the machine epsilon of the type that the codes were stored in; `shared` caches
    intermediate results that several metrics need.
    """

    codes: Array
    code_names: tuple[str, ...]
    factors: tuple[Factor, ...]
    excluded: tuple[Excluded, ...]
    seed: int
    eps: float
    shared: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.codes)

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """The cached result of `make`, which is called only the first time a key is asked for."""
        if key not in self.shared:
            self.shared[key] = make()
        found: T = self.shared[key]
        return found

    def known_rows(self, factors: Sequence[Factor]) -> int:
        """The largest number of rows in which one of these factors is known."""
        return max(self.rows if each.known is None else len(each.known) for each in factors)

    def numeric(self, metric: str) -> tuple[list[Factor], tuple[Excluded, ...]]:
        """The numeric factors, and everything that is excluded, with the reasons."""
        some = [factor for factor in self.factors if factor.numbers is not None]
        words = tuple(
            Excluded("factor", factor.name, f"{metric} needs numbers, and its values are words")
            for factor in self.factors
            if factor.numbers is None
        )
        if not some:
            raise InputError(f"{metric} needs numbers, and the values of every factor are words")
        return some, self.excluded + words

    def blocks(
        self, factors: Sequence[Factor], most: int | None = None
    ) -> Iterator[tuple[Array, slice, list[int]]]:
        """For each set of factors known in the same rows: codes, rows, and the factors' positions.

        Usually there is one block. It has at most the first `most` rows, which are in random order.
        """
        groups: dict[bytes, list[int]] = {}
        for place, factor in enumerate(factors):
            key = b"" if factor.known is None else factor.known.tobytes()
            groups.setdefault(key, []).append(place)
        for places in groups.values():
            known = factors[places[0]].known
            first = slice(0, most)
            yield (self.codes if known is None else self.codes[known])[first], first, places


def prepare(
    codes: object,
    factors: object = None,
    *,
    names: Sequence[str] | None = None,
    kinds: Kinds = None,
    seed: int = 0,
) -> Data:
    """Check codes and factors, put the rows in random order, and name what cannot be scored.

    Parameters
    ----------
    codes : array (n, L), data frame, path, or Data
        Anything that `open_source` accepts; Data are returned unchanged.
    factors : array (n, K), data frame, mapping or path
        Numbers, words or booleans; missing values are NaN or None.
    names : sequence of str, optional
        Names of the factors.
    kinds : mapping or sequence, optional
        "discrete" or "continuous", by factor name or as one entry per factor. By default, words,
        booleans and whole numbers with at least 10 rows per value are discrete.
    seed : int
        Seed of the order of rows and of everything that is drawn at random.
    """
    if isinstance(codes, Data):
        return codes
    if factors is None:
        raise InputError("no factors were given; codes are scored against known factors")
    values, eps = _read_codes(codes)
    frame = read_factors(factors, names)
    if len(frame) != len(values):
        line = " (the first line of a text file is its header)" if _is_text(factors) else ""
        raise InputError(
            f"the codes have {len(values)} rows and the factors have {len(frame)}{line}; "
            "they are paired by position, so both need the same rows in the same order"
        )
    order = np.random.default_rng(seed).permutation(len(values))
    wanted = kinds_by_name(kinds, list(frame.columns))
    found = [
        read_factor(frame[name].iloc[order], wanted.get(name), order) for name in frame.columns
    ]
    kept = [each[0] for each in found if each[0] is not None]
    excluded = [each[1] for each in found if each[1] is not None]
    if not kept:
        why = "; ".join(f"{each.name!r}: {each.reason}" for each in excluded)
        raise InputError(f"no factor can be scored: {why}")
    titles = _code_names(codes, values.shape[1])
    varies = values.max(axis=0) > values.min(axis=0)
    excluded += [
        Excluded("code", title, f"constant, {value:g} in every row")
        for title, value, moves in zip(titles, values[0], varies)
        if not moves
    ]
    values = in_range(values)
    for title, code in zip(titles, values.T):
        check_scale(code, f"code {title!r}")
    if not varies.any():
        raise InputError(f"all {len(titles)} codes are constant, so there is nothing to score")
    return Data(
        np.ascontiguousarray(values[order][:, varies]),
        tuple(title for title, moves in zip(titles, varies) if moves),
        tuple(kept),
        tuple(excluded),
        seed,
        eps,
    )


def _read_codes(codes: object) -> tuple[Array, float]:
    with closing(open_source(codes, "codes")) as source:
        values = np.array(read_whole(source), dtype=np.float64)
        eps = source.eps
    bad = ~np.isfinite(values).all(axis=1)
    if bad.any():
        raise InputError(
            f"the codes are NaN or infinite in {int(bad.sum())} of {len(values)} rows, the first "
            f"is row {int(bad.argmax())}; drop those rows from both codes and factors"
        )
    if len(values) < 2:
        raise InputError(f"the codes have {len(values)} row; a score needs at least two")
    return values, eps


def _code_names(codes: object, width: int) -> list[str]:
    columns = getattr(codes, "columns", None)
    if columns is not None and len(columns) == width:
        names = [str(column) for column in columns]
        if len(set(names)) == width and not all(name.isdigit() for name in names):
            return names
    return [f"code {place}" for place in range(width)]


def _is_text(factors: object) -> bool:
    path = os.fsdecode(factors) if isinstance(factors, str | os.PathLike) else ""
    return path.lower().endswith((".csv", ".tsv", ".csv.gz", ".tsv.gz"))
