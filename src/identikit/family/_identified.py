"""What a distribution identifies of f and g: the directions that affect its centred logits."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from identikit._linalg import Array, svd

#: Directions whose effect on the logits, relative to the largest one, is smaller than this are
#: ignored for every type: in the probabilities they cannot be distinguished from rounding errors.
LEAST = 1e-6


class Identified(NamedTuple):
    """Coordinates that contain only the parts of f and g that affect the centred logits.

    Rows f and g have coordinates u = f @ `to_f` and v = g @ `to_g` in r dimensions, and u · v is
    the logit up to a constant over labels. `axes` (M, r, orthonormal) maps both back: u @ axes.T is
    f without its free part, in the model's original axes. All three are the identity if nothing is
    free.
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

    With F G_cᵀ = U Σ Vᵀ, truncated to the r singular values that are large enough,
    F G_cᵀ V Σ⁻¹ = U. So T_f = G_cᵀ V Σ^-½ maps f to coordinates that depend on the logits alone,
    T_g = Fᵀ U Σ^-½ does the same for g, and T_gᵀ T_f = I. Parts of f or g that affect no logit drop
    out, however large they are (the diversity condition of Roeder et al. 2021 assumes that there
    are none).

    `f` is R of F = QR, or of the centred F if a bias absorbs constants; `g` is R of the
    label-centred G. Singular values below `rounding`, the norm of the rounding errors of the
    logits, are ignored. (A tolerance relative to the largest value, as in the rank rule for one
    matrix, would lose true directions: the spectrum of a product decays like that of both.)
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
    # Back to the model's axes: drop the part of f along directions in which no label differs; of
    # the rest, `to_g.T` gives what the coordinates explain.
    _, sizes, directions = svd(g)
    effects = sizes * np.linalg.norm(f @ directions.T, axis=0)
    reached = directions[effects > least / width**0.5]
    own = (to_g.T @ reached.T) @ reached
    _, _, axes = svd(own)
    change = own @ axes.T
    return Identified(to_f @ change, to_g @ np.linalg.inv(change).T, axes.T)


def rounding_norm(size: float, rows: int, labels: int, eps: float) -> float:
    """Generous bound on the largest singular value of the rounding errors in a table of this norm.

    `size` is the Frobenius norm. Independent errors have a largest singular value of √n + √K times
    the size of one error.
    """
    return float(8 * eps * size * (rows**0.5 + labels**0.5) / (rows * labels) ** 0.5)
