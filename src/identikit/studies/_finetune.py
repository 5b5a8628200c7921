"""One ReLU network with two sets of weights: equal as a function, unequal in fine-tuning."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from identikit.studies._store import Record
from identikit.studies._study import Settings

if TYPE_CHECKING:
    from torch import Tensor, nn, optim

#: Inputs, their entries, and hidden units.
ROWS, ENTRIES, HIDDEN = 512, 10, 64
#: A fine-tuning whose error exceeds this, which is above every initial error, has diverged.
DIVERGED = 1e3


def network(alpha: float = 1.0) -> nn.Sequential:
    """10-64-1 with the activation relu(αx)/α, which is relu(x) for every α > 0."""
    from torch import nn, relu

    class ScaledReLU(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return relu(alpha * x) / alpha

    return nn.Sequential(nn.Linear(ENTRIES, HIDDEN), ScaledReLU(), nn.Linear(HIDDEN, 1))


def rescale(net: nn.Sequential, alpha: float) -> None:
    """W₁ and b₁ times α, W₂ over α: as relu(αx) = α relu(x), the same function."""
    for name, factor in (("0.weight", alpha), ("0.bias", alpha), ("2.weight", 1 / alpha)):
        net.get_parameter(name).data.mul_(factor)


def tune(seed: int, settings: Settings) -> Record:
    """Pre-train a network, then fine-tune copies that compute the same function (a unit of work).

    A copy has its weights rescaled by α or, as a control, the activation relu(αx)/α. The target
    changes from sin 2x₀ + x₁ to cos 2x₂ + x₁. Every step uses all rows.
    """
    import torch
    from torch import optim

    torch.manual_seed(seed)
    x = torch.randn(ROWS, ENTRIES)
    net = network()
    before, after = torch.sin(2 * x[:, 0]) + x[:, 1], torch.cos(2 * x[:, 2]) + x[:, 1]
    _fit(net, x, before, optim.Adam(net.parameters(), 3e-3), settings.pretrain)
    descents: dict[str, Callable[..., optim.Optimizer]] = {
        "SGD": partial(optim.SGD, lr=1e-2),
        "Adam": partial(optim.Adam, lr=1e-3),
    }
    rows = []
    for alpha in settings.alphas:
        for scaled in ("weights", "activation"):
            for name, descent in descents.items():
                own = network(alpha if scaled == "activation" else 1.0)
                own.load_state_dict(net.state_dict())
                if scaled == "weights":
                    rescale(own, alpha)
                row = {"seed": seed, "alpha": alpha, "scaled": scaled, "by": name}
                row["apart"] = (own(x) - net(x)).abs().max().item()
                row["mse"] = _fit(own, x, after, descent(own.parameters()), settings.finetune)
                rows.append(row | {"diverged": not row["mse"] < DIVERGED})
    return Record(rows)


def _fit(net: nn.Sequential, x: Tensor, y: Tensor, descent: optim.Optimizer, steps: int) -> float:
    """Train for the given number of steps, and return the error after them."""
    from torch import autograd

    for _ in range(steps):
        descent.zero_grad()
        autograd.backward((net(x)[:, 0] - y).square().mean())
        descent.step()
    error: float = (net(x)[:, 0] - y).square().mean().item()
    return error
