"""Which rows come from another model: distances to the pinned rows' distribution, calibrated.

The distance of a row x is (x − μ)ᵀ (Σ + r I)⁻¹ (x − μ), with the mean and covariance of all pinned
rows, and r a small share of the mean eigenvalue (Mahalanobis 1936, regularised). Another model of
the same width has its rows in other directions, so that nearly all of them lie far outside, also
if both models have unit length. The threshold is a quantile of the distances of the pinned sample,
each without its own row in μ and Σ (leave-one-out), as a new row of the same model has it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from identikit._linalg import Array
from identikit._progress import Progress
from identikit.errors import InputError
from identikit.moments import Moments
from identikit.retrieval._pin import PinnedView
from identikit.retrieval._pinned_views import BLOCK, Ids
from identikit.retrieval.check_result import ForeignRows, Interval, SliceShare
from identikit.sources import Source

#: What is added to the covariance, as a share of its mean eigenvalue. Over 40 pairs of models on
#: two collections, 0.01 finds at least as many foreign rows as 0.1, 0.3 and 1.
RIDGE = 0.01


@dataclass(frozen=True, eq=False)
class Space:
    """The pinned rows' mean, and a matrix T with ‖(x − μ) T‖² the distance of x."""

    n: int
    mean: Array
    turn: Array

    @staticmethod
    def of(moments: Moments) -> Space:
        values, axes = moments.principal(0)
        values = np.maximum(values, 0.0)
        if not values.any():
            raise InputError("all pinned rows are the same; which rows are foreign cannot be told")
        scale = np.sqrt(moments.rows / (values + RIDGE * values.mean()))
        return Space(moments.rows, moments.centre(0), axes * scale)

    def distances(self, rows: Array) -> Array:
        """Of rows that are not among the pinned ones."""
        return np.asarray(np.square((rows - self.mean) @ self.turn).sum(axis=1))

    def without_itself(self, rows: Array) -> Array:
        """Of pinned rows, each with mean and covariance of all other rows.

        With S the scatter of n rows and z = x − μ, the others have the mean μ − z/(n−1) and the
        scatter S − n/(n−1) zzᵀ, whose inverse is that of S plus a matrix of rank one.
        """
        n = self.n
        own = self.distances(rows) / n
        grown = n / (n - 1)
        room = np.maximum(1 - grown * own, 1e-9)
        return np.asarray((n - 1) * grown**2 * own / room)


def foreign_rows(
    pinned: PinnedView,
    source: Source,
    *,
    false_alarms: float,
    ids: Ids | None,
    slices: NDArray[np.object_] | None,
    progress: Progress | None = None,
) -> ForeignRows:
    """Flag the rows that are further out than nearly all of the pinned model's own rows.

    Parameters
    ----------
    pinned : PinnedView
        With a row sample.
    source : Source
        The rows to look at.
    false_alarms : float
        The share of the pinned model's own rows that may be flagged by mistake.
    ids, slices : arrays, optional
        One text for each row of the source.
    progress : callable, optional
    """
    if pinned.sample is None:
        raise InputError("--rows needs a pin with rows, and this one was made with --no-rows")
    if not 0 < false_alarms < 1:
        raise InputError(f"the false-alarm rate is {false_alarms}; expected a share such as 0.01")
    known = len(pinned.sample)
    # The smallest rank whose order statistic keeps the rate (conformal; Vovk et al. 2005).
    rank = int(np.ceil((known + 1) * (1 - false_alarms)))
    if rank > known:
        needed = int(np.ceil(1 / false_alarms))
        raise InputError(
            f"a false-alarm rate of {false_alarms:g} needs at least {needed} pinned rows, and "
            f"there are {known}; give a larger rate or pin more rows"
        )
    space = Space.of(pinned.moments)
    threshold = float(np.sort(space.without_itself(pinned.values()))[rank - 1])
    found = np.concatenate([*_in_blocks(space, source, progress)])
    flags = found > threshold
    numbers = np.flatnonzero(flags)
    share, interval = foreign_share(int(flags.sum()), len(flags), false_alarms, known)
    return ForeignRows(
        len(flags),
        false_alarms,
        threshold,
        known,
        tuple(numbers.tolist()),
        None if ids is None else tuple(ids[numbers].tolist()),
        tuple(found[numbers].tolist()),
        share,
        interval,
        () if slices is None else tuple(_slices(slices, flags, false_alarms, known)),
    )


def _in_blocks(space: Space, source: Source, progress: Progress | None) -> Iterator[Array]:
    for start in range(0, source.rows, BLOCK):
        stop = min(start + BLOCK, source.rows)
        yield space.distances(np.asarray(source.read(start, stop), dtype=np.float64))
        if progress is not None:
            progress("looking for foreign rows", stop, source.rows)


def _slices(
    slices: NDArray[np.object_], flags: NDArray[np.bool_], rate: float, known: int
) -> Iterator[SliceShare]:
    for name in sorted(set(slices.tolist())):
        own = flags[slices == name]
        yield SliceShare(
            str(name),
            len(own),
            int(own.sum()),
            *foreign_share(int(own.sum()), len(own), rate, known),
        )


def foreign_share(flagged: int, rows: int, rate: float, known: int) -> tuple[float, Interval]:
    """The share of foreign rows, with false alarms taken off, and its 95 % interval.

    If all foreign rows are flagged, the flagged share is f = π + (1 − π) α. The interval combines
    that of f (Clopper and Pearson 1934) with that of the actual rate α given `known` calibration
    rows (a beta distribution), by the method of Zou and Donner (2008). Its upper end also allows
    for no false alarms at all, since rows that the pin was made of are flagged less often.
    """
    from scipy.special import betaincinv

    seen = flagged / rows
    low = float(betaincinv(flagged, rows - flagged + 1, 0.025)) if flagged else 0.0
    high = float(betaincinv(flagged + 1, rows - flagged, 0.975)) if flagged < rows else 1.0
    rank = int(np.ceil((known + 1) * (1 - rate)))
    most = float(betaincinv(known + 1 - rank, rank, 0.975))
    mean = (known + 1 - rank) / (known + 1)
    below = np.hypot(seen - low, most - mean)
    above = np.hypot(high - seen, mean)
    values = [(seen - mean + each) / (1 - mean) for each in (0.0, -below, above)]
    share, first, last = (float(np.clip(value, 0.0, 1.0)) for value in values)
    return share, (first, last)
