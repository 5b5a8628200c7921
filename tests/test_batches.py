"""Batches of one table: told apart by a map or by more, or not told for want of controls."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner, Result

import identikit as ik
from identikit.auditing._units import as_truth, read_batches
from identikit.cli import app
from identikit.errors import InputError
from identikit.sources import open_source

UNITS, CONTROLS, WIDTH = 100, 60, 3


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str, code: int = 0) -> Result:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == code, result.output
    return result


def plates(
    noise: float = 0.1, replicates: int = 4, really: float = 0.0, seed: int = 0
) -> pd.DataFrame:
    """Two plates of replicates; one is turned, and its units other than controls moved apart."""
    rng = np.random.default_rng(seed)
    units = rng.normal(size=(UNITS, WIDTH))
    turn = np.linalg.qr(rng.normal(size=(WIDTH, WIDTH)))[0]
    other = units @ turn + 2
    other[CONTROLS:] += really * rng.normal(size=other[CONTROLS:].shape)
    parts = []
    for plate, means in (("monday", units), ("tuesday", other)):
        rows = np.repeat(means, replicates, axis=0)
        rows = rows + noise * rng.normal(size=rows.shape)
        part = pd.DataFrame(rows, columns=[f"e{k}" for k in range(WIDTH)])
        part["plate"] = plate
        part["unit"] = np.repeat([f"u{k:03}" for k in range(UNITS)], replicates)
        part["control"] = np.repeat(np.arange(UNITS) < CONTROLS, replicates)
        parts.append(part)
    return pd.concat(parts, ignore_index=True).sample(frac=1, random_state=0)


def test_a_turned_plate_differs_by_a_rotation_and_nothing_else():
    found = ik.audit_batches(plates(), "plate", "control", ids="unit")
    (only,) = found.remains
    assert found.verdict.group == only.group == "rigid"
    assert (only.controls, only.others) == (CONTROLS, UNITS - CONTROLS)
    assert only.before > 1
    assert only.others_before is not None
    assert only.others_before > 1
    # Two means of four rows each: the noise of a difference over the spread of the units.
    expected = 0.1 * np.sqrt(2 / 4)
    assert only.noise == pytest.approx(expected, rel=0.25)
    assert only.error == pytest.approx(expected, rel=0.35)
    assert only.beyond_noise is False
    assert "such a map explains how the batches differ" in found.summary()
    assert repr(found).startswith("BatchAudit(by 'plate', 1 pairs; worst rigid, error 0.0")
    assert list(found.table["a"]) == ["monday"]


def test_units_that_really_moved_are_told_from_the_map():
    (only,) = ik.audit_batches(plates(really=0.5), "plate", "control", ids="unit").remains
    assert only.group == "rigid"
    assert only.held_out < 0.15
    assert only.error is not None
    assert only.error > 0.3
    assert only.beyond_noise is True


def test_the_error_on_other_units_is_that_of_a_map_fitted_on_controls():
    table = plates(really=0.3)
    (only,) = ik.audit_batches(table, "plate", "control", ids="unit").remains
    means = table.groupby(["plate", "unit"])[[f"e{k}" for k in range(WIDTH)]].mean()
    a, b = (means.loc[plate].to_numpy() for plate in ("monday", "tuesday"))
    errors = []
    for x, y in ((a, b), (b, a)):
        fitted = ik.align(x[:CONTROLS], y[:CONTROLS], group="rigid")
        missed = np.square(fitted.transform(x[CONTROLS:]) - y[CONTROLS:]).sum()
        errors.append(np.sqrt(missed / np.square(y[CONTROLS:] - y[:CONTROLS].mean(0)).sum()))
    assert only.error == pytest.approx(max(errors), rel=1e-9)


def test_labels_name_the_units_themselves():
    table = plates()
    table["compound"] = table["unit"].where(table["control"], None)
    found = ik.audit_batches(table.drop(columns=["unit", "control"]), "plate", "compound")
    (only,) = found.remains
    assert (only.controls, only.others, only.error) == (CONTROLS, 0, None)
    assert only.noise is not None
    assert only.beyond_noise is False


def test_arrays_do_as_well_as_columns():
    table = plates()
    X = table[[f"e{k}" for k in range(WIDTH)]].to_numpy()
    by_name = ik.audit_batches(table, "plate", "control", ids="unit")
    by_array = ik.audit_batches(
        X, list(table["plate"]), list(table["control"]), ids=list(table["unit"])
    )
    assert by_array.remains[0].error == pytest.approx(by_name.remains[0].error, rel=1e-9)


def test_units_of_a_group_share_a_fold():
    table = plates()
    genes = table["unit"].str[:3]
    found = ik.audit_batches(table, "plate", "control", ids="unit", groups=genes.to_numpy())
    assert found.audit.settings.fold_rule == "whole groups of rows"
    with pytest.raises(InputError, match="is in the groups"):
        ik.audit_batches(table, "plate", "control", ids="unit", groups=np.arange(len(table)))


@pytest.mark.extra("io")
@pytest.mark.parametrize("name", ["t.parquet", "t.csv"])
def test_the_command(name: str):
    pytest.importorskip("pyarrow")
    table = plates()
    table.to_parquet(name) if name.endswith("parquet") else table.to_csv(name, index=False)
    command = ("audit", f"{name}::e*", "--by", "plate", "--anchors", "control", "--id", "unit")
    words = " ".join(run(*command).stdout.split())
    assert "On the 60 controls that monday and tuesday share, held out, they are the same" in words
    assert "On the 40 other units that both have" in words
    document = json.loads(run(*command, "--json", "--report", "r.html", "-o", "r.json").stdout)
    assert document == json.loads(Path("r.json").read_text())
    assert document["verdict"]["group"] == "rigid"
    assert document["by"] == "plate"
    (only,) = document["remains"]
    assert only["beyond_noise"] is False
    assert "a map explains what differs between batches" in Path("r.html").read_text()
    assert run(*command, "--fail-above", "0.001", code=1).stdout
    run(*command, "--fail-above", "0.5")


@pytest.mark.extra("io")
def test_calls_that_say_too_little():
    pytest.importorskip("pyarrow")
    plates().to_parquet("t.parquet")
    view = ("audit", "t.parquet::e*")
    for more, says in (
        (("--by", "plate"), "give both --by"),
        (("--anchors", "control"), "give both --by"),
        (
            ("--by", "plate", "--anchors", "control"),
            "which controls of two batches are the same unit",
        ),
        (("--by", "day", "--anchors", "control", "--id", "unit"), "no array named 'day'"),
        (("--by", "plate", "--anchors", "control", "--id", "unit", "--ica"), "--ica is for views"),
        (("t.parquet", "--by", "plate", "--anchors", "unit"), "one table, and there are 2"),
        (("--by", "plate", "--anchors", "unit", "--batches", "monday,friday"), "no batch 'friday'"),
        (("--by", "plate", "--anchors", "unit", "--batches", "monday"), "there are 1 batches"),
        (("--by", "unit", "--anchors", "plate"), "there are 100 batches"),
    ):
        sentence = run(*view, *more, code=2).stderr
        assert says in sentence
        assert sentence.count("\n") == 1


def test_few_controls_are_said():
    table = plates()
    few = table["unit"].isin([f"u{k:03}" for k in range(4)])
    table = table.drop(columns="control")
    with pytest.raises(InputError, match=r"no two batches share 10 controls.*share the most, 4"):
        ik.audit_batches(table, "plate", few.to_numpy(), ids="unit")
    rng = np.random.default_rng(0)
    wide = np.concatenate([table[[f"e{k}" for k in range(WIDTH)]]] * 7, axis=1)
    wide = wide + 0.01 * rng.normal(size=wide.shape)
    some = table["unit"].isin([f"u{k:03}" for k in range(15)]).to_numpy()
    found = ik.audit_batches(wide, list(table["plate"]), some, ids=list(table["unit"]))
    assert found.remains[0].few


def test_pairs_without_controls_are_left_out_and_said():
    table = plates()
    alone = table[table["plate"] == "monday"].assign(plate="friday", unit=lambda t: "x" + t["unit"])
    found = ik.audit_batches(pd.concat([table, alone]), "plate", "control", ids="unit")
    assert [(each.a, each.b) for each in found.remains] == [("monday", "tuesday")]
    assert {(each.a, each.b) for each in found.skipped} == {
        ("friday", "monday"),
        ("friday", "tuesday"),
    }
    assert {view.name for view in found.audit.views} == {"monday", "tuesday"}
    chosen = ik.audit_batches(
        pd.concat([table, alone]), "plate", "control", ids="unit", batches=["tuesday", "monday"]
    )
    assert not chosen.skipped
    assert chosen.remains[0].a == "tuesday"


def test_one_row_a_unit_says_nothing_of_noise():
    (only,) = ik.audit_batches(plates(replicates=1), "plate", "control", ids="unit").remains
    assert only.noise is None
    assert only.beyond_noise is None


def test_rows_that_are_not_finite():
    table = plates().reset_index(drop=True)
    table.loc[7, "e0"] = np.nan
    with pytest.raises(InputError, match=r"NaN or infinity in row 7 \(counting from 0\)"):
        ik.audit_batches(table, "plate", "control", ids="unit")
    found = ik.audit_batches(table, "plate", "control", ids="unit", drop_nonfinite=True)
    assert found.verdict.group == "rigid"


def test_tags_of_the_wrong_length_or_of_nothing():
    X = np.random.default_rng(0).normal(size=(50, 2))
    with pytest.raises(InputError, match=r"by has shape \(3,\), but the view has 50 rows"):
        ik.audit_batches(X, ["a", "b", "a"], ["u"] * 50)
    with pytest.raises(InputError, match="no column 'plate'"):
        ik.audit_batches(X, "plate", ["u"] * 50)
    with pytest.raises(InputError, match="is true in no row"):
        ik.audit_batches(X, ["a", "b"] * 25, [False] * 50, ids=["u"] * 50)
    with pytest.raises(InputError, match=r"groups has shape \(3,\)"):
        ik.audit_batches(X, ["a", "b"] * 25, ["u"] * 50, groups=[1, 2, 3])


def test_means_and_scatter_by_hand():
    rng = np.random.default_rng(0)
    X = 1e6 + rng.normal(size=(60, 2))
    batch, unit = np.array(["a", "b"] * 30, dtype=object), np.array(list("xyz") * 20, dtype=object)
    unit[:6] = ""
    source = open_source(X)
    for found in read_batches(source, batch, unit, ["a", "b"]):
        frame = pd.DataFrame(X).assign(batch=batch, unit=unit)
        own = frame[(frame["batch"] == found.name) & (frame["unit"] != "")].groupby("unit")[[0, 1]]
        np.testing.assert_allclose(found.means, own.mean(), rtol=0, atol=1e-8)
        np.testing.assert_array_equal(found.counts, own.size())
        within = own.apply(lambda part: np.square(part - part.mean()).sum().sum()).sum()
        assert found.scatter == pytest.approx(within / (own.size() - 1).sum(), rel=1e-6)


def test_what_counts_as_true():
    assert as_truth(np.array(["True", "no", "1", ""], dtype=object)).tolist() == [1, 0, 1, 0]
    assert as_truth(np.array(["DMSO", ""], dtype=object)) is None


def test_real_guides_in_three_cell_lines(data_dir: Path):
    """CRISPR guides of the Cell Health data: cell lines differ by more than a map of controls."""
    path = data_dir / "cell_microscopy" / "cellhealth_consensus_modz.parquet"
    pytest.importorskip("pyarrow")
    table = pd.read_parquet(path)
    features = [name for name in table if name.startswith(("Cells_", "Nuclei_"))]
    values = table[features].to_numpy(float)
    left, scale, _ = np.linalg.svd(values - values.mean(0), full_matrices=False)
    found = ik.audit_batches(
        left[:, :5] * scale[:5],
        table["Metadata_cell_line"].to_numpy(),
        table["Metadata_pert_name"].to_numpy(),
    )
    assert [each.controls for each in found.remains] == [119, 119, 119]
    assert all(each.held_out > 0.4 for each in found.remains)
