"""Mean rank correlation under the best matching of axes."""

from __future__ import annotations

import numpy as np

from identikit._linalg import Array, inverse_or_zero
from identikit.inference import Null, number_of_draws
from identikit.moments import Moments
from identikit.similarity._mcc import MCC, match
from identikit.similarity._registry import View, Views, measure, pair_of


def spearman_mcc_null(moments: Moments, i: int, j: int) -> Null:
    """The value for shuffled rows; ranks move with their rows."""
    left, right = (_ranks(moments, view) for view in (i, j))
    varies = (left != 0).any(axis=0), (right != 0).any(axis=0)
    rng = np.random.default_rng(0)
    values = []
    for _ in range(number_of_draws(left.shape[1], right.shape[1])):
        shuffled = right[rng.permutation(len(right))]
        values.append(match(left.T @ shuffled, *varies).value)
    return Null.of_draws(np.array(values))


@measure(
    invariant_to="monomial", reference="Khemakhem et al. 2020", rows=True, null=spearman_mcc_null
)
def spearman_mcc(moments: Views, i: View = 0, j: View = 1) -> MCC:
    """MCC with Spearman's rank correlation (ties get their mean rank), on the stored row sample.

    It is also invariant to any strictly monotone function of each axis.

    Parameters
    ----------
    moments : Moments or array (rows, d)
    i, j : int, str or array (rows, d)
        Two views; or, after a first table, the second one.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(500, 3))
    >>> round(spearman_mcc(X, np.exp(X[:, ::-1])).value, 6)
    1.0
    """
    moments, i, j = pair_of(moments, i, j)
    left, right = (_ranks(moments, view) for view in (i, j))
    return match(left.T @ right, (left != 0).any(axis=0), (right != 0).any(axis=0))


def _ranks(moments: Moments, view: int) -> Array:
    """Ranks of each column, scaled to mean 0 and norm 1; zeros for a constant column.

    They are computed once per view.
    """
    cache, key = moments.sample.cache, ("ranks", view)
    if key not in cache:
        # Transposed, because sorting contiguous memory is twice as fast.
        columns = np.ascontiguousarray(moments.sample_of(view).T)
        ranks = _mean_ranks(columns).T if columns.size else columns.T
        cache[key] = ranks * inverse_or_zero(np.linalg.norm(ranks, axis=0))
    unit: Array = cache[key]
    return unit


def _mean_ranks(values: Array) -> Array:
    """Ranks along each row, centred at 0; equal values get their mean rank."""
    n = values.shape[1]
    order = np.argsort(values, axis=1)
    ordered = np.take_along_axis(values, order, axis=1)
    place = np.broadcast_to(np.arange(n), values.shape)
    starts = np.ones(values.shape, dtype=bool)
    starts[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    ends = np.ones(values.shape, dtype=bool)
    ends[:, :-1] = starts[:, 1:]
    first = np.maximum.accumulate(np.where(starts, place, 0), axis=1)
    backwards = np.where(ends, place, n)[:, ::-1]
    last = np.minimum.accumulate(backwards, axis=1)[:, ::-1]
    ranks = np.empty(values.shape)
    np.put_along_axis(ranks, order, (first + last - (n - 1)) / 2, axis=1)
    return ranks
