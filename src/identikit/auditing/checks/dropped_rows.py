"""Were all rows used?"""

from identikit.auditing._evidence import Answer, Evidence


def check(evidence: Evidence, threshold: float = 0.0) -> Answer:
    """Rows left out of all views because of a NaN or infinity in one of them."""
    dropped = evidence.moments.dropped
    return Answer(
        float(dropped),
        threshold,
        dropped <= threshold,
        f"{dropped} rows with NaN or infinity were left out of all views.",
    )
