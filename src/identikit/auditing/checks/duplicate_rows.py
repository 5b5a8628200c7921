"""Does every row occur only once?"""

from identikit.auditing._evidence import Answer, Evidence


def check(evidence: Evidence, threshold: float = 0.95) -> Answer | None:
    """Share of distinct rows, of all views together or of one of the two, whichever is least."""
    m = evidence.moments
    if m.distinct is None or not m.rows:
        return None
    together = m.distinct.estimate(m.rows)
    own = {view: m.distinct.estimate(m.rows, view) for view in evidence.views}
    share = min(together, *own.values()) / m.rows
    poor = [view for view, distinct in own.items() if distinct < threshold * m.rows]
    if together < threshold * m.rows:
        words = (
            f"only {_number(together, m.distinct.size)} of {m.rows} rows are distinct, so copies "
            "of one row are in different folds and errors are not held out; pass "
            'groups="duplicates" (--groups duplicates), which keeps copies in one fold, or drop '
            "the copies."
        )
        if evidence.context.grouped:
            words = (
                f"only {_number(together, m.distinct.size)} of {m.rows} rows are distinct: there "
                "is less evidence than the rows suggest, and unless the groups keep copies of a "
                'row together (groups="duplicates" does) errors are not held out.'
            )
    else:
        listed = " and ".join(
            f"view {evidence.name(v)} has {_number(own[v], m.distinct.size)} distinct rows"
            for v in poor
        )
        words = (
            f"{listed} among {m.rows}: rows that repeat in one view are not independent evidence; "
            "if repeated rows belong to one input, label the rows by input with groups (--groups)."
        )
    return Answer(share, threshold, share >= threshold, words)


def _number(distinct: float, exact: int) -> str:
    return f"{distinct:.0f}" if distinct < exact else f"about {float(f'{distinct:.2g}'):.0f}"
