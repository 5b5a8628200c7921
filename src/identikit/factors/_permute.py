"""Folds of rows that are in random order already, and permutations of them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from identikit._linalg import Array
from identikit.errors import InputError
from identikit.moments import FOLDS

Rows = NDArray[np.intp]
Mask = NDArray[np.bool_]

#: The most rows that disentanglement_lib fits on, and scores.
TRAIN, TEST = 10_000, 5_000
PRESETS = (None, "reference")
#: Numbers in the largest array that permuted factors are gathered into.
ROOM = 4_000_000


def folds(rows: int, count: int = FOLDS) -> list[slice]:
    """Consecutive parts of nearly equal size.

    >>> folds(5, 2)
    [slice(0, 2, None), slice(2, 5, None)]
    """
    ends = (np.arange(count + 1) * rows // count).tolist()
    return [slice(start, stop) for start, stop in pairwise(ends)]


def split(rows: int) -> tuple[int, int]:
    """How many rows to fit on and, after them, to score: two to one, at most 10,000 and 5,000.

    >>> split(300), split(10**6)
    ((200, 100), (10000, 5000))
    """
    train = min(TRAIN, rows * 2 // 3)
    return train, min(TEST, rows - train)


def inside(rows: int, part: slice) -> Mask:
    """Which rows are in a part."""
    chosen = np.zeros(rows, dtype=bool)
    chosen[part] = True
    return chosen


def orders(rows: int, count: int, seed: int) -> Iterator[Rows]:
    """The true order of rows, then random ones, always the same for a seed."""
    rng = np.random.default_rng([seed, rows])
    yield np.arange(rows)
    for _ in range(count):
        yield rng.permutation(rows)


def permuted_columns(values: Array, count: int, seed: int) -> Iterator[Array]:
    """Columns in all `orders` of rows side by side, (n, K·several), as many as memory allows."""
    rows, width = values.shape
    every = orders(rows, count, seed)
    at_once = max(1, ROOM // values.size)
    for start in range(0, 1 + count, at_once):
        several = min(at_once, 1 + count - start)
        chosen = np.stack([next(every) for _ in range(several)], axis=1)
        yield values[chosen].reshape(rows, several * width)


def pooled(numerator: Array, denominator: Array) -> tuple[Array, Array]:
    """Ratio of sums over folds (the first axis), and the same without each fold.

    0 where the denominator is 0: nothing varies there, so nothing is explained.
    """
    over, under = numerator.sum(0), denominator.sum(0)
    return ratio(over, under), ratio(over - numerator, under - denominator)


def ratio(over: Array, under: Array) -> Array:
    """over / under, and 0 where `under` is 0 or its rounding."""
    over, under = np.broadcast_arrays(over, under)
    found: Array = np.divide(over, under, out=np.zeros(over.shape), where=under > 1e-12)
    return found


def check_held_out(rows: int, metric: str) -> None:
    """Refuse to hold rows out where a fold would have fewer than two."""
    if rows < 2 * FOLDS:
        raise InputError(
            f"{metric} holds out one of {FOLDS} folds of two rows or more, which needs "
            f"{2 * FOLDS} rows; there are {rows}"
        )


def check_noise(noise: float) -> None:
    """Refuse noise that is none."""
    if not 0 <= noise < np.inf:
        raise InputError(f"noise is {noise}; expected a standard deviation, 0 or larger")


def check_permuted(count: int, metric: str) -> None:
    """Refuse to tell information from chance without a permutation."""
    if count < 1:
        raise InputError(
            f"{metric} leaves out what permuted rows share, so it needs at least one permutation; "
            f"permutations is {count}. preset='reference' leaves nothing out"
        )


def is_reference(preset: str | None) -> bool:
    """Whether the field's implementation shall be reproduced."""
    if preset not in PRESETS:
        raise InputError(f"preset is {preset!r}; expected None (held out) or 'reference'")
    return preset == "reference"
