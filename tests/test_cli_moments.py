"""`identikit moments` and `identikit merge`: files, words, exit codes, and a real kill."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import identikit as ik
from conftest import HANGS, close
from identikit.moments import Moments, accumulate
from identikit.moments._file import read_header
from test_cli import done, run

ROWS = 400


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Views a and b, whole and in two shards."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS, 4))
    Y = X @ rng.normal(size=(4, 3)) + 1
    for name, view in (("a", X), ("b", Y)):
        np.save(f"{name}.npy", view)
        np.save(f"{name}1.npy", view[:150])
        np.save(f"{name}2.npy", view[150:])
    return tmp_path


def refused(*arguments: str) -> str:
    """The one sentence of a call that is wrong."""
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (2, ""), result.output
    assert result.stderr.startswith("identikit: ")
    assert result.stderr.count("\n") == 1
    return result.stderr


def same(a: Moments, b: Moments) -> None:
    for i in range(2):
        close(a.centre(i), b.centre(i), 1e-12)
        for j in range(2):
            close(a.block(i, j), b.block(i, j), 1e-10, ROWS)


@pytest.fixture
def parts() -> list[str]:
    for part in "12":
        done("moments", f"a{part}.npy", f"b{part}.npy", "--names", "a,b", "-o", f"{part}.moments")
    return ["1.moments", "2.moments"]


def test_moments_of_files_are_those_of_the_rows():
    result = done("moments", "a.npy", "b.npy", "-o", "all.moments")
    assert result.stdout == (
        "Statistics of 400 rows in 5 folds, and a sample of 400 rows.\n"
        "Views: a (4 columns), b (3 columns).\n"
    )
    assert result.stderr == "wrote all.moments; to use it:\n  identikit audit all.moments\n"
    moments, expected = Moments.load("all.moments"), accumulate(["a.npy", "b.npy"])
    same(moments, expected)
    for fold in range(5):
        close(moments.block(0, 1, only=fold), expected.block(0, 1, only=fold), 1e-10, ROWS)
    assert np.array_equal(moments.sample.rows, expected.sample.rows)
    assert (moments.grouped, moments.seed, len(moments.shards)) == (False, 0, 1)
    assert not list(Path().glob("*.partial"))


def test_the_json_is_a_summary(folder):
    arguments = ("moments", "a.npy", "b.npy", "-o", "x.moments", "--seed", "3", "--names", "p,q")
    result = done(*arguments, "--json")
    assert result.stderr == ""
    document = json.loads(result.stdout)
    (shard,) = document.pop("shards")
    assert document == {
        "identikit": ik.__version__,
        "moments": "x.moments",
        "rows": 400,
        "dropped": 0,
        "folds": 5,
        "fold_rule": "scattered blocks of rows",
        "seed": 3,
        "sample": 400,
        "views": [{"name": "p", "dims": 4}, {"name": "q", "dims": 3}],
    }
    assert (shard["rows"], len(set(shard["digests"]))) == (400, 2)


def test_options_of_an_audit_reach_the_file():
    np.save("groups.npy", np.arange(ROWS) // 4)
    X = np.load("a.npy")
    X[7] = np.nan
    np.save("a.npy", X)
    result = done(
        *("moments", "a.npy", "b.npy", "-o", "x.moments", "--groups", "groups.npy"),
        *("--folds", "4", "--drop-nonfinite", "--memory", "1MB", "--engine", "single", "-q"),
    )
    assert result.stdout.startswith("Statistics of 399 rows in 4 folds, 1 rows left out, and a")
    assert result.stderr == ""
    moments = Moments.load("x.moments")
    assert (moments.folds, moments.dropped, moments.grouped) == (4, 1, True)
    same(
        moments,
        accumulate(["a.npy", "b.npy"], folds=4, groups=np.arange(ROWS) // 4, drop_nonfinite=True),
    )


def test_without_a_sample_the_file_holds_no_rows():
    result = done("moments", "a.npy", "b.npy", "-o", "x.moments", "--no-sample")
    assert "no sample of rows" in result.stdout
    moments = Moments.load("x.moments")
    assert (moments.sample.size, len(moments.sample.rows)) == (0, 0)
    assert moments.extremes is None
    rows, data = np.load("a.npy"), Path("x.moments").read_bytes()
    assert not any(row.tobytes() in data for row in rows)
    done("moments", "a.npy", "b.npy", "-o", "y.moments")
    assert all(row.tobytes() in Path("y.moments").read_bytes() for row in rows)
    assert "--no-sample" in done("moments", "--help").stdout.split("Options:")[0]


def test_what_is_wrong_is_said_before_the_rows_are_read():
    call = ("moments", "a.npy", "b.npy", "-o")
    assert "must end in .moments" in refused(*call, "x.json")
    assert "at least two" in refused("moments", "a.npy", "-o", "x.moments")
    assert "no directory" in refused(*call, "nope/x.moments")
    assert "no such file" in refused("moments", "a.npy", "nope.npy", "-o", "x.moments")
    assert "the budget is" in refused(*call, "x.moments", "--memory", "1kB")
    assert "engine" in refused(*call, "x.moments", "--engine", "nonsense")
    Path("x.moments").write_text("precious")
    assert "x.moments exists already" in refused(*call, "x.moments")
    assert Path("x.moments").read_text() == "precious"
    done(*call, "x.moments", "--force")
    Path("b.npy").rename("b.moments")
    assert "is one of the inputs" in refused("moments", "a.npy", "b.moments", "-o", "b.moments")


def test_merged_parts_are_the_whole(parts):
    result = done("merge", *parts, "-o", "all.moments")
    assert result.stdout == (
        "Merged 2 files with 2 shards. Statistics of 400 rows in 5 folds, and a sample of 400 "
        "rows.\nViews: a (4 columns), b (3 columns).\n"
    )
    assert result.stderr == "wrote all.moments; to use it:\n  identikit audit all.moments\n"
    same(Moments.load("all.moments"), accumulate(["a.npy", "b.npy"]))


def test_a_merge_in_json(parts):
    result = done("merge", *parts, "-o", "all.moments", "--json")
    assert result.stderr == ""
    document = json.loads(result.stdout)
    assert document["parts"] == parts
    assert document["rows"] == 400
    assert [shard["rows"] for shard in document["shards"]] == [150, 250]


def test_parts_that_call_their_views_otherwise_need_names():
    for part in "12":
        done("moments", f"a{part}.npy", f"b{part}.npy", "-o", f"{part}.moments")
    call = ("merge", "1.moments", "2.moments", "-o", "all.moments")
    assert "its views are called a2, b2, not a1, b1 (name them with --names" in refused(*call)
    done(*call, "--names", "a,b")
    assert Moments.load("all.moments").names == ("a", "b")


def test_a_merge_refuses_what_does_not_fit(parts):
    done("merge", *parts, "-o", "all.moments")
    assert "both hold the shard of 250 rows" in refused(
        "merge", "all.moments", "2.moments", "-o", "more.moments"
    )
    assert "given twice" in refused("merge", "1.moments", "./1.moments", "-o", "more.moments")
    call = ("moments", "a2.npy", "b2.npy", "--names", "a,b", "-o")
    done(*call, "ten.moments", "--folds", "10")
    assert "ten.moments does not fit 1.moments: it has 10 folds, not 5" in refused(
        "merge", "1.moments", "ten.moments", "-o", "more.moments"
    )
    np.save("groups.npy", np.arange(250))
    done(*call, "grouped.moments", "--groups", "groups.npy")
    assert "its folds are whole groups of rows" in refused(
        "merge", "1.moments", "grouped.moments", "-o", "more.moments"
    )
    assert "there is no such file" in refused("merge", "nope.moments", "-o", "more.moments")
    assert "holds no moments" in refused_kind("map")
    assert "must end in .moments" in refused("merge", *parts, "-o", "more.json")
    assert not Path("more.moments").exists()


def refused_kind(name: str) -> str:
    done("align", "a.npy", "b.npy", "-o", f"{name}.safetensors")
    return refused("merge", f"{name}.safetensors", "-o", "more.moments")


def test_a_merge_writes_over_nothing_unasked(parts):
    Path("all.moments").write_text("precious")
    assert "all.moments exists already" in refused("merge", *parts, "-o", "all.moments")
    assert Path("all.moments").read_text() == "precious"
    done("merge", *parts, "-o", "all.moments", "--force")
    before = Path("1.moments").read_bytes()
    assert "is one of the inputs" in refused("merge", *parts, "-o", "1.moments", "--force")
    assert Path("1.moments").read_bytes() == before


def test_rows_without_digests_are_told(parts):
    accumulate(["a2.npy", "b2.npy"], names=["a", "b"]).save("2.moments")
    result = done("merge", *parts, "-o", "all.moments")
    assert "Merged 2 files with 1 shards" in result.stdout
    assert "250 rows came without digests: nobody can tell" in result.stderr


# A real kill.

#: The command line with a slow disk, which notes how many rows it gives and keeps all at once.
SLOW = """
import sys, time
from pathlib import Path
import identikit.sources
from identikit.moments import read_and_save

delay, log = float(sys.argv.pop(1)), Path(sys.argv.pop(1))
read_and_save.__kwdefaults__["every"] = 0.0

class Slow:
    def __init__(self, source):
        self.source = source
        for name in ("name", "rows", "width", "eps", "origin", "files", "close"):
            setattr(self, name, getattr(source, name))

    def read(self, start, stop):
        time.sleep(delay)
        with log.open("a") as file:
            file.write(f"{stop - start}\\n")
        return self.source.read(start, stop)

opened = identikit.sources.open_sources
identikit.sources.open_sources = lambda *views: [Slow(source) for source in opened(*views)]
from identikit.cli import main
main()
"""


def slow_command(delay: float, log: str, *arguments: str) -> list[str]:
    return [sys.executable, "-c", SLOW, str(delay), log, *arguments]


def rows_read(log: str) -> int:
    return sum(int(line) for line in Path(log).read_text().split())


def test_a_killed_reading_goes_on_where_it_was():
    """SIGKILL, which no program can catch, in the middle of a reading that would take minutes."""
    rows, rng = 600 * 1024, np.random.default_rng(1)
    X = rng.normal(size=(rows, 4)) + 50
    np.save("x.npy", X)
    np.save("y.npy", X @ rng.normal(size=(4, 3)))
    done("moments", "x.npy", "y.npy", "-o", "whole.moments")
    whole = Moments.load("whole.moments")
    call = ("moments", "x.npy", "y.npy", "-o", "part.moments")
    process = subprocess.Popen(slow_command(0.2, "first.log", *call), stderr=subprocess.DEVNULL)
    kept = Path("part.moments.partial")
    try:
        while not kept.exists():
            assert process.poll() is None, "it ended before anything was kept"
            time.sleep(0.02)
    finally:
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
    assert not Path("part.moments").exists()
    assert 0 < rows_read("first.log") < 2 * rows
    assert "continue it with --resume, or delete it" in refused(*call)
    assert "the seed was 0 and is now 1" in refused(*call, "--resume", "--seed", "1")
    spans = read_header(kept).partial.spans
    finished = sum(stop - start for start, stop in spans)
    again = subprocess.run(
        slow_command(0.0, "second.log", *call, "--resume", "--json"),
        capture_output=True,
        text=True,
    )
    assert again.returncode == 0, again.stderr
    # Both views, and no row that was kept.
    assert rows_read("second.log") == 2 * (rows - finished) < 2 * rows
    assert not kept.exists()
    resumed = Moments.load("part.moments")
    assert resumed.shards == whole.shards
    assert json.loads(again.stdout)["shards"][0]["digests"] == list(whole.shards[0].digests)
    assert np.array_equal(resumed.sample.rows, whole.sample.rows)
    for fold in range(5):
        assert resumed.n(only=fold) == whole.n(only=fold)
        for i in range(2):
            close(resumed.centre(i, only=fold), whole.centre(i, only=fold), 1e-12, 50)
            for j in range(2):
                sizes = [np.sqrt(np.diagonal(whole.block(v, v))) for v in (i, j)]
                block, expected = (m.block(i, j, only=fold) for m in (resumed, whole))
                close(block, expected, 1e-12, np.outer(*sizes))


@pytest.mark.usefixtures("interruptible")
def test_a_reading_stopped_by_ctrl_c_goes_on_too():
    rows = 600 * 1024  # minutes
    np.save("x.npy", np.random.default_rng(2).normal(size=(rows, 2)))
    call = ("moments", "x.npy", "x.npy", "-o", "part.moments")
    process = subprocess.Popen(
        slow_command(0.2, "first.log", *call), stderr=subprocess.PIPE, text=True
    )
    kept = Path("part.moments.partial")
    while not kept.exists():
        assert process.poll() is None, "it ended before anything was kept"
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, words = process.communicate(timeout=HANGS)
    assert process.returncode == 130
    assert "Traceback" not in words
    assert {path.name for path in Path().glob("*part*")} == {kept.name}  # no temporary file
    assert done(*call, "--resume").stdout.startswith(f"Statistics of {rows} rows")
