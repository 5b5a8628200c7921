"""Non-linear mixings: networks of LeakyReLU layers, and Möbius maps."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from identikit._linalg import Array, random_rotation
from identikit.errors import InputError
from identikit.worlds._mixing import as_rows, whole


class _Square:
    """A mixing with as many observations as latents."""

    d: int

    @property
    def D(self) -> int:  # noqa: N802
        """The number of observations."""
        return self.d


@dataclass(frozen=True, eq=False)
class LeakyReLU(_Square):
    """x = W_L s(… s(W_1 z)), with s the LeakyReLU; no biases.

    The entries of every d × d layer are drawn uniformly from (−1, 1), and its columns are scaled to
    length 1. Of `draws` such layers, the one with the smallest condition number is used, so that
    the map is far from linear and yet keeps all information (Hyvärinen and Morioka 2016; Zimmermann
    et al. 2021).

    Parameters
    ----------
    d : int
        The number of latents and of observations.
    layers : int
        The number of layers.
    seed : int
        Seed for the layers.
    slope : float
        The slope of s below 0.
    draws : int
        How many candidates are drawn for each layer.
    condition : float, optional
        The largest condition number that a layer may have; an error is raised if all draws exceed
        it.

    Examples
    --------
    >>> mixing = LeakyReLU(4, layers=3, seed=0)
    >>> z = np.random.default_rng(0).normal(size=(5, 4))
    >>> np.allclose(mixing.inverse(mixing.forward(z)), z)
    True
    """

    d: int
    layers: int = 3
    seed: int = 0
    slope: float = 0.2
    draws: int = 1000
    condition: float | None = None
    weights: tuple[Array, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        d = whole(self.d, "d")
        if self.layers < 1 or self.draws < 1:
            raise InputError(
                f"layers is {self.layers} and draws is {self.draws}; a mixing needs 1 or more of "
                "each"
            )
        if not 0 < self.slope <= 1:
            raise InputError(f"the slope is {self.slope}; give a number above 0 and up to 1")
        rng = np.random.default_rng(self.seed)
        object.__setattr__(self, "weights", tuple(self._layer(d, rng) for _ in range(self.layers)))

    def _layer(self, d: int, rng: np.random.Generator) -> Array:
        drawn = rng.uniform(-1, 1, size=(self.draws, d, d))
        drawn /= np.linalg.norm(drawn, axis=1, keepdims=True)
        values = np.linalg.svd(drawn, compute_uv=False)
        conditions = values[:, 0] / values[:, -1]
        best = int(conditions.argmin())
        if self.condition is not None and conditions[best] > self.condition:
            raise InputError(
                f"of {self.draws} layers of {d} × {d} none has a condition number of "
                f"{self.condition:g} or less (the best has {conditions[best]:.3g}); allow a larger "
                "one or more draws"
            )
        return np.asarray(drawn[best])

    def forward(self, z: ArrayLike) -> Array:
        """Map latents (rows, d) to observations (rows, d)."""
        x = as_rows(z, self.d, "latents") @ self.weights[0].T
        for weight in self.weights[1:]:
            x = np.where(x > 0, x, self.slope * x) @ weight.T
        return x

    def inverse(self, x: ArrayLike) -> Array:
        """Map observations to latents, inverting layer by layer."""
        z: NDArray[np.floating[Any]] = as_rows(x, self.d, "observations")
        for weight in reversed(self.weights[1:]):
            z = np.linalg.solve(weight, z.T).T
            z = np.where(z > 0, z, z / self.slope)
        return np.asarray(np.linalg.solve(self.weights[0], z.T).T, dtype=np.float64)

    def jacobian(self, z: ArrayLike) -> Array:
        """∂x/∂z at each row, (rows, d, d)."""
        x = as_rows(z, self.d, "latents") @ self.weights[0].T
        product = np.broadcast_to(self.weights[0], (len(x), self.d, self.d)).copy()
        for weight in self.weights[1:]:
            slopes = np.where(x > 0, 1.0, self.slope)
            product = weight @ (slopes[:, :, None] * product)
            x = (slopes * x) @ weight.T
        return product


@dataclass(frozen=True, eq=False)
class Moebius(_Square):
    """x = A (z − a)/‖z − a‖², with A a random rotation and the pole a outside the cube ±½.

    Its Jacobian A (I − 2uuᵀ)/r², u = (z − a)/r and r = ‖z − a‖, has orthogonal columns of equal
    length everywhere, so that the IMA contrast is 0 (Gresele et al. 2021; Reizinger et al. 2022).

    Parameters
    ----------
    d : int
        The number of latents and of observations.
    seed : int
        Seed for A and a; the entries of a are standard normal, conditioned on |a_k| > ½.
    pole : array (d,), optional
        The pole a, in place of a random one.

    Examples
    --------
    >>> world = Moebius(3, seed=0)
    >>> z = np.array([[0.1, -0.2, 0.3]])
    >>> np.allclose(world.inverse(world.forward(z)), z)
    True
    """

    d: int
    seed: int = 0
    pole: Array | None = None
    rotation: Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        d = whole(self.d, "d", 2)
        rng = np.random.default_rng(self.seed)
        object.__setattr__(self, "rotation", random_rotation(d, rng))
        if self.pole is None:
            pole = rng.normal(size=d)
            while (inside := np.abs(pole) <= 0.5).any():
                pole[inside] = rng.normal(size=int(inside.sum()))
        else:
            pole = np.array(self.pole, dtype=np.float64)
            if pole.shape != (d,) or not np.isfinite(pole).all():
                raise InputError(f"the pole is {self.pole!r}; expected {d} finite numbers")
        object.__setattr__(self, "pole", pole)

    def _from_pole(self, z: ArrayLike) -> tuple[Array, Array]:
        """z − a and its squared length; an error at the pole, which has no image."""
        rows = as_rows(z, self.d, "latents") - np.asarray(self.pole)
        squares: Array = np.einsum("ij,ij->i", rows, rows)[:, None]
        if not squares.all():
            row = int(squares[:, 0].argmin())
            raise InputError(
                f"row {row} is the pole of the Möbius map, which is mapped to infinity; leave it "
                "out or move the pole"
            )
        return rows, squares

    def forward(self, z: ArrayLike) -> Array:
        """Map latents (rows, d) to observations (rows, d)."""
        rows, squares = self._from_pole(z)
        return np.asarray(rows / squares @ self.rotation.T)

    def inverse(self, x: ArrayLike) -> Array:
        """Map observations back to latents."""
        rows = as_rows(x, self.d, "observations") @ self.rotation
        squares = np.einsum("ij,ij->i", rows, rows)[:, None]
        if not squares.all():
            raise InputError(
                f"row {int(squares[:, 0].argmin())} of the observations is 0, which would need an "
                "infinitely distant latent; leave it out"
            )
        return np.asarray(self.pole + rows / squares)

    def jacobian(self, z: ArrayLike) -> Array:
        """A (I − 2uuᵀ)/r² at each row, (rows, d, d)."""
        rows, squares = self._from_pole(z)
        outer = rows[:, :, None] * rows[:, None, :] / squares[:, :, None]
        reflected = (np.eye(self.d) - 2 * outer) / squares[:, :, None]
        return np.asarray(self.rotation @ reflected)
