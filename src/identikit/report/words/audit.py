"""What is said of an audit and of a pair, and the words for the rungs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from identikit.alignment import RUNGS
from identikit.auditing.result import Interval, Pair, Verdict, View
from identikit.report.numbers import SMALLEST, percent, shortened, spread, with_interval

UNRELATED = "unrelated"
RELATED = "related"


class Words(NamedTuple):
    """A rung in words: what the views are the same *up to*, and what that means."""

    up_to: str
    meaning: str


#: What each verdict says the views are the same up to.
UP_TO = {name: Words(rung.up_to, rung.meaning) for name, rung in RUNGS.items()} | {
    RELATED: Words(
        "by their neighbours or kernels alone",
        "The views have something in common, but no map that these rows can fit shows it.",
    ),
    UNRELATED: Words(
        "in no linear sense",
        "Even the best map predicts one view from the other no better than chance.",
    ),
}


def standing(result: Pair | Verdict) -> str:
    """Where a result stands: `unrelated`, `within tolerance` or `above tolerance`."""
    if result.group == UNRELATED:
        return UNRELATED
    return "within tolerance" if result.within_tolerance else "above tolerance"


def headline(verdict: Verdict, views: int) -> str:
    """The verdict in a few words, for the top of a page."""
    if verdict.group == UNRELATED:
        return "Not related" if views == 2 else "Not all views are related"
    if verdict.group == RELATED:
        return "Related, but not by a map that these rows can fit"
    if verdict.within_tolerance:
        return f"The same, {UP_TO[verdict.loosest].up_to}"
    return "Not the same within the tolerance"


def summary(verdict: Verdict, rows: int, views: int, tolerance: float) -> str:
    """Say the verdict in one sentence.

    Parameters
    ----------
    verdict : Verdict
        The verdict on the worst pair.
    rows, views : int
        How many rows and views the audit had.
    tolerance : float
        The largest error that counts as the same.
    """
    show = shortened((verdict.a, verdict.b), 40).__getitem__
    return compose(verdict, rows, views, tolerance, show)


def compose(
    verdict: Verdict, rows: int, views: int, tolerance: float, show: Callable[[str], str]
) -> str:
    """Build the sentence; `show` decides how a name appears in it."""
    a, b = show(verdict.a), show(verdict.b)
    up_to = UP_TO[verdict.group].up_to
    error = _error(verdict.error, verdict.interval)
    over = f"over {rows:,} rows"
    worst = f"the worst pair ({a}, {b})"
    explained = percent(max(1 - verdict.error**2, 0.0))
    if verdict.order_only:
        who = f"the views {a} and {b}" if views == 2 else worst
        return (
            f"All that {who} clearly share is the order of their rows: {over}, a linear map leaves "
            f"{error}, but views that are sorted, drift or come in classes together would agree as "
            "well if no row had to do with its partner."
        )
    if verdict.group == UNRELATED:
        if views == 2:
            return (
                f"The views {a} and {b} are unrelated: {over}, no linear map explains one from "
                f"the other beyond chance; predicting it leaves {error}, where 1 is no better "
                "than the mean."
            )
        return (
            f"Not all {views} views are related: {over}, no linear map explains one view of "
            f"{worst} from the other beyond chance; predicting it leaves {error}, where 1 is no "
            "better than the mean."
        )
    if verdict.group == RELATED:
        who = f"The views {a} and {b} are" if views == 2 else f"Of {views} views, {worst} is"
        return (
            f"{who} related, but not by a map that these rows can fit: {over}, their kernels or "
            f"neighbours agree beyond chance, while the best linear map leaves {error}, where 1 is "
            "no better than the mean; more rows may tell."
        )
    if verdict.within_tolerance:
        doubt = ", though the interval reaches above it" if verdict.interval[1] > tolerance else ""
        if views == 2:
            start, who = f"The views {a} and {b} are the same {up_to}", "one"
        else:
            start = f"All {views} views are the same {UP_TO[verdict.loosest].up_to}"
            who = f"even in {worst} one"
        return (
            f"{start}: {over}, {who} explains {explained} of the variance of the other, with "
            f"{error}, within the tolerance of {tolerance:g}{doubt}."
            f"{untold(verdict.candidates)}"
        )
    doubt = ", though the interval reaches below it" if verdict.interval[0] < tolerance else ""
    stands = f"above the tolerance{doubt}"
    if verdict.error <= tolerance:
        stands = "but a few rows decide that, as the warnings say"
    if views == 2:
        start, who = f"The views {a} and {b} are not the same", "they agree best"
    else:
        start, who = f"Not all {views} views are the same", f"{worst} agrees best"
    return (
        f"{start} within the tolerance of {tolerance:g}: {over}, {who} {up_to}, which explains "
        f"{explained} of the variance, with {error}, {stands}.{untold(verdict.candidates)}"
    )


def pair(found: Pair, show: Callable[[str], str]) -> str:
    """What was found of two views; `show` decides how a name appears in it."""
    error = spread(found.error, found.interval)
    return (
        f"{show(found.a)} and {show(found.b)} agree best {UP_TO[found.group].up_to}, with an error "
        f"of {error}: {percent(found.variance)} of the variance.{untold(found.candidates)}"
    )


def untold(candidates: Sequence[str]) -> str:
    """A sentence for rungs that the data do not tell apart; nothing if there is just one."""
    names = " or ".join(candidates)
    return f" Which rung it is, {names}: the data do not tell." if len(candidates) > 1 else ""


def reductions(views: Sequence[View], show: Callable[[str], str]) -> list[str]:
    """A sentence for each view that was not compared whole; `show` decides how a name appears."""
    return [
        f"View {show(view.name)} is too wide for the memory: of its {view.dims:,} columns "
        f"{view.reduced_to:,} leading directions were compared, which leave out "
        f"{100 * (view.lost or 0.0):.2f}% of its variance and have no axes to pair."
        for view in views
        if view.reduced_to is not None
    ]


def _error(error: float, interval: Interval) -> str:
    if max(error, interval[1]) < SMALLEST:
        return f"a relative error below {SMALLEST:.4f}"
    value, low, high = with_interval(error, interval)
    return f"a relative error of {value} (95% interval {low} to {high})"
