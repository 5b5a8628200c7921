"""`identikit moments`: the statistics of some rows as a file, to be merged and audited later."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from identikit._text import plain
from identikit.cli import _shared as shared
from identikit.errors import InputError

if TYPE_CHECKING:
    from identikit.moments import Moments

EXAMPLE = "identikit moments run1.npy run2.npy -o part1.moments"


def command(
    views: list[str],
    output: Path,
    groups: str | None = None,
    names: list[str] | None = None,
    folds: int = 5,
    drop_nonfinite: bool = False,
    seed: int = 0,
    no_sample: bool = False,
    memory: str | None = None,
    engine: str | None = None,
    scheduler: str | None = None,
    workers: Annotated[int | None, typer.Option(min=1)] = None,
    resume: bool = False,
    force: bool = False,
    json: bool = False,
    quiet: bool = False,
) -> None:
    """Save the statistics of views, from which `identikit audit` tells the same as from the rows.

    Files of different rows of the same views are merged with `identikit merge`; a group of rows
    must lie in one of them. A file also holds a sample of up to 1000 rows, and up to 64 of the
    largest of each view, as they are: where rows may not be shared, leave them out with
    --no-sample, and what needs rows is absent.
    Statistics of very few rows still tell of them: those of a fold of one row are that row.

    VIEW : Two or more files that have the same rows, as identikit audit takes them.
    --output, -o FILE.moments : Where to save the statistics.
    --groups FILE : A file with a label for each row: .npy, .txt, or a column of a table
        (table.parquet::donor, cells.csv::donor, x.h5ad::obs/donor). Rows with the same label belong
        together and share a fold. With the word duplicates instead, rows that are equal in all
        views do.
    --no-sample : Keep only statistics in the file, and no rows.
    --resume : Continue from FILE.moments.partial, which an interrupted reading has left.
    """
    from identikit.moments import (
        DUPLICATES,
        SAMPLE,
        assign_folds,
        check_memory,
        check_suffix,
        duplicate_groups,
        read_and_save,
    )
    from identikit.sources import open_sources

    check_suffix(output)
    same = groups == DUPLICATES
    shared.check_target(output, [*views, None if same else groups], overwrite=force)
    if len(views) < 2:
        raise InputError("moments are for comparing views: give at least two")
    sources = open_sources(views, shared.split_names(names))
    try:
        check_memory([source.width for source in sources], folds, shared.parse_size(memory))
        labels = duplicate_groups(sources) if same else shared.read_groups(groups)
        with (
            shared.chosen_engine(engine, scheduler, workers) as ready,
            shared.progress_bar(quiet) as progress,
        ):
            moments = read_and_save(
                sources,
                assign_folds(sources[0].rows, folds, labels, seed),
                output,
                resume=resume,
                overwrite=force,
                seed=seed,
                sample=0 if no_sample else SAMPLE,
                drop_nonfinite=drop_nonfinite,
                progress=progress,
                engine=ready,
            )
    finally:
        for source in sources:
            source.close()
    if json:
        shared.print_json(summary(moments, output))
        return
    typer.echo(in_words(moments))
    if not quiet:
        say_written(output)


def summary(moments: Moments, path: Path) -> dict[str, Any]:
    """What a moments file holds, as a JSON document."""
    from identikit import __version__
    from identikit.moments import FOLD_RULES

    return {
        "identikit": __version__,
        "moments": str(path),
        "rows": moments.rows,
        "dropped": moments.dropped,
        "folds": moments.folds,
        "fold_rule": FOLD_RULES[moments.rule],
        "seed": moments.seed,
        "sample": len(moments.sample.keys),
        "views": [{"name": n, "dims": w} for n, w in zip(moments.names, moments.widths)],
        "shards": [{"rows": s.rows, "digests": list(s.digests)} for s in moments.shards],
    }


def in_words(moments: Moments) -> str:
    views = ", ".join(f"{plain(n)} ({w} columns)" for n, w in zip(moments.names, moments.widths))
    left_out = f", {moments.dropped} rows left out" if moments.dropped else ""
    sample = len(moments.sample.keys)
    return (
        f"Statistics of {moments.rows} rows in {moments.folds} folds{left_out}, and "
        f"{f'a sample of {sample} rows' if sample else 'no sample of rows'}.\nViews: {views}."
    )


def say_written(path: Path) -> None:
    """Say where the file is, and what it is good for."""
    audit = shlex.join(["identikit", "audit", str(path)])
    typer.echo(f"wrote {plain(path)}; to use it:\n  {plain(audit)}", err=True)
