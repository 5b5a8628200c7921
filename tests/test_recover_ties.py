"""The law of the test that two axes are tied, against draws and against its formula."""

from __future__ import annotations

import numpy as np
import pytest

from conftest import close
from identikit.recover._ties import _largest_root, tie_p_values


def test_the_law_of_the_largest_root_is_that_of_wishart_matrices(rng):
    x = np.array([0.5, 1.0, 3.0, 6.0, 12.0, 25.0])
    for freedom in (1, 2, 3, 6, 15):
        draws = rng.normal(size=(20_000, freedom, 2))
        roots = np.linalg.eigvalsh(draws.transpose(0, 2, 1) @ draws)[:, 1]
        shares = (roots[:, None] > x).mean(axis=0)
        close(_largest_root(x, freedom), shares, 4 * np.sqrt(0.25 / 20_000))
    # Far out it neither overflows nor turns negative.
    far = _largest_root(np.array([0.0, 1e4, 1e6]), 63)
    assert far[0] == pytest.approx(1)
    assert ((far >= 0) & (far <= 1)).all()


def test_p_values_of_the_tie_test_are_those_of_two_fixed_profiles():
    """Without error in one axis and one environment more: the statistic by its formula."""
    variances = np.array([[1.0, 1.0], [1.0, 3.0]])
    spreads = np.full((2, 2), 0.5)
    v = variances / variances.mean(axis=0)
    s = spreads / variances.mean(axis=0) ** 2
    weight, apart, middle = 1 / s.sum(axis=1), v[:, 0] - v[:, 1], v.mean(axis=1)
    ratios = np.linspace(-3, 3, 200_001)
    least = min((weight * (apart - ratios[:, None] * middle) ** 2).sum(axis=1))
    assert tie_p_values(variances, spreads)[0, 1] == pytest.approx(np.exp(-least / 2), rel=1e-6)
