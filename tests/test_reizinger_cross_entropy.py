"""Cross-entropy inverts the process that made the data: the fixtures of Reizinger et al. 2025.

Ranges of floors were measured with an independent implementation, over five random sets of class
vectors and 20 000 points each.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import ortho_group

import identikit as ik
from conftest import close
from identikit.family import SoftmaxModel, diet_floor, sphere_conditions, supervised_floor
from identikit.studies import Settings
from identikit.worlds import SphereClusters


def directions(classes: int, d: int, rng: np.random.Generator) -> np.ndarray:
    v = rng.normal(size=(classes, d))
    return v / np.linalg.norm(v, axis=1, keepdims=True)


def world(d: int, classes: int, kappa: float, seed: int) -> SphereClusters:
    """Clusters without a mixing; that too few classes identify nothing is said by a warning."""
    if classes > d:
        return SphereClusters(d, classes, kappa, seed=seed)
    with pytest.warns(UserWarning, match=rf"span {classes - 1} of {d} dimensions"):
        return SphereClusters(d, classes, kappa, seed=seed)


def r2(codes: np.ndarray, latents: np.ndarray) -> float:
    """Held out: fitted on the first half, with an intercept."""
    half = len(codes) // 2
    x = np.column_stack([codes, np.ones(len(codes))])
    fit = np.linalg.lstsq(x[:half], latents[:half], rcond=None)[0]
    rest = latents[half:]
    gap = np.square(rest - x[half:] @ fit).sum() / np.square(rest - rest.mean(axis=0)).sum()
    return float(1 - gap)


# f = g⁻¹ and W = κV


def test_the_inverse_of_the_mixing_has_the_loss_of_the_floor(seed):
    clusters = world(5, 30, 10, seed)
    v, sample = clusters.vectors, clusters.sample(4000, seed)
    z, labels = sample.latents, sample.labels
    model = SoftmaxModel(z, 10 * v)
    loss = -model.log_prob()[np.arange(len(z)), labels]
    close(loss.mean(), supervised_floor(v, 10, z, labels).value, 1e-12)
    floor = supervised_floor(v, 10, z)
    assert abs(loss.mean() - floor.value) < 4 * loss.std() / len(z) ** 0.5
    assert floor.reached(loss.mean(), 0.05)
    # Log-odds of any two classes are κ ⟨v_i − v_k, z⟩.
    odds = model.log_prob()[:, 3] - model.log_prob()[:, 17]
    close(odds, 10 * z @ (v[3] - v[17]), 1e-11)


def test_a_gauge_leaves_the_probabilities(rng):
    v, z = directions(30, 5, rng), directions(500, 5, rng)
    A, c = rng.normal(size=(5, 5)) + 3 * np.eye(5), rng.normal(size=5)
    other = SoftmaxModel(z @ A.T, 10 * v @ np.linalg.inv(A) + c)
    close(other.log_prob(), SoftmaxModel(z, 10 * v).log_prob(), 1e-11)


# Ranks


@pytest.mark.parametrize("d", [2, 3, 5, 10, 20])
def test_a_regular_simplex_is_an_affine_generator_system(d):
    """d + 1 unit vectors with equal angles: centred basis vectors of R^(d+1), in their plane."""
    centred = np.eye(d + 1) - 1 / (d + 1)
    basis = np.linalg.svd(centred)[2][:d]
    v = centred @ basis.T
    v /= np.linalg.norm(v, axis=1, keepdims=True)
    close(v @ v.T, np.where(np.eye(d + 1) > 0, 1.0, -1 / d), 1e-12)
    found = sphere_conditions(v)
    assert (found.affine.rank, found.affine.ok) == (d, True)
    assert found.identified("supervised").latents == "linear"


def test_too_few_vectors_and_a_common_hyperplane_name_the_missing_rank(rng):
    few = sphere_conditions(directions(5, 5, rng)).affine
    assert (few.rank, few.ok, few.missing) == (4, False, 1)
    assert "span 4 of 5 dimensions" in few.sentence
    # Any number in one hyperplane that misses the origin: the first coordinate is 0.6.
    ring = np.column_stack([np.full(100, 0.6), 0.8 * directions(100, 4, rng)])
    flat = sphere_conditions(ring)
    assert (flat.affine.rank, flat.affine.missing) == (4, 1)
    assert flat.identified("C4").latents is None
    assert flat.identified("C4").why == flat.affine.sentence


@pytest.mark.parametrize(
    ("d", "classes", "rank", "needed"),
    [(2, 4, 4, 5), (5, 19, 19, 20), (5, 20, 20, 20), (20, 100, 100, 230)],
)
def test_the_quadric_rank_of_random_vectors(d, classes, rank, needed, rng):
    found = sphere_conditions(directions(classes, d, rng)).quadric
    assert (found.rank, found.needed) == (rank, needed)


@pytest.mark.parametrize(("d", "needed"), [(2, 5), (3, 9), (5, 20), (10, 65), (20, 230)])
def test_how_many_classes_c3_needs(d, needed, rng):
    assert sphere_conditions(directions(d + 1, d, rng)).quadric.needed == needed


def test_the_published_rows_of_c3_lie_below_the_bound(rng):
    """|C| = 10 at d = 5 and |C| = 100 at d = 20: the printed condition holds, the right one not."""
    for d, classes in ((5, 10), (20, 100)):
        found = sphere_conditions(directions(classes, d, rng))
        assert found.paper.ok
        assert not found.quadric.ok
        assert not found.identified("C3").ok


# Floors


@pytest.mark.parametrize(
    ("d", "classes", "kappa", "low", "high"),
    [
        (5, 100, 10, 2.25, 2.29),
        (10, 100, 10, 2.25, 2.27),
        (20, 100, 10, 2.77, 2.80),
        (5, 100, 50, 0.32, 0.36),
        (5, 10, 10, 0.42, 0.77),
        (5, 5, 10, 0.14, 0.41),
    ],
)
def test_the_floors_of_random_vectors(d, classes, kappa, low, high):
    """The mean over five draws of the vectors lies in the range that five others gave."""
    floors = []
    for draw in range(5):
        clusters = world(d, classes, kappa, draw)
        v, sample = clusters.vectors, clusters.sample(20_000, draw)
        z, labels = sample.latents, sample.labels
        floors.append(supervised_floor(v, kappa, z))
        other = supervised_floor(v, kappa, z, labels)
        assert abs(other.value - floors[-1].value) < 4 * other.error
    assert low <= np.mean([floor.value for floor in floors]) <= high
    assert max(floor.error for floor in floors) < 0.01


def test_the_floor_of_diet_is_that_of_the_classes_and_log_10(rng):
    v, z = directions(100, 5, rng), directions(2000, 5, rng)
    apart = diet_floor(v, 10, z, 1000).value - supervised_floor(v, 10, z).value
    close(apart, 2.303, 5e-4)


# What the ladder says


def test_a_scaled_rotation_has_the_verdict_similarity(seed, rng):
    z = world(5, 100, 10, seed).sample(4000, seed).latents
    codes = 10 * z @ ortho_group.rvs(5, random_state=rng).T
    assert ik.worlds.score(codes, z).group == "similarity"
    back = np.linalg.lstsq(codes, z, rcond=None)[0]
    close(10 * np.linalg.svd(back, compute_uv=False), np.ones(5), 1e-10)


def test_with_as_many_classes_as_dimensions_the_floor_is_reached_without_the_latents(seed):
    """Negative control, exactly: along n ⟂ all v_i − v_k the features may be anything."""
    clusters = world(5, 5, 10, seed)
    v, sample = clusters.vectors, clusters.sample(20_000, seed)
    z, labels = sample.latents, sample.labels
    n = np.linalg.svd(v - v.mean(axis=0))[2][-1]
    f = z - np.outer(z @ n, n)
    model = SoftmaxModel(f, 10 * v)
    close(model.log_prob(), SoftmaxModel(z, 10 * v).log_prob(), 1e-11)
    floor = supervised_floor(v, 10, z)
    assert floor.reached(float(-model.log_prob()[np.arange(len(z)), labels].mean()), 0.02)
    lost = r2(f, (z @ n)[:, None])
    assert lost < 0.6
    assert sphere_conditions(v).affine.missing == 1


@pytest.mark.slow
def test_the_demo_against_its_control():
    """Both near their floors: 100 classes give the latents, 5 classes leave one direction out.

    How much of the whole R² that costs depends on the class vectors, since the clusters spread
    less along that direction; along it alone nothing is left.
    """
    pytest.importorskip("torch")
    from identikit.studies._cluster_arms import Arm, measure
    from identikit.studies.reizinger_cross_entropy import LAPTOP

    settings = Settings(LAPTOP | {"seeds": 2})
    demo, control = (measure(arm, settings).rows for arm in (Arm(), Arm(classes=5)))
    for one, other in zip(demo, control):
        assert one["r2"] >= 0.95
        assert one["loss"] - one["floor"] < 0.1
        assert other["loss"] - other["floor"] < 0.05
        assert other["r2"] <= min(0.9, one["r2"] - 0.08)
        assert other["missing"] <= 0.3
