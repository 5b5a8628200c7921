"""Units of nelson-batches, and their tables: chosen penalties, means with intervals, and axes."""

from __future__ import annotations

from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from identikit._threads import one_thread
from identikit.studies import _batches as parts
from identikit.studies._batch_data import CONTROL, Strings, Wells, read
from identikit.studies._batches import Input, Mask, explained, hoyer, hoyer_chance
from identikit.studies._columns import where
from identikit.studies._data import Data
from identikit.studies._study import Record, Settings, mean_interval

LEARNERS = ("L1", "L2")

# All treatments at once, and each, against the controls; each against the other treatments; one
# type of cell against the other.
TREATED, EACH, OTHERS, TYPES = "treated", "each", "others", "types"
SAME = ["set", "components", "task", "input", "learner"]
AXES = [
    "set", "basis", "axis", "batch", "batch_chance", "batch_chance_95", "label", "label_chance",
    "label_chance_95", "identified", "why_not",
]  # fmt: skip
MEASURES = ["auroc", "signal_sparsity", "batch_sparsity", "sparsity"]


class Task(NamedTuple):
    """A classification task: the rows that take part, and which of them are positive."""

    name: str
    label: str
    rows: Mask
    y: Mask


def tasks(wells: Wells, others: bool = False) -> list[Task]:
    """All treatments together, and each, against controls or others; or two cell types."""
    every, control = np.ones(len(wells.x), dtype=bool), wells.control
    own = {str(name): wells.label == name for name in np.unique(wells.label) if name != CONTROL}
    if others:
        return [Task(OTHERS, name, ~control, rows) for name, rows in own.items()]
    if control.any():
        each = [Task(EACH, name, control | rows, rows) for name, rows in own.items()]
        return [Task(TREATED, TREATED, every, ~control), *each]
    name, rows = list(own.items())[-1]
    return [Task(TYPES, name, every, rows)] if len(own) == 2 else []


def held_out(batch: Strings, folds: int) -> list[list[str]]:
    """The batches divided into parts, each to be held out once; one batch per part if few."""
    names = [str(name) for name in np.unique(batch)]
    folds = min(folds, len(names))
    return [names[first::folds] for first in range(folds)]


def every_other_control(wells: Wells, test: Mask) -> Mask:
    """Controls of held-out batches that normalisation may use and that are not scored."""
    chosen = np.zeros(len(test), dtype=bool)
    for batch in np.unique(wells.batch[test]):
        chosen[np.flatnonzero(wells.control & (wells.batch == batch))[::2]] = True
    return chosen


def score(
    name: str, components: int, fold: int, data: Data, settings: Settings, others: bool = False
) -> Record:
    """Score all inputs and learners on one held-out part: one row per task, input and seed.

    The arrays (rows, penalties) are auroc, sparsity (Hoyer's, of the weights), weights (the number
    of nonzero ones) and converged. Only for the first number of components are there inputs other
    than PCA and its rotations.
    """
    wells, s = read(name, data), settings
    part = held_out(wells.batch, s.folds)[fold]
    of = part[0] if len(part) == 1 else f"{part[0]} and {len(part) - 1} more"
    test = np.isin(wells.batch, part)
    train, spare = ~test, every_other_control(wells, test)
    known = wells.control & (train | spare)
    if components == s.components[0]:
        found = parts.inputs(wells, train, known, components, s.seeds, s.drop)
    else:
        base = parts.standardised(wells.x, train, wells.units)
        found = iter(parts.turned(parts.whitened(base, train, components), train, s.seeds))
    rows: list[dict[str, Any]] = []
    measured: list[list[tuple[float, ...]]] = []
    with one_thread(len(train)):
        for each in found:
            for task in tasks(wells, others):
                a, b = train & task.rows, test & task.rows & ~spare
                if len(np.unique(task.y[a])) < 2 or len(np.unique(task.y[b])) < 2:
                    continue
                carries = _concentration(each, task, a, known & train, wells.batch)
                for learner in LEARNERS:
                    row = {"set": name, "components": components, "held_out": of}
                    row |= {"task": task.name, "label": task.label, "input": each.name}
                    row |= {"seed": each.seed, "learner": learner, "axes": each.rows.shape[1]}
                    rows.append(row | {"ica_converged": each.converged} | carries)
                    measured.append([_one(each, task, a, b, learner, c) for c in s.penalties])
    names = ("auroc", "sparsity", "weights", "converged")
    arrays = np.array(measured, dtype=float).reshape(len(rows), len(s.penalties), len(names))
    return Record(rows, {key: arrays[:, :, place] for place, key in enumerate(names)})


def _one(each: Input, task: Task, a: Mask, b: Mask, learner: str, c: float) -> tuple[float, ...]:
    fit = parts.learn(each.rows[a], task.y[a], learner, c)
    area = parts.auroc(each.rows[b] @ fit.weights + fit.shift, task.y[b])
    return area, hoyer(fit.weights), float(np.count_nonzero(fit.weights)), float(fit.converged)


def _concentration(
    each: Input, task: Task, a: Mask, controls: Mask, batch: Strings
) -> dict[str, Any]:
    """Hoyer's sparsity over axes of the signals of label and of batch, on training rows only."""
    signal, _ = explained(each.rows[a], task.y[a].astype(str), batch[a])
    found = {"signal_sparsity": hoyer(np.sqrt(signal)), "batch_sparsity": None}
    if controls.any():
        shares, _ = explained(each.rows[controls], batch[controls])
        found["batch_sparsity"] = hoyer(np.sqrt(shares))
    return found | {"chance_sparsity": hoyer_chance(each.rows.shape[1])}


def carried(name: str, data: Data, settings: Settings) -> Record:
    """How much of each axis batch and label explain, over all batches: one row per axis.

    The batch effect is that among controls, or within labels if there are none.
    """
    wells, every = read(name, data), {"permutations": settings.permutations}
    all_rows = np.ones(len(wells.x), dtype=bool)
    base = parts.standardised(wells.x, all_rows, wells.units)
    white = parts.whitened(base, all_rows, settings.components[0])
    turned_by_ica, ica = parts.independent(white, all_rows, 0)
    some = wells.control if wells.control.any() else all_rows
    tables = []
    bases = {"pca": white, "ica": turned_by_ica, "random": parts.at_random(white, 0)}
    for basis, axes in bases.items():
        table = pd.DataFrame({"set": name, "basis": basis, "axis": np.arange(axes.shape[1]) + 1})
        found = {"batch": explained(axes[some], wells.batch[some], wells.label[some], **every)}
        if len(np.unique(wells.label)) > 1:
            found["label"] = explained(axes, wells.label, wells.batch, **every)
        for key, (shares, drawn) in found.items():
            table[key], table[f"{key}_chance"] = shares, drawn.mean(axis=0)
            table[f"{key}_chance_95"] = np.quantile(drawn, 0.95, axis=0)
        if basis == "ica":
            table["identified"], table["why_not"] = ica.axes_.identified, ica.axes_.why_not
        tables.append(table)
    rows = pd.concat(tables).astype(object)
    return Record(rows.where(rows.notna(), None).to_dict("records"))  # type: ignore[arg-type]


def chosen(records: list[Record], penalties: list[float]) -> pd.DataFrame:
    """The scores at a penalty that was chosen on other held-out parts and other labels.

    It is the C with the best mean AUROC there; of equally good ones the smallest, and without
    another part the middle one. The learners of the other parts were trained on wells of this part,
    though not for the same task. This holds for all inputs alike.
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
                # Rounded, so that equal values stay equal in any order of summation.
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
    """Means over seeds by (measure, input), one row per unit: a held-out part or a treatment.

    Compounds of one treatment share a learner and so do not vary independently.
    """
    there = where(scores, set=name, task=task, learner=learner)
    if there.empty:
        return there
    there = there[there["components"] == (components or there["components"].iloc[0])]
    unit = "label" if task in (EACH, OTHERS) else "held_out"
    mean = there.groupby([unit, "input"])[MEASURES].mean()
    return pd.DataFrame(mean.unstack("input"))


def means(scores: pd.DataFrame) -> pd.DataFrame:
    """AUROC of every input and its paired difference from PCA's, with intervals over units."""
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
    """Cosine of two profiles over axes: 1 if they are proportional, 0 if they share no axis."""
    x, y = a.to_numpy(float), b.to_numpy(float)
    return float(x @ y / (np.linalg.norm(x) * np.linalg.norm(y)))


def profile(axes: pd.DataFrame) -> pd.DataFrame:
    """For every basis: variance explained by batch and label, axes above chance, and sparsity."""
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
