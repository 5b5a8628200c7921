"""Do the views have the same width?"""

from identikit.auditing._evidence import Answer, Evidence


def check(evidence: Evidence, threshold: float = 1.0) -> Answer | None:
    """Narrower over wider width."""
    if not evidence.context.axes:
        return None
    p, q = (evidence.moments.widths[v] for v in evidence.views)
    return Answer(
        min(p, q) / max(p, q),
        threshold,
        min(p, q) >= threshold * max(p, q),
        f"the views have {max(p, q)} and {min(p, q)} columns: identity, permutation and monomial "
        "make no sense and are absent; rigid and similarity turn the narrower view into a subspace "
        "of the wider one, and of that the directions outside count as missed.",
    )
