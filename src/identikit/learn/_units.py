"""Training the units: one after the other in this process, or several at a time in processes."""

from __future__ import annotations

import os
import pickle
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager, suppress
from pathlib import Path

import torch

from identikit._files import write_text
from identikit._progress import Progress
from identikit.learn._fit import REPORT, Fit, Outcome, Stop, Stopped, Task, finished

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
#: The file that asks workers to stop.
STOP = "stop"


def in_turn(tasks: Sequence[Task], count: int, progress: Progress | None) -> list[Outcome]:
    """Train one unit after the other in this process.

    Parameters
    ----------
    tasks : sequence of Task
        The units.
    count : int
        How many threads PyTorch uses meanwhile.
    progress : callable, optional
        Called with (what is being done, done, of how many).
    """
    told = _Told(tasks, progress)
    outcomes = []
    with threads(count), stop_asked() as stop, torch.random.fork_rng(devices=[]):
        for unit, task in enumerate(tasks):
            try:
                outcomes.append(finished(task) or Fit(task).run(told.by(unit), stop))
            except Stopped:
                raise KeyboardInterrupt from None
            told.end(unit)
    return outcomes


def packed(tasks: Sequence[Task]) -> bytes | None:
    """The tasks as bytes that another interpreter can read; None if there is no such thing.

    Functions go by their name, so those of a notebook or of the script itself cannot be sent.
    """
    try:
        payload = pickle.dumps(tasks)
    except (pickle.PicklingError, AttributeError, TypeError):
        return None
    return None if b"__main__" in payload else payload


def in_processes(
    tasks: Sequence[Task], payload: bytes, workers: int, progress: Progress | None
) -> list[Outcome]:
    """Train several units at a time, each in a process of its own with one thread.

    The processes say how far they are in small files in a temporary folder, and look there whether
    to stop. Asked to, or as soon as one of them fails, all save their state and end.

    Parameters
    ----------
    tasks : sequence of Task
        The units.
    payload : bytes
        The same, `packed`.
    workers : int
        How many processes at most.
    progress : callable, optional
        Called with (what is being done, done, of how many).
    """
    from joblib.externals.loky import process_executor

    told = _Told(tasks, progress)
    outcomes = {unit: done for unit, task in enumerate(tasks) if (done := finished(task))}
    for unit in outcomes:
        told.end(unit)
    waiting = [unit for unit in range(len(tasks)) if unit not in outcomes]
    running: dict[Future[Outcome], int] = {}
    with tempfile.TemporaryDirectory() as name, stop_asked() as stop:
        desk = Path(name)
        pool = process_executor.ProcessPoolExecutor(
            min(workers, len(waiting) or 1),
            env=ONE_THREAD,
            initializer=_begin,
            initargs=(os.getpid(),),
        )
        try:
            running = {pool.submit(_work, payload, at, desk): at for at in waiting}
            while running:
                ended, _ = wait(running, REPORT, FIRST_COMPLETED)
                if stop():
                    raise KeyboardInterrupt
                for unit in running.values():
                    told.read(unit, desk)
                for future in ended:
                    outcomes[running[future]] = future.result()
                    told.end(running.pop(future))
        except process_executor.TerminatedWorkerError as error:
            raise RuntimeError(
                "a training process was ended from outside, perhaps for lack of memory; train "
                "again with the same folder to go on, or with together=False"
            ) from error
        finally:
            (desk / STOP).touch()
            for future in running:
                future.cancel()
            pool.shutdown()
    return [outcomes[unit] for unit in range(len(tasks))]


def _begin(parent: int) -> None:
    """What a worker does first. It ends as soon as its parent is gone, be it killed."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(REPORT)
        os._exit(1)  # what is on disk is whole; another training may be at work on it already

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    torch.set_num_threads(1)
    threading.Thread(target=watch, daemon=True).start()


def _work(payload: bytes, unit: int, desk: Path) -> Outcome:
    """Train one unit in a worker."""
    stop = (desk / STOP).exists
    if stop():
        raise Stopped
    task: Task = pickle.loads(payload)[unit]
    return Fit(task).run(lambda step, loss: write_text(desk / str(unit), f"{step} {loss}"), stop)


class _Told:
    """Adds up how far the units are, and tells the caller."""

    def __init__(self, tasks: Sequence[Task], progress: Progress | None) -> None:
        self.tasks, self.progress = tasks, progress
        self.steps = [0] * len(tasks)
        self.what = "training"

    def by(self, unit: int) -> Callable[[int, float], None]:
        """What a unit in this process reports to."""
        return lambda step, loss: self._tell(unit, step, f"training, loss {loss:.4g}")

    def read(self, unit: int, desk: Path) -> None:
        """Take what a unit in a process has reported, if that is new."""
        with suppress(FileNotFoundError):
            step, loss = (desk / str(unit)).read_text(encoding="utf-8").split()
            if int(step) > self.steps[unit]:
                self.by(unit)(int(step), float(loss))

    def end(self, unit: int) -> None:
        """A unit is at its end, early or not."""
        self._tell(unit, self.tasks[unit].steps, self.what)

    def _tell(self, unit: int, step: int, what: str) -> None:
        self.what, self.steps[unit] = what, step
        if self.progress is not None:
            each = [len(task.seeds) for task in self.tasks]
            done = sum(steps * seeds for steps, seeds in zip(self.steps, each))
            self.progress(what, done, sum(each) * self.tasks[0].steps)


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
    """So many threads of PyTorch; afterwards as before."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
