"""Threads: how many BLAS may use, and work on several matrices at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from itertools import chain, islice
from typing import Any, TypeVar

T = TypeVar("T")
R = TypeVar("R")


@cache
def _blas() -> Any:
    from threadpoolctl import ThreadpoolController  # a dependency of scikit-learn

    return ThreadpoolController()


class _OneThread:
    """Limits BLAS to one thread while any thread of this process is inside."""

    def __init__(self) -> None:
        self.lock, self.inside, self.outside = threading.Lock(), 0, 1
        self.limit: Any = None

    def __enter__(self) -> None:
        with self.lock:
            if not self.inside:
                self.outside = _blas_threads()
                self.limit = _blas().limit(limits=1)
            self.inside += 1

    def __exit__(self, *_: object) -> None:
        with self.lock:
            self.inside -= 1
            if not self.inside:
                self.limit.restore_original_limits()


_ONE_THREAD = _OneThread()

#: Whether this thread is one of `in_threads`, which then does not start others.
_WORKER = threading.local()


def one_thread(size: int = 64) -> AbstractContextManager[Any]:
    """Limit BLAS to one thread for work on matrices of moderate size.

    LAPACK's reductions consist of many small steps that end in a barrier. A second thread gains a
    few per cent on an idle machine, but costs a factor of 50 if another process uses the second
    core. NumPy and SciPy each have their own BLAS, and idle threads of one slow down the other.
    """
    return _ONE_THREAD if 64 <= size <= 2048 else nullcontext()


def blas_threads() -> int:
    """Number of threads that BLAS may use: the cores, or what the user or a pool has set."""
    return _ONE_THREAD.outside if _ONE_THREAD.inside else _blas_threads()


def _blas_threads() -> int:
    return max(int(library["num_threads"]) for library in _blas().info())


def in_threads(
    function: Callable[[T], R], items: Iterable[T], size: int = 64, most: int | None = None
) -> Iterator[R]:
    """``map(function, items)`` in as many threads as BLAS may use, each with a BLAS of one thread.

    Decompositions of matrices of a few hundred columns hardly gain from threads of their own, but
    several at a time do: LAPACK and NumPy release the interpreter's lock. Work inside a thread, on
    a single item, or on matrices of a `size` for which `one_thread` does nothing is done one after
    another. `most` is the largest number of threads.
    """
    items = iter(items)
    first = [*islice(items, 2)]
    threads = 1 if getattr(_WORKER, "busy", False) or len(first) < 2 else most or blas_threads()
    if threads < 2 or not 64 <= size <= 2048:
        yield from map(function, chain(first, items))
        return

    def busy() -> None:
        _WORKER.busy = True

    with one_thread(), ThreadPoolExecutor(threads, initializer=busy) as pool:
        running = [pool.submit(function, item) for item in first]
        try:
            while running:
                ahead = 2 * threads - len(running)
                running += [pool.submit(function, item) for item in islice(items, ahead)]
                yield running.pop(0).result()
        finally:
            for future in running:
                future.cancel()


@contextmanager
def no_threads() -> Iterator[None]:
    """Let `in_threads` of this thread do its work one after another, to save memory."""
    before, _WORKER.busy = getattr(_WORKER, "busy", False), True
    try:
        yield
    finally:
        _WORKER.busy = before
