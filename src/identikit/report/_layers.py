"""Layers of two models: a table in the terminal, and one page with the matrix of pairs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from identikit.auditing.layers_result import Layers
from identikit.report._page import render
from identikit.report.numbers import number
from identikit.report.terminal import named_table, print_result

if TYPE_CHECKING:
    from rich.console import Console


TITLES = ("value (95 %)", "chance", "calibrated", "corrected", "p")


def print_layers(found: Layers, console: Console) -> None:
    """Print the summary, and of every layer its best match.

    Parameters
    ----------
    found : Layers
        The result to show.
    console : rich.console.Console
        Where to print.
    """
    from rich.text import Text

    table = named_table(
        ("a", "best in b"),
        [line["names"] for line in lines(found)],
        TITLES,
        [(" ".join(line["value"]), *line["cells"]) for line in lines(found)],
        right=range(5),
        width=console.width,
        spare=[(1,)],
    )
    print_result(console, found.summary(), table, [], "")
    console.print()
    console.print(
        Text(
            "Calibrated is how far a value is from the upper end of chance to 1; corrected, and p, "
            "are for having looked at all pairs."
        )
    )


def layers_html(found: Layers) -> str:
    """Render layers of two models as one HTML page.

    Parameters
    ----------
    found : Layers
        The result to show.
    """
    cells = [
        [
            None
            if scored is None
            else {
                "value": number(scored.value),
                "calibrated": number(scored.calibrated),
                "shade": scored.calibrated,
                "best": best is not None and best.b == name,
            }
            for scored, name in zip(row, found.b)
        ]
        for row, best in zip(found.scores, found.best_of_a)
    ]
    beyond = "A match beyond chance" if found else "No match beyond chance"
    return render(
        "layers.html.j2",
        names=(*found.a, *found.b),
        version=found.version,
        found=found,
        headline=f"{beyond}, by {found.measure.replace('_', ' ')}",
        summary=found.summary(),
        rows=list(zip(found.a, cells)),
        lines=lines(found),
    )


def lines(found: Layers) -> list[dict[str, Any]]:
    """Of every layer of a: its best match in numbers; dashes if it has none."""
    listed: list[dict[str, Any]] = []
    for i, match in enumerate(found.best_of_a):
        if match is None:
            listed.append(
                {"names": (found.a[i], ""), "value": (number(None), ""), "cells": [""] * 4}
            )
            continue
        scored = found.scores[i][found.b.index(match.b)]
        assert scored is not None
        ends = "" if scored.interval is None else "({}–{})".format(*map(number, scored.interval))
        cells = [number(x) for x in (scored.chance, scored.calibrated, match.calibrated, match.p)]
        names, value = (found.a[i], match.b), (number(scored.value), ends)
        listed.append({"names": names, "value": value, "cells": cells})
    return listed
