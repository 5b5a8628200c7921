"""A VAE for vectors: diagonal Gaussian posterior, decoder of fixed variance, and a known prior.

f returns the mean μ and log-variance l of the latents u side by side; g maps codes z to the mean of
x:

    x ~ N(g(z), γ⁻² I),    u = μ(x) + exp(l(x)/2) ε,    z = σ(u) − ½, or u with a Gaussian prior.

So a code has the range of its prior: (−½, ½) for a uniform or a beta prior. The noise ε is part of
the batch (`with_noise`), so that a step depends on nothing else, and seeds can be stacked.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from torch.func import jacrev, vjp, vmap
from torch.nn import functional

from identikit.errors import InputError
from identikit.learn._batches import Batch, Change
from identikit.learn._modules import MLP, SoftmaxNet

__all__ = [
    "BestPosterior",
    "Beta",
    "best_posterior",
    "codes",
    "decoder_jacobian",
    "gaussian_kl",
    "log_normal",
    "negative_elbo",
    "posterior",
    "prior_curvature",
    "vae",
    "with_noise",
]

LOG_2PI = math.log(2 * math.pi)


@dataclass(frozen=True)
class Beta:
    """z + ½ ~ Beta(a, b), each one number for all latents or one per latent; (1, 1) is uniform.

    Parameters
    ----------
    a, b : float or sequence of float
        Positive.
    """

    a: float | Sequence[float] = 1.0
    b: float | Sequence[float] = 1.0

    def __post_init__(self) -> None:
        if not all(float(torch.as_tensor(part).min()) > 0 for part in (self.a, self.b)):
            raise InputError(
                f"the parameters of a beta prior must be positive, not {self.a}, {self.b}"
            )


#: "uniform", "gaussian" (standard normal), or a `Beta`.
Prior = str | Beta


def vae(
    d: int,
    D: int,
    hidden: Sequence[int] = (60, 60),
    activation: str = "leaky_relu",
    *,
    slope: float = 0.2,
    init: str = "he",
) -> SoftmaxNet:
    """Fully connected layers from x to [μ, l], and the same in reverse from z to x.

    Parameters
    ----------
    d, D : int
        The number of latents, and of entries of x.
    hidden : sequence of int
        Widths of the layers between x and the code.
    activation, slope, init
        As for `MLP`.
    """
    encoder = MLP([D, *hidden, 2 * d], activation, slope=slope, init=init)
    decoder = MLP([d, *reversed(hidden), D], activation, slope=slope, init=init)
    return SoftmaxNet(encoder, decoder)


def with_noise(d: int) -> Change:
    """The `change` of `shuffled` that adds standard normal noise (n, d) to a batch."""
    return partial(_add_noise, d)


def _add_noise(d: int, batch: Batch, generator: torch.Generator) -> Batch:
    return (*batch, torch.randn(len(batch[0]), d, generator=generator))


def negative_elbo(
    net: SoftmaxNet, x: Tensor, noise: Tensor, precision: float | Tensor, prior: Prior = "uniform"
) -> Tensor:
    """−E_q[log p(x|z) + log p(u) − log q(u|x)], the mean over rows, in nats with all constants.

    So values at different γ² are comparable, and −value is a lower bound on the mean
    log-likelihood. The entropy of q, and the whole divergence from a Gaussian prior, are in closed
    form. The density of u includes the sigmoid's log-determinant,
    log p(u) = a log σ(u) + b log σ(−u) − log B(a, b), and is finite wherever u is, also where a
    sigmoid saturates.

    Parameters
    ----------
    net : SoftmaxNet
        As made by `vae`.
    x : Tensor (n, D)
        Data.
    noise : Tensor (n, d)
        ε, standard normal.
    precision : float or Tensor
        γ², positive.
    prior : {"uniform", "gaussian"} or Beta
        The prior of each latent.
    """
    mean, log_variance = posterior(net, x)
    if noise.shape != mean.shape:
        raise InputError(
            f"the noise has shape {tuple(noise.shape)}, but the posterior means have "
            f"{tuple(mean.shape)}: with_noise(d) takes the number of latents"
        )
    u = mean + (0.5 * log_variance).exp() * noise
    means = net.g(code_of(u, prior))
    flat = x.flatten(1)
    likelihood = log_normal(flat, means, -_log(precision, flat)).sum(1)
    if _law(prior) is None:
        return (gaussian_kl(mean, log_variance) - likelihood).mean()
    entropy = 0.5 * (1 + LOG_2PI + log_variance).sum(1)
    return -(likelihood + log_prior(u, prior).sum(1) + entropy).mean()


def posterior(net: SoftmaxNet, x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and log-variance of the latents u, (n, d) each."""
    mean, log_variance = net.f(x).chunk(2, dim=-1)
    return mean, log_variance


def code_of(u: Tensor, prior: Prior) -> Tensor:
    """z = σ(u) − ½; with a Gaussian prior, u itself."""
    return u if _law(prior) is None else u.sigmoid() - 0.5


def codes(net: SoftmaxNet, x: Tensor, prior: Prior = "uniform") -> Tensor:
    """The code of each posterior mean, on the prior's own range, to compare with factors."""
    return code_of(posterior(net, x)[0], prior)


def log_prior(u: Tensor, prior: Prior) -> Tensor:
    """Log density of the latents u, entry by entry."""
    law = _law(prior)
    if law is None:
        return log_normal(u, torch.zeros_like(u), torch.zeros_like(u))
    a, b = (torch.as_tensor(part, dtype=u.dtype) for part in (law.a, law.b))
    log_beta = torch.lgamma(a) + torch.lgamma(b) - torch.lgamma(a + b)
    return a * functional.logsigmoid(u) + b * functional.logsigmoid(-u) - log_beta


def prior_curvature(u: Tensor, prior: Prior) -> Tensor:
    """n''(u) for n = `log_prior`: −1 for a Gaussian prior, −(a + b) σ(u) σ(−u) for a beta one."""
    law = _law(prior)
    if law is None:
        return -torch.ones_like(u)
    total = torch.as_tensor(law.a, dtype=u.dtype) + torch.as_tensor(law.b, dtype=u.dtype)
    return -total * u.sigmoid() * (-u).sigmoid()


def decoder_jacobian(net: SoftmaxNet, z: Tensor) -> Tensor:
    """∂g/∂z at each code, (n, D, d).

    Jᵀw is linear in w with derivative Jᵀ, so this takes d backward passes, however large D is.

    Parameters
    ----------
    net : SoftmaxNet
        As made by `vae`.
    z : Tensor (n, d)
        Codes, as `codes` gives them.
    """

    def decode(row: Tensor) -> Tensor:
        out: Tensor = net.g(row.unsqueeze(0))
        return out.flatten()

    def one(row: Tensor) -> Tensor:
        pulled = vjp(decode, row)
        transposed: Tensor = jacrev(lambda w: pulled[1](w)[0])(torch.zeros_like(pulled[0]))
        return transposed.T

    with torch.no_grad():
        jacobians: Tensor = vmap(one)(z)
    return jacobians


def log_normal(z: Tensor, mean: Tensor, log_variance: Tensor) -> Tensor:
    """log N(z; μ, σ²), entry by entry."""
    return -0.5 * (LOG_2PI + log_variance + (z - mean) ** 2 * (-log_variance).exp())


def gaussian_kl(mean: Tensor, log_variance: Tensor) -> Tensor:
    """KL(N(μ, diag σ²) ‖ N(0, I)) of each row."""
    return 0.5 * (log_variance.exp() + mean**2 - 1 - log_variance).sum(1)


def _law(prior: Prior) -> Beta | None:
    """The beta distribution of a prior; None for the Gaussian prior."""
    if isinstance(prior, Beta):
        return prior
    if prior not in ("uniform", "gaussian"):
        raise InputError(f"there is no prior {prior!r}; choose uniform, gaussian or Beta(a, b)")
    return Beta() if prior == "uniform" else None


def _log(precision: float | Tensor, like: Tensor) -> Tensor:
    if not isinstance(precision, Tensor) and not precision > 0:
        raise InputError(f"the decoder's precision γ² must be positive, not {precision}")
    return torch.as_tensor(precision, dtype=like.dtype).log()


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
