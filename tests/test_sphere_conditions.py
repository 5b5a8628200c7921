"""Ranks of class vectors on a sphere, and the floors of losses: values, invariances, refusals."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import log_softmax
from scipy.stats import ortho_group

from conftest import close
from identikit.errors import InputError
from identikit.family import (
    Floor,
    affine_rank,
    diet_floor,
    language_floor,
    other_solution,
    quadric_rank,
    sphere_conditions,
    supervised_floor,
)


def directions(classes: int, d: int, rng: np.random.Generator) -> np.ndarray:
    v = rng.normal(size=(classes, d))
    return v / np.linalg.norm(v, axis=1, keepdims=True)


# Ranks


@given(st.integers(0, 10**6), st.integers(2, 6), st.integers(2, 40))
def test_both_ranks_are_as_large_as_numbers_allow_and_no_rotation_changes_them(seed, d, classes):
    rng = np.random.default_rng(seed)
    v = directions(classes, d, rng)
    Q = ortho_group.rvs(d, random_state=rng)
    for vectors in (v, v @ Q.T, v[::-1]):
        found = sphere_conditions(vectors)
        assert (found.affine.rank, found.affine.needed) == (min(classes - 1, d), d)
        needed = d * (d + 3) // 2
        assert (found.quadric.rank, found.quadric.needed) == (min(classes, needed), needed)


def test_the_printed_condition_of_c3_is_undone_by_a_rotation():
    """Four points on a circle; both pairs of axes hold them, and a pencil of ellipses does."""
    v = np.array([[1.0, 0], [-1, 0], [0, 1], [0, -1]])
    turn = np.array([[1.0, -1], [1, 1]]) / 2**0.5
    assert sphere_conditions(v).paper.ok
    turned = sphere_conditions(v @ turn.T)
    assert (turned.paper.rank, turned.paper.needed, turned.paper.missing) == (3, 4, 1)
    assert "rank 3 of 4" in turned.paper.sentence
    assert [sphere_conditions(each).quadric.rank for each in (v, v @ turn.T)] == [4, 4]


@pytest.mark.parametrize("spacing", [np.float64, np.float32])
def test_vectors_on_a_cone_are_on_a_quadric_however_many_they_are(spacing, rng):
    """z₁² = (z₂² + z₃²)/4: 200 vectors, and one quadric besides the sphere."""
    angle = rng.uniform(0, 2 * np.pi, 200)
    side = rng.choice([-1.0, 1.0], 200)
    v = np.stack([side / 2, np.cos(angle), np.sin(angle)], axis=1) / 1.25**0.5
    found = sphere_conditions(v.astype(spacing))
    assert found.affine.ok
    assert (found.quadric.rank, found.quadric.missing) == (8, 1)
    assert "1 independent quadrics besides the sphere" in found.quadric.sentence
    assert "(rank 8 of 9)" in found.quadric.sentence


@pytest.mark.parametrize(
    ("d", "classes"), [(2, 4), (3, 6), (3, 8), (5, 10), (5, 19), (10, 64), (20, 100)]
)
def test_below_the_bound_another_map_keeps_all_weights_at_unit_norm(d, classes, rng):
    v = directions(classes, d, rng)
    found = other_solution(v)
    assert found is not None
    M, b = found
    close(np.linalg.norm(v @ M.T + b, axis=1), np.ones(classes), 1e-13)
    assert np.ptp(np.linalg.svd(M, compute_uv=False)) > 0.1
    # With κM⁻ᵀz for latents the log-odds are the truth's: an optimum as good as any.
    z = directions(50, d, rng)
    logits = 10 * z @ np.linalg.inv(M) @ (v @ M.T + b).T
    close(log_softmax(logits, axis=1), log_softmax(10 * z @ v.T, axis=1), 1e-11)
    small = other_solution(v, 0.01)
    assert small is not None
    assert np.ptp(np.linalg.svd(small[0], compute_uv=False)) < 0.02


@pytest.mark.parametrize(("d", "classes"), [(2, 5), (3, 9), (5, 20), (10, 65)])
def test_at_the_bound_there_is_no_other_map(d, classes, rng):
    assert other_solution(directions(classes, d, rng)) is None


def test_a_plane_is_a_quadric_too(rng):
    """All v_c in the plane z₃ = 0: what moves along the third axis keeps their norms."""
    v = np.column_stack([directions(30, 2, rng), np.zeros(30)])
    found = other_solution(v)
    assert found is not None
    close(np.linalg.norm(v @ found[0].T + found[1], axis=1), np.ones(30), 1e-13)


@pytest.mark.parametrize("size", [0.0, 1.0, -0.5, np.nan])
def test_the_size_of_another_map_is_between_0_and_1(size, rng):
    with pytest.raises(InputError, match=r"size is .* between 0 and 1"):
        other_solution(directions(4, 2, rng), size)


# What is identified

CASES = {
    "C1": ("rigid", "rigid"),
    "C2": ("rigid", "similarity"),
    "C3": ("similarity", "rigid"),
    "C4": ("linear", "affine"),
    "supervised": ("linear", None),
}


@pytest.mark.parametrize("case", CASES)
def test_each_case_by_the_number_of_classes(case, rng):
    """d = 3: 9 classes for everything, 8 for all but C3, 3 for nothing."""
    v = directions(9, 3, rng)
    full = sphere_conditions(v).identified(case)
    assert (full.latents, full.weights, full.ok) == (*CASES[case], True)
    fewer = sphere_conditions(v[:8]).identified(case)
    if case == "C3":
        assert (fewer.latents, fewer.weights, fewer.ok) == (*CASES["C4"], False)
        assert "at least 9 classes" in fewer.why
    else:
        assert (fewer.latents, fewer.weights, fewer.ok) == (*CASES[case], True)
    few = sphere_conditions(v[:3]).identified(case)
    assert (few.latents, few.weights, few.ok) == (None, None, False)
    assert "span 2 of 3 dimensions" in few.why
    assert "at least 4 classes" in few.why


def test_there_are_five_cases(rng):
    with pytest.raises(InputError, match=r"no case 'C5'; choose one of C1, C2, C3, C4, supervised"):
        sphere_conditions(directions(9, 3, rng)).identified("C5")


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (np.ones(3), r"shape \(3,\) and dtype float64"),
        (np.ones((3, 0)), r"shape \(3, 0\)"),
        (np.ones((3, 2), complex), "dtype complex128"),
        ([["a", "b"]], "expected real numbers, classes × dimensions"),
        ([[1.0, 0.0]], "one class vector"),
        ([[1.0, 0.0], [np.nan, 1.0]], "vectors has NaN or infinity in 1 rows, the first is row 1"),
        ([[1.0, 0.0], [0.0, 1.01]], r"row 1 of the vectors has norm 1\.01"),
    ],
)
def test_what_are_no_class_vectors(bad, says):
    with pytest.raises(InputError, match=says):
        sphere_conditions(bad)


def test_ranks_alone_need_no_unit_norm():
    assert affine_rank(5 * np.eye(3)).rank == 2
    assert quadric_rank(5 * np.eye(3)).rank == 3


# Floors


@pytest.fixture
def points(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Some vectors, and latents with no law in particular."""
    return directions(6, 3, rng), directions(500, 3, rng)


def test_a_floor_is_its_formula(points):
    v, z = points
    logs = np.log([[np.exp(4 * v[c] @ each) for c in range(6)] for each in z])
    logs -= np.log(np.exp(logs).sum(axis=1, keepdims=True))
    found = supervised_floor(v, 4.0, z)
    entropies = -(np.exp(logs) * logs).sum(axis=1)
    close(found.value, entropies.mean(), 1e-12)
    close(found.error, entropies.std(ddof=1) / 500**0.5, 1e-12)
    labels = np.arange(500) % 6
    close(supervised_floor(v, 4.0, z, labels).value, -logs[np.arange(500), labels].mean(), 1e-12)


def test_noise_raises_the_floor_up_to_the_uniform_distribution(points):
    v, z = points
    floors = [supervised_floor(v, 4.0, z, noise=noise).value for noise in (0, 0.2, 0.8, 1)]
    assert floors == sorted(floors)
    close(floors[-1], np.log(6), 1e-12)


def test_labels_drawn_from_the_posterior_give_the_same_floor_with_a_larger_error(points, rng):
    v, _ = points
    z = directions(40_000, 3, rng)
    p = np.exp(log_softmax(4 * z @ v.T, axis=1))
    labels = (p.cumsum(axis=1) > rng.random((len(z), 1))).argmax(axis=1)
    exact, drawn = supervised_floor(v, 4.0, z), supervised_floor(v, 4.0, z, labels)
    assert exact.error < drawn.error
    assert abs(exact.value - drawn.value) < 4 * drawn.error


def test_diet_where_classes_have_unequal_numbers_of_instances(points):
    """20 instances of 6 classes: the classes 0 and 1 have four each, the others three."""
    v, z = points
    logits = 4 * z @ v[np.arange(20) % 6].T
    logs = log_softmax(logits, axis=1)
    expected = -(np.exp(logs) * logs).sum(axis=1).mean()
    close(diet_floor(v, 4.0, z, 20).value, expected, 1e-12)
    close(diet_floor(v, 4.0, z, 18).value, supervised_floor(v, 4.0, z).value + np.log(3), 1e-12)
    labels = np.arange(500) % 6
    apart = diet_floor(v, 4.0, z, 18, labels).value - supervised_floor(v, 4.0, z, labels).value
    close(apart, np.log(3), 1e-12)


def test_a_floor_is_reached_within_the_slack_and_its_own_error():
    assert Floor(1.0).reached(1.05, 0.05)
    assert not Floor(1.0).reached(1.051, 0.05)
    assert Floor(1.0, 0.01).reached(1.0695, 0.05)
    assert not Floor(1.0, 0.01).reached(1.07, 0.05)
    assert Floor(1.0).reached(0.9, 0.0)


def test_the_floor_of_a_language_with_impossible_strings():
    close(language_floor([0.5, 0.5, 0.0]).value, np.log(2), 1e-15)
    close(language_floor([0.5, 0.5, 0.0], [1, 3, 100]).value, np.log(2) / 2, 1e-15)


def _with(**changes: object) -> dict[str, object]:
    v = np.eye(3)
    return {"vectors": v, "kappa": 2.0, "latents": v} | changes


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (_with(kappa=0.0), "kappa is 0.0; expected a number above zero"),
        (_with(kappa=np.inf), "kappa is inf"),
        (_with(latents=np.ones((4, 2))), "latents has shape"),
        (_with(latents=np.eye(3)[:1]), "3 vectors and 1 latents"),
        (_with(vectors=np.eye(3)[:1]), "1 vectors and 3 latents"),
        (_with(noise=1.5), "noise is 1.5; expected a share"),
        (_with(labels=[0, 1]), r"labels have shape \(2,\)"),
        (_with(labels=[0.0, 1.0, 2.0]), "dtype float64"),
        (_with(labels=[0, 1, 3]), "labels go from 0 to 3; expected classes from 0 to 2"),
    ],
)
def test_what_has_no_floor(arguments, says):
    with pytest.raises(InputError, match=says):
        supervised_floor(**arguments)


def test_every_class_has_an_instance():
    with pytest.raises(InputError, match="2 instances of 3 classes"):
        diet_floor(np.eye(3), 1.0, np.eye(3), 2)


@pytest.mark.parametrize(
    ("probabilities", "tokens", "says"),
    [
        ([0.5, 0.6], None, r"sum is 1\.1"),
        ([1.5, -0.5], None, r"a string is -0\.5"),
        ([[0.5, 0.5]], None, "1 axes and not 2"),
        ([0.5, 0.5], [1, 2, 3], r"tokens has shape \(3,\) for 2 strings"),
        ([0.5, 0.5], 0, "one number above zero"),
    ],
)
def test_what_is_no_distribution_over_strings(probabilities, tokens, says):
    with pytest.raises(InputError, match=says):
        language_floor(probabilities, tokens)
