"""`identikit near`: what it prints, writes and refuses."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

import identikit as ik
from identikit.cli import app


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    X = rng.laplace(size=(400, 3))
    np.save("a.npy", X)
    np.save("b.npy", X @ np.linalg.qr(rng.normal(size=(3, 3)))[0] + 0.05 * rng.normal(size=X.shape))
    np.save("narrow.npy", X[:, :2])
    np.save("noise.npy", rng.laplace(size=(400, 3)))
    np.save("groups.npy", np.arange(400) // 10)
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["near", *arguments])


def done(*arguments: str) -> Result:
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result


def test_it_prints_a_table_for_each_direction_and_coordinates():
    printed = done("a.npy", "b.npy").stdout
    for title in ("a → b, raw", "b → a, raw", "a → b, whitened", "b → a, whitened"):
        assert title in printed
    assert "fitted on 200 rows, scored on 200 others" in " ".join(printed.split())
    assert printed.count("ICA efficiency") == 4
    assert printed.count("\nrigid ") == printed.count("\nica, different rows ") == 4
    assert "3 components with 100% of the variance, converged" in printed
    assert "neither an upper nor a lower bound" in " ".join(printed.split())
    assert max(map(len, printed.splitlines())) <= 100


def test_json_is_one_document_and_nothing_else():
    result = done("a.npy", "b.npy", "--json", "--names", "one,two")
    document = json.loads(result.stdout)
    assert document["identikit"] == ik.__version__
    assert [side["name"] for side in document["sides"]] == ["one", "two"]
    assert {way["coordinates"] for way in document["directions"]} == {"raw", "whitened"}
    rigid = next(e for e in document["directions"][0]["errors"] if e["group"] == "rigid")
    assert 0 < rigid["mean"] < 0.05 < rigid["chance"]


def test_the_document_is_saved(folder: Path):
    result = done("a.npy", "b.npy", "-o", "near.json")
    assert "wrote near.json" in result.stderr
    saved = json.loads((folder / "near.json").read_text())
    assert saved == json.loads(done("a.npy", "b.npy", "--json").stdout)
    assert "replaced near.json" in done("a.npy", "b.npy", "-o", "near.json").stderr
    assert done("a.npy", "b.npy", "-o", "near.json", "--quiet").stderr == ""


def test_groups_components_share_and_sample():
    options = ["--groups", "groups.npy", "--components", "2", "--max-rows", "300", "--seed", "1"]
    document = json.loads(done("a.npy", "b.npy", "--json", "--fit-share", "0.7", *options).stdout)
    assert (document["rows"], document["used"], document["seed"]) == (400, 300, 1)
    assert document["scored_on"] < document["fitted_on"] <= 210
    assert [side["components"] for side in document["sides"]] == [2, 2]
    words = " ".join(done("a.npy", "b.npy", "--max-rows", "300").stdout.split())
    assert "a sample of 300 of 400 rows" in words
    words = " ".join(done("a.npy", "b.npy", "--fit-share", "1").stdout.split())
    assert "fitted and scored on the same 400 rows" in words


def test_the_diameter_says_what_it_is():
    words = " ".join(done("a.npy", "b.npy").stdout.split())
    assert words.count(", of 95% of the pairs; largest ") == 4
    document = json.loads(done("a.npy", "b.npy", "--json").stdout)
    assert document["diameter_quantile"] == 0.95
    assert "does not grow with the number of rows" in document["diameter"]
    for way in document["directions"]:
        assert way["diameter"]["quantile"] == 0.95
        assert 0 < way["diameter"]["value"] < way["diameter"]["max"] <= way["diameter"]["upper"]


def test_no_efficiency_has_its_reason():
    assert "No permutation between different widths" in done("a.npy", "narrow.npy").stdout
    assert "a rigid map gains nothing on a permutation" in done("a.npy", "noise.npy").stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a.npy", "missing.npy"], "there is no such file"),
        (["a.npy", "b.npy", "--fit-share", "2"], "fit_share is 2.0"),
        (["a.npy", "b.npy", "--components", "9"], "has rank 3"),
        (["a.npy", "b.npy", "-o", "a.npy"], "one of the inputs"),
        (["a.npy", "b.npy", "-o", "nowhere/near.json"], "there is no directory"),
        (["a.npy", "b.npy", "--names", "one"], "expected 2 names"),
    ],
)
def test_wrong_calls_end_with_2_and_one_sentence(arguments, message):
    result = run(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stdout == ""
    assert "Traceback" not in result.stderr


def test_help_has_an_example():
    assert "Example: identikit near run1.npy" in done("--help").stdout
