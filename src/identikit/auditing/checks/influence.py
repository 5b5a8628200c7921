"""Would the verdict be the same without a few rows?"""

from identikit.auditing._evidence import Answer, Evidence
from identikit.auditing.result import Influence

#: The most row numbers that a message lists.
NAMED = 5


def check(evidence: Evidence, threshold: float = 0.0) -> Answer | None:
    """Number of extreme rows that decide the verdict: without them it would be different."""
    if evidence.moments.extremes is None:
        return None
    found = evidence.influence
    count = 0 if found is None else found.rows
    return Answer(
        float(count),
        threshold,
        count <= threshold,
        "" if found is None else _message(found),
    )


def _message(found: Influence) -> str:
    one = found.rows == 1
    named = ", ".join(str(number) for number in found.numbers[:NAMED])
    more = ", …" if found.rows > NAMED else ""
    which = f"1 row (number {named}" if one else f"{found.rows} rows (numbers {named}{more}"
    them = "it" if one else "them"
    without = (
        f"beside {them} the others are too small, or too few, to give a verdict"
        if found.error_without is None
        else f"without {them} the error is {found.error_without:.2g} and the pair is "
        f"{found.group_without}"
    )
    return (
        f"the verdict is decided by {which}, counting from 0): {without}; inspect {them}, and "
        f"leave {them} out if faulty."
    )
