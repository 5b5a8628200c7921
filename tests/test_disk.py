"""A full disk, two writers of one file, Ctrl-C: what was there is intact, nothing is left behind.

A limit on the size of files stands in for a full disk: the system answers a write in the same way.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest

import identikit as ik
from conftest import HANGS
from identikit.moments import load_moments

pytestmark = pytest.mark.long

ROWS = 3000
OLD = b"what was there before\n"
FULL = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    A = rng.normal(size=(ROWS, 4))
    np.save("a.npy", A)
    np.save("b.npy", A @ rng.normal(size=(4, 4)) + 1)
    np.save("c.npy", rng.normal(size=(ROWS, 4)))
    return tmp_path


def files(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, hidden ones too."""
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def run(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), *arguments],
        capture_output=True,
        text=True,
        timeout=HANGS,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )


def on_a_full_disk(script: str, *arguments: str, limit: int = 200) -> str:
    """Run a script that must fail for want of space, and change nothing; what it says at last."""
    before = files(Path())
    ended = run(FULL.format(limit=limit) + textwrap.dedent(script), *arguments)
    assert ended.returncode == 2, ended.stderr
    assert "Traceback" not in ended.stderr
    assert files(Path()) == before
    said = ended.stderr.splitlines()[-1]
    assert "cannot write" in said
    assert said.endswith("what was there before is untouched")
    return said


COMMAND = "import sys; from identikit.cli import main; main()"
#: For what has no verb of its own; errors end it as they end a verb.
TRY = """
from pathlib import Path
import numpy as np
from identikit.errors import InputError
def attempt(what):
    try:
        what()
    except InputError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
"""


@pytest.mark.parametrize(
    "command",
    [
        "audit a.npy b.npy --report out.html",
        "audit a.npy b.npy -o out.json",
        "audit a.npy b.npy --save-moments out.moments",
        "align a.npy b.npy --force -o out.safetensors",
        "moments a.npy b.npy --force -o out.moments",
        "merge m.moments --force -o out.moments",
        "apply map.safetensors a.npy --force -o out.npy",
    ],
)
def test_a_full_disk(command: str):
    ik.accumulate(["a.npy", "b.npy"]).save("m.moments")
    ik.align("a.npy", "b.npy").save("map.safetensors")
    words = command.split()
    Path(words[-1]).write_bytes(OLD)
    assert words[-1] in on_a_full_disk(COMMAND, *words)


def test_the_result_is_printed_before_the_disk_is_full():
    ended = run(FULL.format(limit=600) + COMMAND, "audit", "a.npy", "b.npy", "--json", "-o", "o")
    assert ended.returncode == 2
    assert json.loads(ended.stdout) == json.loads(ik.audit(["a.npy", "b.npy"]).to_json())


def test_the_limit_is_what_fails():
    ended = run(FULL.format(limit=10**9) + COMMAND, "audit", "a.npy", "b.npy", "-o", "out.json")
    assert ended.returncode == 0, ended.stderr
    assert Path("out.json").stat().st_size > 600


READING = """
from identikit.moments import assign_folds, read_and_save
from identikit.sources import open_sources
def read(stop):
    sources = open_sources(["long.npy", "long.npy"])
    def progress(_what, done, rows):
        if done >= stop:
            raise InputError("enough")
    try:
        folds = assign_folds(sources[0].rows, 5)
        read_and_save(
            sources, folds, "out.moments", resume=True, every=0, progress=progress
        )
    finally:
        for source in sources:
            source.close()
"""


def test_what_was_kept_of_a_reading_survives_a_full_disk():
    rng = np.random.default_rng(0)
    np.save("long.npy", rng.normal(size=(60_000, 2)))
    ended = run("import sys\n" + TRY + READING + "attempt(lambda: read(20_000))")
    assert (ended.returncode, ended.stderr) == (2, "enough\n")
    assert Path("out.moments.partial").exists()
    said = on_a_full_disk(TRY + READING + "attempt(lambda: read(10**9))")
    assert "out.moments.partial" in said
    ended = run("import sys\n" + TRY + READING + "attempt(lambda: read(10**9))")
    assert ended.returncode == 0, ended.stderr
    assert not Path("out.moments.partial").exists()
    whole, found = ik.accumulate(["long.npy", "long.npy"]), load_moments("out.moments")
    assert found.rows == 60_000
    np.testing.assert_allclose(found.block(0, 1), whole.block(0, 1), rtol=1e-10)


EXTRACTED = """
import torch
from identikit import extract
def write(rows, files):
    net = torch.nn.Sequential(*(torch.nn.Identity() for _ in range(files)))
    # By so few at a time that the file is full when it is closed, not before.
    batches = (torch.ones(1, 4) for _ in range(rows))
    extract.module(net, batches, [str(n) for n in range(files)], "out", overwrite=True)
"""


@pytest.mark.extra("torch")
@pytest.mark.parametrize("rows", [100, 10_000])
def test_an_extraction_on_a_full_disk(rows: int):
    script = TRY + EXTRACTED
    ended = run("import sys\n" + script + "attempt(lambda: write(3, 1))")
    assert ended.returncode == 0, ended.stderr
    said = on_a_full_disk(script + f"attempt(lambda: write({rows}, 2))")
    assert "out" in said
    assert sorted(path.name for path in Path().iterdir()) == ["a.npy", "b.npy", "c.npy", "out"]
    assert np.load("out/0.npy").shape == (3, 4)


STUDY = """
from identikit.studies import Record
from identikit.studies._store import write_unit
def write():
    record = Record([{"row": 1}], {"array": np.ones(1000)})
    write_unit(Path("unit.safetensors"), record, "digest", 1.0)
attempt(write)
"""


def test_a_unit_of_a_study_on_a_full_disk():
    Path("unit.safetensors").write_bytes(OLD)
    assert "unit.safetensors" in on_a_full_disk(TRY + STUDY)
    ended = run("import sys\n" + TRY + STUDY)
    assert ended.returncode == 0, ended.stderr


# Two writers

WRITER = """
import sys
import identikit as ik
view = sys.argv[1]
audit = ik.audit(["a.npy", view], names=["a", view])
moments = ik.accumulate(["a.npy", view], names=["a", view])
fitted = ik.align("a.npy", view, names=["a", view])
print("ready", flush=True)
sys.stdin.readline()
for _ in range(3):
    audit.save("out.json")
    audit.report("out.html")
    moments.save("out.moments")
    fitted.save("out.safetensors")
"""


def whole_page(path: Path) -> str:
    text = path.read_text().strip()
    assert text.lower().startswith("<!doctype html>")
    assert text.endswith("</html>")
    return text


def test_two_writers_of_the_same_files(folder: Path):
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, view],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for view in ("b.npy", "c.npy")
    ]
    whole = {
        json.dumps(json.loads(ik.audit(["a.npy", view], names=["a", view]).to_json()))
        for view in ("b.npy", "c.npy")
    }
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdin is not None
        assert writer.stdout.readline() == "ready\n"
        writer.stdin.write("go\n")
        writer.stdin.flush()
    names = {"b.npy", "c.npy"}
    look = {
        "out.json": lambda path: json.dumps(json.loads(path.read_text())),
        "out.html": whole_page,
        "out.moments": lambda path: load_moments(path).names[1],
        "out.safetensors": lambda path: ik.load_map(path).target_,
    }
    found: dict[str, set[str]] = {name: set() for name in look}
    reads = 0
    while any(writer.poll() is None for writer in writers):
        for name in look:
            if Path(name).exists():
                found[name].add(look[name](Path(name)))
                reads += 1
    for writer in writers:
        writer.communicate()
        assert writer.returncode == 0
    assert reads
    assert found["out.json"] <= whole
    assert len(found["out.html"]) <= 2
    assert found["out.moments"] | found["out.safetensors"] <= names
    assert {path.name for path in folder.iterdir()} == {"a.npy", "b.npy", "c.npy", *look}


def test_two_audits_that_write_the_same_report(folder: Path):
    """Whole processes, as two shells start them."""
    command = [sys.executable, "-m", "identikit", "audit", "a.npy"]
    end = ["--report", "out.html", "-o", "out.json", "--quiet"]
    both = [subprocess.Popen([*command, view, *end]) for view in ("b.npy", "c.npy")]
    assert [process.wait(HANGS) for process in both] == [0, 0]
    found = json.loads(Path("out.json").read_text())
    assert found["pairs"][0]["b"] in ("b", "c")
    whole_page(Path("out.html"))
    assert {path.name for path in folder.iterdir()} == {
        *("a.npy", "b.npy", "c.npy", "out.html", "out.json")
    }


# Ctrl-C


def hollow(name: str, rows: int, width: int) -> None:
    """A large file that takes no room: it is all hole, and reads as zeros."""
    with Path(name).open("wb") as file:
        header = {"descr": "<f4", "fortran_order": False, "shape": (rows, width)}
        np.lib.format.write_array_header_1_0(file, header)
        file.truncate(file.tell() + 4 * rows * width)


def processor_seconds(pid: int) -> float:
    """What a process and its threads have used; its name, in brackets, may hold spaces."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("extra", [[], ["--engine", "pool", "--workers", "2"]])
def test_ctrl_c_while_a_large_file_is_read(folder: Path, extra: list[str]):
    # 16 GB each, which take minutes.
    for name in ("x.npy", "y.npy"):
        hollow(name, 10**8 // 2, 80)
    Path("out.json").write_bytes(OLD)
    temporary = folder / "temporary"
    temporary.mkdir()
    command = [sys.executable, "-m", "identikit", "audit", "x.npy", "y.npy", *extra]
    process = subprocess.Popen(
        [*command, "--report", "out.html", "-o", "out.json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(temporary)},
        start_new_session=True,
    )
    try:
        reading = [process.pid]
        if extra:
            reading = children(process.pid)
            while len(reading) < 2 and process.poll() is None:
                time.sleep(0.1)
                reading = children(process.pid)
        # Longer than all the imports take.
        while process.poll() is None and max(map(processor_seconds, reading)) < 4:
            time.sleep(0.1)
        assert process.poll() is None, process.communicate()
        os.killpg(process.pid, signal.SIGINT)
        out, said = process.communicate(timeout=HANGS)
    finally:
        process.kill()
    assert process.returncode == 130
    assert out == ""
    assert "Traceback" not in said
    assert said.splitlines()[-1] == "identikit: interrupted; no file was left half written"
    assert list(temporary.iterdir()) == []
    assert Path("out.json").read_bytes() == OLD
    left = {path.name for path in folder.iterdir()}
    assert left == {"a.npy", "b.npy", "c.npy", "x.npy", "y.npy", "out.json", "temporary"}


def children(pid: int) -> list[int]:
    """The processes that a process has started and that are still there."""
    found = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        found += [int(child) for child in path.read_text().split()]
    return found
