"""Units of nelson-mnist: the digits, autoencoders of one kind, and all pairs of their seeds."""

from __future__ import annotations

from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from identikit._linalg import Array, svd
from identikit.errors import InputError
from identikit.studies._data import Need, read_arrays
from identikit.studies._study import Record, Settings, mean_interval, per_seed
from identikit.studies._torch import learn, nn, torch

CONTAINS = "x_train and x_test (n, 28, 28) uint8"
MNIST = Need("mnist.npz", CONTAINS, optional=True)
LAYERS = 3
STAGES = ("untrained", "trained")
BOUND, MEASURED = "law_bound", "law_measured"
Images = NDArray[np.float32]


def images(path: Path | None) -> tuple[Images, Images]:
    """Rows of pixels from 0 to 1 for training and for comparison.

    They are from MNIST or, without a path, from scikit-learn's digits, a third of them for
    comparison.
    """
    if path is None:
        from sklearn.datasets import load_digits

        pixels = load_digits().data / 16
        test = np.arange(len(pixels)) % 3 == 2
        parts = [pixels[~test], pixels[test]]
    else:
        parts = list(read_arrays(path, ("x_train", "x_test"), CONTAINS).values())
        shapes = [f"{part.dtype} {part.shape}" for part in parts]
        if any(part.dtype != np.uint8 or part.shape[1:] != (28, 28) for part in parts):
            raise InputError(f"{path} has {' and '.join(shapes)}; expected {CONTAINS}")
        parts = [part.reshape(len(part), -1) / 255 for part in parts]
    train, test = (part.astype(np.float32) for part in parts)
    return train, test


def law(L: Any) -> Any:
    """√(2L+L²), with which the error of the best rigid map scales."""
    return np.sqrt(2 * L + L**2)


def autoencoder(sizes: list[int], alpha: float, leaky: int) -> learn.SoftmaxNet:
    """An orthogonal autoencoder; only the first `leaky` layers of its decoder have a LeakyReLU.

    The singular values of the decoder lie between α to the power of `leaky` and 1.
    """
    from identikit.studies._pairs import orthogonal_autoencoder

    net = orthogonal_autoencoder(sizes, alpha)
    layers = list(net.g.children())
    kept = [part for place, part in enumerate(layers) if place % 2 == 0 or place < 2 * leaky]
    return learn.SoftmaxNet(net.f, nn.Sequential(*kept))


def teach(alpha: float, leaky: int, folder: str, path: Path | None, settings: Settings) -> Record:
    """Train the autoencoders of one leak α and so many leaky layers: a row per seed and stage.

    The arrays are the latents of the test images, (seeds, images, D), by stage.
    """
    from identikit.studies._pairs import reconstruction, unexplained

    s, (known, unseen) = settings, (torch.from_numpy(part) for part in images(path))
    unseen = unseen[: s.test]
    steps = dict(zip(STAGES, (0, s.steps)))
    run = learn.train(
        partial(autoencoder, [known.shape[1], *s.widths], alpha, leaky), reconstruction,
        learn.shuffled((known,), s.batch), s.steps, seeds=range(s.seeds), lr=s.lr,
        schedule="cosine", snapshots=steps.values(), folder=folder,
    )  # fmt: skip
    rows, latents = [], {}
    for stage, step in steps.items():
        latents[stage] = np.stack(list(run.embed(unseen, step).values()))
        for seed, own in zip(run.seeds, latents[stage]):
            net = run.net(seed, step)
            found = learn.bilipschitz(net.g, own)
            row = {"alpha": alpha, "leaky": leaky, "stage": stage, "seed": seed}
            row |= {"unexplained": unexplained(net, unseen)}
            row |= {"sigma_max": found.largest, "sigma_min": found.smallest}
            row |= {"one_plus_L_bound": alpha**-leaky, "one_plus_L_measured": 1 + found.L}
            row |= {BOUND: law(alpha**-leaky - 1), MEASURED: found.root_law}
            rows.append(row)
    return Record(rows, latents)


def diameter(y: Array) -> float:
    """The 95 % quantile of the distances between rows, as in `near_identifiability`."""
    from scipy.spatial.distance import pdist

    return float(np.quantile(pdist(y), 0.95))


def distances(x: Array, y: Array, every: int = 2) -> Array:
    """‖y − h(x)‖ on the rows that h, the best rigid map, is not fitted on.

    With `every` = 1 the map is fitted and scored on all rows.
    """
    fit, rest = (slice(0, None, every), slice(every - 1, None, every))
    means = x[fit].mean(axis=0), y[fit].mean(axis=0)
    left, _, right = svd((x[fit] - means[0]).T @ (y[fit] - means[1]))
    moved = (x[rest] - means[0]) @ (left @ right) + means[1]
    found: Array = np.linalg.norm(y[rest] - moved, axis=1)
    return found


def compare(alpha: float, leaky: int, learned: Record) -> Record:
    """Compare all pairs of seeds of one kind of network: one row per pair and stage.

    Errors are means over both directions; the laws are for the larger L.
    """
    rows, rng = [], np.random.default_rng(0)
    for stage, latents in learned.arrays.items():
        models = [row for row in learned.rows if row["stage"] == stage]
        sides = [(own, x, diameter(x)) for own, x in zip(models, latents.astype(float))]
        for (a, x, wide), (b, y, high) in combinations(sides, 2):
            both = [distances(x, y) / high, distances(y, x) / wide]
            row = {"alpha": alpha, "leaky": leaky, "stage": stage, "a": a["seed"], "b": b["seed"]}
            row |= {"mean": np.mean(both), "median": np.mean([np.median(way) for way in both])}
            row |= {"q95": np.mean([np.quantile(way, 0.95) for way in both])}
            row |= {"largest": np.mean([way.max() for way in both])}
            row |= {"shuffled": (distances(rng.permutation(x), y) / high).mean()}
            row |= {column: max(a[column], b[column]) for column in (BOUND, MEASURED)}
            rows.append(row | {"unexplained": (a["unexplained"] + b["unexplained"]) / 2})
    return Record(rows)


def summary(pairs: pd.DataFrame) -> pd.DataFrame:
    """By kind: errors of trained pairs with their interval over seeds, baselines, and both laws."""
    rows = []
    for (alpha, leaky), own in pairs.groupby(["alpha", "leaky"]):
        trained, before = (own[own["stage"] == stage] for stage in STAGES[::-1])
        mean, interval = mean_interval(per_seed(trained, "mean"))
        low, high = interval or (None, None)
        row: dict[str, Any] = {
            "alpha": alpha,
            "leaky": leaky,
            "mean": mean,
            "low": low,
            "high": high,
        }
        columns = ["median", "q95", "largest", BOUND, MEASURED, "unexplained", "shuffled"]
        row |= {column: trained[column].mean() for column in columns}
        rows.append(row | {"untrained": before["mean"].mean()})
    return pd.DataFrame(rows)
