"""`identikit audit`: compare every pair of views."""

from __future__ import annotations

from typing import Annotated

import typer

from identikit.cli import _options as options
from identikit.cli._output import deliver, exit_above
from identikit.cli._progress import progress_bar

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
    report: options.Report = None,
    output: options.Output = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Compare every pair of views and say what they are the same up to."""
    from identikit.auditing import audit
    from identikit.report import print_audit

    options.check_limit(fail_above, "an error")
    options.check_targets(output, report, [*views, groups])
    with progress_bar(quiet) as progress:
        result = audit(
            views,
            names=options.split_names(names),
            folds=folds,
            groups=options.read_groups(groups),
            tolerance=tolerance,
            seed=seed,
            drop_nonfinite=drop_nonfinite,
            memory=options.parse_size(memory),
            progress=progress,
        )
    deliver(result, print_audit, output=output, report=report, json=json, quiet=quiet)
    worst = result.verdict
    between = f"between {worst.a!r} and {worst.b!r}"
    exit_above(fail_above, worst.error, "error", between, quiet=quiet)
