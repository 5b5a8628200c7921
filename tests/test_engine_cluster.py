"""Clusters that cannot be reached or started."""

from __future__ import annotations

import numpy as np
import pytest

from identikit.errors import InputError
from identikit.moments import accumulate
from identikit.moments.engines import Dask, _cluster


@pytest.mark.extra("dask")
@pytest.mark.parametrize(
    ("address", "says"), [("tcp://127.0.0.1:1", "Timed out"), ("post://x", "unknown address sch")]
)
def test_a_scheduler_that_does_not_answer(monkeypatch: pytest.MonkeyPatch, address: str, says: str):
    pytest.importorskip("distributed")
    monkeypatch.setattr(_cluster, "PATIENCE", 0.3)
    with pytest.raises(InputError, match=f"no Dask scheduler answers at {address} .*{says}"):
        accumulate([np.eye(3)], engine=address)


@pytest.mark.extra("dask")
def test_a_cluster_that_cannot_start_says_why(monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr(_cluster, "SCRIPT", "raise SystemExit('no room')")
    with pytest.raises(InputError, match="no Dask cluster could be started here: no room"):
        Dask()
