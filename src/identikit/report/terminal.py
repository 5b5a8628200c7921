"""What is shown of a result in a terminal: sentences, tables that fit, notes and warnings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from identikit._text import plain
from identikit.report._shown import Table, shown
from identikit.report.numbers import shortened

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as RichTable

MAX_MESSAGES = 8
#: Columns of the terminal that a name gets if it needs them, before other columns are left out.
NAME = 12


def print_result(result: object, console: Console) -> None:
    """Print the sentences, the tables, the notes, and each distinct warning once.

    Parameters
    ----------
    result : Result
        What to show.
    console : rich.console.Console
        Where to print.
    """
    from rich.text import Text

    found = shown(result)

    console.print(Text(found.in_terminal or found.says, style="bold"))
    for table in found.tables:
        console.print()
        if table.above:
            console.print(Text(table.above))
        # Lines may be longer than the terminal; none is cut.
        console.print(rich_table(table, console.width), crop=False, no_wrap=True, overflow="ignore")
        if table.below:
            console.print(Text(table.below))
    if found.notes or found.warnings:
        console.print()
    for note in found.notes:
        console.print(Text(plain(note)))
    for message, count in found.warnings[:MAX_MESSAGES]:
        where = f" ({count} pairs)" if count > 1 else ""
        console.print(Text(f"! {plain(message)}{where}"))
    if len(found.warnings) > MAX_MESSAGES:
        more = len(found.warnings) - MAX_MESSAGES
        console.print(f"… and {more} more distinct {found.warnings_are} in the report")


def rich_table(table: Table, width: int = 100) -> RichTable:
    """A table whose numbers are never cut: names are shortened while they differ.

    Parameters
    ----------
    table : Table
        What it holds.
    width : int
        Columns of the terminal.
    """
    from rich import box
    from rich.cells import cell_len
    from rich.table import Table
    from rich.text import Text

    heads, names, titles, rows = table.heads, table.names, table.titles, table.rows
    longest = max((len(plain(name)) for line in names for name in line), default=0)
    columns, left_out = list(range(len(titles))), list[str]()
    for number, together in enumerate(table.spare):
        fewer = [place for place in columns if place not in together]
        room, more = (_room(some, titles, rows, heads, width) for some in (columns, fewer))
        if room >= min(longest, NAME) and not (number and table.whole and room < longest <= more):
            break
        columns = fewer
        left_out += [titles[place] for place in together]
    room = max(5, _room(columns, titles, rows, heads, width))
    shown = shortened((name for line in names for name in line), room)
    out = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    needed = sum(2 + _widest(place, titles, rows) for place in columns) - 2
    for title, column in zip(heads, zip(*names)):
        texts = [title, *(shown[name] for name in column)]
        # Signs that take two columns each, as Chinese does, are left for rich to cut.
        most = max(room, *map(len, texts))
        out.add_column(title, max_width=most, no_wrap=True, overflow="ellipsis")
        needed += 2 + min(most, max(map(cell_len, texts)))
    for place in columns:
        side = "right" if place >= table.words else "left"
        out.add_column(titles[place], justify=side, no_wrap=True)  # type: ignore[arg-type]
    for number, (line, row) in enumerate(zip(names, rows)):
        style = table.styles[number] if table.styles else ""
        # Text, not str: a name is never markup.
        cells = [Text(row[place], style=style if place == 0 else "") for place in columns]
        out.add_row(*(Text(shown[name]) for name in line), *cells)
    if needed > width:
        # Lines that are longer than the terminal, which breaks them, and not numbers that are cut.
        out.width = needed
    if left_out:
        said = ", ".join(title.replace("\n", " ") for title in left_out)
        out.caption, out.caption_justify = f"Not shown for want of room: {said}.", "left"
    return out


def _widest(place: int, titles: Sequence[str], rows: Sequence[Sequence[str]]) -> int:
    return max(len(part) for text in (titles[place], *(row[place] for row in rows))
               for part in text.split("\n"))  # fmt: skip


def _room(
    columns: Sequence[int],
    titles: Sequence[str],
    rows: Sequence[Sequence[str]],
    heads: Sequence[str],
    width: int,
) -> int:
    """What a column of names may take: the other columns come with a gap of two before each."""
    taken = sum(2 + _widest(place, titles, rows) for place in columns)
    return (width - taken - 2 * (len(heads) - 1)) // len(heads)
