"""Variance of one view explained by the other, in both directions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from identikit._linalg import Array
from identikit.inference import TwinStack
from identikit.moments import Moments
from identikit.similarity._registry import View, Views, measure, pair_of


@dataclass(frozen=True)
class R2:
    """Share of variance explained by the best affine map, in sample; None where it must be 1.

    `forward` predicts view j from view i, `backward` view i from view j, and `value` is the
    smaller of the two.
    """

    forward: float | None
    backward: float | None

    @property
    def value(self) -> float | None:
        """The value of the worse direction."""
        if self.forward is None or self.backward is None:
            return None
        return min(self.forward, self.backward)


def _of_twins(twins: TwinStack) -> Array:
    moments, i, j = twins.moments, twins.i, twins.j
    backward = twins.draws.C.swapaxes(1, 2) @ moments.loadings(i)
    shares = [
        np.square(along).sum(axis=(1, 2)) / float(np.trace(moments.block(view, view)))
        for view, along in ((j, twins.explained), (i, backward))
    ]
    worse: Array = np.minimum(shares[0], shares[1]).clip(max=1.0)
    return worse


@measure(invariant_to="similarity", reference="Kornblith et al. 2019", of_twins=_of_twins)
def r2(moments: Views, i: View = 0, j: View = 1) -> R2:
    """In-sample R² of linear regression: ‖U_iᵀ Y_j‖²_F / ‖Y_j‖²_F, and the reverse.

    Parameters
    ----------
    moments : Moments or array (rows, d)
    i, j : int, str or array (rows, d)
        Two views; or, after a first table, the second one.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(500, 3))
    >>> found = r2(X, X[:, :2])
    >>> round(found.forward, 6), found.value < 0.8
    (1.0, True)
    """
    moments, i, j = pair_of(moments, i, j)
    return R2(_explained(moments, i, j), _explained(moments, j, i))


def _explained(moments: Moments, i: int, j: int) -> float | None:
    """R² of view j from view i."""
    if not moments.varies(j) or moments.whiten(i).rank >= moments.rows - 1:
        return None
    total = float(np.trace(moments.block(j, j)))
    along = moments.from_white(i, j)
    return min(float(np.vdot(along, along)) / total, 1.0)
