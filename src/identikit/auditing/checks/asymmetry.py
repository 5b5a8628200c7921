"""Does each view predict the other equally well?"""

from identikit.auditing._evidence import Answer, Evidence


def check(evidence: Evidence, threshold: float = 0.2) -> Answer:
    """Difference between the best errors of the two directions."""
    forward = min(rung.forward for rung in evidence.ladder)
    backward = min(rung.backward for rung in evidence.ladder)
    more, less = evidence.views if forward < backward else evidence.views[::-1]
    gap = abs(min(forward, 1.0) - min(backward, 1.0))
    return Answer(
        gap,
        threshold,
        gap <= threshold,
        f"view {evidence.name(more)} predicts {evidence.name(less)} with an error of "
        f"{min(forward, backward):.2f}, but in the other direction the error is "
        f"{max(forward, backward):.2f}: {evidence.name(more)} contains more information, and the "
        "verdict is that of the worse direction.",
    )
