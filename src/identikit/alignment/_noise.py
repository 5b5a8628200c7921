"""What a rung predicts if all of its error is noise: errors in variables, from moments alone.

A map h is *true* for a pair if x = z + ε and y = h(z) + δ for some signal z and some noises ε, δ
that are uncorrelated with it and with each other. The noise is not known. The error E‖y − h(x)‖²
of h itself includes all of it, while an unconstrained regression shrinks towards the mean and has
a smaller error. So rungs are not compared by the errors of their maps, but by those of predictions
in which the maps may shrink as far as noise can explain. With S the scatter of z and W the matrix
of h,

    S_xy = S W,   0 ≤ S ≤ S_xx,   0 ≤ Wᵀ S W ≤ S_yy                                        (1)

in the order of positive semi-definite matrices. About the means, the best prediction of y is
x S_xx⁻¹ S W, and that of x is y S_yy⁻¹ Wᵀ S. If h is true then S W = S_xy, and no regression
predicts better. If it is not, then a rotation of the axes makes S_xy W⁻¹ asymmetric, and a stretch
violates one of the two bounds, whatever the noise.

If the noise could have any covariance in both views, (1) would be too permissive: with
S = (S_xy S_xyᵀ)^½ a rotation is true for every pair whose correlations are low enough. So the noise
N = S_xx − S is restricted to these forms, each with few parameters, and the one that predicts best
is chosen for each direction:

- none, or noise with the view's own spectrum, N = (1 − κ) S_xx;
- isotropic noise, N = σ² I;
- for rungs whose maps take axes to axes, noise with its own variance on every axis.

κ ≤ 1, σ² ≥ 0 and the shares of the axes come from the traces and diagonals of S_xy W⁻¹ and S_xx.
Then S_xx − N_x and W⁻ᵀ (S_yy − N_y) W⁻¹ are two estimates of S, one with the sampling error of each
view. Given one of them, predictions use S + N_x and Wᵀ S W + N_y as the scatters, since only then
do they have no more sampling error than a regression.

The scale of a map cannot be estimated by regression either, which shrinks it. By (1) it lies
between that of the regression of y on x and that of the inverse of the regression of x on y. Both
and their geometric mean are tried, and for the scales of single axes also estimates from the other
axes (`_from_others`). For a linear map without a shift, the noise leaves open how far the map
carries the mean of x; see `_mean_gaps`.
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

#: The number of standard errors by which a mean may be off.
MEANS = 2.5

Side = tuple[Array, Array]

#: For each prediction, its squared error on a fold, and the limit for infinitely many rows.
Errors = list[tuple[float, float]]


@dataclass(frozen=True, eq=False)
class Denoised:
    """Held-out errors of a pair's rungs if what they miss is noise; work per fold is cached."""

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
            The errors of its maps without shrinkage.
        """
        if rung.whitened and rung.shift:
            return own  # this is the regression that the others are compared with
        found = self._about_reachable_means() if rung.whitened else self._shrunk(rung)
        best = [_least(one, np.array(folds)) for one, folds in zip(own, found)]
        return best[0], best[1]

    def _shrunk(self, rung: Rung) -> tuple[list[Errors], list[Errors]]:
        """Squared errors of every prediction, fold by fold, in both directions."""
        sides: tuple[list[Errors], list[Errors]] = [], []
        for rows, test in self._rows:
            for side, own, scored_on, predictions in zip(
                sides, (rows.stats, rows.back), (test, test.reversed()), rows.predictions(rung)
            ):
                side.append([_errors(own, scored_on, one) for one in predictions])
        # Where both directions give the same scale, a fold has fewer predictions.
        few = min(len(fold) for fold in sides[0])
        return [fold[:few] for fold in sides[0]], [fold[:few] for fold in sides[1]]

    def _about_reachable_means(self) -> tuple[list[Errors], list[Errors]]:
        """The same for regression about a mean that a linear map can reach."""
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
        for noise in (_own_spectrum, _isotropic, *([_by_axis] if axes else [])):
            of_x, of_y = noise(s, signal), noise(t, image)
            # Each view gives an estimate of the signal, with its own sampling error.
            for shared in (s.sxx - of_x, back.T @ (t.sxx - of_y) @ back):
                there_of = there.T @ shared @ there
                yield _predictor(shared, of_x) @ there, _predictor(there_of, of_y) @ back
        if axes:  # the best if axes are uncorrelated: only one number per axis is estimated
            of_x, of_y = _share_by_axis(signal, s.sxx), _share_by_axis(image, s.syy)
            yield of_x[:, None] * there, of_y[:, None] * back


def _predictor(signal: Array, noise: Array) -> Array:
    """(S + N)⁻¹ S: the best linear predictor of a signal from signal and noise."""
    both = signal + noise
    both[np.diag_indices_from(both)] += 1e-12 * max(float(np.trace(both)), 1e-300)
    return np.asarray(_inverse(both) @ signal)


def _own_spectrum(stats: PairStats, signal: Array) -> Array:
    """Noise with the view's own spectrum, and the variance that is not signal."""
    return (1 - _share(stats, signal)) * stats.sxx


def _isotropic(stats: PairStats, signal: Array) -> Array:
    """σ² I, but in each direction at most the variance of the view."""
    values, axes = stats.spectrum
    noise = np.minimum(values, (1 - _share(stats, signal)) * values.mean())
    return np.asarray((axes * noise) @ axes.T)


def _by_axis(stats: PairStats, signal: Array) -> Array:
    """Diagonal noise: on every axis, the variance that is not signal."""
    return np.diag(np.diagonal(stats.sxx) * (1 - _share_by_axis(signal, stats.sxx)))


def _share_by_axis(signal: Array, own: Array) -> Array:
    share = np.diagonal(signal) * inverse_or_zero(np.diagonal(own).copy())
    return np.asarray(np.clip(share, 0.0, 1.0))


def _share(stats: PairStats, signal: Array) -> float:
    size = float(np.trace(stats.sxx))
    return min(max(float(np.trace(signal)) / size, 0.0), 1.0) if size > 0 else 0.0


def _from_others(stats: PairStats, map_: Array) -> Array:
    """A monomial map with scales that noise on each axis does not shrink.

    The prediction x̂ of an axis from the other axes of x is free of the axis's own noise, so the
    scale is E x̂y / E x̂x (instrumental variables). With the inverse P of S_xx that is
    (S_xy − (P S_xy)/P) / (S_xx − 1/P) in diagonal elements.
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
    """The map with each entry clipped to lie between those of two others."""
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
    """Squared errors on a fold of regressions about means that are off by the given gaps."""
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
    """How far one view's mean a is from those that a linear map can reach from the other's mean b.

    In canonical coordinates of unit variance the signal's scatter S lies between diag r² and I,
    and a linear map that fulfils (1) carries one mean to the other if S q = a with q = b/r. If S is
    also diagonal, a lies between r b and b/r, axis by axis. In general,
    S = r² + √(1−r²) E √(1−r²) with 0 ≤ E ≤ I, and the vectors E v fill the ball that has v as its
    diameter. In either case, sampling alone gives an intercept a standard error of
    √((1 − r²)(1 + ‖means‖²)/n). Returned are the gap for a diagonal S, and for any S.
    """
    rest = np.maximum(1 - r**2, 1e-12)
    error = np.sqrt((1 + max(float(a @ a), float(b @ b))) / rows)
    r = np.maximum(r, 1e-6)
    ends = np.sort([r * b, b / r], axis=0)
    width = MEANS * error * np.sqrt(rest) / r
    diagonal = a - np.clip(a, ends[0] - width, ends[1] + width)
    # Bounded below, so that directions that are mostly noise do not make all means reachable.
    centre = np.sqrt(rest) * b / np.maximum(r, 0.3) / 2
    off = (a - r * b) / np.sqrt(rest) - centre
    radius = np.linalg.norm(centre) + (np.sqrt(len(r)) + MEANS) * error
    outside = max(0.0, 1 - radius / max(float(np.linalg.norm(off)), 1e-300))
    return diagonal, np.sqrt(rest) * off * outside
