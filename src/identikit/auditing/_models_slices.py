"""Two models compared on slices of the inputs, such as those in the data and those outside."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from identikit._linalg import Array
from identikit._text import shorten
from identikit.auditing.models_result import CLOSE, DIFFERENT, SAME, SMALL_KL, Slice
from identikit.auditing.result import Interval
from identikit.errors import InputError
from identikit.family import Ints, Pair, per_input
from identikit.moments import LEAST_GROUPS
from identikit.sources import read_labels

#: The most slices that are compared.
MOST = 1000

#: The inputs of every slice, by its name.
Slices = dict[str, Ints]


def read_slices(labels: ArrayLike, inputs: int) -> Slices:
    """Which inputs are in which slice; slices are sorted by label."""
    values = read_labels(labels, "slices")
    if len(values) != inputs:
        raise InputError(
            f"slices has {len(values)} labels, but the models have {inputs} inputs; give one label "
            "per input"
        )
    if values.dtype.kind == "U":
        empty = np.flatnonzero(np.char.strip(values) == "")
        if len(empty):
            raise InputError(
                f"slices: {len(empty)} labels are empty, the first in row {empty[0]}; give every "
                "input a label"
            )
    names, slice_of = np.unique(values, return_inverse=True)
    if len(names) < 2:
        raise InputError(
            f"all {inputs} inputs are in the same slice {shorten(str(names[0]), 60)!r}; a "
            "comparison by slices needs two or more"
        )
    if len(names) > MOST:
        raise InputError(
            f"there are {len(names)} slices, but at most {MOST} are compared; give coarser labels"
        )
    order = np.argsort(slice_of, kind="stable")
    ends = np.cumsum(np.bincount(slice_of))[:-1]
    return dict(zip(map(str, names), np.split(order, ends), strict=True))


def by_slice(
    pair: Pair, slices: Slices, tolerance: float, groups: ArrayLike | None = None
) -> tuple[Slice, ...]:
    """Logit gap, divergences, total variation and finding of every slice.

    The gaps of all slices are relative to the same scale, the spread of the first model's logits
    over all inputs. So they can be compared, and the mean of their squares over inputs is the
    square of the pair's gap. A slice whose logits are small on this scale could differ within the
    tolerance; that is why its total variation must be within the tolerance too.

    Inputs that share a label in `groups` count as one in the intervals.
    """
    every = per_input(pair)
    kin = np.arange(pair.n) if groups is None else np.asarray(groups)
    found = []
    for name, rows in slices.items():
        gap, kl, kl_reverse, tv = (float(part[rows].mean()) for part in every)
        square = _interval(every.gap[rows], kin[rows])
        gap **= 0.5
        found.append(
            Slice(
                name,
                len(rows),
                gap,
                square and (square[0] ** 0.5, square[1] ** 0.5),
                kl,
                _interval(every.kl[rows], kin[rows]),
                kl_reverse,
                tv,
                _finding(gap, max(kl, kl_reverse), tv, tolerance),
            )
        )
    return tuple(found)


def _finding(gap: float, kl: float, tv: float, tolerance: float) -> str:
    if max(gap, tv) <= tolerance:
        return SAME
    return CLOSE if kl < SMALL_KL else DIFFERENT


def _interval(values: Array, kin: NDArray[np.generic]) -> Interval | None:
    """Student's interval for the logarithm of the mean over inputs, or over groups of them.

    mean · exp(± t_{G−1} s/mean) with s² = G/(G−1) Σ_g (sum_g − mean n_g)²/n². A few inputs make up
    most of a divergence, so the upper end of an interval for the mean itself would be too low.
    """
    from scipy.special import stdtrit

    part = np.unique(kin, return_inverse=True)[1]
    sizes, sums = np.bincount(part), np.bincount(part, values)
    count, total = len(sizes), sums.sum()
    if count < LEAST_GROUPS or not np.isfinite(total):
        return None
    if total == 0:
        return 0.0, 0.0
    left = sums - total / len(values) * sizes
    share = stdtrit(count - 1, 0.975) * np.sqrt(count / (count - 1) * (left @ left)) / total
    low, high = total / len(values) * np.exp([-share, share])
    return float(low), float(high)
