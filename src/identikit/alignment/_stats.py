"""The moments of a pair of views, from which maps are fitted and scored."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from identikit._linalg import Array, eigh, inverse_or_zero, svd
from identikit.moments import Moments

#: A residual below this share of the terms that it is computed from is rounding error.
ROUNDING = 64 * 2.0**-52

#: Singular values of a cross-scatter below this share of the largest are rounding error.
RANK = 1e-12


@dataclass(frozen=True, eq=False)
class PairStats:
    """Count, means and centred scatter of a source x and a target y.

    If ``white`` is set, x is in coordinates in which its training rows are orthonormal, and
    ``white`` is the matrix that takes the source's own coordinates to these. Then ``constant`` is
    a vector v of the source's null space with xᵀv = 1 on every row, if there is one: a linear map
    can use it as its shift.
    """

    n: int
    x_mean: Array
    y_mean: Array
    sxx: Array
    sxy: Array
    syy: Array
    white: Array | None = None
    constant: Array | None = None

    @cached_property
    def polar(self) -> Array:
        """UVᵀ of the cross-scatter UΣVᵀ: the rotation that solves the Procrustes problem.

        For views of different widths it has orthonormal columns or rows: a rotation that then drops
        the directions for which the target has no columns, or leaves the target's other columns at
        their mean. Where there are fewer rows than columns, directions in which the rows do not
        vary are left at their mean too.
        """
        left, values, right = svd(self.sxy)
        if self.n - 1 < len(values):
            known = int(np.count_nonzero(values[: self.n - 1] > RANK * values[0]))
            left, right = left[:, :known], right[:known]
        factor: Array = left @ right
        return factor

    @cached_property
    def spectrum(self) -> tuple[Array, Array]:
        """Eigenvalues of the source's scatter, largest first, and principal axes as columns."""
        return eigh(self.sxx)

    @cached_property
    def inverse(self) -> Array:
        """The pseudo-inverse of the source's scatter: zero in directions without variance."""
        values, axes = self.spectrum
        return np.asarray((axes * inverse_or_zero(values)) @ axes.T)

    def reversed(self) -> PairStats:
        """The same pair with source and target exchanged."""
        swapped = PairStats(self.n, self.y_mean, self.x_mean, self.syy, self.sxy.T, self.sxx)
        if "polar" in self.__dict__:
            swapped.__dict__["polar"] = self.polar.T
        return swapped

    def squared_error(self, weights: Array, shift: Array) -> float:
        """Σ ‖y − (x W + b)‖² over these rows, from their moments."""
        gap = self.y_mean - self.x_mean @ weights - shift
        target, fitted = float(np.trace(self.syy)), float(np.vdot(weights, self.sxx @ weights))
        value = target - 2 * float(np.vdot(weights, self.sxy)) + fitted + self.n * float(gap @ gap)
        # An exact fit leaves only rounding error, whose root would look like an error of 1e-8.
        return value if value > ROUNDING * (target + fitted) else 0.0


def pair_stats(
    m: Moments, i: int, j: int, without: int | None = None, only: int | None = None
) -> PairStats:
    """Statistics of views i and j in their own coordinates."""
    return PairStats(
        m.n(without, only),
        m.centre(i, without, only),
        m.centre(j, without, only),
        m.block(i, i, without, only),
        m.block(i, j, without, only),
        m.block(j, j, without, only),
    )


def whitened_stats(
    m: Moments, i: int, j: int, fold: int | None = None
) -> tuple[PairStats, PairStats]:
    """Training and test statistics, with the source in coordinates whitened on the training rows.

    Regression needs them: in the source's own coordinates, directions of small variance would be
    lost to rounding. Training rows are all except those of `fold`, which are the test rows; without
    a fold, both are all rows.
    """
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
    )
    if fold is None:
        return train, train
    test = replace(
        train,
        n=m.n(only=fold),
        x_mean=m.centre(i, only=fold) @ white,
        y_mean=m.centre(j, only=fold),
        sxx=m.from_white(i, i, fold, only=fold, to_white=True),
        sxy=m.from_white(i, j, fold, only=fold),
        syy=m.block(j, j, only=fold),
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
