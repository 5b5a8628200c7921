"""The best posterior of each row under a fixed decoder: the ELBO without an amortisation gap.

An encoder computes the posteriors of all rows with the same weights, so that no single one needs to
be the best possible (the amortisation gap). With a table of free means and variances in its place,
the bound is as tight as diagonal Gaussians can make it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from identikit.errors import InputError
from identikit.learn._modules import SoftmaxNet
from identikit.learn._vae import Prior, negative_elbo


@dataclass(frozen=True, eq=False)
class BestPosterior:
    """Means and log-variances (n, d), and the lowest −ELBO, in nats, averaged over rows."""

    mean: Tensor
    log_variance: Tensor
    loss: float


def best_posterior(
    decoder: nn.Module,
    x: Tensor,
    precision: float,
    prior: Prior = "uniform",
    *,
    mean: Tensor,
    log_variance: Tensor,
    steps: int = 200,
    lr: float = 0.03,
    pairs: int = 4,
    seed: int = 0,
) -> BestPosterior:
    """Minimise −ELBO over a mean and a variance for each row, by Adam, with a fixed decoder.

    Steps are in units of the initial standard deviations. Noise is drawn in pairs ±ε, in which odd
    terms cancel; the final loss is computed with 16 times as many pairs, drawn anew.

    Parameters
    ----------
    decoder : Module
        Maps codes (n, d) to means of x (n, D).
    x : Tensor (n, D)
        Data; the computation uses its dtype.
    precision, prior
        As for `negative_elbo`.
    mean, log_variance : Tensor (n, d)
        Initial values for the latents u: an encoder's, or those that self-consistency implies.
    steps, lr, pairs, seed
        The number of steps and learning rate of Adam; the number of noise pairs, and their seed.
    """
    if mean.shape != log_variance.shape or len(mean) != len(x):
        raise InputError(
            f"the initial means and log-variances have shapes {tuple(mean.shape)} and "
            f"{tuple(log_variance.shape)}; expected one row of each for all {len(x)} rows of x"
        )
    table = _Table(mean, log_variance)
    net = SoftmaxNet(table, decoder)
    adam = torch.optim.Adam(table.parameters(), lr)
    rate = torch.optim.lr_scheduler.CosineAnnealingLR(adam, steps)
    generator = torch.Generator().manual_seed(seed)

    def loss(pairs: int) -> Tensor:
        noise = torch.randn(pairs * len(x), mean.shape[1], generator=generator, dtype=x.dtype)
        rows = x.repeat(2 * pairs, *[1] * (x.dim() - 1))
        return negative_elbo(net, rows, torch.cat([noise, -noise]), precision, prior)

    for _ in range(steps):
        adam.zero_grad()
        torch.autograd.backward(loss(pairs))
        adam.step()
        rate.step()
    with torch.no_grad():
        found = table.tables()
        return BestPosterior(*found, loss(16 * pairs).item())


class _Table(nn.Module):
    """Takes the place of an encoder: one free posterior per row, independent of x."""

    def __init__(self, mean: Tensor, log_variance: Tensor) -> None:
        super().__init__()
        self.first = mean.detach(), log_variance.detach()
        self.change = nn.Parameter(torch.zeros(2, *mean.shape, dtype=mean.dtype))

    def tables(self) -> tuple[Tensor, Tensor]:
        mean, log_variance = self.first
        sd = (0.5 * log_variance).exp()
        return mean + sd * self.change[0], log_variance + self.change[1]

    def forward(self, x: Tensor) -> Tensor:
        both = torch.cat(self.tables(), dim=1)
        return both.repeat(len(x) // len(both), 1)
