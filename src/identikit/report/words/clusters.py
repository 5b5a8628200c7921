"""What is said of three or more views: which of them belong together, and which with none."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from identikit.report.numbers import number, percent, percents
from identikit.report.words.audit import RELATED, UNRELATED, UP_TO, compose
from identikit.report.words.audit import headline as of_verdict

if TYPE_CHECKING:
    from identikit.auditing import Audit, Cluster, Pair

#: Names that a sentence lists, and clusters that it describes.
MOST_NAMES, MOST_CLUSTERS = 8, 4


def headline(audit: Audit) -> str:
    """The answer in a few words, for the top of a page."""
    views = len(audit.views)
    if views < 3 or audit.verdict.within_tolerance:
        return of_verdict(audit.verdict, views)
    together = [one for one in audit.clusters.best if len(one.views) > 1]
    alone = len(audit.clusters.alone)
    if not together:
        return f"No two of {views} views agree"
    if len(together) > 1:
        sizes = _listed([str(len(one.views)) for one in together[:MOST_CLUSTERS]], str)
        more = ", the largest" if len(together) > MOST_CLUSTERS else ""
        rest = f"; {alone} agree{_s(alone)} with none" if alone else ""
        return f"{len(together)} groups of views{more} of {sizes}{rest}"
    (one,) = together
    if not alone:
        return f"All {views} views agree {UP_TO[one.group or UNRELATED].up_to}, but not all closely"
    who = "the other" if alone == 1 else f"the other {alone}"
    return f"{len(one.views)} of {views} views agree; {who} agree{_s(alone)} with none of them"


def summary(audit: Audit, show: Callable[[str], str]) -> str:
    """Say which views belong together; of two views, and of views that are all the same, how.

    Parameters
    ----------
    audit : Audit
        What was found.
    show : callable
        How a name appears.
    """
    views, tolerance = len(audit.views), audit.settings.tolerance
    if views < 3 or audit.verdict.within_tolerance:
        return compose(audit.verdict, audit.rows, views, tolerance, show)
    text = _who_agrees(audit, show)
    if audit.verdict.order_only:
        text += f" {compose(audit.verdict, audit.rows, views, tolerance, show)}"
    return text


def _who_agrees(audit: Audit, show: Callable[[str], str]) -> str:
    """The clusters, and the views that are in none, of three views or more."""
    views, tolerance = len(audit.views), audit.settings.tolerance
    clusters, pairs = audit.clusters, audit.comparisons
    together = [one for one in clusters.best if len(one.views) > 1]
    over = f"Of {views} views over {audit.rows:,} rows"
    if not together:
        return f"{over}, no two agree{_none_agree(pairs, tolerance, show)}"
    same = {one.views for one in clusters.at_tolerance}
    said = [_together(one, one.views in same, show) for one in together[:MOST_CLUSTERS]]
    if len(together) > MOST_CLUSTERS:
        said.append(f"{len(together) - MOST_CLUSTERS} more groups agree among themselves")
    if len(together) == 1 and len(together[0].views) == views:
        over, said = f"Over {audit.rows:,} rows", [_together(together[0], False, show, views)]
    alone = clusters.alone
    if alone:
        said.append(_alone(alone, pairs, show))
    inner = [one for one in clusters.at_tolerance if len(one.views) > 1 and one not in together]
    text = f"{over}, {'; '.join(said)}."
    if inner or not any(one.views in same for one in together):
        text += f" {_within(inner, tolerance, show)}"
    return text


def _together(one: Cluster, same: bool, show: Callable[[str], str], views: int = 0) -> str:
    """What holds for all pairs of a cluster; `views` is set if it has all of them."""
    who = f"all {views} views" if views else _listed(one.views, show)
    up_to = UP_TO[one.group or UNRELATED].up_to
    verb = "are the same" if same else "are related" if one.group == RELATED else "agree"
    assert one.error is not None  # it has two views or more
    assert one.variance is not None
    size = f"error {_errors(one.error)}, {percents(*one.variance)} of the variance"
    return f"{who} {verb} {up_to} ({size})"


def _alone(names: Sequence[str], pairs: Sequence[Pair], show: Callable[[str], str]) -> str:
    """What is said of views that agree with none of the others, with their smallest error."""
    own = set(names)
    found = [pair for pair in pairs if own & {pair.a, pair.b}]
    who = "agrees with none of them" if len(names) == 1 else "agree with no other"
    text = f"{_listed(names, show)} {who}"
    if not found:
        return text
    if all(pair.relation == UNRELATED for pair in found):
        return f"{text} (unrelated)"
    nearest = min(found, key=lambda pair: (pair.relation == UNRELATED, pair.error))
    return f"{text} (error {number(nearest.error, 2)} or more, at most {percent(nearest.variance)})"


def _none_agree(pairs: Sequence[Pair], tolerance: float, show: Callable[[str], str]) -> str:
    """The rest of the sentence if there is no cluster of two views or more."""
    related = [pair for pair in pairs if pair.relation != UNRELATED]
    if not related:
        return ": no map explains one from another beyond chance."
    nearest = min(related, key=lambda pair: pair.error)
    text = (
        f" within the tolerance of {tolerance:g}, and none clearly more than others: "
        f"{show(nearest.a)} and {show(nearest.b)} come nearest, {UP_TO[nearest.group].up_to}, with "
        f"error {number(nearest.error, 2)} ({percent(nearest.variance)} of the variance)"
    )
    apart = len(pairs) - len(related)
    return f"{text}; {apart} of {len(pairs)} pairs are unrelated." if apart else f"{text}."


def _within(inner: Sequence[Cluster], tolerance: float, show: Callable[[str], str]) -> str:
    """Which views are the same, within clusters that are not."""
    if not inner:
        return f"No two of the views are the same within the tolerance of {tolerance:g}."
    said = [_together(one, True, show) for one in inner[:MOST_CLUSTERS]]
    more = len(inner) - MOST_CLUSTERS
    tail = f"; and so are {more} more groups" if more > 0 else ""
    return f"Within the tolerance of {tolerance:g}, {'; '.join(said)}{tail}."


def _listed(names: Iterable[str], show: Callable[[str], str]) -> str:
    """Names with commas and an "and"; of many, the first ones and how many more."""
    shown = [show(name) for name in names]
    if len(shown) > MOST_NAMES:
        shown = [*shown[: MOST_NAMES - 2], f"{len(shown) - MOST_NAMES + 2} others"]
    return " and ".join(filter(None, [", ".join(shown[:-1]), shown[-1]]))


def _errors(ends: tuple[float, float]) -> str:
    low, high = (number(end, 2) for end in ends)
    return low if low == high else f"{low} to {high}"


def _s(count: int) -> str:
    return "s" if count == 1 else ""
