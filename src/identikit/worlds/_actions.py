"""Actions that move some factors of a state, while others go their own way."""

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
    """States of which actions control some factors: s' = s + V_a + σ ε, ε normal.

    The controllable factors are N(0, 1.5²) before an action; it adds its vector V_a. The
    exogenous ones are N(0, 1) before and after, with a correlation that no action changes. The
    log-odds of two actions are linear in the controllable part of s' − s:

        log p(a|s, s') = V_aᵀ (s' − s)/σ² − ‖V_a‖²/(2σ²) + const(s, s')

    So the inverse model of a `learn.ICM`, which is a softmax of a linear map of [φ(s); φ(s')],
    finds the controllable factors up to an affine map on what the V_a − V_0 span, and has no reason
    to keep the exogenous ones (Pathak et al. 2017 built it for that).

    In a sample, `latents` and `observations` are before the action, `positive_latents` and
    `positives` after it; `labels` are the actions.

    Parameters
    ----------
    controllable, exogenous : int
        How many factors of each kind; the controllable ones come first.
    actions : int
        How many; each is as likely.
    mixing : Mixing, optional
        From states to observations; none by default, and the observations are the states.
    seed : int
        Of the V_a, whose entries are `step` times a standard normal number.
    step, noise, correlation : float
        Scale of the V_a; σ; and the correlation of an exogenous factor with itself, one step on.

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
        """All factors."""
        return self.controllable + self.exogenous

    @property
    def blocks(self) -> dict[str, list[int]]:
        """Which factors are of which kind, as `score` takes them."""
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
            Of this world.
        """
        moved = (sample.positive_latents - sample.latents)[:, : self.controllable]
        # The rest of the square, ‖s' − s‖², is the same for all actions.
        logits = (moved @ self.vectors.T - (self.vectors**2).sum(axis=1) / 2) / self.noise**2
        shifted = logits - logits.max(axis=1, keepdims=True)
        logs: Array = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
        return logs

    def floor(self, sample: Sample) -> Floor:
        """The cross-entropy of the true p(a|s, s') on a sample: Bayes's, with its standard error.

        Parameters
        ----------
        sample : Sample
            Of this world; a model is to be compared on the same one.
        """
        logs = self.log_posterior(sample)[np.arange(len(sample.labels)), sample.labels]
        return Floor(-float(logs.mean()), float(logs.std() / len(logs) ** 0.5))

    @property
    def identified(self) -> tuple[Promise, ...]:
        """What theory promises inverse dynamics: of the controllable factors, and of the others."""
        found = variability(self.vectors)
        full = found.rank == found.needed
        why = (
            "the log-odds of actions are linear in the change of the controllable factors, and "
            f"{found.sentence}"
        )
        other = "no action changes the exogenous factors, so that none of the loss depends on them"
        promises = [Promise("inverse dynamics, controllable", "affine" if full else None, why)]
        if self.exogenous:
            promises.append(Promise("inverse dynamics, exogenous", None, other))
        return tuple(promises)

    def _assumptions(self, rows: int, seed: int) -> list[Assumption]:  # noqa: ARG002
        found = variability(self.vectors)
        full = found.rank == found.needed
        return [Assumption("diversity", full, found.rank, f"{found.needed}", found.sentence)]
