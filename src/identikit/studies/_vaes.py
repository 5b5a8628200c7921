"""Image autoencoders, plain or variational, the codes made of their latents, and their scores.

Images enter as their first principal coordinates, which keep almost all of their variance, and are
reconstructed as such: a first and a last linear layer that are not trained. `f` gives the latents
or, side by side, mean μ and log-variance l; `g` gives the mean of a normal law of variance ¼ for
every pixel. Losses are in nats per image of 64×64 pixels.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning

from identikit._linalg import Array, random_rotation
from identikit.axes import ICA
from identikit.factors import disentangle, infomec, prepare
from identikit.studies import _dsprites as dsprites
from identikit.studies._study import Record, Settings
from identikit.studies._torch import Tensor, learn, torch
from identikit.worlds import Shapes3D

if TYPE_CHECKING:
    import pandas as pd

AE, BETA, TC, BIO = "ae", "beta-vae", "beta-tcvae", "bio-ae"
# A pixel of 32×32 images counts as four, and (x − x̂)²/(2 · ¼) is 2 (x − x̂)².
SIDE, NATS = 32, 4 * 2.0
# Scenes from which principal axes are computed, and scenes that are drawn at a time.
SCENES, BLOCK = 10_000, 4000
ROOM = Shapes3D(SIDE)
Classes = NDArray[np.intp]
Rows = NDArray[np.float32]


@dataclass(frozen=True)
class Images:
    """Images by classes (n, K): the factors, how to draw rows of pixels, and the factors' truth."""

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    draw: Callable[[Classes], Rows]
    truth: Callable[[Classes], tuple[pd.DataFrame, pd.DataFrame]]


def draw_room(classes: Classes) -> Rows:
    """Images of an object in a room, as rows of pixels."""
    return ROOM.images(classes).reshape(len(classes), -1)


def room_truth(classes: Classes) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The factors of a room as classes, and as numbers where they are quantities or circles."""
    import pandas as pd

    values = pd.DataFrame(ROOM.values(classes), columns=list(ROOM.factors))
    numbers = values[["scale", "orientation"]].copy()
    for name in ROOM.factors[:3]:
        numbers[f"cos_{name}"] = np.cos(2 * np.pi * values[name])
        numbers[f"sin_{name}"] = np.sin(2 * np.pi * values[name])
    return pd.DataFrame(np.asarray(classes, np.int64), columns=list(ROOM.factors)), numbers


DATA = {
    "shapes3d": Images(ROOM.factors, ROOM.sizes, draw_room, room_truth),
    "dsprites": Images(dsprites.FACTORS, dsprites.SIZES, dsprites.images, dsprites.truth),
}


def draw(settings: Settings, seed: int) -> tuple[Classes, Classes, Classes]:
    """Classes of scenes for training, validation and testing, none of them in two parts.

    Only the test scenes depend on the seed.
    """
    sizes = DATA[settings.data].sizes
    order = np.random.default_rng(0).permutation(int(np.prod(sizes)))
    train, validation, rest = np.split(order, np.cumsum([settings.train, settings.validation]))
    test = np.random.default_rng([1, seed]).choice(rest, settings.test, replace=False)
    first, second, third = (
        np.stack(np.unravel_index(part, sizes), 1) for part in (train, validation, test)
    )
    return first, second, third


@dataclass(frozen=True)
class Coordinates:
    """Principal coordinates of images, divided by one number, so that their mean variance is 1.

    `kept` is the share of the variance of pixels that they keep.
    """

    draw: Callable[[Classes], Rows]
    mean: Rows
    axes: Rows
    scale: float
    kept: float

    @classmethod
    def of(cls, data: str, classes: Classes, count: int) -> Coordinates:
        """The first `count` principal coordinates of the images of these scenes."""
        found = PCA(count, svd_solver="randomized", random_state=0).fit(DATA[data].draw(classes))
        scale, kept = np.sqrt(found.explained_variance_.mean()), found.explained_variance_ratio_
        axes = found.components_.T.astype(np.float32)
        return cls(DATA[data].draw, found.mean_, axes, float(scale), float(kept.sum()))

    def __call__(self, classes: Classes) -> Rows:
        """The coordinates (n, count) of the images of scenes, drawn a block at a time."""
        found = np.empty((len(classes), self.axes.shape[1]), np.float32)
        for at in range(0, len(classes), BLOCK):
            images = self.draw(classes[at : at + BLOCK])
            found[at : at + BLOCK] = (images - self.mean) @ self.axes / self.scale
        return found


@lru_cache(maxsize=1)
def _known(data: str, train: int, validation: int, count: int) -> tuple[Coordinates, Rows, Rows]:
    """The coordinates, and those of training and validation images, kept for the next network."""
    values = {"data": data, "train": train, "validation": validation, "test": 1}
    first, second, _ = draw(Settings(values), 0)
    coordinates = Coordinates.of(data, first[:SCENES], count)
    return coordinates, coordinates(first), coordinates(second)


def inputs(settings: Settings, seed: int) -> tuple[Coordinates, Rows, Rows, Rows]:
    """The coordinates, and those of training, validation and test images."""
    s = settings
    coordinates, first, second = _known(s.data, s.train, s.validation, s.coordinates)
    return coordinates, first, second, coordinates(draw(settings, seed)[2])


def build(width: int, latents: int, hidden: Sequence[int], variational: bool) -> learn.SoftmaxNet:
    """An encoder of fully connected layers, and a decoder with the same layers in reverse."""
    encoder = learn.MLP([width, *hidden, latents * (2 if variational else 1)], init="he")
    return learn.SoftmaxNet(encoder, learn.MLP([latents, *reversed(hidden), width], init="he"))


def reconstruction(net: learn.SoftmaxNet, z: Tensor, x: Tensor, weight: float) -> Tensor:
    """−log p(x|z) without its constant: the squared error times `weight`, mean over images."""
    error: Tensor = ((net.g(z) - x) ** 2).sum(1).mean()
    return weight * error


def autoencoder(net: learn.SoftmaxNet, x: Tensor, weight: float) -> Tensor:
    """Reconstruction only: −log p(x|f(x))."""
    return reconstruction(net, net.f(x), x, weight)


def bio_ae(net: learn.SoftmaxNet, x: Tensor, weight: float, values: int, activity: float) -> Tensor:
    """−log p(x|z) + N (mean max(−z, 0) + λ mean z²), of Whittington et al. 2023, z = f(x).

    Means are over latents; N, the number of `values` of an image, makes λ that of Hsu et al. 2023,
    whose reconstruction is a mean over these.
    """
    z = net.f(x)
    energy: Tensor = (-z).clamp(min=0).mean() + activity * (z**2).mean()
    return reconstruction(net, z, x, weight) + values * energy


def beta_vae(net: learn.SoftmaxNet, x: Tensor, noise: Tensor, weight: float, beta: float) -> Tensor:
    """−log p(x|z) + β KL(q(z|x) ‖ N(0, I)), of Higgins et al. 2017."""
    mean, log_variance = learn.posterior(net, x)
    divergence = learn.gaussian_kl(mean, log_variance).mean()
    z = sample(mean, log_variance, noise)
    loss: Tensor = reconstruction(net, z, x, weight) + beta * divergence
    return loss


def beta_tcvae(
    net: learn.SoftmaxNet, x: Tensor, noise: Tensor, weight: float, beta: float, rows: int
) -> Tensor:
    """−log p(x|z) + I(x; z) + β TC(z) + Σ_j KL(q(z_j) ‖ N(0, 1)), of Chen et al. 2018."""
    mean, log_variance = learn.posterior(net, x)
    z = sample(mean, log_variance, noise)
    own = learn.log_normal(z, mean, log_variance).sum(1)
    prior = learn.log_normal(z, 0 * z, 0 * z).sum(1)
    joint, product = log_densities(z, mean, log_variance, rows)
    penalty = (own - joint) + beta * (joint - product) + (product - prior)
    return reconstruction(net, z, x, weight) + penalty.mean()


def sample(mean: Tensor, log_variance: Tensor, noise: Tensor) -> Tensor:
    return mean + (0.5 * log_variance).exp() * noise


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


def teach(
    model: str, decay: float, first: int, count: int, folder: str, settings: Settings
) -> Record:
    """Train networks of several seeds as one stack: errors on validation images, and latents.

    The record has a row per seed, and the latents of training and test images, (seeds, n, d) each.
    `lost` is the share of the variance of pixels that is not reconstructed.
    """
    s, seeds, variational = settings, range(first, first + count), model in (BETA, TC)
    coordinates, *arrays = inputs(s, first)
    known, validation = (torch.from_numpy(array) for array in arrays[:2])
    weight, kept = NATS * coordinates.scale**2, coordinates.kept
    objectives: dict[str, Callable[..., Any]] = {
        AE: partial(autoencoder, weight=weight),
        BIO: partial(bio_ae, weight=weight, values=4 * coordinates.mean.size, activity=s.activity),
        BETA: partial(beta_vae, weight=weight, beta=s.beta),
        TC: partial(beta_tcvae, weight=weight, beta=s.beta_tc, rows=s.train),
    }
    batches = learn.shuffled(
        (known,), s.batch, learn.with_noise(s.latents) if variational else None
    )
    run = learn.train(
        partial(build, known.shape[1], s.latents, s.hidden, variational), objectives[model],
        batches, s.steps, seeds=seeds, lr=s.lr, weight_decay=decay, schedule="cosine",
        folder=folder, together=True if count > 1 else None,
    )  # fmt: skip
    total = weight * float((validation**2).sum(1).mean())
    rows, codes = [], []
    for seed in seeds:
        net = run.net(seed)
        # Every seed has test images of its own.
        test = torch.from_numpy(coordinates(draw(s, seed)[2]))
        fit, held_back, own = (net.f(x)[:, : s.latents] for x in (known, validation, test))
        loss = float(reconstruction(net, held_back, validation, weight))
        row = {"model": model, "decay": decay, "seed": seed, "reconstruction": loss}
        rows.append(row | {"lost": 1 - kept + kept * loss / total})
        codes.append((fit.numpy(), own.numpy()))
    return Record(rows, {name: np.stack(each) for name, each in zip(("fit", "test"), zip(*codes))})


TURNED, ICA_, NOISE = "ae+rotation", "ae+ica", "noise"
PIXELS, PIXELS_ICA = "pixels+pca", "pixels+ica"
REFERENCE, GATED = "reference", "held out"


def codes_of(method: str, fit: Array, test: Array, seed: int) -> tuple[Array, dict[str, float]]:
    """The codes of test images, fitted on what training images gave, without their factors.

    Methods other than those above leave the latents unchanged. For ICA, the dict says how many axes
    are identified and whether it has converged.
    """
    rng = np.random.default_rng([seed, 1])
    if method == NOISE:
        return rng.normal(size=test.shape), {}
    if method in (ICA_, PIXELS_ICA):
        with warnings.catch_warnings():
            # Whether it has converged is in the table.
            warnings.simplefilter("ignore", ConvergenceWarning)
            ica = ICA(seed=seed).fit(fit)
        about = {"identified": float(ica.axes_.identified.sum()), "converged": ica.converged_}
        return ica.transform(test), {"axes": float(len(ica.components_)), **about}
    if method not in (PIXELS, TURNED):
        return np.asarray(test, dtype=float), {}
    mean = fit.mean(axis=0, dtype=float)
    _, spread, axes = np.linalg.svd(fit - mean, full_matrices=False)
    white = (test - mean) @ (axes.T * np.sqrt(len(fit) - 1) / spread)
    return white @ random_rotation(white.shape[1], rng) if method == TURNED else white, {}


def score(method: str, seed: int, fit: Array, test: Array, settings: Settings) -> Record:
    """InfoMEC and MCC of the codes of `codes_of`: one row per number, with its level of chance.

    Chance is the score with rows permuted.
    """
    codes, about = codes_of(method, fit, test, seed)
    data, classes = DATA[settings.data], draw(settings, seed)[2]
    known, numbers = data.truth(classes)
    table = prepare(codes, known, names=None, kinds=dict.fromkeys(data.names, "discrete"),
                    seed=seed)  # fmt: skip
    kinds, count = ["continuous"] * numbers.shape[1], settings.permutations
    every = [
        (REFERENCE, "infomec", infomec(table, preset="reference", permutations=count)),
        (GATED, "infomec", infomec(table, permutations=count)),
    ]
    correlations = disentangle(codes, numbers, kinds=kinds, metrics=["mcc"], seed=seed)
    every += [(GATED, *item) for item in correlations.scores.items()]
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
