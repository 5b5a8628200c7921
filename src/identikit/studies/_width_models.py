"""Networks of several widths that classify sectors of the plane, and all pairs of them."""

from __future__ import annotations

from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identikit.family import Distances, SoftmaxModel, distances
from identikit.moments import accumulate
from identikit.similarity import cca
from identikit.studies._angles import points, sectors
from identikit.studies._study import Record, Settings
from identikit.studies._torch import learn, torch

M = 2
TRAIN, TEST = 0, 1  # the authors' seeds of the data


def build(classes: int, width: int) -> learn.SoftmaxNet:
    """f is 2-w-w-w-2, and g is (K−1)-w-w-w-2 on one-hot labels, the last of which is zero.

    Weights and biases start as PyTorch's, as in the authors' code and untrained checkpoints.
    """
    hidden = [width, width, width, M]
    f, g = (
        learn.MLP([first, *hidden], activation="leaky_relu", last_bias=False, init="torch")
        for first in (2, classes - 1)
    )
    return learn.SoftmaxNet(f, learn.OneHot(classes, g, truncated=True))


def data(classes: int, rows: int, seed: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    x = points(rows, np.random.default_rng(seed))
    return x, sectors(x, classes, np.pi)


def seeds_of(classes: int, settings: Settings) -> range:
    """The seeds of networks with this many labels: `times` as many as `seeds`."""
    s = settings
    times = s.times[s.classes.index(classes)]
    return range(s.first_seed, s.first_seed + times * s.seeds)


def teach(classes: int, width: int, folder: str, settings: Settings) -> Record:
    """Train the networks of one width; f (2, seeds, test, M) and g, before and after training."""
    known = [torch.from_numpy(part) for part in data(classes, settings.train, TRAIN)]
    s, batches = settings, learn.shuffled(known, settings.batch)
    run = learn.train(
        partial(build, classes, width), learn.supervised, batches, s.steps,
        seeds=seeds_of(classes, s), data_seed=0, lr=s.lr, snapshots=(0,), folder=folder,
    )  # fmt: skip
    x, y = data(classes, settings.test, TEST)
    ends = (0, settings.steps)
    f = np.stack([list(run.embed(torch.from_numpy(x), step).values()) for step in ends])
    g = np.stack([list(run.unembed(None, step).values()) for step in ends])
    rows = []
    for place, seed in enumerate(run.seeds):
        logs = SoftmaxModel(f[1, place], g[1, place]).log_prob()
        accuracy = float(np.mean(logs.argmax(axis=1) == y))
        row = {"classes": classes, "width": width, "seed": seed, "accuracy": accuracy}
        row |= {"nll": -logs[np.arange(len(y)), y].mean(), "kept": accuracy > settings.accuracy}
        rows.append(row)
    return Record(rows, {"f": f, "g": g})


def compare(classes: int, width: int, taught: Record, settings: Settings) -> Record:
    """Compare all pairs of untrained networks, and of trained ones that passed the filter."""
    _, y = data(classes, settings.test, TEST)
    # The fixed sets of the re-run: the first M + 1 labels, and the first input of each.
    labels = list(range(M + 1))
    inputs = [int(np.flatnonzero(y == label)[0]) for label in labels]
    seeds = [row["seed"] for row in taught.rows]
    kept = [place for place, row in enumerate(taught.rows) if row["kept"]]
    rows = []
    for trained, places in ((False, range(settings.seeds)), (True, kept)):
        f, g = taught.arrays["f"][int(trained)], taught.arrays["g"][int(trained)]
        for a, b in combinations(places, 2):
            both = [SoftmaxModel(f[i], g[i], name=f"seed {seeds[i]}") for i in (a, b)]
            apart = distances(*both, candidates=settings.candidates, M=M)
            fixed = distances(*both, labels=labels, inputs=inputs, M=M)
            assert isinstance(apart, Distances)
            assert isinstance(fixed, Distances)
            row: dict[str, Any] = {"classes": classes, "width": width, "trained": trained}
            row |= {
                "a": seeds[a],
                "b": seeds[b],
                "llv": apart.llv,
                "representation": apart.representation,
            }
            row |= {"bound": apart.bound, "sharper_bound": apart.sharper_bound}
            row |= {"certificate": apart.certificate, "fixed": fixed.representation}
            row |= {"cca": cca(accumulate([f[a], f[b]])).mean, "kl": apart.kl}
            rows.append(row)
    return Record(rows)
