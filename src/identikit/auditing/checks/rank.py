"""Does every column add information of its own?"""

from identikit.auditing._evidence import Answer, Evidence


def check(evidence: Evidence, threshold: float = 1.0) -> Answer | None:
    """Rank divided by the number of columns, for the view where it is smaller."""
    if not evidence.context.axes:
        return None
    m = evidence.moments
    shares = {v: m.whiten(v).rank / m.widths[v] for v in evidence.views}
    poor = [v for v, share in shares.items() if share < threshold]
    words = [f"view {evidence.name(v)} has rank {m.whiten(v).rank} of {m.widths[v]}" for v in poor]
    short = any(m.whiten(v).rank >= m.rows - 1 for v in poor)
    cause = (
        "there are too few rows for more"
        if short
        else "constant, duplicated or linearly dependent columns are left out; check the export if "
        "you did not expect any"
    )
    return Answer(
        min(shares.values()),
        threshold,
        not poor,
        f"{' and '.join(words)}: {cause}.",
    )
