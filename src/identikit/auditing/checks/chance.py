"""Are there enough rows for this many columns?"""

from identikit.auditing._evidence import Answer, Evidence


def check(evidence: Evidence, threshold: float = 0.2) -> Answer:
    """Mean canonical correlation that independent views of this shape would have."""
    p, q = evidence.cca.ranks
    return Answer(
        evidence.chance,
        threshold,
        evidence.chance <= threshold,
        f"{evidence.moments.rows} rows are few for {p} and {q} dimensions: independent views would "
        f"have a mean CCA of {evidence.chance:.2f}; use the held-out values, or at least "
        f"{50 * max(p, q)} rows.",
    )
