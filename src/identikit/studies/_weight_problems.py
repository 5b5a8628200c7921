"""The learning problems of reizinger-weights. Kicks act on `f[0]`. Needs PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor, nn

from identikit._linalg import Array
from identikit.errors import InputError
from identikit.learn import AfterStep, Lookup, Shuffling, SoftmaxNet, supervised
from identikit.learn import scores as logits_of
from identikit.studies._data import Data, pixels
from identikit.studies._study import Settings
from identikit.studies._weight_arms import JSB

#: The keys of a piano, and the number of frames from which the next one is predicted.
KEYS, WINDOW = 88, 2


class Problem(NamedTuple):
    """A learning problem: data, a network, its loss, the scores of logits, and SGD's settings."""

    train: tuple[Tensor, ...]
    test: tuple[Tensor, ...]
    build: Callable[[], SoftmaxNet]
    objective: Callable[..., Tensor]
    scores: Callable[[Array, Array], dict[str, float]]
    sgd: dict[str, Any]


def problem(name: str, data: Data, s: Settings) -> Problem:
    """One of "digits", "cifar" and "jsb", with the learning rates of the authors.

    The rate of "jsb" is a setting: its loss is a mean over 88 keys, of which few are pressed, and
    at the authors' .05 a network predicts nothing but silence for tens of thousands of steps.
    """
    sgd = {"lr": 0.05, "momentum": 0.75}
    if name == "digits":
        return Problem(*digits(), mlp, supervised, classified, sgd)
    if name == "cifar":
        net, sgd = partial(lenet, s.side), {"lr": 0.01, "momentum": 0.9}
        return Problem(*images(data, s.side), net, supervised, classified, sgd)
    path = data.locate(JSB)
    assert path is not None
    pieces = read_chorales(path)
    parts = windows(pieces["train"]), windows(pieces["test"])
    sgd |= {"lr": s.jsb_lr, "weight_decay": 1e-4}
    return Problem(*parts, recurrent, keys_loss, keys_scored, sgd)


def digits() -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """scikit-learn's digits from 0 to 1, 1,200 of them to learn from and 597 to test on."""
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(x))
    data = torch.from_numpy(x[order] / 16).float(), torch.from_numpy(y[order]).long()
    return tuple(t[:1200] for t in data), tuple(t[1200:] for t in data)


def mlp() -> SoftmaxNet:
    """Layers 64-48-16 with ReLU, also after the last, which gives the features; then 10 classes."""
    f = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 16), nn.ReLU())
    return SoftmaxNet(f, Lookup(10, 16), bias=10)


def images(data: Data, side: int) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """CIFAR-10 from −1 to 1; averaged over squares if side is below 32."""
    found = data.images()
    parts = (found.x_train, found.y_train), (found.x_test, found.y_test)
    train, test = ((pixels(x, side).contiguous(), torch.from_numpy(y)) for x, y in parts)
    return train, test


def lenet(side: int) -> SoftmaxNet:
    """Convolutions 6-16 of 5 × 5 with batch norm, 120-84 with ReLU, 10 classes."""
    left = (side - 4) // 2 - 4
    # A second pooling would leave small images with a single pixel.
    last: list[nn.Module] = [nn.MaxPool2d(2)] if side > 16 else []
    inputs = 16 * (left // 2 if last else left) ** 2
    convolutions = nn.Sequential(
        nn.Conv2d(3, 6, 5), nn.BatchNorm2d(6), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5), nn.BatchNorm2d(16), nn.ReLU(), *last, nn.Flatten(),
    )  # fmt: skip
    rest = (nn.Linear(inputs, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU())
    return SoftmaxNet(nn.Sequential(convolutions, *rest), Lookup(10, 84), bias=10)


def read_chorales(path: Path) -> dict[str, list[NDArray[np.float32]]]:
    """The chorales of a MATLAB file: lists of frames (T, 88) for "train", "valid" and "test"."""
    from scipy.io import loadmat
    from scipy.io.matlab import MatReadError

    names = ("train", "valid", "test")
    try:
        cells = loadmat(path, variable_names=[f"{name}data" for name in names])
        found = {
            name: [np.asarray(frames, np.float32) for frames in cells[f"{name}data"].ravel()]
            for name in names
        }
    except (KeyError, ValueError, TypeError, OSError, MatReadError, NotImplementedError) as error:
        raise InputError(
            f"{path} is damaged or of another kind ({error}); expected {JSB.contains}"
        ) from error
    for name, pieces in found.items():
        shapes = {piece.shape[1:] for piece in pieces}
        if shapes != {(KEYS,)}:
            raise InputError(
                f"{path}: the frames of {name}data have the shapes {sorted(shapes)}; expected "
                f"{JSB.contains}"
            )
    return found


def windows(pieces: Sequence[NDArray[np.float32]]) -> tuple[Tensor, ...]:
    """Every two frames in a row (n, 2, 88), and the frame after them (n, 88)."""
    x = [np.stack([piece[:-2], piece[1:-1]], axis=1) for piece in pieces]
    y = [piece[WINDOW:] for piece in pieces]
    return tuple(torch.from_numpy(np.concatenate(each)) for each in (x, y))


def recurrent() -> SoftmaxNet:
    """An LSTM 88-88 with a linear layer after its last state, so that logits are not bounded."""
    f = nn.Sequential(nn.LSTM(KEYS, KEYS, batch_first=True), _Last())
    return SoftmaxNet(f, Lookup(KEYS, KEYS), bias=KEYS)


class _Last(nn.Module):
    def forward(self, out: tuple[Tensor, Any]) -> Tensor:
        return out[0][:, -1]


def keys_loss(net: SoftmaxNet, x: Tensor, y: Tensor) -> Tensor:
    return nn.functional.binary_cross_entropy_with_logits(logits_of(net, net.f(x)), y)


def classified(logits: Array, labels: Array) -> dict[str, float]:
    """The accuracy: how often the true class has the highest logit."""
    return {"accuracy": float((logits.argmax(axis=1) == labels).mean())}


def keys_scored(logits: Array, frames: Array) -> dict[str, float]:
    """Accuracy over all keys, that of predicting silence, F1, and mean negative log-likelihood."""
    pressed, true = logits > 0, frames > 0.5
    return {
        "accuracy": float((pressed == true).mean()),
        "silence": float((~true).mean()),
        "f1": float(2 * (pressed & true).sum() / max(1, pressed.sum() + true.sum())),
        "nll": float((np.logaddexp(0, logits) - logits * frames).mean()),
    }


class Released(Shuffling):
    """The authors' code, which overwrites weights with others instead of permuting them.

    It exchanges x[i] and x[j] for i from the last to the second, with a random j ≤ i. But both are
    views, so x[j] is copied into x[i] and then into itself. No entry up to i has been overwritten
    before step i, so the new x[i] is the old x[j].
    """

    def order(self, count: int, generator: Generator) -> Tensor:
        return (torch.rand(count, generator=generator) * torch.arange(1, count + 1)).long()


def released_shuffling(p: float, coverage: float, *, layers: str) -> AfterStep:
    """As `weight_shuffling`, with the order of `Released`."""
    return Released(p, coverage, (layers,), None)
