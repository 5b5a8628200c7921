"""Cause and effect in many environments: exchangeable pairs with varying or fixed mechanisms."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from identikit._linalg import Array
from identikit.errors import InputError
from identikit.worlds._mixing import whole
from identikit.worlds._world import Assumption, Promise, Sample, World, one_of, same_in_each

STRUCTURES = ("x->y", "y->x", "none")


@dataclass(frozen=True, eq=False)
class ExchangeablePairs(World):
    """Two variables in environments that may differ in the cause, in the mechanism, or in both.

    In an environment the cause is c = N₁ and the effect is a N₁ + b N₂, with N₁ ~ Laplace(θ, 1) and
    N₂ ~ Laplace(ψ, 1), and integers a and b from 1 to 9. In switched environments,
    k (a N₁² + (b − 1) N₂²) is added to the effect. θ belongs to the cause; ψ and the switch belong
    to the mechanism. A parameter that does not vary has the same value in all environments (a delta
    prior). Parameters belong to causal roles, whichever of x and y is the cause. If nothing varies,
    samples are i.i.d., and the direction is not identified (Guo et al. 2023; Reizinger et al.
    2025).

    A sample has `samples` rows of each environment, one environment after the other. Its
    `observations` are x and y; its `latents` are the noise of x and the noise of y.

    Parameters
    ----------
    structure : {"x->y", "y->x", "none"}
        The causal edge; "none" means x = N₁ and y = N₂.
    seed : int
        Seed for a, b, k and for the fixed values of θ and ψ, which are uniform on (−1, 1).
    theta : float
        θ is drawn for every environment, uniformly on ±theta; 0 means that θ is fixed.
    psi : float
        The same for ψ, which shifts the effect: a weak change of the mechanism.
    switch : bool
        Whether a random half of the environments is switched: a strong change of the mechanism.
    samples : int
        The number of samples of each environment, 2 or more.

    Examples
    --------
    >>> cause, mechanism = ExchangeablePairs(theta=5.0), ExchangeablePairs(switch=True)
    >>> cause.varies, mechanism.varies, ExchangeablePairs().varies
    ('cause', 'mechanism', 'neither')
    >>> cause.sample(600, seed=1)
    Sample(600 rows; latents, observations, environments)
    """

    structure: str = "x->y"
    seed: int = 0
    theta: float = field(default=0.0, kw_only=True)
    psi: float = field(default=0.0, kw_only=True)
    switch: bool = field(default=False, kw_only=True)
    samples: int = field(default=2, kw_only=True)
    #: a, b and k.
    coefficients: Array = field(init=False, repr=False)
    #: The values of θ and ψ if they do not vary.
    fixed: Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        one_of(self.structure, STRUCTURES, "the structure")
        for name in ("theta", "psi"):
            if not 0 <= getattr(self, name) < np.inf:
                raise InputError(f"{name} is {getattr(self, name)}; give a spread, 0 or more")
        whole(self.samples, "samples", 2)
        rng = np.random.default_rng(self.seed)
        coefficients = rng.integers(1, 10, size=3).astype(float)
        self._set(coefficients=coefficients, fixed=rng.uniform(-1, 1, size=2))

    @classmethod
    def published(cls, structure: str = "x->y", seed: int = 0) -> ExchangeablePairs:
        """The published set-up: θ and ψ uniform on ±1, and half of the environments switched.

        The paper varies θ, ψ or both, but always includes the switch, which is itself a varying
        mechanism. Without the switch, little of the published accuracy remains.
        """
        return cls(structure, seed, theta=1.0, psi=1.0, switch=True)

    @property
    def varies(self) -> str:
        """What differs between environments: "cause", "mechanism", "both" or "neither"."""
        # Without an edge there is nothing to switch, and ψ belongs to a variable of its own.
        mechanism = self.psi > 0 or (self.switch and self.structure != "none")
        both = {(True, False): "cause", (False, True): "mechanism", (True, True): "both"}
        return both.get((self.theta > 0, mechanism), "neither")

    def parameters(self, environments: int, seed: int | np.random.Generator = 0) -> Array:
        """θ, ψ and the switch (0 or 1) of each environment, in columns, as drawn by `sample`."""
        rng, n = np.random.default_rng(seed), whole(environments, "environments")
        found = np.zeros((n, 3))
        for column, spread in enumerate((self.theta, self.psi)):
            drawn = rng.uniform(-1, 1, size=n)
            found[:, column] = spread * drawn if spread else self.fixed[column]
        found[rng.permutation(n)[: n // 2], 2] = self.switch
        return found

    def _draw(self, rows: int, rng: np.random.Generator) -> Sample:
        environments = same_in_each(
            rows, self.samples, f"an environment has {self.samples} samples"
        )
        labels = np.repeat(np.arange(environments), self.samples)
        parameters = self.parameters(environments, rng)[labels]
        N = parameters[:, :2] + rng.laplace(size=(rows, 2))
        D, (a, b, k) = N.copy(), self.coefficients
        if self.structure != "none":
            D[:, 1] = a * N[:, 0] + b * N[:, 1]
            D[:, 1] += parameters[:, 2] * k * (a * N[:, 0] ** 2 + (b - 1) * N[:, 1] ** 2)
        order = [1, 0] if self.structure == "y->x" else [0, 1]
        return Sample(N[:, order], D[:, order], environments=labels)

    @property
    def identified(self) -> tuple[Promise, ...]:
        """What `recover.causal_direction` can find about the structure."""
        if self.structure == "none":
            why = "x and y are independent in every environment"
        elif self.varies == "neither":
            why = (
                "nothing varies: the samples are i.i.d., and their joint distribution factorises "
                "in both directions"
            )
            return (Promise("causal_direction", None, why),)
        else:
            what = {"cause": "the cause varies", "mechanism": "the mechanism varies"}
            why = what.get(self.varies, "cause and mechanism vary independently")
            why += ": conditional independence holds in one direction only (Reizinger et al.)"
        return (Promise("causal_direction", "identity", why),)

    def _assumptions(self, rows: int, seed: int) -> list[Assumption]:
        """Something varies, and fixed parameters do not vary at all."""
        found = self.parameters(max(rows // self.samples, 2), seed)
        varying = found.max(axis=0) > found.min(axis=0)
        wanted = np.array([self.theta > 0, self.psi > 0, self.switch])
        left = float(np.ptp(found[:, ~wanted], axis=0).max(initial=0.0))
        says = (
            f"{self.varies} of cause and mechanism varies between environments"
            if self.varies in ("both", "neither")
            else f"the {self.varies} varies between environments"
        )
        strict = f"parameters that are fixed differ by {left:g} between environments"
        return [
            Assumption("variability", self.varies != "neither", float(varying.sum()), "≥ 1", says),
            Assumption("strict", left == 0, left, "0", strict),
        ]
