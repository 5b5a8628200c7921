"""What is said of batches: what remains between them after a map fitted on their controls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from identikit.report.numbers import number, shorten, with_interval
from identikit.report.words.audit import UP_TO

if TYPE_CHECKING:
    from identikit.auditing import BatchAudit
    from identikit.auditing.batches_result import Remains


def sentences(result: BatchAudit) -> list[str]:
    """What remains between every two batches, a sentence or two each; the worst first."""
    return [_sentence(each) for each in most_left_first(result)]


def headline(result: BatchAudit) -> str:
    """The same in a few words, for the top of a page."""
    beyond = [each.beyond_noise for each in result.remains]
    if True in beyond:
        return f"{result.by}: more remains between batches than a map explains"
    if None in beyond:
        return f"{result.by}: what a map leaves between batches"
    return f"{result.by}: a map explains what differs between batches"


def skipped(result: BatchAudit) -> list[str]:
    """A sentence for the pairs that were not compared, if there are any."""
    if not result.skipped:
        return []
    most = max(result.skipped, key=lambda each: each.controls)
    return [
        f"{len(result.skipped)} pairs of batches share too few controls to be compared, "
        f"{most.a!r} and {most.b!r} the most of them, {most.controls}."
    ]


def few_controls(each: Remains) -> str:
    """A warning: too few controls to determine the map."""
    return (
        f"the {each.controls} controls that {shorten(each.a, 40)!r} and {shorten(each.b, 40)!r} "
        f"share are too few for a {each.group} map of so many columns: directions that they do not "
        "vary in are not mapped; give more controls, or fewer columns (principal components)."
    )


def most_left_first(result: BatchAudit) -> list[Remains]:
    """Pairs of batches, those of which most remains first."""
    return sorted(result.remains, key=lambda each: -(each.error or each.held_out))


def _sentence(each: Remains) -> str:
    a, b = shorten(each.a, 40), shorten(each.b, 40)
    value, low, high = with_interval(each.held_out, each.held_out_interval)
    words = f"On the {each.controls} controls that {a} and {b} share, held out, "
    if each.verdict == each.group:
        words += (
            f"they are the same {UP_TO[each.group].up_to} but for an error of {value} "
            f"({low}–{high}; 1 is no better than the mean)"
        )
    else:
        words += f"no map relates them, and the best has an error of {value} ({low}–{high})"
    words += f"; as they are, the error is {number(each.before)}."
    if each.error is not None and each.interval is not None:
        value, low, high = with_interval(each.error, each.interval)
        words += (
            f" On the {each.others} other units that both have, that map leaves an error of "
            f"{value} ({low}–{high}), where {number(each.others_before)} is without it."
        )
    else:
        words += " Too few other units are in both to say what it does to them."
    if each.noise is None:
        return f"{words} No unit has replicates in both, so nothing says how much of it is noise."
    verdict = (
        "more than that remains: the batches differ by more than such a map"
        if each.beyond_noise
        else "no more than that remains: such a map explains how the batches differ"
    )
    return f"{words} Replicates alone would make {number(each.noise)}, and {verdict}."
