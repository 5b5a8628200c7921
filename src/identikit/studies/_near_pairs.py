"""Two runs at one layer: the unit of nelson-pairs, means over pairs, and the paper's Table 1."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from identikit.axes import near_identifiability
from identikit.errors import InputError
from identikit.studies._study import Record, mean_interval, per_seed

GPT2, CLASSIFIER, AUTOENCODER = "gpt2", "classifier", "autoencoder"
MODELS = {GPT2: "The GPT-2", CLASSIFIER: "The classifier", AUTOENCODER: "The autoencoder"}
RAW, WHITENED = "raw", "whitened"
GROUPS = ("permutation", "random rotation", "ica", "rigid", "similarity", "linear", "affine")
#: What the efficiency is of in place of ICA, and in words.
GAINS = {
    "shuffled": "rows shuffled (−1 or less)", "random_rotation": "random rotation",
    "different_rows": "ICA, different rows",
}  # fmt: skip
EFFICIENCY, CONTROL = "efficiency_value", "efficiency_random_rotation"
OWN_ROWS = "efficiency_different_rows"
#: Whose means have an interval in the tables.
WITH_INTERVAL = ("permutation", "ica", "rigid", "linear", EFFICIENCY)


class Published(NamedTuple):
    """A row of Table 1, and which model here is nearest to its."""

    pair: str
    nearest: str
    permutation: float
    rigid: float
    linear: float
    ica: float
    efficiency: float


TABLE_1 = (
    Published("Pythia-160M, two seeds", GPT2, 0.219, 0.150, 0.131, 0.202, 0.25),
    Published("MAE, timm and original", AUTOENCODER, 0.197, 0.109, 0.036, 0.145, 0.59),
    Published("CheXpert MAE, small and base", AUTOENCODER, 0.218, 0.104, 0.048, 0.175, 0.38),
    Published("ResNet-18, two seeds", CLASSIFIER, 0.382, 0.206, 0.175, 0.312, 0.40),
)
Groups = NDArray[Any] | None
#: The most rows of two extracted folders.
MOST_ROWS = 20_000


def compare(
    model: str, a: Any, b: Any, views: Sequence[Any], groups: Groups, max_rows: int
) -> Record:
    """Compare two runs a and b at one layer: one row for raw and one for whitened coordinates.

    `views` are arrays of rows or their paths, and `groups` are labels of dependent rows. Values are
    those of `identikit near`, means over both directions; intervals have the outer ends of both.
    """
    near = near_identifiability(*views, names=["a", "b"], groups=groups, max_rows=max_rows)
    rows = []
    for coordinates in (RAW, WHITENED):
        ways = [way for way in near.directions if way.coordinates == coordinates]
        row: dict[str, Any] = {"model": model, "coordinates": coordinates}
        row |= {"a": a, "b": b, "rows": near.used, "dims": min(side.dims for side in near.sides)}
        row |= {"components": near.sides[0].components}
        row |= {"identified": min(side.identified for side in near.sides)}
        means = [{error.group: error.mean for error in way.errors} for way in ways]
        row |= {g: np.mean([of[g] for of in means]) if g in means[0] else None for g in GROUPS}
        row |= {"shuffled": np.mean([way.error("rigid").chance for way in ways])}
        gains = [way.efficiency for way in ways]
        for column in ("value", *GAINS):
            row[f"efficiency_{column}"] = _mean([getattr(gain, column, None) for gain in gains])
        ends = [gain.interval for gain in gains if gain is not None and gain.interval is not None]
        low, high = (min(e[0] for e in ends), max(e[1] for e in ends)) if ends else (None, None)
        rows.append(row | {"efficiency_low": low, "efficiency_high": high})
    return Record(rows)


def _mean(values: list[float | None]) -> float | None:
    """The mean of both directions, or None if one of them has no gap to close."""
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if len(known) == len(values) else None


def extracts(folders: Sequence[Path]) -> tuple[list[Any], list[str], Groups]:
    """Manifests of two folders of `identikit extract`, the layers of both, and groups of rows."""
    from identikit.extract import read_manifest

    manifests = [read_manifest(folder) for folder in folders]
    own, others = ([str(of["layer"]) for of in each["layers"]] for each in manifests)
    layers = [layer for layer in own if layer in others]
    if not layers:
        listed = f"{', '.join(own)} and {', '.join(others)}"
        raise InputError(f"{folders[0]} and {folders[1]} have no layer in common: {listed}")
    groups = None
    for name in ("groups.npy", "tokens.npy"):
        parts = [np.load(folder / name) for folder in folders if (folder / name).is_file()]
        if len(parts) == 2 and not np.array_equal(*parts):
            raise InputError(
                f"{name} differs in {folders[0]} and {folders[1]}: their rows are not of the same "
                "inputs; extract both from the same, with the same tokenizer"
            )
        groups = parts[0] if parts and name == "groups.npy" else groups
    return manifests, layers, groups


def summary(pairs: pd.DataFrame) -> pd.DataFrame:
    """Means over pairs by model, with intervals over seeds (of one pair, over rows)."""
    columns = [*GROUPS, "shuffled", EFFICIENCY, *(f"efficiency_{gain}" for gain in GAINS)]
    rows = []
    for model, own in pairs.groupby("model", sort=False):
        own = own.astype(dict.fromkeys(columns, float))
        row: dict[str, Any] = {"model": model, "pairs": len(own)}
        row |= {name: own[name].mean() for name in ("dims", "components", "identified", *columns)}
        for name in WITH_INTERVAL:
            _, interval = mean_interval(per_seed(own, name))
            if interval is None and name == EFFICIENCY:
                interval = own["efficiency_low"].iloc[0], own["efficiency_high"].iloc[0]
            row |= dict(zip((f"{name}_low", f"{name}_high"), interval or (None, None)))
        rows.append(row)
    return pd.DataFrame(rows)
