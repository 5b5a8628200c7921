"""nelson-batches: its tasks, scores, tables and claims, and the run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ttest_1samp

from conftest import close
from identikit.errors import InputError
from identikit.studies import (
    INCONCLUSIVE,
    NOT,
    REPRODUCED,
    UNMEASURED,
    Data,
    Record,
    Settings,
    _batch_units,
    run,
)
from identikit.studies import nelson_batches as study
from identikit.studies._batch_units import by_unit, chosen, cosine, means, profile
from study_units import stopped_and_resumed
from wells import planted_wells, relabelled

TINY = {"seeds": 1, "penalties": [0.1], "folds": 3, "permutations": 20}


def tiny(**more: Any) -> Settings:
    return Settings(study.SMOKE | TINY | more)


# What axes carry


def test_cosine_of_profiles() -> None:
    batch, label = pd.Series([0.5, 0.0, 0.1]), pd.Series([0.0, 0.9, 0.0])
    close(cosine(batch, label), 0.0, 1e-12)
    close(cosine(batch, 3 * batch), 1.0, 1e-12)


# Tasks and scores


def test_tasks_parts_and_what_is_set_aside() -> None:
    wells, _ = planted_wells(1)
    found = _batch_units.tasks(wells)
    assert [(task.name, task.label) for task in found] == [
        ("treated", "treated"), *(("each", name) for name in "abcdef")
    ]  # fmt: skip
    close(found[0].y.sum(), 6 * 6 * 3, 0)
    assert found[2].rows.sum() == 6 * (80 + 3)
    assert set(wells.label[found[2].y]) == {"b"}
    batches = np.unique(wells.batch)
    assert _batch_units.held_out(wells.batch, 10) == [[name] for name in batches]
    halves = _batch_units.held_out(wells.batch, 2)
    assert halves == [list(batches[::2]), list(batches[1::2])]
    spare = _batch_units.every_other_control(wells, np.isin(wells.batch, halves[0]))
    assert spare.sum() == 3 * 40
    assert wells.control[spare].all()
    assert set(wells.batch[spare]) == set(halves[0])
    others = _batch_units.tasks(wells, others=True)
    assert [(task.name, task.label) for task in others] == [("others", name) for name in "abcdef"]
    assert set(wells.label[others[1].rows & ~others[1].y]) == set("acdef")
    (task,) = _batch_units.tasks(relabelled(wells, np.where(wells.control, "u", "v")))
    assert (task.name, task.label) == ("types", "v")
    np.testing.assert_array_equal(task.y, ~wells.control)
    assert _batch_units.tasks(relabelled(wells, np.full(len(wells.x), "u"))) == []


def cells(folder: Path, x: np.ndarray, batch: np.ndarray, label: np.ndarray) -> Data:
    """These rows in the layout of the cell lines, a set whose labels may be anything."""
    (folder / "singlecell").mkdir(parents=True)
    np.savez(folder / "singlecell" / "cell_lines.npz", pcs=x, dataset=batch, cell_type=label)
    return Data(folder)


def test_spare_controls_are_not_scored(tmp_path: Path) -> None:
    """They move TVN and centring by batch, and the score of nothing else."""
    first, _ = planted_wells(0)
    test = np.isin(first.batch, _batch_units.held_out(first.batch, 3)[1])
    x = first.x.copy()
    x[_batch_units.every_other_control(first, test)] *= -5
    records = []
    for name, rows in {"plain": first.x, "moved": x}.items():
        data = cells(tmp_path / name, rows, first.batch, first.label)
        records.append(_batch_units.score("cell_lines", 16, 1, data, tiny()))
    one, other = records
    for place, row in enumerate(one.rows):
        same = np.array_equal(one.arrays["auroc"][place], other.arrays["auroc"][place])
        if "tvn" not in row["input"] and "centred" not in row["input"]:
            assert same, row["input"]
    assert not np.array_equal(one.arrays["auroc"], other.arrays["auroc"])
    # A treatment that is in no other batch, or not in this one, is not scored.
    (control,) = np.unique(first.label[first.control])
    label = np.where((first.label == "a") & ~test, control, first.label)
    label = np.where((label == "b") & test, control, label)
    data = cells(tmp_path / "lonely", first.x, first.batch, label)
    record = _batch_units.score("cell_lines", 12, 1, data, tiny())
    assert {row["label"] for row in record.rows} == {"treated", *"cdef"}
    assert {row["input"] for row in record.rows} == {"pca", "ica", "random"}
    record = _batch_units.score("cell_lines", 12, 1, data, tiny(), others=True)
    assert {(row["task"], row["label"]) for row in record.rows} == {("others", x) for x in "cdef"}


# Tables and claims


def row(**more: Any) -> dict[str, Any]:
    known = {"set": "planted", "components": 4, "held_out": "u", "task": "treated"}
    known |= {"label": "treated", "input": "pca", "seed": 0, "learner": "L1", "axes": 4}
    known |= {"ica_converged": True, "signal_sparsity": 0.2, "batch_sparsity": 0.1}
    return known | {"chance_sparsity": 0.3} | more


def record(rows: list[dict[str, Any]], auroc: Any, converged: float = 1.0) -> Record:
    areas = np.array(auroc, dtype=float)
    names = ("auroc", "sparsity", "weights", "converged")
    values = areas, areas / 2, 10 * areas, np.full(areas.shape, converged)
    return Record(rows, dict(zip(names, values)))


def test_penalties_are_chosen_elsewhere() -> None:
    rows = [row(held_out=part) for part in "uvw"]
    table = chosen([record(rows, [[0.9, 0.1], [0.2, 0.3], [0.2, 0.3]])], [0.1, 1.0])
    # Of u by v and w, which prefer 1; of the others by u, which prefers 0.1 by far.
    assert list(table["penalty"]) == [1.0, 0.1, 0.1]
    assert list(table["auroc"]) == [0.1, 0.2, 0.2]
    # The smallest of equals; the middle one where there is no other part.
    assert list(chosen([record(rows, np.ones((3, 2)))], [0.1, 1.0])["penalty"]) == [0.1] * 3
    assert list(chosen([record(rows[:1], [[0.1, 0.2, 0.9]])], [1, 2, 3])["penalty"]) == [2]
    # One by one: neither the part nor the treatment is the same.
    rows = [row(task="each", held_out=part, label=label) for part in "uv" for label in "ab"]
    table = chosen([record(rows, [[0, 1], [0, 1], [0, 1], [1, 0]])], [0.1, 1.0])
    assert list(table["penalty"]) == [0.1, 1.0, 1.0, 1.0]
    assert chosen([], [1.0]).empty


def scores_of(values: dict[str, np.ndarray], **more: Any) -> dict[str, pd.DataFrame]:
    """Tables in which each input has a value a treatment."""
    rows, areas = [], []
    for name, units in values.items():
        for label, value in zip("abcdefghij", units):
            rows.append(row(task="each", label=label, input=name, signal_sparsity=value) | more)
            areas.append([value])
    scores = chosen([record(rows, areas)], [1.0])
    return {"scores": scores, "mean": means(scores)}


def claim(key: str, tables: dict[str, pd.DataFrame]) -> Any:
    (check,) = (claim.check for claim in study.STUDY.claims if claim.key == key)
    return check(tables)


def test_claims_are_of_paired_differences(rng: np.random.Generator) -> None:
    pca, gain = rng.uniform(0.6, 0.9, size=10), 0.05 + 0.02 * rng.normal(size=10)
    tables = scores_of({"pca": pca, "ica": pca + gain, "random": pca, "raw": pca - 0.1})
    interval = ttest_1samp(gain, 0).confidence_interval(0.95)
    found = claim("over-pca", tables)
    assert found.verdict == REPRODUCED
    close([found.value, *found.interval], [gain.mean(), interval.low, interval.high], 1e-12)
    (mean,) = tables["mean"][tables["mean"]["input"] == "ica"].to_dict("records")
    close([mean["over_pca"], mean["over_pca_low"]], [gain.mean(), interval.low], 1e-12)
    assert mean["units"] == 10
    assert f"ica {(pca + gain).mean():.3f}, pca {pca.mean():.3f}" in found.comment
    assert claim("random-as-pca", tables).verdict == REPRODUCED
    assert claim("sparsest", tables).verdict == REPRODUCED
    assert claim("raw-least-sparse", tables).verdict == REPRODUCED
    worse = scores_of({"pca": pca, "ica": pca - gain, "raw": pca, "random": pca + gain})
    assert claim("over-pca", worse).verdict == NOT
    assert claim("random-as-pca", worse).verdict == NOT
    assert claim("sparsest", worse).verdict == NOT
    # Equal scores are no gain, and noise settles nothing.
    assert claim("over-raw", scores_of({"pca": pca, "ica": pca, "raw": pca})).verdict == NOT
    noise = scores_of({"pca": pca, "ica": pca + 0.1 * (np.arange(10) % 2 - 0.5)})
    assert claim("over-pca", noise).verdict == INCONCLUSIVE
    others = scores_of({"pca": pca, "ica": pca + gain}, task="others")
    assert claim("over-pca-others", others).verdict == REPRODUCED
    l2 = scores_of({"pca": pca, "ica": pca + 1e-4}, learner="L2")
    assert claim("l2-unaffected", l2).verdict == REPRODUCED


def test_claims_of_what_was_not_measured(rng: np.random.Generator) -> None:
    tables = scores_of({"pca": rng.random(3)})
    found = claim("over-pca-normalised", tables)
    assert (found.value, found.verdict) == (None, UNMEASURED)
    assert "Not measured in this run: bbbc021_normalised" in found.comment
    assert claim("over-pca-others", tables).comment == "Not measured of planted: ica, pca."
    assert claim("over-pca", tables).comment == "Not measured of planted: ica."
    assert claim("over-pca-treated", tables).comment == "Not measured of planted: ica, pca."
    empty = pd.DataFrame()
    assert claim("over-pca", {"scores": empty, "mean": empty}).verdict == UNMEASURED
    assert by_unit(tables["scores"], "planted", "treated", "L1").empty


def test_fits_that_did_not_converge_are_told() -> None:
    rows = [row(task="each", label=a, input=b) for a in "ab" for b in ("pca", "ica")]
    rows[3]["ica_converged"] = False
    scores = chosen([record(rows, [[0.5, 0.6]] * 4, converged=0.0)], [0.1, 1.0])
    tables = {"scores": scores, "mean": means(scores)}
    assert list(tables["mean"]["failed_fits"]) == [4, 4]
    comment = claim("over-pca", tables).comment
    assert comment.endswith("did not converge: 8 of learners, 1 with ICA's axes.")


def test_profile_of_axes() -> None:
    rows = [
        {"set": "x", "basis": basis, "axis": place, "batch": share, "batch_chance_95": 0.1}
        | {"label": 0.5, "label_chance_95": 0.6, "identified": place == 0}
        for basis in ("pca", "ica")
        for place, share in enumerate((0.8, 0.0, 0.0, 0.0))
    ]
    axes = pd.DataFrame(rows)
    pca, ica = profile(axes).to_dict("records")
    assert (pca["batch_above_chance"], pca["label_above_chance"]) == (1, 0)
    close([pca["batch_sparsity"], pca["label_sparsity"], pca["overlap"]], [1, 0, 0.5], 1e-12)
    assert ica["identified"] == 1


# Runs


def test_harmony_takes_the_donors_out(data_dir: Path) -> None:
    data = Data(data_dir)
    found = pd.DataFrame(_batch_units.carried("pbmc_harmony", data, tiny(components=[30])).rows)
    plain = pd.DataFrame(_batch_units.carried("pbmc", data, tiny(components=[30])).rows)
    # What Harmony is for.
    assert found["batch"].mean() < 0.3 * plain["batch"].mean()


def test_settings_that_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"penalties is \[1.0, 0.1\]; give C from the smallest"):
        run(study.STUDY, folder=tmp_path / "a", settings={"penalties": [1.0, 0.1]})


@pytest.mark.slow
def test_smoke(tmp_path: Path) -> None:
    result = run("nelson-batches", folder=tmp_path)
    assert set(result.tables) == {"mean", "scores", "axes", "carried", "published"}
    mean = result.tables["mean"]
    assert {"auroc", "auroc_low", "over_pca", "over_pca_low", "signal_sparsity"} <= set(mean)
    assert set(mean["input"]) == set(study.ORDER)
    assert mean["auroc"].between(0.5, 1).all()
    assert not mean[["failed_fits", "failed_icas"]].any(axis=None)
    carried = result.tables["carried"].set_index("basis")
    # The planted axes, found without labels: other axes carry batch than treatment.
    assert carried.loc["ica", "overlap"] < 0.5 * carried.loc["random", "overlap"]
    assert len(result.findings) == len(study.STUDY.claims)
    assert result.findings["l2-unaffected"].verdict == REPRODUCED
    assert abs(result.findings["l2-unaffected"].value) < 1e-3
    assert result.findings["sparsest"].verdict == REPRODUCED
    assert result.findings["over-pca-normalised"].verdict == UNMEASURED
    assert (tmp_path / "figure.png").stat().st_size > 10_000


@pytest.mark.slow
def test_a_stopped_run_goes_on(tmp_path: Path) -> None:
    whole, resumed = stopped_and_resumed(study.STUDY, tmp_path, TINY)
    assert (whole.resumed, resumed.resumed) == (0, 1)


def test_sets_without_labels_have_axes_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "singlecell").mkdir()
    rng = np.random.default_rng(0)
    pcs, donor = rng.laplace(size=(200, 4)), np.repeat(["A", "B"], 100)
    pcs[:100, 0] += 3
    pbmc = tmp_path / "singlecell" / "pbmc_3500.npz"
    np.savez(pbmc, pcs=pcs, pcs_harmonized=pcs, donor=donor)
    monkeypatch.setenv("IDENTIKIT_DATA", str(tmp_path))
    settings = TINY | {"sets": ["pbmc"], "components": [4]}
    result = run(study.STUDY, folder=tmp_path / "result", settings=settings)
    assert result.tables["scores"].empty
    assert result.tables["axes"]["label"].isna().all()
    assert result.tables["carried"]["batch_largest"].max() > 0.3
    assert {found.verdict for found in result.findings.values()} == {UNMEASURED}
