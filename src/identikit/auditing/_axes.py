"""The unsupervised rung of an audit: the axes that ICA finds in each view alone, matched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from identikit.alignment import HeldOut
from identikit.auditing.result import OwnAxes, RungError, SharedAxes
from identikit.axes import (
    IndependentAxes,
    axes_apart,
    corrected_rung,
    ica_rung,
    turned,
    view_axes,
)
from identikit.errors import InputError
from identikit.moments import SAMPLE, Moments, default_memory

#: Rows that are sampled for ICA: half of them for each view of a pair, which is enough for 100
#: components.
ROWS = 20_000

#: At most one part in SHARE of the memory is for these rows, of which HELD copies are in memory
#: while they are sampled.
SHARE, HELD = 8, 3

#: How many times random rotations are tried in place of ICA.
DRAWS = 3


def sample_rows(widths: Sequence[int], memory: int | None) -> tuple[int, int]:
    """How many rows to sample for ICA, and the bytes that are left for the rest of the audit."""
    budget = default_memory() if memory is None else memory
    row = 8 * HELD * sum(widths)
    more = min(ROWS - SAMPLE, budget // SHARE // row)
    return SAMPLE + more, budget - more * row


@dataclass(frozen=True)
class AxesOfViews:
    """ICA of the views of an audit, once for each half of the row sample.

    The axes of the two views of a pair are found on different rows (see `ica_rung`); as a view is
    the first of some pairs and the second of others, it may need both halves.
    """

    found: dict[tuple[int, int], IndependentAxes] = field(default_factory=dict)
    apart: dict[tuple[int, int], list[IndependentAxes]] = field(default_factory=dict)

    def shared(
        self, moments: Moments, places: tuple[int, int], views: tuple[int, int]
    ) -> SharedAxes | str:
        """Compare the axes of a pair, or say why that is impossible.

        `places` are the numbers of the two views in the moments, `views` those in the audit.
        """
        try:
            for half, (place, view) in enumerate(zip(places, views)):
                if (view, half) not in self.found:
                    self.found[view, half] = view_axes(moments, place, half)
        except InputError as error:
            return str(error)
        first, second = self.found[views[0], 0], self.found[views[1], 1]
        rng = np.random.default_rng(0)
        by_chance = [
            ica_rung(moments, *places, (turned(first, rng), turned(second, rng)))
            for _ in range(DRAWS)
        ]
        return SharedAxes(
            RungError.of("ica", *self._errors(moments, places, views)),
            float(np.mean([max(way.error for way in both) for both in by_chance])),
            min(first.rows, second.rows),
            _own(first),
            _own(second),
        )

    def _errors(
        self, moments: Moments, places: tuple[int, int], views: tuple[int, int]
    ) -> tuple[HeldOut, HeldOut]:
        """Errors on new rows.

        If there are more rows than were sampled, all rows are treated as new. With groups too,
        because the sample does not record them, so that no group can be left out of it.
        """
        keys = (views[0], 0), (views[1], 1)
        both = self.found[keys[0]], self.found[keys[1]]
        if moments.grouped or len(moments.sample.keys) < moments.rows:
            return ica_rung(moments, *places, both)
        for place, key, axes in zip(places, keys, both):
            if key not in self.apart:
                self.apart[key] = axes_apart(moments, place, key[1], axes)
        return corrected_rung(moments, *places, both, (self.apart[keys[0]], self.apart[keys[1]]))


def _own(ica: IndependentAxes) -> OwnAxes:
    axes = ica.axes.identified
    return OwnAxes(len(axes), ica.variance, ica.converged, int(axes.sum()))
