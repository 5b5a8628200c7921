"""Wrong input meets one clear sentence and exit code 2; odd but usable input works and says so."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from identikit.cli import app

ROWS = 200


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with two good views, so that commands are as short as a user's."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS, 4))
    np.save("a.npy", X)
    np.save("b.npy", X @ rng.normal(size=(4, 4)) + 1)
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def refused(*arguments: str) -> str:
    """Run a command that must fail with one sentence on standard error and nothing else."""
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    sentence = result.stderr
    assert sentence.startswith("identikit: ")
    assert sentence.count("\n") == 1
    assert "Traceback" not in sentence
    return sentence


def audited(*arguments: str) -> dict:
    result = run("audit", *arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def warnings(document: dict) -> str:
    return " ".join(text for pair in document["pairs"] for text in pair["warnings"])


def views() -> tuple[np.ndarray, np.ndarray]:
    return np.load("a.npy"), np.load("b.npy")


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_nonfinite(bad: float):
    X, _ = views()
    X[17, 2] = X[40, 0] = bad
    np.save("bad.npy", X)
    sentence = refused("audit", "bad.npy", "b.npy")
    assert "view 'bad' has NaN or infinity in 2 of 200 rows, the first is row 17" in sentence
    assert "--drop-nonfinite" in sentence
    assert "--drop-nonfinite" in refused("align", "bad.npy", "b.npy", "-o", "map.safetensors")
    document = audited("bad.npy", "b.npy", "--drop-nonfinite")
    assert document["rows"] == ROWS - 2
    assert "2 rows with NaN or infinity were left out" in warnings(document)


def test_nothing_finite():
    np.save("bad.npy", np.full((ROWS, 3), np.nan))
    assert "a fold has only 0 rows left" in refused("audit", "bad.npy", "b.npy", "--drop-nonfinite")


def test_unequal_rows():
    np.save("short.npy", views()[0][:150])
    sentence = refused("audit", "a.npy", "short.npy")
    assert "view 'a' has 200 rows and view 'short' has 150" in sentence


def test_one_row():
    np.save("one.npy", np.ones((1, 3)))
    assert "at least 10 rows; the views have 1" in refused("audit", "one.npy", "one.npy")
    assert "two folds" in refused("align", "one.npy", "one.npy", "-o", "map.safetensors")


def test_zero_columns():
    np.save("none.npy", np.ones((ROWS, 0)))
    assert "view 'none' (none.npy) has no columns" in refused("audit", "none.npy", "a.npy")


def test_zero_rows():
    np.save("none.npy", np.ones((0, 4)))
    assert "view 'none' (none.npy) has no rows" in refused("audit", "none.npy", "a.npy")


@pytest.mark.parametrize(("rows", "dims"), [(40, 64), (64, 64), (65, 64)])
def test_no_more_rows_than_columns(rows: int, dims: int):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(rows, dims))
    np.save("x.npy", X)
    np.save("y.npy", X[:, ::-1] + 0.1 * rng.normal(size=X.shape))
    document = audited("x.npy", "y.npy")
    pair = document["pairs"][0]
    assert pair["cca"]["mean"] is None
    assert pair["cca"]["held_out"] is not None
    assert "would be 1 for any data and are left out" in warnings(document)
    # A permutation has nothing to overfit with, so it is found even here.
    assert pair["group"] == "permutation"


def test_constant_and_duplicated_columns():
    X, _ = views()
    np.save("odd.npy", np.column_stack([X, X[:, 0], np.full(ROWS, 7.0)]))
    document = audited("odd.npy", "b.npy")
    assert "view 'odd' has rank 4 of 6: constant, duplicated" in warnings(document)
    assert document["views"][0]["rank"] == 4
    assert document["verdict"]["error"] < 1e-6


def test_three_axes():
    np.save("cube.npy", np.ones((ROWS, 2, 2)))
    sentence = refused("audit", "cube.npy", "b.npy")
    assert "view 'cube' (cube.npy) is 3-D, of shape (200, 2, 2)" in sentence
    assert "reshape" in sentence


def test_one_axis():
    np.save("line.npy", np.ones(ROWS))
    assert "is 1-D" in refused("audit", "line.npy", "b.npy")


def test_objects_are_not_unpickled(folder: Path):
    class Bomb:
        def __reduce__(self) -> tuple:
            return (Path.touch, (folder / "exploded",))

    np.save("bomb.npy", np.array([[Bomb()] * 4] * ROWS, dtype=object), allow_pickle=True)
    sentence = refused("audit", "bomb.npy", "b.npy")
    assert "view 'bomb' (bomb.npy) holds pickled Python objects" in sentence
    assert not (folder / "exploded").exists()


def test_a_bare_pickle_is_not_unpickled(folder: Path):
    # What pickle.dumps(os.system) would call: written out, so that no pickle is made here either.
    Path("bare.npy").write_bytes(b"cos\nsystem\n(S'touch exploded'\ntR.")
    assert "pickled files are never loaded" in refused("audit", "bare.npy", "b.npy")
    assert not (folder / "exploded").exists()


@pytest.mark.parametrize("array", [np.ones((ROWS, 2), complex), np.full((ROWS, 2), "x")])
def test_no_real_numbers(array: np.ndarray):
    np.save("odd.npy", array)
    assert f"has dtype {array.dtype}" in refused("audit", "odd.npy", "b.npy")


@pytest.mark.parametrize("size", [0, 5, 60, 3000])
def test_truncated(size: int):
    Path("cut.npy").write_bytes(Path("a.npy").read_bytes()[:size])
    assert "truncated" in refused("audit", "cut.npy", "b.npy")


def test_missing_file():
    assert "view 'nope' (nope.npy): there is no such file" in refused("audit", "a.npy", "nope.npy")
    assert "there is no file nope" in refused("apply", "nope", "a.npy", "-o", "out.npy")
    assert "there is no such file" in refused("audit", "a.npy", "b.npy", "--groups", "nope.npy")


def test_directory():
    Path("folder.npy").mkdir()
    assert "folder.npy) is a directory" in refused("audit", "a.npy", "folder.npy")


def test_unknown_kind_of_file():
    Path("a.xlsx").write_bytes(b"?")
    assert "has the suffix '.xlsx'; expected one of" in refused("audit", "a.xlsx", "b.npy")


def test_names_inside_a_file():
    X, Y = views()
    np.savez("both.npz", x=X, y=Y)
    sentence = refused("audit", "both.npz::x", "both.npz::z")
    assert "holds no array named 'z'; it holds: 'x', 'y'" in sentence
    assert "choose one with path::name" in refused("audit", "both.npz", "a.npy")
    names = [view["name"] for view in audited("both.npz::x", "both.npz::y")["views"]]
    assert names == ["both::x", "both::y"]


def test_same_file_twice():
    document = audited("a.npy", "a.npy")
    assert document["verdict"]["group"] == "identity"
    assert document["verdict"]["error"] < 1e-6
    assert [view["name"] for view in document["views"]] == ["a", "a (2)"]


def test_constant_view():
    np.save("flat.npy", np.full((ROWS, 3), 2.5))
    assert "view 'flat' is constant" in refused("audit", "flat.npy", "b.npy")
    assert "view 'flat' is constant" in refused("align", "flat.npy", "b.npy", "-o", "m.safetensors")


def test_columns_too_different_for_one_unit():
    huge = views()[0]
    huge[:, 1] *= 1e300
    np.save("huge.npy", huge)
    sentence = refused("audit", "huge.npy", "b.npy")
    assert (
        "view 'huge' has columns of very different size: column 1 has values of about" in sentence
    )
    assert "rescale its columns, or repair these values" in sentence


def test_groups():
    np.save("groups.npy", np.arange(ROWS) // 10)
    assert audited("a.npy", "b.npy", "--groups", "groups.npy")["settings"]["fold_rule"] == (
        "whole groups of rows"
    )
    np.save("groups.npy", np.arange(150))
    sentence = refused("audit", "a.npy", "b.npy", "--groups", "groups.npy")
    assert "groups has shape (150,), but the views have 200 rows" in sentence
    np.save("groups.npy", np.full(ROWS, 0.5))
    assert "expected integers or strings" in refused(
        "audit", "a.npy", "b.npy", "--groups", "groups.npy"
    )


def test_numbers_out_of_range():
    assert "at least 5 folds" in refused("audit", "a.npy", "b.npy", "--folds", "3")
    assert "a finite number, 0 or larger" in refused("audit", "a.npy", "b.npy", "--tolerance", "-1")
    for limit in ("-0.1", "nan"):
        assert "--fail-above is" in refused("audit", "a.npy", "b.npy", "--fail-above", limit)
    for size in ("lots", "4XB", "IB"):
        assert "--memory is" in refused("audit", "a.npy", "b.npy", "--memory", size)
    assert "larger memory budget" in refused("audit", "a.npy", "b.npy", "--memory", "1KB")


def test_names():
    assert "expected 2 names" in refused("audit", "a.npy", "b.npy", "--names", "x,y,z")
    assert "empty name in 'x,'" in refused("audit", "a.npy", "b.npy", "--names", "x,")


def test_one_view():
    assert "give at least two" in refused("audit", "a.npy")


@pytest.mark.parametrize("option", ["--report", "--output"])
def test_unwritable_targets(option: str, monkeypatch: pytest.MonkeyPatch):
    assert "there is no directory missing" in refused(
        "audit", "a.npy", "b.npy", option, "missing/out"
    )
    Path("folder").mkdir()
    assert "folder is a directory" in refused("audit", "a.npy", "b.npy", option, "folder")
    before = Path("a.npy").read_bytes()
    assert "is one of the inputs" in refused("audit", "a.npy", "b.npy", option, "./a.npy")
    assert Path("a.npy").read_bytes() == before
    # The superuser may write anywhere, so the answer of the system is stood in for.
    monkeypatch.setattr("os.access", lambda *_: False)
    assert "is not writable" in refused("audit", "a.npy", "b.npy", option, "folder/out")


def test_one_file_for_two_results():
    assert "both out" in refused("audit", "a.npy", "b.npy", "--report", "out", "-o", "out")


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("audit", "a.npy", "b.npy", "--frobnicate"), "--frobnicate"),
        (("audit",), "Missing argument"),
        (("audit", "a.npy", "b.npy", "--folds", "many"), "--folds"),
        (("align", "a.npy", "b.npy"), "Missing option"),
        (("demo", "--seeds", "1"), "--seeds"),
        (("frobnicate",), "frobnicate"),
        ((), "Usage"),
    ],
)
def test_wrong_calls(arguments: tuple[str, ...], word: str):
    result = run(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert word in result.stderr


def test_align_refuses_unknown_groups_and_unequal_widths():
    sentence = refused("align", "a.npy", "b.npy", "--group", "conformal", "-o", "m.safetensors")
    assert "there is no rung 'conformal'; the rungs are identity, permutation" in sentence
    np.save("narrow.npy", views()[0][:, :2])
    sentence = refused("align", "a.npy", "narrow.npy", "--group", "identity", "-o", "m.safetensors")
    assert "needs views of the same width" in sentence
    assert not Path("m.safetensors").exists()


def test_apply_refuses_what_does_not_fit():
    np.save("narrow.npy", views()[0][:, :2])
    assert run("align", "a.npy", "narrow.npy", "-o", "m.safetensors").exit_code == 0
    sentence = refused("apply", "m.safetensors", "narrow.npy", "-o", "out.npy")
    assert "rows of 'a' with 4 columns, but view 'narrow' has 2; it would fit with --inverse" in (
        sentence
    )
    sentence = refused("apply", "m.safetensors", "a.npy", "-o", "out.npy", "--inverse")
    assert "it would fit without --inverse" in sentence
    assert "ends in .npy" in refused("apply", "m.safetensors", "a.npy", "-o", "out.xlsx")
    assert "not a readable safetensors file" in refused("apply", "a.npy", "a.npy", "-o", "out.npy")
    assert not Path("out.npy").exists()


def test_apply_refuses_an_image_that_overflows():
    X, _ = views()
    np.save("x.npy", X.astype(np.float32))
    np.save("y.npy", X * 1e30)
    assert run("align", "x.npy", "y.npy", "-o", "m.safetensors").exit_code == 0
    np.save("x.npy", np.vstack([X, X[:1] * 1e30]).astype(np.float32))
    sentence = refused("apply", "m.safetensors", "x.npy", "-o", "out.npy")
    assert "row 200 of view 'x' maps to values too large for float32" in sentence
    assert not Path("out.npy").exists()
