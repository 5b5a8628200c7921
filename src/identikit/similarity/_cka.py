"""Linear centred kernel alignment."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from identikit.moments import Moments
from identikit.similarity._registry import measure


@dataclass(frozen=True)
class CKA:
    """Linear CKA; `chance` is the mean of the biased value over all pairings of the rows."""

    value: float | None
    debiased: bool
    chance: float | None


@measure(invariant_to="similarity", reference="Kornblith et al. 2019; Song et al. 2007")
def cka(moments: Moments, i: int | str = 0, j: int | str = 1, debiased: bool = False) -> CKA:
    """Linear CKA: ‖XᵀY‖²_F / (‖XᵀX‖_F ‖YᵀY‖_F), or the unbiased HSIC in each norm's place.

    The unbiased HSIC of centred X, Y with a = row norms² of X, b of Y:
    [‖XᵀY‖²_F − n/(n−2) aᵀb + Σa Σb /((n−1)(n−2))] / (n(n−3)). It is 0 on average for independent
    views whatever the widths, and may be negative. The biased value has a chance level of
    tr XᵀX · tr YᵀY / ((n−1) ‖XᵀX‖ ‖YᵀY‖), exactly, over row permutations.

    Parameters
    ----------
    moments : Moments
    i, j : int or str
        The two views.
    debiased : bool
        Use the unbiased estimator (needs at least 4 rows).
    """
    i, j = moments.resolve(i), moments.resolve(j)
    n = moments.rows
    pairs = [(i, j), (i, i), (j, j)]
    norms = [float(np.vdot(block, block)) for block in (moments.block(a, b) for a, b in pairs)]
    traces = {view: float(np.trace(moments.block(view, view))) for view in (i, j)}
    scale = float(np.sqrt(norms[1] * norms[2]))
    if scale == 0.0 or n < 2:
        return CKA(None, debiased, None)
    chance = traces[i] * traces[j] / ((n - 1) * scale)
    if not debiased:
        return CKA(norms[0] / scale, False, chance)
    if n < 4:
        return CKA(None, True, chance)
    products = moments.norm_products()
    hsic = [
        (norm - n / (n - 2) * products[a, b] + traces[a] * traces[b] / ((n - 1) * (n - 2)))
        / (n * (n - 3))
        for norm, (a, b) in zip(norms, pairs)
    ]
    if hsic[1] <= 0 or hsic[2] <= 0:
        return CKA(None, True, chance)
    return CKA(float(hsic[0] / np.sqrt(hsic[1] * hsic[2])), True, chance)
