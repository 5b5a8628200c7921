"""`identikit audit`: compare every pair of views."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from identikit.cli import _options as options
from identikit.cli._progress import progress_bar
from identikit.errors import InputError

EXAMPLE = "identikit audit run1.npy run2.npy run3.npy --report audit.html --fail-above 0.1"


def command(
    views: Annotated[
        list[str],
        typer.Argument(
            metavar="VIEW",
            help="Two or more files of the same rows: .npy, .npz::name, .safetensors::name.",
        ),
    ],
    groups: options.Groups = None,
    names: options.Names = None,
    folds: options.Folds = 5,
    tolerance: Annotated[
        float, typer.Option(help="The largest error that counts as the same.")
    ] = 0.1,
    fail_above: Annotated[
        float | None,
        typer.Option(metavar="ERROR", help="Exit with 1 if the worst pair's error is larger."),
    ] = None,
    drop_nonfinite: options.DropNonfinite = False,
    seed: Annotated[int, typer.Option(help="Of the row sample that a few measures use.")] = 0,
    memory: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="What the statistics may take, such as 4GB."),
    ] = None,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE.html", help="Write a page with figures.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE.json", help="Save the JSON document."),
    ] = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Compare every pair of views and say what they are the same up to."""
    from identikit.auditing import audit
    from identikit.report import print_audit
    from identikit.sources import read_labels

    if fail_above is not None and not fail_above >= 0:
        raise InputError(f"--fail-above is {fail_above}; expected an error, 0 or larger")
    inputs = [*views, *([] if groups is None else [groups])]
    for target in (report, output):
        options.check_target(target, inputs, overwrite=True)
    if report is not None and output is not None and report.absolute() == output.absolute():
        raise InputError(f"--report and --output are both {report}; give them different names")
    with progress_bar(quiet) as progress:
        result = audit(
            views,
            names=options.split_names(names),
            folds=folds,
            groups=None if groups is None else read_labels(groups),
            tolerance=tolerance,
            seed=seed,
            drop_nonfinite=drop_nonfinite,
            memory=options.parse_size(memory),
            progress=progress,
        )
    there = [target for target in (output, report) if target is not None and target.exists()]
    # Printed before anything is written: a full disk shall not cost the result.
    if json:
        sys.stdout.write(result.to_json())
    else:
        print_audit(result, options.console())
    if output is not None:
        result.save(output)
    if report is not None:
        result.report(report)
    if not quiet:
        for target in (output, report):
            if target is not None:
                typer.echo(f"{'replaced' if target in there else 'wrote'} {target}", err=True)
    if fail_above is not None and result.verdict.error > fail_above:
        if not quiet:
            typer.echo(
                f"identikit: the largest error, {result.verdict.error:.3g} (between "
                f"{result.verdict.a!r} and {result.verdict.b!r}), is above {fail_above:g}",
                err=True,
            )
        raise typer.Exit(1)
