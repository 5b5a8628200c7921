"""What becomes of a verb's result: printed, saved, drawn, and judged by the exit code."""

from __future__ import annotations

import json as json_format
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from identikit._text import plain
from identikit.cli._options import console

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from identikit._result import Result

EXCEEDED = 1


def deliver(
    result: Result,
    *,
    output: Path | None,
    report: Path | None,
    json: bool,
    quiet: bool,
    drawings: Mapping[Path, Callable[[Path], None]] | None = None,
) -> None:
    """Print a result, write the files that were asked for, and say which unless `quiet`.

    `check_targets` has passed the paths. `drawings` are other files, with functions that write
    them.
    """
    from identikit.report import print_result

    writers: dict[Path, Callable[[Path], None]] = {}
    if output is not None:
        writers[output] = result.save
    if report is not None:
        writers[report] = result.report
    writers |= drawings or {}
    there = {target for target in writers if target.exists()}
    # Printed before anything is written: a full disk shall not cost the result.
    if json:
        sys.stdout.write(result.to_json())
    else:
        print_result(result, console())
    for target, write in writers.items():
        write(target)
        if not quiet:
            typer.echo(f"{'replaced' if target in there else 'wrote'} {plain(target)}", err=True)


def exit_above(limit: float | None, value: float, what: str, where: str, *, quiet: bool) -> None:
    """Exit with 1 if the largest value is above the limit of --fail-above.

    `what` the value is, and `where` it is, are for the sentence: "error", "between 'a' and 'b'".
    """
    if limit is not None and value > limit:
        exit_failed(f"the largest {what}, {value:.3g} ({where}), is above {limit:g}", quiet=quiet)


def exit_failed(words: str, *, quiet: bool) -> None:
    """Exit with 1, and say why unless that is not wanted."""
    if not quiet:
        typer.echo(f"identikit: {plain(words)}", err=True)
    raise typer.Exit(EXCEEDED)


def print_json(document: Mapping[str, Any]) -> None:
    """Print one strict JSON document: absent values are null, never NaN."""
    sys.stdout.write(json_format.dumps(document, indent=2, allow_nan=False) + "\n")


def listing(titles: Sequence[str], rows: Iterable[Sequence[str | Text]]) -> Table:
    """A table of words, whose first column is never broken."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 2, 0, 0))
    for place, title in enumerate(titles):
        table.add_column(title, no_wrap=place == 0)
    for row in rows:
        table.add_row(*row)
    return table


@contextmanager
def calm_warnings(quiet: bool) -> Iterator[None]:
    """Show warnings as one line each, without the place in the code."""

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        if not quiet:
            typer.echo(f"identikit: {plain(message)}", err=True)

    with warnings.catch_warnings():
        warnings.simplefilter("default", UserWarning)
        warnings.showwarning = show
        yield
