"""A view in units of powers of two, for numbers whose squares float64 cannot hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identikit._linalg import Array
from identikit.sources._open import open_source
from identikit.sources._source import DerivedSource, Source

#: Below 2^-1022 numbers of float64 have fewer digits: they are multiples of this power of two.
_LEAST = -1074

_BLOCK_NUMBERS = 2**20

Exponent = int | NDArray[np.intc]


@dataclass(frozen=True, eq=False)
class Scaled:
    """A recipe for the rows of a view over 2^exponent.

    Parameters
    ----------
    origin : object
        What to open: a path, an array, or another recipe.
    exponent : int or array (d,)
        Of all columns, or of each.
    """

    origin: object
    exponent: Exponent

    def open_source(self, name: str) -> Source:
        """Open the view."""
        return ScaledSource(open_source(self.origin, name), self.exponent)


class ScaledSource(DerivedSource):
    """The rows of an open source over 2^exponent, in float64.

    Parameters
    ----------
    source : Source
        Open; closed with this.
    exponent : int or array (d,)
        Of all columns, or of each.
    """

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
    """The largest absolute value of every column, of those that are finite."""
    found, step = np.zeros(source.width), max(1, _BLOCK_NUMBERS // source.width)
    for start in range(0, source.rows, step):
        block = np.abs(source.read(start, min(start + step, source.rows)).astype(np.float64))
        np.maximum(found, np.where(np.isfinite(block), block, 0.0).max(axis=0), out=found)
    return found


def unit_exponents(source: Source) -> NDArray[np.intc]:
    """Of every column, the power of two that its numbers are no larger than; 0 for zeros."""
    _, exponents = np.frexp(largest_values(source))
    return exponents
