"""Canonical correlation analysis."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from identikit._linalg import Array
from identikit.inference import TwinStack
from identikit.similarity._registry import View, Views, measure, pair_of


@dataclass(frozen=True)
class CCA:
    """Canonical correlations of two views, in sample.

    `correlations` are the `rank` correlations in descending order; `ranks` are those of the two
    views. `mean` and `mean_square` (R²_CCA, Kornblith et al. 2019) are None if a view has n − 1
    independent directions, because every correlation is then 1 whatever the data.
    """

    correlations: Array
    ranks: tuple[int, int]
    rows: int

    @property
    def rank(self) -> int:
        """Number of correlations: the smaller of the two ranks."""
        return min(self.ranks)

    @property
    def saturated(self) -> bool:
        """Whether a view has rank 0, or rank n − 1, so that all correlations must be 1."""
        return self.rank == 0 or max(self.ranks) >= self.rows - 1

    @property
    def mean(self) -> float | None:
        """Mean correlation."""
        return None if self.saturated else float(self.correlations.mean())

    @property
    def mean_square(self) -> float | None:
        """Mean squared correlation."""
        return None if self.saturated else float(np.mean(self.correlations**2))

    @property
    def value(self) -> float | None:
        """The mean correlation."""
        return self.mean


def _of_twins(twins: TwinStack) -> Array:
    means: Array = np.clip(twins.draws.svd[1], 0.0, 1.0).mean(axis=1)
    return means


@measure(
    invariant_to="affine",
    reference="Hotelling 1936; Roeder, Metz and Kingma 2021",
    of_twins=_of_twins,
)
def cca(moments: Views, i: View = 0, j: View = 1) -> CCA:
    """Canonical correlations of two views: r = svd(U_iᵀ U_j), with X = U S Vᵀ of numerical rank.

    They are exact and in sample. Directions that are only rounding errors of the stored type do not
    count.

    Parameters
    ----------
    moments : Moments or array (rows, d)
    i, j : int, str or array (rows, d)
        Two views, by number or name; or, after a first table, the second one.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(500, 3))
    >>> round(cca(X, X @ [[1, 2, 0], [0, 1, 0], [3, 0, 1]]).mean, 6)
    1.0
    """
    moments, i, j = pair_of(moments, i, j)
    r = moments.canonical_correlations(i, j)
    ranks = moments.whiten(i).rank, moments.whiten(j).rank
    return CCA(np.clip(r, 0.0, 1.0), ranks, moments.rows)
