"""A pool of processes on this machine."""

from __future__ import annotations

import os
import pickle
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from multiprocessing.connection import wait
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from identikit.errors import InputError
from identikit.moments.engines._engine import REDONE, LostError, Range
from identikit.moments.engines._travel import travels
from identikit.moments.engines._tree import Tree
from identikit.moments.engines._worker import Worker
from identikit.sources import NpyWriter, Source, open_source

T = TypeVar("T")
R = TypeVar("R")

#: Bytes of a view that are written at a time.
WRITTEN_BYTES = 2**24


def cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


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
        self._pool: list[Worker] = []
        self._folder: TemporaryDirectory[str] | None = None
        self._paths: dict[int, tuple[object, str]] = {}

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def share(self, views: Sequence[object]) -> list[Any]:
        """Paths and recipes as they are; the path of a file for what lies in memory."""
        return [view if travels(view) else self._path_of(view) for view in views]

    def reduce(
        self,
        task: Callable[[list[Any], Range[T]], R],
        shared: list[Any],
        items: Sequence[Range[T]],
        merge: Callable[[R, R], R],
        done: Callable[[int], None],
    ) -> R:
        """Merge ``task(views, item)`` of all items, as a tree."""
        tree = Tree(len(items), merge)
        for number, result in self.map(partial(task, shared), items):
            tree.add(number, result)
            done(number)
        return tree.root

    def map(self, task: Callable[[T], R], items: Sequence[T]) -> Iterator[tuple[int, R]]:
        """The number and ``task(item)`` of every item, as they come."""
        if any(worker.item is not None for worker in self._pool):
            self._stop()  # somebody has not heard all answers, which would come here
        packed, waiting = pickle.dumps(task), deque(range(len(items)))
        begun: Counter[int] = Counter()
        busy: list[Worker] = []

        def give(worker: Worker) -> None:
            number = waiting.popleft()
            begun[number] += 1
            worker.give(packed, number, items[number])
            busy.append(worker)

        try:
            while busy or waiting:
                for worker in self._idle(busy, len(waiting)):
                    give(worker)
                heard = wait([worker.connection for worker in busy])
                for worker in [worker for worker in busy if worker.connection in heard]:
                    number = worker.item
                    assert number is not None
                    try:
                        answer = worker.hear()
                    except (EOFError, OSError) as error:
                        if not worker.up or begun[number] > REDONE:
                            raise _ended(number, begun[number]) from error
                        busy.remove(worker)
                        self._remove(worker)
                        waiting.appendleft(number)
                        continue
                    if answer is None:
                        continue  # it is there
                    busy.remove(worker)
                    worker.item = None
                    if waiting:  # before the result is merged, so that nobody waits for that
                        give(worker)
                    result, failure = answer
                    if failure is not None:
                        raise failure
                    yield number, result
        except BaseException:
            self._stop()
            raise

    def forget(self) -> None:
        """Remove the files that were written for the workers."""
        self._paths.clear()
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def close(self) -> None:
        """End the processes, and remove the files."""
        self._stop()
        self.forget()

    def _idle(self, busy: list[Worker], wanted: int) -> list[Worker]:
        """As many workers as are wanted and may be had, started if need be."""
        count = min(wanted, self.workers - len(busy))
        idle = [worker for worker in self._pool if worker not in busy][:count]
        while len(idle) < count:
            worker = Worker()
            self._pool.append(worker)
            idle.append(worker)
        return idle

    def _remove(self, worker: Worker) -> None:
        self._pool.remove(worker)
        worker.kill()

    def _stop(self) -> None:
        while self._pool:
            self._remove(self._pool[-1])

    def _path_of(self, view: object) -> str:
        if id(view) not in self._paths:
            if self._folder is None:
                self._folder = TemporaryDirectory(prefix="identikit-")
            path = Path(self._folder.name, f"{len(self._paths)}.npy")
            source = open_source(view)
            try:
                _write(source, path)
            except OSError as error:
                raise InputError(
                    f"a view of {source.rows} rows and {source.width} columns could not be written "
                    f"to {path} for the workers to read: {error.strerror or error}; give the path "
                    "of its file instead, or set TMPDIR to a folder with more room"
                ) from error
            finally:
                source.close()
            self._paths[id(view)] = view, str(path)  # the view, so that its id stays its own
        return self._paths[id(view)][1]


def _write(source: Source, path: Path) -> None:
    """Write a view as a .npy file, a few rows at a time."""
    first = source.read(0, 1)
    step = max(1, WRITTEN_BYTES // first.nbytes)
    with NpyWriter(path, source.width, first.dtype) as file:
        for start in range(0, source.rows, step):
            file.append(source.read(start, start + step))


def _ended(number: int, times: int) -> LostError:
    more = f", and the {times - 1} that took its place," if times > 1 else ""
    return LostError(
        f"a worker process{more} ended without a word: it ran out of memory, was killed, or a "
        "script calls this outside of if __name__ == '__main__'",
        number,
    )
