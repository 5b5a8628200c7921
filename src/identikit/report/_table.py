"""The audit in a terminal: the sentence, a table of pairs, the warnings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from identikit.auditing._result import Audit, Pair
from identikit.report._numbers import number, plain, shorten, with_interval
from identikit.report._order import shared_warnings, worst_first
from identikit.report._words import sentence, standing

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

STYLES = {"within tolerance": "green", "above tolerance": "yellow", "unrelated": "red"}
MAX_WARNINGS = 8


def table(audit: Audit, width: int = 100) -> Table:
    """One row a pair, the worst first; names are shortened so that `width` columns suffice.

    Parameters
    ----------
    audit : Audit
        The result to show.
    width : int
        Columns of the terminal.
    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    pairs = worst_first(audit)
    titles = ["group", "error (95 %)", f"≤ {audit.settings.tolerance:g}"]
    titles += ["CCA", "held\nout", "chance", ""]
    cells = [_cells(pair) for pair in pairs]
    # What the other columns need, with a gap of two before each, is not for the names.
    taken = sum(
        2 + max(len(part) for text in (title, *column) for part in text.split("\n"))
        for title, column in zip(titles, zip(*cells))
    )
    room = max(5, (width - taken - 2) // 2)
    out = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for title in ("a", "b"):
        out.add_column(title, max_width=room, no_wrap=True, overflow="ellipsis")
    for place, title in enumerate(titles):
        out.add_column(title, justify="right" if 3 <= place <= 5 else "left", no_wrap=True)
    for pair, row in zip(pairs, cells):
        # Text, not str: a name is never markup.
        names = (Text(shorten(name, room)) for name in (pair.a, pair.b))
        out.add_row(*names, Text(row[0], style=STYLES[standing(pair)]), *row[1:])
    return out


def _cells(pair: Pair) -> list[str]:
    error, low, high = with_interval(pair.error, pair.interval)
    return [
        pair.group,
        error if error == high else f"{error} ({low}–{high})",
        "yes" if pair.within_tolerance else "no",
        number(pair.cca.mean),
        number(pair.cca.held_out),
        number(pair.cca.chance),
        "!" if pair.warnings else "",
    ]


def print_audit(audit: Audit, console: Console) -> None:
    """Print the verdict, the table, and each distinct warning once.

    Parameters
    ----------
    audit : Audit
        The result to show.
    console : rich.console.Console
        Where to print.
    """
    from rich.text import Text

    says = sentence(audit.verdict, audit.rows, len(audit.views), audit.settings.tolerance)
    console.print(Text(says, style="bold"))
    console.print()
    console.print(table(audit, min(console.width, 100)))
    warnings = shared_warnings(list(audit.comparisons))
    if not warnings:
        return
    console.print()
    for message, count in warnings[:MAX_WARNINGS]:
        where = f" ({count} pairs)" if count > 1 else ""
        console.print(Text(f"! {plain(message)}{where}"))
    if len(warnings) > MAX_WARNINGS:
        console.print(f"… and {len(warnings) - MAX_WARNINGS} more distinct warnings in the report")
