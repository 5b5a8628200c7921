"""The only loop over rows: blocks of stacked views into Moments."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identikit._linalg import Array
from identikit.errors import InputError
from identikit.moments._folds import FoldOfRow, Folds
from identikit.moments._moments import Moments
from identikit.moments._part import Layout, Part, merge
from identikit.moments._sample import Keys, SampleKeeper, row_keys
from identikit.moments._segment import Segment, augmented_width
from identikit.sources import Source

Progress = Callable[[int, int], None]

#: Rows that are digested together. Ranges of rows and blocks start at multiples of it.
CHUNK_ROWS = 1024

#: Bytes of a piece of a block that one core's cache holds while it is filled.
CACHE_BYTES = 2**19


class NonfiniteError(InputError):
    """A row holds NaN or infinity; who has all the views open can say which."""


@dataclass(frozen=True, eq=False)
class Reading:
    """How rows are read: all that a worker needs to know beside the views and the range.

    Parameters
    ----------
    folds : Folds
        Which fold each row is in.
    layout : Layout
        The views' columns, and the coordinates of their scatter.
    step : int
        Rows of a block.
    seed, sample : int
        Of the row sample: its seed and how many rows.
    drop_nonfinite : bool
        Leave rows with NaN or infinity out, instead of raising.
    digest : bool
        Digest what is read.
    """

    folds: Folds
    layout: Layout
    step: int
    seed: int = 0
    sample: int = 1000
    drop_nonfinite: bool = False
    digest: bool = False


@dataclass(frozen=True, eq=False)
class Scanned:
    """The moments of some rows and, if asked for, a digest a view; ``a + b`` merges two.

    A digest is the sum, modulo 2¹²⁸, of the hashes of chunks of rows, each with its number, so that
    it does not depend on who has read which.
    """

    moments: Moments
    digests: tuple[int, ...]

    def __add__(self, other: Scanned) -> Scanned:
        both = zip(self.digests, other.digests)
        return Scanned(self.moments + other.moments, tuple((a + b) % 2**128 for a, b in both))


def scan(
    sources: Sequence[Source],
    reading: Reading,
    start: int,
    stop: int,
    progress: Progress | None = None,
) -> Scanned:
    """Read rows `start` to `stop` once.

    Parameters
    ----------
    sources : sequence of Source
        Open, of the same rows.
    reading : Reading
        How to read them.
    start, stop : int
        The range of rows.
    progress : callable, optional
        Called with (rows read, rows in all).
    """
    return _Scan(sources, reading).run(start, stop, progress)


class _Scan:
    """What one reading of a range of rows has summed up so far."""

    def __init__(self, sources: Sequence[Source], reading: Reading) -> None:
        layout = reading.layout
        self.sources, self.reading, self.layout = sources, reading, layout
        self.keeper, self.dropped = SampleKeeper(reading.sample, layout.width), 0
        self.parts = [Part.empty(layout) for _ in range(reading.folds.count)]
        self.segments: dict[int, Segment] = {}
        self.buffer = np.empty((reading.step, augmented_width(layout)))
        self.buffer[:, layout.width :] = 0.0

    def run(self, start: int, stop: int, progress: Progress | None) -> Scanned:
        """Read every block of a range."""
        folds, digests = self.reading.folds, [0] * len(self.sources)
        last = folds.last_rows(start, stop)
        with closing(_blocks(self.sources, self.reading, start, stop)) as blocks:
            for first, views, hashes in blocks:
                after = first + len(views[0])
                keys = row_keys(first, after, self.reading.seed)
                for fold, chosen in _by_fold(folds.of(first, after)):
                    self._add(fold, [view[chosen] for view in views], keys[chosen])
                    if last[fold] < after and fold in self.segments:
                        self._flush(fold)
                digests = [(a + b) % 2**128 for a, b in zip(digests, hashes)]
                if progress is not None:
                    progress(after - start, stop - start)
        return Scanned(
            Moments(
                tuple(source.name for source in self.sources),
                tuple(source.eps for source in self.sources),
                self.layout,
                tuple(self.parts),
                self.keeper.sample(),
                self.dropped,
            ),
            tuple(digests) if self.reading.digest else (),
        )

    def _flush(self, fold: int) -> None:
        part = self.segments.pop(fold).part()
        self.parts[fold] = merge(self.parts[fold], part, self.layout)

    def _add(self, fold: int, views: list[NDArray[Any]], keys: Keys) -> None:
        """Add the rows of one fold, given view by view."""
        segment = self.segments.get(fold)
        pivot = self._pivot(views) if segment is None else segment.pivot
        rows = self._fill(views, pivot)
        norms = rows[:, self.layout.width : self.layout.width + len(views)]
        if not np.isfinite(np.einsum("ij,ij->", norms, norms)):
            whole = finite(views)
            if not whole.all():
                if not self.reading.drop_nonfinite:
                    raise NonfiniteError("a row holds NaN or infinity")
                self.dropped += int(np.count_nonzero(~whole))
                if whole.any():
                    self._add(fold, [view[whole] for view in views], keys[whole])
                return
            raise InputError(
                "the values are so large that their squares overflow; rescale the views "
                f"({', '.join(source.name for source in self.sources)})"
            )
        if segment is not None and segment.drifts(rows):
            self._flush(fold)
            self._add(fold, views, keys)
            return
        if segment is None:
            segment = self.segments[fold] = Segment(self.layout, pivot, norms.mean(axis=0))
        chosen = self.keeper.candidates(keys)
        if len(chosen):
            few = np.concatenate([view[chosen].astype(np.float64) for view in views], axis=1)
            self.keeper.keep(keys[chosen], few)
        segment.add(rows)

    def _pivot(self, views: list[NDArray[Any]]) -> Array:
        """What to sum about: zero if all means are within two deviations of it, else the means.

        Zero costs at most a factor of five in rounding and saves a subtraction. Not so in the
        coordinates of an ill-conditioned view, where the mean may lie in a direction that hardly
        varies. Columns whose mean is not finite get zero, as such rows are found out later.
        """
        with np.errstate(invalid="ignore", over="ignore"):
            few = [view[:: max(1, len(view) // 256)].astype(np.float64) for view in views]
            near = all(np.all(part.mean(axis=0) ** 2 <= 4 * part.var(axis=0)) for part in few)
            if near and self.layout.roots is None:
                return np.zeros(self.layout.width)
            means = np.concatenate([view.mean(axis=0, dtype=np.float64) for view in views])
        return np.where(np.isfinite(means), means, 0.0)

    def _fill(self, views: list[NDArray[Any]], pivot: Array) -> Array:
        """Rows less the pivot, their squared norms by view, and a one, in the buffer."""
        rows = self.buffer[: len(views[0])]
        # In chunks that stay in the cache, so that each number is fetched from memory once.
        chunk = max(1, CACHE_BYTES // (8 * max(self.layout.widths)))
        moved = bool(pivot.any())
        for v, (view, columns) in enumerate(zip(views, self.layout.columns)):
            for start in range(0, len(rows), chunk):
                part = rows[start : start + chunk, columns]
                part[...] = view[start : start + chunk]
                if moved:
                    part -= pivot[columns]
                norms = rows[start : start + chunk, self.layout.width + v]
                np.einsum("ij,ij->i", part, part, out=norms)
        rows[:, self.layout.width + len(views)] = 1.0
        return rows


def _by_fold(folds: FoldOfRow) -> Iterator[tuple[int, slice | NDArray[np.intp]]]:
    """The rows of each fold in a block: a slice where they are consecutive."""
    for fold in np.unique(folds[folds >= 0]):
        where = np.flatnonzero(folds == fold)
        run = slice(int(where[0]), int(where[-1]) + 1)
        yield int(fold), run if run.stop - run.start == len(where) else where


def finite(views: Sequence[NDArray[Any]]) -> NDArray[np.bool_]:
    """Which rows of a block are finite in every view."""
    whole = np.ones(len(views[0]), dtype=bool)
    for view in views:
        whole &= np.isfinite(view.astype(np.float64)).all(axis=1)
    return whole


def _blocks(
    sources: Sequence[Source], reading: Reading, start: int, stop: int
) -> Generator[tuple[int, list[NDArray[Any]], list[int]]]:
    """First row, views and digests of every block; the next is read while one is being used."""

    def read(first: int) -> tuple[list[NDArray[Any]], list[int]]:
        views = [source.read(first, min(first + reading.step, stop)) for source in sources]
        return views, [_digest(view, first) for view in views] if reading.digest else []

    starts = range(start, stop, reading.step)
    if len(starts) < 2:
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


def _digest(block: NDArray[Any], first: int) -> int:
    """The sum of the hashes of a block's chunks of rows."""
    total = 0
    for start in range(0, len(block), CHUNK_ROWS):
        chunk = np.ascontiguousarray(block[start : start + CHUNK_ROWS])
        number = ((first + start) // CHUNK_ROWS).to_bytes(8, "little")
        hashed = blake2b(chunk.view(np.uint8).data, digest_size=16, key=number)
        total += int.from_bytes(hashed.digest(), "little")
    return total % 2**128
