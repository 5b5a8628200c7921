"""Does each view predict the other equally well?"""

from identikit.auditing._evidence import Answer, Evidence


def check(evidence: Evidence, threshold: float = 0.2) -> Answer:
    """Gap between the two directions' best errors."""
    forward = min(rung.forward for rung in evidence.ladder)
    backward = min(rung.backward for rung in evidence.ladder)
    more, less = evidence.views if forward < backward else evidence.views[::-1]
    gap = abs(min(forward, 1.0) - min(backward, 1.0))
    return Answer(
        gap,
        threshold,
        gap <= threshold,
        f"view {evidence.name(more)} predicts {evidence.name(less)} with an error of "
        f"{min(forward, backward):.2f}, the other way round it is {max(forward, backward):.2f}: "
        f"{evidence.name(more)} holds more, and the verdict counts the worse direction.",
    )
