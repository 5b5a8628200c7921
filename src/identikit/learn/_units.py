"""Train the units as a stack of seeds, in processes, or one after the other."""

from __future__ import annotations

import pickle
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager, suppress
from multiprocessing import parent_process
from pathlib import Path

import torch
from joblib import cpu_count

from identikit._files import write_text
from identikit._progress import Progress
from identikit.errors import InputError
from identikit.learn._batches import Batch
from identikit.learn._fit import Fit, Outcome, Stop, Stopped, Task, finished
from identikit.learn._learner import Learner, largest_tensor, why_not_stacked
from identikit.learn._modules import SoftmaxNet
from identikit.learn._objectives import Objective
from identikit.moments.engines import start_workers, submit

#: If all tensors of a step are smaller than this, most of its time goes into calling operations,
#: which a stack saves; larger tensors fill the cache on their own, and a stack would overflow it.
SMALL = 2**16
#: Below this size a second thread costs more in waiting than it gains: it was up to 15 times slower
#: on a busy machine, against 1.7 times faster on an idle one.
LARGE = 2**20
#: Seconds of training above which it is worth starting processes.
WORTH = 20.0


def stacked(
    together: bool | None, seeds: int, net: SoftmaxNet, objective: Objective, batch: Batch
) -> bool:
    """Whether to train the seeds as one stack; the choice depends only on sizes, not on timing.

    `together` is the caller's wish, if there is one.
    """
    if seeds == 1 or together is False:
        return False
    if together is None and largest_tensor(net, objective, batch) >= SMALL:
        return False
    reason = why_not_stacked(net, objective, batch)
    if together and reason is not None:
        raise InputError(
            f"these networks cannot be trained as one stack: {reason}; leave together=None"
        )
    return reason is None


def carry_out(
    tasks: Sequence[Task],
    together: bool | None,
    net: SoftmaxNet,
    batch: Batch,
    progress: Progress | None,
) -> list[Outcome]:
    """Train the units in the quickest way, in processes only if `together` is None.

    `net` and `batch` are used to try a step; the network is of no use afterwards.
    """
    large = largest_tensor(net, tasks[0].objective, batch) >= LARGE
    count = torch.get_num_threads() if large else 1
    cores = cpu_count()
    # A process that is itself a worker has no cores to spare.
    if together is None and len(tasks) > 1 and cores > 1 and parent_process() is None:
        payload = packed(tasks)
        if payload is not None:
            # One thread, also without processes, so that the numbers are the same either way.
            count = 1
            if _seconds(tasks, net, batch) > WORTH:
                return in_processes(tasks, payload, cores, progress)
    return in_turn(tasks, count, progress)


def _seconds(tasks: Sequence[Task], net: SoftmaxNet, batch: Batch) -> float:
    """An estimate of the time that these units take one by one, with one thread."""
    with threads(1), torch.random.fork_rng(devices=[]):
        trial = Learner([net], tasks[0].objective, (0,), tasks[0].descent)
        trial.learn(0, batch, True)
        start = time.perf_counter()
        trial.learn(1, batch, True)
        took = time.perf_counter() - start
    return took * sum(task.steps for task in tasks)


#: Seconds between two reports of progress.
REPORT = 0.2
#: The file that asks workers to stop.
STOP = "stop"


def in_turn(tasks: Sequence[Task], count: int, progress: Progress | None) -> list[Outcome]:
    """Train one unit after the other in this process, with `count` threads of PyTorch."""
    totals = _Totals(tasks, progress)
    outcomes = []
    with threads(count), stop_asked() as stop, torch.random.fork_rng(devices=[]):
        for unit, task in enumerate(tasks):
            try:
                outcomes.append(finished(task) or Fit(task).run(totals.by(unit), stop, REPORT))
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
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    totals = _Totals(tasks, progress)
    outcomes = {unit: done for unit, task in enumerate(tasks) if (done := finished(task))}
    for unit in outcomes:
        totals.end(unit)
    waiting = [unit for unit in range(len(tasks)) if unit not in outcomes]
    running: dict[Future[Outcome], int] = {}
    with tempfile.TemporaryDirectory() as name, stop_asked() as stop:
        folder = Path(name)
        pool = start_workers(min(workers, len(waiting) or 1))
        try:
            running = {submit(pool, _work, payload, at, folder): at for at in waiting}
            while running:
                ended, _ = wait(running, REPORT, FIRST_COMPLETED)
                if stop():
                    raise KeyboardInterrupt
                for unit in running.values():
                    totals.read(unit, folder)
                for future in ended:
                    outcomes[running[future]] = future.result()
                    totals.end(running.pop(future))
        except TerminatedWorkerError as error:
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


def _work(payload: bytes, unit: int, folder: Path) -> Outcome:
    """Train one unit in a worker."""
    stop = (folder / STOP).exists
    if stop():
        raise Stopped
    task: Task = pickle.loads(payload)[unit]

    def report(step: int, loss: float) -> None:
        write_text(folder / str(unit), f"{step} {loss}")

    return Fit(task).run(report, stop, REPORT)


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
