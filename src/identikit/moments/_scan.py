"""The only loop over rows, which turns blocks of stacked views into Moments."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identikit._linalg import Array
from identikit.errors import InputError
from identikit.moments._distinct import DistinctKeeper
from identikit.moments._extremes import ExtremesKeeper, Numbers
from identikit.moments._folds import Chosen, Folds
from identikit.moments._moments import Moments
from identikit.moments._part import Part, Segment, StackLayout, augmented_width, merge
from identikit.moments._sizes import too_large
from identikit.moments.memory import NARROW, PIECE_ROWS
from identikit.moments.sample import SampleKeeper
from identikit.sources import Source
from identikit.sources.device import on_one_device

Blocks = Generator[tuple[int, list[Any], list[int]]]

#: Number of rows per digest. Ranges of rows and blocks start at multiples of it.
CHUNK_ROWS = 1024

#: Bytes of a view's rows that fit into one core's cache while they are converted.
CACHE_BYTES = 2**19

#: Bytes of stacked rows that are summed at a time if they are no wider than `NARROW`. For narrow
#: rows BLAS is as fast on small pieces, which stay in the cache.
PIECE_BYTES = 5 * 2**19

#: The number of rows from which a typical row can be estimated.
TYPICAL = 64

#: Squared norms of rows must be below this, so that no sum of their products overflows.
LARGEST = 2.0**490


class NonfiniteError(InputError):
    """A row holds NaN or infinity; the caller, which has all views open, reports which."""


@dataclass(frozen=True, eq=False)
class Reading:
    """How rows are read: the settings that a worker needs in addition to the views and the range.

    There are `step` rows per block; `seed` and `sample` are those of the row sample. With `ahead`,
    the next block is read in a separate thread while the current one is being summed.
    """

    folds: Folds
    layout: StackLayout
    step: int
    seed: int = 0
    sample: int = 1000
    drop_nonfinite: bool = False
    digest: bool = False
    ahead: bool = True


@dataclass(frozen=True, eq=False)
class Summed:
    """The moments of some rows and, if requested, one digest per view; ``a + b`` merges two.

    A digest is the sum, modulo 2¹²⁸, of the hashes of chunks of rows, each keyed by its number, so
    that it does not depend on how rows were divided among workers.
    """

    moments: Moments
    digests: tuple[int, ...]

    def __add__(self, other: Summed) -> Summed:
        both = zip(self.digests, other.digests)
        return Summed(self.moments + other.moments, tuple((a + b) % 2**128 for a, b in both))


def scan(
    sources: Sequence[Source],
    reading: Reading,
    start: int,
    stop: int,
    count: Callable[[int], None] | None = None,
) -> Summed:
    """Read rows `start` to `stop` once; `count` is called with the number of rows read so far."""
    together = on_one_device(sources)
    if together:
        from identikit.moments._device import DeviceScan

        return DeviceScan(together, reading).run(start, stop, count)
    return Scan(sources, reading).run(start, stop, count)


class Scan:
    """One reading of a range of rows, and its sums so far.

    Methods with an underscore are the same wherever the rows are. The methods without an underscore
    do the arithmetic with NumPy and BLAS; `DeviceScan` overrides them.
    """

    def __init__(self, sources: Sequence[Source], reading: Reading) -> None:
        layout = reading.layout
        self.sources, self.reading, self.layout = sources, reading, layout
        self.keeper, self.dropped = (
            SampleKeeper(reading.sample, reading.seed, layout.width, reading.folds.rows),
            0,
        )
        # Without a sample no rows may be kept at all.
        self.extremes = ExtremesKeeper(reading.folds.rows, layout) if reading.sample else None
        self.settled = False
        self.distinct: DistinctKeeper | None = DistinctKeeper(len(layout.widths))
        self.left_out: list[Numbers] = []
        self.rooms: list[NDArray[Any]] = []
        self.origin = np.zeros(layout.width)
        self.parts = [Part.empty(layout) for _ in range(reading.folds.count)]
        self.segments: dict[int, Segment] = {}
        self.piece = piece_rows(layout, reading.step)
        narrow = layout.width <= NARROW
        self.chunk = self.piece if narrow else max(1, CACHE_BYTES // (8 * max(layout.widths)))

    def run(self, start: int, stop: int, count: Callable[[int], None] | None) -> Summed:
        """Read every block of a range."""
        folds, digests = self.reading.folds, [0] * len(self.sources)
        last = folds.last_rows(start, stop)
        # `_add_piece` deals with squares that overflow and norms that are NaN.
        quiet = np.errstate(over="ignore", invalid="ignore")
        with closing(self.blocks(start, stop)) as blocks, quiet:
            for first, views, hashes in blocks:
                after = first + views[0].shape[0]
                numbers = np.arange(first, after)
                for fold, chosen in folds.split(first, after):
                    self._add(fold, numbers[chosen], self.gather(views, chosen))
                    if last[fold] < after and fold in self.segments:
                        self._flush(fold)
                self._keep_some(first, after, views)
                self._count(first, after, views)
                digests = [(a + b) % 2**128 for a, b in zip(digests, hashes)]
                if count is not None:
                    count(after - start)
        return Summed(
            Moments(
                tuple(source.name for source in self.sources),
                tuple(source.eps for source in self.sources),
                self.layout,
                tuple(self.parts),
                self.keeper.sample(),
                self.dropped,
                extremes=None if self.extremes is None else self.extremes.extremes(),
                distinct=None if self.distinct is None else self.distinct.distinct(),
                exponents=tuple(getattr(source, "exponent", 0) for source in self.sources),
            ),
            tuple(digests) if self.reading.digest else (),
        )

    def _flush(self, fold: int) -> None:
        part = self.segments.pop(fold).part()
        self.parts[fold] = merge(self.parts[fold], part, self.layout)

    def _keep_some(self, first: int, after: int, views: list[Any]) -> None:
        """Keep the rows of a block that may belong to the sample."""
        numbers, keys = self.keeper.candidates(first, after)
        if self.reading.folds.labels is not None:
            taking_part = self.reading.folds.of(first, after)[numbers - first] >= 0
            numbers, keys = numbers[taking_part], keys[taking_part]
        if len(numbers):
            rows = self._rows(self.take(views, numbers - first))
            finite = np.isfinite(rows).all(axis=1)
            self.keeper.keep(keys[finite], rows[finite])

    def _rows(self, views: list[Any]) -> Array:
        """A few rows, stacked."""
        return np.concatenate([self.numbers(view) for view in views], axis=1)

    def _add(self, fold: int, numbers: Numbers, views: list[Any]) -> None:
        """Add rows of one fold, given view by view, in pieces that fit into the cache."""
        count = views[0].shape[0]
        for start in range(0, count, self.piece):
            some = slice(start, min(start + self.piece, count))
            self._add_piece(fold, numbers[some], self.take(views, some))

    def _count(self, first: int, after: int, views: list[Any]) -> None:
        """Count the distinct rows of a block, except those that are left out."""
        left_out, self.left_out = self.left_out, []
        if self.distinct is None:
            return
        counted = np.ones(after - first, dtype=bool)
        if self.reading.folds.labels is not None:
            counted = self.reading.folds.of(first, after) >= 0
        for numbers in left_out:
            counted[numbers - first] = False
        self.distinct.add(views if counted.all() else self.take(views, np.flatnonzero(counted)))

    def _keep_largest(
        self, fold: int, numbers: Numbers, views: list[Any], norms: Any, peaks: Array
    ) -> None:
        """Keep the rows that are among the largest."""
        keeper = self.extremes
        if keeper is None:
            return
        if len(numbers) < TYPICAL:  # too few to choose a centre; the pivot may be one of them
            keeper.keep(fold, numbers, self._rows(views))
            return
        if not self.settled:
            zero = self.segments[fold].pivot is self.origin
            keeper.settle(self.origin if zero else np.median(self._few(views, 256), axis=0))
            self.settled = True
        if (peaks > keeper.limits).any():
            where = self.largest(norms, keeper)
            keeper.keep(fold, numbers[where], self._rows(self.take(views, where)))

    def _add_piece(self, fold: int, numbers: Numbers, views: list[Any]) -> None:
        """Add a piece of the rows of one fold."""
        segment = self.segments.get(fold)
        pivot = self._pivot(views) if segment is None else segment.pivot
        rows = self.augmented(views, pivot)
        norms = rows[:, self.layout.width : self.layout.width + len(views)]
        peaks = self.peaks(norms)
        if segment is not None and segment.is_near(peaks):
            self._keep_largest(fold, numbers, views, norms, peaks)
            segment.add(rows)
            return
        if not (peaks < LARGEST).all():  # also true for NaN
            whole = self.finite(views)
            if whole.all():
                raise too_large([source.name for source in self.sources])
            if not self.reading.drop_nonfinite:
                raise NonfiniteError("a row holds NaN or infinity")
            self.dropped += int(np.count_nonzero(~whole))
            self.left_out.append(numbers[~whole])
            if whole.any():
                self._add_piece(fold, numbers[whole], self.take(views, np.flatnonzero(whole)))
            return
        if segment is None:
            segment = self.segments[fold] = self.segment(pivot, norms)
        elif segment.is_far(self._few(views, 64)):
            self._flush(fold)
            self._add_piece(fold, numbers, views)
            return
        self._keep_largest(fold, numbers, views, norms, peaks)
        segment.add(rows)

    def _pivot(self, views: list[Any]) -> Array:
        """The pivot: zero if all means are within two standard deviations of it, else the means.

        Zero increases rounding errors by at most a factor of five and saves a subtraction. It is
        not used in the coordinates of an ill-conditioned view, where the mean may lie in a
        direction with hardly any variance. Columns whose mean is not finite get zero, as such rows
        are detected later.
        """
        few = self._few(views, 256)
        near = np.all(few.mean(axis=0) ** 2 <= 4 * few.var(axis=0))
        if near and self.layout.roots is None:
            return self.origin
        means = np.concatenate([self.mean(view) for view in views])
        return np.where(np.isfinite(means), means, 0.0)

    def _few(self, views: list[Any], count: int) -> Array:
        """About `count` evenly spaced rows of a block."""
        every = slice(None, None, max(1, views[0].shape[0] // count))
        return self._rows(self.take(views, every))

    def blocks(self, start: int, stop: int) -> Blocks:
        """First row, views and digests of every block."""
        return _blocks(self.sources, self.reading, start, stop)

    def take(self, views: list[Any], chosen: Chosen) -> list[Any]:
        """Some rows of every view."""
        return [view[chosen] for view in views]

    def gather(self, views: list[Any], chosen: Chosen) -> list[Any]:
        """Some rows of every view, valid until the next call.

        The memory is reused, since fresh pages cost a Dask worker more time than the copy: it
        returns freed memory to the system at once.
        """
        if isinstance(chosen, slice) or not all(view.flags.c_contiguous for view in views):
            return self.take(views, chosen)
        kinds = [view.dtype for view in views]
        if kinds != [room.dtype for room in self.rooms] or len(self.rooms[0]) < len(chosen):
            self.rooms = [np.empty_like(view) for view in views]
        return [
            view.take(chosen, axis=0, out=room[: len(chosen)], mode="clip")
            for view, room in zip(views, self.rooms)
        ]

    def numbers(self, view: Any) -> Array:
        """A few rows in float64, in the memory of this process."""
        rows: Array = view.astype(np.float64)
        return rows

    def mean(self, view: Any) -> Array:
        """The mean of a view's rows."""
        mean: Array = view.mean(axis=0, dtype=np.float64)
        return mean

    def largest(self, norms: Any, keeper: ExtremesKeeper) -> NDArray[np.intp]:
        """Rows that may be among the largest, by their squared norms."""
        return keeper.candidates(self.numbers(norms))

    def finite(self, views: list[Any]) -> NDArray[np.bool_]:
        """Which rows are finite in every view."""
        return finite(views)

    def peaks(self, norms: Any) -> Array:
        """The largest squared norm of each view; NaN if there is one."""
        return np.array([column.max() for column in norms.T])

    def segment(self, pivot: Array, norms: Any) -> Segment:
        """An empty segment about this pivot; `norms` are those of its first rows."""
        return Segment(self.layout, pivot, norms.mean(axis=0))

    @cached_property
    def _buffer(self) -> Array:
        buffer = np.empty((self.piece, augmented_width(self.layout)))
        buffer[:, self.layout.width :] = 0.0
        buffer[:, self.layout.width + len(self.sources)] = 1.0
        return buffer

    def augmented(self, views: list[Any], pivot: Array) -> Any:
        """Rows less the pivot, their squared norms by view, and a one, in the buffer."""
        rows, moved = self._buffer[: len(views[0])], pivot is not self.origin
        for v, (view, columns) in enumerate(zip(views, self.layout.columns)):
            # In chunks that stay in the cache, so that each number is read from memory only once.
            for start in range(0, len(rows), self.chunk):
                part = rows[start : start + self.chunk, columns]
                part[...] = view[start : start + self.chunk]
                if moved:
                    part -= pivot[columns]
                norms = rows[start : start + self.chunk, self.layout.width + v]
                squared_norms(part, norms)
        return rows


def squared_norms(rows: Array, out: Array) -> None:
    """‖row‖² of every row; `np.vecdot` of NumPy 2 is faster than `np.einsum`."""
    if hasattr(np, "vecdot"):
        np.vecdot(rows, rows, out=out)
    else:
        np.einsum("ij,ij->i", rows, rows, out=out)


def piece_rows(layout: StackLayout, step: int) -> int:
    """Number of rows that are summed at a time, of a block of `step` rows."""
    if layout.width > NARROW:
        return step
    room = PIECE_BYTES // (8 * augmented_width(layout))
    return min(step, next((rows for rows in PIECE_ROWS if rows <= room), PIECE_ROWS[-1]))


def finite(views: Sequence[NDArray[Any]]) -> NDArray[np.bool_]:
    """Which rows of a block are finite in every view."""
    whole = np.ones(len(views[0]), dtype=bool)
    for view in views:
        whole &= np.isfinite(view.astype(np.float64)).all(axis=1)
    return whole


def _blocks(sources: Sequence[Source], reading: Reading, start: int, stop: int) -> Blocks:
    """First row, views and digests of every block; the next block may be read in the meantime."""
    starts = range(start, stop, reading.step)

    def read(first: int) -> tuple[list[NDArray[Any]], list[int]]:
        # Columns of a wider array are copied once, as rows are taken from a block several times.
        views = [
            np.ascontiguousarray(source.read(first, min(first + reading.step, stop)))
            for source in sources
        ]
        return views, [digest(view, first) for view in views] if reading.digest else []

    if len(starts) < 2 or not reading.ahead:
        for first in starts:
            yield first, *read(first)
        return
    with ThreadPoolExecutor(1, "identikit-read") as reader:
        ahead = reader.submit(read, starts[0])
        for first in starts:
            views, hashes = ahead.result()
            if first + reading.step < stop:
                ahead = reader.submit(read, first + reading.step)
            yield first, views, hashes


def digest(block: NDArray[Any], first: int) -> int:
    """The sum of the hashes of a block's chunks; `first` is the number of the block's first row."""
    total = 0
    for start in range(0, len(block), CHUNK_ROWS):
        chunk = np.ascontiguousarray(block[start : start + CHUNK_ROWS])
        number = ((first + start) // CHUNK_ROWS).to_bytes(8, "little")
        hashed = blake2b(chunk.view(np.uint8).data, digest_size=16, key=number)
        total += int.from_bytes(hashed.digest(), "little")
    return total % 2**128
