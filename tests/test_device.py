"""Rows summed up where their library keeps them equal rows summed up by NumPy.

array_api_strict refuses all that the standard does not promise. There is no CuPy and no graphics
card here: PyTorch's tensors are on the CPU, and reach the device's way through their source.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import identikit as ik
from conftest import close
from identikit.errors import InputError, MissingExtraError
from identikit.moments import _device, accumulate, assign_folds, read_moments
from identikit.sources import open_source, open_sources
from identikit.sources.device import DeviceSource, lives_elsewhere, on_one_device

pytestmark = pytest.mark.long

EXACT = 1e-10


@dataclass
class OnDevice:
    """A recipe that opens an array of any kind as one on a device."""

    array: Any

    def open_source(self, name):
        return DeviceSource(self.array, name)


@pytest.fixture(params=["torch", "array_api_strict"])
def backend(request):
    """Sends a NumPy array to a library, as a view that this library sums up."""
    xp = pytest.importorskip(request.param)
    if request.param == "torch":
        pytest.importorskip("array_api_compat")
        return lambda array: OnDevice(xp.tensor(np.asarray(array)))
    return lambda array: xp.asarray(np.array(array))


@pytest.fixture
def strict():
    return pytest.importorskip("array_api_strict")


@pytest.fixture
def torch():
    pytest.importorskip("array_api_compat")
    return pytest.importorskip("torch")


@pytest.fixture
def host_only(monkeypatch):
    """Whoever sums up on a device now fails."""

    def refuse(*_):
        raise AssertionError("a scan on the device")

    monkeypatch.setattr(_device.DeviceScan, "run", refuse)


@pytest.fixture
def device_only(monkeypatch):
    """Whoever reads whole blocks of a device's rows after it was opened now fails."""

    def refuse(source, start, stop, read=DeviceSource.read):
        assert (start, stop) == (0, 1), "rows were brought to the host"
        return read(source, start, stop)

    monkeypatch.setattr(DeviceSource, "read", refuse)


def assert_same_parts(found, expected):
    """Equal counts, and means, scatter, cubic and quartic sums on their natural scales."""
    assert found.layout.widths == expected.layout.widths
    assert found.layout.roots is expected.layout.roots, "the coordinates differ"
    assert (found.folds, found.dropped, found.eps) == (
        expected.folds,
        expected.dropped,
        expected.eps,
    )
    for a, b in zip(found.parts, expected.parts, strict=True):
        assert a.count == b.count
        if not b.count:
            continue
        spread, size = np.sqrt(np.diagonal(b.scatter)), np.sqrt(np.diagonal(b.quartic))
        # A column that hardly varies keeps only the digits that its mean leaves it.
        floor = 1e-5 * (np.abs(b.mean) + spread.max())
        spread = np.maximum(spread, floor)
        size = np.maximum(size, [np.max(floor[c]) ** 2 for c in expected.layout.columns])
        close(a.mean, b.mean, EXACT, np.maximum(np.abs(b.mean), spread / np.sqrt(b.count)))
        close(a.scatter, b.scatter, EXACT, np.outer(spread, spread))
        close(a.cubic, b.cubic, EXACT, np.outer(size, spread))
        close(a.quartic, b.quartic, EXACT, np.outer(size, size))
    np.testing.assert_array_equal(found.sample.keys, expected.sample.keys)
    np.testing.assert_array_equal(found.sample.rows, expected.sample.rows)


KINDS = {
    "plain": lambda rng: [rng.normal(size=(700, 5)), rng.normal(size=(700, 3))],
    "one view": lambda rng: [rng.normal(size=(700, 4)) - 50],
    "three views of different types": lambda rng: [
        rng.normal(size=(700, 4)).astype(np.float32),
        rng.integers(-9, 9, size=(700, 3)),
        rng.normal(size=(700, 2)) > 0,
    ],
    "huge mean": lambda rng: [
        (1e4 + rng.normal(size=(700, 4))).astype(np.float32),
        (rng.normal(size=(700, 3)) - 1e4).astype(np.float32),
    ],
    "trend": lambda rng: [
        rng.normal(size=(700, 3)) + np.linspace(0, 1000, 700)[:, None],
        rng.normal(size=(700, 2)),
    ],
    "steps": lambda rng: [
        1e-2 * rng.normal(size=(700, 3)) + 100 * np.repeat(rng.normal(size=(7, 3)), 100, axis=0),
        rng.normal(size=(700, 2)),
    ],
    "first block constant": lambda rng: [
        np.concatenate([np.full((50, 3), 7.0), rng.normal(size=(650, 3))]),
        rng.normal(size=(700, 2)),
    ],
}


@pytest.mark.parametrize("block_rows", [1, 50, None])
@pytest.mark.parametrize("kind", KINDS)
def test_the_device_equals_numpy(backend, device_only, rng, kind, block_rows):
    views = KINDS[kind](rng)
    if block_rows == 1:
        views = [view[::7] for view in views]
    options = {"folds": 3, "block_rows": block_rows, "sample": 40}
    expected = accumulate(views, **options)
    assert_same_parts(accumulate([backend(view) for view in views], **options), expected)


def test_a_huge_mean_in_float32_is_exact(backend, rng):
    """Against sums in extended precision, not against NumPy's way of doing the same."""
    X = (1e4 + rng.normal(size=(3000, 4))).astype(np.float32)
    moments = accumulate([backend(X)], folds=4, block_rows=200)
    centred = X.astype(np.longdouble) - X.astype(np.longdouble).mean(axis=0)
    close(moments.block(0, 0), centred.T @ centred, EXACT, 3000)
    norms = (centred**2).sum(axis=1)
    close(moments.norm_products(), [[norms @ norms]], EXACT, norms @ norms)


@pytest.mark.parametrize("kind", ["trend", "steps", "first block constant"])
def test_a_new_pivot_is_taken_when_numpy_would_take_one(backend, rng, monkeypatch, kind):
    """Sums about a pivot far off lose digits, but on few rows no more than a test can see."""
    counts = []

    def count(segment, part=_device.Segment.part):
        found = part(segment)
        counts.append(found.count)
        return found

    views = KINDS[kind](rng)
    monkeypatch.setattr(_device.Segment, "part", count)
    accumulate(views, folds=2, block_rows=50)
    expected, counts[:] = counts.copy(), []
    accumulate([backend(view) for view in views], folds=2, block_rows=50)
    assert counts == expected
    assert len(counts) > 2


def test_groups_of_scattered_rows(backend, device_only, rng):
    views, groups = KINDS["plain"](rng), rng.integers(0, 40, size=700)
    options = {"folds": 4, "groups": groups, "block_rows": 90}
    expected = accumulate(views, **options)
    assert_same_parts(accumulate([backend(view) for view in views], **options), expected)


def test_some_rows_are_in_no_fold(backend, rng):
    views, keep = KINDS["plain"](rng), rng.random(700) > 0.3
    folds = assign_folds(700, 3).only(keep)
    found = read_moments(open_sources([backend(view) for view in views]), folds)
    assert found.rows == np.count_nonzero(keep)
    assert_same_parts(found, read_moments(open_sources(views), folds))


def test_only_a_few_rows_leave_the_device(backend, rng, monkeypatch):
    rows, width = 20_000, 6
    moved = []

    def count(array, to_numpy=_device.to_numpy):
        host = to_numpy(array)
        moved.append(host.size)
        return host

    monkeypatch.setattr(_device, "to_numpy", count)
    views = [backend(5 + rng.normal(size=(rows, width))) for _ in range(2)]
    moments = accumulate(views, folds=2, sample=100, block_rows=5000)
    assert moments.rows == rows
    assert 0 < sum(moved) < 0.15 * rows * 2 * width


def test_the_largest_rows_come_from_the_device(backend, rng):
    X, Y = rng.normal(size=(2, 3000, 4)) + 5
    X[[7, 2999]] = 1e3
    kept = accumulate([backend(X), backend(Y)], block_rows=500).extremes
    assert kept.numbers[kept.rows[:, 0] == 1e3].tolist() == [7, 2999]


def test_progress_counts_rows_to_the_end(backend, rng):
    calls = []
    accumulate(
        [backend(rng.normal(size=(50, 2)))],
        block_rows=20,
        progress=lambda _, done, rows: calls.append((done, rows)),
    )
    assert calls == [(20, 50), (40, 50), (50, 50)]


# Ill-conditioned views.


def ill_conditioned(rng, rows, width=6, condition=1e6):
    turn = np.linalg.qr(rng.normal(size=(width, width)))[0]
    return rng.normal(size=(rows, width)) * np.logspace(0, -np.log10(condition), width) @ turn


def test_an_ill_conditioned_view_keeps_its_digits(backend, device_only, rng):
    X = ill_conditioned(rng, 900)
    Y = X @ rng.normal(size=(6, 6)) + 1e-3 * rng.normal(size=(900, 6))
    moments = accumulate([backend(X), backend(Y)], block_rows=128)
    assert moments.layout.roots is not None
    bases = [np.linalg.qr(view - view.mean(axis=0))[0] for view in (X, Y)]
    expected = np.linalg.svd(bases[0].T @ bases[1], compute_uv=False)
    close(ik.cca(moments).correlations, expected, 1e-8)


def test_other_coordinates_are_those_that_were_asked_for(backend, rng):
    views = [ill_conditioned(rng, 400) + 3, rng.normal(size=(400, 2))]
    layout = accumulate(views).layout
    assert layout.roots is not None
    for turn in layout.inverses:
        turn.flags.writeable = False  # as they come from another process
    reading = _device.Reading(assign_folds(400, 3), layout, 64)
    found = _device.DeviceScan(open_sources([backend(view) for view in views]), reading)
    expected = _device.Scan(open_sources(views), reading)
    assert_same_parts(*(each.run(0, 400, None).moments for each in (found, expected)))


# What is not finite.


def test_rows_that_are_not_finite_raise_the_same_sentence_or_are_dropped(backend, rng):
    X, Y = rng.normal(size=(300, 3)), rng.normal(size=(300, 2)).astype(np.float32)
    X[70, 2], Y[40, 0], Y[70, 1], Y[299, 1] = np.nan, np.inf, np.nan, -np.inf
    X[100:150] = np.nan
    sentences = []
    for views in ([X, Y], [backend(X), backend(Y)]):
        with pytest.raises(InputError) as caught:
            accumulate(views, names=["old", "new"], block_rows=50)
        sentences.append(str(caught.value))
    assert sentences[0] == sentences[1]
    assert "view 'old' has NaN or infinity in 51 of 300 rows, the first is row 70" in sentences[1]
    for block_rows in (1, 50, None):
        options = {"drop_nonfinite": True, "block_rows": block_rows, "folds": 3}
        found = accumulate([backend(X), backend(Y)], **options)
        assert found.dropped == 53
        assert_same_parts(found, accumulate([X, Y], **options))


def test_no_finite_row_at_all(backend):
    views = [np.full((6, 2), np.nan), np.ones((6, 2))]
    found = accumulate([backend(view) for view in views], drop_nonfinite=True)
    assert (found.rows, found.dropped) == (0, 6)


def test_squares_that_overflow_are_met_in_other_units(backend, rng):
    X = rng.normal(size=(20, 2)) * 1e200
    found, expected = accumulate([backend(X)]), accumulate([X])
    assert found.exponents == expected.exponents != (0,)
    assert_same_parts(found, expected)


# Types.


@pytest.mark.parametrize(("kind", "eps"), [("float16", 2.0**-10), ("bfloat16", 2.0**-8)])
def test_half_precision_is_summed_in_double(torch, rng, kind, eps):
    tensors = [
        torch.tensor(rng.normal(size=(500, width)) + 20, dtype=getattr(torch, kind))
        for width in (4, 3)
    ]
    found = accumulate([OnDevice(tensor) for tensor in tensors], block_rows=100)
    assert found.eps == (eps, eps)
    assert_same_parts(found, accumulate(tensors, block_rows=100))
    stored = [tensor.double().numpy().astype(np.longdouble) for tensor in tensors]
    left, right = (view - view.mean(axis=0) for view in stored)
    close(found.block(0, 1), left.T @ right, EXACT, 500)


def test_a_tensor_that_is_being_trained(torch, rng):
    X = rng.normal(size=(60, 3))
    tensor = torch.tensor(X, requires_grad=True)
    source = open_source(OnDevice(tensor))
    assert not source.block(0, 10).requires_grad
    assert tensor.requires_grad
    assert_same_parts(accumulate([OnDevice(tensor)]), accumulate([X]))


def test_what_is_read_is_as_stored_and_read_only(backend, rng):
    X = rng.normal(size=(30, 3)).astype(np.float32)
    source = open_source(backend(X), "x")
    assert (source.name, source.rows, source.width, source.eps) == ("x", 30, 3, 2.0**-23)
    block = source.read(7, 20)
    assert isinstance(block, np.ndarray)
    assert block.dtype == np.float32
    np.testing.assert_array_equal(block, X[7:20])
    with pytest.raises(ValueError, match="read-only"):
        block[0, 0] = 1.0
    np.testing.assert_array_equal(open_source(source.origin).read(0, 30), X)
    source.close()
    source.close()


def test_digests_are_those_of_the_same_numbers_elsewhere(backend, rng):
    views = [rng.normal(size=(2500, 3)).astype(np.float32), rng.normal(size=(2500, 2))]
    folds = assign_folds(2500, 2)
    found, expected = (
        read_moments(open_sources(which), folds, digest=True, block_rows=600)
        for which in ([backend(view) for view in views], views)
    )
    assert found.shards == expected.shards
    assert len(found.shards[0].digests) == 2
    assert_same_parts(found, expected)


# Which way is taken.


def test_a_tensor_on_the_cpu_and_an_array_of_numpy_stay_with_numpy(torch, host_only, rng):
    X = rng.normal(size=(40, 3))
    assert not lives_elsewhere(X)
    assert not lives_elsewhere(X[0, 0])
    assert not lives_elsewhere([[1.0]])
    assert not lives_elsewhere(torch.tensor(X))
    assert accumulate([torch.tensor(X), X]).rows == 40


def test_views_in_different_places_are_brought_together_by_numpy(strict, host_only, rng):
    X, Y = rng.normal(size=(60, 3)), rng.normal(size=(60, 2))
    one, two = (strict.asarray(view, device=strict.Device("device1")) for view in (X, Y))
    expected = accumulate([X, Y])
    assert_same_parts(accumulate([one, Y]), expected)
    assert_same_parts(accumulate([X, strict.asarray(Y)]), expected)
    assert_same_parts(accumulate([one, strict.asarray(Y)]), expected)
    with pytest.raises(AssertionError, match="a scan on the device"):
        accumulate([one, two])


def test_views_of_two_libraries_are_brought_together_by_numpy(strict, torch, host_only, rng):
    X, Y = rng.normal(size=(60, 3)), rng.normal(size=(60, 2))
    views = [strict.asarray(X), OnDevice(torch.tensor(Y))]
    assert_same_parts(accumulate(views), accumulate([X, Y]))
    sources = open_sources(views)
    for source in sources:
        source.device = "cpu"  # they may use one word for it
    assert on_one_device(sources) == []
    assert on_one_device(sources[:1]) == sources[:1]


def test_a_device_that_is_not_the_default_one(strict, device_only, rng):
    views, there = KINDS["huge mean"](rng), strict.Device("device2")
    found = accumulate([strict.asarray(view, device=there) for view in views], block_rows=100)
    assert_same_parts(found, accumulate(views, block_rows=100))


@pytest.mark.parametrize("device", ["no_float64", "no_x64"])
def test_a_device_without_float64_leaves_the_sums_to_the_host(strict, host_only, rng, device):
    X = (1e4 + rng.normal(size=(60, 3))).astype(np.float32)
    view = strict.asarray(X, device=strict.Device(device))
    assert_same_parts(accumulate([view, view]), accumulate([X, X]))


def test_nothing_depends_on_shapes_that_only_the_data_tell(strict, rng):
    X = rng.normal(size=(100, 3))
    X[30] = np.nan
    with strict.ArrayAPIStrictFlags(boolean_indexing=False, data_dependent_shapes=False):
        found = accumulate(
            [strict.asarray(X)], groups=np.arange(100) % 20, drop_nonfinite=True, block_rows=7
        )
    assert found.rows == 99


# End to end.


def test_an_audit_of_arrays_on_a_device(backend, rng):
    X = rng.normal(size=(400, 4))
    Y = X @ np.linalg.qr(rng.normal(size=(4, 4)))[0] + 0.01 * rng.normal(size=(400, 4)) + 30
    found, expected = ik.audit([backend(X), backend(Y)]), ik.audit([X, Y])
    assert found.verdict.group == expected.verdict.group == "rigid"
    close(found.verdict.error, expected.verdict.error, 1e-9)
    close(found.verdict.interval, expected.verdict.interval, 1e-9)
    close(found.pairs["cca_mean"], expected.pairs["cca_mean"], 1e-9)


NUMPY_ONLY = """
import sys
import numpy as np
import identikit as ik
X = np.random.default_rng(0).normal(size=(100, 3))
ik.audit([X, X])
print([name for name in ("torch", "cupy", "array_api_compat") if name in sys.modules])
"""


def test_numpy_alone_loads_no_other_library():
    run = subprocess.run(
        [sys.executable, "-c", NUMPY_ONLY],
        env=os.environ,
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.strip() == "[]"


# What does not do.


def test_without_array_api_compat_the_pip_line_is_said(torch, monkeypatch):
    monkeypatch.setitem(sys.modules, "array_api_compat", None)
    with pytest.raises(MissingExtraError, match=r"a Tensor on cpu .*pip install 'identikit\[gpu\]"):
        DeviceSource(torch.zeros(3, 2), "x")


def test_a_tensor_without_values_is_refused(torch):
    tensor = torch.zeros((3, 2), device="meta")
    assert lives_elsewhere(tensor)
    with pytest.raises(InputError, match=r"'x' is a Tensor of dtype torch\.float32 on meta"):
        open_source(tensor, "x")


def test_a_sparse_tensor_is_refused(torch):
    with pytest.raises(InputError, match=r"on cpu, .* expected a dense array"):
        DeviceSource(torch.eye(3).to_sparse(), "x")


def test_shapes_and_types_are_checked_as_anywhere(strict, torch):
    with pytest.raises(InputError, match="view 'x' is 1-D"):
        open_source(strict.ones(3), "x")
    with pytest.raises(InputError, match="view 'x' has no rows"):
        open_source(strict.ones((0, 3)), "x")
    with pytest.raises(InputError, match="view 'x' has dtype complex128"):
        open_source(strict.ones((3, 2), dtype=strict.complex128), "x")
    with pytest.raises(InputError, match="view 'x' has dtype complex64"):
        DeviceSource(torch.ones((3, 2), dtype=torch.complex64), "x")
    with pytest.raises(InputError, match="expected a list of views, got one Array"):
        open_sources(strict.ones((3, 2)))
