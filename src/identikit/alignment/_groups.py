"""The ladder of groups: for each, the map that fits best in the least-squares sense.

identity < permutation < monomial < rigid < similarity < linear < affine. Maps are ``y ≈ x W + b``.
A new group is one function under ``@group``, at its place in the order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from identikit._linalg import Array, inverse_or_zero
from identikit.alignment._stats import PairStats

Fit = Callable[[PairStats], tuple[Array, Array]]


@dataclass(frozen=True)
class Group:
    """A group of maps: how the best one is fitted, and which views it makes sense for.

    Parameters
    ----------
    name : str
    fit : callable
        From a PairStats to (W, b).
    means : str
        What the maps are, in words.
    inside : tuple of str
        The looser groups that contain this one. (The ladder is ordered by strictness, not by
        inclusion: a scale per axis is no rotation, and a linear map has no shift.)
    equal_widths : bool
        Whether the group has no maps between views of different widths.
    whitened : bool
        Whether `fit` wants the source in whitened coordinates; few rows then ask for a ridge.
    shift : bool
        Whether the maps move the mean freely.
    """

    name: str
    fit: Fit
    means: str
    inside: tuple[str, ...]
    equal_widths: bool = False
    whitened: bool = False
    shift: bool = True


#: From the strictest to the loosest.
GROUPS: dict[str, Group] = {}


def group(
    means: str,
    inside: str = "",
    *,
    equal_widths: bool = False,
    whitened: bool = False,
    shift: bool = True,
) -> Callable[[Fit], Fit]:
    """Add a fit to the ladder, above those before it."""

    def register(fit: Fit) -> Fit:
        name, looser = fit.__name__, tuple(inside.split())
        GROUPS[name] = Group(name, fit, means, looser, equal_widths, whitened, shift)
        return fit

    return register


def join(first: str, second: str) -> str:
    """The strictest group that contains two groups, and so the products of their maps."""
    both = [{name, *GROUPS[name].inside} for name in (first, second)]
    return next(name for name in GROUPS if name in both[0] & both[1])


def counts_as(name: str, required: str) -> bool:
    """Whether every map of a group is one of another, but for a shift where that has none.

    >>> [counts_as(name, "rigid") for name in ("permutation", "monomial", "linear")]
    [True, False, False]
    """
    if name not in GROUPS:
        return False
    return required in (name, *GROUPS[name].inside) or (required == "linear" and name != "affine")


def matching(cross: Array) -> Array:
    """The signed permutation P of axes with the largest tr(PᵀS) for a cross-scatter S."""
    from scipy.optimize import linear_sum_assignment

    rows, columns = linear_sum_assignment(-np.abs(cross))
    weights = np.zeros_like(cross)
    weights[rows, columns] = np.where(cross[rows, columns] < 0, -1.0, 1.0)
    return weights


@group(
    "no change at all",
    "permutation monomial rigid similarity linear affine",
    equal_widths=True,
    shift=False,
)
def identity(s: PairStats) -> tuple[Array, Array]:
    """y = x."""
    return np.eye(len(s.x_mean)), np.zeros(len(s.y_mean))


@group(
    "axes reordered and flipped, and a shift", "monomial rigid similarity affine", equal_widths=True
)
def permutation(s: PairStats) -> tuple[Array, Array]:
    """Signed permutation and shift: the assignment with the largest Σ |S_xy|."""
    weights = matching(s.sxy)
    return weights, s.y_mean - s.x_mean @ weights


@group("axes reordered, flipped and each rescaled, and a shift", "affine", equal_widths=True)
def monomial(s: PairStats) -> tuple[Array, Array]:
    """One source axis and one factor a target axis: the assignment of largest Σ S_xy²/S_xx."""
    from scipy.optimize import linear_sum_assignment

    slopes = s.sxy * inverse_or_zero(np.diagonal(s.sxx).copy())[:, None]
    rows, columns = linear_sum_assignment(-s.sxy * slopes)
    weights = np.zeros_like(s.sxy)
    weights[rows, columns] = slopes[rows, columns]
    return weights, s.y_mean - s.x_mean @ weights


@group("a rotation or reflection, and a shift", "similarity affine")
def rigid(s: PairStats) -> tuple[Array, Array]:
    """Orthogonal Procrustes: W = UVᵀ of S_xy = UΣVᵀ (Schönemann 1966).

    Between p and q columns the narrower view counts as filled up with zeros, which gives the same
    W; errors are over the target's own columns, which are all that the map returns.
    """
    return s.polar, s.y_mean - s.x_mean @ s.polar


@group("a rotation or reflection, one common scale, and a shift", "affine")
def similarity(s: PairStats) -> tuple[Array, Array]:
    """Procrustes with one scale: tr WᵀS_xy / tr WᵀS_xxW times the rotation W."""
    size = float(np.vdot(s.polar, s.sxx @ s.polar))
    weights = s.polar * (np.vdot(s.polar, s.sxy) / size if size > 0 else 0.0)
    return weights, s.y_mean - s.x_mean @ weights


@group("an invertible linear map", "affine", whitened=True, shift=False)
def linear(s: PairStats) -> tuple[Array, Array]:
    """Least squares without a shift.

    In whitened coordinates S_xx = I, and the fit about the means gains
    m ⊗ e / (1/n + ‖m‖²), with m the source's mean and e what the centred fit lacks in the mean.
    """
    lacking = s.y_mean - s.x_mean @ s.sxy
    if s.constant is not None:
        return s.sxy, lacking
    gain = np.outer(s.x_mean, lacking) / (1 / s.n + s.x_mean @ s.x_mean)
    return s.sxy + gain, np.zeros(len(s.y_mean))


@group("an invertible linear map, and a shift", whitened=True)
def affine(s: PairStats) -> tuple[Array, Array]:
    """Least squares with a shift."""
    return s.sxy, s.y_mean - s.x_mean @ s.sxy
