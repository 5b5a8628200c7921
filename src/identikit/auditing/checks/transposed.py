"""Are rows examples, and columns features?"""

from identikit.auditing._evidence import Evidence
from identikit.auditing._transposed import ROWS_A_COLUMN, question
from identikit.auditing.result import Check


def check(evidence: Evidence, threshold: float = ROWS_A_COLUMN) -> Check | None:
    """Rows over columns of the narrower view; none where there are more rows than columns."""
    rows, width = evidence.moments.rows, min(evidence.columns)
    if rows >= width:
        return None
    return Check(
        "transposed",
        "Are rows examples, and columns features?",
        rows / width,
        threshold,
        rows >= threshold * width,
        f"{question(rows, width)}; if they are, transpose both (X.T).",
    )
