"""Points in the plane and their labels by angle, which several studies classify."""

from __future__ import annotations

import numpy as np
import pytest

from conftest import close
from identikit.studies._angles import points, sectors


@pytest.mark.parametrize("turn", [np.pi, 2 * np.pi])
def test_middles_of_sectors(turn: float) -> None:
    """Labels count counter-clockwise from the first axis; a half turn has them twice."""
    middle = (np.arange(36) + 0.5) * turn / 18
    x = 3 * np.stack([np.cos(middle), np.sin(middle)], axis=-1)
    np.testing.assert_array_equal(sectors(x, 18, turn), np.arange(36) % 18)


def test_a_point_just_below_the_first_axis_is_in_the_last_sector() -> None:
    x = np.array([[1.0, -1e-300], [1.0, -1e-12]])
    np.testing.assert_array_equal(sectors(x, 18, 2 * np.pi), [17, 17])


def test_opposite_points_share_a_label_in_half_a_turn(rng: np.random.Generator) -> None:
    x = points(500, rng).astype(np.float32)
    np.testing.assert_array_equal(sectors(-x, 6, np.pi), sectors(x, 6, np.pi))


def test_points_have_the_papers_spread(rng: np.random.Generator) -> None:
    x = points(40_000, rng, 20)
    assert x.shape == (40_000, 22)
    close(x.std(axis=0), np.repeat([3.0, 1.0], [2, 20]), 0.05)
