"""What is shown of layers of two models: the best match of each, and the matrix of all pairs."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from identikit.report._shown import BAD, GOOD, Shown, Table, shows
from identikit.report.numbers import number, shortened
from identikit.report.plots import plot_layers
from identikit.report.words import layers as words

if TYPE_CHECKING:
    from identikit.auditing import Layers


@shows("Layers")
def layers(found: Layers) -> Shown:
    """How many layers have a match beyond chance, and the best match of each."""
    return Shown(
        "layers",
        "Which layer of one model is most like which of the other?",
        words.summary(found),
        [_best(found)],
        partial(plot_layers, found),
        words.headline(found),
        GOOD if found else BAD,
        facts=[
            f"{found.rows:,} rows",
            f"{len(found.a)} layers of a, {len(found.b)} of b",
            f"threshold of the best {number(found.threshold)}",
        ],
        further=[_every(found)],
        reading="Every layer of a from top to bottom and of b from left to right, numbered from 0: "
        "the stronger the colour, the larger the calibrated value.",
        notes=[
            "Calibrated is how far a value is from the upper end of chance to 1; corrected, and p, "
            "are for having looked at all pairs."
        ],
        methods=[
            (
                "Chance",
                "The mean for independent layers with the same rows, widths and spectra.",
            ),
            (
                "Corrected, p",
                "By the largest value of the whole table for independent models, since all pairs "
                "were looked at.",
            ),
            (
                "Intervals",
                f"95 %, by the delete-one-fold jackknife over {found.folds} folds. All of it takes "
                "rows to be independent.",
            ),
        ],
        names=(*found.a, *found.b),
        version=found.version,
    )


def _best(found: Layers) -> Table:
    """Of every layer of a: its best match in numbers; dashes if it has none."""
    names, rows = [], []
    for layer, match, line in zip(found.a, found.best_of_a, found.scores):
        scored = None if match is None else line[found.b.index(match.b)]
        if match is None or scored is None:
            names.append((layer, ""))
            rows.append([number(None), *[""] * 4])
            continue
        ends = "" if scored.interval is None else " ({}–{})".format(*map(number, scored.interval))
        cells = (scored.chance, scored.calibrated, match.calibrated, match.p)
        names.append((layer, match.b))
        rows.append([number(scored.value) + ends, *map(number, cells)])
    titles = ("value (95 %)", "chance", "calibrated", "corrected", "p")
    return Table(("a", "best in b"), names, titles, rows, spare=[(1,)])


def _every(found: Layers) -> Table:
    """The value of every pair of layers, and behind it the calibrated one."""
    short = shortened(found.b, 16)
    rows = [
        [
            number(None) if each is None else f"{number(each.value)} ({number(each.calibrated)})"
            for each in line
        ]
        for line in found.scores
    ]
    return Table(
        ("a",),
        [(layer,) for layer in found.a],
        [short[layer] for layer in found.b],
        rows,
        above="Every pair of layers: the value, and the calibrated value of the pair on its own",
        below="Of calibrated values, 0 is what independent layers reach in 95 of 100, 1 the same.",
    )
