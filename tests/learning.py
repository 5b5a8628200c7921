"""What tests of trainings share: one thread, labelled data, and whether two runs are the same."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd
import pytest

torch = pytest.importorskip("torch")

from torch import Tensor  # noqa: E402

from identikit.learn import Run  # noqa: E402


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """One thread of torch, in every module that imports this: small networks gain none by more."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def data(rows: int = 512, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    """Five normal columns, and which of some linear functions of them is the largest."""
    some = torch.Generator().manual_seed(3)
    x = torch.randn(rows, 5, generator=some, dtype=dtype)
    return x, (x @ torch.randn(5, 7, generator=some, dtype=dtype)).argmax(1)


def gaps(a: Run, b: Run) -> dict[tuple[int, str], float]:
    """The largest difference of every tensor of two runs, by snapshot and name."""
    assert (a.seeds, a.snapshots) == (b.seeds, b.snapshots)
    assert all(weights.keys() == b.weights[step].keys() for step, weights in a.weights.items())
    return {
        (step, name): float((tensor - b.weights[step][name]).abs().max())
        for step, weights in a.weights.items()
        for name, tensor in weights.items()
    }


def gap(a: Run, b: Run) -> float:
    """The largest difference of two runs' weights, at any snapshot."""
    return max(gaps(a, b).values())


def same(a: Run, b: Run, tol: float = 0.0) -> None:
    """Raise unless two runs are equal, in every bit unless a tolerance is given.

    Between processes single precision may differ in its last digits: sums are cut where arrays
    happen to lie in memory.
    """
    pd.testing.assert_frame_equal(a.history, b.history, check_exact=tol == 0, rtol=tol, atol=tol)
    wrong = {where: off for where, off in gaps(a, b).items() if not off <= tol}
    assert not wrong, f"these weights differ: {wrong}"
