"""The registry of measures, and what every measure states about itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from identikit._linalg import Array
from identikit.errors import InputError
from identikit.inference import Null, TwinStack
from identikit.moments import Moments, accumulate

#: The rungs of maps that keep single axes. A measure that is invariant to no looser rung depends on
#: the choice of columns.
OF_AXES = ("identity", "permutation", "monomial")

#: The arguments of a measure: moments, or the first of two tables of the same rows; and then a view
#: by number or name, or the second table.
Views = Moments | ArrayLike
View = int | str | ArrayLike


class Similarity(Protocol):
    """What a measure returns: an object with a `value`, None where a value would mean nothing."""

    @property
    def value(self) -> float | None:
        """The similarity; 1 means that the views are the same."""
        ...


@dataclass(frozen=True)
class Measure:
    """A measure and its stated properties.

    Parameters
    ----------
    name : str
    function : callable
        ``function(moments, i, j)`` returns an object with `.value`.
    invariant_to : str
        The loosest rung of the ladder whose maps, applied to both views, do not change the value.
    reference : str
        The publications that define the measure.
    rows : bool
        Whether it uses the stored row sample; all others are functions of the moments alone.
    null : callable, optional
        ``null(moments, i, j)`` returns the distribution for independent views, if there is a faster
        way than drawing such views (`inference.twins`, or `inference.shuffled` rows).
    of_twins : callable, optional
        ``of_twins(stack)`` returns the values of many independent twins (`inference.TwinStack`) at
        once, which is faster than calling `function` for each.
    """

    name: str
    function: Callable[..., Similarity]
    invariant_to: str
    reference: str
    rows: bool = False
    null: Callable[[Moments, int, int], Null | None] | None = None
    of_twins: Callable[[TwinStack], Array] | None = None

    @property
    def of_axes(self) -> bool:
        """Whether a rotation of both views changes it."""
        return self.invariant_to in OF_AXES

    def __call__(self, moments: Moments, i: int | str = 0, j: int | str = 1) -> float | None:
        """The value for two views."""
        return self.function(moments, i, j).value


def pair_of(moments: Views, i: View, j: View) -> tuple[Moments, int, int]:
    """The moments and the two views for ``measure(moments, i, j)`` or ``measure(X, Y)``.

    Parameters
    ----------
    moments : Moments or array (rows, d)
        Or anything else that `accumulate` takes as a view.
    i, j : int, str or array (rows, d)
        Two views by number or name; or, after a first table, the second one as `i`.
    """
    if isinstance(moments, Moments):
        return moments, *(moments.resolve(view) for view in (i, j))  # type: ignore[return-value, arg-type]
    if isinstance(i, int | np.integer) or not (isinstance(j, int) and j == 1):
        raise InputError(
            "a measure takes two tables of the same rows, as in cka(X, Y), or moments and two "
            "views, as in cka(moments, 0, 1)"
        )
    return accumulate([moments, i], folds=1), 0, 1


MEASURES: dict[str, Measure] = {}

F = TypeVar("F", bound=Callable[..., Any])


def measure(
    *,
    invariant_to: str,
    reference: str,
    rows: bool = False,
    null: Callable[[Moments, int, int], Null | None] | None = None,
    of_twins: Callable[[TwinStack], Array] | None = None,
) -> Callable[[F], F]:
    """Register a function of Moments as a measure under its own name (see `Measure`)."""

    def register(function: F) -> F:
        name = function.__name__
        MEASURES[name] = Measure(name, function, invariant_to, reference, rows, null, of_twins)
        return function

    return register
