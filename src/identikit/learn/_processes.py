"""Training units in processes of their own.

A worker is a fresh interpreter that is given the tasks on its standard input, then the number of
one after the other, and answers in lines of JSON. Told to stop, it saves and ends; if its input
ends without a word, its parent was killed, and it ends at once. What a unit leaves are its files:
nothing else comes back.
"""

from __future__ import annotations

import json
import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO, Any, NoReturn

import torch

from identikit._progress import Progress
from identikit.errors import InputError
from identikit.learn._fit import Fit, Outcome, Stopped, Task, finished
from identikit.learn._workers import Teller, stop_asked

COMMAND = [sys.executable, "-c", "from identikit.learn._processes import work; work()"]
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


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
    """Train units in several processes, one thread each.

    Parameters
    ----------
    tasks : sequence of Task
        The units, each with a file.
    payload : bytes
        They again, `packed`.
    workers : int
        How many processes at most.
    progress : callable, optional
        Called with (what is being done, done, of how many).
    """
    teller = Teller(tasks, progress)
    waiting = [unit for unit, task in enumerate(tasks) if finished(task) is None]
    said: queue.Queue[tuple[_Worker, dict[str, Any]]] = queue.Queue()
    with stop_asked() as stop, ExitStack() as stack:
        pool = [stack.enter_context(_Worker(said)) for _ in waiting[:workers]]
        for worker in pool:
            worker.send(payload)
            worker.give(waiting.pop(0))
        busy = set(pool)
        while busy:
            if stop():
                raise KeyboardInterrupt
            try:
                worker, message = said.get(timeout=0.1)
            except queue.Empty:
                continue
            if "step" in message:
                teller.of(worker.unit)(message["step"], message["loss"])
            elif "done" in message:
                teller.end(worker.unit)
                if waiting:
                    worker.give(waiting.pop(0))
                else:
                    busy.remove(worker)
            else:
                worker.fail(message)
    return [_ended(task) for task in tasks]


def _ended(task: Task) -> Outcome:
    outcome = finished(task)
    assert outcome is not None  # its worker said so
    return outcome


class _Worker:
    """The parent's end of a process."""

    def __init__(self, said: queue.Queue[tuple[_Worker, dict[str, Any]]]) -> None:
        self.unit = -1
        path = os.pathsep.join(entry or str(Path.cwd()) for entry in sys.path)
        self.process = subprocess.Popen(
            COMMAND,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **ONE_THREAD, "PYTHONPATH": path},
        )
        self.said = said
        self.listener = threading.Thread(target=self._listen, daemon=True)

    def __enter__(self) -> _Worker:
        self.listener.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._write(b"stop\n")
        with suppress(BrokenPipeError):
            self._input.close()
        self.process.wait()
        self.listener.join()
        assert self.process.stdout is not None
        self.process.stdout.close()

    @property
    def _input(self) -> IO[bytes]:
        assert self.process.stdin is not None
        return self.process.stdin

    def send(self, payload: bytes) -> None:
        self._write(len(payload).to_bytes(8, "little") + payload)

    def give(self, unit: int) -> None:
        self.unit = unit
        self._write(f"{unit}\n".encode())

    def _write(self, data: bytes) -> None:
        # If it has ended, the listener will say so.
        with suppress(BrokenPipeError):
            self._input.write(data)
            self._input.flush()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said.put((self, json.loads(line)))
        self.said.put((self, {"ended": self.process.wait()}))

    def fail(self, message: dict[str, Any]) -> NoReturn:
        if "input" in message:
            raise InputError(message["input"])
        if "error" in message:
            raise RuntimeError(f"a training process failed:\n{message['error']}")
        raise RuntimeError(
            f"a training process ended with code {message['ended']}, perhaps for lack of memory; "
            "train again with the same folder to go on, or with together=False"
        )


def work() -> None:
    """What a worker does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    torch.set_num_threads(1)
    # Whatever a network prints goes to standard error, and not between the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    source = sys.stdin.buffer
    tasks: list[Task] = pickle.loads(source.read(int.from_bytes(source.read(8), "little")))
    orders: queue.Queue[int | None] = queue.Queue()
    stopped = threading.Event()

    def listen() -> None:
        for line in source:
            if line == b"stop\n":
                stopped.set()
                orders.put(None)
                return
            orders.put(int(line))
        os._exit(1)  # what is on disk is whole; another training may be at work on it already

    def say(**message: Any) -> None:
        with suppress(BrokenPipeError):
            print(json.dumps(message), file=answers, flush=True)

    threading.Thread(target=listen, daemon=True).start()
    while (unit := orders.get()) is not None:
        try:
            Fit(tasks[unit]).run(lambda step, loss: say(step=step, loss=loss), stopped.is_set)
            say(done=unit)
        except Stopped:
            break
        except InputError as error:
            say(input=str(error))
        except Exception:
            say(error=traceback.format_exc())
