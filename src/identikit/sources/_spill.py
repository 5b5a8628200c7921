"""More records than memory holds: dealt out to buckets on disk, taken up again one at a time."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import DTypeLike, NDArray

from identikit.errors import InputError

Records = NDArray[Any]

#: Of the memory given, a bucket takes up an eighth, since sorting it makes copies, and records that
#: wait to be written another.
SHARE = 8


class Buckets:
    """Records in `count` buckets, in the order in which they came; close it, or use `with`.

    What fits the memory never touches the disk. What does not goes to a file without a name, which
    is gone when the process is, however that ends.

    Parameters
    ----------
    dtype : numpy.dtype
        Of a record.
    count : int
        Number of buckets.
    folder : Path
        Where the file may lie.
    memory : int
        Bytes.
    """

    def __init__(self, dtype: np.dtype[Any], count: int, folder: Path, memory: int) -> None:
        self.count = count
        self._dtype, self._folder, self._room = dtype, folder, memory // SHARE
        self._waiting: list[tuple[Records, NDArray[np.intp]]] = []
        self._weight = 0
        self._file: IO[bytes] | None = None
        # Of every portion that was dealt out: where in the file it starts, or the records
        # themselves, and where in it every bucket starts and the last one ends.
        self._portions: list[tuple[int | Records, NDArray[np.intp]]] = []

    def __enter__(self) -> Buckets:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            self._file.close()

    def add(self, records: Records, buckets: NDArray[np.intp]) -> None:
        """Add records, each to the bucket that is named beside it."""
        self._waiting.append((records, buckets))
        self._weight += records.nbytes
        if self._weight > self._room:
            self._deal(on_disk=True)

    def size(self, bucket: int) -> int:
        """Number of records in a bucket."""
        self._deal(on_disk=False)
        return sum(int(ends[bucket + 1] - ends[bucket]) for _, ends in self._portions)

    def take(self, bucket: int, most: int | None = None) -> Records:
        """The records of a bucket, or the first so many of them."""
        size = self.size(bucket)
        found = np.empty(size if most is None else min(size, most), self._dtype)
        done = 0
        for where, ends in self._portions:
            start, stop = int(ends[bucket]), int(ends[bucket + 1])
            stop = min(stop, start + len(found) - done)
            if start == stop:
                continue
            part = found[done : done + stop - start]
            if isinstance(where, int):
                assert self._file is not None
                self._file.seek(where + start * self._dtype.itemsize)
                data = self._file.read(part.nbytes)
                part[...] = np.frombuffer(data, self._dtype)
            else:
                part[...] = where[start:stop]
            done += len(part)
        return found

    def _deal(self, *, on_disk: bool) -> None:
        if not self._waiting:
            return
        records = np.concatenate([records for records, _ in self._waiting])
        buckets = np.concatenate([buckets for _, buckets in self._waiting])
        self._waiting, self._weight = [], 0
        ends = np.concatenate([[0], np.cumsum(np.bincount(buckets, minlength=self.count))])
        records = records[np.argsort(buckets, kind="stable")]
        where: int | Records = records
        if on_disk:
            with writing(self._folder):
                if self._file is None:
                    self._file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115
                where = self._file.seek(0, 2)
                self._file.write(records.view(np.uint8).data)
                self._file.flush()
        self._portions.append((where, ends))


class Sorter:
    """Pairs of a whole number and a value, given in any order, taken up by that number.

    Parameters
    ----------
    value : dtype
        Of a value.
    shape : tuple of int
        Shape of a value.
    top : int
        The numbers lie below it, and no two are equal.
    folder : Path
        Where the file may lie.
    memory : int
        Bytes.

    Examples
    --------
    >>> with Sorter("U1", (), 100, Path(), 100_000) as sorter:
    ...     sorter.add(np.array([70, 3, 99]), np.array(["b", "a", "c"]))
    ...     print([block["value"].tolist() for block in sorter])
    [['a', 'b', 'c']]
    """

    def __init__(
        self, value: DTypeLike, shape: tuple[int, ...], top: int, folder: Path, memory: int
    ) -> None:
        self._dtype = np.dtype([("key", np.int64), ("value", value, shape)])
        self._top = top
        count = -(-top * self._dtype.itemsize * SHARE // memory)
        self._buckets = Buckets(self._dtype, count, folder, memory)

    def __enter__(self) -> Sorter:
        return self

    def __exit__(self, *_: object) -> None:
        self._buckets.close()

    def add(self, keys: NDArray[np.int64], values: NDArray[Any]) -> None:
        """Add numbers and their values."""
        records = np.empty(len(keys), self._dtype)
        records["key"], records["value"] = keys, values
        self._buckets.add(records, keys * self._buckets.count // self._top)

    def __iter__(self) -> Iterator[Records]:
        for bucket in range(self._buckets.count):
            records = self._buckets.take(bucket)
            if len(records):
                yield records[np.argsort(records["key"])]


def write_header(file: IO[bytes], shape: tuple[int, int], dtype: np.dtype[Any]) -> None:
    """Begin a .npy file, whose rows follow one after the other."""
    descr = npy.dtype_to_descr(dtype)
    npy.write_array_header_1_0(file, {"descr": descr, "fortran_order": False, "shape": shape})


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Say what to do if a temporary file cannot be written."""
    try:
        yield
    except OSError as error:
        raise InputError(
            f"cannot write temporary files in {folder}: {error.strerror or error}; set TMPDIR to "
            "a folder with room for the views whose rows have to be put in order"
        ) from error
