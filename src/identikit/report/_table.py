"""The audit in a terminal: the sentence, a table of pairs, the warnings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from identikit._text import plain
from identikit.auditing.result import Audit, Pair
from identikit.report._order import shared, worst_first
from identikit.report._words import reductions, sentence, standing
from identikit.report.numbers import number, shortened, with_interval
from identikit.report.terminal import named_table, print_result
from identikit.sources import BY_POSITION

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

STYLES = {"within tolerance": "green", "above tolerance": "yellow", "unrelated": "red"}


def table(audit: Audit, width: int = 100) -> Table:
    """One row a pair, the worst first; names are shortened so that `width` columns suffice.

    Parameters
    ----------
    audit : Audit
        The result to show.
    width : int
        Columns of the terminal.
    """
    pairs = worst_first(audit)
    ica = any(pair.ica is not None for pair in pairs)
    return named_table(
        ("a", "b"),
        [(pair.a, pair.b) for pair in pairs],
        titles(audit.settings.tolerance, ica),
        [cells(pair, ica) for pair in pairs],
        right=range(3, 6 + ica),
        width=width,
        styles=[STYLES[standing(pair)] for pair in pairs],
        spare=[range(3 + ica, 6 + ica)],
    )


def titles(tolerance: float, ica: bool) -> list[str]:
    """Of the columns after the names; `ica` if any pair has an error after ICA."""
    found = ["rung", "error (95 %)", f"≤ {tolerance:g}"]
    return found + ["after\nICA"] * ica + ["CCA", "held\nout", "chance", ""]


def cells(pair: Pair, ica: bool) -> list[str]:
    """What stands in these columns."""
    error, low, high = with_interval(pair.error, pair.interval)
    after = number(None if pair.ica is None else pair.ica.rung.error)
    return [
        pair.group,
        error if error == high else f"{error} ({low}–{high})",
        "yes" if pair.within_tolerance else "no",
        *[after] * ica,
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
    says = sentence(audit.verdict, audit.rows, len(audit.views), audit.settings.tolerance)
    show = shortened((view.name for view in audit.views), 40).__getitem__
    reduced = [(text, 1) for text in reductions(audit.views, show)]
    warnings = [*reduced, *shared(pair.warnings for pair in audit.comparisons)]
    print_result(console, says, table(audit, min(console.width, 100)), warnings, "warnings")
    if audit.settings.pairing != BY_POSITION:
        console.print(f"\nRows: {plain(audit.settings.pairing)}.", markup=False)
