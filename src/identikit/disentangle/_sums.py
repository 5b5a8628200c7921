"""Sums of codes and columns in every fold: they add up, so folds can be left out or joined."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from identikit._linalg import Array, rank_tolerance, whitening
from identikit.disentangle._permute import folds


@dataclass(frozen=True)
class Sums:
    """Sums over the rows of each of F folds, of L codes z and Q columns s.

    Columns are standardised over all rows first, so that sums keep their digits.
    """

    n: Array  # (F,)
    z: Array  # (F, L)
    zz: Array  # (F, L, L)
    s: Array  # (F, Q)
    ss: Array  # (F, Q)
    zs: Array  # (F, L, Q)

    def total(self) -> Sums:
        """All folds as one."""
        return self.some(range(len(self.n)))

    def without_each(self) -> Sums:
        """All folds but one, for each of them; none if there is one only."""
        sums = (getattr(self, each.name) for each in fields(self))
        several = len(self.n) if len(self.n) > 1 else 0
        return Sums(*((values.sum(0) - values)[:several] for values in sums))

    def some(self, chosen: Sequence[int]) -> Sums:
        """The chosen folds as one."""
        return Sums(
            *(getattr(self, k.name)[list(chosen)].sum(0, keepdims=True) for k in fields(self))
        )

    def mapped(self, by: Array) -> Sums:
        """The codes z @ by instead of z, for a matrix (L, M)."""
        return Sums(
            self.n,
            self.z @ by,
            by.T @ self.zz @ by,
            self.s,
            self.ss,
            np.einsum("lm,flq->fmq", by, self.zs),
        )

    def first(self, columns: int) -> Sums:
        """The same codes against the first columns only."""
        some = (values[..., :columns] for values in (self.s, self.ss, self.zs))
        return Sums(self.n, self.z, self.zz, *some)

    @property
    def mean_z(self) -> Array:
        """Means of the codes."""
        return self.z / self.n[:, None]

    @property
    def mean_s(self) -> Array:
        """Means of the columns."""
        return self.s / self.n[:, None]

    @property
    def cov_zz(self) -> Array:
        """Covariances of the codes (F, L, L)."""
        mean = self.mean_z
        return self.zz / self.n[:, None, None] - mean[:, :, None] * mean[:, None, :]

    @property
    def var_s(self) -> Array:
        """Variances of the columns (F, Q); rounding of a constant is 0."""
        variance: Array = self.ss / self.n[:, None] - self.mean_s**2
        return np.where(variance > 1e-13, variance, 0.0)

    @property
    def cov_zs(self) -> Array:
        """Covariances of codes with columns (F, L, Q)."""
        return self.zs / self.n[:, None, None] - self.mean_z[:, :, None] * self.mean_s[:, None, :]


def whitened(z: Array, eps: float) -> Array:
    """Uncorrelated codes of variance 1, as many as are independent."""
    z = standardised(z)
    scatter, scale = z.T @ z, np.sqrt(np.einsum("ij,ij->j", z, z))
    tolerance = rank_tolerance(len(z), z.shape[1], eps)
    white: Array = z @ whitening(scatter, None, scale, tolerance).map * np.sqrt(len(z))
    return white


def standardised(values: Array) -> Array:
    """Columns of mean 0 and variance 1; those that do not vary are 0."""
    centred = values - values.mean(axis=0)
    scale = np.sqrt((centred**2).mean(axis=0))
    unit: Array = np.divide(centred, scale, out=np.zeros_like(centred), where=scale > 0)
    return unit


def fold_sums(codes: Array, columns: Array, count: int) -> Sums:
    """Sums of every fold, of codes and columns that are standardised."""
    parts = []
    for fold in folds(len(codes), count):
        z, s = codes[fold], columns[fold]
        parts.append((float(len(z)), z.sum(0), z.T @ z, s.sum(0), (s * s).sum(0), z.T @ s))
    return Sums(*(np.array(values) for values in zip(*parts)))
