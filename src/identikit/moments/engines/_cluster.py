"""Starting a temporary Dask cluster on this machine, and connecting to one elsewhere."""

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

#: Seconds to wait for a scheduler to answer, and for its first worker.
PATIENCE = 10

#: The scheduler and the processes that monitor the workers run in a separate process, because they
#: change the environment, sys.path and the log of the process in which they run. It ends together
#: with its workers when its standard input is closed.
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
    """Start a cluster of processes on this machine, with one thread each, and give its address."""
    if workers < 1:
        raise InputError(f"a cluster needs at least 1 worker; got workers={workers}")
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
                    start_new_session=True,  # not reached by Ctrl-C, and can be killed as a whole
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
    """A client of the scheduler at an address such as "tcp://host:8786"."""
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
    """Kill a process and all processes that it has started."""
    with process, suppress(ProcessLookupError):  # `process` closes the pipes, and waits
        os.killpg(process.pid, signal.SIGKILL)


def _last_line(log: Path) -> str:
    return log.read_text(errors="replace").strip().rpartition("\n")[2] or "there is no output"


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence Dask's log, because our errors say the same in one sentence."""
    log = logging.getLogger("distributed")
    before = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(before)
