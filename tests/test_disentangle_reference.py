"""Reference presets against the field's formulas, written out here, and known chance levels."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.stats import entropy
from sklearn import metrics as sk
from sklearn.decomposition import FastICA
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.feature_selection import mutual_info_classif
from sklearn.feature_selection._mutual_info import _compute_mi_cd
from sklearn.linear_model import Lasso, LogisticRegression
from sklearn.model_selection import KFold
from sklearn.svm import LinearSVC

from conftest import close
from identikit.factors import (
    Trial,
    beta_vae,
    dci,
    explicitness,
    factor_vae,
    infomec,
    mcc,
    mig,
    modularity,
    prepare,
    r2,
    sap,
)
from identikit.factors._neighbours import (
    SortedCodes,
    gate,
    neighbour_information,
    normalised_information,
)

PUBLISHED = {"preset": "reference", "permutations": 0}
SHAPES3D = (10, 10, 10, 8, 4, 15)


def lattice(rng, rows, classes) -> np.ndarray:
    return np.column_stack([rng.integers(count, size=rows) for count in classes])


def standard(values) -> np.ndarray:
    return (values - values.mean(0)) / values.std(0)


def example(rng, rows=300):
    s = lattice(rng, rows, (4, 3, 5))
    z = np.hstack([s + rng.normal(size=s.shape) * [0.3, 1.0, 2.0], rng.normal(size=(rows, 1))])
    return z, s


def in_order(z, s):
    """Codes and factors in the order of rows that metrics use."""
    data = prepare(z, s)
    labels = [f.values if f.labels is None else f.labels for f in data.factors]
    return data.codes, np.column_stack(labels)


def equal_width(values, bins=20):
    return np.digitize(values, np.histogram(values, bins)[1][:-1])


def plug_in(z, s) -> np.ndarray:
    """Mutual information (L, K) of 20 equal-width bins of each code, as disentanglement_lib."""
    return np.array(
        [
            [sk.mutual_info_score(s[:, j], equal_width(z[:, i])) for j in range(s.shape[1])]
            for i in range(z.shape[1])
        ]
    )


# One by one


def test_mig(rng):
    z, s = example(rng)
    information = plug_in(z, s)
    top = np.sort(information, axis=0)[::-1]
    bits = [sk.mutual_info_score(column, column) for column in s.T]
    score = mig(z, s, **PUBLISHED)
    close(list(score.per_factor.values()), (top[0] - top[1]) / bits, 1e-12)
    close(score.matrix, information / bits, 1e-12)


def test_modularity(rng):
    z, s = example(rng)
    squares = plug_in(z, s) ** 2
    best = squares.max(1)
    expected = 1 - (squares.sum(1) - best) / (best * 2)
    close(list(modularity(z, s, **PUBLISHED).parts[0].per_code.values()), expected, 1e-10)


def test_sap(rng):
    z, s = example(rng)
    a, b = in_order(z, s)
    table = np.empty((4, 3))
    for i, j in np.ndindex(4, 3):
        machine = LinearSVC(C=0.01, class_weight="balanced", random_state=0)
        machine.fit(a[:200, [i]], b[:200, j])
        table[i, j] = np.mean(machine.predict(a[200:, [i]]) == b[200:, j])
    top = np.sort(table, axis=0)[::-1]
    score = sap(z, s, **PUBLISHED)
    close(score.matrix, table, 1e-12)
    close(score.value, (top[0] - top[1]).mean(), 1e-12)


def test_sap_of_continuous_factors_is_a_squared_correlation(rng):
    s = rng.normal(size=(300, 2))
    z = s @ rng.normal(size=(2, 3))
    score = sap(z, s, **PUBLISHED)
    a, b = in_order(z, s)
    close(score.matrix, np.corrcoef(a[:200].T, b[:200].T)[:3, 3:] ** 2, 1e-12)


def test_explicitness(rng):
    z, s = example(rng)
    a, b = in_order(z, s)
    expected = []
    for labels in b.T:
        shares = LogisticRegression(max_iter=1000).fit(a[:200], labels[:200]).predict_proba(a[200:])
        expected.append(sk.roc_auc_score(labels[200:], shares, multi_class="ovr"))
    # The reference stops after 100 iterations, wherever that is.
    close(list(explicitness(z, s, **PUBLISHED).per_factor.values()), expected, 2e-3)


@pytest.mark.slow
def test_dci_of_boosted_trees(rng):
    z, s = example(rng, 90)
    a, b = in_order(z, s)
    importance, accuracy = np.empty((4, 3)), []
    for j, labels in enumerate(b.T):
        model = GradientBoostingClassifier(random_state=0).fit(a[:60], labels[:60])
        importance[:, j] = np.abs(model.feature_importances_)
        accuracy.append(model.score(a[60:], labels[60:]))
    per_code = 1 - entropy(importance.T + 1e-11, base=3)
    per_factor = 1 - entropy(importance + 1e-11, base=4)
    score = dci(z, s, probe="boosted", **PUBLISHED)
    close(score.matrix, importance, 1e-12)
    close(score["disentanglement"].value, per_code @ importance.sum(1) / importance.sum(), 1e-8)
    close(score["completeness"].value, per_factor @ importance.sum(0) / importance.sum(), 1e-8)
    close(score["informativeness"].value, np.mean(accuracy), 1e-12)


def test_dci_of_a_forest(rng):
    z, s = example(rng, 200)
    a, b = in_order(z, s)
    model = RandomForestClassifier(criterion="entropy", max_depth=10, random_state=0)
    score = dci(z, s, probe="forest", **PUBLISHED)
    close(score.matrix[:, 0], model.fit(a[:180], b[:180, 0]).feature_importances_, 1e-12)
    assert score["informativeness"].per_factor["factor 0"] == model.score(a[180:], b[180:, 0])


def test_dci_of_the_lasso(rng):
    s = rng.normal(size=(150, 2))
    z = np.hstack([s, s @ rng.normal(size=(2, 1)) + 0.5 * rng.normal(size=(150, 1))])
    a, b = (
        np.apply_along_axis(lambda x: (x - x.min()) / np.ptp(x), 0, each) for each in in_order(z, s)
    )
    weights, informed = np.empty((3, 2)), []
    for j, target in enumerate(b.T):
        errors = {}
        for penalty in (1e-4, 1e-3, 0.01, 0.1, 0.2, 0.4, 0.8, 1):
            missed = []
            for train, test in KFold(10).split(a):
                model = Lasso(penalty, tol=1e-8).fit(a[train], target[train])
                missed.append(np.mean((model.predict(a[test]) - target[test]) ** 2))
            errors[penalty] = np.mean(missed)
        model = Lasso(min(errors, key=errors.get), tol=1e-8).fit(a, target)
        weights[:, j] = np.abs(model.coef_)
        informed.append(max(0, 1 - 12 * np.mean((model.predict(a) - target) ** 2)))
    score = dci(z, s, probe="lasso", **PUBLISHED)
    close(score.matrix, weights, 1e-3)
    close(score["completeness"].value, np.mean(1 - entropy(weights, base=3)), 5e-3)
    close(list(score["informativeness"].per_factor.values()), informed, 1e-3)


def test_beta_vae_and_factor_vae_within_the_error_of_drawing(rng):
    z, s = example(rng, 500)
    features, chosen, votes = [], [], np.zeros((4, 3))
    spread = z.var(0, ddof=1)
    for _ in range(2000):
        k = rng.integers(3)
        first = rng.integers(500, size=64)
        other = [rng.choice(np.flatnonzero(s[:, k] == s[row, k])) for row in first]
        features.append(np.abs(z[first] - z[other]).mean(0))
        chosen.append(k)
        fixed = rng.choice(np.flatnonzero(s[:, k] == s[first[0], k]), size=64)
        votes[np.argmin(z[fixed].var(0, ddof=1) / spread), k] += 1
    model = LogisticRegression(max_iter=1000).fit(features[:1300], chosen[:1300])
    assert beta_vae(z, s, **PUBLISHED).value == pytest.approx(
        model.score(features[1300:], chosen[1300:]), abs=0.05
    )
    assert factor_vae(z, s, **PUBLISHED).value == pytest.approx(
        votes.max(1).sum() / votes.sum(), abs=0.04
    )


# InfoMEC


@pytest.mark.parametrize(
    ("rows", "classes", "neighbours"), [(400, 4, 10), (300, 5, 3), (90, 4, 10)]
)
def test_neighbours_of_a_sorted_code_are_those_of_scikit_learn(rows, classes, neighbours, rng):
    """Ties and all, without scikit-learn's noise."""
    labels = rng.permutation(np.arange(rows) % classes)
    z = np.column_stack(
        [
            labels + rng.normal(size=rows),
            rng.normal(size=rows),
            np.round(rng.normal(size=rows), 1),
            labels,
        ]
    )
    expected = [_compute_mi_cd(code.copy(), labels, neighbours) for code in z.T]
    close(neighbour_information(SortedCodes.of(z), labels, neighbours), expected, 1e-12)


def test_classes_of_one_row_have_no_neighbours(rng):
    labels = np.r_[rng.permutation(np.arange(200) % 4), 4, 5]
    z = rng.normal(size=(202, 2)) + labels[:, None]
    expected = [_compute_mi_cd(code.copy(), labels, 10) for code in z.T]
    close(neighbour_information(SortedCodes.of(z), labels), expected, 1e-12)
    assert neighbour_information(SortedCodes.of(z[:4]), np.arange(4)).tolist() == [0.0, 0.0]


def test_infomec(rng):
    z, s = example(rng, 400)
    z = np.hstack([z, 0.01 * rng.normal(size=(400, 1))])  # too narrow to count
    a, b = in_order(z, s)
    bits = [sk.mutual_info_score(column, column) for column in b.T]
    nmi = np.array(
        [mutual_info_classif(standard(a), labels, n_neighbors=10, random_state=0) for labels in b.T]
    )
    nmi = (nmi / np.array(bits)[:, None])[:, :4]
    share = (nmi.max(0) / nmi.sum(0)).mean()
    compact = (nmi.max(1) / nmi.sum(1)).mean()
    score = infomec(z, s, **PUBLISHED)
    close(score["InfoM"].value, (share - 1 / 3) / (1 - 1 / 3), 1e-6)
    close(score["InfoC"].value, (compact - 1 / 4) / (1 - 1 / 4), 1e-6)
    assert [each.name for each in score.excluded] == ["code 4"]
    assert "twentieth" in score.excluded[0].reason
    lost = []
    for labels in b.T:
        model = LogisticRegression(C=np.inf, class_weight="balanced", max_iter=2000, tol=1e-8)
        shares = model.fit(standard(a), labels).predict_proba(standard(a))
        lost.append(1 - sk.log_loss(labels, shares) / np.log(len(np.unique(labels))))
    close(list(score["InfoE"].per_factor.values()), lost, 2e-3)


def test_a_code_that_knows_nothing_is_inactive_and_infom_finite():
    """Fixture 8: an axis of a full grid that is no factor shares exactly nothing with them."""
    grid = np.array(list(product(range(4), repeat=3)) * 4)
    score = infomec(grid, grid[:, :2], discrete_codes=True, rows=None, **PUBLISHED)
    assert score["InfoM"].value == pytest.approx(1.0)
    assert [(each.name, each.reason) for each in score.excluded] == [
        ("code 2", "inactive: no information about any factor")
    ]
    nothing = infomec(grid[:, 2:], grid[:, :2], discrete_codes=True, rows=None, **PUBLISHED)
    assert nothing["InfoM"].value == nothing["InfoC"].value == 0.0


def test_codes_twice_on_a_full_grid():
    """Fixture 9: InfoM 1, InfoC 5/11."""
    grid = np.array(list(product(range(3), repeat=6)))
    score = infomec(np.hstack([grid, grid]), grid, discrete_codes=True, rows=None, **PUBLISHED)
    close(score["InfoM"].value, 1.0, 1e-9)
    close(score["InfoC"].value, 5 / 11, 1e-9)


def test_a_leak_on_a_full_grid():
    """Fixture 10: both factors are decodable, so InfoM is (1/2 − 1/6)/(1 − 1/6)."""
    grid = np.array(list(product(range(3), repeat=6)))
    leaky = grid + 0.001 * np.roll(grid, -1, axis=1)
    score = infomec(leaky, grid, discrete_codes=True, rows=None, **PUBLISHED)
    close(score["InfoM"].value, 0.4, 1e-9)
    assert mcc(leaky, grid, **PUBLISHED).value == pytest.approx(1.0, abs=1e-5)


# Statistical fixtures: means over seeds beside what was measured for the reference page


def over_seeds(function, seeds=8) -> tuple[float, float]:
    """Mean of a value over seeds, and its standard error."""
    values = np.array([function(np.random.default_rng(seed)) for seed in range(seeds)])
    return values.mean(0), values.std(0, ddof=1) / np.sqrt(seeds)


def agrees(found: tuple[float, float], expected: float, slack: float) -> None:
    mean, error = found
    assert abs(mean - expected) <= 3 * error + slack, (mean, error, expected)


@pytest.mark.parametrize(
    ("factors", "rows", "factor"), [(5, 200, 1.4), (5, 1000, 1.4), (50, 1000, 2.35)]
)
def test_null_mcc_in_sample(factors, rows, factor):
    """Fixture 11: 1.4/√n for K = 5, 2.35/√n for K = 50."""

    def null(rng):
        z, s = rng.normal(size=(2, rows, factors))
        return mcc(z, s, **PUBLISHED).value

    agrees(over_seeds(null, 20 if factors == 5 else 8), factor / np.sqrt(rows), 0.002)


def test_the_gate_lets_one_matrix_in_p_through_at_chance(rng):
    null = np.abs(rng.normal(size=(21, 3, 4))) * np.array([1.0, 10.0, 0.1])[:, None]
    # Of the permuted ones the largest is above all others.
    assert gate(null).any((1, 2))[1:].sum() == 1
    null[0] = 0.0
    null[0, 1, 2] = 1000.0
    assert gate(null)[0].sum() == 1
    assert gate(null)[0, 1, 2]


def test_the_permutation_null_is_the_null():
    """The mean over permutations is the mean over independent data."""
    z, s = np.random.default_rng(0).normal(size=(2, 400, 5))
    chance = mcc(z, s, preset="reference").chance
    assert chance.mean == pytest.approx(1.4 / np.sqrt(400), rel=0.05)
    assert chance.interval[0] < chance.mean < chance.interval[1]


def test_null_mcc_held_out():
    """Fixture 12: signed correlations with a held-out matching are 0 at chance."""

    def null(rng):
        z, s = rng.normal(size=(2, 300, 5))
        return mcc(z, s, permutations=0).value

    agrees(over_seeds(null, 20), 0.0, 0.0)
    chance = mcc(*np.random.default_rng(0).normal(size=(2, 300, 5))).chance
    assert abs(chance.mean) < 0.01


def infom(z, s, **options) -> np.ndarray:
    return infomec_matrices(prepare(z, s), **options)


def infomec_matrices(data, noise=0.0, weighted=False) -> np.ndarray:
    """InfoM and InfoC in sample from the matrix alone, without the probes of InfoE."""
    trial = Trial("infomec", "InfoMEC", data, data.factors, (), True, 0)
    nmi = normalised_information(trial, None, 10, noise, discrete=False).mean[0]
    nmi = nmi[:, nmi.sum(0) > 0]
    K, L = nmi.shape
    share = nmi.max(0).sum() / nmi.sum() if weighted else (nmi.max(0) / nmi.sum(0)).mean()
    compact = (nmi.max(1) / nmi.sum(1)).mean()
    return np.array([(share - 1 / K) / (1 - 1 / K), (compact - 1 / L) / (1 - 1 / L)])


def test_the_matrix_alone_has_the_infom_of_the_metric(rng):
    z, s = example(rng)
    full = infomec(z, s, **PUBLISHED)
    close(infom(z, s), [full["InfoM"].value, full["InfoC"].value], 1e-12)
    weighted = infomec(z, s, weighted=True, **PUBLISHED)
    close(infom(z, s, weighted=True)[0], weighted["InfoM"].value, 1e-12)


ROWS = [
    pytest.param(1000, id="sample"),
    pytest.param(10_000, id="full", marks=pytest.mark.slow),
]


@pytest.mark.parametrize("rows", ROWS)
def test_null_infom(rows):
    """Fixture 13: about one half, not 0."""

    def null(rng):
        return infom(rng.normal(size=(rows, 12)), lattice(rng, rows, SHAPES3D))[0]

    agrees(over_seeds(null), 0.57 if rows == 10_000 else 0.54, 0.03)


@pytest.mark.parametrize("rows", ROWS)
def test_infom_of_a_perfect_code_with_noise_codes(rows):
    """Fixture 14: 0.70–0.79 as published, 0.99 weighted; InfoC 0.99."""

    def both(rng):
        s = lattice(rng, rows, SHAPES3D)
        z = np.hstack([standard(s), rng.normal(size=(rows, 6))])
        data = prepare(z, s)
        return [*infomec_matrices(data), infomec_matrices(data, weighted=True)[0]]

    published, compact, weighted = over_seeds(both)[0]
    assert 0.68 < published < 0.81
    assert compact > 0.96
    assert weighted > 0.96


@pytest.mark.parametrize("rows", [pytest.param(2000, id="sample"), ROWS[1]])
def test_infom_of_a_leak(rows):
    """Fixture 15: 0.40 and MCC 1 without noise, 0.99 with noise of 0.05.

    2,000 rows leave ten a cell of the lattice, which is what ten neighbours need.
    """

    def both(rng):
        s = lattice(rng, rows, SHAPES3D)
        leaky = s + 0.001 * np.roll(s, -1, axis=1)
        data = prepare(leaky, s)
        return infomec_matrices(data)[0], infomec_matrices(data, noise=0.05)[0]

    bare, noisy = over_seeds(both, 4 if rows < 10_000 else 8)[0]
    assert bare == pytest.approx(0.40, abs=0.09 if rows < 10_000 else 0.02)
    assert noisy > 0.97


@pytest.mark.parametrize(
    ("rows", "expected"), [(1000, 0.81), pytest.param(10_000, 0.67, marks=pytest.mark.slow)]
)
def test_infom_of_fast_ica(rows, expected):
    """Fixture 16: less with more rows, while MCC is 0.999 or more."""

    def both(rng):
        s = lattice(rng, rows, SHAPES3D)
        turned = standard(s) @ np.linalg.qr(rng.normal(size=(6, 6)))[0]
        found = FastICA(whiten="unit-variance", random_state=0, max_iter=2000, tol=1e-6)
        z = found.fit_transform(turned)
        return infom(z, s)[0], mcc(z, s, **PUBLISHED).value

    means, errors = over_seeds(both)
    agrees((means[0], errors[0]), expected, 0.04)
    assert means[1] > 0.995


def test_a_dense_mix():
    """Fixture 17, K = 5 and 1,000 rows: R² 1, MCC 0.68, InfoM 0.54, MIG 0.09."""

    def mixed(rng):
        s = rng.normal(size=(1000, 5))
        z = s @ rng.normal(size=(5, 5))
        return [
            r2(z, s, **PUBLISHED).value,
            mcc(z, s, **PUBLISHED).value,
            infom(z, s)[0],
            mig(z, s, **PUBLISHED).value,
        ]

    means, errors = over_seeds(mixed)
    for mean, error, expected, slack in zip(
        means, errors, (1, 0.68, 0.54, 0.09), (1e-9, 0.01, 0.01, 0.01)
    ):
        agrees((mean, error), expected, slack)


@pytest.mark.parametrize(
    "seeds", [pytest.param(2, id="sample"), pytest.param(8, id="full", marks=pytest.mark.slow)]
)
def test_dci_of_a_dense_mix(seeds):
    """Fixture 17: D about 0.29 with boosted trees."""

    def mixed(rng):
        s = rng.normal(size=(120 if seeds == 2 else 1000, 5))
        return dci(s @ rng.normal(size=(5, 5)), s, probe="boosted", **PUBLISHED).value

    mean, _ = over_seeds(mixed, seeds)
    assert mean == pytest.approx(0.29, abs=0.1)


@pytest.mark.parametrize(("rows", "expected"), [(40, 0.33), (100, 0.59), (200, 0.74), (1000, 0.94)])
def test_mig_of_a_perfect_continuous_code(rows, expected):
    """Fixture 18: the bias of 20 × 20 bins."""

    def perfect(rng):
        s = rng.normal(size=(rows, 5))
        return mig(s, s, **PUBLISHED).value

    agrees(over_seeds(perfect), expected, 0.02)


def test_dependence_of_ten_independent_rows_is_one():
    """Fixture 19."""

    def null(rng):
        z, s = rng.normal(size=(2, 10, 5))
        return mcc(z, s, correlation="rdc", **PUBLISHED).value

    assert over_seeds(null)[0] == pytest.approx(1.0, abs=1e-6)


def test_dependence_sees_what_correlation_does_not(rng):
    s = rng.normal(size=(500, 3))
    score = mcc(np.abs(s[:, [1, 2, 0]]), s, correlation="rdc", preset="reference", permutations=5)
    assert score.value > 0.99
    assert score.chance.mean < 0.3
    assert score.matrix.argmax(0).tolist() == [2, 0, 1]
    assert mcc(np.abs(s), s, **PUBLISHED).value < 0.3


# Real data


def test_published_latents(data_dir):
    """β-TCVAE latents of dSprites know more of each factor, on fewer axes, than those of a VAE."""
    with np.load(data_dir / "dsprites_vae_latents.npz") as file:
        factors, plain, separated = file["factors"], file["VAE_mu"], file["btcvae_mu"]
    names = ["shape", "scale", "orientation", "x", "y"]
    for function in (mcc, mig, sap):
        a, b = (function(z[:3000], factors[:3000], names=names) for z in (plain, separated))
        assert function is sap or a.interval[1] < b.value
        assert a.chance.interval[1] < a.interval[0]
        assert b.per_factor["scale"] > b.per_factor["orientation"]
