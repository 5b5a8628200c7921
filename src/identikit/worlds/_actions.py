"""Actions that move some factors of a state, while the others evolve on their own."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from identikit._linalg import Array
from identikit.errors import InputError
from identikit.family import Floor, variability
from identikit.worlds._mixing import Mixing, whole
from identikit.worlds._world import Assumption, Promise, Sample, World


@dataclass(frozen=True, eq=False)
class ActionWorld(World):
    """States with some factors that actions control: s' = s + V_a + σ ε, ε normal.

    The controllable factors are N(0, 1.5²) before an action, and action a adds its vector V_a. The
    exogenous factors are N(0, 1) before and after, with a correlation that no action changes. The
    log-odds of two actions are linear in the controllable part of s' − s:

        log p(a|s, s') = V_aᵀ (s' − s)/σ² − ‖V_a‖²/(2σ²) + const(s, s')

    So the inverse model of a `learn.ICM`, which is a softmax of a linear map of [φ(s); φ(s')],
    finds the controllable factors up to an affine map on the span of the V_a − V_0, and has no
    reason to represent the exogenous ones (which is its purpose; Pathak et al. 2017).

    In a sample, `latents` and `observations` are from before the action, `positive_latents` and
    `positives` from after it; `labels` are the actions.

    Parameters
    ----------
    controllable, exogenous : int
        How many factors of each kind there are; the controllable ones come first.
    actions : int
        The number of actions, which are equally likely.
    mixing : Mixing, optional
        The map from states to observations; by default the observations are the states.
    seed : int
        Seed for the V_a, whose entries are `step` times a standard normal number.
    step, noise, correlation : float
        The scale of the V_a; σ; and the correlation of an exogenous factor before and after.

    Examples
    --------
    >>> world = ActionWorld(3, exogenous=3, actions=9)
    >>> sample = world.sample(1000, seed=1)
    >>> sample
    Sample(1,000 rows; latents, observations, labels, positives, positive_latents)
    >>> world.check()["diversity"].value, round(world.floor(sample).value, 1)
    (3, 1.5)
    """

    controllable: int
    exogenous: int = 0
    actions: int = 9
    mixing: Mixing | None = None
    seed: int = 0
    step: float = field(default=0.5, kw_only=True)
    noise: float = field(default=0.5, kw_only=True)
    correlation: float = field(default=0.9, kw_only=True)
    #: V_a, (actions, controllable).
    vectors: Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        c = whole(self.controllable, "controllable")
        whole(self.exogenous, "exogenous", 0)
        whole(self.actions, "actions", 2)
        for name in ("step", "noise"):
            if not 0 < getattr(self, name) < np.inf:
                raise InputError(f"the {name} is {getattr(self, name)}; give a number above 0")
        if not -1 <= self.correlation <= 1:
            raise InputError(f"the correlation is {self.correlation}; give a number from -1 to 1")
        self._fits(self.d)
        drawn = np.random.default_rng(self.seed).standard_normal((self.actions, c))
        self._set(vectors=self.step * drawn)

    @property
    def d(self) -> int:
        """The number of factors."""
        return self.controllable + self.exogenous

    @property
    def blocks(self) -> dict[str, list[int]]:
        """The factors of each kind, in the form that `score` accepts."""
        c = self.controllable
        kinds = {"controllable": list(range(c)), "exogenous": list(range(c, self.d))}
        return {kind: places for kind, places in kinds.items() if places}

    def _draw(self, rows: int, rng: np.random.Generator) -> Sample:
        c, actions = self.controllable, rng.integers(self.actions, size=rows)
        now, noise = rng.standard_normal((2, rows, self.d))
        now[:, :c] *= 1.5
        after = self.correlation * now + np.sqrt(1 - self.correlation**2) * noise
        after[:, :c] = now[:, :c] + self.vectors[actions] + self.noise * noise[:, :c]
        return Sample(
            now,
            self._seen(now),
            labels=actions,
            positives=self._seen(after),
            positive_latents=after,
        )

    def log_posterior(self, sample: Sample) -> Array:
        """log p(a|s, s') of every action, (rows, actions): softmax of −‖s' − s − V_a‖²/(2σ²).

        Parameters
        ----------
        sample : Sample
            A sample of this world.
        """
        from scipy.special import log_softmax

        moved = (sample.positive_latents - sample.latents)[:, : self.controllable]
        # The remaining term ‖s' − s‖² is the same for all actions.
        logits = (moved @ self.vectors.T - (self.vectors**2).sum(axis=1) / 2) / self.noise**2
        return np.asarray(log_softmax(logits, axis=1))

    def floor(self, sample: Sample) -> Floor:
        """The cross-entropy of the true p(a|s, s') on a sample, with its standard error.

        Parameters
        ----------
        sample : Sample
            A sample of this world; compare a model on the same sample.
        """
        logs = self.log_posterior(sample)[np.arange(len(sample.labels)), sample.labels]
        return Floor(-float(logs.mean()), float(logs.std() / len(logs) ** 0.5))

    @property
    def identified(self) -> tuple[Promise, ...]:
        """What theory promises for inverse dynamics, for factors of each kind."""
        found = variability(self.vectors)
        full = found.rank == found.needed
        why = (
            "the log-odds of actions are linear in the change of the controllable factors, and "
            f"{found.sentence}"
        )
        other = "no action changes the exogenous factors, so that the loss does not depend on them"
        promises = [Promise("inverse dynamics, controllable", "affine" if full else None, why)]
        if self.exogenous:
            promises.append(Promise("inverse dynamics, exogenous", None, other))
        return tuple(promises)

    def _assumptions(self, rows: int, seed: int) -> list[Assumption]:  # noqa: ARG002
        found = variability(self.vectors)
        full = found.rank == found.needed
        return [Assumption("diversity", full, found.rank, f"{found.needed}", found.sentence)]
