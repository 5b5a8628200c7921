"""What a distribution sees of f and of g: the directions that move its centred logits."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from identikit._linalg import Array, svd

#: Directions that move the logits by a smaller share of what the largest does count for nothing,
#: whatever the type: no probability tells them from rounding.
LEAST = 1e-6


class Identified(NamedTuple):
    """Coordinates in which f and g are no more than what moves the centred logits.

    Rows f and g have coordinates u = f @ `to_f` and v = g @ `to_g` in r dimensions, and u · v is
    the logit, up to what is constant over labels. `axes` (M, r, orthonormal) takes both back:
    u @ axes.T is f without what is free, in the model's own axes. All three are the identity if
    nothing is free.
    """

    to_f: Array
    to_g: Array
    axes: Array

    @property
    def rank(self) -> int:
        """The dimension r that the distribution identifies."""
        return int(self.axes.shape[1])


def identify(f: Array, g: Array, rounding: float) -> Identified:
    """The identified directions of a model, from the spectrum of its centred logits.

    With F G_cᵀ = U Σ Vᵀ, cut at the r singular values that count, F G_cᵀ V Σ⁻¹ = U: so
    T_f = G_cᵀ V Σ^-½ takes f to coordinates that depend on the logits alone, T_g = Fᵀ U Σ^-½ takes
    g there, and T_gᵀ T_f = I. What moves no logit, on either side and however large, drops out
    (Roeder et al. 2021 assume that there is none: diversity).

    Parameters
    ----------
    f : array (m, M)
        R of F = QR, or anything with the inner products of its columns; of the centred F where a
        bias takes up what is constant.
    g : array (k, M)
        R of the label-centred G.
    rounding : float
        Norm of the logits' rounding errors, below which no singular value means anything. (A share
        of the largest value, as in the rank rule of one matrix, would cost true directions: the
        spectrum of a product falls as the product of two.)
    """
    width = f.shape[1]
    left, values, right = svd(f @ g.T)
    least = max(LEAST * values[0], rounding)
    r = int(np.count_nonzero(values > least))
    if r == width:
        whole = np.eye(width)
        return Identified(whole, whole, whole)
    if r == 0:
        nothing = np.empty((width, 0))
        return Identified(nothing, nothing, nothing)
    root = np.sqrt(values[:r])
    to_f, to_g = g.T @ right[:r].T / root, f.T @ left[:, :r] / root
    # To the model's own axes: f without its part along directions in which no label differs. Of
    # the rest, `to_g.T` gives what the coordinates explain.
    _, sizes, turn = svd(g)
    moves = sizes * np.linalg.norm(f @ turn.T, axis=0)
    reached = turn[moves > least / width**0.5]
    own = (to_g.T @ reached.T) @ reached
    _, _, axes = svd(own)
    change = own @ axes.T
    return Identified(to_f @ change, to_g @ np.linalg.inv(change).T, axes.T)


def rounding_norm(size: float, rows: int, labels: int, eps: float) -> float:
    """Largest singular value that rounding alone gives a table of this Frobenius norm, generously.

    Errors are independent: √n + √K times the size of one.
    """
    return float(8 * eps * size * (rows**0.5 + labels**0.5) / (rows * labels) ** 0.5)
