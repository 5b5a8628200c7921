"""Were all rows used?"""

from identikit.auditing._evidence import Evidence
from identikit.auditing.result import Check


def check(evidence: Evidence, threshold: float = 0.0) -> Check:
    """Rows left out of all views for a NaN or infinity in one of them."""
    dropped = evidence.moments.dropped
    return Check(
        "dropped rows",
        "Were all rows used?",
        float(dropped),
        threshold,
        dropped <= threshold,
        f"{dropped} rows with NaN or infinity were left out of all views.",
    )
