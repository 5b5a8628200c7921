"""Projection-weighted canonical correlation analysis."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from identikit._linalg import Array
from identikit.inference import TwinStack
from identikit.similarity._registry import View, Views, measure, pair_of


@dataclass(frozen=True)
class PWCCA:
    """Canonical correlations and their weights; `value` is the weighted mean."""

    correlations: Array
    weights: Array
    saturated: bool

    @property
    def value(self) -> float | None:
        """Weighted mean correlation."""
        if self.saturated:
            return None
        return float(self.weights @ self.correlations / self.weights.sum())


def _of_twins(twins: TwinStack) -> Array:
    left, values, _ = twins.draws.svd
    weights = np.abs(left.swapaxes(1, 2) @ twins.moments.loadings(twins.i)).sum(axis=2)
    means: Array = (weights * np.clip(values, 0.0, 1.0)).sum(axis=1) / weights.sum(axis=1)
    return means


@measure(
    invariant_to="permutation",
    reference="Morcos, Raghu and Bengio 2018",
    of_twins=_of_twins,
)
def pwcca(moments: Views, i: View = 0, j: View = 1) -> PWCCA:
    """Mean canonical correlation, weighted by each direction's contribution to the first view.

    α_c = Σ_u |⟨h_c, x_u⟩| over the units u of view i, with h_c the unit-norm canonical variates;
    PWCCA = Σ α_c r_c / Σ α_c. It is not symmetric: it is invariant to all affine maps of view j,
    but for view i only to signed permutations, shifts and a common scale.

    Parameters
    ----------
    moments : Moments or array (rows, d)
    i, j : int, str or array (rows, d)
        The view whose units give the weights, and the other; or, after a first table, the second
        one.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(500, 3))
    >>> round(pwcca(X, X @ [[1, 2, 0], [0, 1, 0], [3, 0, 1]]).value, 6)
    1.0
    """
    moments, i, j = pair_of(moments, i, j)
    left, r, _ = moments.canonical(i, j)
    weights = np.abs(left.T @ moments.loadings(i)).sum(axis=1)
    ranks = moments.whiten(i).rank, moments.whiten(j).rank
    saturated = min(ranks) == 0 or max(ranks) >= moments.rows - 1
    return PWCCA(np.clip(r, 0.0, 1.0), weights, saturated)
