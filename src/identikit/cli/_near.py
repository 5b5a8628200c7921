"""`identikit near`: distances between two views after the best map of each rung."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from identikit._text import plain
from identikit.cli import _options as options
from identikit.cli._progress import progress_bar

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from identikit.axes import Direction, NearIdentifiability

EXAMPLE = "identikit near run1.npy run2.npy -o near.json"


def command(
    a: Annotated[str, typer.Argument(metavar="A", help="A view.")],
    b: Annotated[str, typer.Argument(metavar="B", help="Another view of the same rows.")],
    groups: options.Groups = None,
    names: options.Names = None,
    components: Annotated[
        int | None,
        typer.Option(help="Components of the ICA; by default what ranks and rows allow."),
    ] = None,
    fit_share: Annotated[
        float, typer.Option(help="Share of the rows that maps are fitted on; 1 is in sample.")
    ] = 0.5,
    max_rows: Annotated[
        int, typer.Option(help="Use a random sample of so many rows if there are more.")
    ] = 20_000,
    seed: Annotated[int, typer.Option(help="Of the sample, the split, ICA and controls.")] = 0,
    drop_nonfinite: options.DropNonfinite = False,
    output: options.Output = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Say how far A and B are from each other after the best map of each rung, and after ICA."""
    from identikit.axes import near_identifiability

    options.check_target(output, [a, b, groups], overwrite=True)
    with progress_bar(quiet) as progress:
        result = near_identifiability(
            a,
            b,
            names=options.split_names(names),
            groups=options.read_groups(groups),
            fit_share=fit_share,
            n_components=components,
            max_rows=max_rows,
            seed=seed,
            drop_nonfinite=drop_nonfinite,
            progress=progress,
        )
    there = output is not None and output.exists()
    # Printed before anything is written: a full disk shall not cost the result.
    if json:
        sys.stdout.write(result.to_json())
    else:
        print_near(result, options.console())
    if output is not None:
        result.save(output)
        if not quiet:
            typer.echo(f"{'replaced' if there else 'wrote'} {plain(output)}", err=True)


def print_near(result: NearIdentifiability, console: Console) -> None:
    """Print a sentence, a table a direction and coordinates, and what the ICA has found.

    Parameters
    ----------
    result : NearIdentifiability
        What to show.
    console : rich.console.Console
        Where to print.
    """
    from rich.text import Text

    from identikit.axes import LARGEST
    from identikit.report.numbers import shortened
    from identikit.report.terminal import print_table

    shown = shortened((side.name for side in result.sides), 30)
    sample = f"; a sample of {result.used:,} of {result.rows:,} rows"
    both = (
        f"fitted and scored on the same {result.scored_on:,} rows"
        if result.fitted_on == result.used == result.scored_on
        else f"fitted on {result.fitted_on:,} rows, scored on {result.scored_on:,} others"
    )
    text = f"Distances after the best map of each rung, over the diameter; {both}"
    text += "." if result.used == result.rows else f"{sample}."
    console.print(Text(result.summary(), style="bold"))
    console.print()
    console.print(Text(text))
    for way in result.directions:
        console.print()
        size = way.diameter
        exact = "" if size.exact else f", at most {size.upper:.3g}"
        title = f"{shown[way.source]} → {shown[way.target]}, {way.coordinates} "
        title += f"coordinates (diameter {size.value:.3g}, of {size.quantile:.0%} of the pairs; "
        console.print(Text(f"{title}largest {size.max:.3g}{exact})"))
        print_table(console, _table(way, console.width))
        console.print(Text(_gained(way)))
    console.print()
    for side in result.sides:
        state = "converged" if side.converged else f"not converged (gradient {side.gradient:.0e})"
        others = ", ".join(f"{count} {why}" for why, count in side.why_not.items())
        console.print(
            Text(
                f"ICA of {shown[side.name]}: {side.components} components with "
                f"{side.variance:.0%} of the variance, {state}, {side.identified} identified"
                f"{f' (not: {others})' if others else ''}."
            )
        )
    console.print(Text(f"! {LARGEST}"))


def _table(way: Direction, width: int) -> Table:
    from identikit.report.numbers import number, with_interval
    from identikit.report.terminal import named_table

    rows = []
    for error in way.errors:
        mean, low, high = with_interval(error.mean, error.mean_interval)
        others = (error.median, error.q95, error.largest, error.chance, error.held_out)
        spread = mean if mean == high else f"{mean} ({low}–{high})"
        rows.append([spread, *map(number, others)])
    titles = ("mean (95 %)", "median", "95 %", "largest", "mean by\nchance", "ladder's\nerror")
    return named_table(
        ("rung",),
        [(error.group,) for error in way.errors],
        titles,
        rows,
        right=range(1, 6),
        width=width,
        spare=[(1,), (2,), (3,)],
    )


def _gained(way: Direction) -> str:
    from identikit.report.numbers import number

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
