"""Are rows examples, and columns features?"""

from identikit.auditing._evidence import Answer, Evidence

#: Views with fewer rows per column than this are likely to be transposed.
ROWS_A_COLUMN = 0.25


def check(evidence: Evidence, threshold: float = ROWS_A_COLUMN) -> Answer | None:
    """Rows per column of the narrower view; asked only if there are fewer rows than columns."""
    rows, width = evidence.moments.rows, min(evidence.columns)
    if rows >= width:
        return None
    return Answer(
        rows / width,
        threshold,
        rows >= threshold * width,
        f"{question(rows, width)}; if they are, transpose both (X.T).",
    )


def question(rows: int, width: int) -> str:
    """The question to ask about views with this many rows and columns."""
    return (
        f"there are fewer rows ({rows:,}) than columns ({width:,}): are the views transposed? "
        "Rows must be examples, and columns features"
    )
