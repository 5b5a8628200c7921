"""Models of the softmax family, their diversity, their normal form and the map between two."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save_file
from scipy.stats import ortho_group

from conftest import close
from identikit.errors import InputError
from identikit.family import MEMBERS, SoftmaxModel, diversity, gauge, normal_form
from identikit.moments import accumulate
from identikit.similarity import cca


def softmax(logits):
    p = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return p / p.sum(axis=-1, keepdims=True)


def f1(rng, M=16, K=300, n=4000):
    """Fixture F1: a model, and the same one in another gauge (A, c)."""
    f = rng.normal(size=(n, M)) * np.logspace(0, -1.5, M) + 0.3
    g, A, c = rng.normal(size=(K, M)), rng.normal(size=(M, M)), 3 * rng.normal(size=M)
    return SoftmaxModel(f, g), SoftmaxModel(f @ A.T, g @ np.linalg.inv(A) + c), A, c


def two_blocks(rng, M=6, K=40, n=1500):
    """Fixture F11: two blocks of candidates that never mix, each with an (A, c) of its own.

    The two models, and of each block its inputs, its labels and its A.
    """
    f, g = rng.normal(size=(2 * n, M)), rng.normal(size=(2 * K, M))
    chosen = np.stack([rng.choice(K, 10, replace=False) for _ in range(2 * n)])
    chosen[n:] += K
    moved, labels, blocks = f.copy(), g.copy(), []
    for x, y in ((slice(n), slice(K)), (slice(n, None), slice(K, None))):
        A = rng.normal(size=(M, M))
        moved[x], labels[y] = f[x] @ A.T, g[y] @ np.linalg.inv(A) + rng.normal(size=M)
        blocks.append((x, y, A))
    a, b = (SoftmaxModel(*side, candidates=chosen) for side in ((f, g), (moved, labels)))
    return a, b, blocks


def canonical(x, y):
    return cca(accumulate([x, y], folds=1)).correlations


def apart(estimate, truth):
    """Relative error of a matrix."""
    return np.linalg.norm(estimate - truth) / np.linalg.norm(truth)


def turn(angle):
    return np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])


# The model.


def test_log_prob_is_the_softmax_and_blocks_are_its_parts(rng, monkeypatch):
    monkeypatch.setattr("identikit.family._model.BLOCK", 70)
    f, g, bias = rng.normal(size=(50, 3)), rng.normal(size=(9, 3)), rng.normal(size=9)
    model = SoftmaxModel(f, g, bias)
    assert len(list(model.slices())) > 5
    close(np.exp(model.log_prob()), softmax(f @ g.T + bias), 1e-14)


def test_large_logits_do_not_overflow():
    model = SoftmaxModel([[1e4, 0.0], [0.0, 1e4]], [[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]])
    assert np.isfinite(model.log_prob()).all()
    close(model.log_prob()[0, 1], -1e4, 1e-9)


def test_candidates_have_the_only_probabilities_there_are(rng):
    f, g, bias = rng.normal(size=(20, 3)), rng.normal(size=(9, 3)), rng.normal(size=9)
    chosen = np.stack([rng.choice(9, 4, replace=False) for _ in range(20)])
    model = SoftmaxModel(f, g, bias, candidates=chosen)
    expected = np.stack([softmax(f[i] @ g[s].T + bias[s]) for i, s in enumerate(chosen)])
    close(np.exp(model.log_prob()), expected, 1e-14)


def test_gauge_leaves_the_distribution_alone(rng):
    """Fixture F1, and F2 with random candidate sets."""
    a, b, _, _ = f1(rng)
    close(np.exp(a.log_prob()), np.exp(b.log_prob()), 1e-12)
    assert np.abs(a.logits() - b.logits()).max() > 1
    chosen = np.stack([rng.choice(300, 10, replace=False) for _ in range(a.n)])
    few = [SoftmaxModel(m.f, m.g, candidates=chosen) for m in (a, b)]
    close(np.exp(few[0].log_prob()), np.exp(few[1].log_prob()), 1e-12)


@given(st.integers(0, 10**6), st.integers(1, 5), st.integers(2, 9))
def test_any_gauge_leaves_any_distribution_alone(seed, M, K):
    rng = np.random.default_rng(seed)
    f, g = rng.normal(size=(12, M)), rng.normal(size=(K, M))
    A = np.linalg.qr(rng.normal(size=(M, M)))[0] * rng.uniform(0.5, 2, M)
    b = SoftmaxModel(f @ A.T, g @ np.linalg.inv(A) + rng.normal(size=M))
    close(SoftmaxModel(f, g).log_prob(), b.log_prob(), 1e-12)


def test_from_log_prob_factors_the_table(rng):
    a, _, _, _ = f1(rng, M=5, K=30, n=200)
    table = a.log_prob()
    model = SoftmaxModel.from_log_prob(table)
    assert (model.M, model.K, model.n) == (5, 30, 200)
    close(model.log_prob(), table, 0)
    close(softmax(model.logits()), np.exp(table), 1e-12)


def test_impossible_labels_keep_their_probability_and_have_no_embedding(rng):
    logits = rng.normal(size=(40, 2)) @ rng.normal(size=(2, 6))
    logits[:, 2] = -np.inf
    table = np.log(softmax(logits) + 0.0, out=np.full((40, 6), -np.inf), where=logits > -np.inf)
    model = SoftmaxModel.from_log_prob(table)
    assert list(model.impossible) == [2]
    assert model.M == 2
    assert np.isneginf(model.log_prob()[:, 2]).all()


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
def test_models_are_read_from_files(rng, tmp_path, suffix):
    f, g, bias = rng.normal(size=(8, 3)), rng.normal(size=(5, 3)), rng.normal(size=5)
    write = (
        (lambda p, **a: np.savez(p, **a)) if suffix == ".npz" else (lambda p, **a: save_file(a, p))
    )
    write(tmp_path / f"full{suffix}", f=f, g=g, bias=bias)
    full = SoftmaxModel.load(tmp_path / f"full{suffix}")
    close(full.log_prob(), SoftmaxModel(f, g, bias).log_prob(), 0)
    assert full.name == "full"
    write(tmp_path / f"table{suffix}", log_prob=full.log_prob())
    close(SoftmaxModel.load(tmp_path / f"table{suffix}").log_prob(), full.log_prob(), 0)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"g": np.ones((5, 2))}, "f has 3 columns and g has 2"),
        ({"g": np.ones((1, 3))}, "one label"),
        (
            {"f": np.ones((4, 0)), "g": np.ones((5, 0))},
            "expected real numbers, in rows and columns",
        ),
        ({"f": np.ones(3)}, "f has shape"),
        ({"f": np.array([["a", "b", "c"]])}, "expected real numbers"),
        (
            {"f": np.array([[1, np.nan, 2], [0, 0, 0]])},
            "NaN or infinity in 1 rows, the first is row 0",
        ),
        ({"bias": np.ones(4)}, "bias has shape"),
        ({"bias": np.array([0, 0, 0, 0, np.inf])}, "bias has NaN"),
        ({"candidates": np.ones((2, 3))}, "expected integers"),
        ({"candidates": np.array([[0, 9]] * 4)}, "labels from 0 to 4"),
        ({"candidates": np.array([[1, 1]] * 4)}, "contains a label twice"),
    ],
)
def test_models_that_make_no_sense_raise(change, words):
    parts = {"f": np.ones((4, 3)), "g": np.eye(5, 3)} | change
    with pytest.raises(InputError, match=words):
        SoftmaxModel(**parts)


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (np.log([[0.5, 0.5], [0.5, 0.4]]), "row 1 .* off from one by 0.1"),
        (np.zeros((3, 1)), "one label"),
        ([[0.0, np.nan]], "NaN or"),
        ([[0.0, -np.inf], [-np.inf, 0.0]], "fewer than two labels are possible"),
    ],
)
def test_tables_that_are_no_distributions_raise(table, words):
    with pytest.raises(InputError, match=words):
        SoftmaxModel.from_log_prob(table)


def test_files_that_hold_no_model_raise(tmp_path: Path):
    np.savez(tmp_path / "a.npz", f=np.ones((3, 2)))
    (tmp_path / "b.npz").write_bytes(b"nothing")
    for name, words in [
        ("a.npz", "holds no model"),
        ("b.npz", "is not a readable .npz archive"),
        ("c.npz", "no such file"),
        ("d.txt", "expected a .npz or .safetensors"),
    ]:
        with pytest.raises(InputError, match=words):
            SoftmaxModel.load(tmp_path / name)


# Diversity.


def test_a_generic_head_is_diverse(rng):
    a, _, _, _ = f1(rng)
    found = diversity(a)
    assert found.ok
    assert found.inputs_ok
    assert (found.rank, found.needed, found.inputs_rank) == (16, 16, 17)
    assert len(set(found.pivots)) == 17
    L = a.g[found.pivots[1:]] - a.g[found.pivots[0]]
    assert found.condition == pytest.approx(np.linalg.cond(L), rel=1e-9)
    assert "are identified" in found.reasons[0]


def test_chosen_tuples_are_better_conditioned_than_random_ones():
    """Fixture F17: cond(L) 400 to 930 raw; whitened 32 to 36 against 900 to 980."""
    rng = np.random.default_rng(0)
    Q = np.linalg.qr(rng.normal(size=(64, 64)))[0]
    g = rng.normal(size=(2000, 64)) * np.logspace(0, -2, 64) @ Q
    found = diversity(SoftmaxModel(rng.normal(size=(500, 64)), g))
    assert 400 < found.condition < 930
    assert 28 < found.condition_whitened < 40
    assert 850 < found.condition_random < 1050


def test_too_few_labels_leave_dimensions_free(rng):
    found = diversity(SoftmaxModel(rng.normal(size=(100, 16)), rng.normal(size=(6, 16))))
    assert not found.ok
    assert found.rank == 5
    assert found.condition is None
    assert "K = 6 labels leave 11 of 16 dimensions of f free" in found.reasons[0]


def test_labels_in_a_subspace_and_inputs_in_a_subspace_are_told(rng):
    flat = rng.normal(size=(30, 3)) @ rng.normal(size=(3, 5))
    found = diversity(SoftmaxModel(rng.normal(size=(100, 5)), flat))
    assert (found.ok, found.rank) == (False, 3)
    assert "span 3 of 5" in found.reasons[0]
    found = diversity(
        SoftmaxModel(rng.normal(size=(100, 2)) @ rng.normal(size=(2, 5)), rng.normal(size=(30, 5)))
    )
    assert found.ok
    assert not found.inputs_ok
    assert found.complexity[1e-6] == 2


def test_blocks_of_candidates_that_never_meet_are_counted(rng):
    """Fixture F11: two blocks, a map each."""
    block = np.stack([rng.choice(40, 5, replace=False) for _ in range(200)])
    model = SoftmaxModel(
        rng.normal(size=(400, 6)), rng.normal(size=(80, 6)), candidates=np.r_[block, 40 + block]
    )
    found = diversity(model)
    assert (found.ok, found.components) == (False, 2)
    assert any("2 blocks" in reason for reason in found.reasons)
    joined = np.r_[block, 40 + block]
    joined[0] = [0, 1, 2, 3, 79]
    assert diversity(SoftmaxModel(model.f, model.g, candidates=joined)).components == 1


def test_blocks_that_never_meet_have_a_map_each(rng):
    """Fixture F11: p equal, CCA of all f below .8, and 1 in each block."""
    a, b, blocks = two_blocks(rng)
    close(np.exp(a.log_prob()), np.exp(b.log_prob()), 1e-12)
    assert [diversity(model).components for model in (a, b)] == [2, 2]
    assert canonical(a.f, b.f).mean() < 0.8
    assert gauge(a, b).kappa > 0.5
    for x, y, A in blocks:
        close(canonical(a.f[x], b.f[x]), np.ones(6), 1e-9)
        found = gauge(SoftmaxModel(a.f[x], a.g[y]), SoftmaxModel(b.f[x], b.g[y]))
        assert max(apart(found.A_from_f, A), apart(found.A_from_g, A)) < 1e-11


def test_two_candidates_a_set_are_enough(rng):
    """CPC: the differences of all sets count, not those of one."""
    drawn = np.stack([rng.choice(40, 2, replace=False) for _ in range(2000)])
    found = diversity(
        SoftmaxModel(rng.normal(size=(2000, 6)), rng.normal(size=(40, 6)), candidates=drawn)
    )
    assert (found.ok, found.components, found.rank) == (True, 1, 6)


# The gauge.


def test_the_map_is_found_from_f_and_from_g_alone(rng):
    """Fixture F3: to 1e-12, from regression on f, from all classes and from tuples."""
    a, b, A, c = f1(rng)
    found = gauge(a, b)
    for estimate in (found.A_from_f, found.A_from_g, found.A_from_tuples):
        assert apart(estimate, A) < 1e-12
    close(found.constant, c, 1e-10)
    assert found.kappa < 1e-11
    assert found.logit_gap < 1e-13
    assert (found.identified, found.free) == (16, (0, 0))
    assert found.error < 1e-6


def test_a_transpose_and_a_constant_matter(rng):
    """Fixtures F4 and F5: A = L'⁻ᵀLᵀ is no L L'⁻¹, and g' = A⁻ᵀg + c no linear map of g."""
    a, b, A, _ = f1(rng)
    pivots = diversity(a).pivots
    L, L2 = ((m.g[pivots[1:]] - m.g[pivots[0]]).T for m in (a, b))
    assert apart(np.linalg.inv(L2).T @ L.T, A) < 1e-12
    assert apart(L @ np.linalg.inv(L2), A) > 1
    found = gauge(a, b)
    assert apart(a.g @ np.linalg.inv(found.A_from_g) + found.constant, b.g) < 1e-12
    assert apart(a.g @ np.linalg.lstsq(a.g, b.g, rcond=None)[0], b.g) > 0.1


def test_all_labels_bear_noise_better_than_tuples():
    """Fixture F17: errors of A at noise 1e-4, from f 1.1e-5, all labels 4e-4, tuples 4e-3."""
    rng = np.random.default_rng(0)
    turns = [ortho_group.rvs(64, random_state=rng) for _ in range(3)]
    g = rng.normal(size=(2000, 64)) * np.logspace(0, -2, 64) @ turns[0]
    f, A = rng.normal(size=(5000, 64)), turns[1] * np.logspace(0.5, -0.5, 64) @ turns[2]
    f2, g2 = (
        side + 1e-4 * side.std() * rng.normal(size=side.shape)
        for side in (f @ A.T, g @ np.linalg.inv(A))
    )
    found = gauge(SoftmaxModel(f, g), SoftmaxModel(f2, g2))
    assert 1.0e-5 < apart(found.A_from_f, A) < 1.2e-5
    assert 0.0004 < apart(found.A_from_g, A) < 0.0005
    assert 0.0039 < apart(found.A_from_tuples, A) < 0.0048
    drawn = [rng.choice(2000, 65, replace=False) for _ in range(100)]
    errors = [apart(np.linalg.solve(g2[t[1:]] - g2[t[0]], g[t[1:]] - g[t[0]]), A) for t in drawn]
    assert 0.030 < np.median(errors) < 0.054


def test_counter_rotation_is_two_maps_and_another_distribution():
    """Fixture F10: CCA of f and of g is 1, and yet kappa is √2 and the distributions disagree."""
    rng = np.random.default_rng(0)
    angles = np.pi * np.array([0, 1 / 2, 1, 5 / 4, 7 / 4])
    g = 8 * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    f = np.repeat(5 / 8 * g, 100, axis=0) + 0.5 * rng.normal(size=(500, 2))
    a = SoftmaxModel(f, g)
    b = SoftmaxModel(f @ turn(np.pi / 4).T, g @ turn(-np.pi / 4).T)
    for left, right in ((a.f, b.f), (a.g, b.g)):
        close(cca(accumulate([left, right], folds=1)).correlations, np.ones(2), 1e-9)
    found = gauge(a, b)
    close(found.kappa_raw, np.sqrt(2), 1e-9)
    assert found.kappa > 1.3
    assert found.logit_gap > 1
    distance = 0.5 * np.abs(np.exp(a.log_prob()) - np.exp(b.log_prob())).sum(axis=1).mean()
    assert distance > 0.99


@pytest.mark.parametrize(
    ("eps", "kappa", "gap", "kl", "least", "most"),
    [
        (0.01, 0.007, 0.008, 1.6e-4, 0.99998, 0.999999),
        (0.1, 0.072, 0.080, 0.017, 0.9992, 0.9996),
        (0.3, 0.22, 0.25, 0.16, 0.991, 0.996),
        (1.0, 0.76, 0.84, 1.36, 0.84, 0.95),
    ],
)
def test_kappa_and_the_gap_see_what_cca_does_not(eps, kappa, gap, kl, least, most):
    """Fixture F14: kappa ±10 %, the gap ±12 %, KL ±25 % and a range for CCA, over a few draws."""
    seen = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        f, g = rng.normal(size=(3000, 6)), rng.normal(size=(200, 6))
        R, A = rng.normal(size=(6, 6)), rng.normal(size=(6, 6))
        bent = (f + eps * np.tanh(f @ R.T)) @ A.T
        a, b = SoftmaxModel(f, g), SoftmaxModel(bent, g @ np.linalg.inv(A))
        found = gauge(a, b)
        divergence = np.einsum("ij,ij->i", np.exp(a.log_prob()), a.log_prob() - b.log_prob())
        seen.append([found.kappa, found.logit_gap, divergence.mean(), canonical(f, bent).mean()])
    middle = np.median(seen, axis=0)
    assert middle[0] == pytest.approx(kappa, rel=0.1)
    assert middle[1] == pytest.approx(gap, rel=0.12)
    assert middle[2] == pytest.approx(kl, rel=0.25)
    assert least < middle[3] < most


def test_what_labels_leave_free_is_projected_away(rng):
    """Fixture F7: K = 6 labels, non-linear junk on the complement, p equal."""
    f, g, A = rng.normal(size=(6000, 16)), rng.normal(size=(6, 16)), rng.normal(size=(16, 16))
    _, _, Vt = np.linalg.svd(g - g.mean(axis=0))
    seen, free = Vt[:5].T, Vt[5:].T
    junk = f @ seen @ seen.T + np.tanh(f @ rng.normal(size=(16, 11))) @ free.T
    a, b = SoftmaxModel(f, g), SoftmaxModel(junk @ A.T, g @ np.linalg.inv(A))
    close(np.exp(a.log_prob()), np.exp(b.log_prob()), 1e-12)
    raw = canonical(a.f, b.f)
    assert np.count_nonzero(raw > 0.999) == 5
    assert 0.72 < raw.mean() < 0.84
    close(canonical(normal_form(a).f, normal_form(b).f), np.ones(5), 1e-6)
    found = gauge(a, b)
    assert (found.identified, found.free) == (5, (11, 11))
    assert found.kappa < 1e-9
    assert found.logit_gap < 1e-6
    assert any("11 are free" in note for note in found.notes)


def test_a_bias_makes_it_affine(rng):
    """Fixture F6: f' = Af + a, w' = A⁻ᵀw + c, b' = b − aᵀA⁻ᵀw + const."""
    f, w, bias = rng.normal(size=(3000, 8)), rng.normal(size=(60, 8)), rng.normal(size=60)
    A, shift, c = rng.normal(size=(8, 8)), rng.normal(size=8), rng.normal(size=8)
    back = w @ np.linalg.inv(A)
    a = SoftmaxModel(f, w, bias)
    b = SoftmaxModel(f @ A.T + shift, back + c, bias - back @ shift + 1.7)
    close(np.exp(a.log_prob()), np.exp(b.log_prob()), 1e-11)
    found = gauge(a, b)
    close(found.A_from_f, A, 1e-10)
    close(found.A_from_g, A, 1e-10)
    close(found.shift, shift, 1e-10)
    assert found.kappa < 1e-10
    assert found.logit_gap < 1e-6


def test_equal_models_have_one_normal_form_at_unequal_widths(rng):
    """Fixture F8: M = 12 and M' = 7, complexity 4."""
    inner, wide = rng.normal(size=(5000, 4)), rng.normal(size=(4, 12))
    g = rng.normal(size=(400, 12))
    narrow = rng.normal(size=(4, 7))
    back = np.linalg.lstsq(narrow, (g @ wide.T).T, rcond=None)[0].T
    a, b = SoftmaxModel(inner @ wide, g), SoftmaxModel(inner @ narrow, back)
    close(np.exp(a.log_prob()), np.exp(b.log_prob()), 1e-12)
    first, second = normal_form(a), normal_form(b)
    assert first.rank == second.rank == 4
    close(first.singular_values[:4] / second.singular_values[:4], np.ones(4), 1e-9)
    close(first.f, second.f, 1e-8)
    close(first.g, second.g, 1e-8)
    logits = a.logits()
    close(first.f @ first.g.T, logits - logits.mean(axis=1, keepdims=True), 1e-8)
    found = gauge(a, b)
    assert (found.identified, found.free) == (4, (8, 3))
    assert found.kappa < 1e-9


def layer_norm(rng, M=8, n=3000):
    """Fixture F9: γ ⊙ u + β with 1ᵀu = 0 and ‖u‖² = M; and γ⁻¹, along which f is constant."""
    u = rng.normal(size=(n, M)) * np.linspace(0.5, 3, M)
    u -= u.mean(axis=1, keepdims=True)
    u /= np.sqrt(np.square(u).mean(axis=1, keepdims=True))
    gain = rng.uniform(0.5, 2, M)
    return u * gain + rng.normal(size=M), 1 / gain


def test_a_layer_norm_costs_nothing_without_a_bias(rng):
    """Fixture F9: the centred f has rank 7 of 8, the uncentred one 8, and only that counts."""
    f, null = layer_norm(rng)
    close((f - f.mean(axis=0)) @ null, np.zeros(len(f)), 1e-13)
    g, A = rng.normal(size=(60, 8)), rng.normal(size=(8, 8))
    a, b = SoftmaxModel(f, g), SoftmaxModel(f @ A.T, g @ np.linalg.inv(A) + 1)
    assert diversity(a).ok
    assert diversity(a).inputs_ok
    found = gauge(a, b)
    assert (found.identified, found.free) == (8, (0, 0))
    assert max(apart(found.A_from_f, A), apart(found.A_from_g, A)) < 1e-11
    assert found.kappa < 1e-11


@pytest.mark.parametrize("kind", ["f4", "f8"])
def test_a_layer_norm_under_a_bias_leaves_a_direction_open(rng, kind):
    """BERT's head. Along γ⁻¹, where f is constant, g and the bias make up for each other."""
    f, null = layer_norm(rng)
    g, bias, A = rng.normal(size=(60, 8)), rng.normal(size=60), rng.normal(size=(8, 8))
    shift, extra = rng.normal(size=8), rng.normal(size=60)
    back = (g + np.outer(extra, null)) @ np.linalg.inv(A)
    a = SoftmaxModel(f.astype(kind), g.astype(kind), bias)
    b = SoftmaxModel(
        (f @ A.T + shift).astype(kind),
        back.astype(kind),
        bias - extra * (f[0] @ null) - back @ shift,
    )
    tolerance = 1e-4 if kind == "f4" else 1e-10
    close(np.exp(a.log_prob()), np.exp(b.log_prob()), tolerance)
    found = gauge(a, b)
    assert found.logit_gap < tolerance
    assert found.error < tolerance
    assert found.kappa < tolerance


# Members: what their ties leave of the gauge.


@pytest.mark.parametrize(("name", "scale"), [("n-pair", ()), ("simclr", (0.1,)), ("clip", (2.3,))])
def test_ties_leave_rotations(rng, name, scale):
    head, Q = MEMBERS[name].head, ortho_group.rvs(6, random_state=rng)
    x = rng.normal(size=(500, 6))
    y = x if name == "n-pair" else rng.normal(size=(60, 6))
    found = gauge(*(SoftmaxModel(*head(x @ T.T, y @ T.T, *scale)) for T in (np.eye(6), Q)))
    close(found.A_from_f, Q, 1e-12)
    close(found.A_from_g, Q, 1e-12)
    close(found.constant, np.zeros(6), 1e-12)
    assert found.kappa < 1e-12


def test_n_pair_by_any_other_map_is_two_maps(rng):
    """f' = Af is g' = Ag, which is A⁻ᵀg only if AᵀA = I: kappa is ‖AᵀA − I‖/√M."""
    x, A = rng.normal(size=(500, 6)), rng.normal(size=(6, 6))
    a, b = (SoftmaxModel(*MEMBERS["n-pair"].head(x @ T.T, x @ T.T)) for T in (np.eye(6), A))
    expected = np.linalg.norm(A.T @ A - np.eye(6)) / np.sqrt(6)
    assert gauge(a, b).kappa_raw == pytest.approx(expected, rel=1e-9)


def test_a_temperature_is_absorbed_unless_norms_are_fixed(rng):
    x, y = rng.normal(size=(500, 6)), rng.normal(size=(60, 6))
    found = gauge(SoftmaxModel(x, y), SoftmaxModel(x / 0.1, 0.1 * y))
    close(found.A_from_g, 10 * np.eye(6), 1e-12)
    assert found.kappa < 1e-12
    # On spheres of radius τ^(−1/2) both sides grow: all logits, and kappa, by τ/τ' − 1.
    found = gauge(*(SoftmaxModel(*MEMBERS["simclr"].head(x, y, t)) for t in (0.1, 0.25)))
    close([found.kappa, found.kappa_raw, found.logit_gap], np.full(3, 0.6), 1e-12)


def test_prototypes_leave_rigid_motions(rng):
    """2f' = Q·2f + 2a, and g' = Qg + a: the constant of g is tied to the shift of f."""
    x, y = rng.normal(size=(500, 6)), rng.normal(size=(60, 6))
    Q, shift = ortho_group.rvs(6, random_state=rng), rng.normal(size=6)
    head = MEMBERS["prototypical"].head
    found = gauge(SoftmaxModel(*head(x, y)), SoftmaxModel(*head(x @ Q.T + shift, y @ Q.T + shift)))
    close(found.A_from_f, Q, 1e-12)
    close(found.A_from_g, Q, 1e-12)
    close(found.shift, 2 * shift, 1e-11)
    close(found.constant, shift, 1e-11)
    assert found.kappa < 1e-12


# What cannot be compared.


def test_models_over_other_inputs_or_labels_are_not_compared(rng):
    a = SoftmaxModel(rng.normal(size=(10, 2)), rng.normal(size=(5, 2)))
    with pytest.raises(InputError, match="10 inputs and model 'model' has 9"):
        gauge(a, SoftmaxModel(a.f[:9], a.g))
    with pytest.raises(InputError, match="5 labels and model 'model' has 4"):
        gauge(a, SoftmaxModel(a.f, a.g[:4]))


def test_a_model_that_says_nothing_has_no_map(rng):
    a = SoftmaxModel(rng.normal(size=(20, 2)), rng.normal(size=(5, 2)))
    for flat in (SoftmaxModel(a.f, np.ones((5, 2))), SoftmaxModel(np.zeros((20, 2)), a.g)):
        with pytest.raises(InputError, match="identifies nothing"):
            gauge(a, flat)


def test_unequal_complexity_is_told(rng):
    a = SoftmaxModel(rng.normal(size=(100, 3)), rng.normal(size=(9, 3)))
    b = SoftmaxModel(rng.normal(size=(100, 3)), rng.normal(size=(9, 1)) @ rng.normal(size=(1, 3)))
    found = gauge(a, b)
    assert found.identified == 1
    assert found.A_from_tuples is None
    assert any("identify 3 and 1 dimensions, so they differ" in note for note in found.notes)
