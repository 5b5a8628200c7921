"""The lowest possible loss, in order to distinguish "not optimised" from "not identified".

A training run whose loss is above the floor says nothing about identifiability. A run that reaches
the floor without recovering the factors shows that they are not identified.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from identikit._linalg import Array
from identikit.errors import InputError
from identikit.family._heads import arrays
from identikit.family._model import log_softmax


@dataclass(frozen=True)
class Floor:
    """The smallest possible expected loss in nats, and the standard error of its estimate.

    >>> Floor(2.27, 0.01).reached(2.30, slack=0.05), Floor(2.27, 0.01).reached(2.5, slack=0.05)
    (True, False)
    """

    value: float
    error: float = 0.0

    def reached(self, loss: float, slack: float) -> bool:
        """Whether a loss is within `slack` of the floor, allowing for the floor's 95 % interval.

        Parameters
        ----------
        loss : float
            Loss in nats, on data from the same distribution.
        slack : float
            The largest difference from the floor that counts as reached.
        """
        return bool(loss <= self.value + slack + 1.96 * self.error)


def supervised_floor(
    vectors: ArrayLike,
    kappa: float,
    latents: ArrayLike,
    labels: ArrayLike | None = None,
    *,
    noise: float = 0.0,
) -> Floor:
    """E[−log p(c|z)] of clusters on the sphere: p(c|z) = softmax_c(κ v_cᵀz), classes uniform.

    Parameters
    ----------
    vectors : array (C, d)
        The class vectors v_c.
    kappa : float
        The concentration κ.
    latents : array (n, d)
        Points z of the mixture of all classes.
    labels : integer array (n,), optional
        The class of each point. Without labels the expectation over the class is computed exactly,
        which gives the same expected value with a smaller error.
    noise : float
        The share r of labels that were replaced by one drawn uniformly from all classes:
        p(c|z) = (1 − r) softmax + r/C.
    """
    v, z = _sphere(vectors, kappa, latents)
    if not 0 <= noise <= 1:
        raise InputError(f"noise is {noise}; expected a share of the labels, from 0 to 1")
    logs = log_softmax(kappa * z @ v.T)
    if noise:
        logs = np.log((1 - noise) * np.exp(logs) + noise / len(v))
    return _floor(logs, labels)


def diet_floor(
    vectors: ArrayLike,
    kappa: float,
    latents: ArrayLike,
    instances: int,
    labels: ArrayLike | None = None,
) -> Floor:
    """The floor for N instance labels, with instance i in class i mod C: class floor + log(N/C).

    Instances of one class cannot be distinguished: p(i|z) = p(c|z)/n_c, with n_c instances in class
    c and p(c|z) ∝ n_c exp(κ v_cᵀz). If C does not divide N, the n_c differ by at most one.

    Parameters
    ----------
    vectors, kappa, latents, labels
        As for `supervised_floor`; labels are classes.
    instances : int
        The number N of instances, at least one per class.
    """
    v, z = _sphere(vectors, kappa, latents)
    if instances < len(v):
        raise InputError(
            f"there are {instances} instances of {len(v)} classes; every class needs at least one"
        )
    counts = np.log(np.bincount(np.arange(instances) % len(v)))
    return _floor(log_softmax(kappa * z @ v.T + counts), labels, counts)


def language_floor(probabilities: ArrayLike, tokens: ArrayLike | None = None) -> Floor:
    """Entropy of a distribution over strings, in nats per string or, with `tokens`, per token.

    Parameters
    ----------
    probabilities : array (K,)
        Probability of each string; they sum to one.
    tokens : int or array (K,), optional
        The number of targets over which the loss of a string is averaged: one number if padding
        counts, and the length of each string if it does not.

    Examples
    --------
    >>> p = np.full(128, 1 / 128)  # the aⁿbⁿ, n = 1 to 128, each with its end
    >>> own = 2 * np.arange(1, 129) + 1
    >>> floors = language_floor(p), language_floor(p, 257), language_floor(p, own)
    >>> [round(floor.value, 5) for floor in floors]
    [4.85203, 0.01888, 0.03732]
    """
    (p,) = arrays(probabilities=(probabilities, "K"))
    if not (p >= 0).all() or abs(p.sum() - 1) > 1e-9 * len(p):
        raise InputError(
            f"the smallest probability of a string is {p.min():.3g} and their sum is "
            f"{p.sum():.9g}; expected numbers that are not negative and sum to one"
        )
    possible = p[p > 0]
    entropy = -float(possible @ np.log(possible))
    if tokens is None:
        return Floor(entropy)
    counts = np.asarray(tokens, dtype=np.float64)
    if counts.shape not in ((), p.shape) or not (counts > 0).all():
        raise InputError(
            f"tokens has shape {counts.shape} for {len(p)} strings; expected one number above zero "
            "for all strings, or one for each"
        )
    return Floor(entropy / float(np.sum(p * counts) / p.sum()))


def _sphere(vectors: ArrayLike, kappa: float, latents: ArrayLike) -> tuple[Array, Array]:
    v, z = arrays(vectors=(vectors, "C d"), latents=(latents, "n d"))
    if not 0 < kappa < np.inf:
        raise InputError(f"kappa is {kappa}; expected a number above zero")
    if len(v) < 2 or len(z) < 2:
        raise InputError(
            f"there are {len(v)} vectors and {len(z)} latents; a floor needs at least two classes "
            "and two points"
        )
    return v, z


def _floor(logs: Array, labels: ArrayLike | None, counts: Array | float = 0.0) -> Floor:
    """Mean and standard error of −log p(i|z), p(i|z) = p(c|z)/n_c."""
    each = counts - logs
    if labels is None:
        losses = (np.exp(logs) * each).sum(axis=1)
    else:
        chosen = np.asarray(labels)
        if chosen.dtype.kind not in "iu" or chosen.shape != (len(logs),):
            raise InputError(
                f"labels have shape {chosen.shape} and dtype {chosen.dtype}; expected a class for "
                f"each of the {len(logs)} latents, as whole numbers"
            )
        if chosen.min() < 0 or chosen.max() >= logs.shape[1]:
            raise InputError(
                f"labels go from {chosen.min()} to {chosen.max()}; expected classes from 0 to "
                f"{logs.shape[1] - 1}"
            )
        losses = each[np.arange(len(logs)), chosen]
    return Floor(float(losses.mean()), float(losses.std(ddof=1) / len(losses) ** 0.5))
