"""A small image autoencoder, plain or variational: its losses and its training.

`f` gives the latents or, side by side, mean μ and log-variance l; `g` gives the logits of the
pixels. Losses are in nats per image of 64×64 pixels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identikit.studies._dsprites import SIZES, classes_of, images
from identikit.studies._store import Record
from identikit.studies._study import Settings
from identikit.studies._torch import Tensor, learn, nn, torch

# Images are 32×32 means over squares of four pixels; each mean counts as four, so that a β means
# the same as for whole images.
SIDE, FOUR = 32, 4
AE, BETA, TC = "ae", "beta-vae", "beta-tcvae"


def build(latents: int, hidden: Sequence[int], variational: bool) -> learn.SoftmaxNet:
    """An encoder of fully connected layers, and a decoder with the same layers in reverse."""
    encoder = learn.MLP([SIDE**2, *hidden, latents * (2 if variational else 1)])
    return learn.SoftmaxNet(encoder, learn.MLP([latents, *reversed(hidden), SIDE**2]))


def reconstruction(net: learn.SoftmaxNet, z: Tensor, x: Tensor) -> Tensor:
    """−log p(x|z), summed over pixels and averaged over images."""
    total = nn.functional.binary_cross_entropy_with_logits(net.g(z), x, reduction="sum")
    return FOUR * total / len(x)


def autoencoder(net: learn.SoftmaxNet, x: Tensor) -> Tensor:
    """Reconstruction only: −log p(x|f(x))."""
    return reconstruction(net, net.f(x), x)


def beta_vae(net: learn.SoftmaxNet, x: Tensor, beta: float) -> Tensor:
    """−log p(x|z) + β KL(q(z|x) ‖ N(0, I)), of Higgins et al. 2017."""
    mean, log_variance = learn.posterior(net, x)
    divergence = learn.gaussian_kl(mean, log_variance).mean()
    loss: Tensor = reconstruction(net, sample(mean, log_variance), x) + beta * divergence
    return loss


def beta_tcvae(net: learn.SoftmaxNet, x: Tensor, beta: float, rows: int) -> Tensor:
    """−log p(x|z) + I(x; z) + β TC(z) + Σ_j KL(q(z_j) ‖ N(0, 1)), of Chen et al. 2018."""
    mean, log_variance = learn.posterior(net, x)
    z = sample(mean, log_variance)
    own = learn.log_normal(z, mean, log_variance).sum(1)
    prior = learn.log_normal(z, 0 * z, 0 * z).sum(1)
    joint, product = log_densities(z, mean, log_variance, rows)
    penalty = (own - joint) + beta * (joint - product) + (product - prior)
    return reconstruction(net, z, x) + penalty.mean()


def sample(mean: Tensor, log_variance: Tensor) -> Tensor:
    """z = μ + σ ε."""
    return mean + (0.5 * log_variance).exp() * torch.randn_like(mean)


def log_densities(
    z: Tensor, mean: Tensor, log_variance: Tensor, rows: int
) -> tuple[Tensor, Tensor]:
    """log q(z) and Σ_j log q(z_j), each q a mixture over the batch by stratified weights.

    An image's own component has the weight 1/N, N = `rows`; of the n − 1 others, one has
    (N − n + 1)/(N (n − 1)) and each of the rest 1/(n − 1), so that together they have 1 − 1/N.
    """
    n = len(z)
    each = learn.log_normal(z[:, None], mean[None], log_variance[None])
    weights = torch.full((n, n), 1 / (n - 1))
    weights.fill_diagonal_(1 / rows)
    places = torch.arange(n)
    weights[places, (places + 1) % n] = (rows - n + 1) / (rows * (n - 1))
    logs = weights.log()
    joint = torch.logsumexp(each.sum(2) + logs, dim=1)
    product = torch.logsumexp(each + logs[:, :, None], dim=1).sum(1)
    return joint, product


def draw(settings: Settings) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
    """Classes of disjoint images for training, validation and testing, the same for all runs."""
    sizes = settings.train, settings.validation, settings.test
    index = np.random.default_rng(0).choice(np.prod(SIZES), sum(sizes), replace=False)
    first, second, _ = np.cumsum(sizes)
    train, validation, test = np.split(classes_of(index), (first, second))
    return train, validation, test


def teach(model: str, decay: float, seed: int, folder: str, settings: Settings) -> Record:
    """Train a network: its error on validation images, 0 at best, and the latents of images."""
    from scipy.special import entr

    parts = [torch.from_numpy(images(classes)) for classes in draw(settings)]
    objectives: dict[str, Callable[..., Any]] = {
        AE: autoencoder,
        BETA: partial(beta_vae, beta=settings.beta),
        TC: partial(beta_tcvae, beta=settings.beta_tc, rows=settings.train),
    }
    run = learn.train(
        partial(build, settings.latents, settings.hidden, model != AE), objectives[model],
        learn.shuffled(parts[:1], settings.batch), settings.steps, seeds=[seed], lr=settings.lr,
        weight_decay=decay, folder=folder,
    )  # fmt: skip
    fit, known, test = (run.embed(part)[f"seed {seed}"][:, : settings.latents] for part in parts)
    with torch.no_grad():
        loss = float(reconstruction(run.net(seed), torch.from_numpy(known), parts[1]))
    # Subtract the entropy of the grey pixels, the lowest loss that a decoder can reach.
    x = parts[1].numpy().astype(float)
    floor = FOUR * float((entr(x) + entr(1 - x)).sum(1).mean())
    row = {"model": model, "decay": decay, "seed": seed, "reconstruction": loss - floor}
    return Record([row], {"fit": fit, "test": test})
