"""What happens on the way: workers and schedulers that end, files that change, Ctrl-C."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conftest import HANGS
from engine_views import Deadly, Gate, pid_of
from identikit.errors import InputError
from identikit.moments import accumulate
from identikit.moments.engines import Dask, LostError, Pool, _dask
from identikit.sources import open_source
from test_engines import same

pytestmark = pytest.mark.long

HERE = Path(__file__).parent
ROWS = 8000
ENGINES = ["pool", pytest.param("dask", marks=pytest.mark.extra("dask"))]


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    with Pool(2) as engine:
        yield engine


@pytest.fixture(scope="module")
def dask() -> Iterator[Dask]:
    pytest.importorskip("distributed")
    with Dask(workers=2) as engine:
        yield engine


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue(request.param)


@pytest.fixture
def paths(tmp_path: Path, rng: np.random.Generator) -> list[str]:
    """Two views in files."""
    for name in ("x", "y"):
        np.save(tmp_path / f"{name}.npy", rng.normal(size=(ROWS, 4)))
    return [str(tmp_path / f"{name}.npy") for name in ("x", "y")]


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    folder = tmp_path / "gate"
    folder.mkdir()
    return folder


def waiting(gate: Path) -> list[int]:
    """The processes that stand at a gate, once there is one."""
    deadline = time.monotonic() + HANGS
    while not (found := list(gate.glob("pid-*"))):
        assert time.monotonic() < deadline, "nobody came to the gate"
        time.sleep(0.01)
    return [int(path.name.removeprefix("pid-")) for path in found]


@contextmanager
def meanwhile(gate: Path, happens: Callable[[int], object]) -> Iterator[None]:
    """Do something while a reader stands at a gate, then open it."""
    failed: list[BaseException] = []

    def run() -> None:
        try:
            happens(waiting(gate)[0])
        except BaseException as error:
            failed.append(error)
        finally:
            (gate / "open").touch()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        thread.join()
    assert not failed, failed


def kill(pid: int) -> None:
    assert pid != os.getpid()
    os.kill(pid, signal.SIGKILL)


def alive(pid: int) -> bool:
    try:
        # A process that has ended, but whose parent has not asked for its code, counts as ended.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def ended(pids: list[int]) -> bool:
    """Whether processes end at all."""
    deadline = time.monotonic() + HANGS
    while any(alive(pid) for pid in pids):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


# Workers that end


@pytest.mark.parametrize("in_memory", [False, True])
def test_a_worker_that_is_killed_is_made_up_for(
    engine: Any, paths: list[str], gate: Path, in_memory: bool
):
    second: Any = np.load(paths[1]) if in_memory else paths[1]
    heard: list[int] = []
    with meanwhile(gate, kill):
        found = accumulate(
            [Gate(paths[0], str(gate), 3000), second],
            names=["x", "y"],
            engine=engine,
            progress=lambda _what, done, _of: heard.append(done),
        )
    same(found, accumulate(paths))
    assert found.rows == ROWS
    assert len(heard) == 8  # each range of rows is told of once
    assert heard == sorted(heard)
    assert heard[-1] == ROWS


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("pool", "a worker process, and the 2 that replaced it, died without an error"),
        pytest.param(
            "dask", "several workers .* in turn died on the same", marks=pytest.mark.extra("dask")
        ),
    ],
)
def test_rows_that_kill_whoever_reads_them(
    request: pytest.FixtureRequest, name: str, says: str, paths: list[str]
):
    engine = request.getfixturevalue(name)
    with pytest.raises(LostError, match=says):
        accumulate([Deadly(paths[0], 3000)], engine=engine)
    assert accumulate(paths, engine=engine).rows == ROWS


def test_a_pool_goes_on_whenever_its_workers_are_killed():
    """Results come all the time, so that a worker ends while others are given something to do."""
    with Pool(2) as engine:
        found: dict[int, int] = {}
        for number, pid in engine.map(pid_of, range(300)):
            assert number not in found
            found[number] = pid
            if number in (50, 51, 200):
                with suppress(ProcessLookupError):  # it has ended already
                    kill(pid)
    assert sorted(found) == list(range(300))
    assert len(set(found.values())) > 2


SCRIPT_WITHOUT_GUARD = """
import numpy as np
from identikit.moments import accumulate
print(accumulate([np.eye(9)], engine="pool").rows)
"""


def test_a_script_needs_no_guard(tmp_path: Path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT_WITHOUT_GUARD)
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, cwd=tmp_path, timeout=HANGS
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "9\n", "")


@pytest.mark.extra("dask")
def test_workers_that_never_were_and_that_are_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    distributed = pytest.importorskip("distributed")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # where it leaves a folder
    monkeypatch.setattr(_dask, "PATIENCE", 0.2)
    monkeypatch.setattr(_dask, "SILENCE", 0.1)
    with distributed.LocalCluster(
        n_workers=0,
        processes=False,
        protocol="tcp://",
        dashboard_address=None,
        scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},
        silence_logs=logging.CRITICAL,
    ) as cluster:
        address = cluster.scheduler_address
        with pytest.raises(InputError, match=f"{address} has no workers; start some with: dask w"):
            Dask(address)
        cluster.scale(1)
        cluster.wait_for_workers(1)
        with Dask(address) as engine:
            assert dict(engine.map(abs, [-1])) == {0: 1}
            cluster.scale(0)
            with pytest.raises(LostError, match=f"{address} has no workers left; start some"):
                dict(engine.map(abs, [-1]))


# A scheduler that is lost


@pytest.mark.extra("dask")
def test_a_scheduler_that_is_lost(paths: list[str], gate: Path, capfd: pytest.CaptureFixture[str]):
    pytest.importorskip("distributed")
    with Dask(workers=1) as engine:
        scheduler = engine._client.run_on_scheduler(os.getpid)
        pids: list[int] = []

        def lose(pid: int) -> None:
            pids.append(pid)
            kill(scheduler)

        with (
            meanwhile(gate, lose),
            pytest.raises(
                InputError, match=f"scheduler at {engine.address} was lost, and there is"
            ),
        ):
            accumulate([Gate(paths[0], str(gate), 10)], engine=engine)
        with pytest.raises(InputError, match=f"scheduler at {engine.address} was lost"):
            accumulate([np.load(paths[0])], engine=engine)
    assert ended(pids)
    assert capfd.readouterr() == ("", "")


# Files that change meanwhile


@pytest.mark.parametrize("name", [None, *ENGINES])
@pytest.mark.parametrize("what", ["disappears", "shrinks", "grows"])
def test_a_file_that_changes_while_it_is_read(
    request: pytest.FixtureRequest, name: str | None, what: str, paths: list[str], gate: Path
):
    engine = None if name is None else request.getfixturevalue(name)
    path = Path(paths[1])

    def change(_: int) -> None:
        if what == "disappears":
            path.unlink()
        elif what == "shrinks":
            os.truncate(path, path.stat().st_size // 3)
        else:
            with path.open("ab") as file:
                file.write(b"more")

    with meanwhile(gate, change), pytest.raises(InputError) as caught:
        accumulate([Gate(paths[0], str(gate), 10), path], block_rows=1000, engine=engine)
    said = str(caught.value)
    assert str(path) in said
    if what == "disappears" and name == "dask":
        assert "does not find it; every worker must find the files under the same paths" in said


@pytest.mark.extra("dask")
def test_a_file_that_only_this_process_sees(dask: Dask, paths: list[str]):
    """As if the workers stood elsewhere: they are asked for a file that is not there."""
    missing = "/no/such/folder/x.npy"

    def opened(views: list[str], _: object) -> int:
        return open_source(views[0]).rows

    says = f"{missing}.*: the worker at tcp://.* does not find it; every worker must find"
    with pytest.raises(InputError, match=says):
        dask.reduce(opened, [missing], [(None, 0, 5)], lambda _: None)


# Ctrl-C, and a process that is killed


INTERRUPTED = """
import sys
from engine_views import Gate
from identikit.moments import accumulate
from identikit.sources import open_source
if __name__ == "__main__":
    engine, path, gate = sys.argv[1:]
    accumulate([Gate(path, gate, 10), open_source(path).read(0, 8000)], engine=engine)
"""


@pytest.fixture
def temporary(tmp_path: Path) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    return folder


@contextmanager
def started(name: str, path: str, gate: Path, temporary: Path) -> Iterator[subprocess.Popen[str]]:
    """A script that reads views, as a shell starts it: a process group of its own."""
    if name == "dask":
        pytest.importorskip("distributed")
    source = [str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])]
    script = temporary.parent / "script.py"
    script.write_text(INTERRUPTED)
    with subprocess.Popen(
        [sys.executable, str(script), name, path, str(gate)],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(temporary), "PYTHONPATH": os.pathsep.join(source)},
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()  # of no effect if all went well


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("name", ENGINES)
def test_ctrl_c_does_not_wait_and_leaves_nothing(
    name: str, paths: list[str], gate: Path, temporary: Path
):
    with started(name, paths[0], gate, temporary) as process:
        pids = waiting(gate)
        assert list(temporary.iterdir())
        os.killpg(process.pid, signal.SIGINT)
        # Those at the gate would wait for ever.
        _, said = process.communicate(timeout=HANGS)
    assert process.returncode == -signal.SIGINT
    assert said.count("Traceback") == 1
    assert said.strip().endswith("KeyboardInterrupt")
    assert list(temporary.iterdir()) == []
    assert process.pid not in pids
    assert ended(pids)


@pytest.mark.parametrize("name", ENGINES)
def test_workers_end_with_a_process_that_is_killed(
    name: str, paths: list[str], gate: Path, temporary: Path
):
    with started(name, paths[0], gate, temporary) as process:
        pids = waiting(gate)
        process.kill()
        process.communicate()
    assert ended(pids)
