"""Positive pairs whose latents vary by different amounts: content little, style a lot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from identikit._linalg import Array
from identikit.errors import InputError
from identikit.family import concentration_blocks
from identikit.worlds import _sphere as sphere
from identikit.worlds._mixing import Mixing
from identikit.worlds._world import Assumption, Promise, Sample, World, one_of


@dataclass(frozen=True, eq=False)
class AnisotropicPairs(World):
    """Uniform latents on the sphere, and partners p(z⁺|z) ∝ exp(−½ Σ λ_k (z⁺_k − z_k)²).

    A large λ_k makes a latent content, which a pair shares; a small one makes it style. AnInfoNCE
    finds the latents up to a signed permutation if all λ differ, and up to a rotation within each
    block of equal ones (Rusak et al. 2025; the factor ½ is in their code, but not in their
    formulas).

    Parameters
    ----------
    concentrations : sequence of float
        λ, one per latent, above 0.
    mixing : Mixing, optional
        The map from latents to observations; by default the observations are the latents.
    seed : int
        Not used, since this world has no random parameters; present in all worlds.
    sampler : {"exact", "approximate"}
        How partners are drawn: exactly, or from the authors' projected normal distribution, which
        is an approximation.
    negatives : sequence of float, optional
        Concentrations λ⁻ of hard negatives around z; samples then have `negatives`.

    Examples
    --------
    >>> world = AnisotropicPairs([25.0, 25.0, 3.0, 3.0])
    >>> pairs = world.sample(20_000, seed=0)
    >>> np.round(((pairs.positives - pairs.latents) ** 2).mean(axis=0), 1)
    array([0. , 0. , 0.2, 0.2])
    """

    concentrations: Sequence[float]
    mixing: Mixing | None = None
    seed: int = 0
    sampler: str = "exact"
    negatives: Sequence[float] | None = None

    def __post_init__(self) -> None:
        one_of(self.sampler, sphere.SAMPLERS, "the sampler")
        values = _positive(self.concentrations, "concentrations")
        if len(values) < 2:
            raise InputError("pairs on the sphere need 2 concentrations or more, one per latent")
        self._fits(len(values))
        self._set(concentrations=tuple(map(float, values)))
        if self.negatives is not None:
            hard = _positive(self.negatives, "the concentrations of the negatives")
            if len(hard) != len(values):
                raise InputError(
                    f"there are {len(hard)} concentrations of the negatives for {len(values)} "
                    "latents; give one per latent"
                )
            self._set(negatives=tuple(map(float, hard)))

    @property
    def d(self) -> int:
        """The number of latents."""
        return len(self.concentrations)

    def _draw(self, rows: int, rng: np.random.Generator) -> Sample:
        near = sphere.SAMPLERS[self.sampler]
        z = sphere.uniform(rows, self.d, rng)
        partners = near(z, np.array(self.concentrations), rng)
        hard = None if self.negatives is None else near(z, np.array(self.negatives), rng)
        return Sample(
            z,
            self._seen(z),
            positives=self._seen(partners),
            positive_latents=partners,
            negatives=None if hard is None else self._seen(hard),
        )

    @property
    def effective(self) -> Array:
        """The concentrations of the optimal critic: λ minus those of hard negatives."""
        less = 0.0 if self.negatives is None else np.array(self.negatives)
        return np.asarray(np.array(self.concentrations) - less)

    @property
    def identified(self) -> tuple[Promise, ...]:
        """What theory promises for AnInfoNCE, and for InfoNCE with one temperature."""
        effective = self.effective
        if (effective <= 0).any():
            why = (
                "the hard negatives vary less than the positives, so that effective concentrations "
                "are not all above 0"
            )
            return (Promise("aninfonce", None, why), Promise("infonce", None, why))
        blocks = concentration_blocks(effective)
        one = len(blocks.blocks) == 1
        why = (
            "all concentrations are equal, so that one temperature is enough"
            if one
            else "one temperature cannot represent different concentrations, and latents with "
            "small ones are lost or distorted"
        )
        return (
            Promise("aninfonce", blocks.rung, blocks.sentence),
            Promise("infonce", "rigid" if one else None, why),
        )

    def _assumptions(self, rows: int, seed: int) -> list[Assumption]:  # noqa: ARG002
        least = float(self.effective.min())
        smallest = f"the smallest concentration, minus that of the negatives, is {least:g}"
        exact = self.sampler == "exact"
        partners = (
            "partners are drawn exactly"
            if exact
            else "partners are drawn from a projected normal distribution, which only "
            "approximates the density in the theorem"
        )
        return [
            Assumption("concentrations", least > 0, least, "> 0", smallest),
            Assumption("sampler", exact, float(exact), "exact", partners),
        ]


def _positive(values: Sequence[float], what: str) -> Array:
    array = np.atleast_1d(np.asarray(values, dtype=np.float64))
    bad = np.flatnonzero(~((array > 0) & np.isfinite(array)))
    if array.ndim != 1 or bad.size:
        which = f" (entry {bad[0]} is {array.ravel()[bad[0]]:g})" if bad.size else ""
        raise InputError(f"{what} must be a sequence of finite numbers above 0{which}")
    return array
