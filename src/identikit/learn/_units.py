"""Train the units: one after the other in this process, or several at a time in processes."""

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
    """Train one unit after the other in this process, with `count` threads of PyTorch."""
    totals = _Totals(tasks, progress)
    outcomes = []
    with threads(count), stop_asked() as stop, torch.random.fork_rng(devices=[]):
        for unit, task in enumerate(tasks):
            try:
                outcomes.append(finished(task) or Fit(task).run(totals.by(unit), stop))
            except Stopped:
                raise KeyboardInterrupt from None
            totals.end(unit)
    return outcomes


def packed(tasks: Sequence[Task]) -> bytes | None:
    """The tasks as bytes that another process can read; None if they cannot be sent.

    Functions are sent by name, so those defined in a notebook or in the main script cannot be.
    """
    try:
        payload = pickle.dumps(tasks)
    except (pickle.PicklingError, AttributeError, TypeError):
        return None
    return None if b"__main__" in payload else payload


def in_processes(
    tasks: Sequence[Task], payload: bytes, workers: int, progress: Progress | None
) -> list[Outcome]:
    """Train several units at a time, each in its own process with one thread.

    The processes report their progress in small files in a temporary folder, and look there for a
    request to stop. On such a request, or as soon as one of them fails, all save their state and
    end. `payload` has the same tasks, `packed`.
    """
    from joblib.externals.loky import process_executor

    totals = _Totals(tasks, progress)
    outcomes = {unit: done for unit, task in enumerate(tasks) if (done := finished(task))}
    for unit in outcomes:
        totals.end(unit)
    waiting = [unit for unit in range(len(tasks)) if unit not in outcomes]
    running: dict[Future[Outcome], int] = {}
    with tempfile.TemporaryDirectory() as name, stop_asked() as stop:
        folder = Path(name)
        pool = process_executor.ProcessPoolExecutor(
            min(workers, len(waiting) or 1),
            env=ONE_THREAD,
            initializer=_begin,
            initargs=(os.getpid(),),
        )
        try:
            running = {pool.submit(_work, payload, at, folder): at for at in waiting}
            while running:
                ended, _ = wait(running, REPORT, FIRST_COMPLETED)
                if stop():
                    raise KeyboardInterrupt
                for unit in running.values():
                    totals.read(unit, folder)
                for future in ended:
                    outcomes[running[future]] = future.result()
                    totals.end(running.pop(future))
        except process_executor.TerminatedWorkerError as error:
            raise RuntimeError(
                "a training process was ended from outside, perhaps for lack of memory; train "
                "again with the same folder to go on, or with together=False"
            ) from error
        finally:
            (folder / STOP).touch()
            for future in running:
                future.cancel()
            pool.shutdown()
    return [outcomes[unit] for unit in range(len(tasks))]


def _begin(parent: int) -> None:
    """Prepare a worker, which ends as soon as its parent is gone, even if the parent was killed."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(REPORT)
        os._exit(1)  # the files on disk are whole, and another training may use them already

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    torch.set_num_threads(1)
    threading.Thread(target=watch, daemon=True).start()


def _work(payload: bytes, unit: int, folder: Path) -> Outcome:
    """Train one unit in a worker."""
    stop = (folder / STOP).exists
    if stop():
        raise Stopped
    task: Task = pickle.loads(payload)[unit]
    return Fit(task).run(lambda step, loss: write_text(folder / str(unit), f"{step} {loss}"), stop)


class _Totals:
    """Adds up the progress of the units, and reports it to the caller."""

    def __init__(self, tasks: Sequence[Task], progress: Progress | None) -> None:
        self.tasks, self.progress = tasks, progress
        self.steps = [0] * len(tasks)
        self.what = "training"

    def by(self, unit: int) -> Callable[[int, float], None]:
        """The function to which a unit in this process reports."""
        return lambda step, loss: self._tell(unit, step, f"training, loss {loss:.4g}")

    def read(self, unit: int, folder: Path) -> None:
        """Read what a unit in another process has reported, if that is new."""
        with suppress(FileNotFoundError):
            step, loss = (folder / str(unit)).read_text(encoding="utf-8").split()
            if int(step) > self.steps[unit]:
                self.by(unit)(int(step), float(loss))

    def end(self, unit: int) -> None:
        """Count a unit as finished, whether it stopped early or not."""
        self._tell(unit, self.tasks[unit].steps, self.what)

    def _tell(self, unit: int, step: int, what: str) -> None:
        self.what, self.steps[unit] = what, step
        if self.progress is not None:
            each = [len(task.seeds) for task in self.tasks]
            done = sum(steps * seeds for steps, seeds in zip(self.steps, each))
            self.progress(what, done, sum(each) * self.tasks[0].steps)


@contextmanager
def stop_asked() -> Iterator[Stop]:
    """Yield a function that says whether Ctrl-C was pressed, so that no step is left half done.

    Ctrl-C raises only when it is pressed a second time.
    """
    asked: list[int] = []

    def ask(number: int, _frame: object) -> None:
        if asked:
            raise KeyboardInterrupt
        asked.append(number)

    # This is possible only in the main thread, and only if nothing else handles Ctrl-C.
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
    """Let PyTorch use this many threads, and restore the number afterwards."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
