"""`identikit check`: compare new vectors with pinned ones."""

from __future__ import annotations

from pathlib import Path

import typer

from identikit._text import plain
from identikit.cli import _shared as shared
from identikit.errors import InputError

EXAMPLE = "identikit check vectors.parquet --reference ref.pin --id doc_id --fail-above 0.05"


def command(
    new: str,
    reference: Path,
    id_: str | None = None,
    ids: Path | None = None,
    require: str = "identity",
    fail_above: float = 0.1,
    strict: bool = False,
    rows: bool = False,
    false_alarms: float | None = None,
    slice_: str | None = None,
    summary: Path | None = None,
    report: Path | None = None,
    output: Path | None = None,
    json: bool = False,
    quiet: bool = False,
) -> None:
    """Say whether vectors have changed since they were pinned, and why; exit with 1 if they have.

    NEW : The new vectors, or the index: the same kind of view that was pinned.
    --reference FILE.pin : The pin to compare with, made by identikit pin.
    --id COLUMN : The column or array that holds an id for each row. Without ids, row t must be the
        row t that was pinned.
    --ids FILE : Ids that are in a file of their own.
    --require RUNG : The rung up to which vectors must be the same. identity is coordinate by
        coordinate; rigid lets a rotation pass.
    --fail-above ERROR : Exit with 1 if the error of that rung is larger than this, or if some rows
        have changed and others have not.
    --strict : Judge the upper end of the error's interval instead of the error.
    --rows : Also look for rows that come from another model, among all rows. Exit with 1 if there
        are more than false alarms explain.
    --false-alarms : The share of the pinned model's own rows that may be flagged (with --rows), by
        default 0.01.
    --slice COLUMN : Give the share of foreign rows for each value of this column too, or of a file
        with a label for each row (with --rows).
    --summary FILE.md : Where to append the result as Markdown, such as $GITHUB_STEP_SUMMARY.
    """
    from identikit.retrieval import check

    if id_ is not None and ids is not None:
        raise InputError("--id and --ids both say what the ids are; give one of them")
    shared.check_limit(fail_above, "an error")
    inputs = [new, str(reference), None if ids is None else str(ids)]
    shared.check_targets(output, report, inputs)
    shared.check_target(summary, inputs, overwrite=True)
    chosen: str | Path | None = slice_
    if slice_ is not None and ("::" in slice_ or Path(slice_).is_file()):
        chosen = Path(slice_)
    with shared.calm_warnings(quiet), shared.progress_bar(quiet) as progress:
        found = check(
            new,
            reference,
            ids=id_ if id_ is not None else ids,
            require=require,
            fail_above=fail_above,
            strict=strict,
            rows=rows,
            false_alarms=false_alarms,
            slices=chosen,
            progress=progress,
        )
    shared.deliver(found, output=output, report=report, json=json, quiet=quiet)
    if summary is not None:
        from identikit.report.words.check import markdown

        # Appended, as steps of a job share one file.
        with summary.open("a", encoding="utf-8") as file:
            file.write(markdown(found))
        if not quiet:
            typer.echo(f"added to {plain(summary)}", err=True)
    if not found:
        shared.exit_failed("; ".join(found.failures), quiet=quiet)
