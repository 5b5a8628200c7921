"""`identikit layers`: which layer of one model is most like which of another."""

from __future__ import annotations

from typing import Annotated

import typer

from identikit.cli import _options as options
from identikit.cli._output import deliver
from identikit.cli._progress import progress_bar

EXAMPLE = "identikit layers model_a/ model_b/ --measure cka --report layers.html"


def command(
    a: Annotated[str, typer.Argument(metavar="A", help="A folder with a file for each layer.")],
    b: Annotated[
        str, typer.Argument(metavar="B", help="Such a folder of another model, for the same rows.")
    ],
    measure: Annotated[
        str, typer.Option(help="The measure to compare by, such as cka, cca or mutual_knn.")
    ] = "cka",
    groups: options.Groups = None,
    folds: options.Folds = 5,
    drop_nonfinite: options.DropNonfinite = False,
    seed: options.Seed = 0,
    memory: options.Memory = None,
    engine: options.Engine = None,
    scheduler: options.Scheduler = None,
    workers: options.Workers = None,
    report: options.Report = None,
    output: options.Output = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Compare every layer of A with every layer of B, and say which matches are beyond chance."""
    from identikit.auditing import layers

    options.check_targets(output, report, [groups])
    with (
        options.chosen_engine(engine, scheduler, workers) as ready,
        progress_bar(quiet) as progress,
    ):
        found = layers(
            a,
            b,
            measure=measure,
            folds=folds,
            groups=options.read_groups(groups),
            seed=seed,
            drop_nonfinite=drop_nonfinite,
            memory=options.parse_size(memory),
            engine=ready,
            progress=progress,
        )
    deliver(found, output=output, report=report, json=json, quiet=quiet)
