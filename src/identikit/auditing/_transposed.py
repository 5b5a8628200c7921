"""Views whose rows may be columns: the question is asked before any work is done on them."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

#: Views with fewer rows a column than this are likely to be transposed.
ROWS_A_COLUMN = 0.25


def ask_if_transposed(rows: int, widths: Sequence[int]) -> None:
    """Warn at once if all views have far fewer rows than columns."""
    if rows < ROWS_A_COLUMN * min(widths):
        warnings.warn(question(rows, min(widths)), stacklevel=3)


def question(rows: int, width: int) -> str:
    """What to ask of views of so many rows and columns."""
    return (
        f"there are fewer rows ({rows:,}) than columns ({width:,}): are the views transposed? "
        "Rows must be examples, and columns features"
    )
