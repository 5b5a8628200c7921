"""The pytest plugin and the GitHub Action, as far as that goes without a network."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import numpy as np
import pytest

import identikit as ik

pytest_plugins = "pytester"

ROOT = Path(__file__).parents[1]
PLUGIN = "identikit.integrations.pytest_plugin"

TESTS = """
import numpy as np

X = np.random.default_rng(0).normal(size=(200, 6))

def test_same(identikit_check):
    assert identikit_check(X, "ref.pin").cause.name == "same"

def test_rounded(identikit_check):
    identikit_check(X.astype(np.float16), "ref.pin", fail_above=0.01)

def test_changed(identikit_check):
    identikit_check(X[:, ::-1], "ref.pin")

def test_missing(identikit_check):
    identikit_check(X, "none.pin")

def test_fewer(identikit_check):
    identikit_check(X[:100], "ref.pin")
"""


@pytest.fixture
def plugin() -> list[str]:
    """What makes pytest load the plugin, which it does by itself if this version is installed."""
    known = {each.value for each in entry_points(group="pytest11")}
    return [] if PLUGIN in known else ["-p", PLUGIN]


def test_the_fixture_passes_fails_and_says_why(pytester, plugin):
    ik.pin(np.random.default_rng(0).normal(size=(200, 6))).save(pytester.path / "ref.pin")
    pytester.makepyfile(TESTS)
    found = pytester.runpytest_subprocess(*plugin)
    found.assert_outcomes(passed=2, failed=3)
    found.stdout.fnmatch_lines(
        ["*Failed, 'view0' against 'ref.pin': the error*column permutation*"]
    )
    found.stdout.fnmatch_lines(["*could not run: there is no pin none.pin*"])
    found.stdout.fnmatch_lines(["*could not run*100 rows, and 200 were pinned*"])
    found.stdout.no_fnmatch_line("*another exception*")


def test_the_entry_point_as_installed_has_the_fixture(pytester, monkeypatch, tmp_path_factory):
    """pytest loads it by the name of its entry point, from a folder as pip would leave it."""
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    site = tmp_path_factory.mktemp("site")
    known = site / "identikit-0.0.dist-info"
    known.mkdir()
    (known / "METADATA").write_text("Metadata-Version: 2.1\nName: identikit\nVersion: 0.0\n")
    lines = [f"{name} = {value}" for name, value in project["entry-points"]["pytest11"].items()]
    (known / "entry_points.txt").write_text("\n".join(["[pytest11]", *lines, ""]))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(site), str(ROOT / "src")]))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    ik.pin(np.random.default_rng(0).normal(size=(200, 6))).save(pytester.path / "ref.pin")
    pytester.makepyfile(TESTS)
    found = pytester.runpytest_subprocess("-p", "identikit")
    found.assert_outcomes(passed=2, failed=3)


def test_the_plugin_imports_nothing_heavy():
    code = (
        f"import sys, {PLUGIN}; print('numpy' in sys.modules, 'identikit.retrieval' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


def test_the_plugin_is_an_entry_point():
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["entry-points"]["pytest11"] == {"identikit": PLUGIN}


@pytest.fixture
def action() -> dict:
    yaml = pytest.importorskip("yaml")
    return yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))


def run_step(
    action: dict,
    folder: Path,
    view: str = "",
    arguments: str = "",
    *,
    number: int = -1,
    reference: str = "ref.pin",
    version: str = "",
    programs: dict[str, str] | None = None,
) -> tuple[int, str]:
    """Run the shell of a step, as the runner does, and read the job's summary."""
    step = action["runs"]["steps"][number]
    given = {"view": view, "reference": reference, "arguments": arguments, "version": version}
    filled = {
        name: given[value.removeprefix("${{ inputs.").removesuffix(" }}")]
        for name, value in step["env"].items()
    }
    there = folder / "bin"
    there.mkdir(exist_ok=True)
    run = {"python": f'exec "{sys.executable}" "$@"'}
    run["identikit"] = f'exec "{sys.executable}" -m identikit "$@"'
    for name, line in (run | (programs or {})).items():
        (there / name).write_text(f"#!/bin/sh\n{line}\n")
        (there / name).chmod(0o755)
    summary = folder / "summary.md"
    summary.unlink(missing_ok=True)
    summary.touch()
    path = f"{there}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", step["run"]],
        cwd=folder,
        env=os.environ | filled | {"PATH": path, "GITHUB_STEP_SUMMARY": str(summary)},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, summary.read_text(encoding="utf-8")


def test_the_action_is_composite_and_takes_no_input_into_its_script(action):
    assert action["runs"]["using"] == "composite"
    assert set(action["inputs"]) == {"view", "reference", "arguments", "version"}
    for step in action["runs"]["steps"]:
        assert "${{" not in step["run"]
        assert step["shell"] == "bash"


def test_the_action_runs_fails_and_writes_a_summary(action, tmp_path):
    x = np.random.default_rng(0).normal(size=(200, 6))
    for name, rows in {"same $(touch hacked)": x, "turned": x[:, ::-1], "short": x[:50]}.items():
        np.save(tmp_path / f"{name}.npy", rows)
    ik.pin(x).save(tmp_path / "ref.pin")
    code, text = run_step(action, tmp_path, "same $(touch hacked).npy")
    assert code == 0
    assert text.startswith("### identikit check: Passed")
    assert not (tmp_path / "hacked").exists()
    code, text = run_step(action, tmp_path, "turned.npy")
    assert code == 1
    assert "the columns are in another order" in text
    code, text = run_step(action, tmp_path, "turned.npy", "--require permutation -q")
    assert code == 0
    assert "Passed" in text
    code, text = run_step(action, tmp_path, "short.npy")
    assert code == 2
    assert "could not run" in text
    assert "50 rows" in text


def test_options_with_quotes_and_over_several_lines(action, tmp_path):
    x, ids = np.random.default_rng(0).normal(size=(60, 3)), [f"d{number}" for number in range(60)]
    ik.pin(x, ids=ids).save(tmp_path / "ref.pin")
    np.save(tmp_path / "it's new.npy", x[::-1] + np.array([0.05, 0, 0]))
    (tmp_path / "the ids.txt").write_text("\n".join(ids[::-1]) + "\n")
    code, text = run_step(action, tmp_path, "it's new.npy", "--ids 'the ids.txt'")
    assert code == 0
    assert "Passed" in text
    # An option on a line of its own is not lost.
    options = '--ids "the ids.txt"\n--fail-above 0.001\n'
    code, text = run_step(action, tmp_path, "it's new.npy", options)
    assert code == 1
    assert "Failed" in text


@pytest.mark.parametrize(
    ("view", "reference", "arguments", "words"),
    [
        ("$(touch hacked)", "ref.pin", "", "no such file"),
        ('"; touch hacked; "', "ref.pin", "", "no such file"),
        ("x.npy", "`touch hacked`.pin", "", "there is no pin"),
        ("x.npy", "ref.pin", "; touch hacked", "identikit"),
        ("x.npy", "ref.pin", "--id $(touch hacked)", "identikit"),
        ("x.npy", "ref.pin", "--id 'a", "cannot be split"),
        ("--help", "ref.pin", "", "no such file"),
        ("x.npy", "--help", "", "there is no pin"),
    ],
)
def test_inputs_of_the_action_are_nothing_but_text(
    action, tmp_path, view, reference, arguments, words
):
    x = np.random.default_rng(0).normal(size=(60, 3))
    np.save(tmp_path / "x.npy", x)
    ik.pin(x).save(tmp_path / "ref.pin")
    code, text = run_step(action, tmp_path, view, arguments, reference=reference)
    assert code == 2
    assert "### identikit check could not run" in text
    assert words in " ".join(text.split())
    assert not (tmp_path / "hacked").exists()


def test_the_action_fails_where_identikit_is_not_installed(action, tmp_path):
    code, text = run_step(action, tmp_path, "x.npy", programs={"identikit": "exit 127"})
    assert code == 127
    assert "could not run" in text


def test_the_step_that_installs_takes_one_requirement(action, tmp_path):
    step = action["runs"]["steps"][0]
    assert step["if"] == "inputs.version != ''"
    told = {"python": 'for each in "$@"; do echo "$each" >> told; done'}
    asked = "identikit[io] @ file:///a b; touch hacked"
    assert run_step(action, tmp_path, number=0, version=asked, programs=told)[0] == 0
    lines = (tmp_path / "told").read_text().splitlines()
    assert lines == ["-m", "pip", "install", "--quiet", "--", asked]
    assert not (tmp_path / "hacked").exists()
