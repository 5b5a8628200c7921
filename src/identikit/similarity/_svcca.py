"""Singular vector canonical correlation analysis."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from identikit._linalg import Array, inverse_or_zero, singular_values
from identikit.errors import InputError
from identikit.inference import TwinStack
from identikit.moments import Moments
from identikit.similarity._registry import View, Views, measure, pair_of

#: The share of a view's variance that its leading components explain, unless their number is given.
VARIANCE = 0.99


@dataclass(frozen=True)
class SVCCA:
    """Canonical correlations of leading principal components; `kept` is their number per view."""

    correlations: Array
    kept: tuple[int, int]
    rows: int

    @property
    def value(self) -> float | None:
        """Mean correlation; None if a view has no components, or so many that they fit any data."""
        if min(self.kept) == 0 or max(self.kept) >= self.rows - 1:
            return None
        return float(self.correlations.mean())


def _of_twins(twins: TwinStack) -> Array:
    """Leading components of twins have the coherence U_iᵀ C U_j, with U in whitened coordinates."""
    moments = twins.moments

    def components(view: int) -> Array:
        return moments.loadings(view) @ _leading(moments, view, None, VARIANCE)

    left, right = (
        moments.of_view("leading components", view, partial(components, view))
        for view in (twins.i, twins.j)
    )
    r = singular_values(left.T @ twins.along("components", right))
    means: Array = np.clip(r, 0.0, 1.0).mean(axis=1)
    return means


@measure(invariant_to="similarity", reference="Raghu et al. 2017", of_twins=_of_twins)
def svcca(
    moments: Views,
    i: View = 0,
    j: View = 1,
    *,
    k: int | None = None,
    variance: float = VARIANCE,
) -> SVCCA:
    """CCA between the top principal components of each view.

    Unlike CCA it is *not* invariant to linear maps, because they change which directions are large.
    A value below 1 therefore does not refute linear identifiability.

    Parameters
    ----------
    moments : Moments or array (rows, d)
    i, j : int, str or array (rows, d)
        Two views; or, after a first table, the second one.
    k : int, optional
        Number of components of each view (at most its rank). It takes precedence over `variance`.
    variance : float
        Without `k`, the share of each view's variance that the components must explain.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(500, 3))
    >>> round(svcca(X, 2 * X[:, ::-1]).value, 6), svcca(X, X, k=2).kept
    (1.0, (2, 2))
    """
    moments, i, j = pair_of(moments, i, j)
    if k is not None and k < 1:
        raise InputError(f"svcca got k = {k} components; k must be at least 1")
    if not 0 < variance <= 1:
        raise InputError(f"svcca got variance = {variance}; it must be a share in (0, 1]")
    left, right = (_leading(moments, view, k, variance) for view in (i, j))
    r = singular_values(left.T @ moments.block(i, j) @ right)
    return SVCCA(np.clip(r, 0.0, 1.0), (left.shape[1], right.shape[1]), moments.rows)


def _leading(moments: Moments, view: int, k: int | None, variance: float) -> Array:
    values, vectors = moments.principal(view)
    if k is None:
        share = np.cumsum(values) / max(values.sum(), 1e-300)
        k = int(np.searchsorted(share, variance - 1e-12)) + 1
    k = min(k, moments.whiten(view).rank)
    leading: Array = vectors[:, :k] * inverse_or_zero(np.sqrt(values[:k]))
    return leading
