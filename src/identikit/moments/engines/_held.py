"""Rows that came to a worker, instead of a path to read them from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identikit.sources.checks import is_bfloat16, numeric_eps


@dataclass(frozen=True, eq=False)
class Held:
    """A view of which only some consecutive rows are at hand: a Recipe.

    Parameters
    ----------
    rows : int
        Of the whole view.
    first : int
        The number of the first row that is at hand.
    blocks : sequence of arrays
        The rows from there on.
    """

    rows: int
    first: int
    blocks: Sequence[NDArray[Any]]

    def open_source(self, name: str) -> HeldSource:
        """Open it as a view."""
        return HeldSource(self, name)


class HeldSource:
    """The rows at hand, by their numbers in the whole view."""

    def __init__(self, held: Held, name: str) -> None:
        self.name, self.rows, self.width = name, held.rows, held.blocks[0].shape[1]
        self.eps = numeric_eps(held.blocks[0].dtype, f"view {name!r}")
        self.origin: object = held
        self.files: tuple[Path, ...] = ()
        self._held = held

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Rows `start` to `stop`, all of them at hand."""
        first, parts = self._held.first, []
        for block in self._held.blocks:
            if start < first + len(block) and first < stop:
                parts.append(block[max(start - first, 0) : stop - first])
            first += len(block)
        rows = parts[0] if len(parts) == 1 else np.concatenate(parts)
        return rows.astype(np.float32) if is_bfloat16(rows.dtype) else rows

    def close(self) -> None:
        """Nothing to let go of."""
