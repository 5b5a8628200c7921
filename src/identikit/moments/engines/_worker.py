"""A process of a pool, seen from inside and from outside."""

from __future__ import annotations

import os
import pickle
import queue
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import get_context, resource_tracker
from multiprocessing.connection import Connection
from typing import Any

from identikit.errors import InputError, MissingExtraError

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


class Worker:
    """A process that does one item after the other.

    One pipe leads to it and back. If this process ends, even if it is killed, the system closes
    the pipe, and the worker ends too; if the worker ends, this side finds the pipe closed.

    Attributes
    ----------
    connection : Connection
        This end of the pipe.
    item : int or None
        The number of the item it is at.
    up : bool
        Whether it has been heard of.
    """

    def __init__(self) -> None:
        context = get_context("spawn")
        self.connection, there = context.Pipe()
        self.item: int | None = None
        self.up = False
        self._task: bytes | None = None
        self._process = context.Process(target=_work, args=(there,), daemon=True)
        with deaf():
            self._process.start()
        there.close()

    def give(self, task: bytes, number: int, item: object) -> None:
        """Hand over an item; the pickled task too, unless that is the one it has."""
        self.item = number
        with suppress(OSError):  # it has ended, as whoever listens to it will find
            self.connection.send((None if task is self._task else task, item))
        self._task = task

    def hear(self) -> tuple[Any, Exception | None] | None:
        """Its answer, a result or an error; None the first time, when it is up."""
        answer: tuple[Any, Exception | None] | None = self.connection.recv()
        self.up = True
        return answer

    def kill(self) -> None:
        """End it, whatever it is doing."""
        self._process.kill()
        self._process.join()
        self._process.close()
        self.connection.close()


@contextmanager
def deaf() -> Iterator[None]:
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


def _work(connection: Connection) -> None:
    """Do what comes down the pipe until it is closed: one thread, deaf to Ctrl-C."""
    from threadpoolctl import threadpool_limits

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    given: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(connection, given), daemon=True).start()
    # Libraries that are loaded later read the variables.
    os.environ |= dict.fromkeys(THREADS, "1")
    threadpool_limits(1)
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
    connection.send(None)
    task: Callable[[Any], Any] | None = None
    while True:
        try:
            packed, item = pickle.loads(given.get())
            task = task if packed is None else pickle.loads(packed)
            assert task is not None  # it comes with the first item
            answer = pickle.dumps((task(item), None), pickle.HIGHEST_PROTOCOL)
        except Exception as error:
            answer = _told(error)
        connection.send_bytes(answer)


def _listen(connection: Connection, given: queue.SimpleQueue[bytes]) -> None:
    try:
        while True:
            given.put(connection.recv_bytes())
    except (EOFError, OSError):
        os._exit(1)


def _told(error: Exception) -> bytes:
    """An error as it travels back, with its trace unless its sentence says all."""
    trace = traceback.format_exc()
    if not isinstance(error, InputError | MissingExtraError):
        error.add_note(trace)
    try:
        answer = pickle.dumps((None, error))
        pickle.loads(answer)  # which not every exception survives
    except Exception:
        answer = pickle.dumps((None, RuntimeError(trace)))
    return answer
