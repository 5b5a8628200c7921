"""How far a step goes: the optimiser, learning rates over time and by parameter, cut gradients."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from identikit.errors import InputError

#: A factor on the learning rate, of the share of the steps after the warm-up that are done.
SCHEDULES: dict[str, Callable[[float], float]] = {
    "constant": lambda _: 1.0,
    "cosine": lambda done: (1 + math.cos(math.pi * done)) / 2,
    "linear": lambda done: 1 - done,
    "step": lambda done: 1.0 if done < 0.7 else 0.1,
}

#: What each optimiser keeps of every parameter, by the name that torch gives it.
OPTIMIZERS = {"adam": ("exp_avg", "exp_avg_sq"), "sgd": ("momentum_buffer",)}


@dataclass(frozen=True)
class Descent:
    """The settings of the optimiser; a step's rates depend on nothing but its number.

    Parameters
    ----------
    steps : int
        Of the whole training.
    lr, weight_decay : float
        Learning rate, and weight decay.
    schedule : str
        One of `SCHEDULES`.
    warmup : int
        Steps in which the rate rises to `lr`.
    rates : tuple of (str, float)
        A factor on the rate of the parameters whose names begin so; the longest beginning counts.
    clip : float, optional
        The largest norm of a seed's gradient.
    optimizer : str
        One of `OPTIMIZERS`.
    momentum : float
        Of SGD.
    """

    steps: int
    lr: float = 1e-3
    weight_decay: float = 0.0
    schedule: str = "constant"
    warmup: int = 0
    rates: tuple[tuple[str, float], ...] = ()
    clip: float | None = None
    optimizer: str = "adam"
    momentum: float = 0.0

    def check(self, names: Sequence[str]) -> None:
        """Raise unless these settings make sense for parameters of these names."""
        if not 0 < self.lr < math.inf:
            raise InputError(f"the learning rate is {self.lr}; it must be positive")
        if self.schedule not in SCHEDULES:
            raise InputError(
                f"there is no schedule {self.schedule!r}; choose one of {', '.join(SCHEDULES)}"
            )
        if not 0 <= self.warmup < self.steps:
            raise InputError(
                f"a warm-up of {self.warmup} steps does not fit a training of {self.steps}; choose "
                f"from 0 to {self.steps - 1}"
            )
        for prefix, factor in self.rates:
            if not any(name.startswith(prefix) for name in names):
                raise InputError(
                    f"rates has {prefix!r}, but no parameter's name begins so; there are "
                    f"{', '.join(names)}"
                )
            if not 0 < factor < math.inf:
                raise InputError(
                    f"the factor on the learning rate of {prefix!r} is {factor}; it must be "
                    "positive"
                )
        if self.clip is not None and not self.clip > 0:
            raise InputError(
                f"gradients cannot be cut to a norm of {self.clip}; give a positive one"
            )
        if self.optimizer not in OPTIMIZERS:
            raise InputError(
                f"there is no optimizer {self.optimizer!r}; choose one of {', '.join(OPTIMIZERS)}"
            )
        if not 0 <= self.momentum < 1 or (self.momentum > 0 and self.optimizer != "sgd"):
            raise InputError(
                f"a momentum of {self.momentum} does not fit optimizer={self.optimizer!r}; give "
                "one from 0 to below 1, and only to sgd"
            )

    def rate(self, step: int) -> float:
        """The learning rate of a step, counted from 0."""
        if step < self.warmup:
            return self.lr * (step + 1) / (self.warmup + 1)
        done = (step - self.warmup) / (self.steps - self.warmup)
        return self.lr * SCHEDULES[self.schedule](done)

    def factor(self, name: str) -> float:
        """What the rate of a parameter is multiplied by."""
        fitting = [prefix for prefix, _ in self.rates if name.startswith(prefix)]
        return dict(self.rates)[max(fitting, key=len)] if fitting else 1.0

    def start(self, parameters: Mapping[str, Tensor]) -> torch.optim.Optimizer:
        """The optimiser of these parameters, with all that it keeps of them there from the start.

        Parameters
        ----------
        parameters : mapping of str to Tensor
            By name.
        """
        factors = {name: self.factor(name) for name in parameters}
        groups = [
            {"params": [parameters[name] for name in factors if factors[name] == factor]}
            | {"factor": factor}
            for factor in sorted(set(factors.values()))
        ]
        # One fused kernel for all tensors of a rate.
        common: dict[str, Any] = {"lr": self.lr, "weight_decay": self.weight_decay, "fused": True}
        optimizer: torch.optim.Optimizer
        if self.optimizer == "sgd":
            nesterov = self.momentum > 0
            optimizer = torch.optim.SGD(groups, momentum=self.momentum, nesterov=nesterov, **common)
        else:
            # With no weight decay, AdamW is Adam.
            optimizer = torch.optim.AdamW(groups, **common)
        for tensor in parameters.values():
            state = {key: torch.zeros_like(tensor) for key in OPTIMIZERS[self.optimizer]}
            if self.optimizer == "adam":
                state["step"] = torch.zeros(())
            optimizer.state[tensor] = state
        return optimizer


def clip_by_seed(gradients: Sequence[Tensor], largest: float) -> None:
    """Scale the gradient of each seed, the first axis, down to a norm of at most `largest`."""
    rows = [gradient.reshape(len(gradient), -1) for gradient in gradients]
    norms = torch.stack([torch.linalg.vector_norm(row, dim=1) for row in rows])
    norm = torch.linalg.vector_norm(norms, dim=0)
    # As `torch.nn.utils.clip_grad_norm_` has it.
    scale = (largest / (norm + 1e-6)).clamp(max=1.0)
    for gradient in gradients:
        gradient.mul_(scale.view(-1, *[1] * (gradient.dim() - 1)))
