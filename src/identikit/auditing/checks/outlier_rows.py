"""Do all rows contribute, and not just a few outliers?"""

import numpy as np

from identikit.auditing._evidence import Answer, Evidence


def check(evidence: Evidence, threshold: float = 0.1) -> Answer | None:
    """Effective share of rows in the scatter, (Σ‖x‖²)²/(n Σ‖x‖⁴); at least 1/3 if Gaussian."""
    m = evidence.moments
    products = m.norm_products()
    shares = {}
    for v in evidence.views:
        trace = float(np.trace(m.block(v, v)))
        if products[v, v] > 0:
            shares[v] = trace / float(products[v, v]) * trace / m.rows
    if not shares:
        return None
    view, share = min(shares.items(), key=lambda item: item[1])
    return Answer(
        share,
        threshold,
        share >= threshold,
        f"a few outlier rows dominate the scatter of view {evidence.name(view)} (as if it had "
        f"{max(share * m.rows, 1):.0f} rows instead of {m.rows}), so errors and CKA depend mostly "
        "on them; look at the rows of largest norm, or normalise the rows.",
    )
