"""Copies of a gymnasium environment that step together."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from identikit.errors import InputError, require

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

    Attributes
    ----------
    successors : Tensor
        The observations after the actions, also where an episode ended.
    rewards : Tensor
        The environment's rewards.
    dones, cut : Tensor of bool
        Whether an episode ended; and whether it ended only because of a time limit.
    """

    successors: Tensor
    rewards: Tensor
    dones: Tensor
    cut: Tensor


class Copies:
    """Copies of an environment; where an episode ends, the next begins in the same step.

    `make` is a gymnasium id or a function that makes an environment. Different seeds never share
    an episode.

    Attributes
    ----------
    observations : Tensor
        The current observations, which the next actions respond to.
    actions : int
        The number of actions.
    ended : list of (score, length)
        The finished episodes; a score is the sum of rewards.
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
