"""`identikit audit`: compare every pair of views."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from identikit.cli import _options as options
from identikit.cli._output import calm_warnings, deliver, exit_above, exit_failed
from identikit.cli._progress import progress_bar

if TYPE_CHECKING:
    from identikit.auditing._result import Pair

EXAMPLE = "identikit audit run1.npy run2.npy run3.npy --report audit.html --fail-above 0.1"


def command(
    views: Annotated[
        list[str],
        typer.Argument(
            metavar="VIEW",
            help="Two or more files of the same rows: .npy, .npz::name, .safetensors::name, .pt, "
            ".parquet::column, .arrow, .h5::dataset, .zarr::array, or folders of such files as "
            "shards. Or one .moments file.",
        ),
    ],
    groups: options.GroupsOrDuplicates = None,
    names: options.Names = None,
    id_column: options.Id = None,
    ids: options.Ids = None,
    folds: options.Folds = 5,
    tolerance: Annotated[
        float, typer.Option(help="The largest error that counts as the same.")
    ] = 0.1,
    fail_above: Annotated[
        float | None,
        typer.Option(
            metavar="ERROR",
            help="Exit with 1 if a pair's error is larger, with all rows or without a few that "
            "decide, or if a pair is unrelated.",
        ),
    ] = None,
    ica: Annotated[
        bool, typer.Option("--ica", help="Also match the axes that ICA finds in each view alone.")
    ] = False,
    drop_nonfinite: options.DropNonfinite = False,
    seed: Annotated[int, typer.Option(help="Of the row sample that a few measures use.")] = 0,
    memory: options.Memory = None,
    engine: options.Engine = None,
    scheduler: options.Scheduler = None,
    workers: options.Workers = None,
    save_moments: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.moments", help="Keep the statistics, and while reading what there is."
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from what --save-moments has kept.")
    ] = False,
    report: options.Report = None,
    output: options.Output = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Compare every pair of views and say what they are the same up to."""
    from identikit.auditing import audit
    from identikit.moments import DUPLICATES
    from identikit.report import print_audit

    inputs = [*views, None if groups == DUPLICATES else groups, *(ids or ())]
    options.check_limit(fail_above, "an error")
    options.check_targets(output, report, inputs)
    if save_moments is not None:
        from identikit.moments import check_suffix

        check_suffix(save_moments)
        options.check_target(save_moments, inputs, overwrite=True)
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
    deliver(result, print_audit, output=output, report=report, json=json, quiet=quiet)
    if fail_above is not None:
        _judge([pair for pair in result.comparisons if pair.exceeds(fail_above)], fail_above, quiet)


def _judge(exceeding: Sequence[Pair], limit: float, quiet: bool) -> None:
    """Exit with 1 if there are pairs above the limit, and say why."""
    if not exceeding:
        return
    worst = max(exceeding, key=lambda pair: pair.error)
    exit_above(limit, worst.error, "error", f"between {worst.a!r} and {worst.b!r}", quiet=quiet)
    # The error is small, but that is not all there is to say.
    few = worst.influence
    if few is None:
        words = f"{worst.a!r} and {worst.b!r} are unrelated, which is above any limit"
    else:
        without = few.error_without
        words = (
            f"the error between {worst.a!r} and {worst.b!r}, {worst.error:.3g}, is decided by "
            f"{few.rows} of the rows; without {'it' if few.rows == 1 else 'them'} the error "
            f"{'cannot be told' if without is None else f'is {without:.3g}'}, and {limit:g} is "
            "the limit"
        )
    exit_failed(words, quiet=quiet)
