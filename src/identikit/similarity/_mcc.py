"""Mean correlation coefficient under the best matching of axes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from identikit._linalg import Array, inverse_or_zero
from identikit.inference import TwinStack
from identikit.similarity._registry import View, Views, measure, pair_of

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class MCC:
    """Matched axes: `columns` (pairs, 2) of view i and of view j, and their `correlations`."""

    columns: NDArray[np.intp]
    correlations: Array

    @property
    def value(self) -> float | None:
        """Mean absolute correlation of the matched axes."""
        return float(np.abs(self.correlations).mean()) if len(self.correlations) else None


def correlations_of_twins(twins: TwinStack) -> Array:
    """Pearson correlations of all columns of independent twins."""
    left, right = (inverse_or_zero(twins.moments.scales(view)) for view in (twins.i, twins.j))
    return twins.cross * left[:, None] * right


def _of_twins(twins: TwinStack) -> Array:
    varies = [twins.moments.scales(view) > 0 for view in (twins.i, twins.j)]
    return np.array([match(each, *varies).value for each in correlations_of_twins(twins)])


@measure(invariant_to="monomial", reference="Hyvärinen and Morioka 2016", of_twins=_of_twins)
def mcc(moments: Views, i: View = 0, j: View = 1) -> MCC:
    """Mean absolute Pearson correlation of axes under the one-to-one matching that maximises it.

    MCC = (1/k) max over injective π of Σ_a |corr(x_a, y_π(a))|, with k the smaller number of axes
    that vary. It is far from 0 even for an arbitrary rotation, so compare it with the ladder's
    rigid rung.

    Parameters
    ----------
    moments : Moments or array (rows, d)
    i, j : int, str or array (rows, d)
        Two views; or, after a first table, the second one.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(500, 3))
    >>> round(mcc(X, X[:, [2, 0, 1]] * [1, -2, 3]).value, 6)
    1.0
    """
    moments, i, j = pair_of(moments, i, j)
    return match(moments.correlations(i, j), moments.scales(i) > 0, moments.scales(j) > 0)


def match(correlations: Array, varies_i: Mask, varies_j: Mask) -> MCC:
    """The one-to-one matching of axes that vary, with the largest sum of absolute correlations."""
    from scipy.optimize import linear_sum_assignment

    a, b = np.flatnonzero(varies_i), np.flatnonzero(varies_j)
    size = np.abs(correlations)
    if size.shape != (len(a), len(b)):
        size = size[np.ix_(a, b)]
    rows, columns = linear_sum_assignment(size, maximize=True)
    pairs = np.stack([a[rows], b[columns]], axis=1)
    return MCC(pairs, correlations[pairs[:, 0], pairs[:, 1]])
