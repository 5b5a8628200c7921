"""The optimiser: its settings, learning rates over time and by parameter, and gradient clipping."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from identikit.errors import InputError
from identikit.learn._lbfgs import LBFGS

#: The factor on the learning rate, given the share of steps done after the warm-up.
SCHEDULES: dict[str, Callable[[float], float]] = {
    "constant": lambda _: 1.0,
    "cosine": lambda done: (1 + math.cos(math.pi * done)) / 2,
    "linear": lambda done: 1 - done,
    "step": lambda done: 1.0 if done < 0.7 else 0.1,
}

#: The state that each optimiser keeps for every parameter, under torch's names; the history of
#: L-BFGS is of all parameters together, and stored by itself.
OPTIMIZERS: dict[str, tuple[str, ...]] = {
    "adam": ("exp_avg", "exp_avg_sq"),
    "sgd": ("momentum_buffer",),
    "lbfgs": (),
}
#: The learning rate, or for L-BFGS the length of a step that its line search tries first.
RATES = {"adam": 1e-3, "sgd": 1e-3, "lbfgs": 1.0}
#: The largest entry of a gradient at which L-BFGS stops.
TOLERANCE = 1e-7


@dataclass(frozen=True)
class Descent:
    """The settings of the optimiser, as in `train`; a step's rate depends only on its number.

    `rates` has pairs (beginning of a parameter's name, factor on its learning rate), of which the
    longest beginning that fits counts.
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
    tolerance: float | None = None

    @property
    def full_batch(self) -> bool:
        """Whether every step is on the same, whole data."""
        return self.optimizer == "lbfgs"

    def check(self, names: Sequence[str]) -> None:
        """Raise an error unless these settings make sense for parameters of these names."""
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
                    f"rates has {prefix!r}, but no parameter's name begins with it; there are "
                    f"{', '.join(names)}"
                )
            if not 0 < factor < math.inf:
                raise InputError(
                    f"the factor on the learning rate of {prefix!r} is {factor}; it must be "
                    "positive"
                )
        if self.clip is not None and not self.clip > 0:
            raise InputError(
                f"gradients cannot be clipped to a norm of {self.clip}; give a positive one"
            )
        if self.optimizer not in OPTIMIZERS:
            raise InputError(
                f"there is no optimizer {self.optimizer!r}; choose one of {', '.join(OPTIMIZERS)}"
            )
        if not 0 <= self.momentum < 1 or (self.momentum > 0 and self.optimizer != "sgd"):
            raise InputError(
                f"a momentum of {self.momentum} does not fit optimizer={self.optimizer!r}; give "
                "a number from 0 to below 1, and only with sgd"
            )
        if self.full_batch:
            unfit = {"schedule": self.schedule != "constant", "warmup": self.warmup > 0}
            unfit |= {"rates": bool(self.rates), "clip": self.clip is not None}
            if any(unfit.values()):
                raise InputError(
                    f"{', '.join(name for name in unfit if unfit[name])} cannot be used with "
                    "optimizer='lbfgs', whose line search chooses every step; leave it out"
                )
        if self.tolerance is not None and not (self.full_batch and self.tolerance >= 0):
            raise InputError(
                f"a tolerance of {self.tolerance} does not fit optimizer={self.optimizer!r}; give "
                "a number from 0, and only with lbfgs"
            )

    def rate(self, step: int) -> float:
        """The learning rate of a step, counted from 0."""
        if step < self.warmup:
            return self.lr * (step + 1) / (self.warmup + 1)
        done = (step - self.warmup) / (self.steps - self.warmup)
        return self.lr * SCHEDULES[self.schedule](done)

    def factor(self, name: str) -> float:
        """The factor on the learning rate of a parameter."""
        fitting = [prefix for prefix, _ in self.rates if name.startswith(prefix)]
        return dict(self.rates)[max(fitting, key=len)] if fitting else 1.0

    def start(self, parameters: Mapping[str, Tensor]) -> torch.optim.Optimizer:
        """Create the optimiser of these parameters, with its state already allocated."""
        if self.full_batch:
            learnable = [tensor for tensor in parameters.values() if tensor.requires_grad]
            tolerance = TOLERANCE if self.tolerance is None else self.tolerance
            return LBFGS(learnable, self.lr, self.weight_decay, tolerance)
        factors = {name: self.factor(name) for name in parameters}
        groups = [
            {"params": [parameters[name] for name in factors if factors[name] == factor]}
            | {"factor": factor}
            for factor in sorted(set(factors.values()))
        ]
        # One fused kernel for all tensors with the same factor.
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
    # The constant is that of `torch.nn.utils.clip_grad_norm_`.
    scale = (largest / (norm + 1e-6)).clamp(max=1.0)
    for gradient in gradients:
        gradient.mul_(scale.view(-1, *[1] * (gradient.dim() - 1)))
