"""Möbius maps, which are conformal (so the IMA contrast is 0) and far from linear."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from identikit._linalg import Array, random_rotation
from identikit.errors import InputError
from identikit.worlds._mixing import as_rows, whole


@dataclass(frozen=True, eq=False)
class Moebius:
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

    @property
    def D(self) -> int:  # noqa: N802
        """The number of observations."""
        return self.d

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
