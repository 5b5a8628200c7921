"""Worlds: what they draw has the law they say, mixings invert, promises follow from conditions."""

from __future__ import annotations

import warnings
from dataclasses import FrozenInstanceError
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import ive

import identikit as ik
from identikit import worlds
from identikit.errors import InputError
from identikit.worlds import _sphere as sphere

SEED = 20


def mixings(d: int, seed: int):
    return [
        worlds.Moebius(d, seed),
        worlds.Orthogonal(d, seed),
        worlds.Linear(np.random.default_rng(seed).normal(size=(d + 2, d))),
        worlds.LeakyReLU(d, layers=3, seed=seed, draws=50),
        worlds.Chain(worlds.Moebius(d, seed), worlds.Linear.with_contrast(d, 1.0, seed)),
    ]


# Mixings


@settings(max_examples=20, deadline=None)
@given(d=st.integers(2, 6), seed=st.integers(0, 10**6))
def test_mixings_are_undone_by_their_inverse_and_their_jacobian_is_the_derivative(d, seed):
    z = np.random.default_rng(seed).uniform(-0.5, 0.5, size=(7, d))
    for mixing in mixings(d, seed):
        x = mixing.forward(z)
        assert x.shape == (7, mixing.D)
        np.testing.assert_allclose(mixing.inverse(x), z, atol=1e-8)
        step = 1e-6
        columns = [
            (mixing.forward(z + step * axis) - mixing.forward(z - step * axis)) / (2 * step)
            for axis in np.eye(d)
        ]
        # A kink of the LeakyReLU within a step is as good as impossible, and would be loud.
        found = mixing.jacobian(z)
        np.testing.assert_allclose(
            found, np.stack(columns, axis=2), atol=1e-4 * np.abs(found).max()
        )


def test_a_moebius_jacobian_has_the_closed_form_and_no_contrast():
    mixing = worlds.Moebius(4, seed=3)
    z = np.random.default_rng(0).uniform(-0.5, 0.5, size=(5, 4))
    for row, jacobian in zip(z, mixing.jacobian(z)):
        r = np.linalg.norm(row - mixing.pole)
        u = (row - mixing.pole) / r
        expected = mixing.rotation @ (np.eye(4) - 2 * np.outer(u, u)) / r**2
        np.testing.assert_allclose(jacobian, expected, atol=1e-12)
    np.testing.assert_allclose(ik.ima_contrast(mixing.jacobian(z)), 0, atol=1e-12)
    assert (np.abs(mixing.pole) > 0.5).all()


@pytest.mark.parametrize("contrast", [0.0, 0.3, 2.7, 6.0])
@pytest.mark.parametrize("d", [2, 3, 6])
def test_a_linear_mixing_has_the_contrast_that_was_asked_for(contrast, d):
    mixing = worlds.Linear.with_contrast(d, contrast, seed=1)
    norms = np.linalg.norm(mixing.matrix, axis=0)
    _, log_det = np.linalg.slogdet(mixing.matrix)
    assert np.log(norms).sum() - log_det == pytest.approx(contrast, abs=1e-9)
    assert abs(log_det) < 1e-9


def test_a_linear_map_after_a_moebius_one_has_contrast():
    z = np.random.default_rng(0).uniform(-0.5, 0.5, size=(100, 3))
    chain = worlds.Chain(worlds.Moebius(3), worlds.Linear.with_contrast(3, 2.0))
    contrasts = ik.ima_contrast(chain.jacobian(z))
    assert (contrasts > 0).all()


def test_leaky_layers_are_the_best_of_their_draws():
    many, few = (worlds.LeakyReLU(5, seed=0, draws=draws) for draws in (500, 1))
    worst = [max(map(np.linalg.cond, mixing.weights)) for mixing in (many, few)]
    assert worst[0] < worst[1]
    assert worst[0] < 3
    np.testing.assert_allclose(np.linalg.norm(many.weights[0], axis=0), 1)


# Draws on the sphere


@pytest.mark.parametrize(
    ("d", "kappa"), [(2, 3.0), (3, 5.0), (5, 10.0), (5, 50.0), (10, 0.1), (20, 10.0)]
)
def test_von_mises_fisher_has_its_mean_and_its_second_moment(d, kappa):
    """E t = A(κ) = I_{d/2}(κ)/I_{d/2−1}(κ), E t² = 1 − (d − 1) A/κ, for t = ⟨v, z⟩."""
    rng = np.random.default_rng(SEED)
    v = sphere.uniform(1, d, rng)
    z = sphere.von_mises_fisher(np.repeat(v, 50_000, axis=0), kappa, rng)
    np.testing.assert_allclose(np.linalg.norm(z, axis=1), 1)
    mean = ive(d / 2, kappa) / ive(d / 2 - 1, kappa)
    t = z @ v[0]
    for power, expected in ((t, mean), (t**2, 1 - (d - 1) * mean / kappa)):
        assert abs(power.mean() - expected) < 4.5 * power.std() / len(t) ** 0.5
    # Around v every direction is as likely.
    across = z - t[:, None] * v
    assert np.linalg.norm(across.mean(axis=0)) < 5 / len(t) ** 0.5


@pytest.mark.parametrize("concentrations", [(25.0, 1.0), (4.0, 4.0), (300.0, 0.5)])
def test_partners_on_a_circle_have_the_exact_density(concentrations):
    lam, angle, n = np.array(concentrations), 0.7, 200_000
    z = np.array([[np.cos(angle), np.sin(angle)]])
    found = sphere.near(np.repeat(z, n, axis=0), lam, np.random.default_rng(SEED))

    def density(a):
        return np.exp(-0.5 * (lam @ (np.array([np.cos(a), np.sin(a)]) - z[0]) ** 2))

    edges = np.linspace(-np.pi, np.pi, 33)
    counts = np.histogram(np.arctan2(found[:, 1], found[:, 0]), edges)[0]
    expected = np.array([quad(density, *ends)[0] for ends in pairwise(edges)])
    expected *= n / expected.sum()
    big = expected > 5
    chi = ((counts - expected)[big] ** 2 / expected[big]).sum()
    assert chi < big.sum() + 5 * (2 * big.sum()) ** 0.5
    assert counts[~big].sum() < 3 * expected[~big].sum() + 20


def test_partners_in_three_dimensions_have_the_exact_moments():
    """Against a sum over a grid of the sphere."""
    lam, n = np.array([25.0, 9.0, 2.0]), 100_000
    z = sphere.project(np.array([[1.0, -0.5, 0.8]]))
    found = sphere.near(np.repeat(z, n, axis=0), lam, np.random.default_rng(SEED))
    height, turn = np.meshgrid(
        np.linspace(-1, 1, 1001)[:-1] + 0.001, np.linspace(0, 2 * np.pi, 1000)
    )
    flat = np.sqrt(1 - height**2)
    grid = np.stack([flat * np.cos(turn), flat * np.sin(turn), height], axis=-1).reshape(-1, 3)
    weights = np.exp(-0.5 * ((grid - z) ** 2 @ lam))
    weights /= weights.sum()
    for values, truth in ((found, weights @ grid), (found**2, weights @ grid**2)):
        error = values.std(axis=0) / n**0.5
        assert (np.abs(values.mean(axis=0) - truth) < 5 * error + 1e-5).all()


@settings(max_examples=30, deadline=None)
@given(d=st.integers(1, 60), s=st.floats(-30, 30))
def test_the_integral_over_radii_is_that_of_quadrature(d, s):
    mode = (s + np.sqrt(s * s + 4 * (d - 1))) / 2 if d > 1 else max(s, 0.0)
    top = (d - 1) * np.log(mode) if d > 1 else 0.0

    def integrand(t):
        power = (d - 1) * np.log(t) if d > 1 else 0.0
        return np.exp(power - top - (t - s) ** 2 / 2 + (mode - s) ** 2 / 2)

    parts = [mode / 2, mode] if mode > 0 else []
    edges = [1e-300, *parts, mode + 2, mode + 40]
    total = sum(quad(integrand, *ends, epsabs=0, epsrel=1e-11)[0] for ends in pairwise(edges))
    expected = np.log(total) + top - (mode - s) ** 2 / 2
    assert sphere._log_integral(np.array([s]), d)[0] == pytest.approx(expected, abs=1e-7)


def test_the_largest_acceptance_is_never_exceeded():
    rng = np.random.default_rng(SEED)
    for d, a in ((2, 0.7), (3, 40.0), (10, 12.0), (30, 500.0)):
        most = sphere._largest(a, d)
        smaller = rng.uniform(0.05, 1, size=4000) * a
        b = rng.normal(size=4000) * (a + d) + a
        assert (sphere._log_density(smaller, b, d) <= most + 1e-9).all()


def test_the_approximate_sampler_accepts_norms_near_one_and_is_not_exact():
    lam, n = np.array([25.0, 0.2]), 200_000
    z = np.repeat([[np.cos(0.7), np.sin(0.7)]], n, axis=0)
    rng = np.random.default_rng(SEED)
    found = sphere.near_by_projection(z, lam, rng)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1)
    counts = [
        np.histogram(np.arctan2(each[:, 1], each[:, 0]), 24, (-np.pi, np.pi))[0]
        for each in (found, sphere.near(z, lam, rng), sphere.near(z, lam, rng))
    ]

    def apart(first, second):
        total = first + second
        return ((first - second)[total > 9] ** 2 / total[total > 9]).sum()

    # Two exact draws differ by chance; the approximate one is near, and not the same.
    assert apart(*counts[1:]) < 24 + 5 * 48**0.5 < 3 * apart(*counts[:2])
    assert np.abs(counts[0] - counts[1]).sum() < 0.1 * n


def test_very_different_concentrations_are_refused_rather_than_drawn_for_ever():
    with pytest.raises(InputError, match="differ by too much for an exact draw"):
        worlds.AnisotropicPairs([1e12] + [1e-3] * 3).sample(40_000, 0)


# Clusters


def test_clusters_have_their_classes_and_instances():
    world = worlds.SphereClusters(4, classes=7, kappa=20.0, instances=70, seed=1)
    sample = world.sample(5000, seed=2)
    np.testing.assert_array_equal(sample.labels, sample.instances % 7)
    assert set(sample.instances) == set(range(70))
    cosines = (sample.latents * world.vectors[sample.labels]).sum(axis=1)
    assert cosines.mean() == pytest.approx(ive(2, 20.0) / ive(1, 20.0), abs=0.01)
    assert worlds.SphereClusters(4, 7, 20.0).sample(10, 0).instances is None


@pytest.mark.parametrize("law", ["laplace", "normal", "truncated"])
def test_violating_laws_are_on_the_sphere_and_promise_nothing(law):
    world = worlds.SphereClusters(5, 30, 10.0, law=law)
    z = world.sample(2000, 0).latents
    np.testing.assert_allclose(np.linalg.norm(z, axis=1), 1)
    assert [promise.rung for promise in world.identified] == [None] * 5
    assert world.check().failed == ("law",)


def test_truncated_noise_is_laplace_noise_within_one_scale():
    world = worlds.SphereClusters(3, 10, 1.0, law="truncated", scale=0.01)
    sample = world.sample(20_000, 0)
    # With so small a scale, what the projection leaves is the noise across the class vector.
    off = sample.latents - world.vectors[sample.labels]
    assert np.abs(off).max() < 0.01 * 3**0.5
    cut = (2 - 5 * np.exp(-1)) / (1 - np.exp(-1))  # E t² of an exponential law cut at 1
    assert (off**2).sum(axis=1).mean() == pytest.approx(2 * cut * 1e-4, rel=0.03)


@pytest.mark.parametrize("centres", ["laplace", "normal"])
def test_class_vectors_may_crowd_around_the_first_axis(centres):
    crowded = worlds.SphereClusters(5, 2000, 10.0, centres=centres).vectors
    np.testing.assert_allclose(np.linalg.norm(crowded, axis=1), 1)
    assert crowded[:, 0].mean() > 0.2
    assert abs(worlds.SphereClusters(5, 2000, 10.0).vectors[:, 0].mean()) < 0.05


def test_label_noise_replaces_that_share_of_labels():
    clean, noisy = (worlds.SphereClusters(3, 50, 10.0, label_noise=share) for share in (0.0, 0.4))
    labels = [world.sample(20_000, 5).labels for world in (clean, noisy)]
    assert np.mean(labels[0] != labels[1]) == pytest.approx(0.4 * 49 / 50, abs=0.015)
    assert noisy.check().failed == ("labels",)
    instances = worlds.SphereClusters(3, 50, 10.0, label_noise=0.4, instances=500).sample(20_000, 5)
    wrong = instances.labels != instances.instances % 50
    assert wrong.mean() == pytest.approx(0.4 * 49 / 50, abs=0.015)


def test_promises_follow_from_the_class_vectors():
    rungs = {p.learner: p.rung for p in worlds.SphereClusters(5, 30, 10.0).identified}
    assert rungs == {
        "supervised": "linear", "C4": "linear", "C3": "similarity", "C2": "rigid", "C1": "rigid",
    }  # fmt: skip
    # Below the quadric bound of 20 classes unit weights identify no more than free ones.
    few = {p.learner: p for p in worlds.SphereClusters(5, 19, 10.0).identified}
    assert few["C3"].rung == "linear"
    assert "quadric" in few["C3"].why
    with pytest.warns(UserWarning, match="span 4 of 5 dimensions"):
        world = worlds.SphereClusters(5, 5, 10.0)
    assert {p.rung for p in world.identified} == {None}
    assert world.check()["diversity"].value == 4
    assert world.check().failed == ("diversity",)


def test_a_world_is_frozen_and_a_sample_depends_on_its_seed_alone():
    world = worlds.SphereClusters(3, 10, 10.0, mixing=worlds.LeakyReLU(3, draws=20))
    with pytest.raises(FrozenInstanceError):
        world.kappa = 3.0
    one, same, other = (world.sample(20, seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.observations, same.observations)
    assert not np.array_equal(one.observations, other.observations)
    rng = np.random.default_rng(1)
    np.testing.assert_array_equal(world.sample(20, rng).latents, one.latents)
    assert not np.array_equal(world.sample(20, rng).latents, one.latents)
    np.testing.assert_array_equal(world.mixing.forward(one.latents), one.observations)


def test_samples_become_tensors():
    torch = pytest.importorskip("torch")
    sample = worlds.SphereClusters(3, 10, 10.0).sample(20, 0)
    tensors = sample.torch()
    assert tensors.latents.dtype == torch.float32
    assert tensors.labels.dtype == torch.int64
    assert tensors.positives is None
    np.testing.assert_allclose(tensors.latents.numpy(), sample.latents, atol=1e-6)


# Pairs


def test_pairs_show_latents_and_partners_through_one_mixing():
    mixing = worlds.LeakyReLU(4, draws=20)
    world = worlds.AnisotropicPairs([25, 25, 3, 3], mixing, negatives=[5, 5, 1, 1])
    pairs = world.sample(1000, 0)
    np.testing.assert_array_equal(mixing.forward(pairs.positive_latents), pairs.positives)
    np.testing.assert_allclose(np.linalg.norm(mixing.inverse(pairs.negatives), axis=1), 1)
    np.testing.assert_allclose(world.effective, [20, 20, 2, 2])
    assert world.sample(5, 0).labels is None


def test_promises_of_pairs_are_blocks_of_equal_concentration():
    def rungs(*args, **kwargs):
        return [p.rung for p in worlds.AnisotropicPairs(*args, **kwargs).identified]

    assert rungs([25, 9, 3]) == ["permutation", None]
    assert rungs([25, 25, 3]) == ["rigid", None]
    assert rungs([5, 5, 5]) == ["rigid", "rigid"]
    assert rungs([25, 9, 3], negatives=[25, 1, 1]) == [None, None]
    world = worlds.AnisotropicPairs([25, 9, 3], negatives=[26, 1, 1], sampler="approximate")
    assert world.check().failed == ("concentrations", "sampler")
    assert worlds.AnisotropicPairs([25, 9, 3]).check()


# Sources


def test_sources_have_their_laws():
    mixing = worlds.Orthogonal(3)
    uniform = worlds.Sources("uniform", mixing).sample(50_000, 0).latents
    assert np.abs(uniform).max() <= 0.5
    np.testing.assert_allclose(uniform.var(axis=0), 1 / 12, rtol=0.03)
    shapes = [(2.0, 5.0), (3.0, 3.0), (9.0, 2.0)]
    beta = worlds.Sources("beta", mixing, shapes=shapes).sample(50_000, 0).latents
    np.testing.assert_allclose(beta.mean(axis=0) + 0.5, [2 / 7, 0.5, 9 / 11], atol=0.01)
    assert worlds.Sources("gaussian", mixing).sample(50_000, 0).latents.std() == pytest.approx(
        1, abs=0.01
    )


def test_promises_of_sources_follow_law_and_mixing():
    def rungs(law, mixing):
        return {p.learner: p.rung for p in worlds.Sources(law, mixing).identified}

    assert rungs("uniform", worlds.Moebius(3)) == {"ima-vae": "permutation", "ica": None}
    assert rungs("gaussian", worlds.Orthogonal(3)) == {"ima-vae": "rigid", "ica": "linear"}
    bent = worlds.Linear.with_contrast(3, 1.0)
    assert rungs("uniform", bent) == {"ima-vae": None, "ica": "monomial"}
    broken = worlds.Sources("uniform", worlds.Chain(worlds.Moebius(3), bent))
    assert broken.check().failed == ("independent mechanisms",)
    assert worlds.Sources("gaussian", worlds.Orthogonal(3)).check().failed == ("law",)


class Folded:
    """A mixing that loses a sign."""

    d = D = 2

    def forward(self, z):
        return np.column_stack([np.abs(np.asarray(z)[:, 0]), np.asarray(z)[:, 1]])

    def jacobian(self, z):
        return np.array([np.diag([np.sign(row[0]), 1.0]) for row in np.asarray(z)])


class Mirrored(Folded):
    """Both signs of every point are in the sample."""

    def forward(self, z):
        return super().forward(np.round(np.asarray(z), 1))


def test_a_mixing_that_is_not_injective_on_the_sample_is_named():
    world = worlds.Sources("uniform", Mirrored())
    found = world.check()
    assert "injective" in found.failed
    with pytest.raises(
        InputError, match=r"not injective on the sample: rows .* the same observation"
    ):
        found.require()
    flat = worlds.Linear([[1.0, 1.0], [1.0, 1.0 + 1e-9]])
    assert "condition" in worlds.Sources("uniform", flat).check().failed
    worlds.Sources("uniform", worlds.Moebius(2)).check().require()


def test_chains_without_an_inverse_say_so():
    chain = worlds.Chain(Folded(), worlds.Orthogonal(2))
    assert chain.forward([[-1.0, 2.0]]).shape == (1, 2)
    with pytest.raises(InputError, match="Folded, a part of this chain, has no inverse"):
        chain.inverse([[1.0, 2.0]])


# Scores


def test_a_score_names_the_rung_and_what_is_there_of_each_block(tmp_path):
    z = worlds.AnisotropicPairs([25.0] * 3 + [3.0] * 3).sample(4000, 0).latents
    blocks = {"content": [0, 1, 2], "style": [3, 4, 5]}
    axes = worlds.score(-z[:, ::-1], z, blocks=blocks)
    assert (axes.group, bool(axes)) == ("permutation", True)
    assert axes.mcc == pytest.approx(1)
    turned = z.copy()
    rng = np.random.default_rng(0)
    for columns in blocks.values():
        turned[:, columns] = z[:, columns] @ np.linalg.qr(rng.normal(size=(3, 3)))[0]
    rigid = worlds.score(turned, z, blocks=blocks)
    assert rigid.group == "rigid"
    assert rigid.mcc < 0.98
    assert rigid.rotation == pytest.approx(
        0.695, abs=0.03
    )  # of six axes, measured in the reference
    half = worlds.score(z[:, :3] + 0 * z[:, 3:], z, blocks=blocks)
    assert half.r2["content"] == pytest.approx(1)
    assert half.r2["style"] < 0.05
    assert not half
    said = half.summary()
    assert "100% of content" in said
    assert "random rotation" in said
    assert half.to_dict()["r2"]["content"] == half.r2["content"]
    half.report(tmp_path / "score.html")
    for text in ((tmp_path / "score.html").read_text(encoding="utf-8"), half._repr_html_()):
        assert "100% of content" in text
        assert f"{half.r2['style']:.3f}" in text
        assert f"{half.rotation:.3f}" in text


def test_a_score_of_noise_is_unrelated():
    rng = np.random.default_rng(0)
    found = worlds.score(rng.normal(size=(500, 3)), rng.normal(size=(500, 3)))
    assert found.group == "unrelated"
    assert "more than chance" in found.summary()
    one = worlds.score(rng.normal(size=(500, 2)), rng.normal(size=(500, 1)))
    assert one.rotation is None
    assert "MCC is" in one.summary()
    assert "Score(" in repr(one)


# Bad input


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: worlds.SphereClusters(5, 100, 0.0), "kappa is 0.0; a concentration"),
        (lambda: worlds.SphereClusters(1, 100, 1.0), "d is 1; give a whole number, 2 or more"),
        (lambda: worlds.SphereClusters(5, 1, 1.0), "classes is 1"),
        (lambda: worlds.SphereClusters(5, 10, 1.0, law="cauchy"), "choose one of vmf, laplace"),
        (lambda: worlds.SphereClusters(5, 10, 1.0, centres="line"), "law of the class vectors"),
        (lambda: worlds.SphereClusters(5, 10, 1.0, scale=-1.0), "the scale is -1.0"),
        (lambda: worlds.SphereClusters(5, 10, 1.0, label_noise=2.0), "share from 0 to 1"),
        (lambda: worlds.SphereClusters(5, 10, 1.0, instances=9), "9 instances leave some of 10"),
        (lambda: worlds.SphereClusters(5, 10, 1.0, worlds.Orthogonal(4)), "takes 4 latents, but"),
        (lambda: worlds.SphereClusters(5, 10, 1.0).sample(0, 0), "rows is 0"),
        (lambda: worlds.AnisotropicPairs([1.0, -2.0]), r"above 0 \(entry 1 is -2\)"),
        (lambda: worlds.AnisotropicPairs([1.0]), "2 concentrations or more"),
        (lambda: worlds.AnisotropicPairs([1.0, 2.0], sampler="mcmc"), "exact, approximate"),
        (lambda: worlds.AnisotropicPairs([1.0, 2.0], negatives=[1.0]), "1 concentrations of the"),
        (lambda: worlds.Sources("uniform", worlds.Moebius(2, pole=[0.1, 0.1])), "inside the cube"),
        (
            lambda: worlds.Sources("gaussian", worlds.Moebius(2)),
            "gaussian sources may lie anywhere",
        ),
        (lambda: worlds.Sources("cauchy", worlds.Moebius(2)), "the law of the sources is 'cauchy'"),
        (lambda: worlds.Sources("uniform", worlds.Moebius(2), shapes=[(1, 1)]), "for beta sources"),
        (lambda: worlds.Sources("beta", worlds.Moebius(2), shapes=[(1, 1)]), "2 pairs of numbers"),
        (lambda: worlds.Moebius(2, pole=[1.0]), "expected 2 finite numbers"),
        (lambda: worlds.Moebius(2, pole=[1.0, 1.0]).forward([[1.0, 1.0]]), "row 0 is the pole"),
        (lambda: worlds.Moebius(2).inverse([[0.0, 0.0]]), "row 0 of the observations is 0"),
        (lambda: worlds.Moebius(2).forward([[0.0, np.nan]]), "NaN or infinity in row 0"),
        (lambda: worlds.Moebius(2).forward([[0.0]]), "expected rows of 2 numbers"),
        (lambda: worlds.Linear([[1.0, 2.0]]), "at least as many observations D as latents d"),
        (lambda: worlds.Linear([[np.inf]]), "NaN or infinity"),
        (lambda: worlds.Linear.with_contrast(3, -1.0), "the contrast is -1.0"),
        (
            lambda: worlds.Chain(worlds.Moebius(2), worlds.Moebius(3)),
            "gives 2 numbers and the next",
        ),
        (lambda: worlds.LeakyReLU(3, layers=0), "layers is 0"),
        (lambda: worlds.LeakyReLU(3, slope=0.0), "the slope is 0.0"),
        (lambda: worlds.LeakyReLU(3, draws=3, condition=1.0), "none has a condition number of 1"),
        (lambda: worlds.score(np.zeros((5, 2)), np.zeros(5)), "latents have the shape"),
        (lambda: worlds.score(np.zeros((5, 2)), np.zeros((6, 2))), "expected equally many rows"),
        (lambda: worlds.score(np.eye(9), np.eye(9), blocks={"x": [9]}), "some of 0 to 8"),
    ],
)
def test_wrong_worlds_are_refused_in_one_sentence(make, says):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(InputError, match=says):
            make()
