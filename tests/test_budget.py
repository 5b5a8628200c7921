"""Compressed files and the memory: streamed, unpacked onto the disk, or refused by the budget."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from identikit.axes import match_components
from identikit.cli import app
from identikit.errors import InputError
from identikit.factors import disentangle
from identikit.family import SoftmaxModel
from identikit.sources import memory, open_source, read_labels
from identikit.sources.whole import read_array


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def small_machine(monkeypatch):
    """A machine of 2 MB, half of which may be used."""
    monkeypatch.setattr(memory, "default_memory", lambda: 10**6)


def trap(rows=10**5, width=20):
    """Zeros: a thousand times as large as the file."""
    zeros = np.zeros((rows, width))
    np.savez_compressed("trap.npz", f=zeros, g=zeros[:30], e=zeros)
    return zeros


def test_whole_reads_are_refused_by_the_budget(small_machine):
    trap()
    words = r"holds 2,000,000 numbers, .* take 64.0 MB .* the budget is 1.0 MB: give fewer rows"
    for call in (
        lambda: SoftmaxModel.load("trap.npz"),
        lambda: disentangle("trap.npz::e", np.zeros((10**5, 2))),
        lambda: disentangle(np.zeros((10**3, 2)), "trap.npz::e"),
        lambda: match_components(["trap.npz::e", "trap.npz::e"]),
        lambda: read_labels("trap.npz::e"),
        lambda: read_array(Path("trap.npz"), "e", "the array"),
    ):
        with pytest.raises(InputError, match=words):
            call()
    with pytest.raises(InputError, match=r"the budget is 7\.0 MB"):
        SoftmaxModel.load("trap.npz", memory=7 * 10**6)


def test_models_have_a_budget():
    trap()
    rng = np.random.default_rng(0)
    np.savez("fine.npz", f=rng.normal(size=(60, 3)), g=rng.normal(size=(7, 3)))
    result = CliRunner().invoke(app, ["models", "fine.npz", "trap.npz", "--memory", "20MB"])
    assert result.exit_code == 2
    assert "view 'trap::f' holds 2,000,000 numbers" in result.stderr
    assert "the budget is 10.0 MB" in result.stderr  # of two models, each has half
    fine = ["models", "fine.npz", "fine.npz", "--memory", "20MB", "--json", "-q"]
    assert json.loads(CliRunner().invoke(app, fine).stdout)["pairs"]


@pytest.mark.parametrize("order", ["C", "F"])
def test_views_are_read_in_blocks_whatever_they_unpack_to(order, monkeypatch, rng):
    X = np.asarray(rng.normal(size=(3000, 8)), order=order)
    np.savez_compressed("x.npz", e=X)
    monkeypatch.setattr(memory, "IN_MEMORY", 1000)
    with closing(open_source("x.npz")) as source:
        np.testing.assert_array_equal(source.read(0, 3000), X)
        np.testing.assert_array_equal(source.read(17, 170), X[17:170])
    assert sorted(path.name for path in Path().iterdir()) == ["x.npz"]


def test_a_disk_without_room_is_a_sentence(monkeypatch, rng):
    np.savez_compressed("x.npz", e=np.asfortranarray(rng.normal(size=(300, 8))))
    monkeypatch.setattr(memory, "IN_MEMORY", 1000)
    monkeypatch.setattr("tempfile.gettempdir", lambda: "/nonexistent")
    with pytest.raises(InputError, match=r"cannot write temporary files in /nonexistent: .*TMPDIR"):
        open_source("x.npz")


def test_a_damaged_member_in_fortran_order_is_a_sentence(monkeypatch, rng):
    np.savez_compressed("x.npz", e=np.asfortranarray(rng.normal(size=(300, 8))))
    data = bytearray(Path("x.npz").read_bytes())
    data[len(data) // 2] ^= 0xFF
    Path("x.npz").write_bytes(data)
    for limit in (1000, 10**6):
        monkeypatch.setattr(memory, "IN_MEMORY", limit)
        with pytest.raises(InputError, match=r"not a readable \.npz archive"):
            open_source("x.npz")


PEAK = """
import resource, sys
from contextlib import closing
from identikit.sources import open_source
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
with closing(open_source("trap.npz::e")) as source:
    for start in range(0, source.rows, 1000):
        source.read(start, start + 1000)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.parametrize("order", ["C", "F"])
def test_the_peak_is_not_what_it_unpacks_to(order):
    """160 MB in a file of 160 kB, read in the blocks of an audit."""
    zeros = np.zeros((10**5, 200), order=order)
    np.savez_compressed("trap.npz", e=zeros)
    assert Path("trap.npz").stat().st_size < 10**6
    script = PEAK if order == "C" else PEAK.replace("1000", "10000")
    command = [sys.executable, "-c", script]
    peak = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(peak.stdout) < 80_000  # kilobytes; in memory it would be twice as much
