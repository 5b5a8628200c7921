"""Are there more rows than columns?"""

from identikit.auditing._evidence import Answer, Evidence


def check(evidence: Evidence, threshold: float = 1.0) -> Answer:
    """Largest rank over n − 1; at 1 the view fits anything, row by row."""
    m, cca = evidence.moments, evidence.cca
    share = max(cca.ranks) / max(m.rows - 1, 1)
    return Answer(
        share,
        threshold,
        share < threshold,
        f"{m.rows} rows are not more than the {max(cca.ranks)} independent columns of a view, so "
        "in-sample CCA, PWCCA and R² would be 1 for any data and are left out; read the held-out "
        "values, or add rows.",
    )
