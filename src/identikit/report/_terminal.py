"""What results look like in a terminal: a sentence, a table of pairs, the messages of all pairs."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import TYPE_CHECKING

from identikit._text import plain
from identikit.report._numbers import shorten

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

MAX_MESSAGES = 8


def pairs_table(
    names: Sequence[tuple[str, str]],
    titles: Sequence[str],
    rows: Sequence[Sequence[str]],
    styles: Sequence[str],
    *,
    right: Container[int],
    width: int,
) -> Table:
    """One row a pair; names are shortened so that `width` columns suffice.

    Parameters
    ----------
    names : sequence of (str, str)
        The two names of every pair.
    titles : sequence of str
        Of the columns after the names.
    rows : sequence of sequence of str
        The cells after the names of every pair.
    styles : sequence of str
        Of the first of these cells, for every pair.
    right : container of int
        Which of these columns are flush right.
    width : int
        Columns of the terminal.
    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    # What the other columns need, with a gap of two before each, is not for the names.
    taken = sum(
        2 + max(len(part) for text in (title, *column) for part in text.split("\n"))
        for title, column in zip(titles, zip(*rows))
    )
    room = max(5, (width - taken - 2) // 2)
    out = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for title in ("a", "b"):
        out.add_column(title, max_width=room, no_wrap=True, overflow="ellipsis")
    for place, title in enumerate(titles):
        out.add_column(title, justify="right" if place in right else "left", no_wrap=True)
    for pair, row, style in zip(names, rows, styles):
        # Text, not str: a name is never markup.
        shown = (Text(shorten(name, room)) for name in pair)
        out.add_row(*shown, Text(row[0], style=style), *row[1:])
    return out


def print_result(
    console: Console, says: str, table: Table, messages: Sequence[tuple[str, int]], kind: str
) -> None:
    """Print the sentence, the table, and each distinct message once.

    Parameters
    ----------
    console : rich.console.Console
        Where to print.
    says : str
        The sentence that matters.
    table : rich.table.Table
        The pairs.
    messages : sequence of (str, int)
        Each distinct message with the number of pairs that have it.
    kind : str
        What the messages are, as in "3 more distinct warnings".
    """
    from rich.text import Text

    console.print(Text(says, style="bold"))
    console.print()
    console.print(table)
    if not messages:
        return
    console.print()
    for message, count in messages[:MAX_MESSAGES]:
        where = f" ({count} pairs)" if count > 1 else ""
        console.print(Text(f"! {plain(message)}{where}"))
    if len(messages) > MAX_MESSAGES:
        more = len(messages) - MAX_MESSAGES
        console.print(f"… and {more} more distinct {kind} in the report")
