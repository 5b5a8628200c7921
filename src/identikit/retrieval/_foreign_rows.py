"""Which rows come from another model: how far out they are of the pinned rows' distribution.

The distance of a row x is (x − μ)ᵀ (Σ + r I)⁻¹ (x − μ), with the mean and covariance of all pinned
rows, and r a small share of the mean eigenvalue (Mahalanobis 1936, regularised). Another model of
the same width has its rows in other directions, so that nearly all of them lie far outside, also
if both models have unit length. A fine-tuned successor has not, but its rows are a population of
their own (`_second_population`), and are told by a score in the direction of its mean. How far out
a row is, is the larger of both, each in standard deviations over the mean of the pinned sample, in
which each row is left out of μ and Σ (leave-one-out), as a new row of the same model would be. The
threshold is a quantile of the pinned sample.
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
from identikit.moments.sample import row_keys
from identikit.retrieval._pin import LEAST, PinnedView
from identikit.retrieval._pinned_views import BLOCK, Ids
from identikit.retrieval._second_population import FITTED, Population, second_population
from identikit.retrieval.check_result import ForeignRows, Interval, RowPopulation, SliceShare
from identikit.sources import Source

#: What is added to the covariance, as a share of its mean eigenvalue. Over 40 pairs of models on
#: two collections, 0.01 finds at least as many foreign rows as 0.1, 0.3 and 1.
RIDGE = 0.01

#: How far apart a second population must be for its rows to be another model's, and to be worth a
#: word; `docs/check.md` has what models, and other contents of one model, are apart.
APART, REMARKABLE = 0.85, 0.3


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

    def turned(self, rows: Array) -> Array:
        """Rows in coordinates in which the pinned ones have mean 0 and nearly covariance I."""
        return np.asarray((rows - self.mean) @ self.turn)

    def distances(self, rows: Array) -> Array:
        """Of rows that are not among the pinned ones."""
        return np.asarray(np.square(self.turned(rows)).sum(axis=1))

    def without_itself(self, rows: Array) -> Array:
        """Distances of pinned rows, each with mean and covariance of all other rows.

        With S the scatter of n rows and z = x − μ, the others have the mean μ − z/(n−1) and the
        scatter S − n/(n−1) zzᵀ, whose inverse is that of S plus a matrix of rank one.
        """
        own = self.distances(rows)
        return np.asarray(self.n / (self.n - 1) * own / self._room(own))

    def scores_without_itself(self, rows: Array, mean: Array) -> Array:
        """Products of turned pinned rows with a mean, each without the row itself, as above."""
        own = self.distances(rows)
        return np.asarray((self.turned(rows) @ mean + own / (self.n - 1)) / self._room(own))

    def _room(self, own: Array) -> Array:
        return np.maximum(1 - own / (self.n - 1), 1e-9)


def foreign_rows(
    pinned: PinnedView,
    source: Source,
    *,
    false_alarms: float,
    ids: Ids | None,
    slices: NDArray[np.object_] | None,
    compared: SliceShare | None = None,
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
    compared : SliceShare, optional
        What is known of rows that were compared one by one; it is handed on.
    progress : callable, optional
    """
    known, rank = _calibration(pinned, source, false_alarms)
    space, own = Space.of(pinned.moments), pinned.values()
    near = space.without_itself(own)
    half = row_keys(0, source.rows, 0) % 2 == 1
    distances, population = _looked_at(space, source, half, float(near.mean()), progress)
    out, own_out = _standard(distances, near), _standard(near, near)
    limit = float(np.sort(own_out)[rank - 1])
    second = None
    if population.apart >= REMARKABLE:
        scores = _scores(space, source, population, half, progress)
        both, both_limit = out.copy(), limit
        for there, mean in zip((half, ~half), population.means, strict=True):
            usual = space.scores_without_itself(own, mean)
            both[there] = np.maximum(out[there], _standard(scores[there], usual))
            own_both = np.sort(np.maximum(own_out, _standard(usual, usual)))
            both_limit = max(both_limit, float(own_both[rank - 1]))
        told = population.apart >= APART
        share, interval = _share(both > both_limit, false_alarms, known)
        if interval[0] > 0:
            second = RowPopulation(population.apart, told, share, interval)
        if told:
            out, limit = both, both_limit
    flags = out > limit
    numbers = np.flatnonzero(flags)
    return ForeignRows(
        len(flags),
        false_alarms,
        limit,
        known,
        tuple(numbers.tolist()),
        None if ids is None else tuple(ids[numbers].tolist()),
        tuple(out[numbers].tolist()),
        *_share(flags, false_alarms, known),
        () if slices is None else tuple(_slices(slices, flags, false_alarms, known)),
        second,
        compared,
    )


def _calibration(pinned: PinnedView, source: Source, false_alarms: float) -> tuple[int, int]:
    """The number of pinned rows, and the rank among them that is the threshold; or an error."""
    if pinned.sample is None:
        raise InputError("--rows needs a pin with rows, and this one was made with --no-rows")
    if not 0 < false_alarms < 1:
        raise InputError(f"the false-alarm rate is {false_alarms}; expected a share such as 0.01")
    if source.rows < LEAST:
        raise InputError(
            f"{source.name!r} has {source.rows} rows; foreign ones are looked for among at least "
            f"{LEAST}"
        )
    known = len(pinned.sample)
    # The smallest rank whose order statistic keeps the rate (conformal; Vovk et al. 2005).
    rank = int(np.ceil((known + 1) * (1 - false_alarms)))
    if rank > known:
        needed = int(np.ceil(1 / false_alarms))
        raise InputError(
            f"a false-alarm rate of {false_alarms:g} needs at least {needed} pinned rows, and "
            f"there are {known}; give a larger rate or pin more rows"
        )
    return known, rank


def _standard(values: Array, usual: Array) -> Array:
    return np.asarray((values - usual.mean()) / max(float(usual.std()), 1e-300))


def _looked_at(
    space: Space,
    source: Source,
    half: NDArray[np.bool_],
    typical: float,
    progress: Progress | None,
) -> tuple[Array, Population]:
    """The distances of all rows, and the second population in a sample of each half."""
    chosen = np.zeros(source.rows, dtype=bool)
    for there in (np.flatnonzero(half), np.flatnonzero(~half)):
        chosen[there[np.linspace(0, len(there) - 1, min(len(there), FITTED)).astype(int)]] = True
    distances, sample = [], []
    for start, rows in _in_blocks(source, "looking for foreign rows", progress):
        turned = space.turned(rows)
        distances.append(np.square(turned).sum(axis=1))
        sample.append(turned[chosen[start : start + len(rows)]])
    population = second_population(np.concatenate(sample), half[chosen], typical)
    return np.concatenate(distances), population


def _scores(
    space: Space,
    source: Source,
    population: Population,
    half: NDArray[np.bool_],
    progress: Progress | None,
) -> Array:
    blocks = _in_blocks(source, "looking at a second population", progress)
    return np.concatenate(
        [
            population.scores(space.turned(rows), half[start : start + len(rows)])
            for start, rows in blocks
        ]
    )


def _in_blocks(source: Source, what: str, progress: Progress | None) -> Iterator[tuple[int, Array]]:
    for start in range(0, source.rows, BLOCK):
        stop = min(start + BLOCK, source.rows)
        yield start, np.asarray(source.read(start, stop), dtype=np.float64)
        if progress is not None:
            progress(what, stop, source.rows)


def _slices(
    slices: NDArray[np.object_], flags: NDArray[np.bool_], rate: float, known: int
) -> Iterator[SliceShare]:
    for name in sorted(set(slices.tolist())):
        own = flags[slices == name]
        yield SliceShare(str(name), len(own), int(own.sum()), *_share(own, rate, known))


def _share(flags: NDArray[np.bool_], rate: float, known: int) -> tuple[float, Interval]:
    return foreign_share(int(flags.sum()), len(flags), rate, known)


def foreign_share(flagged: int, rows: int, rate: float, known: int) -> tuple[float, Interval]:
    """The share of foreign rows, with false alarms taken off, and its 95 % interval.

    If all foreign rows are flagged, the flagged share is f = π + (1 − π) α. The interval combines
    that of f (Clopper and Pearson 1934) with that of the actual rate α given `known` calibration
    rows (a beta distribution), by the method of Zou and Donner (2008). Its upper end also allows
    for no false alarms at all, since rows that the pin was made of are flagged less often.
    """
    from scipy.special import betaincinv

    seen = flagged / rows
    low, high = _clopper_pearson(flagged, rows)
    rank = int(np.ceil((known + 1) * (1 - rate)))
    most = float(betaincinv(known + 1 - rank, rank, 0.975))
    mean = (known + 1 - rank) / (known + 1)
    below = np.hypot(seen - low, most - mean)
    above = np.hypot(high - seen, mean)
    values = [(seen - mean + each) / (1 - mean) for each in (0.0, -below, above)]
    share, first, last = (float(np.clip(value, 0.0, 1.0)) for value in values)
    return share, (first, last)


def compared_share(changed: NDArray[np.bool_] | None) -> SliceShare | None:
    """How many of the rows that were compared one by one have changed; None if none were."""
    if changed is None:
        return None
    count, rows = int(changed.sum()), len(changed)
    interval = _clopper_pearson(count, rows)
    return SliceShare("compared one by one", rows, count, count / rows, interval)


def _clopper_pearson(count: int, rows: int) -> Interval:
    from scipy.special import betaincinv

    low = float(betaincinv(count, rows - count + 1, 0.025)) if count else 0.0
    high = float(betaincinv(count + 1, rows - count, 0.975)) if count < rows else 1.0
    return low, high
