"""Do the views have the same width?"""

from identikit.auditing._evidence import Answer, Evidence


def check(evidence: Evidence, threshold: float = 1.0) -> Answer | None:
    """Number of columns of the narrower view divided by that of the wider one."""
    if not evidence.context.axes:
        return None
    p, q = (evidence.moments.widths[v] for v in evidence.views)
    return Answer(
        min(p, q) / max(p, q),
        threshold,
        min(p, q) >= threshold * max(p, q),
        f"the views have {max(p, q)} and {min(p, q)} columns: identity, permutation and monomial "
        "make no sense and are left out; rigid and similarity rotate the narrower view into a "
        "subspace of the wider one, whose other directions count as error.",
    )
