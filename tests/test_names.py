"""What views are called, and how names and numbers fit a terminal."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import identikit as ik
from fake_audit import two_views
from identikit.errors import InputError
from identikit.report.numbers import shorten, shortened
from identikit.sources import tell_apart
from test_cli import done, run


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    turn = np.linalg.qr(rng.normal(size=(4, 4)))[0]
    for seed in (0, 1):
        Path(f"s{seed}").mkdir()
        np.save(f"s{seed}/layer_02.npy", X + 0.3 * seed * rng.normal(size=X.shape))
    np.save("minilm_rotated.npy", X @ turn + 0.01 * rng.normal(size=X.shape))
    np.save("minilm_permuted.npy", X[:, ::-1] + 0.01 * rng.normal(size=X.shape))
    np.save("minilm.npy", X)
    return tmp_path


def names_of(*arguments: str) -> list[str]:
    document = json.loads(done("audit", *arguments, "--json").stdout)
    return [view["name"] for view in document["views"]]


# Names from paths


def test_equal_file_names_are_told_apart_by_their_folders():
    assert names_of("s0/layer_02.npy", "s1/layer_02.npy", "minilm.npy") == [
        *("s0/layer_02", "s1/layer_02", "minilm")
    ]
    assert ik.layers(["s0/layer_02.npy", "s1/layer_02.npy"], ["minilm.npy"]).a == (
        *("s0/layer_02", "s1/layer_02"),
    )
    found = ik.match_components(["s0/layer_02.npy", "s1/layer_02.npy"])
    assert [report.name for report in found.runs] == ["s0/layer_02", "s1/layer_02"]


def test_by_their_suffixes_and_by_what_is_inside():
    X = np.load("minilm.npy")
    np.savez("minilm.npz", x=X, y=X)
    np.savez("s0/minilm.npz", x=X)
    assert names_of("minilm.npy", "minilm.npz::x", "minilm.npz::y") == [
        *("minilm", "minilm::x", "minilm::y")
    ]
    assert names_of("minilm.npz::x", "s0/minilm.npz::x")[1] == "s0/minilm::x"


def test_ids_and_models_name_files_the_same_way():
    X = np.load("minilm.npy")
    for seed in (0, 1):
        np.savez(f"s{seed}/model.npz", f=X, g=X[:9] + seed)
        np.savetxt(f"ids{seed}.txt", np.arange(300), fmt="i%d")
    ids = ("--ids", "ids0.txt", "--ids", "ids1.txt")
    assert names_of("s0/layer_02.npy", "s1/layer_02.npy", *ids) == ["s0/layer_02", "s1/layer_02"]
    document = json.loads(done("models", "s0/model.npz", "s1/model.npz", "--json").stdout)
    assert [model["name"] for model in document["models"]] == ["s0/model", "s1/model"]


def test_only_as_many_folders_as_it_takes():
    deep = [f"/data/runs/{run}/final/x.npy" for run in ("one", "two")]
    assert tell_apart(["x", "x"], deep) == ["one/final/x", "two/final/x"]
    assert tell_apart(["x", "x"], ["/a/x.npy", "/a/x.npz"]) == ["x.npy", "x.npz"]
    assert tell_apart(["x", "x"], ["/a/x.npy", "/a/b/x.npy"]) == ["x", "b/x"]
    inside = ["/s0/x.h5::layers/last", "/s1/x.h5::layers/last"]
    assert tell_apart(["x::layers/last"] * 2, inside) == ["s0/x::layers/last", "s1/x::layers/last"]
    # The same file twice has nothing that differs.
    assert tell_apart(["x"] * 3, ["/a/x.npy", "/b/x.npy", "/b/x.npy"]) == ["a/x", "b/x", "b/x (2)"]
    assert tell_apart(["x", "x", "x (2)"], [None] * 3) == ["x", "x (2)", "x (2) (2)"]


def test_a_mapping_names_its_views():
    X, Y = np.load("minilm.npy"), np.load("minilm_rotated.npy")
    audit = ik.audit({"old": X, "new": Y})
    assert [view.name for view in audit.views] == ["old", "new"]
    assert ik.accumulate({"old": X, "new": "minilm_rotated.npy"}).names == ("old", "new")
    assert ik.near_identifiability({"old": X, "new": Y}).sides[1].name == "new"
    assert [run.name for run in ik.match_components({"old": X, "new": Y}).runs] == ["old", "new"]
    with pytest.raises(InputError, match="these views have names already"):
        ik.audit({"old": X, "new": Y}, names=["a", "b"])
    with pytest.raises(InputError, match="give two views, or one mapping with two views by name"):
        ik.near_identifiability({"old": X})
    with pytest.raises(InputError, match="give two views"):
        ik.near_identifiability(X)


# Names that are shortened


def test_a_number_is_kept_whole_or_left_out():
    for width in range(5, 25):
        short = shorten("checkpoint_20240131_step_12000.5_final", width)
        assert set(re.findall(r"[\d.]+", short)) <= {"20240131", "12000.5"}, short
    assert shorten("20240131202401312024", 10) == "20240131202401312024"


@pytest.mark.parametrize("width", range(5, 40))
def test_what_differs_is_shown_different(width: int):
    names = [f"experiment_{kind}_of_seed_{seed}_final" for kind in "ab" for seed in (1, 12, 123)]
    names += ["minilm_rotated", "minilm_permuted", "x"]
    shown = shortened(names, width)
    assert list(shown) == names
    assert len(set(shown.values())) == len(names)
    assert {n for text in shown.values() for n in re.findall(r"\d+", text)} <= {"1", "12", "123"}
    assert shown["x"] == "x"


def terminal(columns: int, *arguments: str) -> str:
    """What a terminal of so many columns shows of a command's standard output."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "identikit", *arguments, "--quiet"],
        stdout=theirs,
        env=os.environ | {"COLUMNS": str(columns), "TERM": "xterm"},
    ) as process:
        os.close(theirs)
        text = b""
        try:
            while more := os.read(ours, 4096):
                text += more
        except OSError:  # how Linux says that the other side is closed
            pass
    os.close(ours)
    assert process.returncode == 0
    return re.sub(r"\x1b\[[\d;]*m", "", text.decode())


@pytest.mark.parametrize("columns", [30, 80, 100])
def test_a_table_shows_names_that_differ_and_whole_numbers(columns: int):
    views = ["minilm.npy", "minilm_rotated.npy", "minilm_permuted.npy"]
    audit = ik.audit(views)
    lines = terminal(columns, "audit", *views).splitlines()
    rule = next(n for n, line in enumerate(lines) if line.startswith("───"))
    rows = [line.split() for line in lines[rule + 1 : rule + 4]]
    shown = {row[0] for row in rows} | {row[1] for row in rows}
    assert len(shown) == 3
    if columns == 80:
        assert shown == {"minilm", "minilm_rotated", "minilm_permuted"}
    if columns >= 80:
        assert max(map(len, lines)) <= columns
    for row in rows:
        assert row[3] in {f"{pair.error:.4f}" for pair in audit.comparisons}
        assert re.fullmatch(r"\(0\.\d{4}–0\.\d{4}\)", row[4])
    left_out = "CCA, held out, chance" + ", var. expl." * (columns < 100)
    assert f"Not shown for want of room: {left_out}." in lines


@pytest.mark.parametrize("columns", [60, 80])
def test_tables_of_other_verbs_keep_their_numbers(columns: int):
    X = np.load("minilm.npy")
    for model in "ab":
        Path(f"model_{model}").mkdir()
        for layer in (1, 12):
            np.save(f"model_{model}/a_layer_with_a_long_name_{layer}.npy", X[:, : 2 + layer % 3])
    for arguments in (("layers", "model_a", "model_b"), ("components", *["minilm.npy"] * 2)):
        text = terminal(columns, *arguments)
        table = text.split("───")[-1].split("\r\n\r\n")[0]
        assert "…" not in re.sub(r"…[\w_]+|[\w_]+…", "", table)
        assert not re.search(r"\d…", re.sub(r"_\d+…", "", table))


def test_a_page_shows_names_that_differ():
    names = ["embeddings_of_the_large_model_rotated", "embeddings_of_the_large_model_permuted"]
    two_views(*names).report("out.html")
    page = Path("out.html").read_text()
    headers = re.findall(r'<th scope="col"><bdi[^>]*>([^<]*)</bdi>', page)
    assert len(set(headers)) == 2
    assert all(f'title="{name}"' in page for name in names)


def test_the_sentence_shows_names_that_differ():
    names = [f"{'long_' * 12}{end}{'_and_long' * 12}" for end in "ab"]
    said = run("audit", "minilm.npy", "minilm_rotated.npy", "--names", ",".join(names)).stdout
    first, second = re.search(r"views (\S+)\s+and\s+(\S+)", said).groups()
    assert first != second
