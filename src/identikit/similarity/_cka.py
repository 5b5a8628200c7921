"""Linear centred kernel alignment."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from identikit.inference import Null
from identikit.moments import Moments
from identikit.similarity._registry import View, Views, measure, pair_of


@dataclass(frozen=True)
class CKA:
    """Linear CKA; `chance` is the mean of the biased value over all pairings of the rows."""

    value: float | None
    debiased: bool
    chance: float | None


def cka_null(moments: Moments, i: int, j: int) -> Null | None:
    """The exact mean and variance of the biased value over all pairings of the rows.

    Linear CKA is the RV coefficient, for which Kazi-Aoual et al. (1995) give, with
    β = (tr K)²/tr K², α = n − 1 − β and γ = (n−1)/(n−3) [n(n+1) Σ K_aa²/tr K² − (n−1)(β+2)] of each
    kernel K = XXᵀ, the mean √(β_i β_j)/(n−1) and the variance
    2/((n+1)(n−1)²(n−2)) [α_i α_j + (n−3)/(2n(n−1)) γ_i γ_j]. Both follow from the moments. The
    third moment does not, and the skewness is that of Gaussian views,
    √8 tr S_i³ tr S_j³ / (tr S_i² tr S_j²)^1.5. The result is None for fewer than four rows, or if
    fourth powers underflow; random draws are used then.

    Parameters
    ----------
    moments : Moments
    i, j : int
        The two views.
    """
    n = moments.rows
    if n < 4:
        return None
    mean, variance, skewness = 1 / (n - 1), [1.0, 1.0], np.sqrt(8)
    for view in (i, j):
        spectrum = moments.principal(view)[0]
        spectrum = spectrum / spectrum.sum()  # the kernel at unit trace
        square = float(spectrum @ spectrum)
        trace, diagonal = np.trace(moments.block(view, view)), moments.norm_products()[view, view]
        if diagonal == 0.0:  # an underflow
            return None
        diagonal = diagonal / trace / trace
        beta = 1 / square
        mean *= np.sqrt(beta)
        skewness *= float(np.sum(spectrum**3)) / square**1.5
        variance[0] *= n - 1 - beta
        variance[1] *= (n - 1) / (n - 3) * (n * (n + 1) * diagonal / square - (n - 1) * (beta + 2))
    total = variance[0] + (n - 3) / (2 * n * (n - 1)) * variance[1]
    scale = 2 / ((n + 1) * (n - 1) ** 2 * (n - 2))
    return Null(float(mean), float(np.sqrt(max(total, 0.0) * scale)), float(skewness))


@measure(
    invariant_to="similarity", reference="Kornblith et al. 2019; Song et al. 2007", null=cka_null
)
def cka(moments: Views, i: View = 0, j: View = 1, *, debiased: bool = False) -> CKA:
    """Linear CKA: ‖XᵀY‖²_F / (‖XᵀX‖_F ‖YᵀY‖_F), or with the unbiased HSIC in place of each norm.

    The unbiased HSIC of centred X and Y, with the squared row norms a of X and b of Y, is
    [‖XᵀY‖²_F − n/(n−2) aᵀb + Σa Σb /((n−1)(n−2))] / (n(n−3)). It is 0 on average for independent
    views whatever the widths, and may be negative. The chance level of the biased value is its
    exact mean over all row permutations, tr XᵀX · tr YᵀY / ((n−1) ‖XᵀX‖ ‖YᵀY‖).

    Parameters
    ----------
    moments : Moments or array (rows, d)
    i, j : int, str or array (rows, d)
        Two views; or, after a first table, the second one.
    debiased : bool
        Use the unbiased estimator (needs at least 4 rows).

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(500, 3))
    >>> turned = X @ [[0.6, 0.8, 0], [-0.8, 0.6, 0], [0, 0, 5]]
    >>> round(cka(X, 2 * X[:, ::-1]).value, 6), cka(X, turned).value < 0.9
    (1.0, True)
    """
    moments, i, j = pair_of(moments, i, j)
    n = moments.rows
    traces = {view: float(np.trace(moments.block(view, view))) for view in (i, j)}
    if not (moments.varies(i) and moments.varies(j)):
        return CKA(None, debiased, None)
    # Views are scaled to unit trace, which does not change CKA but keeps fourth powers in range.
    pairs = [(i, j), (i, i), (j, j)]
    blocks = [moments.block(a, b) / np.sqrt(traces[a]) / np.sqrt(traces[b]) for a, b in pairs]
    norms = [float(np.vdot(block, block)) for block in blocks]
    scale = float(np.sqrt(norms[1] * norms[2]))
    chance = 1.0 / ((n - 1) * scale)
    if not debiased:
        return CKA(norms[0] / scale, False, chance)
    products = moments.norm_products()
    if n < 4 or min(products[i, i], products[j, j]) == 0.0:  # too few rows, or an underflow
        return CKA(None, True, chance)
    hsic = [
        (norm - n / (n - 2) * products[a, b] / traces[a] / traces[b] + 1 / ((n - 1) * (n - 2)))
        / (n * (n - 3))
        for norm, (a, b) in zip(norms, pairs)
    ]
    # An unbiased norm may be zero, negative, or rounding error; then there is no value.
    if any(value * n * (n - 3) <= 1e-12 * norm for value, norm in zip(hsic[1:], norms[1:])):
        return CKA(None, True, chance)
    return CKA(float(hsic[0] / np.sqrt(hsic[1] * hsic[2])), True, chance)
