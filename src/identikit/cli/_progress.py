"""A progress bar on standard error, for work that takes longer than two seconds."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Timer, current_thread, main_thread
from typing import Any

PATIENCE = 2.0


@contextmanager
def progress_bar(quiet: bool) -> Iterator[Callable[[str, int, int], None]]:
    """Give a function to be called with (what is being done, done, of how many).

    It raises KeyboardInterrupt if Ctrl-C was pressed before and nobody has noticed.

    Parameters
    ----------
    quiet : bool
        Never show anything.
    """
    with _interrupts() as raise_missed:
        if quiet:
            yield lambda _stage, _done, _total: raise_missed()
            return
        with _bar() as update:

            def show(stage: str, done: int, total: int) -> None:
                raise_missed()
                update(stage, done, total)

            yield show


@contextmanager
def _interrupts() -> Iterator[Callable[[], None]]:
    """Give a function that raises KeyboardInterrupt once more after Ctrl-C.

    Python drops the first if it comes while an object is being finalised.
    """
    pressed = False

    def press(_number: int, _frame: Any) -> None:
        nonlocal pressed
        pressed = True
        raise KeyboardInterrupt

    def raise_missed() -> None:
        if pressed:
            raise KeyboardInterrupt

    usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if not usual or current_thread() is not main_thread():
        yield raise_missed
        return
    signal.signal(signal.SIGINT, press)
    try:
        yield raise_missed
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@contextmanager
def _bar() -> Iterator[Callable[[str, int, int], None]]:
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
