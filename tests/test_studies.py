"""Studies: what a run writes, how it resumes, what it refuses, and what it reads."""

from __future__ import annotations

import gzip
import io
import json
import lzma
import os
import re
import shlex
import signal
import subprocess
import sys
import tarfile
import time
from collections import Counter
from dataclasses import replace
from math import inf, nan
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from rich.console import Console
from typer.testing import CliRunner

from conftest import HANGS, close
from identikit.cli import app
from identikit.errors import InputError, MissingExtraError
from identikit.moments.engines import THREADS, cores
from identikit.report import BAD, DOUBTFUL, GOOD
from identikit.studies import (
    CIFAR10,
    CORPORA,
    INCONCLUSIVE,
    NOT,
    REPRODUCED,
    UNMEASURED,
    Claim,
    Data,
    Finding,
    Need,
    Record,
    Settings,
    Study,
    Work,
    find,
    judge,
    load,
    mean_interval,
    print_study,
    run,
)
from identikit.studies._report import headline, holm, tone
from study_units import (
    check_toy,
    fails,
    of_all_kinds,
    package_with,
    plain_threads,
    square,
    torch_threads,
    toy,
)

HERE = Path(__file__).parent


def work_in(folder: Path, digest: str = "d", **settings: Any) -> Work:
    (folder / "units").mkdir(exist_ok=True)
    return Work(folder, Settings(settings), Data(), digest)


@pytest.fixture
def diary(tmp_path: Path) -> Path:
    return tmp_path / "diary"


def computed(diary: Path) -> list[int]:
    return [int(line.split()[0]) for line in diary.read_text().splitlines()]


# Without PyTorch


WITHOUT_TORCH = """
import sys
class Without:
    def find_spec(name, *_):
        if name.split(".")[0] in ("torch", "transformers"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Without)
from identikit.cli import main
sys.argv[0] = "identikit"
main()
"""


@pytest.mark.parametrize(
    ("arguments", "says"),
    [(["list"], "\nnielsen-small-kl "), (["run", "nielsen-small-kl"], "6 of 6 claims reproduced")],
)
def test_the_framework_needs_no_torch(tmp_path: Path, arguments: list[str], says: str):
    command = [sys.executable, "-c", WITHOUT_TORCH, "study", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=HANGS)
    assert done.returncode == 0, done.stderr
    assert says in done.stdout


# What a run leaves, and what it does not do again


def test_a_run_writes_tables_figure_claims_and_page(tmp_path: Path):
    result = run(toy(), folder=tmp_path / "out")
    names = {str(path.relative_to(result.folder)) for path in result.folder.rglob("*.*")}
    assert names == {
        *("study.json", "claims.json", "report.html", "figure.svg", "figure.png"),
        *("tables/squares.csv", "tables/squares.json"),
        *(f"units/seed={seed}.safetensors" for seed in range(3)),
    }
    assert list(pd.read_csv(result.folder / "tables/squares.csv")["value"]) == [0, 1, 4]
    assert json.loads((result.folder / "tables/squares.json").read_text())[2] == {
        "seed": 2,
        "value": 4.0,
        "none": None,
    }
    assert (result.folder / "figure.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (result.folder / "figure.svg").read_text()
    assert result.findings == {"positive": check_toy(result.tables)}
    assert result.document["units"]["count"] == 3
    assert result.resumed == 0


def test_what_is_done_is_not_done_again(tmp_path: Path, diary: Path):
    study = toy(diary=str(diary))
    first = run(study, folder=tmp_path / "out")
    again = run(study, folder=tmp_path / "out")
    assert computed(diary) == [0, 1, 2]
    assert again.resumed == 3
    assert again.document == first.document
    (tmp_path / "out/units/seed=1.safetensors").unlink()
    assert run(study, folder=tmp_path / "out").document["claims"] == first.document["claims"]
    assert computed(diary) == [0, 1, 2, 1]


def test_a_record_is_the_same_fresh_and_kept(tmp_path: Path):
    fresh, kept = (work_in(tmp_path).unit("one", square, 3, plus=0.25) for _ in range(2))
    assert fresh.rows == kept.rows == [{"seed": 3, "value": 9.25, "none": None}]
    for record in (fresh, kept):
        close(record.arrays["vector"], [3, 3, 3], 0)
        close(record.arrays["scalar"], 0.5, 0)
        close(record.arrays["strided"], np.eye(4)[:, ::2], 0)
        assert record.arrays["vector"].dtype == np.int64


def test_units_may_have_several_arguments_and_progress_is_told(tmp_path: Path):
    told = []
    work = work_in(tmp_path)
    work.progress = lambda *call: told.append(call)
    records = work.each("n={0},plus={1}", square, [(1, 0.5), (2, 0.0)], wait=0.0)
    assert [record.rows[0]["value"] for record in records] == [1.5, 4]
    assert (tmp_path / "units/n=1,plus=0.5.safetensors").is_file()
    assert told == [("n=1,plus=0.5", 0, 2), ("n=2,plus=0.0", 1, 2)]


def test_what_is_not_finite_is_kept_as_absent(tmp_path: Path):
    record = work_in(tmp_path).unit("one", lambda: Record([{"loss": nan, "most": inf}]))
    assert record.rows == [{"loss": None, "most": None}]


def test_a_unit_s_own_folder_is_removed_when_it_is_done(tmp_path: Path):
    work = work_in(tmp_path)
    folder = work.folder_of("one")
    (folder / "checkpoint").write_text("half way")
    work.unit("one", square, 1)
    assert not folder.exists()


def test_settings_by_item_and_by_attribute():
    settings = Settings({"seeds": 3})
    assert settings.seeds == settings["seeds"] == dict(**settings)["seeds"] == 3
    with pytest.raises(AttributeError, match="no setting 'width'; there are seeds"):
        settings.width  # noqa: B018


# Stopped, damaged, or of another study


@pytest.mark.parametrize("where", [0, 7, 100, -1])
def test_a_unit_cut_short_is_said_and_done_again(tmp_path: Path, diary: Path, where: int):
    study = toy(diary=str(diary))
    first = run(study, folder=tmp_path / "out")
    path = tmp_path / "out/units/seed=1.safetensors"
    path.write_bytes(path.read_bytes()[:where])
    with pytest.warns(UserWarning, match=r"seed=1.safetensors is damaged or cut short.*again"):
        again = run(study, folder=tmp_path / "out")
    assert computed(diary) == [0, 1, 2, 1]
    assert again.findings == first.findings


def test_a_unit_of_another_study_is_said_and_done_again(tmp_path: Path):
    work_in(tmp_path, "one digest").unit("one", square, 1)
    with pytest.warns(UserWarning, match=r"one.safetensors belongs to other settings.*again"):
        record = work_in(tmp_path, "another").unit("one", square, 2)
    assert record.rows[0]["value"] == 4


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"seeds": 4}, "seeds was 3 and is now 4"),
        ({"settings": {"widths": [8]}}, r"widths was \[1, 2\] and is now \[8\]"),
        ({"preset": "laptop"}, 'preset was "smoke" and is now "laptop"; seeds was 3 and is now 5'),
    ],
)
def test_a_folder_of_other_settings_is_refused(tmp_path: Path, change: Any, says: str):
    run(toy(), folder=tmp_path / "out")
    before = (tmp_path / "out/claims.json").read_bytes()
    with pytest.raises(InputError, match=rf"{says}.*give another folder with -o"):
        run(toy(), folder=tmp_path / "out", **change)
    assert (tmp_path / "out/claims.json").read_bytes() == before


def test_a_folder_of_other_data_is_refused(tmp_path: Path):
    study = replace(toy(), needs=(CORPORA["enwik8"],))
    run(study, folder=tmp_path / "out", data="grammar")
    (tmp_path / "mine.txt").write_text("some words")
    with pytest.raises(InputError, match=r'was "stand-in grammar" and is now "mine.txt, 10 bytes"'):
        run(study, folder=tmp_path / "out", data=tmp_path / "mine.txt")


def test_a_folder_of_another_version_is_refused(tmp_path: Path):
    run(toy(), folder=tmp_path / "out")
    path = tmp_path / "out/study.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"identikit": "0.0.1"}))
    with pytest.raises(InputError, match=r'identikit was "0.0.1" and is now'):
        run(toy(), folder=tmp_path / "out")


def test_a_long_list_of_differences_is_cut(tmp_path: Path):
    many = {f"setting{i}": i for i in range(9)}
    run(toy(**many), folder=tmp_path / "out")
    with pytest.raises(InputError, match=r"setting3 was 3 and is now 4; and 5 more\. The two"):
        run(toy(**{key: i + 1 for i, key in enumerate(many)}), folder=tmp_path / "out")


def test_folders_that_are_no_study_s(tmp_path: Path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="not empty and is not the folder of a study"):
        run(toy(), folder=tmp_path)
    with pytest.raises(InputError, match=r"notes.txt is a file; give another folder"):
        run(toy(), folder=tmp_path / "notes.txt")
    with pytest.raises(InputError, match=r"is not the folder of a study: it has no study.json"):
        load(tmp_path)


def test_a_study_is_read_back_as_it_was(tmp_path: Path):
    result = run(toy(), folder=tmp_path / "out")
    again = load(tmp_path / "out")
    assert again.document == result.document
    assert again.findings == result.findings
    assert list(again.tables["squares"]["value"]) == list(result.tables["squares"]["value"])


def test_a_folder_from_before_there_were_kinds_is_read_as_ever(tmp_path: Path):
    result = run(toy(), folder=tmp_path / "out")
    path = tmp_path / "out/claims.json"
    document = json.loads(path.read_text())
    for key in ("kind", "seeds", "p", "over"):
        del document["claims"][0][key]
    path.write_text(json.dumps(document))
    again = load(tmp_path / "out")
    assert again.findings == {
        key: replace(finding, seeds=None, p=None) for key, finding in result.findings.items()
    }
    assert again.summary() == result.summary()


def test_damaged_and_unfinished_folders_are_said(tmp_path: Path):
    run(toy(), folder=tmp_path / "out")
    claims, header = tmp_path / "out/claims.json", tmp_path / "out/study.json"
    document = json.loads(claims.read_text())
    for text, says in (
        ("{", r"claims.json is damaged \(.*delete the folder"),
        ("[]", "claims.json is damaged: expected a JSON dict"),
        ("{}", r"claims.json is damaged \('claims'\)"),
        (
            json.dumps(document | {"claims": [{**document["claims"][0], "verdict": "sure"}]}),
            r"claims.json is damaged \(the verdict is 'sure'",
        ),
        (
            json.dumps(document | {"claims": [{**document["claims"][0], "kind": "ours"}]}),
            r"claims.json is damaged \(the kind is 'ours'",
        ),
        (
            json.dumps(document | {"claims": [{**document["claims"][0], "over": 3}]}),
            r"claims.json is damaged \(over is 3",
        ),
    ):
        claims.write_text(text)
        with pytest.raises(InputError, match=says):
            load(tmp_path / "out")
    claims.unlink()
    with pytest.raises(
        InputError, match="is not finished; resume it with: identikit study run toy"
    ):
        load(tmp_path / "out")
    header.write_text("{")
    with pytest.raises(InputError, match=r"study.json is damaged"):
        run(toy(), folder=tmp_path / "out")


def start(tmp_path: Path, diary: Path, *arguments: str) -> subprocess.Popen[str]:
    """The command line with the toy study, as a shell starts it: a process group of its own."""
    command = [sys.executable, "-m", "identikit", "study", "run", "toy"]
    paths = [package_with("TOY", tmp_path / "installed"), str(HERE), *sys.path]
    return subprocess.Popen(
        [*command, "-o", str(tmp_path / "out"), "--set", f'diary="{diary}"', *arguments],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def wait_for(what: Any) -> None:
    end = time.monotonic() + HANGS
    while not what():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


def alive(pid: int) -> bool:
    try:
        # A process that has ended, but whose parent has not asked for its code, counts as ended.
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.long
@pytest.mark.parametrize("processes", ["false", "true"])
def test_killed_by_force_it_resumes_and_leaves_no_process(
    tmp_path: Path, diary: Path, processes: str
):
    out, seeds = tmp_path / "out", 3 * cores()
    settings = ("--set", f"processes={processes}", "--set", "gate=2", "--seeds", str(seeds))
    process = start(tmp_path, diary, *settings)
    wait_for(lambda: len(list(out.glob("units/seed*"))) >= 2)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    pids = {int(line.split()[1]) for line in diary.read_text().splitlines()}
    assert (process.pid in pids) == (processes == "false")
    wait_for(lambda: not any(alive(pid) for pid in pids))
    kept = {path.name for path in out.glob("units/seed*")}
    assert 2 <= len(kept) < seeds
    assert not (out / "claims.json").exists()
    before = Counter(computed(diary))

    Path(f"{diary}.open").touch()
    process = start(tmp_path, diary, *settings)
    _, said = process.communicate(timeout=HANGS)
    assert process.returncode == 0, said
    assert f"{len(kept)} of {seeds} units were there from before" in said
    again = {f"seed={seed}.safetensors" for seed in Counter(computed(diary)) - before}
    assert again == {f"seed={seed}.safetensors" for seed in range(seeds)} - kept
    table = pd.read_csv(out / "tables/squares.csv")
    assert list(table["value"]) == [seed**2 for seed in range(seeds)]


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("processes", ["false", "true"])
def test_ctrl_c_does_not_wait_for_a_unit_and_keeps_what_is_done(
    tmp_path: Path, diary: Path, processes: str
):
    out = tmp_path / "out"
    settings = ("--set", f"processes={processes}", "--set", "gate=1", "--seeds", "4")
    process = start(tmp_path, diary, *settings)
    wait_for(lambda: len(list(out.glob("units/seed*"))) >= 1)
    wait_for(lambda: len(computed(diary)) > len(list(out.glob("units/seed*"))))
    # A terminal sends it to the whole group.
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=HANGS)
    assert process.returncode == 130
    assert "finished units are kept; the same command goes on from them" in said
    assert "Traceback" not in said
    assert [path.name for path in out.glob("units/*")] == ["seed=0.safetensors"]
    pids = {int(line.split()[1]) for line in diary.read_text().splitlines()}
    assert not any(alive(pid) for pid in pids)


# Units in processes, and their errors


needs_cores = pytest.mark.skipif(cores() < 2, reason="needs two cores")


@pytest.fixture
def two_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """What processes would start with, were they not told otherwise."""
    for name in THREADS:
        monkeypatch.setenv(name, "2")


@needs_cores
@pytest.mark.usefixtures("two_threads")
def test_processes_give_the_same_and_have_one_thread(tmp_path: Path):
    work = work_in(tmp_path)
    rows = [
        record.rows[0] for record in work.each("seed={}", plain_threads, range(4), processes=True)
    ]
    assert {row["most"] for row in rows} == {1}
    assert os.getpid() not in {row["pid"] for row in rows}
    assert len({row["pid"] for row in rows}) <= cores()
    here = work.each("here={}", square, range(3))
    there = work.each("there={}", square, range(3), processes=True)
    assert [record.rows for record in here] == [record.rows for record in there]


@pytest.mark.long
@needs_cores
@pytest.mark.usefixtures("two_threads")
@pytest.mark.extra("torch")
def test_torch_has_one_thread_in_processes(tmp_path: Path):
    pytest.importorskip("torch")
    records = work_in(tmp_path).each("seed={}", torch_threads, range(2), processes=True)
    rows = [record.rows[0] for record in records]
    assert [(row["most"], row["torch"]) for row in rows] == [(1, 1)] * 2


@pytest.mark.parametrize(
    ("how", "processes", "error", "says"),
    [
        ("bug", False, InputError, "unit 'seed=1' failed: ZeroDivisionError: division by zero"),
        ("bug", True, InputError, "unit 'seed=1' failed: ZeroDivisionError: division by zero"),
        ("input", False, InputError, "unit 'seed=1' failed: the width is 0; give a larger one"),
        ("extra", False, MissingExtraError, r"Training needs no_such_module.*identikit\[torch\]'"),
        ("extra", True, MissingExtraError, r"Training needs no_such_module.*identikit\[torch\]'"),
        ("text", False, InputError, "unit 'seed=1' failed: the array 'names' is <U1; expected .*"),
        ("nothing", False, InputError, "unit 'seed=1' failed: it returned a NoneType; expected .*"),
    ],
)
def test_an_error_names_its_unit(tmp_path: Path, how: str, processes: bool, error: Any, says: str):
    work = work_in(tmp_path)
    with pytest.raises(error) as caught:
        work.each("seed={}", fails, range(2), processes=processes, how=how)
    assert re.fullmatch(says, str(caught.value))
    assert "Traceback" in caught.value.__notes__[0]
    assert not (tmp_path / "units/seed=1.safetensors").exists()


@pytest.mark.long
@needs_cores
def test_a_process_that_dies_is_said(tmp_path: Path):
    with pytest.raises(InputError, match=r"died without an error message: .*are kept"):
        work_in(tmp_path).each("seed={}", fails, range(2), processes=True, how="dies")


def test_what_cannot_be_sent_to_a_process_is_said(tmp_path: Path):
    work = work_in(tmp_path)
    with pytest.raises(InputError, match=r"unit 'a=0' cannot be sent.*function at the top of a"):
        work.each("a={}", lambda n: square(n), range(2), processes=True)
    with pytest.raises(InputError, match=r"unit 'b=0' cannot be sent to a process .*plain data"):
        work.each("b={}", square, range(2), processes=True, diary=lambda: None)
    with pytest.raises(InputError, match=r"unit 'c=1' cannot be sent to a process .*plain data"):
        work.each("c={0}", square, [(0, 1.0), (1, lambda: None)], processes=True)


@pytest.mark.parametrize("key", ["", "../up", "a/b", ".hidden", "a b", "x" * 121, "é"])
def test_keys_that_name_no_file_are_refused(tmp_path: Path, key: str):
    with pytest.raises(InputError, match="cannot name a unit"):
        work_in(tmp_path).unit(key, square, 1)
    with pytest.raises(InputError, match="cannot name a unit"):
        work_in(tmp_path).folder_of(key)


def test_two_units_of_one_key_are_refused(tmp_path: Path):
    work = work_in(tmp_path)
    with pytest.raises(InputError, match="two units have the key 'same'"):
        work.each("same", square, range(2))


# Settings


def test_the_command_of_the_page_asks_for_the_same(tmp_path: Path, monkeypatch: Any):
    monkeypatch.syspath_prepend(package_with("LABELLED", tmp_path / "installed"))
    changes = {"widths": [8, 16], "label": "it's $5", "wait": 0.5}
    result = run("toy", preset="laptop", folder=tmp_path / "a b", seeds=2, settings=changes)
    words = shlex.split(result.document["command"])[1:]
    again = CliRunner().invoke(app, [*words, "--json"])
    assert json.loads(again.stdout) == result.document


# Intervals and verdicts


def test_mean_interval_is_student_s(rng: np.random.Generator):
    from scipy import stats

    values = rng.normal(size=7)
    mean, interval = mean_interval(values)
    close(interval, stats.t.interval(0.95, 6, values.mean(), stats.sem(values)), 1e-12)
    close(mean, values.mean(), 1e-15)
    assert mean_interval([2.0]) == (2.0, None)


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ([1.0, 1.1, 1.2], REPRODUCED),
        ([3.0, 3.1, 3.2], NOT),
        ([-3.0, -3.1, -3.2], NOT),
        ([1.9, 2.0, 2.1], INCONCLUSIVE),
        ([1.0], INCONCLUSIVE),
        ([], UNMEASURED),
        ([1.0, 1.1, nan], INCONCLUSIVE),
    ],
)
def test_a_verdict_is_where_the_interval_lies(values: list[float], verdict: str):
    found = judge(values, 0, 2, "why")
    assert (found.verdict, found.comment) == (verdict, "why")
    finite = bool(values) and values[-1] == values[-1]
    assert (found.value, found.interval) == (mean_interval(values) if finite else (None, None))


def test_a_verdict_is_one_of_three():
    with pytest.raises(ValueError, match="the verdict is 'yes'; expected one of"):
        Finding(1.0, None, "yes")


# Data


def test_data_from_the_variable_is_the_folder(tmp_path: Path, monkeypatch: Any):
    monkeypatch.delenv("IDENTIKIT_DATA", raising=False)
    assert Data().given is None
    monkeypatch.setenv("IDENTIKIT_DATA", str(tmp_path))
    assert Data().given == str(tmp_path)
    assert Data("grammar").given == "grammar"


@pytest.mark.parametrize(
    ("given", "need", "says"),
    [
        (None, CIFAR10, "no data folder is given, neither with --data nor in IDENTIKIT_DATA"),
        ("empty", CIFAR10, "empty does not have it: name the folder.*, or try the .*--data digits"),
        ("empty", CORPORA["lm1b"], "give any text with --data FILE.txt.*--data grammar"),
        ("nowhere", CIFAR10, "nowhere is not a folder"),
        ("file.txt", CIFAR10, "file.txt is not a folder"),
        ("grammar", CIFAR10, "'grammar' .*does not stand in for it.*--data digits"),
        ("digits", CORPORA["enwik8"], "'digits' .*does not stand in for it.*--data grammar"),
        ("digits", Need("weights", "a model"), "name the folder that has it with --data DIR; no"),
    ],
)
def test_a_missing_file_is_named_with_what_it_should_contain(
    tmp_path: Path, monkeypatch: Any, given: Any, need: Need, says: str
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("IDENTIKIT_DATA", raising=False)
    Path("empty").mkdir()
    Path("file.txt").write_text("words")
    with pytest.raises(InputError, match=says) as caught:
        Data(given).check([need])
    assert f"{need.file} is needed ({need.contains})" in str(caught.value)
    assert "nothing is downloaded" in str(caught.value)


def test_a_study_that_needs_data_says_so_before_it_works(tmp_path: Path, monkeypatch: Any):
    monkeypatch.delenv("IDENTIKIT_DATA", raising=False)
    with pytest.raises(InputError, match=r"cifar10_20k.npz is needed \(CIFAR-10: x_train"):
        run(replace(toy(), needs=(CIFAR10,)), folder=tmp_path / "out")
    assert not (tmp_path / "out").exists()
    with pytest.raises(InputError, match="toy reads no data, but digits was given"):
        run(toy(), folder=tmp_path / "out", data="digits")


def test_what_serves_is_told_by_name_and_size(tmp_path: Path):
    (tmp_path / "text/lm1b_sample").mkdir(parents=True)
    (tmp_path / "text/lm1b_sample/a.txt").write_text("four")
    (tmp_path / "text/lm1b_sample/b.txt").write_text("sixsix")
    found = Data(tmp_path).check([CORPORA["lm1b"]])
    assert found == {"text/lm1b_sample": "lm1b_sample, 10 bytes"}
    assert Data("grammar").check([CORPORA["lm1b"]]) == {"text/lm1b_sample": "stand-in grammar"}


def test_the_digits_stand_in_for_cifar():
    from sklearn.datasets import load_digits

    images = Data("digits").images()
    assert images.x_train.shape == (1438, 32, 32, 3)
    assert images.x_test.shape == (359, 32, 32, 3)
    assert images.x_train.dtype == np.uint8
    assert images.names == [str(digit) for digit in range(10)]
    digits = load_digits()
    small = images.x_test[7, ::4, ::4, 1] * (16 / 255)
    close(small, digits.images[7 * 5 + 4], 0.04)
    assert images.y_test[7] == digits.target[7 * 5 + 4]
    # Every pixel of a block of 4 × 4 and every channel is the same.
    assert (images.x_test == images.x_test[:, ::4, ::4, :1].repeat(4, 1).repeat(4, 2)).all()


def fake_cifar(folder: Path, **changes: Any) -> Path:
    arrays = {
        "x_train": np.arange(20 * 3072, dtype=np.uint32).astype(np.uint8).reshape(20, 32, 32, 3),
        "y_train": np.arange(20, dtype=np.uint8) % 10,
        "x_test": np.zeros((5, 32, 32, 3), np.uint8),
        "y_test": np.zeros(5, np.uint8),
        "names": np.array(list("abcdefghij")),
    }
    arrays |= changes
    folder.mkdir()
    np.savez(folder / "cifar10_20k.npz", **{k: v for k, v in arrays.items() if v is not None})
    return folder


def test_cifar_is_read_from_its_file(tmp_path: Path):
    images = Data(fake_cifar(tmp_path / "good")).images()
    assert images.x_train.shape == (20, 32, 32, 3)
    assert images.y_train.dtype == np.int64
    assert images.names == list("abcdefghij")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"names": None}, "damaged or of another kind .*names.*expected CIFAR-10"),
        ({"x_test": np.zeros((5, 32, 32, 3))}, "x_test is float64 .*expected CIFAR-10: x_train"),
        ({"y_train": np.zeros(3, np.uint8)}, r"y_train \(3,\); expected CIFAR-10"),
        ({"names": np.array([{}])}, "damaged or of another kind .*allow_pickle"),
    ],
)
def test_a_file_that_is_not_cifar_is_said(tmp_path: Path, changes: Any, says: str):
    with pytest.raises(InputError, match=says):
        Data(fake_cifar(tmp_path / "bad", **changes)).images()


def test_cifar_cut_in_half_is_said(tmp_path: Path):
    path = fake_cifar(tmp_path / "bad") / "cifar10_20k.npz"
    path.write_bytes(path.read_bytes()[:30000])
    with pytest.raises(InputError, match=r"cifar10_20k.npz is damaged"):
        Data(tmp_path / "bad").images()


@pytest.mark.slow
def test_the_real_cifar(data_dir: Path):
    images = Data(data_dir).images()
    assert images.x_train.shape == (20000, 32, 32, 3)
    assert np.bincount(images.y_train).tolist() == [2000] * 10
    assert np.bincount(images.y_test).tolist() == [500] * 10
    assert images.names[:2] == ["airplane", "automobile"]


PROSE = """\
It is a truth, "universally" acknowledged, that a
single man must want a wife. Mr. Bennet
replied that he had not!

"You want to tell me." Well?
"""
SENTENCES = [
    'It is a truth, "universally" acknowledged, that a single man must want a wife.',
    "Mr. Bennet replied that he had not!",
    '"You want to tell me."',
    "Well?",
]


@pytest.mark.parametrize("pack", [bytes, gzip.compress, lzma.compress], ids=["txt", "gz", "xz"])
def test_any_text_file_will_do(tmp_path: Path, pack: Any):
    path = tmp_path / f"mine.txt{ {bytes: '', gzip.compress: '.gz'}.get(pack, '.xz') }"
    path.write_bytes(pack(PROSE.encode()))
    assert Data(path).text() == SENTENCES
    assert Data(path).text(prefer="lm1b", max_words=14) == SENTENCES[:1]
    assert Data(path).text(max_words=15) == SENTENCES[:2]
    assert Data(str(path)).words()[1] == ["mr", "bennet", "replied", "that", "he", "had", "not"]
    lines = PROSE.replace("\n\n", "\n")
    path.write_bytes(pack(lines.encode()))
    assert Data(path).text() == lines.splitlines()


def test_an_archive_is_read_and_not_unpacked(tmp_path: Path):
    folder = tmp_path / "data/text"
    folder.mkdir(parents=True)
    with tarfile.open(folder / "gutenberg.tar.xz", "w:xz") as archive:
        for name, raw in {
            "../../escaped.txt": PROSE.encode(),
            "old.txt": "Déjà vu.\n\nEnd.\n".encode("latin-1"),
            "README": b"not a book",
        }.items():
            member = tarfile.TarInfo(name)
            member.size = len(raw)
            archive.addfile(member, io.BytesIO(raw))
        link = tarfile.TarInfo("link.txt")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/hostname"
        archive.addfile(link)
    assert Data(tmp_path / "data").text("gutenberg") == [*SENTENCES, "Déjà vu.", "End."]
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["gutenberg.tar.xz"]


def test_texts_that_cannot_be_read_are_said(tmp_path: Path):
    def text(name: str, raw: bytes) -> list[str]:
        (tmp_path / name).write_bytes(raw)
        return Data(tmp_path / name).text()

    with pytest.raises(InputError, match=r"latin.txt is not UTF-8 text; convert it"):
        text("latin.txt", "Déjà".encode("latin-1"))
    with pytest.raises(InputError, match=r"empty.txt holds no text"):
        text("empty.txt", b"\n \n")
    for name, raw in (
        ("cut.gz", gzip.compress(PROSE.encode())[:-20]),
        ("cut.xz", lzma.compress(PROSE.encode())[:-20]),
        ("plain.gz", b"not packed"),
        ("plain.xz", b"not packed"),
        ("none.tar.xz", b"not packed"),
    ):
        with pytest.raises(InputError, match=f"cannot read .*{name}: .*sound copy"):
            text(name, raw)
    with pytest.raises(InputError, match="there is no text 'novels'; choose from enwik8, lm1b"):
        Data("grammar").text("novels")


def test_the_real_texts(data_dir: Path):
    """Counts of the data folder's README."""
    data = Data(data_dir)
    sentences = data.text("lm1b")
    assert len(sentences) == 24_321
    tokens = Counter(word for line in sentences for word in line.split())
    assert (tokens.total(), len(tokens)) == (616_671, 48_174)
    assert sum(len(line.split()) for line in data.text("wikitext2")) > 400_000
    assert data.text("tinyshakespeare")[1] == "All: Speak, speak."
    assert any(line.startswith("Emma Woodhouse, handsome,") for line in data.text("gutenberg", 500))
    start = data.text("enwik8", max_words=100)
    assert start[0].startswith("anarchism originated as a term of abuse")
    assert all(line.islower() for line in start)


def test_the_grammar_has_some_500_words_with_frequencies_as_by_zipf():
    sentences = Data("grammar").text()
    counts = Counter(word for line in sentences for word in line.split())
    assert 480 <= len(counts) <= 510
    assert 200_000 <= counts.total() < 200_050
    common = np.array([count for _, count in counts.most_common(300)])
    slope = np.polyfit(np.log(np.arange(1, 301)), np.log(common), 1)[0]
    assert -1.5 < slope < -0.7
    short = Data("grammar").text(max_words=1000)
    assert short == sentences[: len(short)]
    assert 1000 <= sum(len(line.split()) for line in short) < 1050
    assert len(set(sentences)) > 0.9 * len(sentences)


def test_the_grammar_has_topics():
    """Words of one sentence tell about each other: more mutual information than when shuffled."""
    sentences = [line.split() for line in Data("grammar").text()]
    nouns = [(words[1], words[-2]) for words in sentences if words[0] == "the" and len(words) > 4]

    def information(pairs: list[tuple[str, str]]) -> float:
        joint, left, right = Counter(pairs), *(Counter(side) for side in zip(*pairs))
        n = len(pairs)
        return sum(
            count / n * np.log(n * count / left[a] / right[b]) for (a, b), count in joint.items()
        )

    rng = np.random.default_rng(0)
    others = [b for _, b in nouns]
    rng.shuffle(others)
    shuffled = information([(a, b) for (a, _), b in zip(nouns, others)])
    assert information(nouns) > shuffled + 0.1


# The page and the command line


def hostile() -> Study:
    bad = "<script>alert(1)</script> {{ 7*7 }} \x1b[31m"
    claim = Claim(
        "a", bad, bad, bad, lambda _: Finding(1.5, (1.0, 2.0), NOT, f"{bad}\nsecond line")
    )
    none = Claim("b", "Nothing.", "none", "none", lambda _: Finding(None, None, INCONCLUSIVE))
    study = toy(label=bad)
    return replace(study, title=bad, paper=bad, about=bad, claims=(*study.claims, claim, none))


def test_the_page_shows_published_beside_measured_and_escapes(tmp_path: Path):
    result = run(hostile(), folder=tmp_path / "out")
    page = (result.folder / "report.html").read_text(encoding="utf-8")
    assert "<script" not in page
    assert "\x1b" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt; {{ 7*7 }}" in page
    assert "0 of 3 claims reproduced, 1 not reproduced, 2 inconclusive at this scale" in page
    assert re.search(r"1\.5<div class=\"note\">1\.0 to 2\.0<", page)
    assert not re.search(r'(?:src|href)="(?:https?:)?//', page)
    for link in re.findall(r'href="([^"#]+)"', page):
        assert (result.folder / link).is_file(), link


def claim_of(kind: str, verdict: str, p: float | None = None) -> dict[str, Any]:
    return {"kind": kind, "verdict": verdict, "p": p}


@pytest.mark.parametrize(
    ("claims", "says"),
    [
        ([("paper", REPRODUCED), ("paper", NOT)], "1 of 2 claims reproduced, 1 not reproduced"),
        (
            [("check", REPRODUCED), ("paper", REPRODUCED), ("paper", INCONCLUSIVE)],
            "1 of 2 claims of the paper reproduced, 1 inconclusive at this scale; "
            "checks 1 of 1 hold",
        ),
        (
            [("control", NOT), ("paper", UNMEASURED), ("control", NOT), ("check", NOT)],
            "0 of 1 claims of the paper reproduced, 1 not measured; "
            "controls 0 of 2 hold, 2 do not hold; checks 0 of 1 hold, 1 does not hold",
        ),
        ([("control", INCONCLUSIVE)], "controls 0 of 1 hold, 1 inconclusive at this scale"),
        (
            [("paper", REPRODUCED, 0.01), ("paper", REPRODUCED, 0.02), ("control", NOT, 0.9)],
            "2 of 2 claims of the paper reproduced; all remain after Holm's correction; "
            "controls 0 of 1 hold, 1 does not hold",
        ),
        (
            [("paper", REPRODUCED, 0.01), ("paper", REPRODUCED, 0.04), ("paper", NOT, 0.03)],
            "2 of 3 claims reproduced, 1 not reproduced; 1 remains after Holm's correction",
        ),
        (
            [("paper", REPRODUCED, 0.04), ("paper", INCONCLUSIVE, 0.5)],
            "1 of 2 claims reproduced, 1 inconclusive at this scale; "
            "none remains after Holm's correction",
        ),
        (
            [("paper", REPRODUCED, 0.01), ("paper", REPRODUCED, 0.02), ("paper", REPRODUCED)],
            "3 of 3 claims reproduced; 2 of 2 with a p-value remain after Holm's correction",
        ),
        (
            [("paper", REPRODUCED, 0.01), ("paper", NOT, 0.04)],
            "1 of 2 claims reproduced, 1 not reproduced; it remains after Holm's correction",
        ),
        # One test needs no correction.
        ([("paper", REPRODUCED, 0.01)], "1 of 1 claims reproduced"),
        ([], "0 of 0 claims reproduced"),
    ],
)
def test_the_headline_counts_the_paper_s_claims_apart(claims: list[Any], says: str):
    assert headline({"claims": [claim_of(*claim) for claim in claims]}) == says


@pytest.mark.parametrize(
    ("claims", "expected"),
    [
        ([("paper", REPRODUCED), ("control", NOT), ("check", REPRODUCED)], GOOD),
        ([("paper", REPRODUCED), ("paper", INCONCLUSIVE), ("control", NOT)], DOUBTFUL),
        ([("paper", INCONCLUSIVE), ("paper", NOT)], BAD),
        ([("paper", REPRODUCED), ("check", NOT)], BAD),
        ([("control", NOT)], BAD),
    ],
)
def test_the_tone_of_a_page_is_that_of_the_paper_s_claims(claims: list[Any], expected: str):
    assert tone([claim_of(*claim) for claim in claims]) == expected


def test_holm_is_the_largest_of_the_stepwise_products(rng: np.random.Generator):
    """The adjusted p-value is the running maximum of (m − i) p over the sorted ones."""
    for _ in range(50):
        p = rng.beta(0.3, 3, size=rng.integers(1, 8))
        order = np.argsort(p)
        adjusted = np.empty(len(p))
        adjusted[order] = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
        assert holm(p) == list(adjusted <= 0.05)
    assert holm([]) == []


SHOWN = {
    "Claims of the paper": {
        "paper-good": "reproduced",
        "paper-weak": "reproduced",
        "paper-bad": "not reproduced",
        "paper-open": "inconclusive at this scale",
    },
    "Our own controls": {
        "control-good": "holds",
        "control-open": "inconclusive at this scale",
        "control-out": "not measured",
    },
    "Checks (identities and bounds)": {"check-good": "holds", "check-bad": "does not hold"},
}


def test_kinds_stand_apart_wherever_a_study_is_shown(tmp_path: Path, monkeypatch: Any):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(package_with("ALL_KINDS", tmp_path / "installed"))
    result = run("toy", folder="out")
    says = (
        "2 of 4 claims of the paper reproduced, 1 not reproduced, 1 inconclusive at this scale; "
        "1 remains after Holm's correction; "
        "controls 1 of 3 hold, 1 inconclusive at this scale, 1 not measured; "
        "checks 1 of 2 hold, 1 does not hold"
    )
    assert result.summary() == says
    seeds = result.findings["paper-open"].seeds
    assert seeds == result.findings["control-open"].seeds == 35
    page = (result.folder / "report.html").read_text(encoding="utf-8")
    wide, narrow = io.StringIO(), io.StringIO()
    for file, width in ((wide, 200), (narrow, 70)):
        print_study(result, Console(file=file, width=width))
    assert "…" not in narrow.getvalue()
    printed = wide.getvalue()
    notebook = result._repr_html_()
    assert page.count(f"about {seeds} seeds would tell") == 2
    assert printed.count(f"about {seeds} seeds would tell") == 2
    assert notebook.count(f"about {seeds} seeds would tell") == 2
    of_pairs = run(replace(of_all_kinds(), over="pairs <of twins>"), folder="of pairs")
    page_of_pairs = (of_pairs.folder / "report.html").read_text(encoding="utf-8")
    assert "over pairs &lt;of twins&gt;." in page_of_pairs
    assert page_of_pairs.count(f"about {seeds} pairs &lt;of twins&gt; would tell") == 2
    print_study(of_pairs, Console(file=(file := io.StringIO()), width=200))
    assert "its 95 % interval over pairs <of twins>." in file.getvalue()
    # The preset is "smoke", and both say what that means; a larger run does not.
    larger = run(replace(toy(), claims=()), preset="laptop", folder="larger")
    print_study(larger, Console(file=(other := io.StringIO()), width=200))
    shown = page, file.getvalue(), (larger.folder / "report.html").read_text(), other.getvalue()
    assert ["This is a smoke run" in text for text in shown] == [True, True, False, False]
    order = [word for title, claims in SHOWN.items() for word in (title, *claims)]
    for text in (page, printed):
        places = [text.index(f"This is {word}." if "-" in word else word) for word in order]
        assert places == sorted(places)
    for claims in SHOWN.values():
        for key, verdict in claims.items():
            assert re.search(rf'This is {key}\. <span class="badge [a-z-]+">{verdict}<', page)
            assert re.search(rf"This is {key}\. .* {verdict} *\n", printed)
            cells = rf"<td>{key.split('-')[0]}</td><td>This is {key}\.</td>.*<td[^>]*>{verdict}[<,]"
            assert re.search(cells, notebook)
    # The document keeps the order and the verdicts of the study.
    claims = json.loads((result.folder / "claims.json").read_text())["claims"]
    assert [claim["key"] for claim in claims] == [claim.key for claim in find("toy").claims]
    assert {claim["verdict"] for claim in claims} == {REPRODUCED, NOT, INCONCLUSIVE, UNMEASURED}
    assert load("out").document == result.document


def test_the_page_of_results_groups_as_the_studies_do(tmp_path: Path, monkeypatch: Any):
    monkeypatch.syspath_prepend(str(HERE.parent / "docs"))
    import studies as page

    result = run(of_all_kinds(), folder=tmp_path / "out")
    section = page.section(result)
    titles = re.findall("^### (.*)$", section, flags=re.M)
    assert titles == list(SHOWN)
    for title, claims in SHOWN.items():
        part = section.split(f"### {title}\n")[1].split("###")[0]
        rows = [line.strip("| ").split(" | ") for line in part.splitlines() if "This is" in line]
        found = {re.findall("This is (.*?)\\.", row[0])[0]: row[-1].split(",")[0] for row in rows}
        assert found == claims
    assert "###" not in page.section(run(toy(), folder=tmp_path / "toy"))


def test_the_page_of_results_opens_with_the_verdicts_by_paper(tmp_path: Path, monkeypatch: Any):
    monkeypatch.syspath_prepend(str(HERE.parent / "docs"))
    import studies as page

    all_kinds = run(of_all_kinds(), folder=tmp_path / "out")
    toys = run(replace(toy(), name="other", paper="Someone, 2020"), folder=tmp_path / "toy")
    whole = page.page_of([all_kinds, toys], "# An older page\n")
    found = page.verdicts(page.section(all_kinds))
    wanted = {
        kind: Counter(verdicts.values()) for kind, verdicts in zip(page.TITLES, SHOWN.values())
    }
    assert found == wanted
    top = whole.split("## toy")[0]
    rows = [re.split(r" \| ", line.strip("| ")) for line in top.splitlines() if "](#" in line]
    assert [row[-7] for row in rows] == ["[toy](#toy)", "[other](#other)"]
    (own,) = (row[-6:] for row in rows if "[toy]" in row[-7])
    paper, controls, checks = wanted.values()
    order = (REPRODUCED, NOT, INCONCLUSIVE, UNMEASURED)
    assert own[:4] == [str(paper[said]) for said in order]
    assert own[4:] == [f"{each['holds']} of {each.total()}" for each in (controls, checks)]
    # Sections that are not written anew stay, and count as before.
    again = page.page_of([toys], whole)
    assert again == whole
    assert page.sections(again)["toy"] == page.section(all_kinds)


def test_surprises_have_measured_numbers_and_the_verdict_they_speak_of(
    tmp_path: Path, monkeypatch: Any, capsys: Any
):
    monkeypatch.syspath_prepend(str(HERE.parent / "docs"))
    import studies as page

    study = of_all_kinds()
    result = run(study, folder=tmp_path / "out")
    claims = {claim["key"]: claim for claim in result.document["claims"]}
    good, bad, undecided = (
        next(key for key, claim in claims.items() if claim["verdict"] == said)
        for said in (REPRODUCED, NOT, INCONCLUSIVE)
    )
    sentences = (
        f"It is {{toy:{good}:reproduced}}.",
        f"It is not {{toy:{bad}:reproduced}}.",
        f"It is open: {{toy:{undecided}:inconclusive at this scale}}.",
        "Of a claim that is gone: {toy:gone:reproduced}.",
        "Of a study that is not on the page: {elsewhere:any:reproduced}.",
    )
    monkeypatch.setattr(page, "SURPRISES", sentences)
    monkeypatch.setattr(page, "find", {"toy": study, "elsewhere": study}.get)
    lines = page.surprises({"toy": page.section(result)}).splitlines()[2:]
    assert lines == [
        f"- It is {page.with_interval(claims[good])}.",
        f"- It is open: {page.with_interval(claims[undecided])}.",
    ]
    told = capsys.readouterr().err
    for left_out in (f"toy:{bad}", "toy:gone", "elsewhere:any"):
        assert left_out in told


def test_tables_are_shown_by_their_first_rows(tmp_path: Path):
    page = (run(toy(), folder=tmp_path / "a", seeds=30).folder / "report.html").read_text()
    assert "squares: 30 rows" in page
    assert "The first 12 rows; all in" in page
    assert page.count('<td class="n">121</td>') == 1
    assert page.count('<td class="n">144</td>') == 0


@pytest.fixture
def listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(package_with("TOY", tmp_path / "installed"))


@pytest.mark.usefixtures("listed")
def test_the_command_line_runs_shows_and_resumes():
    ran = CliRunner().invoke(app, ["study", "run", "toy"])
    assert ran.exit_code == 0, ran.output
    assert ran.stdout.startswith("Squares: 0 of 1 claims reproduced, 1 inconclusive at this scale")
    for words in ("Squares are positive.", "0.5", "Table 1", "1.7", "-3.5 to 6.8"):
        assert words in ran.stdout
    assert ran.stderr.endswith(f"wrote {Path('toy-smoke/report.html')}\n")
    assert CliRunner().invoke(app, ["study", "show", "toy-smoke"]).stdout == ran.stdout
    again = CliRunner().invoke(app, ["study", "run", "toy"])
    assert "3 of 3 units were there from before\n" in again.stderr
    assert again.stdout == ran.stdout


@pytest.mark.usefixtures("listed")
def test_json_is_one_document_and_quiet_is_quiet():
    ran = CliRunner().invoke(app, ["study", "run", "toy", "--json", "--quiet", "--seeds", "2"])
    assert ran.stderr == ""
    document = json.loads(ran.stdout)
    assert document["settings"]["seeds"] == 2
    assert document["claims"] == [
        {
            "key": "positive",
            "says": "Squares are positive.",
            "published": 0.5,
            "source": "Table 1",
            "kind": "paper",
            "value": 0.5,
            "interval": pytest.approx([-5.853, 6.853], abs=1e-3),
            "verdict": INCONCLUSIVE,
            "comment": "No square is negative.",
            # t of ten degrees of freedom over √11 is the first below 0.5 / s.
            "seeds": 11,
            "p": pytest.approx(0.5),
            "over": "seeds",
        }
    ]
    assert CliRunner().invoke(app, ["study", "show", "toy-smoke", "--json"]).stdout == ran.stdout


@pytest.mark.usefixtures("listed")
def test_a_damaged_unit_is_one_calm_line():
    CliRunner().invoke(app, ["study", "run", "toy"])
    path = Path("toy-smoke/units/seed=1.safetensors")
    path.write_bytes(path.read_bytes()[:-9])
    ran = CliRunner().invoke(app, ["study", "run", "toy"])
    assert ran.exit_code == 0
    first = ran.stderr.splitlines()[0]
    assert first.startswith(f"identikit: {path} is damaged or cut short")
    assert first.endswith("this unit is computed again")
    path.write_bytes(path.read_bytes()[:-9])
    assert CliRunner().invoke(app, ["study", "run", "toy", "-q"]).stderr == ""


@pytest.mark.usefixtures("listed")
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["run", "toy", "--preset", "big"], "toy has no preset 'big'"),
        (["run", "toy", "--set", "widths"], "--set is 'widths'; expected KEY=VALUE"),
        (["show", "."], "is not the folder of a study"),
    ],
)
def test_wrong_calls_are_one_sentence(arguments: list[str], says: str):
    ran = CliRunner().invoke(app, ["study", *arguments])
    assert ran.exit_code == 2
    assert ran.stdout == ""
    assert ran.stderr.startswith("identikit: ")
    assert says in ran.stderr
    assert ran.stderr.count("\n") == 1


def test_studies_are_listed(monkeypatch: Any):
    study = replace(toy(), needs=(CIFAR10,))
    monkeypatch.setattr("identikit.studies.studies", lambda: {"toy": study})
    printed = CliRunner().invoke(app, ["study", "list"]).stdout
    for words in ("toy", "Squares", "Nobody 2020", "cifar10_20k.npz", "or --data digits"):
        assert words in printed
    document = json.loads(CliRunner().invoke(app, ["study", "list", "--json"]).stdout)
    assert document["studies"][0]["needs"][0]["stand_in"] == "digits"
    assert document["studies"][0]["claims"][0]["published"] == 0.5


def test_a_file_that_a_study_can_do_without_is_recorded_and_not_asked_for(
    tmp_path: Path, monkeypatch: Any
):
    monkeypatch.delenv("IDENTIKIT_DATA", raising=False)
    need = Need("some.npz", "numbers", optional=True)
    for given in (None, "digits", tmp_path):
        assert Data(given).find(need) is None
    assert Data(tmp_path).check([need]) == {"some.npz": "absent"}
    (tmp_path / "some.npz").write_bytes(b"12345")
    assert Data(tmp_path).find(need) == tmp_path / "some.npz"
    assert Data(tmp_path).check([need]) == {"some.npz": "some.npz, 5 bytes"}
    assert Data("digits").check([need]) == {"some.npz": "absent"}
