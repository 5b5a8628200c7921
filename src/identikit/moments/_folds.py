"""The assignment of rows to folds."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from identikit.errors import InputError
from identikit.moments.sample import row_keys

__all__ = ["FOLDS", "LEAST_GROUPS", "Folds", "assign_folds"]

#: The default number of folds; with fewer, intervals are poor.
FOLDS = 5

FoldOfRow = NDArray[np.int16]
Chosen = slice | NDArray[np.intp]


#: The ways in which rows are assigned to folds, and how messages describe them.
RULES = {
    "blocks": "scattered blocks of rows",
    "runs": "runs of consecutive rows",
    "groups": "whole groups of rows",
}

#: The largest number of rows per block, and the smallest number of blocks per fold if blocks are
#: longer than one row.
BLOCK_ROWS, BLOCKS_A_FOLD = 64, 256

#: With fewer groups than this, leaving one out at a time gives no idea of how groups differ.
LEAST_GROUPS = 3

#: Added to the seed, so that folds and the row sample use different random numbers.
_STREAM = 2**31


@dataclass(frozen=True, eq=False)
class Folds:
    """The fold of each of `rows` rows, numbered from 0 to `count` − 1; −1 for a row left out.

    Each sequence of `count` blocks of consecutive rows gets a random permutation of the folds,
    which depends only on the seed and the position of the blocks. Without a seed, folds are runs of
    consecutive rows whose lengths differ by at most one. Both are computed on demand, so that
    memory does not grow with the number of rows. `labels` holds any other assignment, from row
    `first` on. `grouped` says whether folds are whole groups of rows.
    """

    rows: int
    count: int
    labels: FoldOfRow | None = None
    first: int = 0
    grouped: bool = False
    seed: int | None = None

    @property
    def rule(self) -> str:
        """How rows are assigned to folds: a key of `RULES`."""
        if self.grouped:
            return "groups"
        return "runs" if self.seed is None else "blocks"

    @property
    def block(self) -> int:
        """Rows per scattered block: 1 for few rows, more for many, so that copying is cheap."""
        most = max(1, min(BLOCK_ROWS, self.rows // (BLOCKS_A_FOLD * self.count)))
        return 1 << (most.bit_length() - 1)

    def of(self, start: int = 0, stop: int | None = None) -> FoldOfRow:
        """The folds of some rows, all by default."""
        stop = self.rows if stop is None else stop
        if self.labels is not None:
            return self.labels[start - self.first : stop - self.first]
        if self.seed is not None:
            return self._scattered(start, stop)
        return (np.arange(start, stop, dtype=np.int64) * self.count // self.rows).astype(np.int16)

    def _scattered(self, start: int, stop: int) -> FoldOfRow:
        first, assigned = self._blocks(start, stop)
        begin = first * self.block
        return np.repeat(assigned, self.block)[start - begin : stop - begin]

    def _blocks(self, start: int, stop: int) -> tuple[int, FoldOfRow]:
        """The number of the first block that contains some of these rows, and the blocks' folds."""
        size, count, seed = self.block, self.count, self.seed or 0
        first, after = start // size, -(-stop // size)
        begin, end = first // count * count, -(-after // count) * count
        keys = row_keys(begin, end, seed + _STREAM).reshape(-1, count)
        # Sorting random keys gives a permutation of the folds for every `count` blocks.
        assigned = np.argsort(keys, axis=1, kind="stable").astype(np.int16).reshape(-1)
        return first, assigned[first - begin : after - begin]

    def split(self, start: int, stop: int) -> Iterator[tuple[int, Chosen]]:
        """Yield each fold among rows `start` to `stop`, and which of these rows it has.

        They are a slice if they are consecutive, otherwise row numbers; both count from `start`.
        """
        if self.labels is None and self.seed is None:
            for fold in range(start * self.count // self.rows, self.count):
                first, after = (-(-f * self.rows // self.count) for f in (fold, fold + 1))
                if first >= stop:
                    return
                if after > first:
                    yield fold, slice(max(first, start) - start, min(after, stop) - start)
            return
        if self.labels is None:
            yield from self._split_blocks(start, stop)
            return
        labels = self.of(start, stop)
        for fold in np.unique(labels[labels >= 0]):
            where = np.flatnonzero(labels == fold)
            run = slice(int(where[0]), int(where[-1]) + 1)
            yield int(fold), run if run.stop - run.start == len(where) else where

    def _split_blocks(self, start: int, stop: int) -> Iterator[tuple[int, Chosen]]:
        first, assigned = self._blocks(start, stop)
        order = np.argsort(assigned, kind="stable")
        within = np.arange(self.block) + first * self.block - start
        ends = np.searchsorted(assigned[order], np.arange(self.count + 1))
        for fold, (begin, end) in enumerate(pairwise(ends)):
            where = (order[begin:end, None] * self.block + within).reshape(-1)
            where = where[slice(*np.searchsorted(where, (0, stop - start)))]
            if len(where) == stop - start:
                yield fold, slice(0, stop - start)
            elif len(where):
                yield fold, where

    def within(self, start: int, stop: int) -> Folds:
        """The same folds with the labels of these rows only, to be sent to a worker."""
        if self.labels is None:
            return self
        return replace(self, labels=self.of(start, stop), first=start)

    def last_rows(self, start: int, stop: int) -> dict[int, int]:
        """The last row of each fold within a range of rows."""
        if self.labels is None and self.seed is None:
            ends = [-(-(fold + 1) * self.rows // self.count) - 1 for fold in range(self.count)]
            return {fold: min(end, stop - 1) for fold, end in enumerate(ends)}
        if self.labels is None:  # the last 2 × `count` blocks contain every fold
            start = max(start, stop - 2 * self.count * self.block)
        folds, back = np.unique(self.of(start, stop)[::-1], return_index=True)
        return {int(fold): stop - 1 - int(i) for fold, i in zip(folds, back)}

    def only(self, keep: NDArray[np.bool_]) -> Folds:
        """The same folds, with only those rows for which `keep` is true."""
        return replace(self, labels=np.where(keep, self.of(), np.int16(-1)))

    def in_runs(self) -> Folds:
        """The same number of folds of the same rows, as runs of consecutive rows."""
        runs = Folds(self.rows, self.count)
        return runs if self.labels is None else runs.only(self.of() >= 0)


def assign_folds(
    rows: int, folds: int, groups: ArrayLike | None = None, seed: int | None = 0
) -> Folds:
    """Assign rows to folds: by groups if given, otherwise in blocks scattered at random.

    Without groups and seed, folds are runs of consecutive rows. If there are fewer groups than
    folds, each group becomes a fold; at least three groups are needed.
    """
    if folds < 1 or folds > np.iinfo(np.int16).max:
        raise InputError(f"folds is {folds}; give a number from 1 to {np.iinfo(np.int16).max}")
    if groups is None:
        return Folds(rows, folds, seed=seed)
    assigned = group_folds(groups, rows, folds)
    return Folds(rows, int(assigned.max()) + 1, assigned, grouped=True)


def group_folds(groups: ArrayLike, rows: int, folds: int) -> FoldOfRow:
    """Assign whole groups to folds, the largest first, each to the smallest fold so far.

    `groups` has one label per row. Rows with the same label may be dependent (tokens of a sentence,
    crops of an image) and are never split between folds. If there are fewer groups than folds, each
    group becomes a fold.
    """
    labels = np.asarray(groups)
    if labels.shape != (rows,):
        raise InputError(
            f"groups has shape {labels.shape}, but the views have {rows} rows; give one label per "
            "row"
        )
    _, inverse, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    if len(sizes) < min(folds, LEAST_GROUPS):
        raise InputError(
            f"there {'is 1 group' if len(sizes) == 1 else f'are {len(sizes)} groups'} of rows, and "
            f"leaving one group out at a time needs at least {LEAST_GROUPS}: give finer groups, or "
            "none"
        )
    folds = min(folds, len(sizes))
    fold_of_group = np.empty(len(sizes), dtype=np.int16)
    heap = [(0, fold) for fold in range(folds)]
    for group in np.argsort(-sizes, kind="stable"):
        size, fold = heapq.heappop(heap)
        fold_of_group[group] = fold
        heapq.heappush(heap, (size + int(sizes[group]), fold))
    return fold_of_group[inverse]
