"""Do some rows of an index form a population of their own, and in which direction does it lie?

A successor of the pinned model, fine-tuned or retrained from its weights, has rows that are no
further out than those of the pinned model, each by itself, but all of them are moved alike. In
coordinates in which the pinned rows have mean 0 and covariance I, the index is taken for a mixture
(1 − π) N(0, I) + π N(δ, I), and π and δ are fitted by expectation maximisation (Dempster, Laird and
Rubin 1977). That is done twice, on two random halves, and a row is only scored with the δ of the
half that it is not in, so that no row is foreign because it was fitted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from identikit._linalg import Array

#: Rows of each half that a mixture is fitted on, and steps of the fit.
FITTED, STEPS = 4000, 30

#: The bounds of the share in a fit, so that neither population is lost.
SHARES = 0.01, 0.99


@dataclass(frozen=True, eq=False)
class Population:
    """A second population: its mean by each of two halves, and how far it is apart.

    `apart` is √(δ₁ᵀδ₂ / E‖z‖²), with z the rows of the pinned model that have no part in the
    coordinates: 1 if the mean of the population is as far from the pinned mean as a row is. Both
    halves must find the same for it to be large, and noise does not make it larger.
    """

    means: tuple[Array, Array]
    apart: float

    def scores(self, rows: Array, half: NDArray[np.bool_]) -> Array:
        """How far rows lie in the direction of the population, by the half they are not in."""
        first, second = (rows @ mean for mean in self.means)
        return np.where(half, first, second)


def second_population(rows: Array, half: NDArray[np.bool_], typical: float) -> Population:
    """Fit a mixture to each of two halves of some rows.

    Parameters
    ----------
    rows : array (n, d)
        In coordinates in which the pinned rows have mean 0 and covariance I.
    half : array of bool (n,)
        Which of them are in the second half.
    typical : float
        The mean squared length of rows of the pinned model.
    """
    first, second = _mean_of(rows[~half]), _mean_of(rows[half])
    together = max(float(first @ second), 0.0)
    return Population((first, second), float(np.sqrt(together / max(typical, 1e-300))))


def _mean_of(rows: Array) -> Array:
    """The mean δ of the second population of a mixture, from a start between the two."""
    from scipy.special import expit

    if not len(rows):
        return np.zeros(rows.shape[1])
    mean, share = 2 * rows.mean(axis=0), 0.5
    for _ in range(STEPS):
        odds = rows @ mean - mean @ mean / 2 + np.log(share / (1 - share))
        weights = expit(odds)
        share = float(np.clip(weights.mean(), *SHARES))
        mean = weights @ rows / max(float(weights.sum()), 1e-300)
    return np.asarray(mean)
