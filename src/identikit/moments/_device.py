"""Summing rows on the device that holds them, by the array API standard and in float64."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identikit._linalg import Array
from identikit.moments._extremes import ExtremesKeeper
from identikit.moments._folds import Chosen
from identikit.moments._part import Part, Segment, StackLayout
from identikit.moments._scan import Blocks, Reading, Scan, digest
from identikit.sources.device import DeviceSource, to_numpy


class DeviceScan(Scan):
    """A `Scan` of views that are all on one device with float64.

    Only the row sample, the largest rows, one Gram matrix per fold, and a few rows of each block
    (to choose the pivot and detect drift) are copied to the host. Distinct rows are not counted,
    because the array API gives no access to the bytes of a number.
    """

    def __init__(self, sources: Sequence[DeviceSource], reading: Reading) -> None:
        super().__init__(sources, reading)
        self.views, self.xp, self.device = sources, sources[0].xp, sources[0].device
        self.piece, self.distinct = reading.step, None
        self.turns = [self._send(turn) for turn in self.layout.inverses]

    def blocks(self, start: int, stop: int) -> Blocks:
        """First row, views and digests of every block."""
        for first in range(start, stop, self.reading.step):
            rows = first, min(first + self.reading.step, stop)
            asked = self.sources if self.reading.digest else ()
            hashes = [digest(source.read(*rows), first) for source in asked]
            yield first, [view.block(*rows) for view in self.views], hashes

    def take(self, views: list[Any], chosen: Chosen) -> list[Any]:
        """Some rows of every view."""
        if isinstance(chosen, slice):
            return [view[chosen, :] for view in views]
        which = self._send(chosen)
        return [self.xp.take(view, which, axis=0) for view in views]

    gather = take

    def numbers(self, view: Any) -> Array:
        """A few rows in float64, in the memory of this process."""
        return to_numpy(self._double(view))

    def mean(self, view: Any) -> Array:
        """The mean of a view's rows."""
        return to_numpy(self.xp.mean(self._double(view), axis=0))

    def finite(self, views: list[Any]) -> NDArray[np.bool_]:
        """Which rows are finite in every view."""
        every = [self.xp.isfinite(self._double(view)) for view in views]
        return to_numpy(self.xp.all(self.xp.concat(every, axis=1), axis=1))

    def peaks(self, norms: Any) -> Array:
        """The largest squared norm of each view; NaN if there is one."""
        return to_numpy(self.xp.max(norms, axis=0))

    def largest(self, norms: Any, keeper: ExtremesKeeper) -> NDArray[np.intp]:
        """Rows that may be among the largest, by their squared norms."""
        order = self.xp.argsort(norms, axis=0, descending=True, stable=True)
        return np.unique(to_numpy(order[: keeper.held.size, :]))

    def segment(self, pivot: Array, norms: Any) -> Segment:
        """An empty segment about this pivot; `norms` are those of its first rows."""
        return _DeviceSegment(self.layout, pivot, self.mean(norms), self.xp, self.turns)

    def augmented(self, views: list[Any], pivot: Array) -> Any:
        """Rows less the pivot, their squared norms by view, and a one."""
        xp, rows = self.xp, [self._double(view) for view in views]
        if pivot is not self.origin:
            there = self._send(pivot)
            rows = [z - there[columns] for z, columns in zip(rows, self.layout.columns)]
        norms = [xp.sum(z * z, axis=1, keepdims=True) for z in rows]
        one = xp.ones((rows[0].shape[0], 1), dtype=xp.float64, device=self.device)
        return xp.concat([*rows, *norms, one], axis=1)

    def _double(self, view: Any) -> Any:
        return self.xp.astype(view, self.xp.float64, copy=False)

    def _send(self, array: NDArray[Any]) -> Any:
        # A copy, since some libraries share the memory and warn if it is read-only.
        return self.xp.asarray(np.array(array, order="C"), device=self.device)


class _DeviceSegment(Segment):
    """A `Segment` whose Gram matrix is summed on the device and copied to the host at the end.

    `turns` are the layout's inverses, on the device.
    """

    def __init__(
        self, layout: StackLayout, pivot: Array, spread: Array, xp: Any, turns: list[Any]
    ) -> None:
        super().__init__(layout, pivot, spread)
        self.xp, self.turns, self.sums = xp, turns, None

    def add(self, rows: Any) -> None:
        """Add augmented rows."""
        if self.turns:
            turned = [rows[:, c] @ turn for c, turn in zip(self.layout.columns, self.turns)]
            rows = self.xp.concat([*turned, rows[:, self.layout.width :]], axis=1)
        product = rows.T @ rows
        self.sums = product if self.sums is None else self.sums + product

    def part(self) -> Part:
        """The moments about the mean, from the sums about the pivot; call it only once."""
        self.gram = np.array(to_numpy(self.sums), order="C")
        return super().part()
