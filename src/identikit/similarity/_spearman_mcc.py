"""Mean rank correlation under the best matching of axes."""

from __future__ import annotations

import numpy as np

from identikit._linalg import Array, inverse_or_zero
from identikit.moments import Moments
from identikit.similarity._mcc import MCC, match
from identikit.similarity._registry import measure


@measure(invariant_to="monomial", reference="Khemakhem et al. 2020", rows=True)
def spearman_mcc(moments: Moments, i: int | str = 0, j: int | str = 1) -> MCC:
    """MCC with Spearman's rank correlation (ties get their mean rank), on the stored row sample.

    Also invariant to any increasing or decreasing function of each axis.

    Parameters
    ----------
    moments : Moments
    i, j : int or str
        The two views.
    """
    left, right = (_ranks(moments, moments.resolve(view)) for view in (i, j))
    return match(left.T @ right, (left != 0).any(axis=0), (right != 0).any(axis=0))


def _ranks(moments: Moments, view: int) -> Array:
    """Ranks of each column at mean 0 and norm 1; zeros for a constant column."""
    sample = moments.sample_of(view)
    ranks = np.empty_like(sample)
    for column, (values, ordered) in enumerate(zip(sample.T, np.sort(sample, axis=0).T)):
        below = np.searchsorted(ordered, values, side="left")
        ranks[:, column] = (
            below + np.searchsorted(ordered, values, side="right") - len(values)
        ) / 2
    unit: Array = ranks * inverse_or_zero(np.linalg.norm(ranks, axis=0))
    return unit
