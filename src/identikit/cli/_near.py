"""`identikit near`: distances between two views after the best map of each rung."""

from __future__ import annotations

from typing import Annotated

import typer

from identikit.cli import _options as options
from identikit.cli._output import deliver
from identikit.cli._progress import progress_bar

EXAMPLE = "identikit near run1.npy run2.npy --report near.html"


def command(
    a: Annotated[str, typer.Argument(metavar="A", help="The first view.")],
    b: Annotated[str, typer.Argument(metavar="B", help="Another view of the same rows.")],
    groups: options.Groups = None,
    names: options.Names = None,
    components: Annotated[
        int | None,
        typer.Option(
            help="How many components ICA looks for. By default as many as ranks and rows allow."
        ),
    ] = None,
    fit_share: Annotated[
        float,
        typer.Option(
            help="The share of the rows that maps are fitted on. With 1 they are scored in sample."
        ),
    ] = 0.5,
    max_rows: Annotated[
        int, typer.Option(help="If there are more rows than this, use a random sample of as many.")
    ] = 20_000,
    seed: Annotated[
        int, typer.Option(help="The seed of the sample, the split, ICA and the controls.")
    ] = 0,
    drop_nonfinite: options.DropNonfinite = False,
    report: options.Report = None,
    output: options.Output = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Say how far A and B are from each other after the best map of each rung, and after ICA."""
    from identikit.axes import near_identifiability

    options.check_targets(output, report, [a, b, groups])
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
    deliver(result, output=output, report=report, json=json, quiet=quiet)
