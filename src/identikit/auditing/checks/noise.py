"""Does the rung of the verdict also give the best map?"""

from identikit.auditing._evidence import Answer, Evidence
from identikit.auditing._verdict import UNRELATED


def check(evidence: Evidence, threshold: float = 0.03) -> Answer | None:
    """Error of the verdict's rung less that of the best one, which noise in both views explains."""
    named = [rung for rung in evidence.ladder if rung.group == evidence.group]
    if evidence.group == UNRELATED or not named:
        return None
    best = min(evidence.ladder, key=lambda rung: rung.error)
    excess = named[0].error - best.error
    return Answer(
        excess,
        threshold,
        excess <= threshold,
        f"{evidence.group} explains all that {best.group} does if noise is allowed for, but a "
        f"map that is free to shrink predicts noisy rows better: as a map to apply, {best.group} "
        f"is the better one (error {best.error:.3f} against {named[0].error:.3f}).",
    )
