"""What a rung predicts if all that it misses is noise: errors in variables, from moments alone.

A map h is *true* of a pair if x = z + ε and y = h(z) + δ for some signal z and some noises ε, δ
that are uncorrelated with it and with each other. The noise is not known, and for h itself the
error E‖y − h(x)‖² counts all of it, while a free regression shrinks towards the mean and counts
less. So rungs are not compared by the errors of their maps, but by what their maps predict once
they may shrink as far as noise can explain: with S the scatter of z and W the matrix of h,

    S_xy = S W,   0 ≤ S ≤ S_xx,   0 ≤ Wᵀ S W ≤ S_yy                                        (1)

in the order of positive semi-definite matrices, and the best prediction of y is about its mean
x S_xx⁻¹ S W, that of x is y S_yy⁻¹ Wᵀ S. If h is true then S W = S_xy, and no regression predicts
better. If it is not, a rotation of the axes makes S_xy W⁻¹ asymmetric and a stretch breaks one of
the two bounds, whatever the noise.

With noise of any covariance in both views, (1) would excuse too much: S = (S_xy S_xyᵀ)^½ makes a
rotation true of every pair whose correlations are low enough. So the noise N = S_xx − S has one of
these forms, each with few parameters, and of these the one that predicts best is taken, for each
direction:

- none, and noise with the view's own spectrum, N = (1 − κ) S_xx;
- isotropic, N = σ² I;
- for rungs whose maps have axes, of its own on every axis.

κ ≤ 1, σ² ≥ 0 and the shares of the axes come from the traces and diagonals of S_xy W⁻¹ and S_xx.
Then S_xx − N_x and W⁻ᵀ (S_yy − N_y) W⁻¹ are two estimates of S, with the sampling error of either
view; given one of them, predictions use S + N_x and Wᵀ S W + N_y for the scatters, since only so
do they have no more sampling error than a regression.

The scale of a map cannot be had by regression either (it shrinks); (1) leaves it between that of
the regression of y on x and that of the inverse of the other one. Both and their geometric mean are
tried, and for scales of axes what the other axes say of them (`_from_others`). Of a linear map
without a shift the noise leaves open how far it carries the mean of x; see `_mean_gaps`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from identikit._linalg import Array, inverse_or_zero, one_thread, svd
from identikit.alignment._ladder import ROWS_FOR_LIMIT, HeldOut, in_the_limit
from identikit.alignment._ridge import choose_strength, ridge
from identikit.alignment._rungs import Rung
from identikit.alignment._stats import PairStats, pair_stats, whitened_stats
from identikit.moments import Moments

#: Sampling errors that a mean may be off.
MEANS = 2.5

Side = tuple[Array, Array]

#: Of each prediction: squared error on a fold, and its limit for a fit on infinitely many rows.
Errors = list[tuple[float, float]]


@dataclass(frozen=True, eq=False)
class Denoised:
    """Held-out errors of a pair's rungs if what they miss is noise; a fold's work is kept."""

    moments: Moments
    i: int
    j: int

    @cached_property
    def _rows(self) -> list[tuple[_Rows, PairStats]]:
        m, i, j = self.moments, self.i, self.j
        return [
            (_Rows(pair_stats(m, i, j, without=fold)), pair_stats(m, i, j, only=fold))
            for fold, part in enumerate(m.parts)
            if part.count
        ]

    def errors(self, rung: Rung, own: tuple[HeldOut, HeldOut]) -> tuple[HeldOut, HeldOut]:
        """The least held-out error that noise can explain, from view i to view j and back.

        Parameters
        ----------
        rung : Rung
        own : tuple of HeldOut
            The errors of its maps as they are.
        """
        if rung.whitened and rung.shift:
            return own  # regression is what the others are compared with
        found = self._about_reachable_means() if rung.whitened else self._shrunk(rung)
        best = [_least(one, np.array(folds)) for one, folds in zip(own, found)]
        return best[0], best[1]

    def _shrunk(self, rung: Rung) -> tuple[list[Errors], list[Errors]]:
        """Squared errors of every prediction, fold by fold, both ways."""
        sides: tuple[list[Errors], list[Errors]] = [], []
        for rows, test in self._rows:
            for side, own, scored_on, predictions in zip(
                sides, (rows.stats, rows.back), (test, test.reversed()), rows.predictions(rung)
            ):
                side.append([_errors(own, scored_on, one) for one in predictions])
        # A fold whose map has one scale only has fewer predictions.
        few = min(len(fold) for fold in sides[0])
        return [fold[:few] for fold in sides[0]], [fold[:few] for fold in sides[1]]

    def _about_reachable_means(self) -> tuple[list[Errors], list[Errors]]:
        """The same of regression about a mean that a linear map can reach."""
        m, i, j = self.moments, self.i, self.j
        sides: tuple[list[Errors], list[Errors]] = [], []
        for fold, part in enumerate(m.parts):
            if not part.count:
                continue
            left, r, right = svd(m.coherence(i, j, without=fold))
            root = np.sqrt(m.n(fold))
            a = root * (m.centre(i, fold) @ m.whitening_map(i, fold)) @ left
            b = root * (m.centre(j, fold) @ m.whitening_map(j, fold)) @ right.T
            for side, (x, y), means, turn in (
                (sides[0], (i, j), (b, a), right),
                (sides[1], (j, i), (a, b), left.T),
            ):
                back = turn @ m.loadings(y, fold) / root
                gaps = [gap @ back for gap in _mean_gaps(*means, r, m.n(fold))]
                side.append(_about(m, x, y, fold, gaps))
        return sides


class _Rows:
    """The rows that predictions are fitted on."""

    def __init__(self, stats: PairStats) -> None:
        self.stats, self.back = stats, stats.reversed()

    def predictions(self, rung: Rung) -> tuple[list[Side], list[Side]]:
        """Weights and shifts of the predictions of y from x, and of x from y."""
        s = self.stats
        means = (s.y_mean, s.x_mean) if rung.shift else (s.x_mean, s.y_mean)
        sides: tuple[list[Side], list[Side]] = [], []
        for there, back in self._maps(rung):
            for weights in self._shrunk(there, back, axes=rung.of_axes):
                for side, stats, mean, w in zip(sides, (s, self.back), means, weights):
                    side.append((w, mean - stats.x_mean @ w))
        return sides

    def _maps(self, rung: Rung) -> Iterator[tuple[Array, Array]]:
        """Maps of the rung and their inverses, at the scales that noise leaves open."""
        there, back = rung.fit(self.stats)[0], rung.fit(self.back)[0]
        other = _inverse(back)
        yield there, _inverse(there)
        if np.allclose(there, other, rtol=1e-9, atol=1e-12 * np.abs(there).max()):
            return
        yield other, back
        if not np.array_equal(other != 0, there != 0):
            return
        middle = np.sign(there) * np.sqrt(np.abs(there * other))
        yield middle, _inverse(middle)
        if rung.of_axes:
            by_x, by_y = _from_others(self.stats, there), _from_others(self.back, back)
            for map_ in (by_x, _inverse(by_y)):
                map_ = _between(map_, there, other)
                yield map_, _inverse(map_)

    def _shrunk(self, there: Array, back: Array, *, axes: bool) -> Iterator[tuple[Array, Array]]:
        yield there, back
        s, t = self.stats, self.back
        signal = _symmetric(s.sxy @ back)
        image = _symmetric(there.T @ signal @ there)
        for noise in (_own, _isotropic, *([_by_axis] if axes else [])):
            of_x, of_y = noise(s, signal), noise(t, image)
            # Either view tells what they share, each with its own sampling error.
            for shared in (s.sxx - of_x, back.T @ (t.sxx - of_y) @ back):
                there_of = there.T @ shared @ there
                yield _kept(shared, of_x) @ there, _kept(there_of, of_y) @ back
        if axes:  # where axes are uncorrelated, one number for each is all that sampling can hurt
            of_x, of_y = _share_by_axis(signal, s.sxx), _share_by_axis(image, s.syy)
            yield of_x[:, None] * there, of_y[:, None] * back


def _kept(signal: Array, noise: Array) -> Array:
    """(S + N)⁻¹ S: what is best kept of a signal with noise."""
    both = signal + noise
    both[np.diag_indices_from(both)] += 1e-12 * max(float(np.trace(both)), 1e-300)
    return np.asarray(_inverse(both) @ signal)


def _own(stats: PairStats, signal: Array) -> Array:
    """Noise with the view's own spectrum: all that is not signal."""
    return (1 - _share(stats, signal)) * stats.sxx


def _isotropic(stats: PairStats, signal: Array) -> Array:
    """σ² I, or where the view has less variance than that, its own."""
    values, axes = stats.spectrum
    noise = np.minimum(values, (1 - _share(stats, signal)) * values.mean())
    return np.asarray((axes * noise) @ axes.T)


def _by_axis(stats: PairStats, signal: Array) -> Array:
    """A diagonal of what is not signal on every axis."""
    return np.diag(np.diagonal(stats.sxx) * (1 - _share_by_axis(signal, stats.sxx)))


def _share_by_axis(signal: Array, own: Array) -> Array:
    share = np.diagonal(signal) * inverse_or_zero(np.diagonal(own).copy())
    return np.asarray(np.clip(share, 0.0, 1.0))


def _share(stats: PairStats, signal: Array) -> float:
    size = float(np.trace(stats.sxx))
    return min(max(float(np.trace(signal)) / size, 0.0), 1.0) if size > 0 else 0.0


def _from_others(stats: PairStats, map_: Array) -> Array:
    """A monomial map with scales that noise on each axis does not shrink.

    What the other axes of x predict of an axis, x̂, is free of the axis's own noise: y/x is
    E x̂y / E x̂x (instrumental variables). By the inverse P of S_xx that is
    (S_xy − (P S_xy)/P) / (S_xx − 1/P), of diagonal elements.
    """
    axis, target = np.nonzero(map_)
    inverse = stats.inverse
    own = np.diagonal(inverse)[axis]
    rest = inverse_or_zero(own)
    covariance = stats.sxy[axis, target] - (inverse @ stats.sxy)[axis, target] * rest
    predicted = np.diagonal(stats.sxx)[axis] - rest
    result = map_.copy()
    known = predicted > 0
    result[axis[known], target[known]] = covariance[known] / predicted[known]
    return result


def _between(map_: Array, one: Array, other: Array) -> Array:
    """The map with each entry brought between those of two others."""
    return np.asarray(np.clip(map_, np.minimum(one, other), np.maximum(one, other)))


def _inverse(matrix: Array) -> Array:
    with one_thread(min(matrix.shape)):
        if matrix.shape[0] == matrix.shape[1]:
            with suppress(np.linalg.LinAlgError):
                return np.asarray(np.linalg.inv(matrix), dtype=np.float64)
        return np.asarray(np.linalg.pinv(matrix), dtype=np.float64)


def _symmetric(matrix: Array) -> Array:
    return np.asarray((matrix + matrix.T) / 2)


def _least(own: HeldOut, found: Array) -> HeldOut:
    """The least error of some predictions (folds × predictions × 2), and the least limit."""
    residuals, limits = found.transpose(2, 1, 0)
    residual = min([own.residual, *residuals], key=np.sum)
    known = not np.isnan(limits).any()
    return HeldOut(residual, own.total, limit=min(limits, key=np.sum) if known else None)


def _errors(fitted_on: PairStats, scored_on: PairStats, fit: Side) -> tuple[float, float]:
    return scored_on.squared_error(*fit), in_the_limit(fitted_on, scored_on, fit)


def _about(m: Moments, i: int, j: int, fold: int, gaps: list[Array]) -> Errors:
    """Squared errors on a fold of regressions about means that are off by these gaps."""
    own = pair_stats(m, i, j, without=fold)
    strength = choose_strength(own, shift=True)
    train, test = whitened_stats(m, i, j, fold)
    weights, shift = train.sxy, train.y_mean - train.x_mean @ train.sxy
    limits = [np.nan for _ in gaps]
    if train.n >= ROWS_FOR_LIMIT * len(train.sxy):
        limits = [in_the_limit(train, test, (weights, shift - gap)) for gap in gaps]
    if strength:
        test, (weights, shift) = pair_stats(m, i, j, only=fold), ridge(own, strength, shift=True)
    return [(test.squared_error(weights, shift - gap), limit) for gap, limit in zip(gaps, limits)]


def _mean_gaps(a: Array, b: Array, r: Array, rows: int) -> tuple[Array, Array]:
    """How far the mean a of one view is from any that a linear map can have, given the other's b.

    In canonical coordinates of unit variance the signal's scatter S lies between diag r² and I,
    and a linear map that fulfils (1) carries the means if S q = a with q = b/r. If S is diagonal
    too, a lies between r b and b/r, axis by axis. In general, S = r² + √(1−r²) E √(1−r²) with
    0 ≤ E ≤ I, and the vectors E v fill the ball that has v as its diameter. Either way an intercept
    is off by √((1 − r²)(1 + ‖means‖²)/n) from sampling alone.

    Returns
    -------
    tuple of array
        The gap for a diagonal S, and for any.
    """
    rest = np.maximum(1 - r**2, 1e-12)
    error = np.sqrt((1 + max(float(a @ a), float(b @ b))) / rows)
    r = np.maximum(r, 1e-6)
    ends = np.sort([r * b, b / r], axis=0)
    width = MEANS * error * np.sqrt(rest) / r
    diagonal = a - np.clip(a, ends[0] - width, ends[1] + width)
    # Directions that are mostly noise may not lend their means to the others.
    centre = np.sqrt(rest) * b / np.maximum(r, 0.3) / 2
    off = (a - r * b) / np.sqrt(rest) - centre
    radius = np.linalg.norm(centre) + (np.sqrt(len(r)) + MEANS) * error
    outside = max(0.0, 1 - radius / max(float(np.linalg.norm(off)), 1e-300))
    return diagonal, np.sqrt(rest) * off * outside
