"""Compared models in a terminal: the sentence, a table of pairs, what is free, the notes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from identikit.auditing._models import CLOSE, DIFFERENT, SAME, TWO_MAPS, ModelPair, ModelsAudit
from identikit.family._distances import Distances
from identikit.report._numbers import ABSENT, plain, shorten

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

STYLES = {SAME: "green", CLOSE: "red", TWO_MAPS: "yellow", DIFFERENT: "yellow"}
MAX_NOTES = 8


def lead(audit: ModelsAudit, show: Callable[[str], str]) -> str:
    """The sentence that matters; `show` decides how a name appears in it.

    Parameters
    ----------
    audit : ModelsAudit
        The result to tell.
    show : callable
        From a name to how it is written.
    """
    worst = audit.worst
    a, b = show(worst.a), show(worst.b)
    if len(audit.pairs) == 1:
        return f"{a} and {b}: {worst.sentence}"
    same = sum(pair.same for pair in audit.pairs)
    return (
        f"{same} of {len(audit.pairs)} pairs are the same within {audit.tolerance:g}; the worst, "
        f"{a} and {b}: {worst.sentence}"
    )


def worst_first(audit: ModelsAudit) -> list[ModelPair]:
    """Pairs by falling relative logit gap."""
    return sorted(audit.pairs, key=lambda pair: -pair.gauge.logit_gap)


def small(value: float | None) -> str:
    """A distance with three digits, whatever its size.

    >>> small(0.03214), small(1.04e-4), small(3e-15), small(None), small(float("inf"))
    ('0.0321', '0.000104', '<1e-06', '–', '∞')
    """
    if value is None:
        return ABSENT
    if value == float("inf"):
        return "∞"
    return f"{value:.3g}" if value >= 1e-6 else "<1e-06"


def numbers(pair: ModelPair) -> dict[str, float | None]:
    """The numbers of a pair by the titles that tables give them."""
    apart = pair.distances
    full = apart if isinstance(apart, Distances) else None
    return {
        "logit gap": pair.gauge.logit_gap,
        "κ": pair.gauge.kappa,
        "KL": apart.kl,
        "TV": apart.tv,
        "d_LLV": None if full is None else full.llv,
        "d_fg": None if full is None else full.representation,
        "f error": pair.embedding.error,
    }


def models_table(audit: ModelsAudit, width: int = 100) -> Table:
    """One row a pair, the worst first; names are shortened so that `width` columns suffice.

    Parameters
    ----------
    audit : ModelsAudit
        The result to show.
    width : int
        Columns of the terminal.
    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    pairs = worst_first(audit)
    titles = ["finding", *numbers(pairs[0]), "f up to"]
    cells = [
        [pair.finding, *map(small, numbers(pair).values()), pair.embedding.group] for pair in pairs
    ]
    # What the other columns need, with a gap of two before each, is not for the names.
    taken = sum(2 + max(map(len, column)) for column in zip(titles, *cells))
    room = max(5, (width - taken - 2) // 2)
    out = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for title in ("a", "b"):
        out.add_column(title, max_width=room, no_wrap=True, overflow="ellipsis")
    for place, title in enumerate(titles):
        edge = place in (0, len(titles) - 1)
        out.add_column(title, justify="left" if edge else "right", no_wrap=True)
    for pair, row in zip(pairs, cells):
        # Text, not str: a name is never markup.
        names = (Text(shorten(name, room)) for name in (pair.a, pair.b))
        out.add_row(*names, Text(row[0], style=STYLES[row[0]]), *row[1:])
    return out


def shared_notes(pairs: list[ModelPair]) -> list[tuple[str, int]]:
    """Each distinct note with the number of pairs that have it, the commonest first."""
    return Counter(text for pair in pairs for text in dict.fromkeys(pair.notes)).most_common()


def print_models(audit: ModelsAudit, console: Console) -> None:
    """Print the sentence, the table, and each distinct note once.

    Parameters
    ----------
    audit : ModelsAudit
        The result to show.
    console : rich.console.Console
        Where to print.
    """
    from rich.text import Text

    console.print(Text(lead(audit, lambda name: shorten(name, 40)), style="bold"))
    console.print()
    console.print(models_table(audit, min(console.width, 100)))
    notes = shared_notes(worst_first(audit))
    if not notes:
        return
    console.print()
    for message, count in notes[:MAX_NOTES]:
        where = f" ({count} pairs)" if count > 1 else ""
        console.print(Text(f"! {plain(message)}{where}"))
    if len(notes) > MAX_NOTES:
        console.print(f"… and {len(notes) - MAX_NOTES} more distinct notes in the report")
