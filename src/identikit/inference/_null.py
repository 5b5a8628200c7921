"""The distribution of a similarity under independence."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from identikit._linalg import Array

#: A skewness below this counts as 0, because the shape of the gamma distribution would overflow.
FLAT = 1e-3

#: A standard deviation below this share of the mean is rounding error.
ROUNDING = 1e-12


@dataclass(frozen=True)
class Null:
    """The distribution of a measure for independent views, given by its first three moments.

    It is a shifted gamma distribution (Pearson's type III) with these moments, which is exact for
    one column per view and normal in the limit of many. If the moments are estimated from K draws,
    the normal score u of a value under the gamma distribution is replaced by u/√(1 + 1/K) and
    compared with Student's distribution with K − 1 degrees of freedom, so that the estimation error
    makes no value look rarer than it is.

    Parameters
    ----------
    mean, sd, skewness : float
    draws : int
        Number of draws the moments are estimated from; 0 if they are exact.
    """

    mean: float
    sd: float
    skewness: float = 0.0
    draws: int = 0

    @staticmethod
    def of_draws(values: Array) -> Null:
        """Estimate the distribution from draws; the skewness is shrunk by its sampling error."""
        K, mean, sd = len(values), float(values.mean()), float(values.std(ddof=1))
        if sd <= ROUNDING * abs(mean):
            return Null(mean, 0.0, 0.0, K)
        skewness = float(np.mean(((values - mean) / sd) ** 3))
        return Null(mean, sd, skewness * skewness**2 / (skewness**2 + 6 / K), K)

    def p(self, value: float) -> float:
        """The probability that independent views score at least this value."""
        from scipy.special import ndtri, stdtr

        if self.sd == 0.0:
            return float(value <= self.mean * (1 + ROUNDING))
        tail = self._gamma_tail((value - self.mean) / self.sd)
        if not self.draws:
            return tail
        # The tail is bounded below, as its normal score must be finite.
        score = float(ndtri(max(tail, 1e-300))) / math.sqrt(1 + 1 / self.draws)
        return float(stdtr(self.draws - 1, score))

    def quantile(self, level: float) -> float:
        """The value that this share of independent views stay below."""
        return float(self.quantiles(np.array(level)))

    def quantiles(self, levels: Array) -> Array:
        """`quantile` for an array of levels."""
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
        """The probability of exceeding a standardised value."""
        from scipy.special import gammainc, gammaincc, ndtr

        g = self.skewness
        if abs(g) < FLAT:
            return float(ndtr(-z))
        shape = 4 / g**2
        there = max(shape + 2 * z / g, 0.0)
        return float((gammaincc if g > 0 else gammainc)(shape, there))
