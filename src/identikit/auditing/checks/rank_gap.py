"""Is it clear which directions are rounding error?"""

from identikit.auditing._evidence import Answer, Evidence


def check(evidence: Evidence, threshold: float = 10.0) -> Answer | None:
    """Ratio of the smallest kept to the largest dropped singular value of a standardised view."""
    m = evidence.moments
    gaps = {}
    for v in evidence.views:
        white = m.whiten(v)
        # Values far below the tolerance are certainly rounding error.
        if white.rank and white.dropped > 0.1 * white.tolerance:
            gaps[v] = white.smallest / white.dropped
    if not gaps:
        return None
    view, gap = min(gaps.items(), key=lambda item: item[1])
    return Answer(
        gap,
        threshold,
        gap >= threshold,
        f"view {evidence.name(view)} has no clear gap between directions that count and rounding "
        f"error (a factor of {gap:.1f}), so its rank {m.whiten(view).rank} is a matter of "
        "convention; store it at a higher precision, or compare its leading components with svcca.",
    )
