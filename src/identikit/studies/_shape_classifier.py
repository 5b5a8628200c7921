"""A classifier of dSprites' shapes, and probes for the factors that it was never told."""

from __future__ import annotations

from typing import Any

import numpy as np

from identikit._linalg import Array
from identikit.studies._dsprites import SHAPES, SIZES, classes_of, images, truth
from identikit.studies._store import Record
from identikit.studies._study import Settings
from identikit.studies._torch import learn, nn, torch

#: What the classifier is never told.
UNTOLD = ("scale", "posX", "posY")


def build(pixels: int, width: int) -> learn.SoftmaxNet:
    """Three layers with batch norm and ReLU, and a linear classifier of the shape."""
    layers = learn.MLP([pixels, width, width, width], batch_norm=True)
    f = nn.Sequential(layers, nn.BatchNorm1d(width), nn.ReLU())
    return learn.SoftmaxNet(f, learn.Lookup(len(SHAPES), width), bias=len(SHAPES))


def decode(seed: int, settings: Settings) -> Record:
    """Train on shapes, and decode the other factors from pixels and features (a unit of work).

    A row has Pearson's r of a linear probe without an intercept (as published) and with one, on
    images that neither the network nor the probe has seen.
    """
    from functools import partial

    known = settings.images
    drawn = np.random.default_rng([seed, 2]).choice(
        int(np.prod(SIZES)), known + known // 4, replace=False
    )
    classes = classes_of(drawn)
    x, shape = torch.from_numpy(images(classes)), torch.from_numpy(classes[:, 0])
    run = learn.train(
        partial(build, x.shape[1], settings.features), learn.supervised,
        learn.shuffled((x[:known], shape[:known]), settings.image_batch), settings.image_steps,
        seeds=(seed,), lr=settings.image_lr, schedule="cosine", snapshots=(0,),
    )  # fmt: skip
    sources: dict[str, Any] = {"pixels": x.numpy()}
    for source, step in (("untrained", 0), ("trained", settings.image_steps)):
        sources[source] = run.embed(x, step)[f"seed {seed}"]
    guessed = run.model(seed, x[known:]).log_prob().argmax(axis=1)
    factors = truth(classes)[1][list(UNTOLD)].to_numpy()
    # Around zero: the published readings have no intercept, and their pixels' r is that of these.
    factors = factors - factors[:known].mean(axis=0)
    rows = []
    for source, features in sources.items():
        plain, shifted = (correlations(features, factors, known, shift) for shift in (False, True))
        for factor, r, with_intercept in zip(UNTOLD, plain, shifted):
            row = {"seed": seed, "source": source, "factor": factor, "r": r}
            rows.append(row | {"with_intercept": with_intercept})
    accuracy = float(np.mean(guessed == classes[known:, 0]))
    return Record([row | {"accuracy": accuracy} for row in rows])


def correlations(features: Array, factors: Array, known: int, shift: bool) -> list[float]:
    """Pearson's r of factors with a fit to the first `known` rows, on the rows after them."""
    x = features.astype(np.float64)
    if shift:
        x = np.column_stack([x, np.ones(len(x))])
    guesses = x[known:] @ np.linalg.lstsq(x[:known], factors[:known], rcond=None)[0]
    return [float(np.corrcoef(*pair)[0, 1]) for pair in zip(guesses.T, factors[known:].T)]
