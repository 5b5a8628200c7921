"""Image autoencoders, plain or variational, the codes made of their latents, and their scores.

`f` gives the latents or, side by side, mean μ and log-variance l; `g` gives the logits of the
pixels. Losses are in nats per image of 64×64 pixels.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from identikit._linalg import Array, random_rotation
from identikit.axes import ICA
from identikit.factors import disentangle, infomec, prepare
from identikit.studies._data import read_arrays
from identikit.studies._dsprites import FACTORS, SIZES, classes_of, images, truth
from identikit.studies._study import Record, Settings
from identikit.studies._torch import Tensor, learn, nn, torch

# Images are 32×32 means over squares of four pixels; each mean counts as four, so that a β means
# the same as for whole images.
SIDE, FOUR = 32, 4
AE, BETA, TC = "ae", "beta-vae", "beta-tcvae"


def build(latents: int, hidden: Sequence[int], variational: bool) -> learn.SoftmaxNet:
    """An encoder of fully connected layers, and a decoder with the same layers in reverse."""
    encoder = learn.MLP([SIDE**2, *hidden, latents * (2 if variational else 1)], init="he")
    return learn.SoftmaxNet(encoder, learn.MLP([latents, *reversed(hidden), SIDE**2], init="he"))


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


PCA, TURNED, ICA_, NOISE = "ae+pca", "ae+rotation", "ae+ica", "noise"
# Of YannDubs/disentangling-vae (MIT), by the name of their objective in the file.
PUBLISHED = {
    "VAE": "VAE", "betaH": "β-VAE", "betaB": "β-VAE with capacity", "factor": "FactorVAE",
    "btcvae": "β-TCVAE",
}  # fmt: skip
REFERENCE, GATED, NOISY = "reference", "held out", "held out, noise added"
# Metrics that take a factor as a number.
NUMERIC = ("mcc", "mcc_spearman", "mcc_linear", "r2", "r2_nonlinear")


def codes_of(method: str, fit: Array, test: Array, seed: int) -> tuple[Array, dict[str, float]]:
    """The codes of test images, fitted on the latents of training images without their factors.

    Methods other than those above leave the latents unchanged. For ICA, the dict says how many axes
    are identified and whether it has converged.
    """
    rng = np.random.default_rng([seed, 1])
    if method == NOISE:
        return rng.normal(size=test.shape), {}
    if method == ICA_:
        with warnings.catch_warnings():
            # Whether it has converged is in the table.
            warnings.simplefilter("ignore", ConvergenceWarning)
            ica = ICA(seed=seed).fit(fit)
        about = {"identified": float(ica.axes_.identified.sum()), "converged": ica.converged_}
        return ica.transform(test), {"axes": float(len(ica.components_)), **about}
    if method not in (PCA, TURNED):
        return np.asarray(test, dtype=float), {}
    mean = fit.mean(axis=0, dtype=float)
    _, spread, axes = np.linalg.svd(fit - mean, full_matrices=False)
    white = (test - mean) @ (axes.T * np.sqrt(len(fit) - 1) / spread)
    return white @ random_rotation(white.shape[1], rng) if method == TURNED else white, {}


def score(
    method: str, seed: int, fit: Array, test: Array, classes: NDArray[Any], settings: Settings
) -> Record:
    """Every metric of the codes of `codes_of`: one row per number, with its level of chance.

    `classes` (n, 5) are the factors of the test images; chance is the score with rows permuted.
    """
    codes, about = codes_of(method, fit, test, seed)
    count = settings.permutations
    known, numbers = truth(classes)
    data = prepare(codes, known, names=None, kinds=dict.fromkeys(FACTORS, "discrete"), seed=seed)
    by_class = [name for name in settings.metrics if name not in NUMERIC]
    by_number = [name for name in settings.metrics if name in NUMERIC]
    kinds = ["continuous"] * numbers.shape[1]
    every = [
        (REFERENCE, "infomec", infomec(data, preset="reference", permutations=count)),
        (GATED, "infomec", infomec(data, permutations=count)),
        (NOISY, "infomec", infomec(data, permutations=count, noise=settings.noise)),
    ]
    for found in (
        disentangle(data, metrics=by_class),
        disentangle(codes, numbers, kinds=kinds, metrics=by_number, seed=seed),
    ):
        every += [(GATED, *item) for item in found.scores.items()]
    rows: list[dict[str, Any]] = []
    for form, name, of in every:
        for part in of.parts:
            assert part.chance is not None
            ends, chance = part.interval or (None, None), part.chance
            row = {"method": method, "seed": seed, "form": form, "metric": name, "part": part.name}
            row |= {"value": part.value, "low": ends[0], "high": ends[1], "chance": chance.mean}
            rows.append(row | dict(zip(("chance_low", "chance_high"), chance.interval)))
    for part_name, value in about.items():
        row = {"method": method, "seed": seed, "form": "fit", "metric": "ica"}
        rows.append(row | {"part": part_name, "value": float(value)})
    return Record(rows)


def published(path: Path | None) -> dict[str, tuple[Array, NDArray[Any]]]:
    """Means and classes of five published VAEs by name; nothing if there is no such file."""
    if path is None:
        return {}
    means = [f"{name}_mu" for name in PUBLISHED]
    arrays = read_arrays(path, ["factors", *means], f"factors and {', '.join(means)}")
    classes, *found = arrays.values()
    return {name: (codes.astype(float), classes) for name, codes in zip(PUBLISHED, found)}
