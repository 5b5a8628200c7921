"""An audit of batches in words and in a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from identikit.auditing.batches_result import BatchAudit, Remains
from identikit.report._order import shared
from identikit.report._words import GROUPS
from identikit.report.numbers import number, shorten, with_interval
from identikit.report.terminal import named_table, print_result

if TYPE_CHECKING:
    from rich.console import Console

#: Of the columns after the names of the batches.
TITLES = ["controls", "rung", "as is", "left (95 %)", "others", "as is", "left (95 %)", "noise"]

_STYLES = {None: "yellow", False: "green", True: "red"}


def sentences(result: BatchAudit) -> list[str]:
    """What remains between every two batches, a sentence or two each; the worst first."""
    return [_sentence(each) for each in worst_first(result)]


def story(result: BatchAudit) -> list[str]:
    """A headline and paragraphs for the page."""
    beyond = [each.beyond_noise for each in result.remains]
    if True in beyond:
        head = f"{result.by}: more remains between batches than a map explains"
    elif None in beyond:
        head = f"{result.by}: what a map leaves between batches"
    else:
        head = f"{result.by}: a map explains what differs between batches"
    return [head, *sentences(result)[:5], *_skipped(result)]


def print_batches(result: BatchAudit, console: Console) -> None:
    """Print the worst pair in words, a table of all pairs, and each distinct warning once.

    Parameters
    ----------
    result : BatchAudit
        What was found.
    console : rich.console.Console
        Where to print.
    """
    rows = worst_first(result)
    table = named_table(
        ("a", "b"),
        [(each.a, each.b) for each in rows],
        TITLES,
        [cells(each) for each in rows],
        right=(0, 2, 4, 5, 7),
        width=min(console.width, 100),
        styles=[_STYLES[each.beyond_noise] for each in rows],
    )
    warnings = [(text, 1) for text in _skipped(result)]
    warnings += [(_few(each), 1) for each in rows if each.few]
    warnings += shared(pair.warnings for pair in result.comparisons)
    print_result(console, _sentence(rows[0]), table, warnings, "warnings")


def worst_first(result: BatchAudit) -> list[Remains]:
    """Pairs of batches, those of which most remains first."""
    return sorted(result.remains, key=lambda each: -(each.error or each.held_out))


def _sentence(each: Remains) -> str:
    a, b = shorten(each.a, 40), shorten(each.b, 40)
    value, low, high = with_interval(each.held_out, each.held_out_interval)
    words = f"On the {each.controls} controls that {a} and {b} share, held out, "
    if each.verdict == each.group:
        words += (
            f"they are the same {GROUPS[each.group].up_to} but for an error of {value} "
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


def cells(each: Remains) -> list[str]:
    """What stands in the columns of `TITLES`."""
    left = "–"
    if each.error is not None and each.interval is not None:
        left = _ends(each.error, each.interval)
    return [
        str(each.controls),
        each.verdict,
        number(each.before, 2),
        _ends(each.held_out, each.held_out_interval),
        str(each.others),
        number(each.others_before, 2),
        left,
        number(each.noise, 2),
    ]


def _ends(error: float, interval: tuple[float, float]) -> str:
    value, low, high = with_interval(error, interval)
    return f"{value} ({low}–{high})"


def _few(each: Remains) -> str:
    return (
        f"the {each.controls} controls that {shorten(each.a, 40)!r} and {shorten(each.b, 40)!r} "
        f"share are too few for a {each.group} map of so many columns: directions that they do not "
        "vary in are not mapped; give more controls, or fewer columns (principal components)."
    )


def _skipped(result: BatchAudit) -> list[str]:
    if not result.skipped:
        return []
    most = max(result.skipped, key=lambda each: each.controls)
    return [
        f"{len(result.skipped)} pairs of batches share too few controls to be compared, "
        f"{most.a!r} and {most.b!r} the most of them, {most.controls}."
    ]
