"""A view divided by powers of two, for numbers whose squares would overflow or underflow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identikit._linalg import Array
from identikit.sources._open import open_source
from identikit.sources._source import DerivedSource, Source

#: Exponent of the smallest subnormal float64; numbers below 2^-1022 are multiples of it.
_LEAST = -1074

_BLOCK_NUMBERS = 2**20

Exponent = int | NDArray[np.intc]


@dataclass(frozen=True, eq=False)
class Scaled:
    """A recipe for the rows of a view (a path, an array or a recipe) divided by 2^exponent.

    There is one exponent for all columns, or one per column.
    """

    origin: object
    exponent: Exponent

    def open_source(self, name: str) -> Source:
        """Open the view."""
        return ScaledSource(open_source(self.origin, name), self.exponent)


class ScaledSource(DerivedSource):
    """The rows of an open source divided by 2^exponent, in float64; it is closed with this one."""

    def __init__(self, source: Source, exponent: Exponent) -> None:
        super().__init__(source, Scaled(source.origin, exponent))
        self.eps = max(source.eps, float(np.ldexp(1.0, _LEAST - np.min(exponent))))
        self.exponent = exponent

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Rows `start` to `stop`."""
        rows = self._source.read(start, stop).astype(np.float64)
        scaled: Array = np.ldexp(rows, np.negative(self.exponent))
        scaled.flags.writeable = False
        return scaled


def largest_values(source: Source) -> Array:
    """The largest finite absolute value of every column."""
    found, step = np.zeros(source.width), max(1, _BLOCK_NUMBERS // source.width)
    for start in range(0, source.rows, step):
        block = np.abs(source.read(start, min(start + step, source.rows)).astype(np.float64))
        np.maximum(found, np.where(np.isfinite(block), block, 0.0).max(axis=0), out=found)
    return found


def unit_exponents(source: Source) -> NDArray[np.intc]:
    """For every column, an exponent e such that all numbers are below 2^e; 0 for zeros."""
    _, exponents = np.frexp(largest_values(source))
    return exponents
