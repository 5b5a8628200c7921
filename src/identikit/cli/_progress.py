"""Progress on standard error: a bar on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread, Timer, current_thread, main_thread
from typing import Any

from identikit._progress import Progress as Tell
from identikit._progress import duration

#: Seconds before a terminal shows a bar.
PATIENCE = 2.0
#: Seconds between the lines that are written where there is no terminal.
EVERY = 10.0


@contextmanager
def progress_bar(quiet: bool) -> Iterator[Tell]:
    """Give a function to be called with (what is being done, done, of how many).

    It raises KeyboardInterrupt if Ctrl-C was pressed before and nobody has noticed.
    """
    with _interrupts() as raise_missed:
        if quiet:
            yield lambda _stage, _done, _total: raise_missed()
            return
        with _bar() if sys.stderr.isatty() else _lines() as update:

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
def _bar() -> Iterator[Tell]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    bar = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeElapsedColumn(),
        TextColumn("left:"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    task = bar.add_task("starting", total=None)

    known = "starting"

    def show(stage: str, done: int, total: int) -> None:
        nonlocal known
        if stage != known:  # the time that is left is that of this stage
            known = stage
            bar.reset(task, start=True)
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


@contextmanager
def _lines() -> Iterator[Tell]:
    """For logs: `progress: reading, 40 % after 20 s, about 30 s left`."""
    begin, over, stream = time.monotonic(), Event(), sys.stderr
    now = ("starting", 0, 0)
    since = (begin, 0)  # when this stage began, and what was done then

    def show(stage: str, done: int, total: int) -> None:
        nonlocal now, since
        if stage != now[0]:
            since = (time.monotonic(), done)
        now = (stage, done, total)

    def write() -> None:
        while not over.wait(EVERY):
            (stage, done, total), (start, before), moment = now, since, time.monotonic()
            share = f", {done / total:.0%}".replace("%", " %") if total else ""
            rest = ""
            if done > before:
                seconds = (moment - start) * (total - done) / (done - before)
                rest = f", about {duration(seconds)} left"
            # A log that can no longer be written to must not cost the result.
            with suppress(OSError, ValueError):
                stream.write(f"progress: {stage}{share} after {moment - begin:.0f} s{rest}\n")
                stream.flush()

    writer = Thread(target=write, daemon=True)
    writer.start()
    try:
        yield show
    finally:
        over.set()
        writer.join()
