"""`distances`: invariances, agreement of its routes, memory, and every refusal."""

from __future__ import annotations

import tracemalloc
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import close
from identikit.errors import InputError
from identikit.family import Distances, Divergences, Pair, SoftmaxModel, _model, distances

NUMBERS = ["kl", "kl_reverse", "js", "tv", "logit", "llv", "svd_f", "svd_g", "representation"]
NUMBERS += ["bound", "sharper_bound", "certificate", "certificate_f", "certificate_g"]


def model(rng, n=60, K=7, M=3, bias=False, name="model"):
    return SoftmaxModel(
        rng.normal(size=(n, M)),
        rng.normal(size=(K, M)),
        rng.normal(size=K) if bias else None,
        name=name,
    )


def other_gauge(rng, a):
    A = np.linalg.qr(rng.normal(size=(a.M, a.M)))[0] * rng.uniform(0.3, 3, a.M)
    return SoftmaxModel(a.f @ A.T, a.g @ np.linalg.inv(A) + rng.normal(size=a.M), a.bias)


def table(a):
    return SoftmaxModel.from_log_prob(a.log_prob())


def numbers(d):
    return np.array([getattr(d, name) for name in NUMBERS])


shapes = st.tuples(
    st.integers(0, 2**32 - 1), st.integers(1, 4), st.integers(1, 6), st.integers(2, 40)
)


@given(shapes, st.booleans())
def test_another_gauge_is_at_distance_zero(shape, bias):
    seed, M, more_labels, more_inputs = shape
    rng = np.random.default_rng(seed)
    a = model(rng, M + more_inputs, M + more_labels, M, bias)
    d = distances(a, other_gauge(rng, a), M=M, candidates=10)
    assert set(NUMBERS) == set(d.kinds)
    assert numbers(d).max() < 1e-8


@given(shapes, st.floats(0.001, 2.0))
def test_bounds_hold_and_tables_are_enough(shape, noise):
    seed, M, more_labels, more_inputs = shape
    rng = np.random.default_rng(seed)
    a = model(rng, M + more_inputs, M + more_labels, M, bias=True)
    b = other_gauge(rng, a)
    b = SoftmaxModel(b.f + noise * rng.normal(size=b.f.shape), b.g, rng.normal(size=b.K))
    d = distances(a, b, M=M, candidates=10, seed=seed)
    assert d.representation <= min(d.bound, d.sharper_bound, d.certificate) + 1e-9
    assert 0 <= d.tv <= 1
    assert d.tv**2 <= min(d.kl, d.kl_reverse) / 2 + 1e-12  # Pinsker
    assert d.js <= np.log(2) * d.tv + 1e-12
    swapped = distances(b, a, M=M, candidates=10, seed=seed)
    close([swapped.kl, swapped.kl_reverse], [d.kl_reverse, d.kl], 1e-12, 1 + d.kl + d.kl_reverse)
    fixed = {"labels": d.labels, "inputs": d.inputs, "M": M}
    direct, tables, mixed = (
        distances(*pair, **fixed) for pair in ((a, b), (table(a), table(b)), (a, table(b)))
    )
    # ψ may be tiny in so few inputs, and magnifies rounding.
    close(numbers(tables), numbers(direct), 1e-7, 1 + np.abs(numbers(direct)))
    close(numbers(mixed), numbers(direct), 1e-7, 1 + np.abs(numbers(direct)))
    close(numbers(direct), numbers(d), 1e-9, 1 + np.abs(numbers(direct)))


@given(st.integers(0, 2**32 - 1), st.floats(0, 1))
def test_triangle_inequality_for_fixed_sets(seed, lam):
    rng = np.random.default_rng(seed)
    a, b, c = (model(rng, 12, 5, 2) for _ in range(3))
    fixed = {"labels": [2, 0, 1, 4], "inputs": [5, 6, 7], "lam": lam}
    first, second, direct = (distances(*two, **fixed) for two in ((a, b), (b, c), (a, c)))
    assert direct.llv <= first.llv + second.llv + 1e-9
    assert direct.labels == (2, 0, 1, 4)
    assert direct.inputs == (5, 6, 7)
    assert direct.left_out == (3,)
    assert direct.kinds["llv"] == direct.kinds["representation"] == "exact"


def test_divergences_are_those_of_their_definitions(rng):
    a, b = model(rng), model(rng, bias=True)
    d = distances(a, b)
    p, q = np.exp(a.log_prob()), np.exp(b.log_prob())
    middle = (p + q) / 2
    close(d.kl, (p * np.log(p / q)).sum(axis=1).mean(), 1e-13)
    close(d.kl_reverse, (q * np.log(q / p)).sum(axis=1).mean(), 1e-13)
    js = (p * np.log(p / middle) + q * np.log(q / middle)).sum(axis=1).mean() / 2
    close(d.js, js, 1e-13)
    close(d.tv, np.abs(p - q).sum(axis=1).mean() / 2, 1e-13)


def test_small_blocks_give_the_same(rng, monkeypatch):
    a, b = model(rng, bias=True), model(rng, bias=True)
    whole = distances(a, b)
    monkeypatch.setattr(_model, "BLOCK", 40)
    monkeypatch.setattr(_model, "PIECE", 20)
    parts = distances(a, b)
    assert max(len(part) for part in Pair(a, b).over_blocks(lambda p, q: p + q)) * a.K <= 20
    close(numbers(parts), numbers(whole), 1e-12, 1 + np.abs(numbers(whole)))
    assert (parts.labels, parts.inputs) == (whole.labels, whole.inputs)


def test_a_vocabulary_is_never_a_table(rng, monkeypatch):
    monkeypatch.setattr(_model, "BLOCK", 2**14)
    n, K = 200, 5000
    a, b = model(rng, n, K, 8), model(rng, n, K, 8)
    whole = SoftmaxModel.log_prob

    def some(self, rows=None):
        return pytest.fail("the whole table") if rows is None else whole(self, rows)

    monkeypatch.setattr(SoftmaxModel, "log_prob", some)
    tracemalloc.start()
    d = distances(a, b)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < n * K * 8 * 0.9
    assert d.representation <= d.certificate
    assert d.kinds["llv"] == d.kinds["svd_f"] == "sampled"
    assert d.kinds["certificate"] == "bound"
    assert any("pivot" in note for note in d.notes)
    assert any("sample of the sets of 8 labels" in note for note in d.notes)
    assert len(d.labels) == K - 1
    again = distances(a, other_gauge(rng, a))
    assert max(again.llv, again.certificate, again.logit) < 1e-8


def test_a_sample_of_label_sets_starts_with_the_worst(rng):
    a = model(rng, 200, 36, 3)
    b = SoftmaxModel(a.f + 0.3 * rng.normal(size=a.f.shape), a.g)
    sampled = distances(a, b)
    # Of 34 labels there are 5,984 sets of three, more than are tried.
    odds = (
        m.log_prob()[:, sampled.labels[1:]] - m.log_prob()[:, sampled.labels[:1]] for m in (a, b)
    )
    z, w = ((x - x.mean(axis=0)) / x.std(axis=0) for x in odds)
    cross, sets = z.T @ w / 200, np.array(list(combinations(range(34), 3)))
    values = np.linalg.svd(cross[sets[:, :, None], sets[:, None]], compute_uv=False)
    exact = 1 - values.mean(axis=1).min()
    assert distances(model(rng, K=12), model(rng, K=12)).kinds["svd_f"] == "exact"
    assert sampled.kinds["svd_f"] == "sampled"
    assert 0.5 * exact <= sampled.svd_f <= exact + 1e-12
    close(sampled.certificate_f, np.sort(1 - np.diagonal(cross))[-3:].mean(), 1e-12)


def test_m_is_the_rank_of_the_log_odds(rng):
    wide = SoftmaxModel(rng.normal(size=(40, 9)), rng.normal(size=(4, 9)))
    d = distances(wide, wide)
    assert d.M == 3
    assert any("M is 3, the smaller rank" in note for note in d.notes)
    # Rounding to float32 fills the table's rank, and adds nothing to it.
    a, b = model(rng, 300, 9, 2), model(rng, 300, 9, 2)
    singles = [SoftmaxModel.from_log_prob(m.log_prob().astype(np.float32)) for m in (a, b)]
    assert distances(*singles).M == 2
    close(distances(*singles).llv, distances(a, b).llv, 1e-4)
    above = distances(a, b, M=4)
    assert any("but the ranks of the log-odds are 2 and 2" in note for note in above.notes)


def test_constant_log_odds_are_skipped(rng):
    a, b = model(rng, 60, 7, 2), model(rng, 60, 7, 2)
    b.g[[1, 2, 3]] = b.g[[0, 0, 0]]
    d = distances(a, b)
    # Labels 0 to 3 are one label to model b, so the pivot is none of them.
    assert d.labels[0] in (4, 5, 6)
    assert not any("skipped" in note for note in d.notes)
    b.g[4:6] = b.g[6]
    two = SoftmaxModel(b.f, b.g)
    d = distances(a, two, M=1)
    assert d.labels[0] in (4, 5, 6)
    assert set(d.left_out) > {4, 5, 6} - {d.labels[0]}
    assert any("2 labels have the same log-odds" in note for note in d.notes)
    assert np.isfinite(d.llv)
    with pytest.raises(InputError, match=r"label 1 against the pivot, label 0, .*ψ = 0"):
        distances(a, two, M=1, labels=[0, 4, 1])


def test_impossible_labels_count_in_the_divergences_only(rng):
    a, b = model(rng, 60, 6, 2), model(rng, 60, 6, 2)
    cut = b.log_prob().copy()
    cut[3, 4] = -np.inf
    cut[3] -= np.log(np.exp(cut[3]).sum())
    b = SoftmaxModel.from_log_prob(cut)
    d = distances(a, b)
    assert d.kl == np.inf
    p, q = np.exp(a.log_prob()), np.exp(cut)
    close(d.kl_reverse, (q * (np.where(q > 0, cut, 0) - a.log_prob())).sum(axis=1).mean(), 1e-12)
    assert 0 < d.js < np.log(2)
    close(d.tv, np.abs(p - q).sum(axis=1).mean() / 2, 1e-12)
    assert 4 not in (*d.labels, *d.left_out)
    assert len(d.labels) == 4
    assert any("1 labels are impossible" in note for note in d.notes)
    possible = [0, 1, 2, 3, 5]
    u, v = (t[:, possible] for t in (a.log_prob(), cut))
    gap = (u - u.mean(axis=1, keepdims=True)) - (v - v.mean(axis=1, keepdims=True))
    close(d.logit, np.sqrt(np.square(gap).sum(axis=1).mean()), 1e-12)
    close(distances(a, b, labels=[5, 0, 1]).terms[0], distances(a, b, labels=(5, 1, 0)).terms[0], 0)
    assert distances(a, b, labels=[5, 0, 1]).left_out == (2, 3)
    with pytest.raises(InputError, match="label 4 is impossible"):
        distances(a, b, labels=[0, 1, 4])


def test_candidates_leave_the_divergences(rng):
    chosen = np.array([rng.choice(9, 4, replace=False) for _ in range(30)])
    f, g = rng.normal(size=(30, 2)), rng.normal(size=(9, 2))
    a = SoftmaxModel(f, g, candidates=chosen)
    b = SoftmaxModel(f, 2 * g, candidates=chosen)
    d = distances(a, b)
    assert type(d) is Divergences
    p, q = a.log_prob(), b.log_prob()
    close(d.kl, (np.exp(p) * (p - q)).sum(axis=1).mean(), 1e-13)
    assert d.kinds == dict.fromkeys(("kl", "kl_reverse", "js", "tv"), "exact")
    for name in ("llv", "logit", "representation", "certificate", "labels"):
        with pytest.raises(InputError, match=f"'{name}' is not defined for models with candidates"):
            getattr(d, name)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        d.nonsense  # noqa: B018
    for other in (SoftmaxModel(f, g), SoftmaxModel(f, g, candidates=chosen[:, ::-1])):
        with pytest.raises(InputError, match="different candidates"):
            distances(a, other)


def test_impossible_and_underflowing_labels():
    inf, half = -np.inf, np.log(0.5)
    a = SoftmaxModel.from_log_prob([[half, half, inf], [np.log(0.25), np.log(0.75), inf]])
    b = SoftmaxModel.from_log_prob([[half, half, -800.0], [np.log(0.25), np.log(0.75), inf]])
    # exp(−800) is 0: impossible in one model and next to it in the other is no difference.
    for d in (distances(a, b), distances(b, a)):
        close([d.kl, d.kl_reverse, d.js, d.tv, d.llv], np.zeros(5), 1e-12)
    c = SoftmaxModel.from_log_prob([[inf, half, half], [inf, np.log(0.25), np.log(0.75)]])
    with pytest.raises(InputError, match="fewer than two labels are possible"):
        distances(a, c)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lam": -1.0}, "lam is -1.0"),
        ({"lam": np.nan}, "lam is nan"),
        ({"candidates": 0}, "candidates is 0"),
        ({"M": 0}, "M is 0; expected 1 or more"),
        ({"M": 7}, "M is 7; .* models 'left' and 'right' have 7 labels and 60 inputs"),
        ({"labels": [0, 1, 2]}, "labels names 3; expected a pivot and at least M = 3 more"),
        ({"labels": [0, 1, 2, 2]}, "labels must be different integers"),
        ({"labels": [0.0, 1.0, 2.0, 3.0]}, "labels must be different integers"),
        ({"labels": [0, 1, 2, 7]}, "labels must be from 0 to 6"),
        ({"inputs": [0, 1, 2]}, "inputs names 3; expected a pivot and M = 3 more"),
        ({"inputs": [-1, 0, 1, 2]}, "inputs must be from 0 to 59"),
    ],
)
def test_bad_options(rng, options, message):
    a, b = model(rng, name="left"), model(rng, name="right")
    with pytest.raises(InputError, match=message):
        distances(a, b, **options)


def test_bad_pairs(rng):
    a = model(rng, name="left")
    with pytest.raises(InputError, match=r"'left' has 60 inputs and model 'model' has 59"):
        distances(a, model(rng, n=59))
    with pytest.raises(InputError, match=r"'left' has 7 labels and model 'model' has 8"):
        distances(a, model(rng, K=8))
    constant = SoftmaxModel(np.full((60, 3), 0.1), rng.normal(size=(7, 3)))
    with pytest.raises(InputError, match="all ψ = 0"):
        distances(a, constant)
    # Seven labels that are really two in either model: no pivot has three log-odds.
    few = SoftmaxModel(rng.normal(size=(60, 3)), np.repeat(rng.normal(size=(2, 3)), [6, 1], axis=0))
    with pytest.raises(InputError, match="no 4 labels were found"):
        distances(few, SoftmaxModel(few.f, -few.g[::-1]), M=3)
    twins = np.repeat(rng.normal(size=(2, 3)), 2, axis=0)
    with pytest.raises(InputError, match="no 4 inputs were found"):
        distances(SoftmaxModel(twins, a.g), SoftmaxModel(twins, a.g), M=3)
    with pytest.raises(InputError, match=r"inputs \[0, 2, 3, 1\] .*ψ = 0"):
        distances(SoftmaxModel(twins, a.g), SoftmaxModel(twins, a.g), M=3, inputs=[0, 2, 3, 1])


def test_too_few_log_odds_of_the_only_pivot(rng):
    """Above 2,000 labels one pivot is tried; nearly all of these have its log-odds."""
    g = np.repeat(rng.normal(size=(2, 3)), [2000, 1], axis=0)
    few = SoftmaxModel(rng.normal(size=(60, 3)), g)
    with pytest.raises(InputError, match="no 4 labels were found"):
        distances(few, few, M=3)


def test_details_are_plain_python(rng):
    d = distances(model(rng), model(rng))
    assert isinstance(d, Distances)
    assert all(type(getattr(d, name)) is float for name in NUMBERS)
    assert all(type(i) is int for i in (*d.labels, *d.inputs, *d.left_out))
    assert all(type(t) is float for t in d.terms)
    assert set(d.kinds.values()) <= {"exact", "sampled", "bound"}


def test_probabilities_at_the_edge_of_underflow_give_no_warning():
    """p + q is the smallest number that there is, and half of it is 0."""
    least = np.log(5e-324)
    f = [[least], [-1.0]]
    apart = distances(SoftmaxModel(f, [[1.0], [0.0]]), SoftmaxModel(f, [[1.5], [0.0]]))
    assert np.isfinite([apart.kl, apart.js, apart.tv]).all()
