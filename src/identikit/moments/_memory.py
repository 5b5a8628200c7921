"""What the statistics may take."""

from __future__ import annotations

import os
from collections.abc import Sequence

from identikit.errors import InputError


def default_memory() -> int:
    """A quarter of this machine's memory, in bytes."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 4


def scatter_bytes(widths: Sequence[int], folds: int) -> int:
    """Bytes of the scatter matrices of stacked views: one a fold, and one to work with."""
    return 8 * sum(widths) ** 2 * (folds + 1)


def check_memory(widths: Sequence[int], folds: int, memory: int | None) -> None:
    """Raise if the statistics of views of these widths would not fit the budget."""
    needed, budget = scatter_bytes(widths, folds), default_memory() if memory is None else memory
    if needed > budget:
        raise InputError(
            f"the statistics of {len(widths)} views with {sum(widths)} columns in {folds} folds "
            f"need {needed / 1e6:,.1f} MB, the budget is {budget / 1e6:,.1f} MB; "
            "give fewer columns, fewer folds, or a larger memory budget"
        )
