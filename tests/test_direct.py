"""Blocks straight from the disk: the same bytes, whatever the cache holds and wherever they lie."""

import os
from pathlib import Path

import numpy as np
import pytest

import identikit as ik
from identikit.errors import InputError
from identikit.sources import _direct, open_source
from identikit.sources._direct import ALIGNED, Disk, aligned

ROWS = 5000


def forget(path: Path) -> None:
    """Have the system write the file out, and drop it from its cache."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "x.npy"
    np.save(path, np.random.default_rng(0).normal(size=(ROWS, 7)).astype(np.float32))
    return path


def fresh(size: int) -> np.ndarray:
    return np.full(size, 255, np.uint8)


@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize(
    ("place", "size"),
    [(0, 1), (0, ALIGNED), (128, 3 * ALIGNED), (ALIGNED - 1, 2), (5000, 9999), (139_000, 1128)],
)
def test_the_bytes_of_a_range(file: Path, cached: bool, place: int, size: int):
    if not cached:
        forget(file)
    whole = file.read_bytes()
    with file.open("rb", buffering=0) as stream:
        disk = Disk(stream)
        found = disk.read(place, size, fresh)
        disk.close()
    if found is None:  # this file system has no such reads
        pytest.skip("no O_DIRECT here")
    assert found.tobytes() == whole[place : place + size]


def test_a_range_that_ends_after_the_file_is_cut(file: Path):
    whole = file.read_bytes()
    for past in (0, 1, ALIGNED, 3 * ALIGNED):
        forget(file)
        with file.open("rb", buffering=0) as stream:
            disk = Disk(stream)
            found = disk.read(len(whole) - 100 + past, 200, fresh)
            disk.close()
        if found is not None:
            assert found.tobytes() == whole[len(whole) - 100 + past :]


def test_memory_is_aligned():
    for lead in (0, 1, 16, 4095):
        some = aligned(np.empty(3 * ALIGNED, np.uint8)[lead:])
        assert some.ctypes.data % ALIGNED == 0
        assert some.size > ALIGNED


@pytest.mark.parametrize("cached", [True, False])
def test_borrowed_rows_are_the_rows(file: Path, cached: bool):
    X = np.load(file)
    if not cached:
        forget(file)
    source = open_source(file)
    for calls in (1, 3):
        blocks = [source.borrow(start, start + 512, calls) for start in range(0, 512 * calls, 512)]
        for number, block in enumerate(blocks):
            np.testing.assert_array_equal(block, X[512 * number : 512 * (number + 1)])
    source.close()


def test_where_there_are_no_such_reads_rows_come_through_the_cache(file: Path, monkeypatch):
    expected = ik.accumulate([file])
    monkeypatch.delattr(_direct.os, "O_DIRECT", raising=False)
    plain = ik.accumulate([file])
    np.testing.assert_array_equal(plain.block(0, 0), expected.block(0, 0))


def test_a_disk_that_refuses_is_asked_no_more(file: Path, monkeypatch):
    X = np.load(file)
    source = open_source(file)

    def refuse(*_: object) -> int:
        raise OSError("no")

    monkeypatch.setattr(_direct.os, "preadv", refuse)
    np.testing.assert_array_equal(source.borrow(10, 900, 1), X[10:900])
    monkeypatch.undo()
    assert not source.waits(0)
    source.close()


def test_a_file_that_shrinks_is_an_error(file: Path):
    source = open_source(file)
    os.truncate(file, 60_000)
    with pytest.raises(InputError, match=r"expected \d+ bytes, found \d+"):
        source.borrow(0, ROWS, 1)
    source.close()
