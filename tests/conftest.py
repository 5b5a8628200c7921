"""Fixtures and rules of the whole suite; the environment variables are read here and only here.

IDENTIKIT_SEEDS     "0-9" or "0,1,2": the seeds of tests that take `seed` or `rng` (0 by default)
IDENTIKIT_DATA      the folder of real data (by default ../shared/data beside the repository)
IDENTIKIT_LONG=1    run the long modules as well, which only CI does every time
IDENTIKIT_SLOW=1    run the slow tests as well, and the long modules
IDENTIKIT_NO_SKIPS  =1: a skipped test is a failure
CI                  if set, missing data is a failure and not a skip
"""

from __future__ import annotations

import os

# Matrices this small gain nothing from a second thread, and wait for it on a busy machine.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import signal
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

# A failure must come back when the test is run again, and a busy machine is not a failure.
settings.register_profile(
    "identikit",
    derandomize=True,
    database=None,
    deadline=None,
    max_examples=100 if os.environ.get("IDENTIKIT_SLOW") == "1" else 25,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("identikit")


def close(actual: Any, expected: Any, tol: float, scale: float | np.ndarray = 1.0) -> None:
    """Raise unless shapes are equal and ``|actual − expected| <= tol · scale`` everywhere."""
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.shape == expected.shape, f"shape {actual.shape}, expected {expected.shape}"
    gap = np.abs(actual - expected)
    # Written so that a NaN fails.
    good = gap <= tol * np.asarray(scale)
    assert np.all(good), f"off by {np.max(gap)} (allowed {tol} × scale): {actual} != {expected}"


#: Seconds after which something that should happen is taken to hang: no limit on a slow machine.
HANGS = 1800


def remarks(standard_error: str) -> str:
    """Standard error without the lines of progress, which a slow machine has more of."""
    lines = standard_error.splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith("progress: "))


@pytest.fixture(autouse=True, scope="session")
def _no_progress_lines() -> None:
    """Verbs that are run in this process say the same however long they take."""
    from identikit.cli import _progress

    _progress.EVERY = 1e6


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Ctrl-C as a job in the foreground has it, for this process and those that a test starts.

    A job in the background (``nohup make test &`` in a script) ignores it, and so do its children.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def parse_seeds(text: str) -> list[int]:
    """Seeds of "0-9" (both ends) or "0,1,2"."""
    if "-" in text:
        first, last = text.split("-")
        return list(range(int(first), int(last) + 1))
    return [int(part) for part in text.split(",")]


@pytest.fixture(params=parse_seeds(os.environ.get("IDENTIKIT_SEEDS", "0")))
def seed(request: pytest.FixtureRequest) -> int:
    return request.param


@pytest.fixture
def rng(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of real data."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("IDENTIKIT_DATA", beside))
    if not folder.is_dir():
        reason = f"no real data in {folder}; set IDENTIKIT_DATA to its folder"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return folder


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave slow tests out, but for those marked ``slow(sample=True)``, and long modules."""
    if os.environ.get("IDENTIKIT_SLOW") == "1":
        return
    long = os.environ.get("IDENTIKIT_LONG") == "1"
    kept, left_out = list[pytest.Item](), list[pytest.Item]()
    for item in items:
        out = _is_slow(item) or not (long or item.get_closest_marker("long") is None)
        (left_out if out else kept).append(item)
    config.hook.pytest_deselected(items=left_out)
    items[:] = kept


def _is_slow(item: pytest.Item) -> bool:
    # The nearest mark decides: a test's own comes before its module's.
    mark = item.get_closest_marker("slow")
    return mark is not None and not mark.kwargs.get("sample", False)


def _skips_fail() -> bool:
    return os.environ.get("IDENTIKIT_NO_SKIPS") == "1"


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    # An expected failure reports itself as skipped too, with `wasxfail`.
    if _skips_fail() and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome, report.longrepr = "failed", f"skipped, and skips fail: {report.longrepr}"
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    if _skips_fail() and report.skipped:
        report.outcome, report.longrepr = "failed", f"skipped, and skips fail: {report.longrepr}"
    return report
