"""Units of nelson-mnist: the digits, autoencoders of one leak, and all pairs of their seeds."""

from __future__ import annotations

from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from identikit.axes import near_identifiability
from identikit.errors import InputError
from identikit.studies._data import Need, read_arrays
from identikit.studies._study import Record, Settings, mean_interval, per_seed
from identikit.studies._torch import learn, torch

CONTAINS = "x_train and x_test (n, 28, 28) uint8"
MNIST = Need("mnist.npz", CONTAINS, optional=True)
LAYERS = 3
STAGES = ("untrained", "early", "trained")
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


def teach(alpha: float, folder: str, path: Path | None, settings: Settings) -> Record:
    """Train the autoencoders of one leak α: one row per seed and stage.

    The arrays are the latents of the test images, (seeds, images, D), by stage.
    """
    from identikit.studies._pairs import orthogonal_autoencoder, reconstruction, unexplained

    s, (known, unseen) = settings, (torch.from_numpy(part) for part in images(path))
    unseen = unseen[: s.test]
    steps = dict(zip(STAGES, (0, s.steps // 10, s.steps)))
    run = learn.train(
        partial(orthogonal_autoencoder, [known.shape[1], *s.widths], alpha), reconstruction,
        learn.shuffled((known,), s.batch), s.steps, seeds=range(s.seeds), lr=s.lr,
        snapshots=steps.values(), folder=folder,
    )  # fmt: skip
    rows, latents = [], {}
    for stage, step in steps.items():
        latents[stage] = np.stack(list(run.embed(unseen, step).values()))
        for seed, own in zip(run.seeds, latents[stage]):
            net = run.net(seed, step)
            found = learn.bilipschitz(net.g, own)
            row = {"alpha": alpha, "stage": stage, "seed": seed}
            row |= {"unexplained": unexplained(net, unseen)}
            row |= {"sigma_max": found.largest, "sigma_min": found.smallest}
            row |= {"one_plus_L_bound": alpha**-LAYERS, "one_plus_L_measured": 1 + found.L}
            row |= {BOUND: law(alpha**-LAYERS - 1), MEASURED: found.root_law}
            rows.append(row)
    return Record(rows, latents)


def compare(alpha: float, learned: Record) -> Record:
    """Compare all pairs of seeds of one leak α: one row per pair and stage.

    Distances after the best map are divided by the diameter and averaged over both directions; the
    laws are for the larger L.
    """
    rows = []
    for stage, latents in learned.arrays.items():
        models = {row["seed"]: row for row in learned.rows if row["stage"] == stage}
        for a, b in combinations(models, 2):
            near = near_identifiability(latents[a], latents[b], draws=1)
            both = [way for way in near.directions if way.coordinates == "raw"]
            rigid = [way.error("rigid") for way in both]
            row: dict[str, Any] = {"alpha": alpha, "stage": stage, "a": a, "b": b}
            for column in ("mean", "median", "q95", "largest"):
                row[column] = np.mean([getattr(error, column) for error in rigid])
            row["affine"] = np.mean([way.error("affine").mean for way in both])
            row["shuffled"] = np.mean([error.chance for error in rigid])
            for column in (BOUND, MEASURED):
                row[column] = max(models[seed][column] for seed in (a, b))
            row["unexplained"] = np.mean([models[seed]["unexplained"] for seed in (a, b)])
            rows.append(row)
    return Record(rows)


def summary(pairs: pd.DataFrame) -> pd.DataFrame:
    """By α: errors of trained pairs with their interval over seeds, baselines, and both laws."""
    rows = []
    for alpha, own in pairs.groupby("alpha"):
        trained, early, before = (own[own["stage"] == stage] for stage in STAGES[::-1])
        mean, interval = mean_interval(per_seed(trained, "mean"))
        low, high = interval or (None, None)
        row: dict[str, Any] = {"alpha": alpha, "mean": mean, "low": low, "high": high}
        columns = ["median", "q95", "largest", "affine", BOUND, MEASURED, "unexplained"]
        row |= {column: trained[column].mean() for column in columns}
        row |= {"early": early["mean"].mean(), "untrained": before["mean"].mean()}
        rows.append(row | {"shuffled": trained["shuffled"].mean()})
    return pd.DataFrame(rows)
