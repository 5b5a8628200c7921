"""What verbs share: their options, where they may write, and what becomes of their results."""

from __future__ import annotations

import json as json_format
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from identikit._text import plain
from identikit.cli._progress import progress_bar as progress_bar
from identikit.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from identikit._result import Result
    from identikit.moments.engines import Engine as EngineKind

EXCEEDED = 1
WIDTH = 100
_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_UNITS |= {"KI": 2**10, "MI": 2**20, "GI": 2**30, "TI": 2**40}


def split_names(names: list[str] | None) -> list[str] | None:
    """One option is a list with commas, several are a name each.

    >>> split_names(["a, b"]), split_names(["a,b", "c"]), split_names(None)
    (['a', 'b'], ['a,b', 'c'], None)
    """
    if not names:
        return None
    parts = [part.strip() for part in (names[0].split(",") if len(names) == 1 else names)]
    if "" in parts:
        raise InputError(f"--names has an empty name in {','.join(names)!r}; give one name a view")
    return parts


@contextmanager
def chosen_engine(
    engine: str | None, scheduler: str | None, workers: int | None
) -> Iterator[EngineKind | None]:
    """The engine of --engine, --scheduler and --workers, let go of afterwards."""
    from identikit.moments.engines import Dask, Pool, engine_for

    if scheduler is not None and engine not in (None, "dask"):
        raise InputError(f"--scheduler is for --engine dask, not for {engine}")
    if engine is None and scheduler is None:
        engine = "single" if workers is None else "pool"
    if engine == "single" and workers is not None:
        raise InputError("--workers is for --engine pool or dask; this process is one")
    if engine not in ("single", "pool", "dask", None):
        raise InputError(f"--engine is {engine!r}; expected single, pool or dask")
    if engine == "single":
        yield None
        return
    started = Pool(workers) if engine == "pool" else Dask(scheduler, workers)
    try:
        with engine_for(started) as ready:
            yield ready
    finally:
        started.close()


def choose_ids(column: str | None, files: list[str] | None) -> str | list[str] | None:
    if column is not None and files:
        raise InputError("--id and --ids both say how rows are paired; give one of them")
    return column if column is not None else files or None


def parse_size(text: str | None) -> int | None:
    """Bytes from a number with a unit.

    >>> parse_size("4GB"), parse_size("512 MiB"), parse_size("1.5k")
    (4000000000, 536870912, 1500)
    """
    if text is None:
        return None
    match = re.fullmatch(r"(\d{1,15}(?:\.\d{1,15})?)\s*([KMGT]?I?)B?", text.strip().upper())
    if match is None or match[2] not in _UNITS:
        raise InputError(f"--memory is {text!r}; expected a size such as 4GB, 512MB or 2GiB")
    return int(float(match[1]) * _UNITS[match[2]])


def read_groups(path: str | None) -> NDArray[Any] | None:
    from identikit.sources import read_labels

    return None if path is None else read_labels(path)


def check_limit(limit: float | None, what: str) -> None:
    """Refuse a --fail-above that nothing could ever be compared with."""
    if limit is not None and not limit >= 0:
        raise InputError(f"--fail-above is {limit}; expected {what}, 0 or larger")


def check_targets(
    output: Path | None,
    report: Path | None,
    inputs: Sequence[str | None],
    *,
    figure: Path | None = None,
    others: Mapping[str, Path | None] | None = None,
) -> None:
    """`check_target` for files that may replace others, but neither inputs nor each other."""
    taken: dict[Path, str] = {}
    targets = {"--report": report, "--figure": figure, "--output": output, **(others or {})}
    for option, target in targets.items():
        check_target(target, inputs, overwrite=True)
        if target is None:
            continue
        other = taken.setdefault(target.absolute(), option)
        if other != option:
            raise InputError(f"{other} and {option} are both {target}; give them different names")


def check_target(path: Path | None, inputs: Sequence[str | None], *, overwrite: bool) -> None:
    """Find out before the work, not after it, that a file cannot or must not be written."""
    if path is None:
        return
    if path.is_dir():
        raise InputError(f"{path} is a directory; give the name of a file to write")
    if not path.parent.is_dir():
        raise InputError(f"cannot write {path}: there is no directory {path.parent}")
    if not os.access(path.parent, os.W_OK):
        raise InputError(f"cannot write {path}: the directory {path.parent} is not writable")
    if path.exists():
        if any(name is not None and _same(path, name) for name in inputs):
            raise InputError(f"{path} is one of the inputs; choose another name for the output")
        if not overwrite:
            raise InputError(
                f"{path} exists already; choose another name or overwrite it with --force"
            )


def _same(path: Path, view: str) -> bool:
    from identikit.sources.files import split_member

    source, _ = split_member(view)
    return source.exists() and path.samefile(source)


def console() -> Console:
    """Standard output, at most 100 columns wide, and exactly that if it is no terminal."""
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment

    class Output(Console):
        def render(
            self, renderable: RenderableType, options: ConsoleOptions | None = None
        ) -> Iterator[Segment]:
            """All that is printed passes here, colours apart from text: none of it is obeyed."""
            for text, style, control in super().render(renderable, options):
                shown = text if control else "\n".join(map(plain, text.split("\n")))
                yield Segment(shown, style, control)

        def on_broken_pipe(self) -> None:
            raise  # Not rich's own exit with 1, which here means that --fail-above was exceeded.

    output = Output(highlight=False)
    output.width = min(output.width, WIDTH) if output.is_terminal else WIDTH
    return output


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
