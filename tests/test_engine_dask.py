"""Dask: what it sends past the scheduler, and a cluster for one call."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine_views import Recipe
from identikit.moments import accumulate
from identikit.moments.engines import Dask, _dask
from test_engines import same


@pytest.fixture
def rows(rng: np.random.Generator) -> np.ndarray:
    return rng.normal(size=(8000, 5)) + 100


@pytest.mark.extra("dask")
def test_what_is_large_goes_past_the_scheduler(
    rows: np.ndarray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    pytest.importorskip("distributed")
    np.save(tmp_path / "x.npy", rows)
    monkeypatch.setattr(_dask, "SMALL", 50)
    sent: list[Any] = []
    recipe = Recipe(str(tmp_path / "x.npy"))
    with Dask(workers=2) as dask:
        scatter = dask._scatter
        monkeypatch.setattr(
            dask,
            "_scatter",
            lambda things, **options: (sent.extend(things), scatter(things, **options))[1],
        )
        same(accumulate([recipe], engine=dask), accumulate([rows]))
    assert sent[0] is recipe
    assert [type(thing) for thing in sent[1:]] == [tuple] * 8


@pytest.mark.extra("dask")
def test_a_cluster_for_the_call(monkeypatch: pytest.MonkeyPatch, rows: np.ndarray):
    pytest.importorskip("distributed")
    monkeypatch.setattr(_dask, "cores", lambda: 1)
    before = dict(os.environ), list(sys.path)
    same(accumulate([rows], engine="dask"), accumulate([rows]))
    assert (dict(os.environ), sys.path) == before
