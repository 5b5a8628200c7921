"""Advantage actor-critic on copies of a gymnasium environment."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from identikit._progress import Progress
from identikit.errors import InputError, require
from identikit.learn._agent import ICM, ActorCritic, State
from identikit.learn._batches import mix, seeded

__all__ = ["A2CRun", "a2c", "environment", "n_step_returns"]

PIP = "pip install 'identikit[rl]'"


def environment(name: str, **options: Any) -> Any:
    """Make a gymnasium environment from its id, including Atari's (extra `rl`).

    Parameters
    ----------
    name : str
        An id such as "CartPole-v1" or "PongNoFrameskip-v4".
    **options
        Arguments of `gymnasium.make`.
    """
    gymnasium = require("gymnasium", "rl", "An environment")
    if find_spec("ale_py") is not None:
        import_module("ale_py")  # importing it registers Atari's ids
    try:
        return gymnasium.make(name, **options)
    except (gymnasium.error.Error, ImportError) as error:
        raise InputError(
            f"there is no environment {name!r} here ({' '.join(str(error).split())}); "
            f"gymnasium.envs.registry lists those that are known, and {PIP} adds Atari's"
        ) from error


class Step(NamedTuple):
    """The result of one step in all copies; every tensor has one row per copy.

    `successors` are the observations after the actions, also where an episode ended; `cut` says
    whether it ended only because of a time limit.
    """

    successors: Tensor
    rewards: Tensor
    dones: Tensor
    cut: Tensor


class Copies:
    """Copies of an environment; where an episode ends, the next begins in the same step.

    `make` is a gymnasium id or a function that makes an environment. Different seeds never share
    an episode. `ended` has the score, the sum of rewards, and the length of finished episodes.
    """

    def __init__(self, make: str | Callable[[], Any], number: int, seed: int) -> None:
        gymnasium = require("gymnasium", "rl", "Learning in environments")
        vector, mode = gymnasium.vector, gymnasium.vector.AutoresetMode.SAME_STEP
        one = partial(environment, make) if isinstance(make, str) else make
        self._copies = vector.SyncVectorEnv([one] * number, autoreset_mode=mode)
        space = self._copies.single_action_space
        if not isinstance(space, gymnasium.spaces.Discrete) or space.start != 0:
            self._copies.close()
            raise InputError(f"the actions are {space}; expected Discrete(n), counted from 0")
        self.actions = int(space.n)
        first = self._copies.reset(seed=list(range(seed * number, (seed + 1) * number)))[0]
        self.observations = _tensor(first)
        self._scores, self._lengths = np.zeros(number), np.zeros(number, dtype=int)
        self.ended: list[tuple[float, int]] = []

    def step(self, actions: Tensor) -> Step:
        """Take an action in each copy."""
        seen, rewards, terminated, truncated, more = self._copies.step(actions.numpy())
        dones = terminated | truncated
        successors = seen
        if dones.any():
            # `seen` has the next episode's first observation; the last one is in `final_obs`.
            successors = seen.copy()
            successors[dones] = np.stack(more["final_obs"][dones].tolist())
        self._scores += rewards
        self._lengths += 1
        self.ended += zip(self._scores[dones].tolist(), self._lengths[dones].tolist())
        self._scores[dones], self._lengths[dones] = 0.0, 0
        self.observations = _tensor(seen)
        return Step(
            _tensor(successors),
            _tensor(rewards),
            torch.from_numpy(dones),
            torch.from_numpy(truncated & ~terminated),
        )

    def close(self) -> None:
        """Close the environments."""
        self._copies.close()


def _tensor(array: Any) -> Tensor:
    return torch.as_tensor(array, dtype=torch.float32)


#: The number of updates between two progress reports.
EVERY = 100


@dataclass(frozen=True, eq=False)
class A2CRun:
    """A trained actor-critic.

    Attributes
    ----------
    net : ActorCritic
        The network after the last update.
    icm : ICM or None
        The curiosity module, if there was one.
    history : DataFrame
        One row per update: `feature_std` (over all entries of h in the rollout), `value_loss`,
        `entropy`, and with curiosity `inverse`, `forward` and `intrinsic` (the mean reward).
    episodes : DataFrame
        One row per finished episode: `update`, `score` (the sum of the environment's rewards,
        unscaled and without intrinsic rewards) and `length`.
    """

    net: ActorCritic = field(repr=False)
    icm: ICM | None = field(repr=False)
    history: pd.DataFrame = field(repr=False)
    episodes: pd.DataFrame = field(repr=False)


class Rollout(NamedTuple):
    """Several steps in all copies of an environment: tensors (steps, copies, ...)."""

    observations: Tensor
    actions: Tensor
    #: The observation after each action, also where it ended an episode.
    successors: Tensor
    rewards: Tensor
    dones: Tensor
    log_prob: Tensor
    entropy: Tensor
    values: Tensor
    features: Tensor


def n_step_returns(rewards: Tensor, dones: Tensor, last_value: Tensor, gamma: float) -> Tensor:
    """R_t = r_t + γ R_{t+1}, with 0 in place of R_{t+1} where an episode ended at t.

    Parameters
    ----------
    rewards, dones : Tensor (steps, copies)
        r_t, and whether step t ended an episode.
    last_value : Tensor (copies,)
        R after the last step: the critic's value of the state it led to.
    gamma : float
        The discount factor γ.

    Examples
    --------
    >>> rewards, dones = torch.ones(3, 1), torch.tensor([[False], [True], [False]])
    >>> n_step_returns(rewards, dones, torch.tensor([100.0]), 0.5).flatten().tolist()
    [1.5, 1.0, 51.0]
    """
    returns, later = [], last_value
    for reward, done in zip(rewards.flip(0), dones.flip(0)):
        later = reward + gamma * torch.where(done, torch.zeros_like(later), later)
        returns.append(later)
    return torch.stack(returns[::-1])


def a2c(
    environment: str | Callable[[], Any],
    build: Callable[[], ActorCritic],
    updates: int,
    *,
    curiosity: Callable[[], ICM] | None = None,
    copies: int = 8,
    rollout: int = 5,
    seed: int = 0,
    lr: float = 1e-3,
    gamma: float = 0.99,
    entropy: float = 0.02,
    value: float = 0.5,
    policy: float = 1.0,
    clip: float = 0.5,
    reward_scale: float = 1.0,
    progress: Progress | None = None,
) -> A2CRun:
    """Train an actor-critic on n-step advantages: synchronous A2C with Adam (extra `rl`).

    The loss is λ (−log π · A + value · A² − entropy · H), averaged over the rollout, with
    A = R − V. With curiosity, η/2 ‖φ̂ − φ'‖² is added to the rewards and the ICM learns by its own
    loss; the two have separate gradients, so that curiosity acts on the policy only through the
    reward. An episode that is truncated by a time limit has not ended: the critic's value of its
    last state stands in for the rewards that would have followed. The LSTM's state is reset at the
    start of each episode.

    Parameters
    ----------
    environment : str or callable
        A gymnasium id, including Atari's, or a function that makes an environment; its actions must
        be discrete.
    build : callable
        Makes an `ActorCritic`; it is called with PyTorch's generator seeded by `seed`.
    updates : int
        The number of Adam steps, each after one rollout.
    curiosity : callable, optional
        Makes an `ICM`; it is called in the same way.
    copies, rollout : int
        The number of copies of the environment, and of steps in each copy between two updates.
    seed : int
        Seeds networks, environments and actions: the same seed gives the same numbers.
    lr, gamma, entropy, value, clip : float
        Learning rate, discount, weights of the policy's entropy H and of A², and the largest norm
        of a gradient.
    policy : float
        λ (0.1 in Pathak et al. 2017).
    reward_scale : float
        The factor by which the environment's rewards are multiplied before learning.
    progress : callable, optional
        Called with (what is being done, done, of how many).

    Examples
    --------
    >>> def build():
    ...     return ActorCritic(nn.Linear(4, 8), features=8, actions=2)
    >>> run = a2c("CartPole-v1", build, updates=20)
    >>> len(run.history)
    20
    """
    for name, count in {"updates": updates, "copies": copies, "rollout": rollout}.items():
        if count < 1:
            raise InputError(f"{name} is {count}; give a whole number, 1 or more")
    net, icm = seeded(build, seed), None if curiosity is None else seeded(curiosity, seed)
    parts = [list(part.parameters()) for part in (net, icm) if part is not None]
    adam = torch.optim.Adam([{"params": part} for part in parts], lr, fused=True)
    generator = torch.Generator().manual_seed(mix(seed, 0))
    state, history, episodes = net.start(copies), list[Any](), list[Any]()
    with closing(Copies(environment, copies, seed)) as world:
        for update in range(updates):
            found, state = _roll(world, net, state, rollout, gamma, reward_scale, generator)
            rewards, own, line = _curious(icm, found)
            with torch.no_grad():
                last = net(world.observations, state).value
            advantage = n_step_returns(rewards, found.dones, last, gamma) - found.values
            gain = (found.log_prob * advantage.detach()).mean()
            error, spread = (advantage**2).mean(), found.entropy.mean()
            loss = policy * (value * error - gain - entropy * spread) + own
            if not loss.isfinite():
                raise InputError(
                    f"the loss is {loss.item()} at update {update}; try a smaller learning rate "
                    f"than lr={lr:g}, or a smaller reward_scale"
                )
            adam.zero_grad()
            torch.autograd.backward(loss)
            for part in parts:
                nn.utils.clip_grad_norm_(part, clip)
            adam.step()
            line |= {"value_loss": error.item(), "entropy": spread.item()}
            history.append({"update": update, "feature_std": found.features.std().item()} | line)
            episodes += [(update, *each) for each in world.ended[len(episodes) :]]
            if progress is not None and (update + 1) % EVERY == 0:
                progress("updates", update + 1, updates)
    ended = pd.DataFrame(episodes, columns=["update", "score", "length"])
    return A2CRun(net, icm, pd.DataFrame(history), ended)


def _roll(
    world: Copies,
    net: ActorCritic,
    state: State,
    steps: int,
    gamma: float,
    scale: float,
    generator: torch.Generator,
) -> tuple[Rollout, State]:
    """Act for some steps; gradients flow back to the first of them and no further."""
    state = state[0].detach(), state[1].detach()
    lines = []
    for _ in range(steps):
        observations = world.observations
        logits, values, state = net(observations, state)
        logs = logits.log_softmax(-1)
        actions = torch.multinomial(logs.detach().exp(), 1, generator=generator)
        seen = world.step(actions[:, 0])
        rewards = scale * seen.rewards
        if seen.cut.any():
            with torch.no_grad():
                missed = gamma * net(seen.successors, state).value
            rewards = rewards + torch.where(seen.cut, missed, torch.zeros_like(missed))
        lines.append(
            Rollout(
                observations,
                actions[:, 0],
                seen.successors,
                rewards,
                seen.dones,
                logs.gather(1, actions)[:, 0],
                -(logs.exp() * logs).sum(1),
                values,
                state[0],
            )
        )
        h, c = (torch.where(seen.dones[:, None], torch.zeros_like(s), s) for s in state)
        state = h, c
    rollout = Rollout(*(torch.stack(parts) for parts in zip(*lines)))
    return rollout, (state[0].detach(), state[1].detach())


def _curious(icm: ICM | None, found: Rollout) -> tuple[Tensor, Tensor, dict[str, float]]:
    """The rewards including intrinsic ones, the ICM's loss, and its entries in the history."""
    if icm is None:
        return found.rewards, torch.zeros(()), {}
    now, after, action = (
        part.flatten(0, 1) for part in (found.observations, found.successors, found.actions)
    )
    seen = icm(now, after, action)
    intrinsic, (inverse, forward) = icm.reward(seen), icm.losses(seen, action)
    line = {"inverse": inverse.item(), "forward": forward.item()}
    line["intrinsic"] = intrinsic.mean().item()
    rewards = found.rewards + intrinsic.view_as(found.rewards)
    return rewards, icm.loss(seen, action), line
