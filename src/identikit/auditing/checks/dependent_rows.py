"""Do rows depend on other rows?"""

from dataclasses import replace

from identikit.auditing._evidence import Answer, Evidence
from identikit.auditing._order import LARGEST, Order
from identikit.auditing.result import Check

#: What the message says about the intervals, unless `with_blocked` replaces it.
TOO_NARROW = "intervals are too narrow"


def check(evidence: Evidence, threshold: float | None = None) -> Answer | None:
    """Variance of the means of stretches of rows, relative to that of independent rows.

    If the rows are available in their order and folds are not whole groups, see `Order.dependence`.
    Otherwise it is the variance of the fold means relative to that of independent rows (an F ratio,
    about 1).

    By simulation (tests/test_order.py), at most 1 % of pairs with independent rows fail, including
    heavy-tailed and sparse ones. Dependent rows in random order cannot be detected.
    """
    order = evidence.context.order
    if order is None:
        return _of_folds(evidence, 5.0 if threshold is None else threshold)
    return _of_rows(evidence, order, LARGEST if threshold is None else threshold)


def _of_rows(evidence: Evidence, order: Order, threshold: float) -> Answer:
    value = order.dependence(*evidence.views)
    if evidence.order_only:
        found = (
            f"what a map explains (its error is {evidence.error:.2f}) may come from the order of "
            "the rows alone: the two views agree no better row by row than if they were only "
            "sorted, drifting or in classes in the same way"
        )
    else:
        found = TOO_NARROW
    return Answer(
        value,
        threshold,
        value <= threshold,
        f"rows of view {evidence.name(evidence.i)} or {evidence.name(evidence.j)} depend on those "
        f"nearby (sorted, drifting, or in dependent runs; stretches of rows vary {value:.1f} times "
        f"as much as those of independent rows would): {found}; give rows that depend on each "
        "other the same label with groups (--groups).",
    )


def with_blocked(check: Check, error: float, blocked: float) -> Check:
    """The check with the error that is found when whole stretches of rows are left out."""
    both = (
        f"the error is {error:.2f} with scattered folds and {blocked:.2f} when whole stretches of "
        "rows are left out, and the interval covers both"
    )
    return replace(check, message=check.message.replace(TOO_NARROW, both))


def _of_folds(evidence: Evidence, threshold: float) -> Answer | None:
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
        "the groups themselves differ, so intervals are only approximate"
        if evidence.context.grouped
        else "the rows are sorted, drift, or come in dependent runs, so intervals are too narrow; "
        "give rows that depend on each other the same label with groups (--groups)"
    )
    return Answer(
        ratio,
        threshold,
        ratio <= threshold,
        f"the fold means of view {evidence.name(view)} differ {ratio:.0f} times more than those of "
        f"independent rows would: {advice}.",
    )
