"""The normal form of a model: coordinates that are determined by its distribution."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from identikit._linalg import Array, rank_tolerance, svd
from identikit.family._model import SoftmaxModel


@dataclass(frozen=True)
class NormalForm:
    """f and g in coordinates that are determined by the distribution.

    `singular_values` are those of the label-centred logits F G_cᵀ (n × K); `rank` is the number of
    those that are not rounding errors, the effective complexity. ``f @ g.T`` are the centred
    logits.
    """

    f: Array
    g: Array
    singular_values: Array
    rank: int


def normal_form(model: SoftmaxModel) -> NormalForm:
    """Coordinates in which two models with equal distributions are equal, even at other widths.

    With F = Q_F R_F, G_c = Q_G R_G and R_F R_Gᵀ = U Σ Vᵀ, they are f = Q_F U Σ^½ and g = Q_G V Σ^½.
    The cost is O((n + K) M²), without the n × K table. The sign of each axis makes its largest
    entry in g positive; equal singular values leave a rotation undetermined.

    Parameters
    ----------
    model : SoftmaxModel
    """
    f, g = model.lifted_f, model.lifted_g
    (qf, rf), (qg, rg) = np.linalg.qr(f), np.linalg.qr(g)
    left, values, right = svd(rf @ rg.T)
    eps = max(model.eps_f, model.eps_g)
    # These are singular values of a product of two factors that were both rounded.
    least = max(rank_tolerance(max(f.shape), max(g.shape), eps), 1e-12) * max(values[0], 1e-300)
    rank = int(np.count_nonzero(values > least))
    root = np.sqrt(values[:rank])
    f, g = qf @ left[:, :rank] * root, qg @ right[:rank].T * root
    largest = g[np.abs(g).argmax(axis=0), np.arange(rank)]
    sign = np.where(largest < 0, -1.0, 1.0)
    return NormalForm(f * sign, g * sign, values, rank)
