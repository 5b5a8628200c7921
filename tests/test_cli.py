"""The command line: what goes to which stream, exit codes, files, and the demo."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import typer
from safetensors.numpy import save_file
from typer.testing import CliRunner, Result

import identikit as ik
from conftest import HANGS, remarks
from identikit.cli import app
from identikit.cli._help import described

ROWS = 400

VERBS = (
    *("align", "apply", "audit", "components", "demo", "disentangle", "extract", "family"),
    *("merge", "models", "moments", "near"),
)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS, 4))
    np.save("a.npy", X)
    np.save("b.npy", X @ rng.normal(size=(4, 4)) + 1)
    np.save("c.npy", rng.normal(size=(ROWS, 3)))
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def done(*arguments: str) -> Result:
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result


def shell(*arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, as a user's shell starts it."""
    command = [sys.executable, "-m", "identikit", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=HANGS, **options)  # type: ignore[call-overload]


# The process


def test_help_loads_nothing_heavy():
    script = (
        "import sys, identikit.cli\n"
        "try: identikit.cli.main()\n"
        "except SystemExit as stop: assert stop.code == 0\n"
        "heavy = {'torch', 'pandas', 'scipy', 'matplotlib', 'sklearn', 'numpy'}\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)"
    )
    command = [sys.executable, "-c", script, "--help"]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.stderr == "[]\n"
    for verb in (*VERBS, "study"):
        assert f"\n  {verb} " in result.stdout


def commands() -> dict[str, Any]:
    """Every verb, and the verbs of verbs, by what a user types."""
    top = typer.main.get_command(app)
    found = dict(top.commands)
    for name, verb in list(found.items()):
        if hasattr(verb, "commands"):
            del found[name]
            found |= {f"{name} {sub}": each for sub, each in verb.commands.items()}
    return found


@pytest.mark.parametrize("verb", commands())
def test_help_is_in_whole_sentences(verb: str):
    command = commands()[verb]
    said = {param.name: param.help for param in command.params if param.name != "help"}
    for name, text in said.items():
        assert text, name
        assert text[0].isupper(), (name, text)
        assert re.sub(r"  \[default: .*\]$", "", text).endswith("."), (name, text)
    assert command.help
    assert command.help[0].isupper()
    assert command.help.rstrip().endswith((".", "?"))


@pytest.mark.long
def test_the_examples_of_the_help_run(folder: Path):
    """But for those that take long or need a model: demo, extract and study."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 4))
    for name in ("old", "new", "run1", "run2", "run3", "codes"):
        np.save(f"{name}.npy", X + 0.01 * rng.normal(size=X.shape))
    for name in ("run1", "run2"):
        np.savez(f"{name}.npz", f=X, g=X[:7])
    for name in "ab":
        save_file({"W_dec": X}, f"{name}.safetensors")
        (folder / f"model_{name}").mkdir()
        np.save(f"model_{name}/layer.npy", X)
    pd.DataFrame({"shape": np.arange(200) % 3, "size": X[:, 0]}).to_csv("factors.csv", index=False)
    verbs = commands()
    # What one writes another reads.
    for verb in (
        "align",
        "apply",
        "audit",
        "components",
        "disentangle",
        "family",
        "layers",
        "models",
        "moments",
        "merge",
        "near",
        "study list",
    ):
        words = shlex.split(verbs[verb].epilog.replace("part*.moments", "part1.moments"))
        assert words[:2] == ["Example:", "identikit"]
        done(*words[2:])


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help_with_an_example(verb: str):
    assert f"Example: identikit {verb} " in done(verb, "--help").stdout


def test_version():
    assert done("--version").stdout == f"identikit {ik.__version__}\n"


def test_exit_codes_of_the_process():
    good = shell("audit", "a.npy", "b.npy")
    assert (good.returncode, remarks(good.stderr)) == (0, "")
    assert good.stdout.startswith("The views a and b are the same")
    wrong = shell("audit", "a.npy", "nope.npy")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert wrong.stderr.startswith("identikit: view 'nope'")
    assert wrong.stderr.count("\n") == 1
    assert shell("audit", "a.npy", "c.npy", "--fail-above", "0.1").returncode == 1
    assert shell("audit", "--nonsense").returncode == 2
    assert shell().returncode == 2


def test_a_terminal_that_knows_ascii_only():
    result = shell("audit", "a.npy", "b.npy", env=os.environ | {"PYTHONIOENCODING": "ascii"})
    assert result.returncode == 0, result.stderr
    assert "affine" in result.stdout


def test_a_closed_pipe_is_no_traceback():
    read, write = os.pipe()
    os.close(read)
    for extra in ([], ["--json"]):
        command = [sys.executable, "-m", "identikit", "audit", "a.npy", "b.npy", *extra]
        result = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True)
        assert result.returncode == 2
        assert remarks(result.stderr) == (
            "identikit: standard output was closed before all was written\n"
        )
    os.close(write)


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (KeyboardInterrupt(), 130, "interrupted"),
        (MemoryError(), 2, "not enough memory"),
        (OSError(5, "Input/output error"), 2, "Input/output error"),
        (ik.MissingExtraError("pip install 'identikit[io]'"), 2, "pip install"),
    ],
)
def test_what_stops_a_verb(
    error: BaseException, code: int, words: str, monkeypatch: pytest.MonkeyPatch
):
    def stop(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("identikit.auditing.audit", stop)
    result = run("audit", "a.npy", "b.npy", "--report", "out.html")
    assert result.exit_code == code
    assert result.stdout == ""
    assert words in result.stderr
    assert not Path("out.html").exists()


@pytest.mark.usefixtures("interruptible")
def test_interrupting_the_process():
    command = [sys.executable, "-m", "identikit", "demo", "--seeds", "20", "--report", "out.html"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith("Training 20")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=HANGS)
    assert process.returncode == 130
    assert out == ""
    assert err.splitlines()[-1].startswith("identikit: interrupted")
    assert "Traceback" not in err
    assert list(Path().glob("*.html")) == []


# audit


def test_audit_json_is_all_there_is_on_standard_output():
    result = done("audit", "a.npy", "b.npy", "c.npy", "--json", "-o", "audit.json")
    document = json.loads(result.stdout)
    assert document == json.loads(ik.audit(["a.npy", "b.npy", "c.npy"]).to_json())
    assert [pair["group"] for pair in document["pairs"]] == ["affine", "unrelated", "unrelated"]
    assert json.loads(Path("audit.json").read_text()) == document
    assert result.stderr == "wrote audit.json\n"


def test_audit_options_reach_the_audit():
    np.save("groups.npy", np.arange(ROWS) // 8)
    X = np.load("a.npy")
    X[3] = np.nan
    np.save("a.npy", X)
    options = ["--groups", "groups.npy", "--folds", "6", "--tolerance", "0.2", "--seed", "7"]
    options += ["--drop-nonfinite", "--memory", "1GB", "--names", "left, right", "--json"]
    document = json.loads(done("audit", "a.npy", "b.npy", *options).stdout)
    settings = document["settings"]
    assert settings["fold_rule"] == "whole groups of rows"
    assert (settings["folds"], settings["tolerance"], settings["seed"]) == (6, 0.2, 7)
    assert settings["dropped"] == 1
    assert [view["name"] for view in document["views"]] == ["left", "right"]


def test_names_with_commas_are_given_one_by_one():
    result = done("audit", "a.npy", "b.npy", "--names", "a,1", "--names", "b", "--json")
    assert [view["name"] for view in json.loads(result.stdout)["views"]] == ["a,1", "b"]


def test_audit_table_fits_100_columns_and_shows_the_numbers():
    name = "a_rather_long_name_for_a_view_of_layer_12_of_the_network_from_seed_3"
    np.save(f"{name}_1.npy", np.load("a.npy"))
    np.save(f"{name}_2.npy", np.load("b.npy"))
    text = done("audit", f"{name}_1.npy", f"{name}_2.npy", "c.npy").stdout
    assert max(map(len, text.splitlines())) <= 100
    pair = ik.audit(["a.npy", "c.npy"]).comparisons[0]
    line = next(line for line in text.splitlines() if "unrelated" in line and "_1" in line)
    for value in (pair.cca.mean, pair.cca.held_out, pair.cca.chance):
        assert f"{value:.3f}" in line
    assert "–" in line  # the interval


def test_fail_above():
    strict = run("audit", "a.npy", "c.npy", "--json", "--fail-above", "0.1")
    assert strict.exit_code == 1
    document = json.loads(strict.stdout)
    assert document["verdict"]["error"] > 0.1
    assert "is above 0.1" in strict.stderr
    assert "between 'a' and 'c'" in strict.stderr
    # Unrelated views are above any limit, related ones are not.
    assert run("audit", "a.npy", "c.npy", "--fail-above", "2").exit_code == 1
    assert run("audit", "a.npy", "b.npy", "--fail-above", "2").exit_code == 0
    assert run("audit", "a.npy", "a.npy", "--fail-above", "1e-6").exit_code == 0
    assert run("audit", "a.npy", "c.npy", "--fail-above", "0.1", "--quiet").stderr == ""


def test_report_is_written_and_replaced():
    Path("out.html").write_text("old")
    done("audit", "a.npy", "b.npy", "--report", "out.html", "--quiet")
    assert Path("out.html").read_text().lower().startswith("<!doctype html>")


# align and apply


def test_align_then_apply_then_back():
    result = done("align", "a.npy", "b.npy", "--group", "affine", "-o", "map.safetensors")
    assert "affine" in result.stdout
    assert "on new rows" in result.stdout
    command = result.stderr.splitlines()[-1].split()
    assert command == ["identikit", "apply", "map.safetensors", "a.npy", "-o", "mapped.npy"]
    done(*command[1:])
    mapped = np.load("mapped.npy")
    assert mapped.dtype == np.float64
    np.testing.assert_allclose(mapped, np.load("b.npy"), atol=1e-9)
    done("apply", "map.safetensors", "mapped.npy", "--inverse", "-o", "back.npy")
    np.testing.assert_allclose(np.load("back.npy"), np.load("a.npy"), atol=1e-8)
    assert run("apply", "map.safetensors", "a.npy", "-o", "a.npy", "--force").exit_code == 2


def test_align_json_and_options():
    np.save("groups.npy", np.arange(ROWS) // 8)
    X = np.load("a.npy")
    X[3] = np.inf
    np.save("a.npy", X)
    options = ["--group", "rigid", "--groups", "groups.npy", "--folds", "4", "--names", "old,new"]
    result = done("align", "a.npy", "b.npy", *options, "--drop-nonfinite", "--json", "-o", "m")
    document = json.loads(result.stdout)
    expected = ik.align(
        X,
        np.load("b.npy"),
        group="rigid",
        folds=4,
        groups=np.load("groups.npy"),
        drop_nonfinite=True,
    )
    assert document == {
        "identikit": ik.__version__,
        "group": "rigid",
        "error": pytest.approx(expected.error),
        "interval": pytest.approx(list(expected.interval)),
        "held_out": pytest.approx(expected.held_out),
        "ridge": 0.0,
        "source": {"name": "old", "dims": 4},
        "target": {"name": "new", "dims": 4},
        "pairing": "paired by position",
        "map": "m",
    }
    assert ik.load_map("m").source_ == "old"


@pytest.mark.parametrize(
    "command",
    [("align", "a.npy", "b.npy", "-o", "m2"), ("apply", "m", "a.npy", "-o", "out.npy")],
)
def test_nothing_is_overwritten_unasked(command: tuple[str, ...]):
    done("align", "a.npy", "b.npy", "-o", "m")
    target = Path(command[-1])
    target.write_text("mine")
    result = run(*command)
    assert result.exit_code == 2
    assert "--force" in result.stderr
    assert target.read_text() == "mine"
    done(*command, "--force", "--quiet")
    assert target.read_bytes() != b"mine"


@pytest.mark.parametrize(
    ("stored", "expected"),
    [("f2", "f4"), ("f4", "f4"), (">f4", "f4"), ("f8", "f8"), (">f8", "f8"), ("i8", "f4")],
)
def test_apply_keeps_the_precision(stored: str, expected: str):
    done("align", "a.npy", "c.npy", "-o", "m")
    rows = np.round(np.load("a.npy") * 4).astype(stored)
    np.save("x.npy", rows)
    done("apply", "m", "x.npy", "-o", "y.npy")
    mapped = np.load("y.npy")
    assert mapped.dtype == np.dtype(expected)
    assert mapped.shape == (ROWS, 3)
    want = ik.load_map("m").transform(rows)
    np.testing.assert_allclose(mapped, want, rtol=1e-6, atol=1e-6)


def test_apply_maps_many_blocks_of_rows():
    done("align", "a.npy", "c.npy", "-o", "m")
    rows = np.tile(np.load("a.npy"), (5000, 1))  # a hundred megabytes as float64, and their image
    np.save("x.npy", rows.astype("f4"))
    done("apply", "m", "x.npy", "-o", "y.npy")
    mapped = np.load("y.npy")
    assert mapped.shape == (len(rows), 3)
    want = ik.load_map("m").transform(rows[:ROWS])
    for start in (0, len(rows) // 2, len(rows) - ROWS):
        np.testing.assert_allclose(mapped[start : start + ROWS], want, rtol=1e-4, atol=1e-4)


def test_apply_passes_rows_with_nan_through():
    done("align", "a.npy", "b.npy", "--group", "identity", "-o", "m")
    X = np.load("a.npy")
    X[5, 1], X[9, 0] = np.nan, np.inf
    np.save("x.npy", X)
    result = done("apply", "m", "x.npy", "-o", "y.npy")
    assert "2 rows with NaN or infinity came out as NaN" in result.stderr
    mapped = np.load("y.npy")
    assert np.isnan(mapped).all(axis=1).nonzero()[0].tolist() == [5, 9]
    assert np.isfinite(np.delete(mapped, [5, 9], axis=0)).all()


def test_apply_that_fails_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch, folder: Path):
    done("align", "a.npy", "b.npy", "-o", "m")
    before = sorted(folder.iterdir())

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("identikit.alignment.AlignmentMap.transform", interrupt)
    assert run("apply", "m", "a.npy", "-o", "y.npy").exit_code == 130
    assert sorted(folder.iterdir()) == before


@pytest.mark.slow
def test_memory_of_apply_does_not_grow_with_rows():
    def peak(rows: int) -> int:
        np.lib.format.open_memmap("big.npy", "w+", np.float32, (rows, 64)).flush()
        command = [sys.executable, "-m", "identikit", "apply", "m", "big.npy", "-o", "out.npy"]
        process = subprocess.Popen([*command, "--force", "--quiet"])
        # Of this child alone: RUSAGE_CHILDREN would be the largest of all so far.
        _, process.returncode, usage = os.wait4(process.pid, 0)
        assert process.returncode == 0
        return usage.ru_maxrss

    np.save("x.npy", np.random.default_rng(0).normal(size=(ROWS, 64)))
    done("align", "x.npy", "x.npy", "--group", "rigid", "-o", "m")
    small = peak(200_000)  # several blocks; 51 MB in, 51 MB out
    assert peak(1_000_000) < small + 20_000  # kilobytes; in memory it would be 400,000 more


# demo


def test_demo(folder: Path):
    result = done("demo", "--seeds", "2", "--json")
    document = json.loads(result.stdout)
    assert [view["name"] for view in document["views"]] == ["seed 0", "seed 1", "shuffled labels"]
    pairs = {(pair["a"], pair["b"]): pair for pair in document["pairs"]}
    seeds, control = pairs["seed 0", "seed 1"], pairs["seed 0", "shuffled labels"]
    assert seeds["error"] < 0.4 < 0.8 < control["error"]
    assert seeds["cca"]["held_out"] > 2 * control["cca"]["held_out"] > 2 * seeds["cca"]["chance"]
    assert not any(pair["warnings"] for pair in pairs.values())
    demo = document["demo"]
    assert demo["story"][0] == (
        "2 networks agree up to an affine map; the control agrees with nobody."
    )
    assert f"an error of {seeds['error']:.2f} " in demo["story"][2]
    assert f"explains {100 * (1 - seeds['error'] ** 2):.0f} %" in demo["story"][2]
    assert seeds["error"] < min(demo["error_from_pixels"])
    assert min(demo["accuracy"].values()) > 0.95
    page = (folder / "identikit-demo.html").read_text()
    assert page.index(demo["story"][0]) < page.index(demo["story"][3]) < page.index('"verdict"')
    assert "Warning" not in result.stderr


def test_demo_is_one_screen():
    Path("mine.html").write_text("mine")
    refused = run("demo", "--seeds", "2", "--report", "mine.html")
    assert refused.exit_code == 2
    assert "--force" in refused.stderr
    assert Path("mine.html").read_text() == "mine"
    Path("identikit-demo.html").write_text("an older demo")
    text = done("demo").output
    assert Path("identikit-demo.html").read_text() != "an older demo"
    assert len(text.splitlines()) <= 24
    assert max(map(len, text.splitlines())) <= 80
    assert text.count("  identikit ") == 3


def test_a_replaced_report_is_named_as_such(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("a.npy", np.random.default_rng(0).normal(size=(40, 2)))
    assert "wrote out.html" in done("audit", "a.npy", "a.npy", "--report", "out.html").stderr
    assert "replaced out.html" in done("audit", "a.npy", "a.npy", "--report", "out.html").stderr


def test_a_verb_must_say_what_its_options_are():
    def command(view: str, speed: int = 1) -> None:
        """Do something.

        VIEW : A view.
        """

    with pytest.raises(TypeError, match="does not say what 'speed' is"):
        described(command)
