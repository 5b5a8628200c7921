"""Are there rows enough for this many columns?"""

from identikit.auditing._evidence import Evidence
from identikit.auditing.result import Check


def check(evidence: Evidence, threshold: float = 0.2) -> Check:
    """Mean canonical correlation that independent views of this shape would show."""
    p, q = evidence.cca.ranks
    return Check(
        "chance",
        "Are there rows enough for this many columns?",
        evidence.chance,
        threshold,
        evidence.chance <= threshold,
        f"{evidence.moments.rows} rows are few for {p} and {q} dimensions: independent views would "
        f"show a mean CCA of {evidence.chance:.2f}; read the held-out values, or use at least "
        f"{50 * max(p, q)} rows.",
    )
