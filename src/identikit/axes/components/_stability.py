"""How similar the members of a component are, and how sure that is: functions of their cosines."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from identikit._linalg import Array
from identikit.axes.components._multiway import Matching
from identikit.axes.components._vectors import Vectors, paired
from identikit.inference import jackknife_interval

Mask = NDArray[np.bool_]


def pair_cosines(runs: Sequence[Vectors], found: Matching) -> Array:
    """[c, r, s]: inner product of two members of a component, with their signs; 0 if one lacks."""
    components, count = found.index.shape
    cosines = np.zeros((components, count, count))
    for r in range(count):
        for s in range(r):
            both = np.flatnonzero((found.index[:, [r, s]] >= 0).all(axis=1))
            products = paired(runs[r], runs[s], found.index[both, r], found.index[both, s])
            products *= found.sign[both, r] * found.sign[both, s]
            cosines[both, r, s] = cosines[both, s, r] = np.clip(products, -1.0, 1.0)
    return cosines


def similarities(cosines: Array, there: Mask) -> Array:
    """[c, r]: mean over the other members; NaN where there is none.

    Parameters
    ----------
    cosines : array (components, runs, runs)
        With zeros on the diagonal and where a member lacks.
    there : array of bool (components, runs)
        Which members there are.
    """
    others = there.sum(axis=1, keepdims=True) - 1
    means = cosines.sum(axis=2) / np.maximum(others, 1)
    return np.where(there & (others > 0), means, np.nan)


def stability_intervals(cosines: Array, there: Mask) -> Array:
    """(components, 2): 95 % by leaving out one run at a time; NaN for less than three members.

    Without run r the stability is the mean over the pairs that are left: as in
    `jackknife_interval`, for all components at once.
    """
    from scipy.special import stdtrit

    members = there.sum(axis=1)
    pairs, own = cosines.sum(axis=(1, 2)), cosines.sum(axis=2)
    with np.errstate(invalid="ignore", divide="ignore"):
        value = pairs / (members * (members - 1))
        rest = (pairs[:, None] - 2 * own) / ((members - 1) * (members - 2))[:, None]
        rest = np.where(there, rest, 0.0)
        spread = np.where(there, rest - (rest.sum(axis=1) / members)[:, None], 0.0)
        error = np.sqrt((members - 1) / members * np.square(spread).sum(axis=1))
        half = stdtrit(np.maximum(members - 1, 1), 0.975) * error
    ends = np.stack([np.maximum(value - half, -1.0), np.minimum(value + half, 1.0)], axis=1)
    return np.where((members > 2)[:, None], ends, np.nan)


def fraction_interval(
    cosines: Array,
    there: Mask,
    sizes: Sequence[int],
    passes: Callable[[Array], Mask],
    fraction: float,
) -> tuple[float, float] | None:
    """95 % interval of the share that replicates, by leaving out one run at a time.

    Parameters
    ----------
    sizes : sequence of int
        Vectors of each run.
    passes : callable
        Which members pass, given the similarity of every one.
    fraction : float
        The share with all runs.
    """
    runs = len(sizes)
    if runs < 3:
        return None
    without = []
    for left_out in range(runs):
        kept, part = there.copy(), cosines.copy()
        kept[:, left_out] = part[:, left_out] = False
        part[:, :, left_out] = 0.0
        good = passes(similarities(part, kept)) & kept
        good[:, left_out] = True
        rest = [size for run, size in enumerate(sizes) if run != left_out]
        without.append(good.all(axis=1).sum() / min(rest))
    low, high = jackknife_interval(fraction, np.array(without), floor=0.0)
    return low, min(high, 1.0)
