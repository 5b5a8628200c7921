"""`identikit layers`: which layer of one model is most like which of another."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from identikit.cli import _shared as shared

EXAMPLE = "identikit layers model_a/ model_b/ --measure cka --report layers.html"


def command(
    a: str,
    b: str,
    measure: str = "cka",
    groups: str | None = None,
    folds: int = 5,
    drop_nonfinite: bool = False,
    seed: int = 0,
    memory: str | None = None,
    engine: str | None = None,
    scheduler: str | None = None,
    workers: Annotated[int | None, typer.Option(min=1)] = None,
    report: Path | None = None,
    output: Path | None = None,
    json: bool = False,
    quiet: bool = False,
) -> None:
    """Compare every layer of A with every layer of B, and say which matches are beyond chance.

    A : A folder with a file for each layer.
    B : Such a folder of another model, for the same rows.
    --measure : The measure to compare by, such as cka, cca or mutual_knn.
    """
    from identikit.auditing import layers

    shared.check_targets(output, report, [groups])
    with (
        shared.chosen_engine(engine, scheduler, workers) as ready,
        shared.progress_bar(quiet) as progress,
    ):
        found = layers(
            a,
            b,
            measure=measure,
            folds=folds,
            groups=shared.read_groups(groups),
            seed=seed,
            drop_nonfinite=drop_nonfinite,
            memory=shared.parse_size(memory),
            engine=ready,
            progress=progress,
        )
    shared.deliver(found, output=output, report=report, json=json, quiet=quiet)
