"""Views with numbers so large that their squares overflow, or so small that they underflow.

Views are first read without scaling. Only if that fails, their largest numbers are found, and they
are read again divided by a power of two each, which loses no digits (`Moments.exponents`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from identikit._linalg import Array
from identikit.errors import InputError
from identikit.sources import Source
from identikit.sources.scaled import ScaledSource, largest_values

__all__ = ["in_range", "in_units"]

if TYPE_CHECKING:
    from identikit.moments._moments import Moments

T = TypeVar("T")

#: The largest mean allowed. If all rows are equal, nothing but the mean shows their size.
LARGEST_MEAN = 2.0**200

#: A view whose variance is below this may have lost digits, because fourth powers underflow.
LEAST = 2.0**-400

#: A column whose variance is below this has lost digits, whatever the other columns are.
LEAST_COLUMN = 2.0**-900

#: All views use the same unit if their sizes then have exponents between minus this and this.
#: Others are scaled to these limits, where errors of maps that keep the scale are 1e100 or more.
FARTHEST = 180

#: A column would be lost if its exponent is smaller than that of its view by more than this.
APART = 500


class SizeError(InputError):
    """Squares overflow or underflow; the caller can read the views again in other units."""


def too_large(names: Sequence[str]) -> SizeError:
    """The error for squares that overflow."""
    return SizeError(
        "the values are so large that their squares overflow; rescale the views "
        f"({', '.join(names)})"
    )


def check_sizes(moments: Moments) -> None:
    """Raise an error if squares are too large to be merged, or may have underflowed.

    The latter is checked for whole views, and for columns that are not zero.
    """
    if any(np.abs(part.mean).max() > LARGEST_MEAN for part in moments.parts):
        raise too_large(moments.names)
    for view, name in enumerate(moments.names):
        variances = np.diagonal(moments.block(view, view)) / max(moments.rows, 1)
        centre = moments.centre(view)
        # A column that is not zero almost always has a mean that is not zero, which does not
        # underflow.
        lost = (variances < LEAST_COLUMN) & (centre**2 < LEAST_COLUMN) & (centre != 0)
        if lost.any() or max(variances.sum(), float(np.max(centre**2))) < LEAST:
            raise SizeError(
                f"the values of view {name!r} are so small that their squares underflow; rescale it"
            )


def in_range(read: Callable[[Sequence[Source]], T], sources: Sequence[Source]) -> T:
    """Call `read` on the views, and on rescaled views if it raises SizeError."""
    with suppress(SizeError):
        return read(sources)
    return read(rescaled(sources))


def rescaled(sources: Sequence[Source]) -> list[Source]:
    """Every view divided by a power of two, the same for all views if their sizes allow it."""
    sizes = [_exponents(largest_values(source)) for source in sources]
    own = [int(size.max()) for size in sizes]
    for source, size, top in zip(sources, sizes, own):
        lost = np.flatnonzero((size < top - APART) & (size > _NOTHING))
        if len(lost):
            raise InputError(
                f"view {source.name!r} has columns of very different size: column "
                f"{int(size.argmax())} has values of about {_power(top)}, column {lost[0]} of "
                f"{_power(int(size[lost[0]]))} at most (counting from 0); rescale its columns, or "
                "repair these values"
            )
    known = [top for top in own if top > _NOTHING] or [0]
    middle = (min(known) + max(known)) // 2
    units = [
        middle if top == _NOTHING else min(max(middle, top - FARTHEST), top + FARTHEST)
        for top in own
    ]
    return [ScaledSource(source, exponent) for source, exponent in zip(sources, units)]


def in_units(sources: Sequence[Source], moments: Moments) -> list[Source]:
    """The views in the units of their moments."""
    return [ScaledSource(s, e) if e else s for s, e in zip(sources, moments.units)]


#: Stands for the exponent of zero; below any other exponent.
_NOTHING = -(10**6)


def _exponents(sizes: Array) -> Array:
    """⌊log₂ x⌋ + 1 of every number."""
    _, exponents = np.frexp(sizes)
    return np.where(sizes > 0, exponents, _NOTHING)


def _power(exponent: int) -> str:
    return f"1e{round(float(exponent) * np.log10(2.0)):+04d}"
