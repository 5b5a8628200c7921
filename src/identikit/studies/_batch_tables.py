"""Tables of nelson-batches: penalties chosen, means with intervals over units, what axes carry."""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np
import pandas as pd

from identikit.studies._batches import hoyer, hoyer_chance
from identikit.studies._store import Record
from identikit.studies._study import mean_interval

# All treatments at once, and each, against the controls; each against the other treatments; one
# type of cell against the other.
TREATED, EACH, OTHERS, TYPES = "treated", "each", "others", "types"
SAME = ["set", "components", "task", "input", "learner"]
AXES = [
    "set", "basis", "axis", "batch", "batch_chance", "batch_chance_95", "label", "label_chance",
    "label_chance_95", "identified", "why_not",
]  # fmt: skip
MEASURES = ["auroc", "signal_sparsity", "batch_sparsity", "sparsity"]


def chosen(records: list[Record], penalties: list[float]) -> pd.DataFrame:
    """The scores at a penalty that was chosen where neither part nor label are the same.

    For each input and learner: the C with the best mean AUROC on the other parts (and, where
    treatments are taken one by one, of other treatments); the smallest of equals, and the middle
    one if there is no other part. Learners of other parts have seen the wells of this one, if not
    as what they are to be told apart here: all inputs are treated alike in this.

    Parameters
    ----------
    records : list of Record
        Of `score`.
    penalties : list of float
        C, ascending.
    """
    table = pd.DataFrame(list(chain.from_iterable(record.rows for record in records)))
    if table.empty:
        return table
    arrays = {key: np.concatenate([r.arrays[key] for r in records]) for key in records[0].arrays}
    best = np.full(len(table), len(penalties) // 2)
    for _, group in table.groupby(SAME):
        places = group.index.to_numpy()
        part, label = group["held_out"].to_numpy(), group["label"].to_numpy()
        one_label = len(np.unique(label)) == 1
        for place, here in enumerate(places):
            other = (part != part[place]) & (one_label | (label != label[place]))
            if other.any():
                # Rounded, so that equals are equal whatever the order of sums.
                best[here] = arrays["auroc"][places[other]].mean(axis=0).round(9).argmax()
    every = np.arange(len(table))
    table["penalty"] = np.asarray(penalties)[best]
    for key, values in arrays.items():
        table[key] = values[every, best]
    table[MEASURES] = table[MEASURES].astype(float)
    table["failed_fits"] = (arrays["converged"] == 0).sum(axis=1)  # whatever the penalty
    return table.drop(columns="converged")


def by_unit(
    scores: pd.DataFrame, name: str, task: str, learner: str, components: int | None = None
) -> pd.DataFrame:
    """Means over seeds, a row a unit: a held-out part, or a treatment where these are one by one.

    Treatments, because compounds of one treatment share a learner, and so do not vary on their own.

    Parameters
    ----------
    scores : DataFrame
        Of `chosen`.
    name, task, learner : str
        Which rows.
    components : int, optional
        The first number there is, if it is not given.

    Returns
    -------
    DataFrame
        Columns (measure, input).
    """
    mask = (scores["set"] == name) & (scores["task"] == task) & (scores["learner"] == learner)
    there = scores[mask]
    if there.empty:
        return there
    there = there[there["components"] == (components or there["components"].iloc[0])]
    unit = "label" if task in (EACH, OTHERS) else "held_out"
    mean = there.groupby([unit, "input"])[MEASURES].mean()
    return pd.DataFrame(mean.unstack("input"))


def means(scores: pd.DataFrame) -> pd.DataFrame:
    """AUROC of every input and its paired difference to PCA's, with intervals over units."""
    rows = []
    keys = ["set", "task", "learner", "components"]
    for case in scores[keys].drop_duplicates().itertuples(index=False) if len(scores) else ():
        units = by_unit(scores, *case)
        group = scores[(scores[keys] == list(case)).all(axis=1)]
        for column in units["auroc"]:
            of = group[group["input"] == column]
            row = dict(zip(keys, case)) | {"input": column}
            row |= {"units": len(units), "axes": int(of["axes"].median())}
            differences = units["auroc"][column] - units["auroc"]["pca"]
            for key, values in (("auroc", units["auroc"][column]), ("over_pca", differences)):
                mean, interval = mean_interval(list(values))
                low, high = interval or (None, None)
                row |= {key: mean, f"{key}_low": low, f"{key}_high": high}
            for key in MEASURES[1:]:
                row[key] = units[key][column].mean()
            row["chance_sparsity"] = of["chance_sparsity"].mean()
            row["median_penalty"] = of["penalty"].median()
            row["failed_fits"] = int(of["failed_fits"].sum())
            row["failed_icas"] = int((~of["ica_converged"].astype(bool)).sum())
            rows.append(row)
    return pd.DataFrame(rows)


def cosine(a: pd.Series[float], b: pd.Series[float]) -> float:
    """Of two profiles of shares over axes: 1 if the same axes carry both, 0 if others do."""
    x, y = a.to_numpy(float), b.to_numpy(float)
    return float(x @ y / (np.linalg.norm(x) * np.linalg.norm(y)))


def profile(axes: pd.DataFrame) -> pd.DataFrame:
    """Of every basis: what batch and label explain, axes above chance, sparsity, and overlap."""
    rows = []
    for (name, basis), group in axes.groupby(["set", "basis"], sort=False):
        row: dict[str, Any] = {"set": name, "basis": basis, "axes": len(group)}
        for key in ("batch", "label"):
            if group[key].notna().all():
                shares = group[key].astype(float)
                row[f"{key}_mean"], row[f"{key}_largest"] = shares.mean(), shares.max()
                row[f"{key}_above_chance"] = int((shares > group[f"{key}_chance_95"]).sum())
                row[f"{key}_sparsity"] = hoyer(np.sqrt(shares.to_numpy()))
        if "label_mean" in row and "batch_mean" in row:
            row["overlap"] = cosine(group["batch"], group["label"])
        row["chance_sparsity"] = hoyer_chance(len(group))
        row["identified"] = int(group["identified"].sum()) if basis == "ica" else None
        rows.append(row)
    return pd.DataFrame(rows)
