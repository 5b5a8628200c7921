"""What results look like in a terminal: a sentence, a table that fits, the messages."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import TYPE_CHECKING

from identikit._text import plain
from identikit.report.numbers import shortened

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

MAX_MESSAGES = 8
#: Columns of the terminal that a name gets if it needs them, before other columns are left out.
NAME = 12


def named_table(
    heads: Sequence[str],
    names: Sequence[Sequence[str]],
    titles: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    right: Container[int],
    width: int,
    styles: Sequence[str] | None = None,
    spare: Sequence[Sequence[int]] = (),
) -> Table:
    """Names, and cells that are never cut: names are shortened while they differ.

    Parameters
    ----------
    heads : sequence of str
        Titles of the columns of names.
    names : sequence of sequence of str
        The names that each row begins with.
    titles : sequence of str
        Of the columns after the names.
    rows : sequence of sequence of str
        The cells after the names.
    right : container of int
        Which of these columns are flush right.
    width : int
        Columns of the terminal.
    styles : sequence of str, optional
        Of the first cell of each row.
    spare : sequence of sequence of int
        Columns that may be left out together, the first first, where names need the room; the
        table says so.
    """
    from rich import box
    from rich.cells import cell_len
    from rich.table import Table
    from rich.text import Text

    longest = max((len(plain(name)) for line in names for name in line), default=0)
    columns, left_out = list(range(len(titles))), list[str]()
    for group in spare:
        if _room(columns, titles, rows, heads, width) >= min(longest, NAME):
            break
        columns = [place for place in columns if place not in group]
        left_out += [titles[place] for place in group]
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
        side = "right" if place in right else "left"
        out.add_column(titles[place], justify=side, no_wrap=True)  # type: ignore[arg-type]
    for number, (line, row) in enumerate(zip(names, rows)):
        style = "" if styles is None else styles[number]
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


def print_table(console: Console, table: Table) -> None:
    """Print a table whose lines may be longer than the terminal; none is cut."""
    console.print(table, crop=False, no_wrap=True, overflow="ignore")


def print_result(
    console: Console,
    says: str,
    table: Table,
    messages: Sequence[tuple[str, int]],
    kind: str,
    tables: Sequence[tuple[str, Table]] = (),
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
    tables : sequence of (str, rich.table.Table)
        Further tables, each below the words that name it.
    """
    from rich.text import Text

    console.print(Text(says, style="bold"))
    console.print()
    print_table(console, table)
    for words, further in tables:
        console.print()
        console.print(Text(words))
        print_table(console, further)
    if not messages:
        return
    console.print()
    for message, count in messages[:MAX_MESSAGES]:
        where = f" ({count} pairs)" if count > 1 else ""
        console.print(Text(f"! {plain(message)}{where}"))
    if len(messages) > MAX_MESSAGES:
        more = len(messages) - MAX_MESSAGES
        console.print(f"… and {more} more distinct {kind} in the report")
