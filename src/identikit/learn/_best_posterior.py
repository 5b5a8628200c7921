"""The best posterior of each row under a fixed decoder: what is left of the gap without an encoder.

An encoder makes the posteriors of all rows at once, and not each of them as well as could be (the
amortisation gap). With a table of free means and variances in its place, the bound is as tight as
diagonal Gaussians can make it.
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
    """Means and log-variances (n, d), and −ELBO* in nats a row, the mean over rows."""

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
    """Minimise −ELBO over a mean and a variance for each row, by Adam, the decoder as it is.

    Steps are in units of the first standard deviations. Noise comes in pairs ±ε, in which whatever
    is odd cancels; the loss at the end is from 16 times as much of it, drawn anew.

    Parameters
    ----------
    decoder : Module
        From codes (n, d) to means of x (n, D).
    x : Tensor (n, D)
        Data, of the type that is computed in.
    precision, prior
        As for `negative_elbo`.
    mean, log_variance : Tensor (n, d)
        Where to begin, of the latents u: an encoder's, or those that self-consistency asks for.
    steps, lr, pairs, seed
        Of Adam, and of the noise.
    """
    if mean.shape != log_variance.shape or len(mean) != len(x):
        raise InputError(
            f"the first means and log-variances have shapes {tuple(mean.shape)} and "
            f"{tuple(log_variance.shape)}; expected a row of each for the {len(x)} rows of x"
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
    """In place of an encoder: a posterior for each row, whatever x is."""

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
