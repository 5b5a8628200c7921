"""What the checks of a pair may look at."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from identikit.auditing._order import Order
from identikit.auditing._wide import Wide
from identikit.auditing._windows import Window
from identikit.auditing.result import Influence, RungError, SharedAxes
from identikit.moments import Moments
from identikit.similarity import CCA


@dataclass(frozen=True)
class Evidence:
    """The moments, the two views, and what the audit has found of them so far.

    `windows` are rows in their order, where rows are at hand; `ica` what the axes after ICA say, or
    why there are none, if that was asked for; `influence` the few rows that decide, if some do.
    `error` is that of the verdict's rung, and `order_only` whether all that a map explains may come
    from the order of the rows; `wide` what there is of the views' own columns, if the moments are
    of the span of their rows; `rows` reads all rows of a view, if there are few. Without `axes` the
    views were reduced, and have no columns of their own to ask about.
    """

    moments: Moments
    i: int
    j: int
    ladder: tuple[RungError, ...]
    group: str
    cca: CCA
    chance: float
    grouped: bool
    windows: tuple[Window, ...] | None = None
    ica: SharedAxes | str | None = None
    influence: Influence | None = None
    error: float | None = None
    order_only: bool = False
    wide: Wide | None = None
    rows: Callable[[int], NDArray[Any]] | None = None
    axes: bool = True

    @property
    def order(self) -> Order | None:
        """Rows as they are, in their order."""
        return self.windows[0].order if self.windows else None

    @property
    def views(self) -> tuple[int, int]:
        """The two views' numbers."""
        return self.i, self.j

    @property
    def columns(self) -> tuple[int, int]:
        """How many columns the two views have of their own."""
        if self.wide is not None:
            return self.wide.columns
        return self.moments.widths[self.i], self.moments.widths[self.j]

    def name(self, view: int) -> str:
        """A view's name, in quotes."""
        return repr(self.moments.names[view])
