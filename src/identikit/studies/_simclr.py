"""A small SimCLR on images, whose augmentations have known parameters, and probes of both."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identikit._linalg import Array
from identikit.studies._data import Data
from identikit.studies._study import Record, Settings
from identikit.studies._torch import Tensor, learn, nn, torch

#: Of an augmentation: side of the crop, its middle, mirrored or not, and changes of the colours.
PARAMETERS = ("size", "x", "y", "flip", "brightness", "contrast")
#: By name, which of Λ̂ is learned: see `learn.Concentrations`.
LOSSES: dict[str, str | None] = {
    "aninfonce": "diagonal", "tau-fixed": None, "tau-learned": "scalar"
}  # fmt: skip
SMALLEST = 0.4
RIDGE = 1e-3
# Of the augmentations that are probed: one for all networks.
PROBED = 2**20


def augmented(images: Tensor, side: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Random views of images, (n, 3, side, side), and their parameters (n, 6): `PARAMETERS`."""
    u = torch.rand(len(images), len(PARAMETERS), generator=generator)
    size = SMALLEST + (1 - SMALLEST) * u[:, 0]
    x, y = ((2 * u[:, k] - 1) * (1 - size) for k in (1, 2))
    flip = (u[:, 3] < 0.5).float()
    brightness, contrast = 0.8 * (u[:, 4] - 0.5), u[:, 5] - 0.5
    views = nn.functional.grid_sample(
        images, _grid(size, x, y, flip, side), align_corners=False, padding_mode="border"
    )
    mean = views.mean((1, 2, 3), keepdim=True)
    views = (views - mean) * (1 + contrast)[:, None, None, None] + mean
    views = views + brightness[:, None, None, None]
    return views, torch.stack([size, x, y, flip, brightness, contrast], 1)


def _grid(size: Tensor, x: Tensor, y: Tensor, flip: Tensor, side: int) -> Tensor:
    """Where the pixels of crops lie in their images, from −1 to 1."""
    zero = torch.zeros_like(size)
    rows = torch.stack([size * (1 - 2 * flip), zero, x]), torch.stack([zero, size, y])
    maps = torch.stack(rows).permute(2, 0, 1)
    return nn.functional.affine_grid(maps, [len(size), 3, side, side], align_corners=False)


def two_views(batch: tuple[Tensor, ...], generator: torch.Generator, side: int) -> Any:
    return tuple(augmented(batch[0], side, generator)[0] for _ in range(2))


def build(loss: str, s: Settings) -> learn.SoftmaxNet:
    """Two convolutions and two layers to the sphere; concentrations start from 1/τ."""
    c, left = s.channels, s.side // 4
    encoder = nn.Sequential(
        nn.Conv2d(3, c, 3, 2, 1), nn.ReLU(), nn.Conv2d(c, 2 * c, 3, 2, 1), nn.ReLU(),
        learn.MLP([2 * c * left**2, s.features, s.M], init="he"),
    )  # fmt: skip
    values = learn.Concentrations(s.M, LOSSES[loss], 1 / s.temperature)
    return learn.SoftmaxNet(learn.Normalised(encoder), values)


def probe(loss: str, seed: int, data: Data, settings: Settings) -> Record:
    """Train one network, and decode classes and augmentations from it (a unit of work).

    There is a row before and one after training: the accuracy of a linear probe for the class on f
    of whole images, and R² of one for the parameters on f of an image and of its view, on images
    that neither network nor probe has seen.
    """
    s, images = settings, data.images()
    known, new = (
        torch.from_numpy(x).permute(0, 3, 1, 2).float() / 127.5 - 1
        for x in (images.x_train[: s.images], images.x_test)
    )
    run = learn.train(
        partial(build, loss, s), learn.aninfonce,
        learn.shuffled((known,), s.image_batch, partial(two_views, side=s.side)), s.image_steps,
        seeds=(seed,), lr=s.image_lr, rates={"g.": s.image_rate}, schedule="cosine", snapshots=(0,),
    )  # fmt: skip
    generator = torch.Generator().manual_seed(PROBED)
    parts = []
    for x in (known[: s.probed], new):
        whole = torch.nn.functional.avg_pool2d(x, 32 // s.side)
        views, parameters = augmented(x, s.side, generator)
        parts.append((whole, views, parameters.numpy().astype(float)))
    classes = np.eye(len(images.names))[images.y_train[: len(parts[0][0])]]
    rows = []
    for step in (0, s.image_steps):
        f = run.net(seed, step).f
        codes = [(learn.rows(f, whole), learn.rows(f, views)) for whole, views, _ in parts]
        guessed = linear_reading(codes[0][0], classes, codes[1][0]).argmax(1)
        read = linear_reading(np.hstack(codes[0]), parts[0][2], np.hstack(codes[1]))
        r2 = 1 - ((read - parts[1][2]) ** 2).mean(axis=0) / parts[1][2].var(axis=0)
        row = {"loss": loss, "seed": seed, "trained": step > 0}
        row |= {"classes": float((guessed == images.y_test).mean())}
        rows.append(row | {"augmentations": r2.mean(), **dict(zip(PARAMETERS, r2))})
    g = run.net(seed).g
    assert isinstance(g, learn.Concentrations)
    return Record(rows, {"concentrations": np.sort(g.values.numpy())})


def linear_reading(x: NDArray[Any], y: Array, new: NDArray[Any]) -> Array:
    """Ridge regression from x to y, on columns of variance 1: its predictions at the rows `new`."""
    x, new = x.astype(float), new.astype(float)
    mean, spread = x.mean(axis=0), x.std(axis=0) + 1e-9
    x, new, middle = (x - mean) / spread, (new - mean) / spread, y.mean(axis=0)
    weights = np.linalg.solve(x.T @ x + RIDGE * len(x) * np.eye(x.shape[1]), x.T @ (y - middle))
    read: Array = new @ weights + middle
    return read
