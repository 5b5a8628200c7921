"""Trajectories, one an environment: what is regressed on what, in as few rows as possible."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from identikit._linalg import Array, triangle
from identikit.alignment.given import given_rows
from identikit.errors import InputError
from identikit.recover._environments import Environments, read_environments
from identikit.sources.checks import numeric_eps


@dataclass(frozen=True, eq=False)
class Trajectories:
    """Observations in time order, and where each environment's trajectory lies."""

    rows: Array
    environments: Environments
    starts: tuple[int, ...]
    eps: float

    @property
    def spans(self) -> list[slice]:
        """The rows of each environment."""
        return [slice(a, b) for a, b in zip(self.starts, (*self.starts[1:], len(self.rows)))]

    @cached_property
    def ranges(self) -> tuple[Array, Array]:
        """The least and the largest value of every column in each environment."""
        return np.minimum.reduceat(self.rows, self.starts), np.maximum.reduceat(
            self.rows, self.starts
        )


def read_trajectories(
    observations: object,
    environments: ArrayLike,
    least: Callable[[int], int],
    width: int | None = None,
) -> Trajectories:
    """Check observations and labels: each environment one trajectory, and long enough.

    Parameters
    ----------
    observations : array (T, d)
        In time order.
    environments : array (T,)
        One label a row.
    least : callable
        The least number of steps, given that of columns.
    width : int, optional
        The columns there must be.
    """
    given = given_rows(observations, "LTI", width, "observations")
    rows, eps = given.astype(np.float64), numeric_eps(given.dtype, "the observations")
    known = read_environments(environments, len(rows))
    starts = np.flatnonzero(np.diff(known.codes, prepend=-1))
    order = known.codes[starts]
    if len(starts) > len(known.labels):
        again = next(i for i, code in enumerate(order) if code in order[:i])
        raise InputError(
            f"environment {known.labels[order[again]]!s} begins again at row {starts[again]}: each "
            "environment is one trajectory, so its rows stand together, in time order; give parts "
            "of a broken one labels of their own"
        )
    counts, steps = known.counts, least(rows.shape[1])
    if counts.min() < steps:
        short = int(counts.argmin())
        raise InputError(
            f"environment {known.labels[short]!s} has too few rows: {counts[short]}, and {steps} "
            f"are the least for {rows.shape[1]} observed columns and so many lags and instruments; "
            "give longer trajectories, or fewer of these"
        )
    return Trajectories(rows, known, tuple(map(int, starts)), eps)


def lagged(rows: Array, lags: int) -> Array:
    """Columns y_{t−lags+1}, …, y_t, y_{t+1}, oldest first, for every t that has them all."""
    steps = len(rows) - lags
    return np.hstack([rows[lag : lag + steps] for lag in range(lags + 1)])


def factors(trajectories: Trajectories, lags: int) -> tuple[Array, Array]:
    """Of each environment R of the QR of its lagged columns, centred, and their number of rows.

    Whatever is regressed on whatever, sums of squares and products of residuals are those of these
    few rows: one intercept an environment is in them, and no condition number has been squared.
    """
    width = (lags + 1) * trajectories.rows.shape[1]
    found = np.zeros((len(trajectories.starts), width, width))
    counts = np.empty(len(found))
    for e, span in enumerate(trajectories.spans):
        columns = lagged(trajectories.rows[span], lags)
        columns -= columns.mean(axis=0)
        upper = triangle(columns)
        found[e, : len(upper)], counts[e] = upper, len(columns)
    return found, counts
