"""Codes against known factors in a terminal: the sentence, the numbers, what was left out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from identikit.factors import METRICS, Disentanglement
from identikit.report._disentangle_words import chance, lead, messages, spread
from identikit.report.numbers import number
from identikit.report.terminal import print_result

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

TITLES = ("metric", "value (95 %)", "chance (95 %)", "adjusted", "rows")


def rows(found: Disentanglement) -> list[tuple[str, ...]]:
    """The cells of the table: a row a number, those of one metric indented below its title."""
    lines: list[tuple[str, ...]] = []
    for name, score in found.scores.items():
        title, several = METRICS[name].title, len(score.parts) > 1
        if several:
            lines.append((title, "", "", "", ""))
        for part in score.parts:
            adjusted, n = number(part.adjusted, 2), f"{score.n:,}"
            first = f"  {part.name}" if several else title
            lines.append((first, spread(part), chance(part.chance), adjusted, n))
    return lines


def table(found: Disentanglement) -> Table:
    """Every number with its interval and its chance level.

    Parameters
    ----------
    found : Disentanglement
        The result to show.
    """
    from rich import box
    from rich.table import Table

    out = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for place, title in enumerate(TITLES):
        out.add_column(title, justify="right" if place > 2 else "left", no_wrap=True)
    for line in rows(found):
        out.add_row(*line)
    return out


def print_disentanglement(found: Disentanglement, console: Console) -> None:
    """Print the sentence, the table, and what was left out.

    Parameters
    ----------
    found : Disentanglement
        The result to show.
    console : rich.console.Console
        Where to print.
    """
    said = [(message, 1) for message in messages(found)]
    print_result(console, lead(found), table(found), said, "remarks")
