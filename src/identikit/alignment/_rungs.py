"""The rungs of the ladder, and how the best map of each is fitted by least squares.

identity < permutation < monomial < rigid < similarity < linear < affine. Maps are ``y ≈ x W + b``.
A new rung is one function under ``@rung``, at its place in the order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from identikit._linalg import Array, inverse_or_zero
from identikit.alignment._stats import PairStats

Fit = Callable[[PairStats], tuple[Array, Array]]


@dataclass(frozen=True)
class Rung:
    """A rung: a group of maps, how the best one is fitted, and what to call it.

    Parameters
    ----------
    name : str
    fit : callable
        Takes a PairStats and returns (W, b).
    up_to, meaning : str
        How to complete "The views are the same …", and a sentence that explains it.
    inside, contains : tuple of str
        Looser rungs that contain the maps of this one, and stricter rungs whose maps this one
        contains; naming the nearest is enough. (The ladder is ordered by strictness, not by
        inclusion: a map with a scale per axis is no rotation, and a linear map has no shift.)
    of_axes : bool
        Whether its maps take single axes to single axes. There are no such maps between views of
        different widths, nor between views that were reduced and so have lost their own axes.
    keeps_scale : bool
        Whether its maps preserve distances, so that the inverse is the transpose.
    keeps_shape : bool
        Whether its maps multiply all distances by the same factor, if widths are equal.
    whitened : bool
        Whether `fit` needs the source in whitened coordinates; a ridge is then used if rows are
        few.
    shift : bool
        Whether its maps have a shift that can move the mean anywhere.
    """

    name: str
    fit: Fit
    up_to: str
    meaning: str
    inside: tuple[str, ...] = ()
    contains: tuple[str, ...] = ()
    of_axes: bool = False
    keeps_scale: bool = False
    keeps_shape: bool = False
    whitened: bool = False
    shift: bool = True

    @property
    def looser(self) -> tuple[str, ...]:
        """Every rung that contains this one, strictest first."""
        found = {self.name}
        while more := {
            name
            for name, other in RUNGS.items()
            if name not in found
            and (found & set(other.contains) or any(name in RUNGS[each].inside for each in found))
        }:
            found |= more
        return tuple(name for name in RUNGS if name in found and name != self.name)


#: All rungs by name, from the strictest to the loosest.
RUNGS: dict[str, Rung] = {}


def rung(
    up_to: str, meaning: str, *, inside: str = "", contains: str = "", **properties: bool
) -> Callable[[Fit], Fit]:
    """Add a rung with this fit to the loose end of the ladder; the arguments are those of `Rung`.

    `inside` and `contains` are names of rungs separated by spaces.
    """

    def register(fit: Fit) -> Fit:
        name = fit.__name__
        above, below = tuple(inside.split()), tuple(contains.split())
        RUNGS[name] = Rung(name, fit, up_to, meaning, above, below, **properties)
        return fit

    return register


def axis_free() -> tuple[str, ...]:
    """The rungs whose maps do not take single axes to single axes."""
    return tuple(name for name, each in RUNGS.items() if not each.of_axes)


def join(first: str, second: str) -> str:
    """The strictest rung that contains two given rungs, and so the products of their maps."""
    both = [{name, *RUNGS[name].looser} for name in (first, second)]
    return next(name for name in RUNGS if name in both[0] & both[1])


def counts_as(name: str, required: str) -> bool:
    """Whether every map of a rung also belongs to the required one.

    Where linear is required, stricter rungs count although their maps may have a shift.

    >>> [counts_as(name, "rigid") for name in ("permutation", "monomial", "linear")]
    [True, False, False]
    """
    if name not in RUNGS:
        return False
    return required in (name, *RUNGS[name].looser) or (required == "linear" and name != "affine")


@rung(
    "coordinate by coordinate",
    "No map is needed: every coordinate of one view equals that coordinate of the other.",
    inside="permutation linear",
    of_axes=True,
    keeps_scale=True,
    shift=False,
)
def identity(s: PairStats) -> tuple[Array, Array]:
    """y = x."""
    return np.eye(len(s.x_mean)), np.zeros(len(s.y_mean))


@rung(
    "up to the order and the signs of their axes",
    "The axes are the same, but may be listed in another order, flipped, and shifted.",
    inside="monomial rigid",
    of_axes=True,
    keeps_scale=True,
)
def permutation(s: PairStats) -> tuple[Array, Array]:
    """Signed permutation and shift: the assignment with the largest Σ |S_xy|."""
    weights = s.matching
    return weights, s.y_mean - s.x_mean @ weights


@rung(
    "up to the order, the signs and the scales of their axes",
    "As permutation, and every axis may have its own unit of measurement.",
    inside="affine",
    of_axes=True,
)
def monomial(s: PairStats) -> tuple[Array, Array]:
    """One source axis and one factor per target axis, assigned to maximise Σ S_xy²/S_xx."""
    from scipy.optimize import linear_sum_assignment

    slopes = s.sxy * inverse_or_zero(np.diagonal(s.sxx).copy())[:, None]
    rows, columns = linear_sum_assignment(-s.sxy * slopes)
    weights = np.zeros_like(s.sxy)
    weights[rows, columns] = slopes[rows, columns]
    return weights, s.y_mean - s.x_mean @ weights


@rung(
    "up to a rotation or reflection",
    "The shape of the point cloud is the same: distances and angles agree, axes need not.",
    inside="similarity",
    keeps_scale=True,
    keeps_shape=True,
)
def rigid(s: PairStats) -> tuple[Array, Array]:
    """Orthogonal Procrustes: W = UVᵀ of S_xy = UΣVᵀ (Schönemann 1966).

    For views of different widths this is the same W as if the narrower view were padded with zeros;
    errors are over the target's own columns, which are all that the map returns.
    """
    return s.polar, s.y_mean - s.x_mean @ s.polar


@rung(
    "up to a rotation or reflection and one overall scale",
    "As rigid, and one view may be a magnified copy: ratios of distances agree.",
    inside="affine",
    keeps_shape=True,
)
def similarity(s: PairStats) -> tuple[Array, Array]:
    """Procrustes with one scale: tr WᵀS_xy / tr WᵀS_xxW times the rotation W."""
    size = (s.scaled if s.rotates else s.fitted)(s.polar)
    weights = s.polar * (np.vdot(s.polar, s.sxy) / size if size > 0 else 0.0)
    return weights, s.y_mean - s.x_mean @ weights


@rung(
    "up to an invertible linear map",
    "The same information, linearly readable, but mixed and stretched: distances and angles may "
    "differ. The origin stays where it is.",
    inside="affine",
    whitened=True,
    shift=False,
)
def linear(s: PairStats) -> tuple[Array, Array]:
    """Least squares without a shift.

    In whitened coordinates S_xx = I, and the solution is that of the centred fit plus
    m ⊗ e / (1/n + ‖m‖²), where m is the source's mean and e the centred fit's error at the mean.
    """
    lacking = s.y_mean - s.x_mean @ s.sxy
    if s.constant is not None:
        return s.sxy, lacking
    gain = np.outer(s.x_mean, lacking) / (1 / s.n + s.x_mean @ s.x_mean)
    return s.sxy + gain, np.zeros(len(s.y_mean))


@rung(
    "up to an invertible linear map and a shift",
    "As linear, and the origin may move.",
    whitened=True,
)
def affine(s: PairStats) -> tuple[Array, Array]:
    """Least squares with a shift."""
    return s.sxy, s.y_mean - s.x_mean @ s.sxy
