"""PLS-SVD: singular values of the cross-correlation matrix."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from identikit._linalg import Array, singular_values
from identikit.inference import TwinStack
from identikit.similarity._mcc import correlations_of_twins
from identikit.similarity._registry import View, Views, measure, pair_of


@dataclass(frozen=True)
class PLSSVD:
    """Singular values of the cross-correlation matrix; `value` is m_SVD, 1 − value is d_SVD."""

    singular_values: Array
    widths: tuple[int, int]

    @property
    def value(self) -> float | None:
        """Their sum divided by its maximum √(pq); for equal widths that is their mean."""
        most = math.sqrt(self.widths[0] * self.widths[1])
        return float(self.singular_values.sum() / most) if most else None


def _of_twins(twins: TwinStack) -> Array:
    values = singular_values(correlations_of_twins(twins))
    counts = [np.count_nonzero(twins.moments.scales(view)) for view in (twins.i, twins.j)]
    means: Array = values.sum(axis=1) / math.sqrt(counts[0] * counts[1])
    return means


@measure(
    invariant_to="monomial",
    reference="Nielsen et al. 2025, Definition 4.5",
    of_twins=_of_twins,
)
def pls_svd(moments: Views, i: View = 0, j: View = 1) -> PLSSVD:
    """Mean singular value of the correlation matrix between standardised coordinates.

    m_SVD = (1/M) Σ_c σ_c(E[x̃ ỹᵀ]) with every coordinate scaled to mean 0 and variance 1 (constant
    coordinates do not count). 2M(1 − m_SVD) is the smallest squared distance of the standardised
    views over all rotations.

    Parameters
    ----------
    moments : Moments or array (rows, d)
    i, j : int, str or array (rows, d)
        Two views; or, after a first table, the second one.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(500, 3))
    >>> round(pls_svd(X, X[:, [2, 0, 1]] * [1, -2, 3]).value, 6)
    1.0
    """
    moments, i, j = pair_of(moments, i, j)
    correlations: Array = moments.correlations(i, j)
    p, q = (int(np.count_nonzero(moments.scales(view))) for view in (i, j))
    return PLSSVD(singular_values(correlations), (p, q))
