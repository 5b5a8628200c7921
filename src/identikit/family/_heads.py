"""For each kind of head, a function from the outputs of a network to (f, g, bias) of a model.

The letters in a call of `arrays` are the shapes of the arguments: n inputs, K labels, width M.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from identikit._linalg import Array
from identikit.errors import InputError
from identikit.sources.array import as_array
from identikit.sources.checks import numeric_eps

#: (f, g, bias or None), the arguments of a SoftmaxModel.
Parts = tuple[Array, Array, Array | None]


def arrays(**given: tuple[ArrayLike, str]) -> list[Array]:
    """The arrays in float64, after checking that axes with the same letter have the same size."""
    out, sizes = [], dict[str, tuple[int, str]]()
    for name, (value, letters) in given.items():
        array = as_array(value, name)
        numeric_eps(array.dtype, name)
        axes = letters.split()
        wanted = f"{name} has shape {array.shape}; expected ({', '.join(axes)})"
        if array.ndim != len(axes):
            raise InputError(f"{wanted}, so {len(axes)} axes and not {array.ndim}")
        for axis, size in zip(axes, array.shape):
            first, where = sizes.setdefault(axis, (size, name))
            if size != first:
                raise InputError(f"{wanted}, and {axis} is {first} in {where}: is one transposed?")
        array = array.astype(np.float64)
        if not np.isfinite(array).all():
            raise InputError(f"{name} has NaN or infinity; leave those rows out")
        out.append(array)
    return out


def _unit(rows: Array, name: str) -> Array:
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    if not norms.all():
        raise InputError(
            f"row {int(norms.argmin())} of {name} is zero and has no direction, so its cosine is "
            "not defined; leave it out"
        )
    return np.asarray(rows / norms)


def _positive(temperature: float) -> float:
    temperature = float(temperature)
    if not 0 < temperature < math.inf:
        raise InputError(f"temperature is {temperature}; expected a number above zero")
    return temperature


def dot_product(f: ArrayLike, g: ArrayLike) -> Parts:
    """The score is f(x)ᵀ g(y)."""
    f, g = arrays(f=(f, "n M"), g=(g, "K M"))
    return f, g, None


def dot_product_with_bias(f: ArrayLike, g: ArrayLike, bias: ArrayLike) -> Parts:
    """The score is f(x)ᵀ g(y) + b_y; g is laid out as the weight of PyTorch's Linear."""
    f, g, bias = arrays(f=(f, "n M"), g=(g, "K M"), bias=(bias, "K"))
    return f, g, bias


def diet(
    features: ArrayLike, weights: ArrayLike, case: str = "C4", temperature: float = 1.0
) -> Parts:
    """The score is β w_iᵀ f(x) with β = 1/temperature and a row w_i for each instance.

    Both f and w are normalised (case C1), only f (C2), only w (C3), or neither (C4).
    """
    f, g = arrays(features=(features, "n M"), weights=(weights, "K M"))
    if case not in ("C1", "C2", "C3", "C4"):
        raise InputError(f"there is no case {case!r}; choose C1, C2, C3 or C4")
    beta = 1 / _positive(temperature)
    f = _unit(f, "features") if case in ("C1", "C2") else f
    return f, beta * (_unit(g, "weights") if case in ("C1", "C3") else g), None


def cpc(contexts: ArrayLike, weights: ArrayLike, encodings: ArrayLike) -> Parts:
    """The score is zᵀ W_k c of contexts c and encodings z, for one fixed number of steps k."""
    contexts, weights, encodings = arrays(
        contexts=(contexts, "n C"), weights=(weights, "M C"), encodings=(encodings, "K M")
    )
    return contexts @ weights.T, encodings, None


def nplm(
    context_vectors: ArrayLike, context_weights: ArrayLike, targets: ArrayLike, bias: ArrayLike
) -> Parts:
    """The score is (Σ_i C_i r_{w_i})ᵀ q_w + b_w, with a matrix C_i per position in the context."""
    vectors, weights, targets, bias = arrays(
        context_vectors=(context_vectors, "n C D"),
        context_weights=(context_weights, "C M D"),
        targets=(targets, "K M"),
        bias=(bias, "K"),
    )
    return np.tensordot(vectors, weights, axes=([1, 2], [0, 2])), targets, bias


def cosine(projections: ArrayLike, candidates: ArrayLike, temperature: float) -> Parts:
    """The score is the cosine divided by τ, so that the norms of the projections do not matter.

    A view is not its own candidate, so leave it out of S.
    """
    f, g = arrays(projections=(projections, "n M"), candidates=(candidates, "K M"))
    radius = _positive(temperature) ** -0.5
    return _unit(f, "projections") * radius, _unit(g, "candidates") * radius, None


def anisotropic(projections: ArrayLike, candidates: ArrayLike, concentrations: ArrayLike) -> Parts:
    """The score is −½(f − f')ᵀΛ̂(f − f') = fᵀΛ̂f' − ½f'ᵀΛ̂f' − ½fᵀΛ̂f, without the last term.

    f and f' are projections at unit norm, and Λ̂ is the diagonal matrix of the concentrations.
    """
    f, g, concentrations = arrays(
        projections=(projections, "n M"),
        candidates=(candidates, "K M"),
        concentrations=(concentrations, "M"),
    )
    if not (concentrations > 0).all():
        raise InputError(f"concentrations are {concentrations.tolist()}; all must be above zero")
    f, g = _unit(f, "projections"), _unit(g, "candidates")
    return f, g * concentrations, -np.square(g) @ concentrations / 2


def clip(images: ArrayLike, texts: ArrayLike, logit_scale: float) -> Parts:
    """The score is the cosine times exp(logit_scale), which is stored as this logarithm."""
    f, g = arrays(images=(images, "n M"), texts=(texts, "K M"))
    logit_scale = float(logit_scale)
    if not abs(logit_scale) < math.log(np.finfo(np.float64).max):
        raise InputError(
            f"logit_scale is {logit_scale}; expected the logarithm of the factor on the cosine, "
            "such as 4.6 for a factor of 100"
        )
    return _unit(f, "images"), _unit(g, "texts") * math.exp(logit_scale), None


def prototypical(embeddings: ArrayLike, prototypes: ArrayLike) -> Parts:
    """The score is −‖f − g‖² = 2fᵀg − ‖g‖² − ‖f‖², without the last term."""
    f, g = arrays(embeddings=(embeddings, "n M"), prototypes=(prototypes, "K M"))
    return 2 * f, g, -np.square(g).sum(axis=1)
