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

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from identikit._linalg import Array, eigh, inverse_or_zero
from identikit._threads import in_threads, one_thread
from identikit.alignment._basis import Basis, InBasis
from identikit.alignment._ladder import ROWS_FOR_LIMIT, HeldOut, in_the_limit
from identikit.alignment._ridge import choose_strength, ridge
from identikit.alignment._rungs import Rung
from identikit.alignment._stats import PairStats, pair_stats, whitened_stats
from identikit.moments import Moments

#: The number of standard errors by which a mean may be off.
MEANS = 2.5

#: What is added to the diagonal of a scatter before it is inverted, as a share of its trace.
JITTER = 1e-12

#: For each prediction, its squared error on a fold, and the limit for infinitely many rows.
Errors = list[tuple[float, float]]

#: The matrix of a map, or a number that stands for that multiple of I.
Weights = Array | float

#: Weights and shift of a prediction.
Prediction = tuple[Weights | InBasis, Array]


class Noise(NamedTuple):
    """The scatters of a view's noise and signal, and `shrink`: (S + N)⁻¹ S times some weights."""

    noise: Array
    signal: Array
    shrink: Callable[[Weights], Weights]


@dataclass(frozen=True, eq=False)
class Denoised:
    """Held-out errors of a pair's rungs if what they miss is noise."""

    moments: Moments
    i: int
    j: int

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
        m, i, j = self.moments, self.i, self.j

        def of_fold(fold: int) -> tuple[Errors, Errors]:
            if rung.whitened:
                return _about_reachable_means(m, i, j, fold)
            return _shrunk_errors(m, i, j, fold, rung)

        folds = [fold for fold, part in enumerate(m.parts) if part.count]
        found = [*in_threads(of_fold, folds, max(m.widths[i], m.widths[j]))]
        best = []
        for one, side in zip(own, zip(*found)):
            # Where both directions give the same scale, a fold has fewer predictions.
            few = min(len(fold) for fold in side)
            best.append(_least(one, np.array([fold[:few] for fold in side])))
        return best[0], best[1]


def _least(own: HeldOut, found: Array) -> HeldOut:
    """The least error of some predictions (folds × predictions × 2), and the least limit."""
    residuals, limits = found.transpose(2, 1, 0)
    residual = min([own.residual, *residuals], key=np.sum)
    known = not np.isnan(limits).any()
    return HeldOut(residual, own.total, limit=min(limits, key=np.sum) if known else None)


def _shrunk_errors(m: Moments, i: int, j: int, fold: int, rung: Rung) -> tuple[Errors, Errors]:
    """Squared errors on a fold of every prediction, in both directions."""
    train, test = pair_stats(m, i, j, without=fold), pair_stats(m, i, j, only=fold)
    bases = None
    if rung.keeps_shape and train.rotates:
        train, test = _turned(train, test)
        white = m.whiten(j, fold)
        well = white.rank == len(train.syy) and not white.smallest
        bases = _Bases.of(train, m.whitening_map(j, fold) if well else None)
    fitted_on, scored_on = (train, train.reversed()), (test, test.reversed())
    sides: tuple[Errors, Errors] = [], []
    for there_and_back in _predictions(*fitted_on, rung, bases):
        for side, own, new, fit in zip(sides, fitted_on, scored_on, there_and_back):
            side.append(_errors(own, new, fit))
    m.without(fold).release()
    return sides


def _turned(train: PairStats, test: PairStats) -> tuple[PairStats, PairStats]:
    """The same rows with x turned to y, so that the best rotation of the training rows is I.

    This changes no error, and products with rotations need not be computed.
    """
    turn = train.polar
    both = [
        PairStats(s.n, s.x_mean @ turn, s.y_mean, turn.T @ s.sxx @ turn, turn.T @ s.sxy, s.syy)
        for s in (train, test)
    ]
    values, axes = train.spectrum
    known = {"polar": np.eye(len(turn)), "spectrum": (values, turn.T @ axes)}
    both[0].__dict__.update(known)
    both[0].reversed().__dict__["spectrum"] = train.reversed().spectrum
    return both[0], both[1]


def _errors(fitted_on: PairStats, scored_on: PairStats, fit: Prediction) -> tuple[float, float]:
    held_out, within = (stats.squared_error(*fit) for stats in (scored_on, fitted_on))
    return held_out, in_the_limit(held_out, scored_on.n, within, fitted_on.n)


def _predictions(
    s: PairStats, t: PairStats, rung: Rung, bases: _Bases | None
) -> Iterator[tuple[Prediction, Prediction]]:
    """Predictions of y from x, and of x from y; t are the statistics s of the reversed pair."""
    means = (s.y_mean, s.x_mean) if rung.shift else (s.x_mean, s.y_mean)
    for there, back in _maps(s, t, rung):
        if bases is not None and isinstance(there, float) and isinstance(back, float):
            shrunk = _shrunk_multiples(s, t, there, back, bases)
        else:
            shrunk = _shrunk(s, t, there, back, axes=rung.of_axes)
        for forward, backward in shrunk:
            yield (
                (forward, means[0] - _of_row(s.x_mean, forward)),
                (backward, means[1] - _of_row(t.x_mean, backward)),
            )


def _of_row(row: Array, weights: Weights | InBasis) -> Array:
    if isinstance(weights, InBasis):
        return weights.of_row(row)
    return np.asarray(_times(row[None], weights)[0])


def _maps(s: PairStats, t: PairStats, rung: Rung) -> Iterator[tuple[Weights, Weights]]:
    """Maps of the rung and their inverses, at the scales that noise leaves open."""
    there: Weights
    back: Weights
    there, back = rung.fit(s)[0], rung.fit(t)[0]
    if rung.keeps_shape and s.rotates:  # x is turned to y
        there, back = float(there[0, 0]), float(back[0, 0])
    other = _inverse(back)
    yield there, _inverse(there)
    if np.allclose(there, other, rtol=1e-9, atol=1e-12 * np.abs(there).max()):
        return
    yield other, back
    if not np.array_equal(np.not_equal(other, 0), np.not_equal(there, 0)):
        return
    middle = np.sign(there) * np.sqrt(np.abs(np.multiply(there, other)))
    yield middle, _inverse(middle)
    if rung.of_axes:
        assert not isinstance(there, float)
        assert not isinstance(back, float)
        by_x, by_y = _from_others(s, there), _inverse(_from_others(t, back))
        for map_ in (by_x, by_y):
            map_ = np.clip(map_, np.minimum(there, other), np.maximum(there, other))
            yield map_, _inverse(map_)


def _shrunk(
    s: PairStats, t: PairStats, there: Weights, back: Weights, *, axes: bool
) -> Iterator[tuple[Weights, Weights]]:
    """A map and its inverse, shrunk as far as noise can explain."""
    yield there, back
    # Only traces and diagonals of the signal are used, so that it need not be made symmetric.
    signal = _times(s.sxy, back)
    image = _mapped(signal, there)
    for noise in (_own_spectrum, _isotropic, *([_by_axis] if axes else [])):
        of_x, of_y = noise(s, signal), noise(t, image)
        # Each view gives an estimate of the signal, with its own sampling error.
        backward = _times(_predictor(_mapped(of_x.signal, there), of_y.noise), back)
        yield of_x.shrink(there), backward
        forward = _times(_predictor(_mapped(of_y.signal, back), of_x.noise), there)
        yield forward, of_y.shrink(back)
    if axes:  # the best if axes are uncorrelated: only one number per axis is estimated
        by_x, by_y = _share_by_axis(signal, s.sxx), _share_by_axis(image, s.syy)
        yield by_x[:, None] * there, by_y[:, None] * back


class _Bases(NamedTuple):
    """Bases in which shrunk multiples of I are diagonal, where x is turned to y.

    `x` and `y` are the principal axes of the views, with their variances. `both` diagonalises both
    scatters, Tᵀ S_xx T = diag λ and Tᵀ S_yy T = I; it is None where S_yy is ill-conditioned.
    """

    x: tuple[Array, Basis]
    y: tuple[Array, Basis]
    both: tuple[Array, Basis] | None

    @classmethod
    def of(cls, s: PairStats, white: Array | None) -> _Bases:
        """The bases of a pair; `white` is T with Tᵀ S_yy T = I."""
        own = [(values, Basis(axes)) for values, axes in (s.spectrum, s.reversed().spectrum)]
        both = None
        if white is not None:
            values, axes = eigh(white.T @ s.sxx @ white)
            turn = white @ axes
            both = values, Basis(turn, turn.T @ s.syy)
        return cls(own[0], own[1], both)


def _shrunk_multiples(
    s: PairStats, t: PairStats, there: float, back: float, bases: _Bases
) -> Iterator[tuple[Weights | InBasis, Weights | InBasis]]:
    """`_shrunk` for multiples of I, in bases in which most of the predictions are diagonal."""
    if bases.both is None:
        yield from _shrunk(s, t, there, back, axes=False)
        return
    yield there, back
    along = float(np.trace(s.sxy)) * back
    of_x, of_y = _share_of(s, along), _share_of(t, along * there**2)
    # Noise with the views' own spectra: the sums of signal and noise combine S_xx and S_yy.
    ratios, both = bases.both
    yield of_x * there, InBasis(both, back * _ratio(there**2 * of_x * ratios, 1 - of_y))
    yield InBasis(both, there * _ratio(back**2 * of_y, (1 - of_x) * ratios)), of_y * back
    # Isotropic noise: signal and noise have the axes of one view, unless noise is cut off.
    (x_values, x_axes), (y_values, y_axes) = bases.x, bases.y
    x_noise = np.minimum(x_values, (1 - of_x) * x_values.mean())
    y_noise = np.minimum(y_values, (1 - of_y) * y_values.mean())
    backward: Weights | InBasis
    forward: Weights | InBasis
    if y_noise[-1] == y_noise[0]:
        backward = InBasis(x_axes, back * _ratio(there**2 * (x_values - x_noise), y_noise))
    else:
        signal = (x_axes.turn * (there**2 * (x_values - x_noise))) @ x_axes.turn.T
        backward = back * _predictor(signal, (y_axes.turn * y_noise) @ y_axes.turn.T)
    yield InBasis(x_axes, there * _ratio(x_values - x_noise, x_noise)), backward
    if x_noise[-1] == x_noise[0]:
        forward = InBasis(y_axes, there * _ratio(back**2 * (y_values - y_noise), x_noise))
    else:
        signal = (y_axes.turn * (back**2 * (y_values - y_noise))) @ y_axes.turn.T
        forward = there * _predictor(signal, (x_axes.turn * x_noise) @ x_axes.turn.T)
    yield forward, InBasis(y_axes, back * _ratio(y_values - y_noise, y_noise))


def _ratio(signal: Array | float, noise: Array | float) -> Array:
    """S/(S + N) in every direction, 0 where there is neither."""
    return np.asarray(signal * inverse_or_zero(np.asarray(signal + noise)))


def _own_spectrum(stats: PairStats, signal: Array) -> Noise:
    """Noise with the view's own spectrum, and the variance that is not signal."""
    share = _share(stats, signal)
    return Noise((1 - share) * stats.sxx, share * stats.sxx, lambda w: share * w)


def _isotropic(stats: PairStats, signal: Array) -> Noise:
    """σ² I, but in each direction at most the variance of the view."""
    values, axes = stats.spectrum
    noise = np.minimum(values, (1 - _share(stats, signal)) * values.mean())
    of_noise: Array = (axes * noise) @ axes.T
    gain = (values - noise) / (values + JITTER * max(float(values.sum()), 1e-300))
    return Noise(of_noise, stats.sxx - of_noise, lambda w: _times((axes * gain) @ axes.T, w))


def _by_axis(stats: PairStats, signal: Array) -> Noise:
    """Diagonal noise: on every axis, the variance that is not signal."""
    noise = np.diag(np.diagonal(stats.sxx) * (1 - _share_by_axis(signal, stats.sxx)))
    rest = stats.sxx - noise
    return Noise(noise, rest, lambda w: _times(_predictor(rest, noise), w))


def _share_by_axis(signal: Array, own: Array) -> Array:
    share = np.diagonal(signal) * inverse_or_zero(np.diagonal(own).copy())
    return np.asarray(np.clip(share, 0.0, 1.0))


def _share(stats: PairStats, signal: Array) -> float:
    return _share_of(stats, float(np.trace(signal)))


def _share_of(stats: PairStats, signal: float) -> float:
    size = float(np.trace(stats.sxx))
    return min(max(signal / size, 0.0), 1.0) if size > 0 else 0.0


def _predictor(signal: Array, noise: Array) -> Array:
    """(S + N)⁻¹ S: the best linear predictor of a signal from signal and noise."""
    both = signal + noise
    both[np.diag_indices_from(both)] += JITTER * max(float(np.trace(both)), 1e-300)
    with one_thread(len(both)):
        with suppress(np.linalg.LinAlgError):
            return np.asarray(np.linalg.solve(both, signal), dtype=np.float64)
        return np.asarray(np.linalg.pinv(both) @ signal, dtype=np.float64)


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
    along = np.einsum("ca,ac->c", inverse[axis], stats.sxy[:, target])
    covariance = stats.sxy[axis, target] - along * rest
    predicted = np.diagonal(stats.sxx)[axis] - rest
    result = map_.copy()
    known = predicted > 0
    result[axis[known], target[known]] = covariance[known] / predicted[known]
    return result


def _single(map_: Array) -> tuple[NDArray[np.intp], NDArray[np.intp]] | None:
    """The entries of a map that takes single axes to single axes; None for any other."""
    if np.count_nonzero(map_) > min(map_.shape):
        return None
    rows, columns = np.nonzero(map_)
    alone = len(np.unique(rows)) == len(rows) and len(np.unique(columns)) == len(columns)
    return (rows, columns) if alone else None


def _times(left: Array, right: Weights) -> Array:
    """A product; where a factor takes single axes to single axes, by selecting columns or rows."""
    if isinstance(right, float):
        return left * right
    if (entries := _single(right)) is not None:
        rows, columns = entries
        result = np.zeros((left.shape[0], right.shape[1]))
        result[:, columns] = left[:, rows] * right[rows, columns]
        return result
    return np.asarray(left @ right)


def _mapped(scatter: Array, map_: Weights) -> Array:
    """WᵀSW, the scatter of mapped rows."""
    if isinstance(map_, float):
        return scatter * map_**2
    return _times(_times(scatter, map_).T, map_).T


def _inverse(map_: Weights) -> Weights:
    if isinstance(map_, float):
        return 1 / map_ if map_ else 0.0
    if (entries := _single(map_)) is not None:
        rows, columns = entries
        result = np.zeros(map_.shape[::-1])
        result[columns, rows] = 1 / map_[rows, columns]
        return result
    with one_thread(min(map_.shape)):
        if map_.shape[0] == map_.shape[1]:
            with suppress(np.linalg.LinAlgError):
                return np.asarray(np.linalg.inv(map_), dtype=np.float64)
        return np.asarray(np.linalg.pinv(map_), dtype=np.float64)


def _about_reachable_means(m: Moments, i: int, j: int, fold: int) -> tuple[Errors, Errors]:
    """Squared errors of regression about a mean that a linear map can reach."""
    rest = m.without(fold)
    left, r, right = rest.canonical(i, j)
    rows = rest.n()
    a = np.sqrt(rows) * (rest.centre(i) @ rest.whitening_map(i)) @ left
    b = np.sqrt(rows) * (rest.centre(j) @ rest.whitening_map(j)) @ right.T
    sides = []
    for (x, y), means, turn in (((i, j), (b, a), right), ((j, i), (a, b), left.T)):
        gaps = [gap @ turn @ rest.loadings(y) for gap in _mean_gaps(*means, r, rows)]
        sides.append(_about(m, x, y, fold, [gap / np.sqrt(rows) for gap in gaps]))
    rest.release()
    return sides[0], sides[1]


def _about(m: Moments, i: int, j: int, fold: int, gaps: list[Array]) -> Errors:
    """Squared errors on a fold of regressions about means that are off by the given gaps."""
    own = pair_stats(m, i, j, without=fold)
    strength = choose_strength(own, shift=True)
    train, test = whitened_stats(m, i, j, fold)
    weights, shift = train.sxy, train.y_mean - train.x_mean @ train.sxy
    fitted = test.fitted(weights)
    errors = [test.squared_error(weights, shift - gap, fitted) for gap in gaps]
    limits = [np.nan for _ in gaps]
    if train.n >= ROWS_FOR_LIMIT * len(train.sxy):
        limits = [
            in_the_limit(error, test.n, train.squared_error(weights, shift - gap), train.n)
            for error, gap in zip(errors, gaps)
        ]
    if strength:
        test, (weights, shift) = pair_stats(m, i, j, only=fold), ridge(own, strength, shift=True)
        fitted = test.fitted(weights)
        errors = [test.squared_error(weights, shift - gap, fitted) for gap in gaps]
    return list(zip(errors, limits))


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
