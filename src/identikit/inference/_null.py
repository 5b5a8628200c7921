"""The distribution of a similarity under independence: its mean, its band, its tail."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from identikit._linalg import Array

#: Below this a skewness is none: the shape of the gamma law would overflow.
FLAT = 1e-3

#: Spread below this share of the mean is rounding.
ROUNDING = 1e-12


@dataclass(frozen=True)
class Null:
    """What a measure scores for independent views: three moments, and how they were found.

    The law is a shifted gamma law with these moments (Pearson's type III): exact for one column a
    view, and normal in the limit of many. If the moments are those of K draws, the tail is
    Student's, u/√(1 + 1/K) with K − 1 degrees of freedom where the gamma law has a normal score of
    u: what K draws do not know of their law makes no value look rarer than it is.

    Parameters
    ----------
    mean, sd, skewness : float
    draws : int
        How many draws the moments are from; 0 if they are exact.
    """

    mean: float
    sd: float
    skewness: float = 0.0
    draws: int = 0

    @staticmethod
    def of_draws(values: Array) -> Null:
        """The law of some draws; the skewness is shrunk by what so few could show by chance."""
        K, mean, sd = len(values), float(values.mean()), float(values.std(ddof=1))
        if sd <= ROUNDING * abs(mean):
            return Null(mean, 0.0, 0.0, K)
        skewness = float(np.mean(((values - mean) / sd) ** 3))
        return Null(mean, sd, skewness * skewness**2 / (skewness**2 + 6 / K), K)

    def p(self, value: float) -> float:
        """How probable it is that independent views score this or more."""
        from scipy.special import ndtri, stdtr

        if self.sd == 0.0:
            return float(value <= self.mean * (1 + ROUNDING))
        tail = self._gamma_tail((value - self.mean) / self.sd)
        if not self.draws:
            return tail
        # The least score that a number can have: draws do not know of zeros.
        score = float(ndtri(max(tail, 1e-300))) / math.sqrt(1 + 1 / self.draws)
        return float(stdtr(self.draws - 1, score))

    def quantile(self, level: float) -> float:
        """The score that this share of independent views stay below."""
        return float(self.quantiles(np.array(level)))

    def quantiles(self, levels: Array) -> Array:
        """`quantile` of many levels."""
        from scipy.special import gammainccinv, gammaincinv, ndtr, ndtri, stdtrit

        if self.sd == 0.0:
            return np.full(levels.shape, self.mean)
        if self.draws:
            scores = stdtrit(self.draws - 1, levels) * math.sqrt(1 + 1 / self.draws)
            levels = np.asarray(ndtr(scores), dtype=np.float64)
        g = self.skewness
        if abs(g) < FLAT:
            return np.asarray(self.mean + self.sd * ndtri(levels), dtype=np.float64)
        inverse, shape = gammaincinv if g > 0 else gammainccinv, 4 / g**2
        z = g / 2 * (inverse(shape, levels) - shape)
        return np.asarray(self.mean + self.sd * z, dtype=np.float64)

    def _gamma_tail(self, z: float) -> float:
        """The tail of a standardised value."""
        from scipy.special import gammainc, gammaincc, ndtr

        g = self.skewness
        if abs(g) < FLAT:
            return float(ndtr(-z))
        shape = 4 / g**2
        there = max(shape + 2 * z / g, 0.0)
        return float((gammaincc if g > 0 else gammainc)(shape, there))
