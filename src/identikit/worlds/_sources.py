"""Independent sources through a mixing: the world of ICA and independent mechanism analysis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from identikit._linalg import Array
from identikit.errors import InputError
from identikit.recover import ima_contrast
from identikit.worlds._mixing import Chain, Linear, Mixing
from identikit.worlds._nonlinear import Moebius
from identikit.worlds._world import Assumption, Promise, Sample, World, one_of

LAWS = ("uniform", "beta", "gaussian")
#: Columns count as orthogonal if the mean local contrast of the mixing is below this.
NO_CONTRAST = 1e-6


@dataclass(frozen=True, eq=False)
class Sources(World):
    """Independent sources z_k of one family of distributions, seen through a mixing.

    Parameters
    ----------
    law : {"uniform", "beta", "gaussian"}
        Uniform on (−½, ½), Beta(a_k, b_k) − ½, or standard normal.
    mixing : Mixing
        The map from sources to observations; its `d` is the number of sources.
    seed : int
        Seed for the parameters of beta distributions, a_k and b_k uniform on (2, 15).
    shapes : sequence of (float, float), optional
        The parameters (a_k, b_k), one pair per source, in place of random ones.

    Examples
    --------
    >>> from identikit.worlds import Moebius
    >>> world = Sources("uniform", Moebius(3, seed=0))
    >>> world.sample(1000, seed=0).observations.shape, world.identified[0].rung
    ((1000, 3), 'permutation')
    """

    law: str
    mixing: Mixing
    seed: int = 0
    shapes: Sequence[tuple[float, float]] | None = None
    _shapes: Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        one_of(self.law, LAWS, "the law of the sources")
        shapes = np.random.default_rng(self.seed).uniform(2, 15, size=(self.d, 2))
        if self.shapes is not None:
            if self.law != "beta":
                raise InputError(f"shapes are for beta sources, but these are {self.law}")
            shapes = np.asarray(self.shapes, dtype=np.float64)
            if shapes.shape != (self.d, 2) or not ((shapes > 0) & np.isfinite(shapes)).all():
                raise InputError(
                    f"the shapes of {self.d} beta sources must be {self.d} pairs of numbers above 0"
                )
        self._set(_shapes=shapes)
        self._check_pole()

    def _check_pole(self) -> None:
        """If the first map is a Möbius map, no source may lie at its pole."""
        first = self.mixing
        while isinstance(first, Chain):
            first = first.first
        if not isinstance(first, Moebius):
            return
        assert first.pole is not None
        if self.law == "gaussian":
            where = "anywhere, and so at the pole of the Möbius map"
        elif (np.abs(first.pole) <= 0.5).all():
            where = "at the pole of the Möbius map, which is inside the cube ±½"
        else:
            return
        raise InputError(
            f"{self.law} sources may lie {where}; take a bounded law and a pole outside of it"
        )

    @property
    def d(self) -> int:
        """The number of sources."""
        return self.mixing.d

    def _draw(self, rows: int, rng: np.random.Generator) -> Sample:
        shape = rows, self.d
        if self.law == "gaussian":
            z = rng.standard_normal(shape)
        elif self.law == "beta":
            z = rng.beta(self._shapes[:, 0], self._shapes[:, 1], size=shape) - 0.5
        else:
            z = rng.random(shape) - 0.5
        return Sample(z, self.mixing.forward(z))

    def contrast(self, rows: int = 2000, seed: int = 0) -> float:
        """C_IMA of the mixing: the mean over sources of the local contrast of its Jacobian."""
        z = self.sample(rows, seed).latents
        return float(ima_contrast(self.mixing.jacobian(z)).mean())

    @property
    def identified(self) -> tuple[Promise, ...]:
        """What an IMA-VAE with the right prior, and linear ICA, can find."""
        return (self._vae(), self._ica())

    def _vae(self) -> Promise:
        contrast = self.contrast()
        if contrast > NO_CONTRAST:
            why = (
                f"the columns of the mixing's Jacobian are not orthogonal (C_IMA {contrast:.3g}), "
                "so that the inductive bias of a VAE is wrong"
            )
            return Promise("ima-vae", None, why)
        if self.law == "gaussian":
            why = "Gaussian sources look the same after any rotation"
            return Promise("ima-vae", "rigid", why)
        why = (
            "orthogonal columns and sources of a known, non-Gaussian law: an inductive bias, and "
            "a theorem for conformal maps only"
        )
        return Promise("ima-vae", "permutation", why)

    def _ica(self) -> Promise:
        if not isinstance(self.mixing, Linear):
            return Promise("ica", None, "the mixing is not linear")
        if self.law == "gaussian":
            why = "linear ICA cannot find the axes of Gaussian sources: any rotation fits as well"
            return Promise("ica", "linear", why)
        why = (
            "independent, non-Gaussian sources through a linear map (Comon 1994), with free scales"
        )
        return Promise("ica", "monomial", why)

    def _assumptions(self, rows: int, seed: int) -> list[Assumption]:
        free = self.law != "gaussian"
        contrast = self.contrast(rows, seed)
        law = f"the sources are {self.law}"
        law += "" if free else ", and identified up to a rotation at best"
        says, limit = (
            f"the mean local contrast of the mixing is {contrast:.3g}",
            f"≤ {NO_CONTRAST:g}",
        )
        limit = f"≤ {NO_CONTRAST:g}"
        return [
            Assumption("law", free, float(free), "not gaussian", law),
            Assumption("independent mechanisms", contrast <= NO_CONTRAST, contrast, limit, says),
        ]
