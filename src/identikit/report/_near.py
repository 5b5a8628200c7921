"""What is shown of near-identifiability: distances after the best map of each rung, and axes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from identikit.report._shown import BAD, DOUBTFUL, GOOD, Shown, Table, shows
from identikit.report.numbers import number, shortened, spread
from identikit.report.plots import plot_near
from identikit.report.words import near as words

if TYPE_CHECKING:
    from identikit.axes import Direction, NearIdentifiability

TITLES = ("mean (95 %)", "median", "95 %", "largest", "mean by\nchance", "ladder's\nerror")


@shows("NearIdentifiability")
def near(found: NearIdentifiability) -> Shown:
    """How far views are apart after the maps that matter; a table a direction and coordinates."""
    names = [side.name for side in found.sides]
    short = shortened(names, 30).__getitem__
    # How its numbers were made is part of the document.
    made = found.to_dict()
    axes = words.shares_axes(found.directions[0])
    return Shown(
        "near",
        "How near are the views to being the same up to each rung?",
        words.summary(found),
        [_table(way, short) for way in found.directions],
        partial(plot_near, found),
        words.headline(found),
        BAD if not found else DOUBTFUL if axes is False else GOOD,
        facts=[
            f"{found.rows:,} rows",
            *([f"a sample of {found.used:,}"] if found.used < found.rows else []),
            f"maps fitted on {found.fitted_on:,}",
            f"scored on {found.scored_on:,}",
            f"seed {found.seed}",
        ],
        reading="Dots are mean distances after the best map of each rung, with 95 % intervals; the "
        "bars in grey are what shuffled rows leave. 0 is the same. In whitened coordinates every "
        "direction counts alike; in raw ones, by its variance.",
        notes=[_sizes(found), *_sides(found, short)],
        warnings=[(_sentence(made["largest"]), 1)],
        methods=[
            (
                "Distances",
                "‖y − h(x)‖ on rows that neither the map h nor any axes were fitted on, over the "
                "diameter of y; h is the best map of each rung.",
            ),
            ("Diameter", _sentence(made["diameter"])),
            (
                "Chance",
                "The mean distance if the rows of one view are shuffled before anything is fitted.",
            ),
            (
                "After ICA",
                "Each view alone is turned to the axes that ICA finds in it, and then axes are "
                "matched: the pairing of the rows decides on nothing but their order and signs. "
                "Two controls: each view's axes from a half of the rows of its own (ica, different "
                "rows), and whitened axes turned at random in place of ICA (random rotation).",
            ),
            (
                "ICA efficiency",
                "(e_perm − e_ICA)/(e_perm − e_rigid) of the mean distances: 0 is no better than "
                "re-ordering axes, 1 as good as the best rotation, which has seen the pairing.",
            ),
            (
                "Ladder's error",
                "√(E‖y − h(x)‖² / E‖y − E y‖²), held out over folds of all rows, as in an audit.",
            ),
            ("Intervals", _sentence(made["intervals"])),
        ],
        remark="Distances over the diameter; .table has all directions and coordinates.",
        names=names,
        version=found.version,
    )


def _table(way: Direction, short: Callable[[str], str]) -> Table:
    size = way.diameter
    exact = "" if size.exact else f", at most {size.upper:.3g}"
    rows = [
        [
            spread(error.mean, error.mean_interval),
            *map(number, (error.median, error.q95, error.largest, error.chance, error.held_out)),
        ]
        for error in way.errors
    ]
    return Table(
        ("rung",),
        [(error.group,) for error in way.errors],
        TITLES,
        rows,
        spare=[(1,), (2,), (3,)],
        above=f"{short(way.source)} → {short(way.target)}, {way.coordinates} coordinates "
        f"(diameter {size.value:.3g}, of {size.quantile:.0%} of the pairs; largest "
        f"{size.max:.3g}{exact})",
        below=_efficiency(way),
    )


def _efficiency(way: Direction) -> str:
    gained = way.efficiency
    if gained is None:
        return "No permutation between different widths, so no ICA efficiency."
    if gained.value is None or gained.interval is None:
        return "No ICA efficiency: a rigid map gains nothing on a permutation."
    low, high = gained.interval
    return (
        f"ICA efficiency {number(gained.value, 2)} ({number(low, 2)}–{number(high, 2)}); rows "
        f"shuffled {number(gained.shuffled, 2)}, a random rotation instead of ICA "
        f"{number(gained.random_rotation, 2)}, axes from different rows "
        f"{number(gained.different_rows, 2)}."
    )


def _sizes(found: NearIdentifiability) -> str:
    both = (
        f"fitted and scored on the same {found.scored_on:,} rows"
        if found.fitted_on == found.used == found.scored_on
        else f"fitted on {found.fitted_on:,} rows, scored on {found.scored_on:,} others"
    )
    sample = f"; a sample of {found.used:,} of {found.rows:,} rows"
    sample = "" if found.used == found.rows else sample
    return f"Distances after the best map of each rung, over the diameter; {both}{sample}."


def _sides(found: NearIdentifiability, short: Callable[[str], str]) -> list[str]:
    """What ICA has found in each view."""
    lines = []
    for side in found.sides:
        state = "converged" if side.converged else f"not converged (gradient {side.gradient:.0e})"
        others = ", ".join(f"{count} {why}" for why, count in side.why_not.items())
        lines.append(
            f"ICA of {short(side.name)}: {side.components} components with "
            f"{side.variance:.0%} of the variance, {state}, {side.identified} identified"
            f"{f' (not: {others})' if others else ''}."
        )
    return lines


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."
