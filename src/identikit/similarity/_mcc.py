"""Mean correlation coefficient under the best matching of axes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from identikit._linalg import Array
from identikit.moments import Moments
from identikit.similarity._registry import measure


@dataclass(frozen=True)
class MCC:
    """Matched axes: `columns` (pairs, 2) of view i and of view j, and their `correlations`."""

    columns: NDArray[np.intp]
    correlations: Array

    @property
    def value(self) -> float | None:
        """Mean absolute correlation of the matched axes."""
        return float(np.abs(self.correlations).mean()) if len(self.correlations) else None


@measure(invariant_to="monomial", reference="Hyvärinen and Morioka 2016")
def mcc(moments: Moments, i: int | str = 0, j: int | str = 1) -> MCC:
    """Mean absolute Pearson correlation of axes, matched one to one so that it is largest.

    MCC = (1/k) max over injective π of Σ_a |corr(x_a, y_π(a))|, k the smaller width. It is far from
    0 for an arbitrary rotation: read it beside the rigid rung of the ladder.

    Parameters
    ----------
    moments : Moments
    i, j : int or str
        The two views.
    """
    i, j = moments.resolve(i), moments.resolve(j)
    if not (moments.varies(i) and moments.varies(j)):
        return MCC(np.empty((0, 2), dtype=np.intp), np.empty(0))
    return match(moments.correlations(i, j))


def match(correlations: Array) -> MCC:
    """The one-to-one matching of rows and columns with the largest sum of absolute values."""
    from scipy.optimize import linear_sum_assignment

    rows, columns = linear_sum_assignment(-np.abs(correlations))
    return MCC(np.stack([rows, columns], axis=1), correlations[rows, columns])
