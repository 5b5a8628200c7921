"""`identikit align`: fit a map from one view's space to another's."""

from __future__ import annotations

import shlex
from pathlib import Path

import typer

from identikit._text import plain
from identikit.cli import _shared as shared
from identikit.errors import InputError

EXAMPLE = "identikit align old.npy new.npy --group rigid -o map.safetensors"


def command(
    source: str,
    target: str,
    output: Path,
    group: str = "affine",
    ridge: str = "auto",
    groups: str | None = None,
    id_: str | None = None,
    ids: list[str] | None = None,
    names: list[str] | None = None,
    folds: int = 5,
    drop_nonfinite: bool = False,
    force: bool = False,
    json: bool = False,
    quiet: bool = False,
) -> None:
    """Fit the best map of a rung from A's space to B's.

    A : The view to map from.
    B : The view to map to. It has the same rows.
    --output, -o FILE.safetensors : Where to save the map.
    --group RUNG : The rung of the ladder that the map is of: identity, permutation, monomial,
        rigid, similarity, linear or affine.
    --ridge : The strength of the ridge of a linear or affine map, as a share of the source's mean
        eigenvalue. auto chooses it from the data, and none leaves it out.
    """
    from identikit import __version__
    from identikit.alignment import align
    from identikit.sources import BY_POSITION

    _check_suffix(output)
    shared.check_target(output, [source, target, groups, *(ids or ())], overwrite=force)
    with shared.progress_bar(quiet) as progress:
        fitted = align(
            source,
            target,
            group=group,
            folds=folds,
            groups=shared.read_groups(groups),
            ridge=_ridge(ridge),
            names=shared.split_names(names),
            ids=shared.choose_ids(id_, ids),
            drop_nonfinite=drop_nonfinite,
            progress=progress,
        )
    fitted.save(output, overwrite=force)
    widths = fitted.weights_.shape
    if json:
        document = {
            "identikit": __version__,
            "group": fitted.group,
            "error": fitted.error,
            "interval": None if fitted.interval is None else list(fitted.interval),
            "held_out": fitted.held_out,
            "ridge": fitted.strength_,
            "source": {"name": fitted.source_, "dims": widths[0]},
            "target": {"name": fitted.target_, "dims": widths[1]},
            "pairing": fitted.pairing_,
            "map": str(output),
        }
        shared.print_json(document)
        return
    low, high = fitted.interval or (0.0, 0.0)
    typer.echo(
        f"The best {fitted.group} map from {plain(fitted.source_)} ({widths[0]} columns) to "
        f"{plain(fitted.target_)} ({widths[1]} columns)\nhas an error of "
        f"{fitted.error:.3g} on new rows "
        f"(95% interval {low:.3g} to {high:.3g};\n0 is exact, 1 is no better than the mean). "
        f"Maps fitted without a fold of the rows: {fitted.held_out:.3g}."
    )
    if fitted.pairing_ != BY_POSITION:
        typer.echo(f"{fitted.pairing_[:1].upper()}{fitted.pairing_[1:]}.")
    if fitted.strength_:
        typer.echo(f"As rows are few for the columns, it has a ridge of {fitted.strength_:.3g}.")
    if not quiet:
        table = "parquet" if ".parquet" in source else "npy"
        apply = shlex.join(["identikit", "apply", str(output), source, "-o", f"mapped.{table}"])
        typer.echo(f"wrote {plain(output)}; to use it:\n  {plain(apply)}", err=True)


def _check_suffix(output: Path) -> None:
    """Refuse a name that says that the file is something else than it will be."""
    from identikit.sources.registry import openers

    if output.suffix.lower() in openers().keys() - {".safetensors"}:
        raise InputError(
            f"a map is written as .safetensors, but the output is {output}; give a name that ends "
            f"in .safetensors, for example {output.with_suffix('.safetensors')}"
        )


def _ridge(text: str) -> float | str | None:
    if text in ("auto", "none"):
        return "auto" if text == "auto" else None
    try:
        return float(text)
    except ValueError:
        return text  # `align` says what is wrong with it
