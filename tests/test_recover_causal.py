"""Causal direction: the kernel tests against causal-learn, the rule, halves, silence, bad input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import gamma

import identikit as ik
from conftest import close
from identikit.errors import InputError
from identikit.recover import causal_direction
from identikit.recover._causal_direction import (
    STRUCTURES,
    _pairs,
    _ranks,
    conditional_independence,
    decide,
    independence,
    read_environments,
)


def data(kind: str, n: int, rng: np.random.Generator) -> list[np.ndarray]:
    """x, y and z of a kind."""
    z = rng.normal(size=n)
    e, f = rng.laplace(size=(2, n))
    return {
        "independent": [e, f, z],
        "common cause": [z + e, z**2 + 0.5 * f, z],
        "dependent": [z + e, z + 0.4 * (z + e) + f, z],
        "heavy": [9 * e + 4 * e**2, 5 * e**2 + f, 3 * e],
        "discrete": [np.sign(e), np.round(z + f), np.round(2 * z)],
        "scaled": [1e6 * (z + e) + 1e9, 1e-8 * (z + f), 1e3 * z - 5],
    }[kind]


KINDS = ["independent", "common cause", "dependent", "heavy", "discrete", "scaled"]


def p_of(test, *columns: np.ndarray) -> float:
    return float(test(*columns, np.zeros((len(columns[0]), 0)))[0])


# The tests


@pytest.mark.extra("causal")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [40, 150, 260])
def test_the_p_values_are_those_of_causal_learn(kind, n, rng):
    """Its conditional test drops eigenvalues below 1e-5 of the largest, and ours drops none."""
    kci = pytest.importorskip("causallearn.utils.KCI.KCI")
    x, y, z = data(kind, n, rng)
    given = [column[:, None] for column in (x, y, z)]
    theirs = kci.KCI_CInd(approx=True).compute_pvalue(*given)[0]
    close(p_of(conditional_independence, x, y, z), theirs, 1e-3)
    close(p_of(independence, x, y), kci.KCI_UInd(approx=True).compute_pvalue(*given[:2])[0], 1e-9)


@pytest.mark.extra("causal")
def test_wide_kernels_beyond_1200_rows_are_those_of_causal_learn(rng):
    kci = pytest.importorskip("causallearn.utils.KCI.KCI")
    x, y, _ = data("common cause", 1200, rng)
    theirs = kci.KCI_UInd(approx=True).compute_pvalue(x[:, None], y[:, None])[0]
    close(p_of(independence, x, y), theirs, 1e-9)


def by_definition(x: np.ndarray, y: np.ndarray, z: np.ndarray, width: float) -> float:
    """KCI by dense matrices: R = ε (K_z + ε I)⁻¹, and moments of the null by eigenvalues."""
    n = len(x)
    x, y, z = ((c - c.mean()) / c.std(ddof=1) for c in (x, y, z))
    H = np.eye(n) - 1 / n

    def kernel(*columns: np.ndarray) -> np.ndarray:
        return H @ np.exp(-0.5 * sum((c[:, None] - c) ** 2 for c in columns) / width**2) @ H

    R = 1e-3 * np.linalg.inv(kernel(z) + 1e-3 * np.eye(n))
    K, L = R @ kernel(x, z / 2) @ R, R @ kernel(y) @ R
    eigenvalues = np.linalg.eigvalsh(K * L)
    mean, variance = eigenvalues.sum(), 2 * (eigenvalues**2).sum()
    return float(gamma.sf(np.trace(K @ L), mean**2 / variance, scale=variance / mean))


@settings(max_examples=15)
@given(seed=st.integers(0, 10**6), n=st.integers(12, 80), kind=st.sampled_from(KINDS[:4]))
def test_the_p_value_is_that_of_the_definition(seed, n, kind):
    x, y, z = data(kind, n, np.random.default_rng(seed))
    close(p_of(conditional_independence, x, y, z), by_definition(x, y, z, 1.2), 1e-7)


@settings(max_examples=10)
@given(seed=st.integers(0, 10**6), scale=st.floats(1e-6, 1e6), shift=st.floats(-1e3, 1e3))
def test_order_of_rows_units_and_sides_do_not_matter(seed, scale, shift):
    rng = np.random.default_rng(seed)
    x, y, z = data("common cause", 60, rng)
    order = rng.permutation(60)
    p = p_of(conditional_independence, x, y, z)
    moved = (scale * x[order] + shift * scale, -y[order], z[order])
    close(p_of(conditional_independence, *moved), p, 1e-6)
    close(p_of(independence, x, y), p_of(independence, y, -scale * x), 1e-9)


def test_under_the_null_p_values_are_uniform_and_of_halves_too():
    """Rejections at .05 and .5 of 150 samples, and of 4 halves of each, which are not refitted."""
    rng = np.random.default_rng(7)
    found = []
    for _ in range(150):
        halves = (rng.permuted(np.tile(np.arange(100) < 50, (2, 1)), axis=1) * 1.0).T
        z = rng.normal(size=100)
        x, y = z + rng.laplace(size=100), z**2 + rng.laplace(size=100)
        pair = rng.laplace(size=(2, 100))
        found.append([conditional_independence(x, y, z, halves), independence(*pair, halves)])
    p = np.array(found)
    for level, width in ((0.05, 0.045), (0.5, 0.12)):
        shares = (p < level).mean(axis=0)
        close(shares[:, 0], np.full(2, level), width)
        close(shares[:, 1:].mean(axis=1), np.full(2, level), width)


def test_a_half_is_its_own_test_but_for_the_fit_of_the_whole(rng):
    n = 160
    halves = np.zeros((n, 1))
    halves[rng.permutation(n)[:80]] = 1
    inside = halves[:, 0] == 1
    x, y, z = data("dependent", n, rng)
    for test, columns in ((independence, (x, y)), (conditional_independence, (x, y, z))):
        whole, first, second = test(*columns, halves)
        assert whole == pytest.approx(p_of(test, *columns))
        for found, rows in ((first, inside), (second, ~inside)):
            alone = p_of(test, *(column[rows] for column in columns))
            assert abs(np.log(found) - np.log(alone)) < 1 + 0.35 * abs(np.log(alone))


# The rule


def test_the_decision_rule():
    p = [(0.5, 0.01, 0.01), (0.01, 0.5, 0.01), (0.5, 0.5, 0.5), (0.01, 0.02, 0.01)]
    found, clear = decide(np.transpose(p))
    assert found.tolist() == ["x->y", "y->x", "none", "y->x"]
    assert clear.tolist() == [True, True, True, False]
    assert [str(decide(each)[0]) for each in p] == found.tolist()


@given(st.tuples(*[st.sampled_from([0.0, 0.01, 0.05, 0.2, 1.0])] * 3))
def test_the_rule_is_that_of_the_paper_written_out(p):
    a, b, c = p
    if a >= 0.05 and b <= 0.05 and c <= 0.05:
        expected = "x->y"
    elif a <= 0.05 and b >= 0.05 and c <= 0.05:
        expected = "y->x"
    elif min(p) >= 0.05:
        expected = "none"
    else:
        expected = STRUCTURES[p.index(max(p))]
    assert str(decide(p)[0]) == expected


# Directions


def environments(n: int, rng: np.random.Generator, samples: int = 2) -> dict[str, Any]:
    """x causes y, and θ varies."""
    labels = np.repeat(np.arange(n), samples)
    x = rng.uniform(-5, 5, size=n)[labels] + 0.5 * rng.laplace(size=len(labels))
    return {"x": x, "y": x + 2 * rng.laplace(size=len(labels)), "environments": labels}


def test_swapping_the_variables_swaps_the_answer(rng):
    given = environments(150, rng)
    found = causal_direction(**given)
    other = causal_direction(given["y"], given["x"], given["environments"])
    assert (found.direction, other.direction) == ("x->y", "y->x")
    a, b, c = found.p_values
    close(other.p_values, [b, a, c], 1e-9)
    close(found.variation, other.variation, 1e-4)
    assert found.shares["x->y"] == pytest.approx(other.shares["y->x"], abs=0.05)


def test_whole_environments_may_be_permuted_and_samples_of_others_may_come_between(rng):
    given = environments(80, rng)
    found = causal_direction(**given)
    order = rng.permutation(80)
    rows = (2 * order[:, None] + [0, 1]).ravel()
    mixed = np.argsort(np.tile([0, 1], 80), kind="stable")
    for each in (rows, mixed):
        moved = causal_direction(*(given[name][each] for name in ("x", "y", "environments")))
        close(moved.p_values, found.p_values, 1e-9)
        close(moved.variation, found.variation, 1e-5)


def test_the_two_samples_may_be_swapped_as_far_as_the_law_goes():
    """Rejections of the same tests by either order: the same share."""
    first, second = [], []
    for seed in range(40):
        given = environments(60, np.random.default_rng(seed))
        swapped = {name: column.reshape(-1, 2)[:, ::-1].ravel() for name, column in given.items()}
        first.append(causal_direction(**given).p_values)
        second.append(causal_direction(**swapped).p_values)
    assert np.abs(np.subtract(first, second)).max() > 1e-3
    shares = [(np.array(each) < 0.05).mean(axis=0) for each in (first, second)]
    close(shares[0], shares[1], 0.2)


@pytest.mark.parametrize("unit", [1e-200, 1e200])
def test_units_do_not_matter(unit, rng):
    given = environments(40, rng)
    found = causal_direction(**given)
    moved = causal_direction(unit * given["x"], given["y"], given["environments"])
    close(moved.p_values, found.p_values, 1e-9)


def test_labels_may_be_text_and_columns_tables(rng):
    given = environments(40, rng)
    text = np.array([f"laboratory {label}" for label in given["environments"]])
    found = causal_direction(given["x"][:, None], list(given["y"]), text)
    assert found == causal_direction(**given)
    assert found.environments == 40


def test_of_more_samples_two_are_drawn_by_the_seed(rng):
    labels = np.repeat(np.arange(500), rng.integers(2, 6, size=500))
    found = read_environments(labels, len(labels))
    pairs = _pairs(found, np.random.default_rng(1234))
    assert (found.codes[pairs] == np.arange(500)[:, None]).all()
    assert (pairs[:, 0] != pairs[:, 1]).all()
    two = found.counts == 2
    close(pairs[two, 1] - pairs[two, 0], np.ones(two.sum()), 0)
    # Every place is as likely, first or second.
    five = np.flatnonzero(found.counts == 5)
    places = [pairs[five] - (np.cumsum(found.counts) - found.counts)[five, None]]
    counts = np.bincount(np.ravel(places), minlength=5)
    assert ((counts - counts.mean()) ** 2 / counts.mean()).sum() < 18
    given = environments(150, rng, samples=4)
    one, again, other = (causal_direction(**given, seed=seed) for seed in (0, 0, 1))
    assert one == again
    assert one.p_values != other.p_values
    assert one.direction == other.direction == "x->y"


def test_a_weak_change_is_given_with_little_agreement_and_a_strong_one_with_much(rng):
    strong = causal_direction(**environments(150, rng))
    assert strong.agreement >= 0.95
    assert sum(strong.shares.values()) == pytest.approx(1.0)
    assert np.mod(40 * strong.agreement, 1) == pytest.approx(0, abs=1e-9)  # of 40 halves
    labels = np.repeat(np.arange(150), 2)
    x = rng.uniform(-1, 1, size=150)[labels] + rng.laplace(size=300)
    weak = causal_direction(x, 2 * x + rng.laplace(size=300), labels)
    assert weak.shares["x->y"] < 0.9


def test_halves_of_the_environments_agree_as_often_as_new_data_of_that_size_would():
    """The mean share of halves against the share of fresh draws with half the environments."""
    world = ik.worlds.ExchangeablePairs(switch=True)
    shares, fresh = [], []
    for seed in range(12):
        for rows, into in ((400, shares), (200, fresh)):
            sample = world.sample(rows, seed + rows)
            found = causal_direction(*sample.observations.T, sample.environments)
            into.append(found.shares["x->y"] if into is shares else found.direction == "x->y")
    assert abs(np.mean(shares) - np.mean(fresh)) < 0.35


def test_independent_variables_have_no_edge_even_if_both_vary(rng):
    labels = np.repeat(np.arange(80), 2)
    found = []
    for _ in range(12):
        x, y = rng.uniform(-3, 3, size=(2, 80))[:, labels] + rng.laplace(size=(2, 160))
        found.append(causal_direction(x, y, labels))
    none = [each for each in found if each.direction == "none"]
    # Three tests of 5 % each.
    assert len(none) >= 7
    assert all(each.rule == "none" and each.variation < 0.05 for each in none)
    assert "independent" in none[0].sentence


def test_what_is_iid_across_environments_is_silent_and_says_so(rng):
    labels = np.repeat(np.arange(200), 2)
    x = rng.laplace(size=400)
    found = causal_direction(x, x + rng.laplace(size=400), labels)
    assert found.direction == "silent"
    assert found.rule in ("x->y", "y->x")
    assert found.variation > 0.05
    assert "i.i.d. across environments" in found.sentence
    assert found.agreement > 0.5


def test_silence_is_as_rare_as_the_level_says():
    """Of i.i.d. pairs (X₁, Y₁) ⟂ (X₂, Y₂) is rejected at the level, whatever ties x to y."""
    rng = np.random.default_rng(11)
    rejected = []
    for _ in range(150):
        x = rng.laplace(size=(80, 2))
        y = [3 * x + rng.laplace(size=(80, 2)), x**2 + 0.1 * x, np.round(x)][rng.integers(3)]
        both = (_ranks(np.stack([x[:, k], y[:, k]], axis=1)) for k in (0, 1))
        rejected.append(independence(*both, np.zeros((80, 0)), width=1.0)[0] < 0.05)
    assert 0.0 < np.mean(rejected) < 0.11


def test_a_change_that_only_the_joint_law_shows_is_seen(rng):
    """y = ±x + noise by environment: no two single variables of the samples depend."""
    labels = np.repeat(np.arange(200), 2)
    x = rng.normal(size=400)
    y = rng.choice([-1, 1], size=200)[labels] * x + 0.3 * rng.normal(size=400)
    assert causal_direction(x, y, labels).variation < 1e-3


def test_ranks_share_ties_and_leave_out_what_is_the_same(rng):
    columns = np.array([[1.0, 5], [1, 6], [3, 7], [2, 9]])
    found = _ranks(columns)
    close(found.T @ found / 4, np.eye(2), 1e-6)
    # One monotone function of the other: one axis.
    x = rng.normal(size=50)
    assert _ranks(np.stack([x, np.exp(x)], axis=1)).shape == (50, 1)
    tied = _ranks(np.stack([np.repeat([0.0, 1, 5], 4)] * 2, axis=1))
    close(np.abs(tied[:, 0]), np.repeat([1.5**0.5, 0, 1.5**0.5], 4), 1e-6)


def test_the_summary_names_every_test(rng):
    found = causal_direction(**environments(150, rng))
    said = found.summary()
    assert said.startswith(f"x->y: x causes y ({found.agreement:.0%} of random halves")
    for p in (*found.p_values, found.variation):
        assert (f"p = {p:.3g}" if p >= 1e-4 else "p < 0.0001") in said
    assert "150 pairs of samples" in said
    unclear = causal_direction(**environments(60, rng), level=0.999)
    assert unclear.clear == ("largest of them decided" not in unclear.sentence)


# Bad input


def broken(**changes: Any) -> dict[str, Any]:
    return environments(20, np.random.default_rng(0)) | changes


LABELS = np.repeat(np.arange(20), 2)
NAN = np.where(np.arange(40) == 7, np.nan, 1.0 * np.arange(40))


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"environments": np.zeros(40)}, "there is 1 environment; at least 10"),
        ({"environments": np.arange(40) // 10}, "there are 4 environments"),
        ({"environments": np.arange(40)}, "each of the 40 rows has its own environment"),
        ({"environments": np.append(LABELS[:39], 99)}, "environment 19 has 1 sample .2 of 21 env"),
        ({"environments": LABELS[:30]}, r"the environments have the shape \(30,\)"),
        ({"environments": np.where(LABELS == 3, np.nan, LABELS)}, "environment of row 6 is NaN"),
        ({"x": np.full(40, 3.0)}, "x is constant over environments"),
        ({"y": np.tile([1.0, 2.0], 20)}, "y is constant over environments"),
        ({"x": NAN}, "x has NaN or infinity in 1 rows, the first is row 7"),
        ({"y": np.ones(39)}, "x has 40 rows and y has 39"),
        ({"y": np.ones((40, 2))}, r"y has the shape \(40, 2\) and dtype float64"),
        ({"x": ["a"] * 40}, "x has the shape .* expected one real number"),
        ({"x": np.ones(40) * 1j}, "x has the shape .* expected one real number"),
        ({"y": np.exp(-broken()["x"])}, "y is a monotone function of x without any noise"),
        ({"level": 0.0}, "the level is 0.0"),
        ({"level": 5}, "the level is 5"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(given, says):
    with pytest.raises(InputError, match=says):
        causal_direction(**broken(**given))
