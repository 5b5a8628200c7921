"""How far apart a rotation can leave two models, from moments alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from identikit._linalg import singular_values
from identikit.moments import Moments


@dataclass(frozen=True)
class RotationBound:
    """What a rotation can do for two models, before any map is fitted.

    Attributes
    ----------
    delta : float
        The root mean square difference of the dot products of the two models, over all pairs of
        rows, each row with itself included.
    bound : float
        √(2D) δ: the mean squared distance of the rows after the best rotation is at most this.
    distance : float
        That distance itself, on the same rows.
    trivial : float
        What any bound must stay below to say something: the distance that is left if the models
        have nothing in common.
    """

    delta: float
    bound: float
    distance: float
    trivial: float

    @property
    def says_something(self) -> bool:
        """Whether the bound is below what unrelated models would keep to."""
        return self.bound < self.trivial


def rotation_bound(
    moments: Moments, i: int = 0, j: int = 1, *, centred: bool = False
) -> RotationBound:
    """The bound of Maystre et al. on what is left after the best rotation, from moments.

    For n rows X and Y of width D (the narrower model is padded with zeros), let
    δ² = ‖XXᵀ − YYᵀ‖²_F / n² be the mean squared difference of their dot products. Then

        min over rotations Q of ‖XQ − Y‖²_F / n  ≤  √(2D) δ.

    It holds because ‖XᵀY‖_* ≥ tr (XXᵀ)^½ (YYᵀ)^½ bounds the left side by
    ‖(XXᵀ)^½ − (YYᵀ)^½‖²_F / n, which is at most ‖XXᵀ − YYᵀ‖_* / n (Powers and Størmer 1970), a
    nuclear norm of rank 2D. No matrix of all pairs of rows is needed:
    ‖XXᵀ − YYᵀ‖²_F = ‖XᵀX‖²_F + ‖YᵀY‖²_F − 2 ‖XᵀY‖²_F. The same moments give the left side too,
    ‖X‖² + ‖Y‖² − 2 ‖XᵀY‖_*, so that the bound is of use only where one has δ and no moments.

    Parameters
    ----------
    moments : Moments
        Of both models on the same rows.
    i, j : int
        The two views.
    centred : bool
        Take the means off both models first, as a rigid map does.

    References
    ----------
    Maystre, Ortega Gonzalez, Park, Dolga, Berariu, Zhao and Ciosek 2025, When embedding models
    meet: Procrustes bounds and applications, arXiv:2510.13406, Corollary 1.

    Examples
    --------
    >>> import numpy as np, identikit as ik
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 3))
    >>> Y = X @ np.linalg.qr(rng.normal(size=(3, 3)))[0]
    >>> rotation_bound(ik.accumulate([X, Y])).bound < 1e-6
    True
    """
    n, units = moments.rows, moments.units
    blocks = {}
    for a, b in ((i, i), (j, j), (i, j)):
        block = moments.block(a, b) / n
        if not centred:
            block = block + np.outer(moments.centre(a), moments.centre(b))
        blocks[a, b] = np.ldexp(block, units[a] + units[b])
    own = [float(np.trace(blocks[a, a])) for a in (i, j)]
    squares = [float(np.vdot(blocks[key], blocks[key])) for key in ((i, i), (j, j), (i, j))]
    delta = max(squares[0] + squares[1] - 2 * squares[2], 0.0) ** 0.5
    shared = float(singular_values(blocks[i, j]).sum())
    width = max(moments.widths[i], moments.widths[j])
    bound = (2 * width) ** 0.5 * delta
    return RotationBound(delta, bound, max(sum(own) - 2 * shared, 0.0), sum(own))
