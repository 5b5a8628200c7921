"""`identikit models`: compare softmax models as what they are."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from identikit.cli import _options as options
from identikit.cli._progress import progress_bar
from identikit.errors import InputError

EXAMPLE = "identikit models run1.npz run2.npz --report models.html --fail-above 0.1"


def command(
    models: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL",
            help="Two or more .npz or .safetensors files with arrays f and g (maybe bias and "
            "candidates), or log_prob, of the same inputs and labels.",
        ),
    ],
    groups: options.Groups = None,
    names: Annotated[
        list[str] | None,
        typer.Option(
            metavar="A,B,...", help="Names of the models; repeat it if a name has a comma."
        ),
    ] = None,
    tolerance: Annotated[
        float, typer.Option(help="The largest relative logit gap and κ that count as the same.")
    ] = 0.1,
    fail_above: Annotated[
        float | None,
        typer.Option(metavar="GAP", help="Exit with 1 if any relative logit gap is larger."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the inputs that d_LLV chooses from.")] = 0,
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
    """Compare models f(x)ᵀg(y): the same distribution, the same embedding, or neither."""
    from identikit.auditing._models import audit_models
    from identikit.family import SoftmaxModel
    from identikit.report._models_table import print_models
    from identikit.sources import read_labels

    if fail_above is not None and not fail_above >= 0:
        raise InputError(f"--fail-above is {fail_above}; expected a logit gap, 0 or larger")
    inputs = [*models, *([] if groups is None else [groups])]
    for target in (report, output):
        options.check_target(target, inputs, overwrite=True)
    if report is not None and output is not None and report.absolute() == output.absolute():
        raise InputError(f"--report and --output are both {report}; give them different names")
    given = options.split_names(names)
    if given is not None and len(given) != len(models):
        raise InputError(f"expected {len(models)} names, one a model, got {given!r}")
    with progress_bar(quiet) as progress:
        loaded = []
        for place, path in enumerate(models):
            progress("reading", place, len(models))
            loaded.append(SoftmaxModel.load(path, None if given is None else given[place]))
        result = audit_models(
            loaded,
            tolerance=tolerance,
            seed=seed,
            progress=progress,
            groups=None if groups is None else read_labels(groups),
        )
    # Printed before anything is written: a full disk shall not cost the result.
    if json:
        sys.stdout.write(result.to_json())
    else:
        print_models(result, options.console())
    if output is not None:
        result.save(output)
    if report is not None:
        result.report(report)
    if not quiet:
        for target in (output, report):
            if target is not None:
                typer.echo(f"wrote {target}", err=True)
    worst = result.worst
    if fail_above is not None and worst.gauge.logit_gap > fail_above:
        if not quiet:
            typer.echo(
                f"identikit: the largest relative logit gap, {worst.gauge.logit_gap:.3g} (between "
                f"{worst.a!r} and {worst.b!r}), is above {fail_above:g}",
                err=True,
            )
        raise typer.Exit(1)
