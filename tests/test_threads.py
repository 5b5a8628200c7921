"""Ranges of rows in threads of this process: the same as one after another, and stopped at once."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import numpy as np
import pytest

from conftest import close
from identikit import InputError, accumulate
from identikit.moments import _passes


@pytest.fixture(autouse=True)
def many_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three threads however few cores there are and rows there be."""
    monkeypatch.setattr(_passes, "MANY_ROWS", 1)
    monkeypatch.setattr(_passes, "blas_threads", lambda: 3)


def in_one_thread(views: list[object], **options: object) -> object:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_passes, "MANY_ROWS", 10**9)
        return accumulate(views, **options)


def both(views: list[object], **options: object) -> None:
    ours, one = accumulate(views, **options), in_one_thread(views, **options)
    assert ours.rows == one.rows
    assert ours.dropped == one.dropped
    assert np.array_equal(ours.sample.rows, one.sample.rows)
    for a, b in zip(ours.parts, one.parts):
        assert a.count == b.count
        close(a.mean, b.mean, 1e-10, 1 + np.abs(b.mean))
        close(a.cubic, b.cubic, 1e-10, np.abs(b.cubic).max() + 1)
        close(a.quartic, b.quartic, 1e-10, np.abs(b.quartic).max() + 1)
    for i in range(len(one.names)):
        for j in range(len(one.names)):
            close(ours.block(i, j), one.block(i, j), 1e-10, np.abs(one.block(i, j)).max())


@pytest.fixture
def views(rng: np.random.Generator) -> list[np.ndarray]:
    X = rng.normal(size=(7001, 5)) + 100
    return [X.astype(np.float32), X @ rng.normal(size=(5, 3)) + rng.normal(size=(7001, 3))]


def test_threads_equal_one_scan_of_arrays_and_files(views, tmp_path: Path):
    both(views)
    paths = [tmp_path / "a.npy", tmp_path / "b.npz"]
    np.save(paths[0], views[0])
    np.savez_compressed(paths[1], x=views[1])
    both(paths)


def test_threads_equal_one_scan_with_groups_dropped_rows_and_hard_views(views, rng):
    both(views, groups=rng.integers(0, 40, len(views[0])))
    views[0][[3, 4000, 6999]] = np.nan
    both(views, drop_nonfinite=True)
    hard = views[1] @ np.diag([1, 1e-6, 1e-9]) @ rng.normal(size=(3, 3))
    both([hard, views[1]])


def test_an_error_in_one_thread_is_the_error(views):
    views[1][5000, 1] = np.inf
    with pytest.raises(InputError, match=r"'view1' has NaN or infinity in 1 of 7001 rows.* 5000"):
        accumulate(views)


def test_rows_are_counted_and_a_fault_of_the_listener_stops_the_threads(views):
    told = []
    accumulate(views, progress=lambda _, done, rows: told.append((done, rows)))
    assert told[-1] == (7001, 7001)
    assert [done for done, _ in told] == sorted(done for done, _ in told)

    class SlowRows:
        """A view whose blocks take so long that all of them would take minutes."""

        def __init__(self) -> None:
            self.name, self.rows, self.width, self.eps = "slow", 10**7, 2, 2.0**-52
            self.origin, self.files = self, ()
            self.reads = 0

        def open_source(self, name: str) -> SlowRows:  # noqa: ARG002
            return self

        def read(self, start: int, stop: int) -> np.ndarray:
            time.sleep(0.05)
            self.reads += 1
            return np.ones((stop - start, 2))

        def close(self) -> None:
            """Nothing to close."""

    def interrupt(_what: str, done: int, rows: int) -> None:
        raise KeyboardInterrupt

    slow = SlowRows()
    with pytest.raises(KeyboardInterrupt):
        accumulate([slow], progress=interrupt)
    assert slow.reads < 100
    assert not [t for t in threading.enumerate() if t.name.startswith("identikit-scan")]
