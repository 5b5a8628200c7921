"""Is the variance spread over the columns?"""

import numpy as np

from identikit.auditing._evidence import Answer, Evidence


def check(evidence: Evidence, threshold: float = 0.5) -> Answer | None:
    """Largest share of a view's variance in one column (of three or more)."""
    if not evidence.context.axes:
        return None
    m = evidence.moments
    shares = {}
    for v in evidence.views:
        variances = m.scales(v) ** 2
        if m.widths[v] > 2 and variances.sum() > 0:
            column = int(np.argmax(variances))
            shares[v] = (float(variances[column] / variances.sum()), column)
    if not shares:
        return None
    view, (share, column) = max(shares.items(), key=lambda item: item[1][0])
    return Answer(
        share,
        threshold,
        share <= threshold,
        f"column {column} of view {evidence.name(view)} holds {share:.0%} of its variance, so "
        "errors and CKA depend mostly on that column; standardise the columns, or look at CCA as "
        "well.",
    )
