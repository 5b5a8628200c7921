"""Compared models in a terminal: the sentence, a table of pairs, what is free, the notes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from identikit.auditing.models_result import (
    BLOCKS,
    CLOSE,
    DIFFERENT,
    ORDER,
    SAME,
    TEMPERATURE,
    TWO_MAPS,
    ModelPair,
    ModelsAudit,
)
from identikit.family import Distances
from identikit.report._models_slices import slice_tables
from identikit.report._order import shared
from identikit.report.numbers import shortened, small
from identikit.report.terminal import named_table, print_result

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

STYLES = {
    SAME: "green",
    BLOCKS: "yellow",
    TEMPERATURE: "yellow",
    ORDER: "yellow",
    CLOSE: "red",
    TWO_MAPS: "yellow",
    DIFFERENT: "yellow",
}


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


def row(pair: ModelPair) -> list[str]:
    """What stands after the names of a pair."""
    return [pair.finding, *map(small, numbers(pair).values()), pair.embedding.group]


def models_table(audit: ModelsAudit, width: int = 100) -> Table:
    """One row a pair, the worst first; names are shortened so that `width` columns suffice.

    Parameters
    ----------
    audit : ModelsAudit
        The result to show.
    width : int
        Columns of the terminal.
    """
    pairs = worst_first(audit)
    titles = ["finding", *numbers(pairs[0]), "f up to"]
    return named_table(
        ("a", "b"),
        [(pair.a, pair.b) for pair in pairs],
        titles,
        [row(pair) for pair in pairs],
        right=range(1, len(titles) - 1),
        width=width,
        styles=[STYLES[pair.finding] for pair in pairs],
        spare=[(titles.index("d_LLV"), titles.index("d_fg")), (titles.index("TV"),)],
    )


def print_models(audit: ModelsAudit, console: Console) -> None:
    """Print the sentence, the tables of pairs and of slices, and each distinct note once.

    Parameters
    ----------
    audit : ModelsAudit
        The result to show.
    console : rich.console.Console
        Where to print.
    """
    width = min(console.width, 100)
    says = lead(audit, shortened((model.name for model in audit.models), 40).__getitem__)
    notes = shared(pair.notes for pair in worst_first(audit))
    slices = slice_tables(worst_first(audit), width)
    print_result(console, says, models_table(audit, width), notes, "notes", slices)
