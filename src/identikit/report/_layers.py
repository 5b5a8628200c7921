"""What is shown of layers of two models: the best match of each, and the matrix of all pairs."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from identikit.report._shown import BAD, GOOD, Shown, Table, shows
from identikit.report.numbers import number
from identikit.report.plots import plot_layers
from identikit.report.words import layers as words

if TYPE_CHECKING:
    from identikit.auditing import Layers


@shows("Layers")
def layers(found: Layers) -> Shown:
    """How many layers have a match beyond chance, and the best match of each."""
    best = _best(found)
    return Shown(
        "layers",
        "Which layer of one model is most like which of the other?",
        words.summary(found),
        [
            Table(
                ("a", "best in b"),
                [line["names"] for line in best],
                ("value (95 %)", "chance", "calibrated", "corrected", "p"),
                [(" ".join(line["value"]), *line["cells"]) for line in best],
                spare=[(1,)],
            )
        ],
        partial(plot_layers, found),
        words.headline(found),
        GOOD if found else BAD,
        facts=[
            f"{found.rows:,} rows",
            f"{len(found.a)} layers of a, {len(found.b)} of b",
            f"threshold of the best {number(found.threshold)}",
        ],
        notes=[
            "Calibrated is how far a value is from the upper end of chance to 1; corrected, and p, "
            "are for having looked at all pairs."
        ],
        names=(*found.a, *found.b),
        template="layers.html.j2",
        values=lambda: {"layers": found, "matrix": _matrix(found), "best": best},
        version=found.version,
    )


def _best(found: Layers) -> list[dict[str, Any]]:
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


def _matrix(found: Layers) -> list[tuple[str, list[dict[str, Any] | None]]]:
    """Every pair of layers as a cell; the best match of each row is marked."""
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
    return list(zip(found.a, cells))
