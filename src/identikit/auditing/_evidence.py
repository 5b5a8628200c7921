"""What a comparison needs beside the moments; what its checks may look at, and answer."""

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
    """What a comparison of two views needs beside their moments.

    Parameters
    ----------
    tolerance : float
        The largest error that counts as the same.
    grouped : bool
        Whether folds are whole groups of rows.
    thresholds : mapping of str to float
        Thresholds of checks, by name, in place of their own.
    windows : tuple of Window
        Rows in their order; none where rows are not at hand.
    rows : callable, optional
        Reads all rows of a view of these moments.
    axes : bool
        If false, nothing is said of single columns: reduced views have none of their own.
    ica : SharedAxes or str, optional
        What the axes after ICA say, or why there are none, if that was asked for.
    wide : Wide, optional
        What the views' own columns say, if the moments are of the span of their rows.
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
        """Rows in their order, where they are at hand and folds are not whole groups of them."""
        return self.windows[0].order if self.windows and not self.grouped else None

    def dependent(self, i: int, j: int) -> bool:
        """Whether rows of two views are known to depend on others nearby."""
        return self.order is not None and self.order.dependent(i, j)


@dataclass(frozen=True)
class Evidence:
    """What the checks of a pair may look at: its moments, its context, what was found so far.

    `ladder` are the errors of the rungs, `group` is the verdict, `error` that of the verdict's
    rung, and `order_only` whether all that a map explains may come from the order of the rows.
    `chance` is what independent views would score by CCA, and `influence` are the few rows that
    decide the verdict, if some do.
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
        """How many columns the two views have of their own."""
        if self.context.wide is not None:
            return self.context.wide.columns
        return self.moments.widths[self.i], self.moments.widths[self.j]

    def name(self, view: int) -> str:
        """A view's name, in quotes."""
        return repr(self.moments.names[view])


@dataclass(frozen=True)
class Answer:
    """What a check answers: a value, its threshold, whether all is well, what to do if not.

    `message` is one sentence of what a fault means and what to try.
    """

    value: float | None
    threshold: float
    ok: bool
    message: str
