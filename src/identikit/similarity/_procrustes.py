"""Orthogonal Procrustes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from identikit._linalg import Array, singular_values
from identikit.inference import TwinStack
from identikit.similarity._registry import View, Views, measure, pair_of


@dataclass(frozen=True)
class Procrustes:
    """Similarity of two views after the best rotation or reflection.

    `value` = ‖XᵀY‖_* / (‖X‖_F ‖Y‖_F); `distance` = 2 − 2 value, the squared Procrustes distance of
    the views scaled to unit norm.
    """

    value: float | None

    @property
    def similarity(self) -> float | None:
        """The same as `value`."""
        return self.value

    @property
    def distance(self) -> float | None:
        """Squared distance after the best rotation of the views scaled to unit norm."""
        return None if self.value is None else max(2.0 - 2.0 * self.value, 0.0)


def _of_twins(twins: TwinStack) -> Array:
    moments = twins.moments
    sizes = [np.sqrt(np.trace(moments.block(view, view))) for view in (twins.i, twins.j)]
    sums: Array = singular_values(twins.cross / sizes[0] / sizes[1]).sum(axis=1)
    return sums


@measure(
    invariant_to="similarity",
    reference="Schönemann 1966; Ding, Denain and Steinhardt 2021",
    of_twins=_of_twins,
)
def procrustes(moments: Views, i: View = 0, j: View = 1) -> Procrustes:
    """Orthogonal Procrustes similarity: the nuclear norm of XᵀY over the norms of X and Y.

    The minimum over orthogonal R of ‖XR − Y‖² is ‖X‖² + ‖Y‖² − 2‖XᵀY‖_*, which is
    2 − 2 × similarity for views of unit norm. If the widths differ, the narrower view is padded
    with columns of zeros.

    Parameters
    ----------
    moments : Moments or array (rows, d)
    i, j : int, str or array (rows, d)
        Two views; or, after a first table, the second one.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(500, 3))
    >>> round(procrustes(X, 2 * X[:, ::-1] + 1).value, 6)
    1.0
    """
    moments, i, j = pair_of(moments, i, j)
    if not (moments.varies(i) and moments.varies(j)):
        return Procrustes(None)
    return Procrustes(moments.nuclear_norm(i, j))
