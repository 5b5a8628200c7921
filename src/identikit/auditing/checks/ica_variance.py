"""Are there enough rows for ICA to find all axes?"""

import math

from identikit.auditing._evidence import Answer, Evidence


def check(evidence: Evidence, threshold: float = 0.99) -> Answer | None:
    """Share of the variance in the components that ICA used, in the view where it is smaller."""
    ica = evidence.context.ica
    if ica is None or isinstance(ica, str):
        return None
    sides = dict(zip(evidence.views, (ica.a, ica.b)))
    words = [
        f"{own.components} components of view {evidence.name(view)}, with {own.variance:.0%} of "
        "its variance"
        for view, own in sides.items()
        if own.variance < threshold
    ]
    least = min(own.variance for own in sides.values())
    return Answer(
        least,
        threshold,
        not words,
        f"the {ica.rows:,} rows that ICA has of each view are enough for {' and '.join(words)}: "
        f"the error after ICA cannot be below {math.sqrt(1 - least):.2f}; give fewer columns, or "
        "moments with a larger sample (ik.accumulate(views, sample=…)).",
    )
