"""A progress bar on standard error, for work that takes longer than two seconds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Timer

PATIENCE = 2.0


@contextmanager
def progress_bar(quiet: bool) -> Iterator[Callable[[str, int, int], None]]:
    """Give a function to be called with (what is being done, done, of how many).

    Parameters
    ----------
    quiet : bool
        Never show anything.
    """
    if quiet:
        yield lambda _stage, _done, _total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    bar = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeElapsedColumn(),
        console=console,
        # A terminal is left clean; a log keeps one line that says how long it took.
        transient=console.is_terminal,
    )
    task = bar.add_task("starting", total=None)

    def show(stage: str, done: int, total: int) -> None:
        bar.update(task, description=stage, completed=done, total=total)

    # A timer, and not the first call after two seconds: one long step would show nothing at all.
    timer = Timer(PATIENCE, bar.start)
    timer.daemon = True
    timer.start()
    try:
        yield show
    finally:
        timer.cancel()
        timer.join()
        if bar.live.is_started:
            bar.stop()
