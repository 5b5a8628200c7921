"""Can a linear map be distinguished from an affine one?"""

import math

from identikit.auditing._evidence import Answer, Evidence
from identikit.auditing._verdict import SLACK


def check(evidence: Evidence, threshold: float = SLACK) -> Answer | None:
    """Increase of a linear map's error if there were a shift as large as the target's spread.

    If the source's mean m is far from zero relative to its covariance Σ, a linear map can use it as
    a constant: of a shift b it then misses only b / √(1 + mᵀΣ⁻¹m).
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
        "the means are so far from zero, relative to the spread, that a linear map can imitate any "
        "shift: linear and affine cannot be distinguished here; centre the views if a shift should "
        "not count.",
    )
