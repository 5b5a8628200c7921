"""Sources whose scales differ between environments, or, equivalently, a mixing that scales them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike

from identikit._linalg import Array
from identikit.errors import InputError
from identikit.family import variability
from identikit.worlds._lti import tied_variances
from identikit.worlds._mixing import Linear, Mixing, whole
from identikit.worlds._world import Assumption, Promise, Sample, World, one_of, same_in_each

PLACES = ("sources", "mixing")
LAWS = ("laplace", "gaussian")


@dataclass(frozen=True, eq=False)
class EnvironmentSources(World):
    """x = f(λ_e ∘ n) with independent n_k: the data of time-contrastive learning.

    The scales λ_e of an environment can belong to the sources s = λ_e ∘ n, whose distribution
    changes while the mixing f is fixed (Hyvärinen and Morioka 2016), or to the mixing f ∘ diag(λ_e)
    while the distribution of the sources n is fixed. Both views give exactly the same observations,
    so that a theorem on one is a theorem on the other (the duality of Reizinger et al. 2025).

    A sample has equally many rows of each environment, one environment after the other.

    Parameters
    ----------
    mixing : Mixing
        The map f; its `d` is the number of sources.
    environments : int
        The number of environments; d + 1 or more identify d sources.
    seed : int
        Seed for the scales, which are log-uniform from 1/e to e.
    where : {"sources", "mixing"}
        What the environment acts on; `latents` are s for "sources", and n for "mixing".
    law : {"laplace", "gaussian"}
        The distribution of n_k, with scale or standard deviation 1.
    scales : array (environments, d), optional
        The scales, in place of random ones.

    Examples
    --------
    >>> from identikit.worlds import Linear
    >>> f = Linear.with_contrast(2, 1.0)
    >>> one, other = (EnvironmentSources(f, 3, where=w).sample(600) for w in ("sources", "mixing"))
    >>> np.array_equal(one.observations, other.observations)
    True
    """

    mixing: Mixing
    environments: int
    seed: int = 0
    where: str = field(default="sources", kw_only=True)
    law: str = field(default="laplace", kw_only=True)
    scales: ArrayLike | None = field(default=None, kw_only=True)
    _scales: Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        one_of(self.where, PLACES, "the place of the environment")
        one_of(self.law, LAWS, "the law of the sources")
        shape = whole(self.environments, "environments"), self.d
        scales = np.exp(np.random.default_rng(self.seed).uniform(-1, 1, size=shape))
        if self.scales is not None:
            scales = np.asarray(self.scales, dtype=np.float64)
            if scales.shape != shape or not ((scales > 0) & np.isfinite(scales)).all():
                raise InputError(
                    f"the scales have the shape {scales.shape}; expected {shape[0]} rows, one per "
                    f"environment, of {shape[1]} numbers above 0"
                )
        self._set(_scales=scales)

    @property
    def d(self) -> int:
        """The number of sources."""
        return self.mixing.d

    @property
    def parameters(self) -> Array:
        """Natural parameters of each environment: −1/λ of |s|, or −1/(2λ²) of s²."""
        return np.asarray(-1 / self._scales if self.law == "laplace" else -0.5 / self._scales**2)

    def _draw(self, rows: int, rng: np.random.Generator) -> Sample:
        each = same_in_each(
            rows, self.environments, f"all {self.environments} environments have equally many rows"
        )
        shape = rows, self.d
        n = rng.laplace(size=shape) if self.law == "laplace" else rng.standard_normal(shape)
        labels = np.repeat(np.arange(self.environments), each)
        s = self._scales[labels] * n
        latents = s if self.where == "sources" else n
        return Sample(latents, self.mixing.forward(s), environments=labels)

    @property
    def identified(self) -> tuple[Promise, ...]:
        """What a classifier of environments, and `recover.VarianceICA`, may find."""
        return (self._classifier(), self._by_variances())

    def _classifier(self) -> Promise:
        varied = variability(self.parameters)
        if varied.rank < varied.needed:
            return Promise("environment classifier", None, varied.sentence)
        why = (
            "the natural parameters have full rank: the statistics |s| or s² of the sources are "
            "found up to a linear map"
        )
        return Promise("environment classifier", "linear", why)

    def _by_variances(self) -> Promise:
        if not isinstance(self.mixing, Linear):
            return Promise("VarianceICA", None, "the mixing is not linear")
        tied = tied_variances(self._scales**2)
        if not tied:
            why = "no two sources have the same ratio of variances in all environments"
            return Promise("VarianceICA", "monomial", why)
        first, second = tied[0]
        why = f"sources {first} and {second} have the same ratio of variances in all environments"
        return Promise("VarianceICA", "linear", why)

    def _assumptions(self, rows: int, seed: int) -> list[Assumption]:  # noqa: ARG002
        varied = variability(self.parameters)
        return [
            Assumption("variability", varied.ok, varied.rank, f"{varied.needed}", varied.sentence)
        ]

    def _mixed(self, rows: int, seed: int) -> Array:
        rows = max(rows // self.environments, 1) * self.environments
        return np.asarray(replace(self, where="sources").sample(rows, seed).latents)
