"""A Dask cluster on this machine for as long as it is needed, and the way to one elsewhere."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from identikit.errors import InputError, require

#: Seconds that a scheduler has to answer, and its first worker to be there.
PATIENCE = 10

#: A process of its own for the scheduler and those who watch over the workers, since they leave
#: traces where they run: in the environment, in sys.path, in the log. It ends, and the workers with
#: it, when its input does.
SCRIPT = """
import os, signal, sys
answer = os.dup(1)
os.dup2(2, 1)  # what workers print must not be taken for the answer
if __name__ == "__main__":
    import dask
    dask.config.set({
        "temporary-directory": sys.argv[2],
        # On a busy machine it takes a worker long to be back, and it must not be given up for lost.
        "distributed.deploy.lost-worker-timeout": "1 hour",
    })
    from distributed import LocalCluster
    cluster = LocalCluster(
        n_workers=int(sys.argv[1]), threads_per_worker=1, processes=True, dashboard_address=None,
        # Not at the usual place, which the user may want for a cluster of theirs.
        scheduler_kwargs={"dashboard": False, "dashboard_address": "127.0.0.1:0"},
    )
    os.write(answer, cluster.scheduler_address.encode() + b"\\n")
    sys.stdin.read()
    os.killpg(0, signal.SIGKILL)
"""


@contextmanager
def local_cluster(workers: int) -> Iterator[str]:
    """The address of a cluster of processes on this machine, with one thread each.

    Parameters
    ----------
    workers : int
        How many processes.
    """
    if workers < 1:
        raise InputError(f"a cluster of {workers} workers does nothing; give at least 1")
    process = None
    path = os.pathsep.join(entry or str(Path.cwd()) for entry in sys.path)
    with TemporaryDirectory(prefix="identikit-") as folder:
        log = Path(folder, "log")
        try:
            with log.open("wb") as said:
                process = subprocess.Popen(
                    [sys.executable, "-c", SCRIPT, str(workers), folder],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=said,
                    env=os.environ | {"PYTHONPATH": path},
                    start_new_session=True,  # which Ctrl-C does not reach, and which ends as one
                )
            assert process.stdout is not None
            address = process.stdout.readline().decode().strip()
            if not address:
                raise InputError(f"no Dask cluster could be started here: {_last_line(log)}")
            yield address
        finally:
            if process is not None:
                _end(process)


@contextmanager
def client_of(address: str) -> Iterator[Any]:
    """A client of the scheduler at this address.

    Parameters
    ----------
    address : str
        Such as "tcp://host:8786".
    """
    distributed = require("distributed", "dask", "the Dask engine")
    with _quiet():
        try:
            client = distributed.Client(address, timeout=PATIENCE, set_as_default=False)
        except (OSError, ValueError) as error:
            raise InputError(
                f"no Dask scheduler answers at {address} ({error}); check the address, or start "
                "one with: dask scheduler"
            ) from error
        with client:
            yield client


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process and all that it has started, whatever they are doing."""
    with process, suppress(ProcessLookupError):  # the first closes the pipes, and waits
        os.killpg(process.pid, signal.SIGKILL)


def _last_line(log: Path) -> str:
    return log.read_text(errors="replace").strip().rpartition("\n")[2] or "it said nothing"


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep Dask's log to itself: what it says, the error says in one sentence."""
    log = logging.getLogger("distributed")
    before = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(before)
