"""Matched components in a table: a row a run."""

from __future__ import annotations

import numpy as np

from identikit.axes import Components
from identikit.report.numbers import number

TITLES = (
    *("components", "left out", "tied", "matched"),
    *("similarity", "chance", "pass", "unique"),
)


def rows(found: Components) -> list[list[str]]:
    """What stands after the name of each run."""
    listed = []
    for place, run in enumerate(found.runs):
        there = found.index[:, place] >= 0
        counts = (run.atoms, len(run.excluded), sum(map(len, run.tied)), run.matched)
        means = (float(np.mean(c[there, place])) for c in (found.similarity, found.chance))
        shares = (found.passes[there, place].mean(), run.unique)
        listed.append(
            [
                *(f"{count:,}" for count in counts),
                *map(number, means),
                *(f"{share:.1%}" for share in shares),
            ]
        )
    return listed
