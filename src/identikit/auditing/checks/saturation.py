"""Are there more rows than columns?"""

from identikit.auditing._evidence import Answer, Evidence


def check(evidence: Evidence, threshold: float = 1.0) -> Answer:
    """Largest rank divided by n − 1; at 1, a linear map of the view fits any target exactly."""
    m, cca = evidence.moments, evidence.cca
    share = max(cca.ranks) / max(m.rows - 1, 1)
    return Answer(
        share,
        threshold,
        share < threshold,
        f"with {m.rows} rows, and {max(cca.ranks)} linearly independent columns in a view, "
        "in-sample CCA, PWCCA and R² would be 1 for any data and are left out; use the held-out "
        "values, or add rows.",
    )
