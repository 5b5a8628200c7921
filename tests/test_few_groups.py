"""Few groups of rows, as donors are: one is left out at a time, and the interval says so."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import t as student
from typer.testing import CliRunner, Result

import identikit as ik
from identikit.auditing._verdict import _doubt
from identikit.cli import app
from identikit.moments import assign_folds

ROWS = 120


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two views of the cells of three donors, who differ in how well the views agree."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS, 4))
    turn = np.linalg.qr(rng.normal(size=(4, 4)))[0]
    noise = np.repeat([0.05, 0.1, 0.2], ROWS // 3)[:, None]
    np.save("a.npy", X)
    np.save("b.npy", X @ turn + noise * rng.normal(size=X.shape))
    Path("donors.txt").write_text("\n".join(np.repeat(["ann", "bob", "cyd"], ROWS // 3)))
    Path("two.txt").write_text("\n".join(np.repeat(["ann", "bob"], ROWS // 2)))
    return tmp_path


def run(*arguments: str, code: int = 0) -> Result:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == code, result.output
    return result


@pytest.mark.parametrize("folds", [[], ["--folds", "3"]])
def test_three_donors_are_three_folds_and_the_audit_says_so(folds: list[str]):
    shown = run("audit", "a.npy", "b.npy", "--groups", "donors.txt", "--json", *folds).stdout
    document = json.loads(shown)
    assert document["settings"]["folds"] == 3
    assert document["verdict"]["group"] == "rigid"
    (pair,) = document["pairs"]
    assert any("3 folds of whole groups" in text for text in pair["warnings"])
    words = run("audit", "a.npy", "b.npy", "--groups", "donors.txt", *folds).stdout
    assert "2 degrees of freedom" in " ".join(words.split())


def test_the_interval_is_students_with_two_degrees_of_freedom():
    donors = np.repeat([0, 1, 2], ROWS // 3)
    X, Y = np.load("a.npy"), np.load("b.npy")
    (pair,) = ik.audit([X, Y], groups=donors).comparisons
    rung = next(rung for rung in pair.ladder if rung.group == "rigid")
    # The ladder by hand: Procrustes on two donors, squared errors on the third.
    missed, total = [], []
    for donor in range(3):
        there = donors == donor
        mean_x, mean_y = X[~there].mean(0), Y[~there].mean(0)
        left, _, right = np.linalg.svd((X[~there] - mean_x).T @ (Y[~there] - mean_y))
        missed.append(np.square((X[there] - mean_x) @ left @ right + mean_y - Y[there]).sum())
        total.append(np.square(Y[there] - mean_y).sum())
    without = np.sqrt((sum(missed) - np.array(missed)) / (sum(total) - np.array(total)))
    half = student.ppf(0.975, 2) * np.sqrt(2 / 3 * np.square(without - without.mean()).sum())
    error = np.sqrt(sum(missed) / sum(total))
    assert rung.forward == pytest.approx(error, rel=1e-9)
    assert rung.forward_interval == pytest.approx((max(error - half, 0), error + half), rel=1e-9)


def test_fewer_folds_mean_more_doubt_between_rungs():
    assert _doubt(3) == pytest.approx(student.ppf(0.975, 2) / student.ppf(0.975, 4))
    assert _doubt(5) == _doubt(20) == 1


def test_two_groups_are_one_clear_error():
    for verb in (["audit"], ["align", "-o", "map.safetensors"], ["moments", "-o", "m.moments"]):
        result = run(*verb, "a.npy", "b.npy", "--groups", "two.txt", code=2)
        assert result.stderr == (
            "identikit: there are 2 groups of rows, and leaving one group out at a time needs at "
            "least 3: give finer groups, or none\n"
        )


def test_every_verb_with_groups_takes_three():
    run("align", "a.npy", "b.npy", "--groups", "donors.txt", "-o", "map.safetensors")
    run("moments", "a.npy", "b.npy", "--groups", "donors.txt", "-o", "ab.moments")
    assert json.loads(run("audit", "ab.moments", "--json").stdout)["settings"]["folds"] == 3
    layers = {"l": np.load("a.npy"), "m": np.load("b.npy")}
    assert ik.layers(layers, layers, groups=np.arange(ROWS) % 3).folds == 3


def test_as_many_folds_as_groups_at_most():
    assert assign_folds(9, 5, [0, 0, 0, 1, 1, 1, 2, 2, 2]).count == 3
    assert assign_folds(9, 2, [0, 0, 0, 1, 1, 1, 2, 2, 2]).count == 2
