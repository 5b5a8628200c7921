"""How latents become observations: linear maps, chains, and the interface of any mixing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from identikit._linalg import Array, random_rotation
from identikit.errors import InputError


@runtime_checkable
class Mixing(Protocol):
    """The interface of a world's mixing; a mixing may also have an `inverse`."""

    @property
    def d(self) -> int:
        """The number of latents."""

    @property
    def D(self) -> int:  # noqa: N802
        """The number of observations."""

    def forward(self, z: ArrayLike) -> Array:
        """Map latents (rows, d) to observations (rows, D)."""
        ...

    def jacobian(self, z: ArrayLike) -> Array:
        """∂x/∂z at each row, (rows, D, d)."""
        ...


def as_rows(values: ArrayLike, width: int, what: str) -> Array:
    """Check that values are finite rows of this width, and return them in float64."""
    rows = np.asarray(values, dtype=np.float64)
    if rows.ndim != 2 or rows.shape[1] != width:
        raise InputError(f"{what} have the shape {rows.shape}; expected rows of {width} numbers")
    if not np.isfinite(rows).all():
        row = int(np.flatnonzero(~np.isfinite(rows).all(axis=1))[0])
        raise InputError(f"{what} have NaN or infinity in row {row}; leave such rows out")
    return rows


def whole(value: int, what: str, least: int = 1) -> int:
    """Check that a value is a whole number and large enough."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise InputError(f"{what} is {value!r}; give a whole number, {least} or more")
    return int(value)


@dataclass(frozen=True, eq=False)
class Linear:
    """x = M z, for column vectors z; rows are mapped by Mᵀ.

    Parameters
    ----------
    matrix : array (D, d)
        M, with one column per latent; D ≥ d.

    Examples
    --------
    >>> Linear([[1.0, 1.0], [0.0, 1.0]]).forward([[0.0, 2.0]])
    array([[2., 2.]])
    """

    matrix: Array

    def __post_init__(self) -> None:
        matrix = np.array(self.matrix, dtype=np.float64)
        if matrix.ndim != 2 or matrix.shape[0] < matrix.shape[1] or not matrix.size:
            raise InputError(
                f"the matrix of a linear mixing has the shape {matrix.shape}; expected (D, d) with "
                "at least as many observations D as latents d"
            )
        if not np.isfinite(matrix).all():
            raise InputError("the matrix of a linear mixing contains NaN or infinity")
        object.__setattr__(self, "matrix", matrix)

    @classmethod
    def with_contrast(cls, d: int, contrast: float, seed: int = 0) -> Linear:
        """A random matrix with |det| = 1 whose columns have exactly this IMA contrast.

        If U S Vᵀ is a random Gaussian matrix, U Sᵗ Vᵀ has contrast 0 at t = 0 and reaches every
        other value at some t, since Σ_k log‖column k‖ − log|det| is continuous and unbounded.

        Parameters
        ----------
        d : int
            The number of latents and of observations.
        contrast : float
            C_IMA, 0 or larger.
        seed : int
            Seed for the matrix.
        """
        from scipy.optimize import brentq

        from identikit.recover import ima_contrast

        d = whole(d, "d", 2)
        if not 0 <= contrast < np.inf:
            raise InputError(f"the contrast is {contrast}; give a finite number, 0 or larger")
        left, values, right = np.linalg.svd(np.random.default_rng(seed).normal(size=(d, d)))
        logs = np.log(values) - np.log(values).mean()

        def matrix(t: float) -> Array:
            return np.asarray(left * np.exp(t * logs) @ right)

        if contrast == 0:
            return cls(matrix(0.0))
        high = 1.0
        while ima_contrast(matrix(high)[None])[0] < contrast:
            high *= 2
        t = brentq(lambda t: ima_contrast(matrix(t)[None])[0] - contrast, 0.0, high, xtol=1e-14)
        return cls(matrix(float(t)))

    @property
    def d(self) -> int:
        """The number of latents."""
        return int(self.matrix.shape[1])

    @property
    def D(self) -> int:  # noqa: N802  (the usual symbol in the field)
        """The number of observations."""
        return int(self.matrix.shape[0])

    def forward(self, z: ArrayLike) -> Array:
        """Map latents (rows, d) to observations (rows, D)."""
        return np.asarray(as_rows(z, self.d, "latents") @ self.matrix.T)

    def inverse(self, x: ArrayLike) -> Array:
        """Map observations (rows, D) to latents (rows, d), by least squares."""
        return np.asarray(as_rows(x, self.D, "observations") @ np.linalg.pinv(self.matrix).T)

    def jacobian(self, z: ArrayLike) -> Array:
        """M at every row, (rows, D, d)."""
        rows = len(as_rows(z, self.d, "latents"))
        return np.broadcast_to(self.matrix, (rows, *self.matrix.shape)).copy()


@dataclass(frozen=True, eq=False)
class Orthogonal(Linear):
    """A rotation or reflection, drawn uniformly (Haar).

    Parameters
    ----------
    d : int
        The number of latents and of observations.
    seed : int
        Seed for the rotation.
    """

    matrix: Array = field(init=False)

    def __init__(self, d: int, seed: int = 0) -> None:
        turn = random_rotation(whole(d, "d"), np.random.default_rng(seed))
        object.__setattr__(self, "matrix", turn)


@dataclass(frozen=True, eq=False)
class Chain:
    """One mixing after another.

    Parameters
    ----------
    first, then : Mixing
        The latents are mapped by `first`, and the result by `then`.
    """

    first: Mixing
    then: Mixing

    def __post_init__(self) -> None:
        if self.then.d != self.first.D:
            raise InputError(
                f"the first mixing gives {self.first.D} numbers and the next one takes "
                f"{self.then.d}; in a chain these must be equal"
            )

    @property
    def d(self) -> int:
        """The number of latents."""
        return self.first.d

    @property
    def D(self) -> int:  # noqa: N802
        """The number of observations."""
        return self.then.D

    def forward(self, z: ArrayLike) -> Array:
        """Map latents (rows, d) to observations (rows, D)."""
        return self.then.forward(self.first.forward(z))

    def inverse(self, x: ArrayLike) -> Array:
        """Map observations (rows, D) to latents (rows, d), if both mixings have an inverse."""
        z: Any = x
        for part in (self.then, self.first):
            if not hasattr(part, "inverse"):
                raise InputError(f"{type(part).__name__}, a part of this chain, has no inverse")
            z = part.inverse(z)
        return np.asarray(z)

    def jacobian(self, z: ArrayLike) -> Array:
        """∂x/∂z at each row, (rows, D, d)."""
        between = self.first.forward(z)
        return np.asarray(self.then.jacobian(between) @ self.first.jacobian(z))
