"""A pool of processes on this machine, by joblib's executor (loky)."""

from __future__ import annotations

import os
import pickle
import signal
import threading
import time
import traceback
import warnings
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

#: Bytes of a view that are written at a time.
WRITTEN_BYTES = 2**24

#: Seconds that the executor has to hand on what it was given, before it is stopped.
PATIENCE = 5.0

#: What tells the libraries of linear algebra how many threads to use.
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


def cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _loky() -> Any:
    """joblib's executor, loaded when it is needed."""
    from joblib.externals.loky import process_executor

    return process_executor


class Pool:
    """Processes on this machine, with one thread each: an `Engine`.

    They start when there is something to do, do not hear Ctrl-C, and end with this process however
    that ends. What lies in memory is written once to a file that they read.

    Parameters
    ----------
    workers : int, optional
        How many at most; as many as there are cores by default.

    Examples
    --------
    >>> with Pool(2) as pool:
    ...     sorted(pool.map(abs, [-1, -2, 3]))
    [(0, 1), (1, 2), (2, 3)]
    """

    def __init__(self, workers: int | None = None) -> None:
        self.workers = cores() if workers is None else workers
        if self.workers < 1:
            raise InputError(f"a pool of {workers} workers does nothing; give at least 1")
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
        """The sum of ``task(views, item)`` over all items, as a tree of ``+``."""

        def results() -> Iterator[tuple[int, R]]:
            for number, result in self.map(partial(task, [self._send(v) for v in views]), items):
                done(number)
                yield number, result

        total: R = add_up(len(items), results())
        return total

    def map(self, task: Callable[[T], R], items: Sequence[T]) -> Iterator[tuple[int, R]]:
        """The number and ``task(item)`` of every item, as they come."""
        waiting, begun = deque(range(len(items))), Counter[int]()
        running: dict[Future[Any], int] = {}
        # The executor does not say which of the items under way has ended a worker. So these are
        # begun again one by one.
        alone: set[int] = set()
        finished: list[tuple[int, Future[Any]]] = []
        try:
            while waiting or running or finished:
                while waiting and len(running) < (1 if alone else self.workers):
                    number = waiting.popleft()
                    begun[number] += 1
                    running[self._submit(task, items[number], len(items))] = number
                for number, future in finished:  # now that nobody waits for this process
                    result, failure = future.result()
                    if failure is not None:
                        raise failure
                    yield number, result
                finished = []
                done = wait(running, return_when=FIRST_COMPLETED).done
                if any(_is_lost(future) for future in done):
                    self._stop()  # then every future is done
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
            # A worker whose memory has grown is replaced, which nobody needs to be told.
            warnings.filterwarnings("ignore", "A worker stopped while some jobs", UserWarning)
            self._executor = _loky().ProcessPoolExecutor(
                size, initializer=_begin, initargs=(os.getpid(),), env=dict.fromkeys(THREADS, "1")
            )
            self._size = size
        future: Future[Any] = Future()
        try:
            with _deaf():  # the first call starts the processes
                future = self._executor.submit(_call, task, item)
        except _loky().TerminatedWorkerError as error:  # a worker has ended just now
            future.set_exception(error)
        return future

    def _stop(self, running: Sequence[Future[Any]] = ()) -> None:
        executor, self._executor, self._size = self._executor, None, 0
        if executor is not None:
            # It fails over items that it has not handed on yet, which takes it but a moment.
            end = time.monotonic() + PATIENCE
            while not all(f.running() or f.done() for f in running) and time.monotonic() < end:
                time.sleep(0.001)
            executor.shutdown(kill_workers=True)

    def _send(self, view: object) -> object:
        """A path or a recipe; a file that holds the view for what lies in memory."""
        small = isinstance(view, str)
        if not small and id(view) not in self._sent:
            small = travels(view) and (packed_size(view) or 0) <= SMALL
        if small:
            return view
        if id(view) not in self._sent:
            # Beside what is sent stands the view, so that its id stays its own.
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
    """A recipe in a file, since it is too large to be sent with every item."""

    path: str

    def open_source(self, name: str) -> Source:
        return open_source(_unpacked(self.path), name)


@lru_cache(maxsize=4)
def _unpacked(path: str) -> object:
    return pickle.loads(Path(path).read_bytes())  # written by the process that started this one


def _write_rows(source: Source, path: Path) -> None:
    """Write a view as a .npy file, a few rows at a time."""
    first = source.read(0, 1)
    step = max(1, WRITTEN_BYTES // first.nbytes)
    with NpyWriter(path, source.width, first.dtype) as file:
        for start in range(0, source.rows, step):
            file.append(source.read(start, start + step))


@contextmanager
def _deaf() -> Iterator[None]:
    """Hold back Ctrl-C; a process that is started meanwhile never hears it, not even at first."""
    if not hasattr(signal, "pthread_sigmask"):  # on Windows
        yield
        return
    resource_tracker.ensure_running()  # it would lift the mask when the first process starts it
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin(parent: int) -> None:
    """What a worker does first: it turns deaf to Ctrl-C, and watches the process it works for."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    import psutil

    while os.getppid() == parent and psutil.pid_exists(parent):
        time.sleep(0.2)
    os._exit(1)


def _call(task: Callable[[T], R], item: T) -> tuple[R | None, Exception | None]:
    """What a worker does with an item: a result, or an error that can travel."""
    try:
        return task(item), None
    except Exception as error:
        trace = traceback.format_exc()
        # Its sentence says all, or its trace does.
        if not isinstance(error, InputError | MissingExtraError):
            error.add_note(trace)
        try:
            pickle.loads(pickle.dumps(error))  # which not every exception survives
        except Exception:
            return None, RuntimeError(trace)
        return None, error


def _is_lost(future: Future[Any]) -> bool:
    """Whether a worker has ended before this was done."""
    lost = _loky().TerminatedWorkerError, _loky().ShutdownExecutorError
    return future.done() and isinstance(future.exception(), lost)


def _ended(number: int, times: int) -> LostError:
    return LostError(
        f"a worker process, and the {times - 1} that took its place, ended without a word: it ran "
        "out of memory or was killed",
        number,
    )
