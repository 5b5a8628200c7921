"""Processes that compute units: one thread each, and none outlives the one that started it."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context, resource_tracker
from multiprocessing.connection import Connection

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


def cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def pool(workers: int) -> Iterator[ProcessPoolExecutor]:
    """Processes that end at once if the block raises, or if this process ends in whatever way.

    They watch one end of a pipe. The system closes the other end when this process ends, even if
    it is killed; if the block raises, it is closed here.

    Parameters
    ----------
    workers : int
        How many.
    """
    context = get_context("spawn")
    watched, leash = context.Pipe(duplex=False)
    executor = ProcessPoolExecutor(workers, context, _prepare, (watched,))
    try:
        with _deaf():
            for _ in range(workers):
                executor.submit(int)  # which starts another, since none is idle yet
        yield executor
    except BaseException:
        leash.close()
        raise
    finally:
        executor.shutdown(cancel_futures=True)
        leash.close()
        watched.close()


@contextmanager
def _deaf() -> Iterator[None]:
    """Hold back Ctrl-C; a process that is started meanwhile never hears it, not even at first."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # it would lift the mask when the first process starts it
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _prepare(watched: Connection) -> None:
    """Make this process one of `pool`: one thread, and deaf to Ctrl-C, which is for its parent."""
    from threadpoolctl import threadpool_limits  # comes with scikit-learn

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_watch, args=(watched,), daemon=True).start()
    # Libraries that are loaded later read the variables.
    os.environ |= dict.fromkeys(THREADS, "1")
    threadpool_limits(1)
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)


def _watch(watched: Connection) -> None:
    try:
        watched.recv_bytes()
    except (EOFError, OSError):
        os._exit(1)
