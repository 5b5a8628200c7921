"""Training units in this process, one after the other; stopping, and telling how far they are."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch

from identikit._progress import Progress
from identikit.learn._fit import Fit, Outcome, Stop, Stopped, Task, finished


def in_turn(tasks: Sequence[Task], count: int, progress: Progress | None) -> list[Outcome]:
    """Train one unit after the other in this process.

    Parameters
    ----------
    tasks : sequence of Task
        The units.
    count : int
        Threads of torch, while this lasts.
    progress : callable, optional
        Called with (what is being done, done, of how many).
    """
    teller = Teller(tasks, progress)
    outcomes = []
    with threads(count), stop_asked() as stop, torch.random.fork_rng(devices=[]):
        for unit, task in enumerate(tasks):
            outcome = finished(task)
            if outcome is None:
                try:
                    outcome = Fit(task).run(teller.of(unit), stop)
                except Stopped:
                    raise KeyboardInterrupt from None
            teller.end(unit)
            outcomes.append(outcome)
    return outcomes


class Teller:
    """Adds up how far the units are, and tells the caller."""

    def __init__(self, tasks: Sequence[Task], progress: Progress | None) -> None:
        self.tasks, self.progress = tasks, progress
        self.steps = [0] * len(tasks)
        self.what = "training"

    def of(self, unit: int) -> Callable[[int, float], None]:
        """What a unit reports to."""
        return lambda step, loss: self(unit, step, f"training, loss {loss:.4g}")

    def end(self, unit: int) -> None:
        """A unit is at its end, early or not."""
        self(unit, self.tasks[unit].steps, self.what)

    def __call__(self, unit: int, step: int, what: str) -> None:
        self.what, self.steps[unit] = what, step
        if self.progress is not None:
            done, of = (
                sum(n * len(task.seeds) for n, task in zip(steps, self.tasks))
                for steps in (self.steps, [task.steps for task in self.tasks])
            )
            self.progress(what, done, of)


@contextmanager
def stop_asked() -> Iterator[Stop]:
    """Whether Ctrl-C was pressed: so a step is never left half done. Pressed again, it raises."""
    asked: list[int] = []

    def ask(number: int, _frame: object) -> None:
        if asked:
            raise KeyboardInterrupt
        asked.append(number)

    # Only the main thread may, and only where Ctrl-C is not somebody else's business.
    usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if not usual or threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    signal.signal(signal.SIGINT, ask)
    try:
        yield lambda: bool(asked)
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@contextmanager
def threads(count: int) -> Iterator[None]:
    """So many threads of torch; afterwards as before."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
