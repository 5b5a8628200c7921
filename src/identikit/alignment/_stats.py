"""The moments of a pair of views, from which maps are fitted and scored."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from identikit._linalg import Array, eigh, inverse_or_zero, polar, svd
from identikit.alignment._basis import InBasis
from identikit.moments import Moments

#: A residual below this share of the terms that it is computed from is rounding error.
ROUNDING = 64 * 2.0**-52

#: Singular values of a cross-scatter below this share of the largest are rounding error.
RANK = 1e-12


@dataclass(frozen=True, eq=False)
class PairStats:
    """Count, means and centred scatter of a source x and a target y.

    If ``white`` is set, x is in coordinates in which its training rows are orthonormal, and
    ``white`` is the matrix that takes the source's own coordinates to these; ``is_white`` says that
    these are the training rows. Then ``constant`` is a vector v of the source's null space with
    xᵀv = 1 on every row, if there is one: a linear map can use it as its shift. ``of`` are the
    moments and the two views, if the statistics are in the views' own coordinates and of all rows
    of the moments, which remember what other pairs need too.
    """

    n: int
    x_mean: Array
    y_mean: Array
    sxx: Array
    sxy: Array
    syy: Array
    white: Array | None = None
    constant: Array | None = None
    is_white: bool = False
    of: tuple[Moments, int, int] | None = None

    @cached_property
    def polar(self) -> Array:
        """UVᵀ of the cross-scatter UΣVᵀ: the rotation that solves the Procrustes problem.

        For views of different widths it has orthonormal columns or rows: a rotation that then drops
        the directions for which the target has no columns, or leaves the target's other columns at
        their mean. Where there are fewer rows than columns, directions in which the rows do not
        vary are left at their mean too.
        """
        if self.n - 1 >= min(self.sxy.shape):
            if self.of is None:
                return polar(self.sxy)
            moments, i, j = self.of
            return moments.polar(i, j) if i < j else moments.polar(j, i).T
        left, values, right = svd(self.sxy)
        known = int(np.count_nonzero(values[: self.n - 1] > RANK * values[0]))
        factor: Array = left[:, :known] @ right[:known]
        return factor

    @cached_property
    def matching(self) -> Array:
        """The signed permutation P of axes that maximises tr(PᵀS_xy)."""
        return matching(self.sxy)

    @cached_property
    def spectrum(self) -> tuple[Array, Array]:
        """Eigenvalues of the source's scatter, largest first, and principal axes as columns."""
        return eigh(self.sxx) if self.of is None else self.of[0].principal(self.of[1])

    @cached_property
    def inverse(self) -> Array:
        """The pseudo-inverse of the source's scatter: zero in directions without variance."""
        values, axes = self.spectrum
        return np.asarray((axes * inverse_or_zero(values)) @ axes.T)

    def reversed(self) -> PairStats:
        """The same pair with source and target exchanged."""
        swapped = self._swapped
        for name in {"polar", "matching"} & self.__dict__.keys():
            swapped.__dict__.setdefault(name, self.__dict__[name].T)
        return swapped

    @cached_property
    def _swapped(self) -> PairStats:
        of = None if self.of is None else (self.of[0], self.of[2], self.of[1])
        return PairStats(self.n, self.y_mean, self.x_mean, self.syy, self.sxy.T, self.sxx, of=of)

    def fitted(self, weights: Array) -> float:
        """tr WᵀS_xxW, the scatter of what a map predicts.

        A map that takes each axis from one other, as those of the strict rungs, needs no product.
        """
        if self.is_white:
            return float(np.vdot(weights, weights))
        if np.count_nonzero(weights) <= weights.shape[1]:
            axis, target = np.nonzero(weights)
            if len(np.unique(target)) == len(target):
                return float(np.square(weights[axis, target]) @ np.diagonal(self.sxx)[axis])
        return float(np.vdot(weights, self.sxx @ weights))

    @property
    def rotates(self) -> bool:
        """Whether `polar` is a rotation: of views of one width, with enough rows to find it."""
        return bool(self.sxy.shape[0] == self.sxy.shape[1] < self.n)

    def scaled(self, weights: Array) -> float:
        """`fitted` for a multiple of a rotation, whose WᵀW = c² I makes it c² tr S_xx."""
        return float(np.vdot(weights, weights)) / len(weights) * float(np.trace(self.sxx))

    def squared_error(
        self, weights: Array | float | InBasis, shift: Array, fitted: float | None = None
    ) -> float:
        """Σ ‖y − (x W + b)‖² over these rows, from their moments.

        A number stands for that multiple of I; `fitted` is tr WᵀS_xxW, where it is known already.
        """
        if isinstance(weights, float):
            gap = self.y_mean - weights * self.x_mean - shift
            fitted = weights**2 * float(np.trace(self.sxx))
            along = weights * float(np.trace(self.sxy))
        elif isinstance(weights, InBasis):
            gap = self.y_mean - weights.of_row(self.x_mean) - shift
            fitted, along = weights.basis.scatters(self, weights.gains)
        else:
            gap = self.y_mean - self.x_mean @ weights - shift
            fitted = self.fitted(weights) if fitted is None else fitted
            along = float(np.vdot(weights, self.sxy))
        target = float(np.trace(self.syy))
        value = target - 2 * along + fitted + self.n * float(gap @ gap)
        # An exact fit leaves only rounding error, whose root would look like an error of 1e-8.
        return value if value > ROUNDING * (target + fitted) else 0.0


def matching(cross: Array) -> Array:
    """The signed permutation P of axes that maximises tr(PᵀS) for a cross-scatter S."""
    from scipy.optimize import linear_sum_assignment

    rows, columns = linear_sum_assignment(-np.abs(cross))
    weights = np.zeros_like(cross)
    weights[rows, columns] = np.where(cross[rows, columns] < 0, -1.0, 1.0)
    return weights


def pair_stats(
    m: Moments, i: int, j: int, without: int | None = None, only: int | None = None
) -> PairStats:
    """Statistics of views i and j in their own coordinates, computed once for a pair."""

    def compute() -> PairStats:
        rows = m if without is None else m.without(without)
        return PairStats(
            rows.n(only=only),
            rows.centre(i, only=only),
            rows.centre(j, only=only),
            rows.block(i, i, only=only),
            rows.block(i, j, only=only),
            rows.block(j, j, only=only),
            of=None if only is not None else (rows, i, j),
        )

    return m.of_pair(f"statistics {without} {only}", i, j, compute) if m.keeps else compute()


def whitened_stats(
    m: Moments, i: int, j: int, fold: int | None = None
) -> tuple[PairStats, PairStats]:
    """Training and test statistics, with the source in coordinates whitened on the training rows.

    Regression needs them: in the source's own coordinates, directions of small variance would be
    lost to rounding. Training rows are all except those of `fold`, which are the test rows; without
    a fold, both are all rows.
    """
    if not m.keeps:
        return _whitened_stats(m, i, j, fold)
    return m.of_pair(f"whitened statistics {fold}", i, j, lambda: _whitened_stats(m, i, j, fold))


def _whitened_stats(m: Moments, i: int, j: int, fold: int | None) -> tuple[PairStats, PairStats]:
    white = m.whitening_map(i, fold)
    centre = m.centre(i, fold)
    train = PairStats(
        m.n(fold),
        centre @ white,
        m.centre(j, fold),
        np.eye(white.shape[1]),
        m.from_white(i, j, fold),
        m.block(j, j, fold),
        white,
        _constant(m, i, fold, centre, white),
        is_white=True,
    )
    if fold is None:
        return train, train
    test = replace(
        train,
        n=m.n(only=fold),
        x_mean=m.centre(i, only=fold) @ white,
        y_mean=m.centre(j, only=fold),
        sxx=m.coherence(i, i, fold, fold),
        sxy=m.from_white(i, j, fold, only=fold),
        syy=m.block(j, j, only=fold),
        is_white=False,
    )
    return train, test


def _constant(m: Moments, view: int, fold: int | None, centre: Array, white: Array) -> Array | None:
    """A vector v with xᵀv = 1 for every row, from the part of the mean outside the row span."""
    if white.shape[1] == m.widths[view]:
        return None
    scale = m.scales(view, fold)
    scale = np.where(scale > 0, scale / np.sqrt(m.n(fold)), np.abs(centre))
    scale = np.where(scale > 0, scale, 1.0)
    # In standardised columns, so that the answer does not depend on units.
    span = svd((m.loadings(view, fold) / scale).T)[0]
    mean = centre / scale
    outside = mean - span @ (span.T @ mean)
    size = float(outside @ outside)
    if size <= 1e-4:
        return None
    with np.errstate(over="ignore"):  # scales may be close to zero beside a few enormous rows
        constant: Array = outside / (size * scale)
    return constant if np.isfinite(constant).all() else None
