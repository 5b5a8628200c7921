"""Can a linear map be told from an affine one?"""

import math

from identikit.auditing._evidence import Answer, Evidence
from identikit.auditing._verdict import SLACK


def check(evidence: Evidence, threshold: float = SLACK) -> Answer | None:
    """What a shift as large as the target's spread would add to the error of a linear map.

    A linear map can use a source mean m, far from zero against the spread Σ, as its constant: of a
    shift b it misses b / √(1 + mᵀΣ⁻¹m).
    """
    if evidence.group != "linear":
        return None
    m = evidence.moments
    best = min(rung.error for rung in evidence.ladder)
    missed = []
    for view in evidence.views:
        mean = m.centre(view) @ m.whitening_map(view)
        missed.append(1 / (1 + m.rows * float(mean @ mean)))
    added = math.sqrt(best**2 + max(missed)) - best
    return Answer(
        added,
        threshold,
        added > threshold * (1 - best**2),
        "the means are so far from zero against the spread that a linear map can imitate any "
        "shift: linear and affine cannot be told apart here; centre the views if a shift should "
        "not count.",
    )
