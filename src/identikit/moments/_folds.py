"""Which fold a row belongs to."""

from __future__ import annotations

import heapq

import numpy as np
from numpy.typing import ArrayLike, NDArray

from identikit.errors import InputError

FoldOfRow = NDArray[np.int16]


def assign_folds(rows: int, folds: int, groups: ArrayLike | None = None) -> FoldOfRow:
    """Deal rows out to folds: by groups if there are any, else in runs of rows."""
    if folds < 1 or folds > np.iinfo(np.int16).max:
        raise InputError(f"folds is {folds}; give a number from 1 to {np.iinfo(np.int16).max}")
    return contiguous_folds(rows, folds) if groups is None else group_folds(groups, rows, folds)


def contiguous_folds(rows: int, folds: int) -> FoldOfRow:
    """Cut the rows into consecutive runs of equal length, to within one row."""
    return (np.arange(rows, dtype=np.int64) * folds // max(rows, 1)).astype(np.int16)


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
