"""Do the folds look alike?"""

from identikit.auditing._evidence import Evidence
from identikit.auditing._result import Check


def check(evidence: Evidence, threshold: float = 5.0) -> Check | None:
    """Spread of the fold means over what independent rows would show (an F ratio, about 1)."""
    m = evidence.moments
    parts = [part for part in m.parts if part.count]
    if len(parts) < 2 or m.rows <= len(parts):
        return None
    ratios = {}
    for v in evidence.views:
        columns, centre = m.layout.columns[v], m.centre(v)
        between = sum(p.count * float(((p.mean[columns] - centre) ** 2).sum()) for p in parts)
        within = sum(float(m.layout.traces(part.scatter)[v]) for part in parts)
        if within > 0:
            ratios[v] = between / (len(parts) - 1) / (within / (m.rows - len(parts)))
    if not ratios:
        return None
    view, ratio = max(ratios.items(), key=lambda item: item[1])
    advice = (
        "the groups themselves differ, so intervals are rough"
        if evidence.grouped
        else "the rows are sorted, drift, or come in dependent runs, so intervals are too narrow; "
        "give the dependent rows one label each with groups (--groups), or shuffle the rows"
    )
    return Check(
        "dependent rows",
        "Do the folds look alike?",
        ratio,
        threshold,
        ratio <= threshold,
        f"the fold means of view {evidence.name(view)} differ {ratio:.0f} times more than those of "
        f"independent rows would: {advice}.",
    )
