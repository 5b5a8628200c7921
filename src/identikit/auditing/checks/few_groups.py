"""Are there enough groups of rows to leave out?"""

from identikit.auditing._evidence import Answer, Evidence


def check(evidence: Evidence, threshold: float = 5.0) -> Answer | None:
    """Number of folds, where these are whole groups of rows."""
    folds = evidence.moments.folds
    if not evidence.context.grouped:
        return None
    return Answer(
        float(folds),
        threshold,
        folds >= threshold,
        f"there are {folds} folds of whole groups, each left out once, so intervals have only "
        f"{folds - 1} degrees of freedom and are wide: more groups would narrow them.",
    )
