"""`identikit align`: fit a map from one view's space to another's."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from identikit.cli import _options as options
from identikit.cli._output import print_json
from identikit.cli._progress import progress_bar

EXAMPLE = "identikit align old.npy new.npy --group rigid -o map.safetensors"


def command(
    source: Annotated[str, typer.Argument(metavar="A", help="The view to map from.")],
    target: Annotated[str, typer.Argument(metavar="B", help="The view to map to; same rows.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE.safetensors", help="Save the map here.")
    ],
    group: Annotated[
        str,
        typer.Option(help="identity, permutation, monomial, rigid, similarity, linear or affine."),
    ] = "affine",
    groups: options.Groups = None,
    names: options.Names = None,
    folds: options.Folds = 5,
    drop_nonfinite: options.DropNonfinite = False,
    force: options.Force = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Fit the best map of a group from A's space to B's."""
    from identikit import __version__
    from identikit.alignment import align

    options.check_target(output, [source, target, groups], overwrite=force)
    with progress_bar(quiet) as progress:
        fitted = align(
            source,
            target,
            group,
            folds=folds,
            groups=options.read_groups(groups),
            names=options.split_names(names),
            drop_nonfinite=drop_nonfinite,
            progress=lambda done, rows: progress("reading", done, rows),
        )
    fitted.save(output, overwrite=force)
    widths = fitted.weights_.shape
    if json:
        document = {
            "identikit": __version__,
            "group": fitted.group,
            "error": fitted.error,
            "source": {"name": fitted.source_, "dims": widths[0]},
            "target": {"name": fitted.target_, "dims": widths[1]},
            "map": str(output),
        }
        print_json(document)
        return
    typer.echo(
        f"The best {fitted.group} map from {fitted.source_} ({widths[0]} columns) to "
        f"{fitted.target_} ({widths[1]} columns)\nhas a held-out error of {fitted.error:.3g} "
        "(0 is exact, 1 is no better than the mean)."
    )
    if not quiet:
        apply = shlex.join(["identikit", "apply", str(output), source, "-o", "mapped.npy"])
        typer.echo(f"wrote {output}; to use it:\n  {apply}", err=True)
