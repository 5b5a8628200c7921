"""Inputs, shares and learners of nelson-batches against closed forms; planted wells."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import fractional_matrix_power
from scipy.special import expit
from sklearn.decomposition import PCA
from sklearn.feature_selection import f_classif
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.preprocessing import StandardScaler

from conftest import close
from identikit.errors import InputError
from identikit.studies import _batches
from identikit.studies import nelson_batches as study
from wells import Wells, planted_wells


@pytest.fixture
def wells() -> Wells:
    return planted_wells(seed=1)[0]


# Inputs


def parts_of(wells: Wells) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    test = wells.batch == "batch 2"
    spare = np.zeros(len(test), dtype=bool)
    spare[np.flatnonzero(wells.control & test)[::2]] = True
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
    # Nor more than ICA can find the axes of.
    few = train & (np.cumsum(train) <= 30)
    assert _batches.whitened(wells.x, few, 8).shape[1] == 5


def _scales(pca: PCA, train: np.ndarray) -> np.ndarray:
    n = train.sum()
    return np.broadcast_to(np.sqrt(pca.explained_variance_ * (n - 1) / n), (len(train), 8))


def test_standardised(rng: np.random.Generator) -> None:
    x = rng.normal(5, 3, size=(60, 4)) * [1, 10, 100, 0]
    batch = np.repeat(["u", "v", "w"], 20)
    some = batch != "w"
    each = _batches.standardised(x, some, units=True)
    close(each[some].std(axis=0), [1, 1, 1, 0], 1e-12)
    one = _batches.standardised(x, some, units=False)
    ratio = x[some].std(axis=0) / x[some].std(axis=0)[1]
    close(one[some].std(axis=0) / one[some].std(axis=0)[1], ratio, 1e-12)
    close((one[some] ** 2).mean(), 1.0, 1e-12)


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
        {i.name: i.rows for i in _batches.inputs(each, train, known, 6, 2)}
        for each in (wells, changed)
    )
    assert list(before) == list(after)
    assert set(before) == set(study.ORDER)
    for key, rows in before.items():
        np.testing.assert_array_equal(rows[train], after[key][train], err_msg=str(key))
    # What is set aside for TVN moves TVN alone.
    other = wells.x.copy()
    other[spare] += 1
    moved = Wells("x", other, wells.batch, wells.label, wells.units)
    scored = ~train & ~spare
    for each in _batches.inputs(moved, train, known, 6, 2):
        same = np.array_equal(each.rows[scored], before[each.name][scored])
        assert same == ("tvn" not in each.name), each.name


def test_without_spare_controls_there_is_no_tvn(wells: Wells) -> None:
    train, _, _ = parts_of(wells)
    found = list(_batches.inputs(wells, train, wells.control & train, 6, 1))
    assert [each.name for each in found] == ["raw", "pca", "random", "ica"]


# Shares of the variance


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


def test_the_loss_gives_both_classes_equal_weight(rng: np.random.Generator) -> None:
    scores, y = rng.normal(size=70), np.arange(70) < 10
    own = [log_loss(y[part], expit(scores[part]), labels=[0, 1]) for part in (y, ~y)]
    close(_batches.separate_loss(scores, y), sum(own), 1e-12)


# Planted wells


def test_planted_answers() -> None:
    """η² and AUROC of the true axes have closed forms; ICA without labels comes close to them."""
    controls, treated, effect = 1500, 200, 2.0
    wells, axes = planted_wells(3, batches=4, controls=controls, treated=treated, effect=effect)
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
