"""`identikit disentangle`: codes against known factors."""

from __future__ import annotations

from typing import Annotated

import typer

from identikit.cli import _options as options
from identikit.cli._output import deliver
from identikit.cli._progress import progress_bar
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
    codes: Annotated[
        str,
        typer.Argument(
            metavar="CODES", help="The codes, n × L: any file that audit reads, or path::name."
        ),
    ],
    factors: Annotated[
        str,
        typer.Argument(
            metavar="FACTORS",
            help="The factors, n × K, in the same order of rows: .npy, .npz (path::name), .csv, "
            ".tsv or .parquet.",
        ),
    ],
    factor_names: Annotated[
        list[str] | None,
        typer.Option(
            metavar="A,B,...", help="Names of the factors; of a table, the columns to use."
        ),
    ] = None,
    discrete: Annotated[
        list[str] | None,
        typer.Option(metavar="A,B,...", help="Factors that are classes, whatever their values."),
    ] = None,
    continuous: Annotated[
        list[str] | None,
        typer.Option(metavar="A,B,...", help="Factors that are quantities, whatever their values."),
    ] = None,
    metrics: Annotated[
        list[str] | None,
        typer.Option(
            metavar="A,B,...",
            help="Metrics to compute, by their names in --list-metrics; by default all that are "
            "not marked there.",
        ),
    ] = None,
    _listed: Annotated[
        bool,
        typer.Option("--list-metrics", is_eager=True, callback=_list, help="Say what each asks."),
    ] = False,
    preset: Annotated[
        str | None,
        typer.Option(
            metavar="reference",
            help="As the field's own implementations score, mostly in sample; held out otherwise.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of folds, permutations and draws.")] = 0,
    report: options.Report = None,
    output: options.Output = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Score codes against known factors by every metric, each with its chance level."""
    from identikit.factors import disentangle

    options.check_targets(output, report, [codes, factors])
    kinds = dict.fromkeys(_names(discrete), "discrete")
    for name in _names(continuous):
        if name in kinds:
            raise InputError(f"factor {name!r} is in both --discrete and --continuous; choose one")
        kinds[name] = "continuous"
    with progress_bar(quiet) as progress:
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
    deliver(result, output=output, report=report, json=json, quiet=quiet)


def _names(given: list[str] | None) -> list[str]:
    return options.split_names(given) or []
