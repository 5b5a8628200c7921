"""Networks whose seeds are compared: autoencoders, a classifier, and GPT-2. Needs PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from identikit.learn import MLP, Lookup, ResNet, SoftmaxNet, rows, shuffled, supervised, train
from identikit.studies import _text_models
from identikit.studies._data import Data, pixels
from identikit.studies._study import Record, Settings


class Orthogonal(nn.Module):
    """A linear layer with a bias, whose matrix has orthonormal rows or columns, whichever fit.

    They are the Gram–Schmidt basis of the stored weight, so any step of an optimiser keeps it so.
    """

    def __init__(self, width: int, out: int) -> None:
        super().__init__()
        tall = torch.empty(max(width, out), min(width, out))
        self.weight = nn.Parameter(nn.init.orthogonal_(tall))
        self.bias = nn.Parameter(torch.zeros(out))
        self.narrows = out < width

    def forward(self, x: Tensor) -> Tensor:
        q, r = torch.linalg.qr(self.weight)
        # Signs as of Gram–Schmidt, so that a small step of the weight is a small step of the basis.
        q = q * torch.diagonal(r).sign()
        out: Tensor = x @ (q if self.narrows else q.mT) + self.bias
        return out


def orthogonal_autoencoder(sizes: Sequence[int], leak: float) -> SoftmaxNet:
    """Encoder f and decoder g of orthogonal layers, each but the latent one with a LeakyReLU.

    With K layers in the decoder its singular values lie from leak^K to 1 everywhere.
    """
    f, g = nn.Sequential(), nn.Sequential()
    for side, widths in ((f, sizes), (g, sizes[::-1])):
        for width, out in pairwise(widths):
            side.extend([Orthogonal(width, out), nn.LeakyReLU(leak)])
    return SoftmaxNet(f[:-1], g)


def autoencoder(sizes: Sequence[int]) -> SoftmaxNet:
    """Encoder f and decoder g of plain layers with LeakyReLU between."""
    f, g = (MLP(widths, "leaky_relu", init="he") for widths in (sizes, sizes[::-1]))
    return SoftmaxNet(f, g)


def reconstruction(net: SoftmaxNet, x: Tensor) -> Tensor:
    """E‖x − g(f(x))‖², of inputs that are flattened to rows: an objective."""
    x = x.flatten(1)
    loss: Tensor = (net.g(net.f(x)) - x).square().sum(-1).mean()
    return loss


@torch.no_grad()
def unexplained(net: SoftmaxNet, x: Tensor) -> float:
    """E‖x − g(f(x))‖² over E‖x − Ex‖²."""
    x = x.flatten(1)
    return float(reconstruction(net, x) / (x - x.mean(0)).square().sum(-1).mean())


@torch.no_grad()
def inside(net: SoftmaxNet, x: Tensor) -> NDArray[np.float32]:
    """The input of the last block of a classifier, averaged over the image: (n, channels)."""
    assert isinstance(net.f, ResNet)
    return rows(nn.Sequential(net.f.stages[:-1], nn.AdaptiveAvgPool2d(1), nn.Flatten()), x)


def learn_autoencoder(seed: int, folder: Path, data: Data, settings: Settings) -> Record:
    """Train an autoencoder by reconstruction; the array has its latents of test images."""
    s, images = settings, data.images()
    x, test = (pixels(part, s.side) for part in (images.x_train, images.x_test))
    run = train(
        partial(autoencoder, [x[0].numel(), *s.widths]), reconstruction, shuffled((x,), s.batch),
        s.autoencoder_steps, seeds=[seed], lr=s.lr, schedule="cosine", folder=folder,
    )  # fmt: skip
    left = unexplained(run.net(seed), test)
    view = run.embed(test)[f"seed {seed}"]
    return _record("autoencoder", seed, "variance unexplained", left, view)


def learn_classifier(seed: int, folder: Path, data: Data, settings: Settings) -> Record:
    """Train a residual network with a vector per class; the array has inputs of its last block."""
    s, images = settings, data.images()
    x, test = (pixels(part, s.side) for part in (images.x_train, images.x_test))
    run = train(
        partial(classifier, s.channels, s.blocks, len(images.names)), supervised,
        shuffled((x, torch.from_numpy(images.y_train)), s.batch), s.classifier_steps, seeds=[seed],
        lr=s.lr, schedule="cosine", folder=folder,
    )  # fmt: skip
    wrong = np.mean(run.model(seed, test).log_prob().argmax(axis=1) != images.y_test)
    return _record("classifier", seed, "share of errors", wrong, inside(run.net(seed), test))


def classifier(channels: int, blocks: Sequence[int], classes: int) -> SoftmaxNet:
    """f is a residual network with as many outputs as first channels; g has a vector per class."""
    return SoftmaxNet(ResNet(channels, channels, blocks), Lookup(classes, channels))


def _of_gpt2(settings: Settings) -> Settings:
    """The settings that begin with gpt2_, under the names that the study of GPT-2s has."""
    return Settings(
        {k.removeprefix("gpt2_"): v for k, v in settings.items() if k.startswith("gpt2_")}
    )


def text_for_gpt2(data: Data, settings: Settings) -> Record:
    return _text_models.tokens(_of_gpt2(settings), data)


def learn_gpt2(seed: int, folder: Path, text: Record, settings: Settings) -> Record:
    """A GPT-2 of the study roeder-gpt2, and the states `gpt2_back` layers before the last."""
    s, vocabulary = _of_gpt2(settings), text.rows[0]["vocabulary"]
    record = _text_models.learn(s.width, seed, folder, text.arrays, vocabulary, s)
    run = _text_models.restored((s.width, seed, record), vocabulary, s)
    test = text.arrays["test"][:, :-1]
    view = _text_models.states(run, s.steps, s.back, test)
    return _record("gpt2", seed, "loss (nats)", record.rows[-1]["validation"], view)


def _record(model: str, seed: int, measure: str, loss: Any, view: NDArray[np.float32]) -> Record:
    row = {"model": model, "seed": seed, "measure": measure, "loss": float(loss)}
    return Record([row], {"view": view})


LEARN: dict[str, Callable[..., Record]] = {
    "autoencoder": learn_autoencoder,
    "classifier": learn_classifier,
    "gpt2": learn_gpt2,
}
