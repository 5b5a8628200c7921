"""Linear time-invariant systems, identified from trajectories in several environments."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from identikit._linalg import Array, inverse_or_zero
from identikit.errors import InputError
from identikit.recover._environments import estimated_variability, warn_of_ties
from identikit.recover._lti_fit import Trajectories, identify, lagged, read_trajectories
from identikit.recover._state_space import StateSpace, ho_kalman, markov_parameters, transfer
from identikit.recover._ties import tails

#: Squares of columns smaller than this underflow, and larger than its inverse overflow.
SMALLEST = 1e-140


class LTI(BaseEstimator):  # type: ignore[misc]
    """Controls and dynamics of x_{t+1} = A x_t + B u_t, y_t = C x_t, where only y is observed.

    The controls are independent over time and of each other. Their means and variances differ
    between environments and need not be known; C has full column rank. Then controls and Markov
    parameters are identified up to order and scale, provided that no two controls have variances
    with the same ratio in all environments (Rajendran, Reizinger, Brendel and Ravikumar 2024, who
    require d_u + 1 environments).

    Least squares of y_{t+1} on y_t, with an intercept for each environment, gives C A C⁻¹ and
    residuals CB (u − mean). Joint diagonalisation (`joint_diagonalise`) of the covariances of the
    residuals gives CB. Least squares is then repeated, weighted by the variances found (`rounds`).

    Parameters
    ----------
    lags : int
        The number of past observations that y_{t+1} is regressed on: 1 if y_t determines the
        state, more if several past observations are needed to determine it.
    noise : bool or int
        Whether observations have noise, y_t = C x_t + ε_t, with the same covariance in all
        environments. The regressor y_t then has errors, and this many observations before it (1 if
        True) serve as instruments. This needs one lag, as many controls as columns, and three
        environments, since the noise cancels only in differences between environments. It improves
        the estimated system; the sources still contain the noise of y.
    rounds : int
        The largest number of rounds of generalised least squares.

    Attributes
    ----------
    sources_ : array (T, d_u)
        u, up to order and scale, with mean variance 1 within environments. NaN in the last row of
        each environment, whose effect has not been observed, and in the first lags − 1 rows.
    transition_ : array (d_y, d_y)
        C A C⁻¹; with several lags, the transition of y_t, …, y_{t−lags+1} stacked.
    input_ : array (d_y, d_u)
        C B up to order and scale of its columns: y_{t+1} = transition_ y_t + input_ u_t. There are
        as many controls as directions of y that the past does not determine. A direction counts as
        determined if it varies by less than a millionth of the others, in units of the columns.
    markov_ : array (count, d_y, d_u)
        C B, C A B, C A² B, … with the same order and scale.
    coefficients_ : array (lags, d_y, d_y)
        The regression coefficients of y_{t+1} on y_t, y_{t−1}, …
    unmixing_ : array (d_u, d_y)
        The map from residuals to sources.
    identified_, ties_, errors_, variability_, variances_, environments_
        As in `VarianceICA`, of the controls.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> u = rng.normal(size=(3, 2000, 2)) * np.array([[[1, 1]], [[3, 1]], [[1, 2]]])
    >>> x = np.zeros((3, 2000, 2))
    >>> for t in range(1999):
    ...     x[:, t + 1] = x[:, t] @ [[0.8, 0.0], [0.3, 0.5]] + u[:, t] @ [[1, 2], [3, 1]]
    >>> system = LTI().fit(x.reshape(-1, 2), np.repeat([0, 1, 2], 2000))
    >>> system.transition_.round(1)
    array([[0.8, 0.3],
           [0. , 0.5]])
    >>> system.identified_
    array([ True,  True])
    """

    def __init__(self, *, lags: int = 1, noise: bool | int = False, rounds: int = 5) -> None:
        self.lags = lags
        self.noise = noise
        self.rounds = rounds

    def fit(self, observations: object, environments: ArrayLike) -> LTI:
        """Identify the system.

        Parameters
        ----------
        observations : array (T, d_y)
            Observations in time order, one environment after the other.
        environments : array (T,)
            One label per row; each environment is one trajectory.
        """
        self._check()
        data = read_trajectories(observations, environments, self._least)
        _check_columns(data)
        found = identify(data, self.lags, int(self.noise), self.rounds)
        self.coefficients_ = found.coefficients
        self.transition_ = _companion(found.coefficients)
        axes = found.axes
        self.unmixing_, self.input_, self.variances_ = axes.unmixing, axes.mixing, axes.variances
        self.environments_, self.n_features_in_ = data.environments.labels, data.rows.shape[1]
        self.sources_ = self._sources(data)
        spreads = found.spreads * self._tails(data) / 2
        self.ties_, self.identified_, self.errors_ = axes.judged(
            spreads, found.spreads, found.weights, noise=bool(self.noise)
        )
        self.variability_ = estimated_variability(axes.variances, spreads, self.ties_)
        count = 2 * len(self.transition_)
        self.markov_ = markov_parameters(found.coefficients, self.input_, count)
        radius = float(np.abs(np.linalg.eigvals(self.transition_)).max())
        if radius > 1:
            warnings.warn(
                f"the system that was found is unstable: its spectral radius is {radius:.4g}, so "
                "that Markov parameters grow without bound",
                stacklevel=2,
            )
        warn_of_ties(len(self.environments_), self.ties_, "controls", 3 if self.noise else 2)
        return self

    def transform(self, observations: object, environments: ArrayLike) -> Array:
        """Controls of other trajectories of the same system, as in `sources_`."""
        self._fitted()
        least, width = self.lags + 1, self.n_features_in_
        return self._sources(read_trajectories(observations, environments, lambda _: least, width))

    def state_space(self, order: int | None = None) -> StateSpace:
        """A, B and C, up to a similarity transform (and the order and scale of controls).

        Parameters
        ----------
        order : int, optional
            Number of states; by default the rank of the Hankel matrix of Markov parameters.
        """
        self._fitted()
        return ho_kalman(self.markov_, *self._blocks(), order)

    def transfer_function(self, z: ArrayLike) -> Array:
        """H(z) = C (zI − A)⁻¹ B, up to order and scale of columns; (…, d_y, d_u) complex.

        Parameters
        ----------
        z : array of complex
            Where to evaluate it; on the unit circle, exp(iω), it is the frequency response.
        """
        self._fitted()
        return transfer(self.coefficients_, self.input_, z)

    def _check(self) -> None:
        # noise=True means 1; the other parameters must not be bool.
        counts = (self.lags, self.rounds, self.noise + 0)
        whole = [isinstance(n, int | np.integer) and not isinstance(n, bool) for n in counts]
        if not all(whole) or self.lags < 1 or self.noise < 0 or self.rounds < 0:
            raise InputError(
                f"lags is {self.lags}, noise {self.noise} and rounds {self.rounds}; give 1 lag or "
                "more, and 0 or more of the others"
            )
        if self.noise and self.lags > 1:
            raise InputError(
                f"noise cannot be combined with {self.lags} lags: with observation noise the "
                "system is identified from one lag, and earlier observations are instruments; set "
                "lags=1"
            )

    def _least(self, d: int) -> int:
        # After the lags, each environment needs rows for a regression and a covariance.
        before = self.lags + int(self.noise)
        return before + (before + 1) * d + 2

    def _blocks(self) -> tuple[int, int]:
        """How many Hankel blocks determine all n states: n − rank C + 1 and n − rank B + 1."""
        states = len(self.transition_)
        return states - self.input_.shape[0] + 1, states - self.input_.shape[1] + 1

    def _sources(self, data: Trajectories) -> Array:
        # Oldest lag first, in the order of the columns.
        slopes = np.hstack([*-self.coefficients_[::-1], np.eye(self.n_features_in_)])
        answer = (self.unmixing_ @ slopes).T
        sources = np.full((len(data.rows), len(self.unmixing_)), np.nan)
        for span in data.spans:
            rows = slice(span.start + self.lags - 1, span.stop - 1)
            sources[rows] = lagged(data.rows[span], self.lags) @ answer
        return sources

    def _tails(self, data: Trajectories) -> Array:
        """`tails` of the controls, on which the sampling error of their variances depends."""
        fourth, rows = np.zeros(len(self.unmixing_)), 0
        for span, inverse in zip(data.spans, inverse_or_zero(self.variances_)):
            s = self.sources_[span.start + self.lags - 1 : span.stop - 1]
            squares = (s - s.mean(axis=0)) ** 2 * inverse
            fourth += np.einsum("ij,ij->j", squares, squares)
            rows += len(s)
        return tails(fourth / rows)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "coefficients_")

    def _fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            raise NotFittedError(
                "this LTI is not fitted yet: call fit(observations, environments) first"
            )


def _companion(coefficients: Array) -> Array:
    """The companion matrix: the transition of y_t, …, y_{t−lags+1} stacked."""
    lags, d, _ = coefficients.shape
    below = np.eye((lags - 1) * d, lags * d)
    return np.vstack([np.hstack(list(coefficients)), below])


def _check_columns(data: Trajectories) -> None:
    least, largest = data.ranges
    constant = (least == largest).all(axis=0)
    if constant.any():
        columns = ", ".join(map(str, np.flatnonzero(constant)))
        raise InputError(
            f"column {columns} of the observations is constant in every environment: no control "
            "affects it; leave it out"
        )
    size = np.maximum(np.abs(least), np.abs(largest)).max(axis=0)
    beyond = np.flatnonzero((size > 1 / SMALLEST) | (size < SMALLEST))
    if beyond.size:
        raise InputError(
            f"column {beyond[0]} of the observations reaches {size[beyond[0]]:.3g}, and its "
            "squares overflow or underflow in float64; use another unit, or shorter trajectories "
            "if the system is unstable"
        )
