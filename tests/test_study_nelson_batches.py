"""nelson-batches: inputs, shares, learners and tables against closed forms; planted wells."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.linalg import fractional_matrix_power
from scipy.stats import ttest_1samp
from sklearn.decomposition import PCA
from sklearn.feature_selection import f_classif
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import StandardScaler

from conftest import close
from identikit._linalg import random_rotation
from identikit.errors import InputError, MissingExtraError
from identikit.studies import (
    INCONCLUSIVE,
    NOT,
    REPRODUCED,
    UNMEASURED,
    Data,
    Record,
    Settings,
    _batch_data,
    _batch_units,
    _batches,
    run,
)
from identikit.studies import nelson_batches as study
from identikit.studies._batch_data import CONTROL, GENES, NORMALISED, RAW, Wells, planted, read
from identikit.studies._batch_units import by_unit, chosen, cosine, means, profile
from study_units import stopped_and_resumed

TINY = {"seeds": 1, "penalties": [0.1], "folds": 3, "permutations": 20}


def tiny(**more: Any) -> Settings:
    return Settings(study.SMOKE | TINY | more)


@pytest.fixture
def wells() -> Wells:
    return planted(seed=1)[0]


# Inputs


def parts_of(wells: Wells) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    test = wells.batch == "batch 2"
    spare = _batch_units.every_other_control(wells, test)
    return ~test, wells.control & (~test | spare), spare


def test_whitened_rows_are_white_and_ica_is_a_rotation_of_them(wells: Wells) -> None:
    train, _, _ = parts_of(wells)
    white = _batches.whitened(wells.x, train, 8)
    close(np.cov(white[train].T, bias=True), np.eye(8), 1e-10)
    close(white[train].mean(axis=0), np.zeros(8), 1e-12)
    # The directions are the leading ones: their variance is the most that eight can have.
    reference = PCA(8).fit(wells.x[train])
    close(np.abs(reference.transform(wells.x) / white), _scales(reference, train), 1e-6)
    turned, ica = _batches.independent(white, train, 0)
    assert ica.converged_
    rotation = np.linalg.lstsq(white, turned, rcond=None)[0]
    close(rotation.T @ rotation, np.eye(8), 1e-10)
    close(white @ rotation, turned, 1e-10)
    # No more components than there are.
    assert _batches.whitened(wells.x[:, :5], train, 8).shape[1] == 5


def _scales(pca: PCA, train: np.ndarray) -> np.ndarray:
    n = train.sum()
    return np.broadcast_to(np.sqrt(pca.explained_variance_ * (n - 1) / n), (len(train), 8))


def test_a_random_rotation_is_one_and_has_no_preferred_sign(seed: int) -> None:
    rotations = np.array(
        [random_rotation(3, np.random.default_rng(seed + 1000 * place)) for place in range(400)]
    )
    close(rotations @ rotations.transpose(0, 2, 1), np.broadcast_to(np.eye(3), (400, 3, 3)), 1e-12)
    # An entry has mean 0 and variance 1/d.
    close(rotations.mean(axis=0), np.zeros((3, 3)), 5 / (3 * 400) ** 0.5)


def test_standardised_and_by_batch(rng: np.random.Generator) -> None:
    x = rng.normal(5, 3, size=(60, 4)) * [1, 10, 100, 0]
    batch = np.repeat(["u", "v", "w"], 20)
    some = batch != "w"
    each = _batches.standardised(x, some, units=True)
    close(each[some].std(axis=0), [1, 1, 1, 0], 1e-12)
    one = _batches.standardised(x, some, units=False)
    ratio = x[some].std(axis=0) / x[some].std(axis=0)[1]
    close(one[some].std(axis=0) / one[some].std(axis=0)[1], ratio, 1e-12)
    close((one[some] ** 2).mean(), 1.0, 1e-12)
    inside = _batches.by_batch(x, batch)
    for name in "uvw":
        close(inside[batch == name].mean(axis=0), np.zeros(4), 1e-12)
        close(inside[batch == name].std(axis=0), [1, 1, 1, 0], 1e-12)


def test_tvn_is_that_of_the_benchmark(wells: Wells) -> None:
    """With all batches for training: by scikit-learn's scaler and PCA and SciPy's matrix power."""
    x, every, control = wells.x, np.ones(len(wells.x), dtype=bool), wells.control
    found = _batches.tvn(x, wells.batch, every, control)
    step = StandardScaler().fit(x[control]).transform(x)
    step = PCA().fit(step[control]).transform(step)
    step = StandardScaler().fit(step[control]).transform(step)
    for name in np.unique(wells.batch):
        there = wells.batch == name
        inside = step[there & control]
        covariance = np.cov(inside, rowvar=False)
        expected = step[there] @ fractional_matrix_power(covariance + 0.5 * np.eye(40), -0.5)
        # A principal component has no sign of its own.
        close(np.abs(found[there]), np.abs(expected), 1e-7)
        spread = np.linalg.eigvalsh(covariance)
        after = np.linalg.eigvalsh(np.cov(found[there & control], rowvar=False))
        close(np.sort(after), np.sort(spread / (spread + 0.5)), 1e-8)


def test_tvn_with_fewer_controls_than_features(wells: Wells) -> None:
    few = np.zeros(len(wells.x), dtype=bool)
    for name in np.unique(wells.batch):
        few[np.flatnonzero(wells.control & (wells.batch == name))[:5]] = True
    found = _batches.tvn(wells.x, wells.batch, np.ones_like(few), few)
    assert found.shape[1] == 29  # 30 controls, less their mean
    assert np.isfinite(found).all()
    few[wells.batch == "batch 3"] = False
    with pytest.raises(InputError, match="batch 'batch 3' has 0 controls that may be used"):
        _batches.tvn(wells.x, wells.batch, np.ones_like(few), few)


def test_nothing_is_learned_from_held_out_rows(wells: Wells) -> None:
    """Other rows, and other labels, in the held-out batch: training rows stay where they are."""
    train, known, spare = parts_of(wells)
    other = wells.x.copy()
    other[~train] = 7 * other[~train][::-1] + 3
    changed = Wells("x", other, wells.batch, wells.label, wells.units)
    before, after = (
        {(i.name, i.seed): i.rows for i in _batches.inputs(each, train, known, 6, 2, 0.5)}
        for each in (wells, changed)
    )
    assert list(before) == list(after)
    assert {name for name, _ in before} == set(study.ORDER)
    for key, rows in before.items():
        np.testing.assert_array_equal(rows[train], after[key][train], err_msg=str(key))
    assert before["ica dropped", 1].shape[1] == 3
    # What is set aside for TVN moves TVN alone, and centring by batch.
    other = wells.x.copy()
    other[spare] += 1
    moved = Wells("x", other, wells.batch, wells.label, wells.units)
    scored = ~train & ~spare
    for each in _batches.inputs(moved, train, known, 6, 2, 0.5):
        same = np.array_equal(each.rows[scored], before[each.name, each.seed][scored])
        assert same == ("tvn" not in each.name and "centred" not in each.name), each.name


def test_sets_without_controls_have_no_tvn(wells: Wells) -> None:
    label = np.where(wells.control, "u", "v")
    plain = Wells("x", wells.x, wells.batch, label, units=False)
    train, _, _ = parts_of(wells)
    found = list(_batches.inputs(plain, train, plain.control, 6, 1, 0.5))
    assert [each.name for each in found] == [
        "raw", "pca", "random", "ica", "centred", "centred+pca", "centred+ica"
    ]  # fmt: skip


# What axes carry


def test_shares_are_those_of_analysis_of_variance(rng: np.random.Generator) -> None:
    what = np.repeat(["a", "b", "c"], [10, 25, 15])
    rows = rng.normal(size=(50, 4)) + (what == "b")[:, None] * [0, 1, 2, 3]
    shares, drawn = _batches.explained(rows, what, permutations=2000)
    f, _ = f_classif(rows, what)
    close(shares, 2 * f / (2 * f + 47), 1e-12)
    # By permutation the mean is (groups − 1)/(n − 1), exactly; four standard errors.
    assert drawn.shape == (2000, 4)
    close(drawn.mean(axis=0), np.full(4, 2 / 49), 4 * drawn.std() / 2000**0.5)


def test_partial_shares_are_those_of_nested_regressions(rng: np.random.Generator) -> None:
    within, what = rng.choice(list("uvw"), 80), rng.choice(list("abc"), 80)
    rows = rng.normal(size=(80, 3)) + 2 * (within == "u")[:, None] + (what == "a")[:, None]
    shares, drawn = _batches.explained(rows, what, within, permutations=50)
    small = (within[:, None] == np.unique(within)).astype(float)
    large = np.hstack([small, what[:, None] == np.unique(what)])
    left = [
        ((rows - each @ np.linalg.lstsq(each, rows, rcond=None)[0]) ** 2).sum(axis=0)
        for each in (small, large)
    ]
    close(shares, 1 - left[1] / left[0], 1e-12)
    # A shift of a whole group of `within` changes nothing, permuted or not.
    shifted = _batches.explained(rows + 9 * (within == "v")[:, None], what, within, 50)
    close(shifted[0], shares, 1e-12)
    close(shifted[1], drawn, 1e-12)
    # What is the same within each group explains nothing there.
    close(_batches.explained(rows, within, within)[0], np.zeros(3), 1e-12)
    assert _batches.explained(np.zeros((80, 1)), what)[0] == 0


def test_a_rotation_moves_shares_between_axes_and_keeps_their_sum(wells: Wells) -> None:
    every = np.ones(len(wells.x), dtype=bool)
    white = _batches.whitened(wells.x, every, 10)
    sums = [
        _batches.explained(each, wells.batch)[0].sum()
        for each in (
            white,
            white @ _batches.at_random(np.eye(10), 3),
            _batches.independent(white, every, 0)[0],
        )
    ]
    close(sums, np.full(3, sums[0]), 1e-10)


def test_hoyer(rng: np.random.Generator) -> None:
    assert np.isnan([_batches.hoyer(np.zeros(4)), _batches.hoyer(np.ones(1))]).all()
    close(_batches.hoyer(np.array([0, 0, -2.0, 0])), 1.0, 1e-12)
    vector = rng.normal(size=7)
    close(_batches.hoyer(-3 * vector), _batches.hoyer(vector), 1e-12)
    # In one quarter of the places, equal: (√d − √(d/4))/(√d − 1).
    close(_batches.hoyer(np.repeat([1.0, 0.0], [4, 12])), 2 / 3, 1e-12)
    for size in (2, 24, 516):
        drawn = [_batches.hoyer(each) for each in rng.normal(size=(4000, size))]
        close(_batches.hoyer_chance(size), np.mean(drawn), 4 * np.std(drawn) / 4000**0.5)


def test_cosine_of_profiles() -> None:
    batch, label = pd.Series([0.5, 0.0, 0.1]), pd.Series([0.0, 0.9, 0.0])
    close(cosine(batch, label), 0.0, 1e-12)
    close(cosine(batch, 3 * batch), 1.0, 1e-12)


# Learners


def problem(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    rows = rng.normal(size=(150, 6))
    return rows, rows[:, 0] + 0.5 * rows[:, 1] + rng.normal(size=150) > 1.0


def gradient(fit: _batches.Fit, rows: np.ndarray, y: np.ndarray, c: float) -> np.ndarray:
    """Of C Σ weight · loss; a class weighs n / (2 n_class)."""
    p = 1 / (1 + np.exp(-(rows @ fit.weights + fit.shift)))
    weight = np.where(y, len(y) / (2 * y.sum()), len(y) / (2 * (~y).sum()))
    return c * rows.T @ (weight * (p - y))


@pytest.mark.parametrize("c", [0.01, 0.1, 1.0])
def test_learners_meet_their_optimality_conditions(rng: np.random.Generator, c: float) -> None:
    rows, y = problem(rng)
    ridge, sparse = (_batches.learn(rows, y, penalty, c) for penalty in ("L2", "L1"))
    assert ridge.converged
    assert sparse.converged
    close(ridge.weights + gradient(ridge, rows, y, c), np.zeros(6), 1e-6)
    slope, there = gradient(sparse, rows, y, c), sparse.weights != 0
    close(slope[there], -np.sign(sparse.weights[there]), 1e-2)
    assert (np.abs(slope[~there]) <= 1 + 1e-2).all()
    assert there.sum() == 6 or c < 1
    assert there.sum() < 6 or c > 0.01


def test_only_the_sparse_learner_can_tell_rotations_apart(rng: np.random.Generator) -> None:
    rows, y = problem(rng)
    turn = _batches.at_random(np.eye(6), 5)
    for c in (0.003, 0.1, 1.0):
        plain, turned = (_batches.learn(each, y, "L2", c) for each in (rows, rows @ turn))
        close(turn @ turned.weights, plain.weights, 1e-6)
        close(turned.shift, plain.shift, 1e-6)
    plain, turned = (_batches.learn(each, y, "L1", 0.05) for each in (rows, rows @ turn))
    assert np.abs(turn @ turned.weights - plain.weights).max() > 0.05


def test_a_learner_that_gives_up_says_so(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_batches, "MAX_ITER", 1)
    rows, y = problem(rng)
    for penalty in ("L1", "L2"):
        assert not _batches.learn(rows, y, penalty, 1.0).converged


def test_weights_that_are_rounding_are_none() -> None:
    """Classes of equal means, by construction: nothing to learn, and no score by accident."""
    half = np.random.default_rng(0).normal(size=(40, 3))
    rows, y = np.vstack([half, half]), np.repeat([True, False], 40)
    assert not _batches.learn(rows, y, "L2", 1.0).weights.any()


def test_auroc(rng: np.random.Generator) -> None:
    scores, y = rng.integers(0, 9, size=70).astype(float), rng.random(70) < 0.3
    close(_batches.auroc(scores, y), roc_auc_score(y, scores), 1e-12)


# Planted wells


def test_planted_answers() -> None:
    """η² and AUROC of the true axes have closed forms; ICA without labels comes close to them."""
    controls, treated, effect = 1500, 200, 2.0
    wells, axes = planted(3, batches=4, controls=controls, treated=treated, effect=effect)
    every, n = np.ones(len(axes), dtype=bool), len(axes)
    share = treated / (controls + 6 * treated)
    spread = effect**2 * share * (1 - share)
    expected = np.zeros(16)
    expected[3:9] = spread / (1 + spread)
    shares, _ = _batches.explained(axes, wells.label, wells.batch)
    close(shares, expected, 0.02)
    # The difference of two Laplace variables of scale b is below δ with 1 − e^(−δ/b)(2 + δ/b)/4.
    ratio = effect / 0.5**0.5
    area = 1 - np.exp(-ratio) * (2 + ratio) / 4
    pair = wells.control | (wells.label == "a")
    y = (wells.label == "a")[pair]
    close(_batches.auroc(axes[pair, 3], y), area, 4 * (area * (1 - area) / y.sum()) ** 0.5)
    white = _batches.whitened(wells.x, every, 16)
    found, _ = _batches.independent(white, every, 0)
    alike = np.abs(np.corrcoef(found.T, axes.T)[:16, 16:])
    assert alike[:, 3:].max(axis=0).min() > 0.97
    # Batches of axes that are no batch's: their shares are those of chance, (g − 1)/(n − 1).
    batch, _ = _batches.explained(axes[wells.control], wells.batch[wells.control])
    shifts = [axes[wells.batch == name, :3].mean(axis=0) for name in np.unique(wells.batch)]
    close(batch[:3], np.var(shifts, axis=0) / (1 + np.var(shifts, axis=0)), 0.02)
    assert batch[:3].min() > 0.1
    close(batch[3:].mean(), 3 / (wells.control.sum() - 1), 5e-4)
    assert n == 4 * (controls + 6 * treated)


def test_tasks_parts_and_what_is_set_aside(wells: Wells) -> None:
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
    types = Wells("x", wells.x, wells.batch, np.where(wells.control, "u", "v"), units=False)
    assert [(task.name, task.label) for task in _batch_units.tasks(types)] == [("types", "v")]
    assert (
        _batch_units.tasks(Wells("x", wells.x, wells.batch, np.full(len(wells.x), "u"), False))
        == []
    )


def test_spare_controls_are_not_scored(monkeypatch: pytest.MonkeyPatch) -> None:
    """They move TVN and centring by batch, and the score of nothing else."""
    first = planted()[0]
    test = np.isin(first.batch, _batch_units.held_out(first.batch, 3)[1])
    x = first.x.copy()
    x[_batch_units.every_other_control(first, test)] *= -5
    records = []
    for each in (first, Wells("planted", x, first.batch, first.label, False)):
        monkeypatch.setattr(_batch_units, "read", lambda *_, each=each: each)
        records.append(_batch_units.score("planted", 16, 1, Data("nowhere"), tiny()))
    one, other = records
    for place, row in enumerate(one.rows):
        same = np.array_equal(one.arrays["auroc"][place], other.arrays["auroc"][place])
        if "tvn" not in row["input"] and "centred" not in row["input"]:
            assert same, row["input"]
    assert not np.array_equal(one.arrays["auroc"], other.arrays["auroc"])
    # A treatment that is in no other batch, or not in this one, is not scored.
    label = np.where((first.label == "a") & ~test, CONTROL, first.label)
    label = np.where((label == "b") & test, CONTROL, label)
    lonely = Wells("planted", first.x, first.batch, label, False)
    monkeypatch.setattr(_batch_units, "read", lambda *_: lonely)
    record = _batch_units.score("planted", 12, 1, Data("nowhere"), tiny())
    assert {row["label"] for row in record.rows} == {"treated", *"cdef"}
    assert {row["input"] for row in record.rows} == {"pca", "ica", "random"}
    record = _batch_units.score("planted", 12, 1, Data("nowhere"), tiny(), others=True)
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


# Data


def bbbc021(folder: Path, **changed: Any) -> Path:
    (folder / "cell_microscopy").mkdir()
    table = {
        "plate": ["Week1_1", "Week1_2", "Week10_7"], "week": ["Week1", "Week1", "Week10"],
        "well": ["B02", "B03", "B02"], "compound": ["DMSO", "taxol", "DMSO"],
        "concentration": [0.0, 1.0, 0.0], "moa": ["DMSO", "stabilizers", "DMSO"],
        "area": np.float32([1, 2, 3]), "shape": np.float32([4, 5, 7]),
    }  # fmt: skip
    frame = pd.DataFrame(table | changed)
    frame.to_parquet(folder / RAW.file)
    prefixed = {name: f"Metadata_{name.title()}" for name in ("plate", "compound", "concentration")}
    frame = frame.drop(columns=["week", "well"]).rename(columns=prefixed | {"moa": "Metadata_moa"})
    frame.to_parquet(folder / NORMALISED.file)
    return folder


@pytest.mark.parametrize("name", ["bbbc021_raw", "bbbc021_normalised"])
def test_bbbc021(tmp_path: Path, name: str) -> None:
    pytest.importorskip("pyarrow")
    wells = read(name, Data(bbbc021(tmp_path)))
    assert list(wells.batch) == ["Week1", "Week1", "Week10"]
    assert list(wells.label) == [CONTROL, "stabilizers", CONTROL]
    close(wells.x, [[1.0, 4.0], [2.0, 5.0], [3.0, 7.0]], 0)
    assert wells.units


def test_bad_bbbc021(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyarrow")
    with pytest.raises(InputError, match="there is no data set 'bbbc'; choose from planted"):
        read("bbbc", Data(tmp_path))
    with pytest.raises(InputError, match=r"per_well_raw.parquet is needed"):
        read("bbbc021_raw", Data(tmp_path))
    folders = [tmp_path / str(place) for place in range(5)]
    for folder in folders:
        folder.mkdir()
    data = Data(bbbc021(folders[0], compound=["DMSO", "taxol", "taxol"], moa=["DMSO", "a", "a"]))
    with pytest.raises(InputError, match="'taxol' is in Week1, Week10; a compound must be in one"):
        read("bbbc021_raw", data)
    data = Data(bbbc021(folders[1], area=np.float32([1, np.nan, np.inf])))
    with pytest.raises(InputError, match=r"hold 2 rows with NaN or infinity \(first: 1\)"):
        read("bbbc021_raw", data)
    bbbc021(folders[2])
    pd.DataFrame({"plate": ["Week1_1"]}).to_parquet(folders[2] / RAW.file)
    with pytest.raises(InputError, match="has no column compound, moa, concentration; expected"):
        read("bbbc021_raw", Data(folders[2]))
    bbbc021(folders[3])
    (folders[3] / RAW.file).write_bytes(b"no table")
    with pytest.raises(InputError, match=r"per_well_raw.parquet is damaged or of another kind"):
        read("bbbc021_raw", Data(folders[3]))
    bbbc021(folders[4], area="x", shape="y")
    with pytest.raises(InputError, match="hold nothing; expected BBBC021"):
        read("bbbc021_raw", Data(folders[4]))
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'identikit\[io\]'"):
        read("bbbc021_normalised", Data(folders[4]))


def rxrx3(folder: Path) -> Path:
    """Three experiments in the layout of RxRx3-core, as its README describes it."""
    (folder / "rxrx3_core").mkdir()
    rng = np.random.default_rng(0)
    rows = [
        (f"gene-{e:03}_1_{w}", f"gene-{e:03}", gene, f"{gene}_guide_1", "CRISPR")
        for e in range(3)
        for w, gene in enumerate([*GENES[:2], *GENES[:2], "OTHER"])
    ]
    rows += [
        (f"gene-{e:03}_1_{w}", f"gene-{e:03}", None, "EMPTY_control", "CRISPR")
        for e in range(3)
        for w in range(10, 22)
    ]
    rows.append(("compound-001_1_1", "compound-001", None, "EMPTY_control", "COMPOUND"))
    columns = ["well_id", "experiment_name", "gene", "treatment", "perturbation_type"]
    wells = pd.DataFrame(rows, columns=columns)
    wells.to_csv(folder / _batch_data.RXRX3_WELLS.file, index=False)
    features = pd.DataFrame(rng.normal(size=(len(wells), 5)).astype(np.float32))
    features = features.add_prefix("feature_").assign(well_id=wells["well_id"]).sample(frac=1)
    features.to_parquet(folder / _batch_data.RXRX3.file)
    return folder


def test_rxrx3_core(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    data = Data(rxrx3(tmp_path))
    wells = read("rxrx3_core", data)
    assert wells.x.shape == (3 * 16, 5)
    assert {name: int((wells.label == name).sum()) for name in np.unique(wells.label)} == {
        "CYP11B1": 6, "EIF3H": 6, CONTROL: 36
    }  # fmt: skip
    table = pd.read_parquet(tmp_path / _batch_data.RXRX3.file).set_index("well_id")
    close(wells.x[0], table.loc["gene-000_1_0"].to_numpy(float), 0)
    settings = Settings(study.PAPER | TINY | {"components": [3], "seeds": 1})
    found = _batch_units.score("rxrx3_core", 3, 0, data, settings)
    assert {row["label"] for row in found.rows} == {"treated", "CYP11B1", "EIF3H"}


def test_bad_rxrx3_core(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    data = Data(rxrx3(tmp_path))
    wells = tmp_path / _batch_data.RXRX3_WELLS.file
    table = pd.read_csv(wells)
    table.assign(well_id="x").to_csv(wells, index=False)
    with pytest.raises(InputError, match="have no well in common of EIF3H"):
        read("rxrx3_core", data)
    table.drop(columns="gene").to_csv(wells, index=False)
    with pytest.raises(InputError, match=r"metadata_rxrx3_core.csv has no column gene; expected"):
        read("rxrx3_core", data)
    wells.write_bytes(b'"a,b\n1\n')
    with pytest.raises(InputError, match=r"metadata_rxrx3_core.csv is damaged or of another kind"):
        read("rxrx3_core", data)


def test_single_cells(tmp_path: Path) -> None:
    (tmp_path / "singlecell").mkdir()
    pcs, donor = np.arange(12.0).reshape(4, 3), np.array(list("ABAB"))
    pbmc = tmp_path / "singlecell" / "pbmc_3500.npz"
    np.savez(pbmc, pcs=pcs, pcs_harmonized=-pcs, donor=donor)
    before, after = (read(name, Data(tmp_path)) for name in ("pbmc", "pbmc_harmony"))
    close(before.x, pcs, 0)
    close(after.x, -pcs, 0)
    assert _batch_units.tasks(before) == []
    lines = tmp_path / "singlecell" / "cell_lines.npz"
    np.savez(lines, pcs=pcs, dataset=donor, cell_type=np.array(["j", "j", "t", "t"]))
    (task,) = _batch_units.tasks(read("cell_lines", Data(tmp_path)))
    assert list(task.y) == [False, False, True, True]
    np.savez(lines, pcs=pcs)
    read.cache_clear()
    with pytest.raises(InputError, match=r"cell_lines.npz is damaged or of another kind"):
        read("cell_lines", Data(tmp_path))


def test_real_data(data_dir: Path) -> None:
    pytest.importorskip("pyarrow")
    data = Data(data_dir)
    raw, normalised = read("bbbc021_raw", data), read("bbbc021_normalised", data)
    for wells, width in ((raw, 516), (normalised, 189)):
        assert wells.x.shape == (632, width)
        assert len(np.unique(wells.batch)) == 10
        assert len(np.unique(wells.label)) == 13
        assert wells.control.sum() == 330
    lines = read("cell_lines", data)
    assert lines.x.shape == (2370, 20)
    # One batch has both types: it alone can be scored.
    types = [np.unique(lines.label[lines.batch == name]) for name in np.unique(lines.batch)]
    assert [len(each) for each in types] == [2, 1, 1]
    found = pd.DataFrame(_batch_units.carried("pbmc_harmony", data, tiny(components=[30])).rows)
    plain = pd.DataFrame(_batch_units.carried("pbmc", data, tiny(components=[30])).rows)
    # What Harmony is for.
    assert found["batch"].mean() < 0.3 * plain["batch"].mean()


# Runs


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
