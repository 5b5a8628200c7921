"""Which fold a row belongs to."""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from identikit.errors import InputError

FoldOfRow = NDArray[np.int16]


@dataclass(frozen=True, eq=False)
class Folds:
    """Which fold each of `rows` rows is in, of `count` folds; −1 for a row left out.

    Runs of rows of equal length, to within one row, are computed as they are asked for, so that
    memory does not grow with the rows; `labels` holds any other assignment, from row `first` on.
    """

    rows: int
    count: int
    labels: FoldOfRow | None = None
    first: int = 0

    def of(self, start: int = 0, stop: int | None = None) -> FoldOfRow:
        """The folds of some rows, all by default."""
        stop = self.rows if stop is None else stop
        if self.labels is not None:
            return self.labels[start - self.first : stop - self.first]
        return (np.arange(start, stop, dtype=np.int64) * self.count // self.rows).astype(np.int16)

    def within(self, start: int, stop: int) -> Folds:
        """The same folds, knowing of no rows but these: what a worker is sent."""
        if self.labels is None:
            return self
        return Folds(self.rows, self.count, self.of(start, stop), start)

    def last_rows(self, start: int, stop: int) -> dict[int, int]:
        """Of the rows of a range, the last of each fold that has one there."""
        if self.labels is None:
            ends = [-(-(fold + 1) * self.rows // self.count) - 1 for fold in range(self.count)]
            return {fold: min(end, stop - 1) for fold, end in enumerate(ends)}
        folds, back = np.unique(self.of(start, stop)[::-1], return_index=True)
        return {int(fold): stop - 1 - int(i) for fold, i in zip(folds, back)}

    def only(self, keep: NDArray[np.bool_]) -> Folds:
        """The same folds without the rows that are not to be kept."""
        return Folds(self.rows, self.count, np.where(keep, self.of(), np.int16(-1)))


def assign_folds(rows: int, folds: int, groups: ArrayLike | None = None) -> Folds:
    """Deal rows out to folds: by groups if there are any, else in runs of rows."""
    if folds < 1 or folds > np.iinfo(np.int16).max:
        raise InputError(f"folds is {folds}; give a number from 1 to {np.iinfo(np.int16).max}")
    return Folds(rows, folds, None if groups is None else group_folds(groups, rows, folds))


def group_folds(groups: ArrayLike, rows: int, folds: int) -> FoldOfRow:
    """Deal whole groups out to folds, the largest first, each to the smallest fold so far.

    Parameters
    ----------
    groups : array (rows,)
        A label a row: rows with one label are dependent (tokens of a sentence, crops of an image)
        and never straddle folds.
    """
    labels = np.asarray(groups)
    if labels.shape != (rows,):
        raise InputError(
            f"groups has shape {labels.shape}, but the views have {rows} rows; give one label a row"
        )
    _, inverse, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    if len(sizes) < folds:
        raise InputError(
            f"{len(sizes)} groups cannot fill {folds} folds; use at most {len(sizes)} folds or "
            "finer groups"
        )
    fold_of_group = np.empty(len(sizes), dtype=np.int16)
    heap = [(0, fold) for fold in range(folds)]
    for group in np.argsort(-sizes, kind="stable"):
        size, fold = heapq.heappop(heap)
        fold_of_group[group] = fold
        heapq.heappush(heap, (size + int(sizes[group]), fold))
    return fold_of_group[inverse]
