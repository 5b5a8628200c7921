"""Known answers of every metric, and what may be done to codes without changing them."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.linear_model import LinearRegression
from sklearn.metrics import mutual_info_score

import identikit.factors as package
from conftest import close
from identikit.errors import InputError
from identikit.factors import (
    Trial,
    beta_vae,
    completeness,
    dci,
    disentanglement,
    explicitness,
    factor_vae,
    folds,
    infomec,
    information,
    mcc,
    mig,
    modularity,
    orders,
    prepare,
    r2,
    rotation_level,
    sap,
)
from identikit.factors._penalised import kernel_features, lasso

CLASSES = (4, 3, 5)


def lattice(rng, rows=600, classes=CLASSES) -> np.ndarray:
    return np.column_stack([rng.integers(count, size=rows) for count in classes])


def rotation(rng, width) -> np.ndarray:
    turn, upper = np.linalg.qr(rng.normal(size=(width, width)))
    return turn * np.sign(np.diagonal(upper))


def few(function, **options):
    """A metric with as few permutations as it takes."""
    count = 3 if function in (mig, modularity, infomec) else 0
    return lambda z, s: function(z, s, **{"permutations": count} | options)


METRICS = {
    "mcc": few(mcc),
    "mcc_spearman": few(mcc, correlation="spearman"),
    "mcc_linear": few(mcc, after="linear"),
    "r2": few(r2),
    "r2_nonlinear": few(r2, model="kernel"),
    "dci_lasso": few(dci, probe="lasso"),
    "dci": few(dci),
    "mig": few(mig),
    "sap": few(sap),
    "modularity": few(modularity),
    "explicitness": few(explicitness),
    "infomec": few(infomec),
    "beta_vae": few(beta_vae),
    "factor_vae": few(factor_vae),
}
AXES = [
    "mcc",
    "mcc_spearman",
    "dci_lasso",
    "dci",
    "mig",
    "sap",
    "modularity",
    "infomec",
    "factor_vae",
]
AFFINE = ["mcc_linear", "r2", "r2_nonlinear", "explicitness"]
# What one code says of a discrete factor of c classes that it knows nothing of: 1/c, in SAP.
SAP_BEST = float(np.mean([1 - 1 / count for count in CLASSES]))
BEST = {"sap": SAP_BEST}


# Perfect, permuted, rotated, duplicated, with noise, pure noise


@pytest.mark.parametrize("name", METRICS)
def test_a_perfect_code_has_the_best_score(name, rng):
    s = lattice(rng)
    score = METRICS[name](s.astype(float), s)
    assert score.value == pytest.approx(BEST.get(name, 1.0), abs=0.03)


@pytest.mark.parametrize("name", METRICS)
def test_pure_noise_scores_what_chance_scores(name, rng):
    s = lattice(rng, 400)
    score = METRICS[name](rng.normal(size=(400, 4)), s)
    # InfoM may be 1 if one entry passes the gate, and the lasso chooses one code at random.
    level = {"dci_lasso": (0, 1), "dci": (0, 0.05), "modularity": (0, 0.6), "infomec": (0, 1)}
    level |= {"explicitness": (0.42, 0.58), "beta_vae": (0.28, 0.39), "factor_vae": (0.28, 0.39)}
    low, high = level.get(name, (-0.12, 0.12))
    assert low <= score.value <= high
    if name == "dci_lasso":
        assert score["informativeness"].value == pytest.approx(0.0, abs=0.05)
    if name == "infomec":
        assert np.count_nonzero(score.matrix) <= 1
        assert score["InfoE"].value == pytest.approx(0.0, abs=0.1)


@pytest.mark.parametrize("name", AXES)
def test_a_rotation_costs_what_looks_at_axes(name, rng):
    s = rng.normal(size=(800, 3))
    turn = np.array([[2, -1, 2], [2, 2, -1], [-1, 2, 2]]) / 3
    straight, turned = (METRICS[name](z, s).value for z in (s, s @ turn))
    assert straight == pytest.approx(1.0, abs=0.03)
    assert turned < 0.9


@pytest.mark.parametrize("name", AFFINE)
def test_an_invertible_map_costs_nothing_where_none_is_looked_at(name, rng):
    s = lattice(rng, 500)
    z = s + 0.3 * rng.normal(size=s.shape)
    mapped = z @ (np.eye(3) + rng.normal(size=(3, 3))) + [5.0, -3.0, 100.0]
    straight, other = (METRICS[name](each, s).value for each in (z, mapped))
    assert other == pytest.approx(straight, abs=1e-3 if name == "explicitness" else 1e-6)


def test_infoe_does_not_see_an_invertible_map(rng):
    """Fixture 3."""
    s = lattice(rng, 500)
    z = s + 0.3 * rng.normal(size=s.shape)
    a, b = (METRICS["infomec"](x, s)["InfoE"].value for x in (z, z @ rng.normal(size=(3, 3))))
    assert a == pytest.approx(b, abs=2e-3)
    assert 0.3 < a < 0.95


def test_duplicated_codes_cost_completeness_and_gaps_only(rng):
    s = lattice(rng)
    twice = np.hstack([s, s]).astype(float)
    assert METRICS["mcc"](twice, s).value == pytest.approx(1.0)
    assert METRICS["r2"](twice, s).value == pytest.approx(1.0)
    assert METRICS["modularity"](twice, s).value == pytest.approx(1.0, abs=0.05)
    assert METRICS["mig"](twice, s).value == pytest.approx(0.0, abs=1e-9)
    assert METRICS["sap"](twice, s).value == pytest.approx(0.0, abs=1e-9)
    score = METRICS["infomec"](twice, s)
    assert score["InfoM"].value == pytest.approx(1.0, abs=0.03)
    # Half of 1, less a sixth, rescaled.
    assert score["InfoC"].value == pytest.approx((1 / 2 - 1 / 6) / (1 - 1 / 6), abs=0.02)


@pytest.mark.parametrize("name", sorted(set(METRICS) - {"modularity"}))
def test_noise_codes_beside_a_perfect_code_cost_nothing(name, rng):
    s = lattice(rng)
    z = np.hstack([s, rng.normal(size=s.shape)])
    assert METRICS[name](z, s).value == pytest.approx(BEST.get(name, 1.0), abs=0.06)


def test_modularity_counts_every_code_and_so_noise(rng):
    s = lattice(rng)
    z = np.hstack([s, rng.normal(size=s.shape)])
    assert METRICS["modularity"](z, s).value < 0.85


INFORMATION = {"infomec": infomec, "mig": mig, "modularity": modularity, "sap": sap}


@pytest.mark.parametrize("name", sorted(set(METRICS) - set(INFORMATION)))
def test_a_leak_of_a_thousandth_is_not_seen(name, rng):
    s = lattice(rng)
    leaky = s + 0.001 * np.roll(s, -1, axis=1)
    assert METRICS[name](leaky, s).value == pytest.approx(BEST.get(name, 1.0), abs=0.04)


@pytest.mark.parametrize("name", INFORMATION)
def test_a_leak_of_a_thousandth_is_seen_by_ranks_unless_noise_hides_it(name, rng):
    """What is on a lattice is decodable however small it is."""
    s = lattice(rng, 1500, (4, 4, 4))
    leaky = s + 0.001 * np.roll(s, -1, axis=1)
    best = 0.75 if name == "sap" else 1.0
    assert INFORMATION[name](leaky, s, permutations=3).value < 0.8 * best
    hidden = INFORMATION[name](leaky, s, noise=0.05, permutations=3)
    # Bins of equal frequency need not end where classes do.
    assert hidden.value == pytest.approx(best, abs=0.08)
    with pytest.raises(InputError, match=r"noise is -1\.0"):
        INFORMATION[name](s, s, noise=-1.0)


# MCC


def test_signed_permutation_scores_one_in_every_way(rng):
    """Fixture 2."""
    s = rng.normal(size=(200, 4))
    z = s[:, [2, 0, 3, 1]] * [-1.0, 2.0, -0.1, 30.0]
    for options in ({}, {"preset": "reference"}, {"correlation": "spearman"}):
        assert mcc(z, s, permutations=0, **options).value == pytest.approx(1.0, abs=1e-12)
    assert r2(z, s, permutations=0).value == pytest.approx(1.0, abs=1e-12)


def test_two_rows_correlate_perfectly_whatever_they_are(rng):
    """Fixture 4: why n must be reported."""
    score = mcc(
        rng.normal(size=(2, 3)), rng.normal(size=(2, 3)), preset="reference", permutations=4
    )
    assert score.value == pytest.approx(1.0)
    assert score.chance.mean == pytest.approx(1.0)
    assert score.parts[0].adjusted is None
    assert score.interval is None
    assert score.n == 2


def test_the_assignment_is_the_best_of_all(rng):
    """Fixture 6: what brute force over all permutations finds."""
    s = rng.normal(size=(50, 4))
    z = s @ rng.normal(size=(4, 4))
    table = np.abs(np.corrcoef(z.T, s.T)[:4, 4:])
    best = max(
        np.mean([table[p, j] for j, p in enumerate(order)]) for order in permutations(range(4))
    )
    assert mcc(z, s, preset="reference", permutations=0).value == pytest.approx(best, abs=1e-12)
    assert mcc(s[:, ::-1], s, preset="reference", permutations=0).value == pytest.approx(1.0)


def test_spearman_has_ranks_and_ties_right(rng):
    """Fixture 7: (6/π) asin(ρ/2) = 0.8855 for ρ = 1/√1.25; argsort in place of ranks gives 0."""
    x = rng.normal(size=4000)
    y = x + 0.5 * rng.normal(size=4000)
    expected = 6 / np.pi * np.arcsin(1 / np.sqrt(1.25) / 2)
    options = {"correlation": "spearman", "permutations": 0}
    assert expected == pytest.approx(0.8855, abs=1e-4)
    for preset in (None, "reference"):
        assert mcc(y[:, None], x, preset=preset, **options).value == pytest.approx(
            expected, abs=0.02
        )
    from scipy.stats import spearmanr

    tied_x, tied_y = np.round(x[:99]), np.round(y[:99])
    found = mcc(tied_y[:, None], tied_x, preset="reference", kinds=["continuous"], **options)
    close(found.value, abs(spearmanr(tied_x, tied_y).statistic), 1e-12)


def test_held_out_mcc_step_by_step(rng):
    """Matching and signs from the rows outside a fold, correlations within it."""
    s = rng.normal(size=(83, 3))
    z = np.hstack([s @ rng.normal(size=(3, 3)), rng.normal(size=(83, 2))])
    data = prepare(z, s)
    z, s = data.codes, np.column_stack([factor.values for factor in data.factors])
    total = np.zeros(3)
    for fold in folds(83):
        rest = np.delete(np.arange(83), fold)
        train = np.corrcoef(z[rest].T, s[rest].T)[:5, 5:]
        best = max(
            permutations(range(5), 3),
            key=lambda order: sum(abs(train[p, j]) for j, p in enumerate(order)),
        )
        for j, code in enumerate(best):
            r = np.corrcoef(z[fold, code], s[fold, j])[0, 1]
            total[j] += np.sign(train[code, j]) * r * (fold.stop - fold.start) / 83
    close(list(mcc(data).per_factor.values()), total, 1e-10)


def test_unmatched_factors_count_as_nothing_and_not_as_zero_in_the_mean(rng):
    s = rng.normal(size=(300, 4))
    score = mcc(s[:, [2, 0]], s, permutations=0)
    assert score.value == pytest.approx(1.0)
    assert list(score.per_factor.values()) == pytest.approx([1, 0, 1, 0])


def test_the_chance_level_is_that_of_permuted_rows(rng):
    s, z = rng.normal(size=(60, 2)), rng.normal(size=(60, 3))
    data = prepare(z, s)
    columns = np.column_stack([factor.values for factor in data.factors])
    best = []
    for rows in list(orders(60, 4, 0))[1:]:
        r = np.abs(np.corrcoef(data.codes.T, columns[rows].T)[:3, 3:])
        best.append(max((r[a, 0] + r[b, 1]) / 2 for a, b in permutations(range(3), 2)))
    chance = mcc(data, preset="reference", permutations=4).chance
    close(chance.mean, np.mean(best), 1e-12)
    close(chance.interval, (min(best), max(best)), 1e-12)
    assert chance.permutations == 4


def test_a_factor_that_is_constant_in_a_fold_is_no_loss(rng):
    rare = np.zeros(200)
    rare[:3] = 1
    score = mcc(
        np.column_stack([rare, rng.normal(size=200)]), rare, kinds=["discrete"], permutations=0
    )
    assert score.value == pytest.approx(1.0)


def test_mcc_calls(rng):
    s = rng.normal(size=(50, 2))
    for options, word in [
        ({"correlation": "kendall"}, "correlation is 'kendall'"),
        ({"after": "cca"}, "after is 'cca'"),
        ({"after": "linear", "correlation": "spearman"}, "'linear' with pearson"),
        ({"correlation": "rdc"}, "as it has no sign"),
    ]:
        with pytest.raises(InputError, match=word):
            mcc(s, s, **options)


# R²


def test_r2_has_an_intercept():
    """Fixture 1: without one, a constant c costs a perfect code c²/(1 + Kc²)."""
    rng = np.random.default_rng(0)
    s = np.linalg.qr(rng.normal(size=(400, 3)) - rng.normal(size=3))[0]
    s = np.linalg.qr(s - s.mean(0))[0] * np.sqrt(400)
    s -= s.mean(0)
    for c, expected in ((1.0, 0.75), (5.0, 1 - 25 / 76)):
        z = s + c
        without = z @ np.linalg.lstsq(z, s, rcond=None)[0]
        close(1 - ((s - without) ** 2).sum() / (s**2).sum(), expected, 1e-9)
        for preset in (None, "reference"):
            close(r2(z, s, preset=preset, permutations=0).value, 1.0, 1e-9)


def test_held_out_r2_step_by_step(rng):
    s = rng.normal(size=(71, 2))
    z = s @ rng.normal(size=(2, 4)) + rng.normal(size=(71, 4))
    data = prepare(z, s)
    z, s = data.codes, np.column_stack([factor.values for factor in data.factors])
    over = under = 0
    for fold in folds(71):
        rest = np.delete(np.arange(71), fold)
        said = LinearRegression().fit(z[rest], s[rest]).predict(z[fold])
        total = ((s[fold] - s[fold].mean(0)) ** 2).sum(0)
        over, under = over + total - ((s[fold] - said) ** 2).sum(0), under + total
    close(list(r2(data).per_factor.values()), over / under, 1e-10)


def test_r2_does_not_mind_dependent_codes(rng):
    s = rng.normal(size=(100, 2))
    z = np.hstack([s, s.sum(1, keepdims=True), s])
    for preset in (None, "reference"):
        close(r2(z, s, preset=preset, permutations=0).value, 1.0, 1e-9)


def test_what_is_there_but_not_explicit(rng):
    z = rng.normal(size=(1500, 2))
    s = np.column_stack([z[:, 0] ** 2, np.sin(2 * z[:, 1])])
    assert r2(z, s, permutations=0).value < 0.35
    assert r2(z, s, model="kernel", permutations=0).value > 0.97


def test_kernel_features_approximate_the_kernel(rng):
    z = prepare(rng.normal(size=(400, 2)), rng.normal(size=400)).codes
    smooth = kernel_features(z, 2.0**-52)[:, 2:]
    white = kernel_features(z, 2.0**-52)[:, :2]
    close(np.cov(white.T, bias=True), np.eye(2), 1e-12)
    marks, smooth = white[:200], smooth[:200]
    between = ((marks[:, None] - marks) ** 2).sum(-1)
    kernel = np.exp(-between / np.median(between[np.triu_indices(200, 1)]))
    # At the landmarks features have the kernel's distances, 2 − 2κ, wherever they are centred.
    close(((smooth[:, None] - smooth) ** 2).sum(-1), 2 - 2 * kernel, 1e-5)


def test_r2_calls(rng):
    with pytest.raises(InputError, match="model is 'mlp'"):
        r2(rng.normal(size=(50, 2)), rng.normal(size=50), model="mlp")


# DCI


def test_rows_after_a_row_of_zeros_still_count():
    """Fixture 5."""
    importance = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 3.0], [2.0, 2.0]])
    value, each = disentanglement(importance)
    close(each, [0, 1, 1, 0], 1e-12)
    close(value, (1 + 3) / 8, 1e-12)


def test_d_and_c_by_hand():
    importance = np.array([[0.5, 0.5], [0.25, 0.75]])
    entropy = -(0.25 * np.log2(0.25) + 0.75 * np.log2(0.75))
    close(disentanglement(importance)[0], (0 * 1 + (1 - entropy) * 1) / 2, 1e-12)
    columns = [1 - -(p * np.log2(p) + (1 - p) * np.log2(1 - p)) for p in (2 / 3, 0.4)]
    close(completeness(importance)[1], columns, 1e-12)
    close(completeness(importance)[0], (0.75 * columns[0] + 1.25 * columns[1]) / 2, 1e-12)
    close(completeness(importance, even=True)[0], np.mean(columns), 1e-12)
    assert completeness(np.ones((1, 3)))[0] == 1.0


def test_the_lasso_is_optimal(rng):
    """|cov(z, residual)| ≤ α, with equality and the sign of b where b is not 0."""
    z = rng.normal(size=(200, 6)) @ rng.normal(size=(6, 6))
    s = rng.normal(size=(200, 3)) + z[:, :3]
    cov, cross = z.T @ z / 200, z.T @ s / 200
    for penalty in (0.5, 0.05):
        b = lasso(cov, cross, penalty)
        gradient = cross - cov @ b
        assert np.all(np.abs(gradient) <= penalty + 1e-5)
        assert (b == 0).any()
        close(gradient[b != 0], penalty * np.sign(b[b != 0]), 1e-5)


def test_dci_parts(rng):
    s = rng.normal(size=(300, 3))
    z = np.hstack([s, s[:, :1]])
    score = dci(z, s, probe="lasso", permutations=3)
    assert [part.name for part in score.parts] == [
        "disentanglement",
        "completeness",
        "informativeness",
    ]
    assert score["informativeness"].value == pytest.approx(1.0, abs=1e-3)
    assert set(score["completeness"].per_factor) == set(score.factors)
    assert set(score["disentanglement"].per_code) == set(score.codes)


@pytest.mark.long
def test_binned_trees_have_the_importances_of_exact_ones(rng):
    """Gains of binned trees, which are no public part of scikit-learn, beside impurities."""
    s = rng.normal(size=(400, 3))
    z = np.hstack([s @ rng.normal(size=(3, 3)), rng.normal(size=(400, 1))])
    data = prepare(z, s)
    score = dci(data, probe="boosted", permutations=0)
    assert score.matrix.sum(0) == pytest.approx(np.ones(3))
    exact = np.empty((4, 3))
    for j, factor in enumerate(data.factors):
        model = GradientBoostingRegressor(random_state=0).fit(data.codes, factor.values)
        exact[:, j] = model.feature_importances_
    close(score.matrix, exact, 0.05)
    close(score.value, disentanglement(exact)[0], 0.03)


def test_dci_of_words(rng):
    frame = pd.DataFrame({"a": rng.choice(["x", "y"], size=300), "b": rng.normal(size=300)})
    z = np.column_stack([frame["a"] == "x", frame["b"]]).astype(float)
    assert dci(z, frame, permutations=0).value > 0.95
    with pytest.raises(InputError, match="at least two"):
        dci(z, frame, probe="lasso")
    with pytest.raises(InputError, match="probe is 'svm'"):
        dci(z, frame, probe="svm")


# Information


def test_held_out_mig_step_by_step(rng):
    """Information by scikit-learn, its bias removed fold by fold; the two codes from other rows."""
    s = lattice(rng, 97)
    data = prepare(s[:, :2] + rng.normal(size=(97, 2)), s)
    ranks = 1 + np.argsort(np.argsort(data.codes, axis=0), axis=0)
    codes = ((ranks - 0.5) * 5 / 97).astype(int)

    def information(labels, rows):
        return np.array([mutual_info_score(code[rows], labels[rows]) for code in codes.T])

    score = mig(data, bins=5, permutations=0)
    for place, factor in enumerate(data.factors):
        labels, every = factor.labels, np.arange(97)
        whole, entropy = information(labels, every), mutual_info_score(labels, labels)
        gap = under = 0.0
        for fold in folds(97):
            rest = np.delete(every, fold)
            train = information(labels, rest)
            own = 97 * whole - len(rest) * train
            best, second = np.argsort(-train)
            gap += own[best] - own[second]
            under += 97 * entropy - len(rest) * mutual_info_score(labels[rest], labels[rest])
        close(score.per_factor[factor.name], gap / under, 1e-10)
        close(score.matrix[:, place], whole / entropy, 1e-10)


def test_what_binning_finds_in_independent_rows_is_taken_off(rng):
    """A perfect code of few rows loses nothing, where plug-in information loses a quarter."""
    s = rng.normal(size=(200, 5))
    assert mig(s, s, permutations=20).value == pytest.approx(1.0, abs=0.05)
    assert mig(s, s, preset="reference", permutations=0).value < 0.8
    data = prepare(s, s)
    found = information(Trial("mig", "MIG", data, data.factors, (), False, 20), 8)
    assert found.whole[1:].mean() > 0.1
    # Three rows a cell: terms beyond 1/n are left.
    assert found.held_out[:, 1:].mean() == pytest.approx(0.0, abs=0.03)


def test_modularity_by_hand(rng):
    """A code that knows two factors equally well: 1 − 1/(K − 1)."""
    s = lattice(rng, 4000, (4, 4, 4))
    both = s[:, 0] * 4 + s[:, 1]
    score = modularity(np.column_stack([both, s[:, 2]]), s, permutations=5)
    assert score.parts[0].per_code["code 0"] == pytest.approx(0.5, abs=0.05)
    assert score.parts[0].per_code["code 1"] == pytest.approx(1.0, abs=0.01)
    with pytest.raises(InputError, match="at least two"):
        modularity(s, s[:, 0])


# InfoMEC


def test_infomec_gates_what_is_at_chance(rng):
    s = lattice(rng, 500)
    z = np.hstack([s, rng.normal(size=s.shape)])
    score = infomec(z, s, permutations=5)
    assert {each.name for each in score.excluded} == {"code 3", "code 4", "code 5"}
    assert set(score["InfoM"].per_code) == {"code 0", "code 1", "code 2"}
    assert (score.matrix[3:] == 0).all()
    assert score.matrix[:3].argmax(1).tolist() == [0, 1, 2]


def test_infomec_says_where_its_information_is_too_fine_to_use(rng):
    s = lattice(rng, 1500, (4, 4, 4))
    (said,) = infomec(s + 0.001 * np.roll(s, -1, axis=1), s, permutations=2).warnings
    assert "nearly deterministic" in said
    assert infomec(s, s, permutations=2).warnings == ()
    assert infomec(s + 0.1 * rng.normal(size=s.shape), s, permutations=2).warnings == ()


def test_infomec_as_published_says_that_codes_are_whitened(rng):
    s = lattice(rng, 300)
    white = np.linalg.qr(rng.normal(size=(300, 4)) - 0.5)[0]
    white = np.linalg.qr(white - white.mean(0))[0]
    options = {"preset": "reference", "permutations": 0}
    (said,) = infomec(white, s, **options).warnings
    assert "whitened" in said
    assert infomec(white, s, weighted=True, **options).warnings == ()
    assert infomec(white * [1, 1, 1, 3], s, **options).warnings == ()


def test_infomec_weighted_is_without_its_gate(rng):
    s = lattice(rng, 500)
    data = prepare(np.hstack([s, rng.normal(size=s.shape)]), s)
    by_name = package.infomec_weighted(data, permutations=2)
    assert by_name.to_dict() == infomec(data, weighted=True, gated=False, permutations=2).to_dict()
    assert (by_name.matrix[3:] > 0).any()
    assert by_name["InfoM"].value > 0.9


def test_infomec_calls(rng):
    s = lattice(rng, 100)
    for options, word in [
        ({"neighbours": 0}, "neighbours is 0"),
        ({"permutations": 0}, "at least one permutation"),
    ]:
        with pytest.raises(InputError, match=word):
            infomec(s, s, **options)
    with pytest.raises(InputError, match="at least two"):
        infomec(s, s[:, 0])


# β-VAE and FactorVAE


def test_scores_by_intervention_need_rows_that_share_a_value(rng):
    s = lattice(rng, 200)
    frame = pd.DataFrame({"a": s[:, 0], "b": s[:, 1], "rare": np.arange(200) // 2})
    for function in (beta_vae, factor_vae):
        score = function(s, frame, kinds={"rare": "discrete"}, permutations=0)
        said = {each.name: each.reason for each in score.excluded}
        assert "same value of it in every fold" in said.get("rare", "") or "rare" in score.factors
        with pytest.raises(InputError, match="needs at least two"):
            function(s, s[:, 0])


def test_factor_vae_shows_who_votes_for_what(rng):
    s = rng.normal(size=(500, 3))
    score = factor_vae(np.hstack([s, rng.normal(size=(500, 1))]), s, permutations=0)
    assert score.matrix[:3].argmax(0).tolist() == [0, 1, 2]
    close(score.matrix.sum(0), np.ones(3), 1e-12)


def test_the_reference_leaves_out_codes_that_hardly_move(rng):
    s = rng.normal(size=(300, 2))
    score = factor_vae(s * [1.0, 1e-3], s, preset="reference", permutations=0)
    assert [each.name for each in score.excluded] == ["code 1"]
    assert score.codes == ("code 0",)
    with pytest.raises(InputError, match="every code has a standard deviation below"):
        factor_vae(s * 1e-3, s, preset="reference")


# What an arbitrary rotation scores


def test_an_arbitrary_rotation_scores_far_from_zero(rng):
    s = rng.normal(size=(2000, 5))
    level = rotation_level(s @ rotation(rng, 5), s, rotations=60)
    # By hand, at infinitely many rows: the assignment of a random rotation's entries.
    from scipy.optimize import linear_sum_assignment

    expected = []
    for _ in range(200):
        turn = np.abs(rotation(rng, 5))
        expected.append(turn[linear_sum_assignment(-turn)].mean())
    for found in (level.of_factors, level.of_codes):
        assert found.mean == pytest.approx(np.mean(expected), abs=0.03)
        assert found.interval[0] < found.mean < found.interval[1]
    assert 0.6 < level.of_factors.mean < 0.75
    assert level.rotations == 60


def test_codes_that_know_nothing_score_nothing_after_a_rotation(rng):
    level = rotation_level(rng.normal(size=(500, 4)), rng.normal(size=(500, 3)), rotations=40)
    assert abs(level.of_codes.mean) < 0.04
    in_sample = rotation_level(
        rng.normal(size=(500, 4)), rng.normal(size=(500, 3)), rotations=40, preset="reference"
    )
    assert 0.02 < in_sample.of_codes.mean < 0.12


def test_the_level_of_codes_is_that_of_what_they_hold_of_the_factors(rng):
    """A rotation beside noise is no better than arbitrary axes; noisy axes are."""
    s, noise = rng.normal(size=(2, 2000, 4))
    turn = rotation(rng, 4)
    whole = rotation_level(np.hstack([s @ turn, noise]), s, rotations=50)
    close(whole.of_codes.mean, whole.of_factors.mean, 0.03)
    # Half of the variance is noise, which costs a correlation √½.
    for codes in (s + noise, s @ turn + noise):
        level = rotation_level(codes, s, rotations=50)
        close(level.of_codes.mean, np.sqrt(0.5) * level.of_factors.mean, 0.03)
        assert level.of_codes.interval[1] < mcc(s + noise, s, permutations=0).value
    # Two codes hold two directions of four factors.
    few = rotation_level(s[:, :2], s, rotations=50).of_codes.mean
    pairs = [np.abs(rotation(rng, 2)) for _ in range(500)]
    close(few, np.mean([max(p.trace(), p[:, ::-1].trace()) / 2 for p in pairs]), 0.03)


def test_rotations_use_the_rows_in_which_all_is_known(rng):
    s = pd.DataFrame(rng.normal(size=(200, 2)))
    s.iloc[:150, 0] = np.nan
    assert rotation_level(s.fillna(0), s, rotations=5).of_factors.mean > 0.5
    s.iloc[145:, 1] = np.nan
    with pytest.raises(InputError, match="there are 0"):
        rotation_level(s.fillna(0), s)


# Invariances, as properties

SIGNED = ["mcc", "mcc_spearman", "mcc_linear", "r2", "dci_lasso", "mig", "sap", "modularity"]
MONOTONE = ["mcc_spearman", "mig", "modularity"]


def example(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    s = np.column_stack([rng.normal(size=(200, 2)), rng.integers(3, size=200)])
    return s @ rng.normal(size=(3, 4)) + 0.5 * rng.normal(size=(200, 4)), s


@settings(max_examples=10)
@given(
    seed=st.integers(0, 10**6),
    order=st.permutations(range(4)),
    scale=st.lists(
        st.floats(0.01, 100).flatmap(lambda x: st.sampled_from([x, -x])), min_size=4, max_size=4
    ),
)
def test_order_sign_and_scale_of_codes_change_nothing(seed, order, scale):
    z, s = example(seed)
    for name in SIGNED:
        a, b = (METRICS[name](each, s).value for each in (z, z[:, order] * scale))
        assert a == pytest.approx(b, abs=1e-6), name


@settings(max_examples=10)
@given(seed=st.integers(0, 10**6))
def test_monotone_functions_of_codes_change_nothing_where_ranks_are_looked_at(seed):
    z, s = example(seed)
    bent = np.column_stack([np.exp(z[:, 0]), z[:, 1] ** 3, np.arctan(z[:, 2]), np.expm1(z[:, 3])])
    for name in MONOTONE:
        a, b = (METRICS[name](each, s).value for each in (z, bent))
        assert a == pytest.approx(b, abs=1e-12), name
    # Bins of equal width are another matter.
    widths = [mig(each, s, preset="reference", permutations=0).value for each in (z, bent)]
    assert abs(widths[0] - widths[1]) > 1e-6


@pytest.mark.parametrize("name", ["dci", "explicitness", "infomec", "beta_vae", "factor_vae"])
def test_order_sign_and_scale_hardly_change_what_is_drawn_at_random(name, rng):
    s = lattice(rng, 400)
    z = np.hstack([s + 0.3 * rng.normal(size=s.shape), rng.normal(size=(400, 1))])
    other = z[:, [2, 0, 3, 1]] * [-2.0, 0.3, 10.0, 1.0]
    values = [METRICS[name](each, s).value for each in (z, other)]
    assert values[0] == pytest.approx(values[1], abs=0.03)


def test_trees_hardly_see_a_monotone_function(rng):
    s = lattice(rng, 400)
    z = s + 0.3 * rng.normal(size=s.shape)
    assert METRICS["dci"](np.exp(z), s).value == pytest.approx(METRICS["dci"](z, s).value, abs=0.02)
