"""Copies of a gymnasium environment that step together, and what happened in them."""

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
    """A gymnasium environment by its id, Atari's among them (extra `rl`).

    Parameters
    ----------
    name : str
        Such as "CartPole-v1" or "PongNoFrameskip-v4".
    **options
        For `gymnasium.make`.
    """
    gymnasium = require("gymnasium", "rl", "An environment")
    if find_spec("ale_py") is not None:
        import_module("ale_py")  # importing it registers Atari's ids
    try:
        return gymnasium.make(name, **options)
    except (gymnasium.error.Error, ImportError) as error:
        raise InputError(
            f"there is no environment {name!r} here ({' '.join(str(error).split())}); "
            f"gymnasium.envs.registry lists those that there are, and {PIP} brings Atari's"
        ) from error


class Step(NamedTuple):
    """What one step of all copies gave; all tensors have a row a copy.

    Attributes
    ----------
    successors : Tensor
        What the actions led to, also where an episode ended there.
    rewards : Tensor
        As the environment gives them.
    dones, cut : Tensor of bool
        Whether an episode ended; and if so, whether for want of time only.
    """

    successors: Tensor
    rewards: Tensor
    dones: Tensor
    cut: Tensor


class Copies:
    """Copies of an environment; where an episode ends, the next begins in the same step.

    Parameters
    ----------
    make : str or callable
        An id, or what makes an environment.
    number : int
        How many.
    seed : int
        No two seeds share an episode.

    Attributes
    ----------
    observations : Tensor
        What the next actions answer.
    actions : int
        How many there are.
    ended : list of (score, length)
        Of the episodes that are over, a score being the sum of rewards.
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
            # What comes back is the next episode's first observation; the last one is beside it.
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
        """Let the environments go."""
        self._copies.close()


def _tensor(array: Any) -> Tensor:
    return torch.as_tensor(array, dtype=torch.float32)
