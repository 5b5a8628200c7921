"""An audit of whatever holds the rows, or their statistics: the same verdict by every way."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import identikit as ik
from conftest import close
from identikit.auditing import Audit, audit
from identikit.cli import app
from identikit.errors import InputError
from identikit.moments import load_moments, read_and_save
from identikit.moments.engines import Pool


@pytest.fixture
def views(rng: np.random.Generator) -> list[np.ndarray]:
    X = rng.normal(size=(2500, 4)) @ rng.normal(size=(4, 4)) + 3
    turn = np.linalg.qr(rng.normal(size=(4, 4)))[0]
    return [X, X @ turn + 0.05 * rng.normal(size=X.shape), rng.normal(size=(2500, 3))]


@pytest.fixture
def files(views: list[np.ndarray], tmp_path: Path) -> list[str]:
    for name, view in zip("abc", views):
        np.save(tmp_path / f"{name}.npy", view)
    return [str(tmp_path / f"{name}.npy") for name in "abc"]


def same(one: Audit, other: Audit, tol: float = 1e-10) -> None:
    """Equal but for rounding, in every pair and rung."""
    assert one.verdict.group == other.verdict.group
    for a, b in zip(one.comparisons, other.comparisons, strict=True):
        assert (a.a, a.b, a.group) == (b.a, b.b, b.group)
        for mine, theirs in zip(a.ladder, b.ladder, strict=True):
            close(mine.error, theirs.error, tol)
            close(mine.interval, theirs.interval, 10 * tol)
        close(a.correlations, b.correlations, tol)


def run(*args: object) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, [str(arg) for arg in args])
    assert done.exception is None or isinstance(done.exception, SystemExit)
    return done.exit_code, done.stdout, done.stderr


def test_a_pool_says_the_same(views, files):
    with Pool(2) as pool:
        same(audit(views, engine=pool), audit(views))
        same(audit(files, engine=pool, memory=60_000_000), audit(files))


def test_moments_say_what_the_rows_say(views, tmp_path):
    whole = ik.accumulate(views, names=["a", "b", "c"])
    rows = audit(views, names=["a", "b", "c"])
    same(audit(whole), rows, 0)
    whole.save(tmp_path / "all.moments")
    from_file = audit([tmp_path / "all.moments"])
    same(from_file, rows, 0)
    assert from_file.settings.folds == 5
    assert from_file.settings.reading.startswith("No rows were read")
    for pair in from_file.comparisons:
        assert "row shift" not in {check.name for check in pair.checks}
    assert "row shift" in {check.name for check in rows.comparisons[0].checks}


def test_shards_on_several_machines_say_what_the_rows_say(views, files, tmp_path):
    parts = []
    for number, (start, stop) in enumerate([(0, 900), (900, 2500)]):
        shard = tmp_path / f"shard{number}"
        shard.mkdir()
        for name, view in zip("abc", views):
            np.save(shard / f"{name}.npy", view[start:stop])
        parts.append(tmp_path / f"part{number}.moments")
        code, _, error = run("moments", *sorted(shard.iterdir()), "-o", parts[-1])
        assert code == 0, error
    code, _, error = run("merge", *parts, "-o", tmp_path / "all.moments")
    assert code == 0, error
    code, text, error = run("audit", tmp_path / "all.moments", "--json")
    assert code == 0, error
    merged, rows = json.loads(text), audit(files).to_dict()
    assert merged["rows"] == 2500
    assert merged["verdict"]["group"] == rows["verdict"]["group"]
    for ours, theirs in zip(merged["pairs"], rows["pairs"], strict=True):
        assert ours["group"] == theirs["group"]
        assert abs(ours["error"] - theirs["error"]) < 0.01  # other folds
        close(ours["cca"]["mean"], theirs["cca"]["mean"], 1e-10)  # in sample: the same rows
    code, _, error = run("merge", *parts, parts[0], "-o", tmp_path / "twice.moments")
    assert code == 2
    assert not (tmp_path / "twice.moments").exists()


def test_moments_without_a_row_sample_leave_out_what_needs_rows(files, tmp_path):
    path = tmp_path / "bare.moments"
    assert run("moments", *files, "-o", path, "--no-sample")[0] == 0
    assert len(load_moments(path).sample.keys) == 0
    bare, rows = audit(str(path)), audit(files)
    same(bare, rows, 0)
    pair = bare.comparisons[0]
    assert pair.measures["mutual_knn"] is None
    assert pair.measures["spearman_mcc"] is None
    assert pair.measures["pwcca"] == rows.comparisons[0].measures["pwcca"]
    assert len(pair.points) == 0
    bare.report(tmp_path / "bare.html")
    assert "No rows were read" in (tmp_path / "bare.html").read_text()
    assert run("audit", path)[0] == 0


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"names": ["a", "b"]}, "names"),
        ({"groups": np.zeros(2500, int)}, "groups"),
        ({"ids": "id"}, "ids"),
        ({"drop_nonfinite": True}, "drop_nonfinite"),
        ({"engine": "pool"}, "engine"),
        ({"save_moments": "x.moments"}, "save_moments"),
    ],
)
def test_moments_take_no_option_of_rows(views, options, named):
    with pytest.raises(InputError, match=f"{named} is for views whose rows are still to be read"):
        audit(ik.accumulate(views), **options)


def test_moments_need_two_views_and_five_folds(views):
    with pytest.raises(InputError, match="these moments are of 1"):
        audit(ik.accumulate(views[:1]))
    with pytest.raises(InputError, match="these moments have 3"):
        audit(ik.accumulate(views, folds=3))


def test_saved_moments_are_those_of_the_audit(files, tmp_path):
    path = tmp_path / "kept.moments"
    first = audit(files, save_moments=path)
    same(audit(path), first, 0)
    same(first, audit(files), 0)


def test_moments_that_are_saved_on_the_way_are_resumed(views, tmp_path):
    path = tmp_path / "kept.moments"
    files = [str(tmp_path / f"{name}.npy") for name in "abc"]
    for file, view in zip(files, views):
        np.save(file, np.tile(view, (8, 1)))  # so many rows that some are saved before the end
    first = audit(files, save_moments=path)
    path.unlink()

    class StoppedError(Exception):
        """In place of a kill."""

    def stop(_what: str, _done: int, _total: int) -> None:
        if path.with_name("kept.moments.partial").exists():
            raise StoppedError

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(read_and_save.__kwdefaults__, "every", 0.0)
        with pytest.raises(StoppedError):
            audit(files, save_moments=path, progress=stop)
    assert path.with_name("kept.moments.partial").exists()
    with pytest.raises(InputError, match="--resume"):
        audit(files, save_moments=path)
    same(audit(files, save_moments=path, resume=True), first)
    assert not path.with_name("kept.moments.partial").exists()
    with pytest.raises(InputError, match="give the file in which the moments are saved"):
        audit(files, resume=True)


def test_moments_that_do_not_fit_at_once_are_not_saved(rng, tmp_path):
    wide = [rng.normal(size=(400, 150)) for _ in range(6)]
    with pytest.raises(InputError, match=r"views are read at once.*passes over pairs.*--memory"):
        audit(wide, save_moments=tmp_path / "x.moments", memory=20_000_000)


def test_rows_are_paired_by_id_whatever_their_order(views, rng, tmp_path):
    ids = np.array([f"cell-{number}" for number in range(2500)])
    order = rng.permutation(2500)
    np.savez(tmp_path / "a.npz", x=views[0], id=ids)
    np.savez(tmp_path / "b.npz", x=views[1][order][:2400], id=ids[order][:2400])
    paths = [f"{tmp_path}/{name}.npz::x" for name in "ab"]
    stay = np.sort(order[:2400])
    expected = audit([views[0][stay], views[1][stay]])
    found = audit(paths, ids="id")
    assert found.rows == 2400
    close(found.verdict.error, expected.verdict.error, 1e-10)
    assert "2,400 rows matched by id" in found.settings.pairing
    groups = np.arange(2500) // 10
    by_group = audit(paths, ids="id", groups=groups)
    picked = audit([views[0][stay], views[1][stay]], groups=groups[stay])
    close(by_group.verdict.error, picked.verdict.error, 1e-10)
    code, text, error = run("audit", *paths, "--id", "id", "--json")
    assert code == 0, error
    assert json.loads(text)["rows"] == 2400
    kept = tmp_path / "kept.moments"
    known = [audit(paths, ids="id", save_moments=kept, resume=again) for again in (False, True)]
    close(known[1].verdict.error, known[0].verdict.error, 1e-12)
    files = []
    for name, some in (("a", ids), ("b", ids[order][:2400])):
        files += ["--ids", str(tmp_path / f"{name}.txt")]
        (tmp_path / f"{name}.txt").write_text("\n".join(some) + "\n")
    code, text, error = run("audit", *paths, *files, "--json")
    assert code == 0, error
    assert json.loads(text)["rows"] == 2400
    assert run("audit", *paths, *files, "--id", "id")[0] == 2


def test_parquet_with_an_id_column(views, rng, tmp_path):
    pytest.importorskip("pyarrow")
    order = rng.permutation(2500)
    for name, view, some in (("a", views[0], np.arange(2500)), ("b", views[1], order)):
        frame = pd.DataFrame(view[some], columns=[f"d{n}" for n in range(4)])
        frame.assign(cell=some).to_parquet(tmp_path / f"{name}.parquet")
    found = audit([tmp_path / "a.parquet", tmp_path / "b.parquet"], ids="cell")
    close(found.verdict.error, audit(views[:2]).verdict.error, 1e-10)
    assert [(view.name, view.dims) for view in found.views] == [("a", 4), ("b", 4)]
    with pytest.raises(InputError, match="holds no array named 'well'"):
        audit([tmp_path / "a.parquet", tmp_path / "b.parquet"], ids="well")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--engine", "cloud"], "expected single, pool or dask"),
        (["--engine", "pool", "--scheduler", "tcp://x:1"], "--scheduler is for --engine dask"),
        (["--engine", "single", "--workers", "2"], "--workers is for"),
        (["--resume"], "--save-moments"),
        (["--save-moments", "kept.npz"], "must end in .moments"),
    ],
)
def test_a_wrong_call_is_one_sentence(files, options, message):
    code, text, error = run("audit", *files, *options)
    assert code == 2
    assert text == ""
    assert message in error
    assert len(error.strip().splitlines()) == 1


def test_the_engine_of_the_command_line(files):
    code, text, error = run("audit", *files, "--engine", "pool", "--workers", 2, "--json")
    assert code == 0, error
    close(json.loads(text)["verdict"]["error"], audit(files).verdict.error, 1e-10)


@pytest.mark.long
def test_dask_on_the_command_line(files):
    pytest.importorskip("distributed")
    code, text, error = run("audit", *files, "--engine", "dask", "--workers", 1, "--json")
    assert code == 0, error
    close(json.loads(text)["verdict"]["error"], audit(files).verdict.error, 1e-10)
    code, _, error = run("audit", *files, "--scheduler", "tcp://127.0.0.1:9")
    assert code == 2
    assert "127.0.0.1:9" in error
