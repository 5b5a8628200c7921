"""A pool of processes on this machine, by joblib's executor (loky)."""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
import time
import traceback
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from multiprocessing import resource_tracker
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from identikit.errors import InputError, MissingExtraError
from identikit.moments.engines._engine import (
    REDONE,
    SMALL,
    LostError,
    Range,
    add_up,
    packed_size,
    travels,
)
from identikit.sources import NpyWriter, Source, open_source

T = TypeVar("T")
R = TypeVar("R")

#: Number of bytes of a view that are written at a time.
WRITTEN_BYTES = 2**24

#: Seconds to wait until the executor has passed on all submitted items, before it is stopped.
PATIENCE = 5.0

#: Environment variables that set the number of threads of linear algebra libraries.
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


def cores() -> int:
    """Number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _loky() -> Any:
    """joblib's executor, imported only when it is needed."""
    from joblib.externals.loky import process_executor

    return process_executor


def start_workers(count: int) -> Any:
    """An executor of processes with one thread each, which `submit` starts.

    They ignore Ctrl-C, and end when this process ends, for whatever reason.
    """
    return _loky().ProcessPoolExecutor(
        count, initializer=_begin, initargs=(os.getpid(),), env=dict.fromkeys(THREADS, "1")
    )


def submit(executor: Any, function: Callable[..., R], *arguments: Any) -> Future[R]:
    """Submit a call; processes that this starts ignore Ctrl-C from the beginning."""
    with _deaf():
        future: Future[R] = executor.submit(function, *arguments)
    return future


class Pool:
    """An `Engine` of processes on this machine, with one thread each.

    The processes are started when they are needed, ignore Ctrl-C, and end when this process ends,
    for whatever reason. Views in memory are written once to a file that they read.

    Parameters
    ----------
    workers : int, optional
        The largest number of processes; the number of cores by default.

    Examples
    --------
    >>> with Pool(2) as pool:
    ...     sorted(pool.map(abs, [-1, -2, 3]))
    [(0, 1), (1, 2), (2, 3)]
    """

    def __init__(self, workers: int | None = None) -> None:
        self.workers = cores() if workers is None else workers
        if self.workers < 1:
            raise InputError(f"a pool needs at least 1 worker; got workers={workers}")
        self._executor: Any = None
        self._size = 0
        self._folder: TemporaryDirectory[str] | None = None
        self._sent: dict[int, tuple[object, object]] = {}

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def reduce(
        self,
        task: Callable[[list[Any], Range[T]], R],
        views: Sequence[object],
        items: Sequence[Range[T]],
        done: Callable[[int], None],
    ) -> R:
        """The sum of ``task(views, item)`` over all items, by pairwise summation."""

        def results() -> Iterator[tuple[int, R]]:
            for number, result in self.map(partial(task, [self._send(v) for v in views]), items):
                done(number)
                yield number, result

        total: R = add_up(len(items), results())
        return total

    def map(self, task: Callable[[T], R], items: Sequence[T]) -> Iterator[tuple[int, R]]:
        """Yield the number and ``task(item)`` of every item, in the order of completion."""
        waiting, begun = deque(range(len(items))), Counter[int]()
        running: dict[Future[Any], int] = {}
        # The executor does not say which of the running items killed a worker, so these are started
        # again one at a time.
        alone: set[int] = set()
        finished: list[tuple[int, Future[Any]]] = []
        try:
            while waiting or running or finished:
                while waiting and len(running) < (1 if alone else self.workers):
                    number = waiting.popleft()
                    begun[number] += 1
                    running[self._submit(task, items[number], len(items))] = number
                for number, future in finished:  # now that all workers are busy again
                    result, failure = future.result()
                    if failure is not None:
                        raise failure
                    yield number, result
                finished = []
                done = wait(running, return_when=FIRST_COMPLETED).done
                if any(_is_lost(future) for future in done):
                    self._stop()  # after this, every future is done
                    lost = sorted(number for future, number in running.items() if _is_lost(future))
                    if begun[lost[0]] > REDONE:
                        raise _ended(lost[0], begun[lost[0]])
                    alone |= set(lost)
                    waiting.extendleft(reversed(lost))
                    done = set(running)
                finished = [(running.pop(f), f) for f in done if not _is_lost(f)]
                running = {f: number for f, number in running.items() if not _is_lost(f)}
                alone -= {number for number, _ in finished}
        except BaseException:
            self._stop(list(running))
            raise

    def forget(self) -> None:
        """Remove the files that were written for the workers."""
        self._sent.clear()
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def close(self) -> None:
        """End the processes, and remove the files."""
        self._stop()
        self.forget()

    def _submit(self, task: Callable[[T], R], item: T, items: int) -> Future[Any]:
        size = min(self.workers, items)
        if self._size < size:
            self._stop()
            self._executor, self._size = start_workers(size), size
        future: Future[Any] = Future()
        try:
            future = submit(self._executor, _call, task, item)
        except _loky().TerminatedWorkerError as error:  # a worker has just died
            future.set_exception(error)
        return future

    def _stop(self, running: Sequence[Future[Any]] = ()) -> None:
        executor, self._executor, self._size = self._executor, None, 0
        if executor is not None:
            # Stopping fails if submitted items have not been passed on yet, which takes a moment.
            end = time.monotonic() + PATIENCE
            while not all(f.running() or f.done() for f in running) and time.monotonic() < end:
                time.sleep(0.001)
            executor.shutdown(kill_workers=True)

    def _send(self, view: object) -> object:
        """A path or a recipe that workers can open; a view in memory is written to a file."""
        small = isinstance(view, str)
        if not small and id(view) not in self._sent:
            small = travels(view) and (packed_size(view) or 0) <= SMALL
        if small:
            return view
        if id(view) not in self._sent:
            # The view is stored too, so that its id is not reused.
            self._sent[id(view)] = view, self._write(view)
        return self._sent[id(view)][1]

    def _write(self, view: object) -> object:
        if self._folder is None:
            self._folder = TemporaryDirectory(prefix="identikit-")
        path = Path(self._folder.name, f"{len(self._sent)}.npy")
        source = open_source(view)
        try:
            if travels(view):
                path.write_bytes(pickle.dumps(view))
                return _LargeRecipe(str(path))
            _write_rows(source, path)
        except OSError as error:
            raise InputError(
                f"a view of {source.rows} rows and {source.width} columns could not be written "
                f"to {path} for the workers to read: {error.strerror or error}; give the path "
                "of its file instead, or set TMPDIR to a folder with more room"
            ) from error
        finally:
            source.close()
        return str(path)


@dataclass(frozen=True)
class _LargeRecipe:
    """A recipe that is stored in a file, because it is too large to be sent with every item."""

    path: str

    def open_source(self, name: str) -> Source:
        return open_source(_unpacked(self.path), name)


@lru_cache(maxsize=4)
def _unpacked(path: str) -> object:
    return pickle.loads(Path(path).read_bytes())  # written by our own parent process


def _write_rows(source: Source, path: Path) -> None:
    """Write a view as a .npy file, a few rows at a time."""
    first = source.read(0, 1)
    step = max(1, WRITTEN_BYTES // first.nbytes)
    with NpyWriter(path, source.width, first.dtype) as file:
        for start in range(0, source.rows, step):
            file.append(source.read(start, start + step))


@contextmanager
def _deaf() -> Iterator[None]:
    """Block SIGINT (Ctrl-C), so that a process started meanwhile ignores it from the beginning."""
    if not hasattr(signal, "pthread_sigmask"):  # on Windows
        yield
        return
    resource_tracker.ensure_running()  # starting it later would unblock the signal
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin(parent: int) -> None:
    """Initialise a worker: ignore Ctrl-C, and watch the parent process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Otherwise loky replaces a worker whose memory has grown by 300 MB, and warns of a leak.
    _loky()._MAX_MEMORY_LEAK_SIZE = sys.maxsize
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    import psutil

    while os.getppid() == parent and psutil.pid_exists(parent):
        time.sleep(0.2)
    os._exit(1)


def _call(task: Callable[[T], R], item: T) -> tuple[R | None, Exception | None]:
    """Run a task in a worker, and return the result, or an exception that can be pickled."""
    try:
        return task(item), None
    except Exception as error:
        trace = traceback.format_exc()
        # Errors for the user need no trace.
        if not isinstance(error, InputError | MissingExtraError):
            error.add_note(trace)
        try:
            pickle.loads(pickle.dumps(error))  # fails for some exceptions
        except Exception:
            return None, RuntimeError(trace)
        return None, error


def _is_lost(future: Future[Any]) -> bool:
    """Whether a worker died before this item was done."""
    lost = _loky().TerminatedWorkerError, _loky().ShutdownExecutorError
    return future.done() and isinstance(future.exception(), lost)


def _ended(number: int, times: int) -> LostError:
    return LostError(
        f"a worker process, and the {times - 1} that replaced it, died without an error message: "
        "they ran out of memory or were killed",
        number,
    )
