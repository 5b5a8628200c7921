"""`identikit audit`: compare every pair of views."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from identikit.cli import _options as options
from identikit.cli._gate import Direction, FailAbove, Gate, Require, Strict
from identikit.cli._output import calm_warnings, deliver
from identikit.cli._progress import progress_bar
from identikit.errors import InputError

EXAMPLE = "identikit audit run1.npy run2.npy run3.npy --report audit.html --fail-above 0.1"


def command(
    views: Annotated[
        list[str],
        typer.Argument(
            metavar="VIEW",
            help="Two or more files that have the same rows: .npy, .npz::name, .safetensors::name, "
            ".pt, .parquet::column, .csv, .tsv, .jsonl::field, .h5ad::obsm/X_pca, .arrow, "
            ".h5::dataset or .zarr::array. A folder of such files is read as one view in shards. "
            "A single .moments file is also accepted, and with --by a single table.",
        ),
    ],
    groups: options.GroupsOrDuplicates = None,
    names: options.Names = None,
    id_column: options.Id = None,
    ids: options.Ids = None,
    by: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Compare the batches that this column of one table names, on the units that they "
            "share. It needs --anchors, and --id names the column of the unit.",
        ),
    ] = None,
    anchors: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="The rows that maps between batches are fitted on (with --by). This is a column "
            "that is true for controls, or one that names the unit of every control and is empty "
            "elsewhere.",
        ),
    ] = None,
    batches: Annotated[
        list[str] | None,
        typer.Option(
            metavar="A,B,...", help="The batches to compare (with --by). By default all are."
        ),
    ] = None,
    folds: options.Folds = 5,
    tolerance: options.Tolerance = 0.1,
    fail_above: FailAbove = None,
    require: Require = None,
    strict: Strict = False,
    direction: Direction = None,
    ica: Annotated[
        bool,
        typer.Option("--ica", help="Also match the axes that ICA finds in each view on its own."),
    ] = False,
    drop_nonfinite: options.DropNonfinite = False,
    seed: options.Seed = 0,
    memory: options.Memory = None,
    engine: options.Engine = None,
    scheduler: options.Scheduler = None,
    workers: options.Workers = None,
    save_moments: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.moments",
            help="Where to keep the statistics, and what has been read so far while reading.",
        ),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Continue from what an earlier --save-moments has kept."),
    ] = False,
    report: options.Report = None,
    output: options.Output = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Compare every pair of views and say what they are the same up to."""
    from identikit.auditing import audit, audit_batches
    from identikit.moments import DUPLICATES

    inputs = [*views, None if groups == DUPLICATES else groups, *(ids or ())]
    gate = Gate(fail_above, require, strict, direction)
    options.check_targets(output, report, inputs)
    if save_moments is not None:
        from identikit.moments import check_suffix

        check_suffix(save_moments)
        options.check_target(save_moments, inputs, overwrite=True)
    if by is not None or anchors is not None or batches:
        alone: dict[str, object] = {"--ids": ids, "--names": names, "--ica": ica}
        alone |= {"--save-moments": save_moments}
        alone |= {"--resume": resume, "--engine": engine, "--scheduler": scheduler}
        alone |= {"--workers": workers, "--memory": memory}
        _check_batches(views, by, anchors, alone)
        with calm_warnings(quiet), progress_bar(quiet) as progress:
            found = audit_batches(
                views[0],
                by or "",
                anchors or "",
                ids=id_column,
                groups=options.read_groups(groups),
                batches=options.split_names(batches),
                folds=folds,
                tolerance=tolerance,
                seed=seed,
                drop_nonfinite=drop_nonfinite,
                progress=progress,
            )
        judged = gate.pairs(found.audit)
        deliver(found, output=output, report=report, json=json, quiet=quiet)
        gate.judge(*judged, quiet=quiet)
        return
    with (
        calm_warnings(quiet),
        options.chosen_engine(engine, scheduler, workers) as ready,
        progress_bar(quiet) as progress,
    ):
        result = audit(
            views,
            names=options.split_names(names),
            folds=folds,
            groups=groups if groups == DUPLICATES else options.read_groups(groups),
            tolerance=tolerance,
            seed=seed,
            ids=options.choose_ids(id_column, ids),
            ica=ica,
            drop_nonfinite=drop_nonfinite,
            memory=options.parse_size(memory),
            engine=ready,
            save_moments=save_moments,
            resume=resume,
            progress=progress,
        )
    judged = gate.pairs(result)
    deliver(result, output=output, report=report, json=json, quiet=quiet)
    gate.judge(*judged, quiet=quiet)


def _check_batches(
    views: Sequence[str], by: str | None, anchors: str | None, alone: dict[str, object]
) -> None:
    """Refuse options that say nothing of batches, or too little."""
    if by is None or anchors is None:
        raise InputError(
            "to compare batches, give both --by (the column of the batch) and --anchors (the "
            "column of the controls)"
        )
    if len(views) != 1:
        raise InputError(f"--by compares the batches of one table, and there are {len(views)}")
    wrong = next((name for name, value in alone.items() if value), None)
    if wrong is not None:
        raise InputError(f"{wrong} is for views, not for batches of one table (--by); leave it out")
