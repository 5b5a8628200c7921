"""`identikit audit`: compare every pair of views."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from identikit.cli import _shared as shared
from identikit.cli._gate import Gate
from identikit.errors import InputError

EXAMPLE = "identikit audit run1.npy run2.npy run3.npy --report audit.html --fail-above 0.1"


def command(
    views: list[str],
    groups: str | None = None,
    names: list[str] | None = None,
    id_: str | None = None,
    ids: list[str] | None = None,
    by: str | None = None,
    anchors: str | None = None,
    batches: list[str] | None = None,
    folds: int = 5,
    tolerance: float = 0.1,
    fail_above: float | None = None,
    require: str | None = None,
    strict: bool = False,
    direction: str | None = None,
    ica: bool = False,
    drop_nonfinite: bool = False,
    seed: int = 0,
    memory: str | None = None,
    engine: str | None = None,
    scheduler: str | None = None,
    workers: Annotated[int | None, typer.Option(min=1)] = None,
    save_moments: Path | None = None,
    resume: bool = False,
    report: Path | None = None,
    output: Path | None = None,
    json: bool = False,
    quiet: bool = False,
) -> None:
    """Compare every pair of views and say what they are the same up to.

    VIEW : Two or more files that have the same rows: .npy, .npz::name, .safetensors::name, .pt,
        .parquet::column, .csv, .tsv, .jsonl::field, .h5ad::obsm/X_pca, .arrow, .h5::dataset or
        .zarr::array. A folder of such files is read as one view in shards. A single .moments file
        is also accepted, and with --by a single table.
    --groups FILE : A file with a label for each row: .npy, .txt, or a column of a table
        (table.parquet::donor, cells.csv::donor, x.h5ad::obs/donor). Rows with the same label belong
        together and share a fold. With the word duplicates instead, rows that are equal in all
        views do.
    --by COLUMN : Compare the batches that this column of one table names, on the units that they
        share. It needs --anchors, and --id names the column of the unit.
    --anchors COLUMN : The rows that maps between batches are fitted on (with --by). This is a
        column that is true for controls, or one that names the unit of every control and is empty
        elsewhere.
    --batches A,B,... : The batches to compare (with --by). By default all are.
    --fail-above ERROR : Exit with 1 if the error of a pair is larger than this, with all rows or
        without a few that decide it, or if a pair is unrelated.
    --require RUNG : Exit with 1 unless every pair is the same up to this rung, such as rigid, or up
        to a stricter one. Where the rows do not tell rungs apart, all of them must be.
    --strict : Let --fail-above judge the upper end of the interval instead of the error.
    --direction A:B : Judge only one pair, and of it only the error of mapping A to B.
    --ica : Also match the axes that ICA finds in each view on its own.
    --save-moments FILE.moments : Where to keep the statistics, and what has been read so far while
        reading.
    --resume : Continue from what an earlier --save-moments has kept.
    """
    from identikit.auditing import Audit, BatchAudit, audit, audit_batches
    from identikit.moments import DUPLICATES

    inputs = [*views, None if groups == DUPLICATES else groups, *(ids or ())]
    gate = Gate(fail_above, require, strict, direction)
    shared.check_targets(output, report, inputs)
    if save_moments is not None:
        from identikit.moments import check_suffix

        check_suffix(save_moments)
        shared.check_target(save_moments, inputs, overwrite=True)
    batched = by is not None or anchors is not None or bool(batches)
    if batched:
        alone: dict[str, object] = {"--ids": ids, "--names": names, "--ica": ica}
        alone |= {"--save-moments": save_moments}
        alone |= {"--resume": resume, "--engine": engine, "--scheduler": scheduler}
        alone |= {"--workers": workers, "--memory": memory}
        _check_batches(views, by, anchors, alone)
    found: BatchAudit | Audit
    with (
        shared.calm_warnings(quiet),
        shared.chosen_engine(engine, scheduler, workers) as ready,
        shared.progress_bar(quiet) as progress,
    ):
        common: dict[str, Any] = {
            "groups": groups if groups == DUPLICATES else shared.read_groups(groups),
            "folds": folds,
            "tolerance": tolerance,
            "seed": seed,
            "drop_nonfinite": drop_nonfinite,
            "progress": progress,
        }
        if batched:
            wanted = shared.split_names(batches)
            found = audit_batches(
                views[0], str(by), str(anchors), ids=id_, batches=wanted, **common
            )
        else:
            found = audit(
                views,
                names=shared.split_names(names),
                ids=shared.choose_ids(id_, ids),
                ica=ica,
                memory=shared.parse_size(memory),
                engine=ready,
                save_moments=save_moments,
                resume=resume,
                **common,
            )
    judged = gate.pairs(found.audit if isinstance(found, BatchAudit) else found)
    shared.deliver(found, output=output, report=report, json=json, quiet=quiet)
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
