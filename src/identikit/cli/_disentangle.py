"""`identikit disentangle`: codes against known factors."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from identikit.cli import _shared as shared
from identikit.errors import InputError

EXAMPLE = "identikit disentangle codes.npy factors.csv --discrete shape --report codes.html"


def _list(asked: bool) -> None:
    """Print every metric's name and question, and stop."""
    if not asked:
        return
    from identikit.factors import listed

    for each in listed():
        typer.echo(f"{each.name:17} {each.question}{' Only by name.' if each.by_name else ''}")
    raise typer.Exit


def command(
    codes: str,
    factors: str,
    factor_names: list[str] | None = None,
    discrete: list[str] | None = None,
    continuous: list[str] | None = None,
    metrics: list[str] | None = None,
    _listed: Annotated[
        bool,
        typer.Option(
            "--list-metrics",
            is_eager=True,
            callback=_list,
            help="List the metrics and what each of them asks, and stop.",
        ),
    ] = False,
    preset: str | None = None,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    report: Path | None = None,
    output: Path | None = None,
    json: bool = False,
    quiet: bool = False,
) -> None:
    """Score codes against known factors by every metric, each with its chance level.

    CODES : The codes, a row for each sample: any file that identikit audit reads.
    FACTORS : The factors, in the same order of rows: .npy, .npz (path::name), .csv, .tsv or
        .parquet.
    --factor-names A,B,... : The names of the factors. Of a table, these are the columns to use.
    --discrete A,B,... : The factors that are classes, whatever their values are.
    --continuous A,B,... : The factors that are quantities, whatever their values are.
    --metrics A,B,... : The metrics to compute, by their names in --list-metrics. By default these
        are all that are not marked there.
    --preset reference : Score as the field's own implementations do, mostly in sample. By default
        scores are held out.
    --seed : The seed of folds, permutations and draws.
    """
    from identikit.factors import disentangle

    shared.check_targets(output, report, [codes, factors])
    kinds = dict.fromkeys(_names(discrete), "discrete")
    for name in _names(continuous):
        if name in kinds:
            raise InputError(f"factor {name!r} is in both --discrete and --continuous; choose one")
        kinds[name] = "continuous"
    with shared.progress_bar(quiet) as progress:
        result = disentangle(
            codes,
            factors,
            names=_names(factor_names) or None,
            kinds=kinds,
            metrics=_names(metrics) or None,
            seed=seed,
            preset=preset,
            progress=progress,
        )
    shared.deliver(result, output=output, report=report, json=json, quiet=quiet)


def _names(given: list[str] | None) -> list[str]:
    return shared.split_names(given) or []
