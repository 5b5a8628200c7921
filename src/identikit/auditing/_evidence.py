"""What a comparison uses besides the moments, what its checks can use, and their answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from identikit.auditing._order import Order
from identikit.auditing._wide import Wide
from identikit.auditing._windows import Window
from identikit.auditing.result import Influence, RungError, SharedAxes
from identikit.moments import Moments
from identikit.similarity import CCA


@dataclass(frozen=True)
class Context:
    """What a comparison of two views uses besides their moments.

    Parameters
    ----------
    tolerance : float
        The largest error that counts as the same.
    grouped : bool
        Whether folds are whole groups of rows.
    thresholds : mapping of str to float
        Thresholds that replace the defaults of checks, by name.
    windows : tuple of Window
        Stretches of consecutive rows; none if the rows are not available.
    rows : callable, optional
        Reads all rows of a view of these moments.
    axes : bool
        If false, nothing is said about single columns, because a view was reduced and its columns
        are not the original ones.
    ica : SharedAxes or str, optional
        The comparison of the axes after ICA, or why there is none, if that was asked for.
    wide : Wide, optional
        Errors of maps between the views' own columns, if the moments are in the span of their rows.
    """

    tolerance: float = 0.1
    grouped: bool = False
    thresholds: Mapping[str, float] = field(default_factory=dict)
    windows: tuple[Window, ...] = ()
    rows: Callable[[int], NDArray[Any]] | None = None
    axes: bool = True
    ica: SharedAxes | str | None = None
    wide: Wide | None = None

    @property
    def order(self) -> Order | None:
        """The rows in their order, if they are available and folds are not whole groups."""
        return self.windows[0].order if self.windows and not self.grouped else None

    def dependent(self, i: int, j: int) -> bool:
        """Whether rows of two views are known to depend on others nearby."""
        return self.order is not None and self.order.dependent(i, j)


@dataclass(frozen=True)
class Evidence:
    """What the checks of a pair can use: its moments, its context, and the results so far.

    `ladder` holds the errors of the rungs, `group` is the verdict, `error` the error of its rung,
    and `order_only` whether all that a map explains may come from the order of the rows. `chance`
    is the mean CCA that independent views would have, and `influence` holds the few rows that
    decide the verdict, if there are any.
    """

    moments: Moments
    i: int
    j: int
    context: Context
    ladder: tuple[RungError, ...]
    group: str
    error: float
    cca: CCA
    chance: float
    influence: Influence | None = None
    order_only: bool = False

    @property
    def views(self) -> tuple[int, int]:
        """The two views' numbers."""
        return self.i, self.j

    @property
    def columns(self) -> tuple[int, int]:
        """How many columns the two views have originally, before any reduction."""
        if self.context.wide is not None:
            return self.context.wide.columns
        return self.moments.widths[self.i], self.moments.widths[self.j]

    def name(self, view: int) -> str:
        """A view's name, in quotes."""
        return repr(self.moments.names[view])


@dataclass(frozen=True)
class Answer:
    """The answer of a check: a value, its threshold, whether it passes, and what to do if not.

    `message` is one sentence that says what a failure means and what to try.
    """

    value: float | None
    threshold: float
    ok: bool
    message: str
