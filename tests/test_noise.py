"""Errors of shrunk rotations in diagonal bases are those of their matrices, one by one.

A verdict takes the least error of many predictions, so that it would not show a wrong one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import identikit as ik
from identikit.alignment import RUNGS, _noise
from planted import planted

#: Where noise is cut off, a scatter is nearly singular, and the jitter of the matrices shows.
NEAR = 1e-4


def both_ways(X: Any, Y: Any, rung: str, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Squared errors and limits of all predictions: in bases, and by matrices."""
    moments = ik.accumulate([X, Y], sample=0)
    quick = _noise._shrunk_errors(moments, 0, 1, 0, RUNGS[rung])
    with monkeypatch.context() as patch:
        patch.setattr(_noise._Bases, "of", lambda *_: None)
        return [quick, _noise._shrunk_errors(moments, 0, 1, 0, RUNGS[rung])]


@pytest.mark.parametrize("rung", ["rigid", "similarity"])
@pytest.mark.parametrize("spectrum", ["flat", "i^-1", "i^-2", "mixed"])
@pytest.mark.parametrize("noise", ["isotropic", "own both"])
def test_diagonal_bases_give_the_errors_of_matrices(rung, spectrum, noise, monkeypatch):
    X, Y = planted("similarity", spectrum, noise, 0.4, 600, 12, 0)
    quick, slow = both_ways(X, Y, rung, monkeypatch)
    for side, same in zip(quick, slow):
        assert len(side) == len(same) >= 5
        np.testing.assert_allclose(side, same, rtol=NEAR)


def test_noise_that_is_cut_off_in_small_directions(monkeypatch):
    """Isotropic noise is larger than the smallest variances of both views."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 10)) * np.geomspace(1, 0.02, 10)
    Y = X @ np.linalg.qr(rng.normal(size=(10, 10)))[0] + 0.3 * rng.normal(size=(400, 1))
    quick, slow = both_ways(X, Y, "similarity", monkeypatch)
    np.testing.assert_allclose(quick, slow, rtol=NEAR)


def test_views_of_lower_rank_go_by_matrices(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 6)) @ rng.normal(size=(6, 8))
    Y = X @ np.linalg.qr(rng.normal(size=(8, 8)))[0] + 0.01
    quick, slow = both_ways(X, Y, "similarity", monkeypatch)
    np.testing.assert_allclose(quick, slow, rtol=1e-9, atol=1e-9)
