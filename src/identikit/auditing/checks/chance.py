"""Are there rows enough for this many columns?"""

from identikit.auditing._evidence import Answer, Evidence


def check(evidence: Evidence, threshold: float = 0.2) -> Answer:
    """Mean canonical correlation that independent views of this shape would show."""
    p, q = evidence.cca.ranks
    return Answer(
        evidence.chance,
        threshold,
        evidence.chance <= threshold,
        f"{evidence.moments.rows} rows are few for {p} and {q} dimensions: independent views would "
        f"show a mean CCA of {evidence.chance:.2f}; read the held-out values, or use at least "
        f"{50 * max(p, q)} rows.",
    )
