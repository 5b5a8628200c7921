"""nelson-batches: its tasks, scores, tables and claims, and the run."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ttest_1samp
from sklearn.metrics import roc_auc_score

from conftest import close
from identikit.errors import InputError
from identikit.studies import (
    INCONCLUSIVE,
    NOT,
    REPRODUCED,
    UNMEASURED,
    Data,
    Settings,
    _batch_units,
    run,
)
from identikit.studies import nelson_batches as study
from identikit.studies._batch_units import by_treatment, cosine, means, profile
from study_units import stopped_and_resumed
from wells import planted_wells

TINY = {"seeds": 1, "penalties": [3.0], "folds": 3, "permutations": 20}


def tiny(**more: Any) -> Settings:
    return Settings(study.SMOKE | TINY | more)


# What axes carry


def test_cosine_of_profiles() -> None:
    batch, label = pd.Series([0.5, 0.0, 0.1]), pd.Series([0.0, 0.9, 0.0])
    close(cosine(batch, label), 0.0, 1e-12)
    close(cosine(batch, 3 * batch), 1.0, 1e-12)


# Scores


def test_parts_and_what_is_set_aside() -> None:
    wells, _ = planted_wells(1)
    batches = np.unique(wells.batch)
    assert _batch_units.held_out(wells.batch, 10) == [[name] for name in batches]
    halves = _batch_units.held_out(wells.batch, 2)
    assert halves == [list(batches[::2]), list(batches[1::2])]
    spare = _batch_units.every_other_control(wells, np.isin(wells.batch, halves[0]))
    assert spare.sum() == 3 * 40
    assert wells.control[spare].all()
    assert set(wells.batch[spare]) == set(halves[0])
    # None can be spared where one batch has few.
    few, _ = planted_wells(1, controls=_batch_units.ENOUGH - 1)
    assert not _batch_units.every_other_control(few, few.batch == batches[0]).any()


def test_drawn_wells_are_ordered_by_batch(rng: np.random.Generator) -> None:
    wells, _ = planted_wells(1)
    rows = _batch_units.drawn(wells.batch, wells.control, 12, rng)
    assert len(set(rows)) == 12
    assert wells.control[rows].all()
    batches = list(wells.batch[rows])
    assert sum(a != b for a, b in pairwise(batches)) == len(set(batches)) - 1
    every = _batch_units.drawn(wells.batch, wells.control, 0, rng)
    assert set(every) == set(np.flatnonzero(wells.control))


def test_a_penalty_is_chosen_inside_the_training_wells(rng: np.random.Generator) -> None:
    """It has the best area of three parts left out; nothing outside the given rows matters."""
    x, y = rng.normal(size=(80, 20)), np.arange(80) < 20
    x[y, 0] += 1
    classes = [np.flatnonzero(y), np.flatnonzero(~y)[:40]]
    choices = [1e-4, 0.1, 1.0, 100.0]
    areas = []
    for c in choices:
        own = []
        for fold in range(3):
            out = np.concatenate([np.array_split(of, 3)[fold] for of in classes])
            kept = np.setdiff1d(np.concatenate(classes), out)
            fit = _batch_units.parts.learn(x[kept], y[kept], "L1", c)
            own.append(roc_auc_score(y[out], x[out] @ fit.weights))
        areas.append(np.mean(own))
    chosen = _batch_units.penalty(x, classes, y, choices)
    close(areas[choices.index(chosen)], max(areas), 1e-9)
    assert chosen > 1e-4  # with which no weight is nonzero
    other = x.copy()
    other[60:] = rng.normal(size=(20, 20)) * 50
    assert _batch_units.penalty(other, classes, y, choices) == chosen
    # Where no C has learned anything they are equally good, and so are their losses: the first.
    assert _batch_units.penalty(x, classes, y, [1e-6, 1e-5]) == 1e-6


def cells(folder: Path, x: np.ndarray, batch: np.ndarray, label: np.ndarray) -> Data:
    """These rows in the layout of the cell lines, a set whose labels may be anything."""
    (folder / "singlecell").mkdir(parents=True)
    np.savez(folder / "singlecell" / "cell_lines.npz", pcs=x, dataset=batch, cell_type=label)
    return Data(folder)


def test_spare_controls_are_not_scored(tmp_path: Path) -> None:
    """They move TVN, and the score of nothing else."""
    first, _ = planted_wells(0)
    test = np.isin(first.batch, _batch_units.held_out(first.batch, 3)[1])
    x = first.x.copy()
    x[_batch_units.every_other_control(first, test)] *= -5
    tables = []
    for name, rows in {"plain": first.x, "moved": x}.items():
        data = cells(tmp_path / name, rows, first.batch, first.label)
        tables.append(pd.DataFrame(_batch_units.score("cell_lines", 1, data, tiny()).rows))
    one, other = tables
    assert set(one["input"]) == set(study.ORDER)
    plain = one["input"] != "pca+tvn"
    assert (one["auroc"] == other["auroc"])[plain].all()
    assert one["weights"].min() > 0
    assert (one["auroc"] != other["auroc"])[~plain].any()
    assert (one["l2_change"].notna() == (one["input"] == "ica")).all()
    # A treatment that is in no other batch, or not in this one, is not scored.
    (control,) = np.unique(first.label[first.control])
    label = np.where((first.label == "a") & ~test, control, first.label)
    label = np.where((label == "b") & test, control, label)
    data = cells(tmp_path / "lonely", first.x, first.batch, label)
    record = _batch_units.score("cell_lines", 1, data, tiny())
    assert {row["label"] for row in record.rows} == set("cdef")


# Tables and claims


def scores_of(
    values: dict[str, np.ndarray], draws: int = 1, noise: float = 0.0, **more: Any
) -> dict[str, pd.DataFrame]:
    """Tables in which each input has a value per treatment, with noise that differs by draw."""
    rng = np.random.default_rng(0)
    rows = []
    for name, units in values.items():
        for place, value in enumerate(units):
            for seed in range(draws):
                own = value + noise * rng.normal()
                known = {"set": "planted", "held_out": "u", "label": f"t{place}", "seed": seed}
                known |= {"input": name, "penalty": 1.0, "converged": True, "ica_converged": True}
                known |= {"auroc": own, "signal_sparsity": own, "chance_sparsity": 0.2}
                rows.append(known | {"weights": 3.0, "l2_change": 1e-9} | more)
    scores = pd.DataFrame(rows)
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
    assert mean["treatments"] == 10
    assert f"ica {(pca + gain).mean():.3f}, pca {pca.mean():.3f}" in found.comment
    for key in ("random-as-pca", "sparsest", "raw-least-sparse", "l2-unaffected"):
        assert claim(key, tables).verdict == REPRODUCED, key
    worse = scores_of(
        {"pca": pca, "ica": pca - gain, "raw": pca + 0.2, "random": pca + gain}, l2_change=0.1
    )
    for key in (
        "over-raw", "over-pca", "over-random", "random-as-pca", "sparsest", "raw-least-sparse",
        "l2-unaffected",
    ):  # fmt: skip
        assert claim(key, worse).verdict == NOT, key
    # Equal scores are no gain, and noise settles nothing.
    assert claim("over-raw", scores_of({"pca": pca, "ica": pca, "raw": pca})).verdict == NOT
    noise = scores_of({"pca": pca, "ica": pca + 0.1 * (np.arange(10) % 2 - 0.5)})
    assert claim("over-pca", noise).verdict == INCONCLUSIVE
    weeks = scores_of(
        {"pca": pca, "ica": pca + gain, "pca+tvn": pca + 2 * gain}, set="bbbc021_weeks"
    )
    assert claim("over-pca-weeks", weeks).verdict == REPRODUCED
    assert claim("over-tvn", weeks).verdict == NOT


def test_claims_are_of_all_treatments_of_the_sets(rng: np.random.Generator) -> None:
    """Every treatment counts alike, whichever set it is of; the comment has each set by itself."""
    gains = {"bbbc021_plates": rng.normal(size=5), "cell_health": rng.normal(size=9)}
    parts = [
        scores_of({"pca": np.full(len(gain), 0.7), "ica": 0.7 + gain}, set=name)["scores"]
        for name, gain in gains.items()
    ]
    # Treatments of the two sets have the same names here, and are still told apart.
    scores = pd.concat(parts, ignore_index=True)
    found = claim("over-pca", {"scores": scores, "mean": means(scores)})
    every = np.concatenate(list(gains.values()))
    interval = ttest_1samp(every, 0).confidence_interval(0.95)
    close([found.value, *found.interval], [every.mean(), interval.low, interval.high], 1e-12)
    for name, gain in gains.items():
        said = f"above 0 for {(gain > 0).sum()} of {len(gain)} treatments, {gain.mean():.3f} on"
        assert f"On {name}: ica {(0.7 + gain).mean():.3f}, pca 0.700; {said}" in found.comment
    # So does the figure, which has a dot per treatment of each.
    areas = study.areas_of({"scores": scores}, study.MAIN)
    for name, gain in gains.items():
        own = areas[(areas["set"] == name) & (areas["input"] == "ica")]
        close(own["over_pca"], gain, 1e-12)
    axes = pd.DataFrame(columns=_batch_units.AXES)
    drawn = study.figure({"scores": scores, "axes": axes}, tiny())
    legend = drawn.axes[0].get_legend()
    assert [text.get_text() for text in legend.get_texts()] == list(study.SETS.values())


def test_draws_are_averaged_before_the_interval() -> None:
    """As many draws as you like do not make treatments more numerous: coverage stays 95 %."""
    held = 0
    for trial in range(200):
        rng = np.random.default_rng(trial)
        # The mean over all treatments is 0.02; a single one may be far from it.
        gains = 0.02 + 0.05 * rng.normal(size=8)
        pca = np.full(8, 0.7)
        tables = scores_of({"pca": pca, "ica": pca + gains}, draws=6, noise=0.01)
        assert len(by_treatment(tables["scores"], "planted")) == 8
        low, high = claim("over-pca", tables).interval
        held += low <= 0.02 <= high
    # Of 200 intervals of 95 %, fewer than 178 or all would occur once in a thousand times.
    assert 178 <= held <= 199


def test_claims_of_what_was_not_measured(rng: np.random.Generator) -> None:
    tables = scores_of({"pca": rng.random(3)})
    found = claim("over-pca-weeks", tables)
    assert (found.value, found.verdict) == (None, UNMEASURED)
    assert "Not measured in this run: bbbc021_weeks" in found.comment
    assert claim("over-pca", tables).comment == "Not measured of planted: ica."
    empty = pd.DataFrame(columns=_batch_units.SCORES)
    assert claim("over-pca", {"scores": empty, "mean": empty}).verdict == UNMEASURED
    assert claim("l2-unaffected", {"scores": empty}).verdict == UNMEASURED


def test_fits_that_did_not_converge_are_told() -> None:
    tables = scores_of({"pca": np.ones(2), "ica": np.ones(2)}, converged=False)
    tables["scores"].loc[3, "ica_converged"] = False
    tables["mean"] = means(tables["scores"])
    assert list(tables["mean"]["failed_fits"]) == [2, 2]
    comment = claim("over-pca", tables).comment
    assert comment.endswith("did not converge: 4 of learners, 1 with ICA's axes.")


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
    found = pd.DataFrame(_batch_units.carried("pbmc_harmony", data, tiny(components=30)).rows)
    plain = pd.DataFrame(_batch_units.carried("pbmc", data, tiny(components=30)).rows)
    # What Harmony is for.
    assert found["batch"].mean() < 0.3 * plain["batch"].mean()


@pytest.mark.parametrize("settings", [{"penalties": []}, {"wells": 2}, {"controls": -1}])
def test_settings_that_cannot_be(settings: dict[str, Any], tmp_path: Path) -> None:
    given = {"sets": ["planted"], **settings}
    with pytest.raises(InputError, match=r"(give one penalty or more|penalties is \[\])"):
        run(study.STUDY, folder=tmp_path / "a", settings=given)


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
    assert result.findings["sparsest"].verdict == REPRODUCED
    assert result.findings["over-pca-weeks"].verdict == UNMEASURED
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
    settings = TINY | {"sets": ["pbmc"], "components": 4}
    result = run(study.STUDY, folder=tmp_path / "result", settings=settings)
    assert result.tables["scores"].empty
    assert result.tables["axes"]["label"].isna().all()
    assert result.tables["carried"]["batch_largest"].max() > 0.3
    assert {found.verdict for found in result.findings.values()} == {UNMEASURED}
