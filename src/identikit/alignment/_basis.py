"""Linear maps that are diagonal in one basis, and their errors from moments."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from identikit._linalg import Array

if TYPE_CHECKING:
    from identikit.alignment._stats import PairStats


class Basis:
    """Linear maps of the form T diag(g) T⁻¹ with one T, whose errors cost no product of matrices.

    tr WᵀS_xxW = gᵀ((TᵀS_xxT) ∘ (T⁻¹T⁻ᵀ))g and tr WᵀS_xy = Σ g_i (TᵀS_xyT⁻ᵀ)_ii, where only g
    changes from one map to another.

    Parameters
    ----------
    turn : array (d, d)
        T.
    inverse : array (d, d), optional
        T⁻¹; without it T is orthogonal.
    """

    def __init__(self, turn: Array, inverse: Array | None = None) -> None:
        self.turn, self.orthogonal = turn, inverse is None
        self.inverse = turn.T if inverse is None else inverse
        self._known: dict[int, tuple[PairStats, Array, Array]] = {}

    def scatters(self, stats: PairStats, gains: Array) -> tuple[float, float]:
        """tr WᵀS_xxW and tr WᵀS_xy on some rows."""
        if id(stats) not in self._known:
            self._known[id(stats)] = stats, self._quadratic(stats), self._linear(stats)
        _, quadratic, linear = self._known[id(stats)]
        squares = gains**2 @ quadratic if self.orthogonal else gains @ quadratic @ gains
        return float(squares), float(gains @ linear)

    def _quadratic(self, stats: PairStats) -> Array:
        image = stats.sxx @ self.turn
        if self.orthogonal:
            return np.asarray(np.einsum("ij,ij->j", self.turn, image))
        return np.asarray((self.turn.T @ image) * self._metric)

    def _linear(self, stats: PairStats) -> Array:
        return np.asarray(np.einsum("ij,ji->j", stats.sxy.T @ self.turn, self.inverse))

    @cached_property
    def _metric(self) -> Array:
        return np.asarray(self.inverse @ self.inverse.T)


class InBasis(NamedTuple):
    """The map T diag(g) T⁻¹ of a basis."""

    basis: Basis
    gains: Array

    def of_row(self, row: Array) -> Array:
        """The image of a row."""
        return np.asarray((row @ self.basis.turn * self.gains) @ self.basis.inverse)
