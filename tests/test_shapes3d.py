"""Shapes3D: what a ray hits by geometry of its own, colours, factors and refusals."""

from __future__ import annotations

import colorsys

import numpy as np
import pytest

import identikit as ik
from identikit.errors import InputError
from identikit.worlds import Shapes3D
from identikit.worlds import _shapes3d as shapes

SIDE = 8


def inside(name: str, points: np.ndarray, scale: float) -> np.ndarray:
    """Which points lie inside a body, by its definition."""
    x, y, z = points.T / scale
    if name == "cube":
        return np.max([abs(x), abs(y), abs(z - 0.85)], axis=0) < 0.85
    if name == "cylinder":
        return (np.hypot(x, y) < 0.85) & (abs(z - 0.85) < 0.85)
    if name == "sphere":
        return x**2 + y**2 + (z - 0.95) ** 2 < 0.95**2
    return (x - np.clip(x, -0.7, 0.7)) ** 2 + y**2 + (z - 0.6) ** 2 < 0.6**2


@pytest.mark.parametrize("scale", [0.75, 1.25])
@pytest.mark.parametrize("name", shapes.SHAPES)
def test_rays_stop_where_a_body_begins(name: str, scale: float, rng: np.random.Generator) -> None:
    """March along the ray: outside before the hit, inside right after it; a miss is outside."""
    start = rng.uniform([-3, -3, 0.1], [3, -2, 5], size=(200, 3))
    goal = rng.uniform([-1.5, -1.5, 0], [1.5, 1.5, 2.5], size=(200, 3))
    rays = (goal - start) / np.linalg.norm(goal - start, axis=1, keepdims=True)
    body = shapes.BODIES[shapes.SHAPES.index(name)]
    t, normal = body(start, rays, scale)
    hits = np.isfinite(t)
    assert 20 < hits.sum() < 180
    reach = np.where(hits, t, 8.0)[:, None]
    for at in np.linspace(0, 1 - 1e-6, 40):
        points = start + at * reach * rays
        above = points[:, 2] > 0  # bodies stand on the floor, and nothing is seen from below it
        assert not (inside(name, points, scale) & above).any()
    assert inside(name, (start + (reach + 1e-6) * rays)[hits], scale).all()
    np.testing.assert_allclose(np.linalg.norm(normal[hits], axis=1), 1)
    assert ((normal * rays).sum(1)[hits] < 1e-9).all()
    # A little along the normal one is outside, a little against it inside.
    points = (start + reach * rays)[hits]
    assert not inside(name, points + 1e-6 * normal[hits], scale).any()
    assert inside(name, points - 1e-6 * normal[hits], scale).mean() > 0.99


def test_every_pixel_shows_something_and_the_object_grows() -> None:
    shades = shapes.surfaces(SIDE)
    assert shades.shape == (8, 4, 15, 3, SIDE, SIDE)
    assert (shades >= 0).all()
    assert (shades.sum(axis=3) > 0.2).all()
    assert (shades.sum(axis=3) <= 1 + 1e-6).all()
    area = shades[:, :, :, 2].sum(axis=(3, 4))
    assert (area[-1] > 1.5 * area[0]).all()
    # The middle of the first row is wall, that of the last row floor.
    assert (shades[..., 0, 0, SIDE // 2] == 0).all()
    assert (shades[..., 1, -1, SIDE // 2] == 0).all()


def test_left_and_right_are_mirrored() -> None:
    """Without the lamp, a scene from the left is that from the right, mirrored."""
    for degrees in (12.0, 30.0):
        seen = []
        for angle in (-degrees, degrees):
            eye, rays = shapes.camera(np.deg2rad(angle), 16)
            room, _, is_wall = shapes.walls(eye, rays)
            near = shapes.cube(np.broadcast_to(eye, rays.shape), rays, 1.0)[0]
            seen.append([part.reshape(16, 16) for part in (room, is_wall, np.minimum(near, 99))])
        for left, right in zip(*seen):
            np.testing.assert_allclose(left, right[:, ::-1], atol=1e-9)


def test_colours_are_those_of_the_hues() -> None:
    hues = np.linspace(0, 0.99, 34)
    expected = [colorsys.hsv_to_rgb(hue, 1, 1) for hue in hues]
    np.testing.assert_allclose(shapes.colour(hues), expected, atol=1e-12)


def test_a_hue_changes_its_own_surface_only() -> None:
    world, base = Shapes3D(SIDE), np.array([[0, 3, 6, 5, 2, 4]])
    shades = shapes.surfaces(SIDE)[5, 2, 4]
    for surface in range(3):
        other = base.copy()
        other[0, surface] = 1
        changed = (world.images(other) != world.images(base))[0].any(axis=-1)
        assert changed.any()
        np.testing.assert_array_equal(changed & (shades[surface] == 0), False)


def test_images_are_sums_of_lit_colours(rng: np.random.Generator) -> None:
    classes = rng.integers(shapes.SIZES, size=(30, 6))
    found = Shapes3D(SIDE).images(classes)
    assert found.dtype == np.float32
    for image, own in zip(found, classes):
        shades = shapes.surfaces(SIDE)[tuple(own[3:])]
        colours = [colorsys.hsv_to_rgb(place / 10, 1, 1) for place in own[:3]]
        expected = np.einsum("spq,sc->pqc", shades, colours)
        np.testing.assert_allclose(image, expected, atol=1e-5)


def test_a_sample_and_its_factors() -> None:
    world = ik.worlds.Shapes3D(SIDE)
    sample = world.sample(3000, seed=1)
    assert sample.observations.shape == (3000, world.D) == (3000, 3 * SIDE**2)
    assert 0 <= sample.observations.min() < sample.observations.max() <= 1
    for column, count in zip(sample.latents.T, shapes.SIZES):
        shares = np.unique(column, return_counts=True)[1] / 3000
        assert len(shares) == count
        assert np.abs(shares - 1 / count).max() < 5 * (1 / count / 3000) ** 0.5
    assert set(sample.latents[:, 5]) == set(np.linspace(-30, 30, 15))
    again = world.sample(3000, seed=1)
    np.testing.assert_array_equal(sample.observations, again.observations)
    assert np.abs(np.corrcoef(sample.latents.T) - np.eye(6)).max() < 0.1


def test_values_of_the_factors() -> None:
    world = Shapes3D(SIDE)
    assert world.factors[3:] == ("scale", "shape", "orientation")
    assert np.prod(world.sizes) == 480_000
    found = world.values([[0] * 6, np.array(world.sizes) - 1])
    np.testing.assert_allclose(found[0], [0, 0, 0, 0.75, 0, -30], atol=1e-12)
    np.testing.assert_allclose(found[1], [0.9, 0.9, 0.9, 1.25, 3, 30])


def test_what_theory_assumes_does_not_hold() -> None:
    world = Shapes3D(16)
    assert [promise.rung for promise in world.identified] == [None]
    found = world.check(rows=200)
    assert found["injective"].ok
    assert found.failed == ("isometry",)
    assert found["isometry"].value > 2


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Shapes3D(side=3), "side is 3"),
        (lambda: Shapes3D(8).images([[0] * 5]), r"shape \(1, 5\).*expected rows of 6"),
        (lambda: Shapes3D(8).images([[0.5] * 6]), "the type float64"),
        (lambda: Shapes3D(8).images([[0, 0, 0, 8, 0, 0]]), "row 0 has scale 8; expected 0 to 7"),
        (lambda: Shapes3D(8).images([[0, 0, 0, 0, 0, -1]]), "row 0 has orientation -1"),
    ],
)
def test_refusals(call, message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()
