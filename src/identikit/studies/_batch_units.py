"""Units of nelson-batches, and their tables: scores, means with intervals, and axes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from identikit._linalg import Array
from identikit._threads import one_thread
from identikit.studies import _batches as parts
from identikit.studies._batch_data import CONTROL, Strings, Wells, read
from identikit.studies._batches import Input, Mask, explained, hoyer, hoyer_chance
from identikit.studies._columns import where
from identikit.studies._data import Data
from identikit.studies._study import Record, Settings, mean_interval

Rows = NDArray[np.intp]
#: The number of parts into which training wells are divided to choose a penalty.
INNER = 3
#: With fewer controls in a batch, none can be set aside for TVN.
ENOUGH = 12
AXES = [
    "set", "basis", "axis", "batch", "batch_chance", "batch_chance_95", "label", "label_chance",
    "label_chance_95", "identified", "why_not",
]  # fmt: skip
MEASURES = ["auroc", "signal_sparsity", "chance_sparsity", "weights", "l2_change"]
SCORES = [
    "set", "held_out", "label", "seed", "input", "penalty", "converged", "ica_converged", *MEASURES,
]  # fmt: skip


def held_out(batch: Strings, folds: int) -> list[list[str]]:
    """The batches divided into parts, each to be held out once; one batch per part if few."""
    names = [str(name) for name in np.unique(batch)]
    folds = min(folds, len(names))
    return [names[first::folds] for first in range(folds)]


def every_other_control(wells: Wells, test: Mask) -> Mask:
    """Controls of held-out batches that TVN may use and that are not scored; none if few."""
    chosen = np.zeros(len(test), dtype=bool)
    if np.unique(wells.batch[wells.control], return_counts=True)[1].min() < ENOUGH:
        return chosen
    for batch in np.unique(wells.batch[test]):
        chosen[np.flatnonzero(wells.control & (wells.batch == batch))[::2]] = True
    return chosen


def score(name: str, fold: int, data: Data, settings: Settings) -> Record:
    """Score all inputs on one held-out part: one row per treatment, draw and input.

    A draw takes a few treated wells and a few controls of the training batches, the same for every
    input. Treatments with fewer training wells, or with none in the held-out part, are left out.
    """
    wells, s = read(name, data), settings
    part = held_out(wells.batch, s.folds)[fold]
    of = part[0] if len(part) == 1 else f"{part[0]} and {len(part) - 1} more"
    test = np.isin(wells.batch, part)
    train, spare = ~test, every_other_control(wells, test)
    known = wells.control & (train | spare)
    scored = wells.control & test & ~spare
    rows: list[dict[str, Any]] = []
    with one_thread(len(train)):
        for seed in range(s.seeds):
            found = list(parts.inputs(wells, train, known, s.components, seed))
            for place, label in enumerate(np.unique(wells.label)):
                treated = wells.label == label
                if label == CONTROL or not (treated & test).any() or not scored.any():
                    continue
                if (treated & train).sum() < max(s.wells, INNER):
                    continue
                rng = np.random.default_rng([seed, fold, place])
                positive, negative = (
                    drawn(wells.batch, of & train, count, rng)
                    for of, count in ((treated, s.wells), (wells.control, s.controls))
                )
                b = np.flatnonzero((treated & test) | scored)
                row = {"set": name, "held_out": of, "label": str(label), "seed": seed}
                signal = treated, (treated | wells.control) & train, wells.batch
                for each in found:
                    one = _one(each, [positive, negative], b, treated, s.penalties)
                    one |= {"signal_sparsity": sparsity(each.rows, *signal)}
                    one |= {"chance_sparsity": hoyer_chance(each.rows.shape[1])}
                    one |= {"ica_converged": each.converged, "l2_change": None}
                    rows.append(row | {"input": each.name} | one)
                change = _l2_change(found, np.concatenate([positive, negative]), b, treated)
                rows[-len(found) + [each.name for each in found].index("ica")]["l2_change"] = change
    return Record(rows)


def drawn(batch: Strings, of: Mask, count: int, rng: np.random.Generator) -> Rows:
    """Some of these rows, or all if `count` is 0, ordered by batch with batches in random order."""
    rows = rng.permutation(np.flatnonzero(of))[: count or None]
    order = rng.permutation(np.unique(batch))
    return rows[np.argsort((batch[rows][:, None] == order).argmax(axis=1), kind="stable")]


def _one(
    each: Input, classes: list[Rows], b: Rows, y: Mask, penalties: list[float]
) -> dict[str, Any]:
    """Choose a penalty inside the training wells, fit with it, and score the rows b."""
    a = np.concatenate(classes)
    c = penalty(each.rows, classes, y, penalties)
    fit = parts.learn(each.rows[a], y[a], "L1", c)
    area = parts.auroc(each.rows[b] @ fit.weights + fit.shift, y[b])
    used = float(np.count_nonzero(fit.weights))
    return {"auroc": area, "penalty": c, "weights": used, "converged": fit.converged}


def penalty(rows: Array, classes: list[Rows], y: Mask, penalties: list[float]) -> float:
    """The C with the best mean AUROC on parts of the training wells, left out one at a time.

    Wells of one batch are in one part as far as possible. Of equally good values of C, the one with
    the smallest loss is chosen.
    """
    folds = list(zip(*(np.array_split(own, INNER) for own in classes)))
    areas, losses = np.zeros((2, len(folds), len(penalties)))
    for place, fold in enumerate(folds):
        out = np.concatenate(fold)
        kept = np.setdiff1d(np.concatenate(classes), out)
        for at, c in enumerate(penalties):
            fit = parts.learn(rows[kept], y[kept], "L1", c)
            found = rows[out] @ fit.weights + fit.shift
            areas[place, at] = parts.auroc(found, y[out])
            losses[place, at] = parts.separate_loss(found, y[out])
    # Rounded, so that equal values stay equal in any order of summation.
    area = areas.mean(axis=0).round(9)
    return penalties[int(np.where(area == area.max(), losses.mean(axis=0), np.inf).argmin())]


def _l2_change(found: list[Input], a: Rows, b: Rows, y: Mask) -> float:
    """The largest change of a score by ICA's rotation, for a learner that prefers no axes."""
    scores = [
        each.rows[b] @ (fit := parts.learn(each.rows[a], y[a], "L2", 1.0)).weights + fit.shift
        for each in found
        if each.name in ("pca", "ica")
    ]
    return float(np.abs(scores[0] - scores[1]).max())


def sparsity(rows: Array, treated: Mask, of: Mask, batch: Strings) -> float:
    """Hoyer's sparsity of the correlations of axes with the treatment, within batches."""
    signal, _ = explained(rows[of], treated[of].astype(str), batch[of])
    return hoyer(np.sqrt(signal))


def carried(name: str, data: Data, settings: Settings) -> Record:
    """How much of each axis batch and label explain, over all batches: one row per axis.

    The batch effect is that among controls, or within labels if there are none.
    """
    wells, every = read(name, data), {"permutations": settings.permutations}
    all_rows = np.ones(len(wells.x), dtype=bool)
    base = parts.standardised(wells.x, all_rows, wells.units)
    white = parts.whitened(base, all_rows, settings.components)
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


def by_treatment(scores: pd.DataFrame, name: str) -> pd.DataFrame:
    """Means by (measure, input), with one row per treatment: over draws and held-out parts.

    Draws of one treatment share wells, so they are averaged before any interval is computed.
    """
    own = where(scores, set=name)
    mean = own.groupby(["label", "input"])[MEASURES].mean()
    return pd.DataFrame(mean.unstack("input"))


def means(scores: pd.DataFrame) -> pd.DataFrame:
    """AUROC of every input and its paired difference from PCA's, with intervals over treatments."""
    rows = []
    for name, group in scores.groupby("set", sort=False):
        units = by_treatment(scores, str(name))
        for column in group["input"].unique():
            of = where(group, input=column)
            row: dict[str, Any] = {"set": name, "input": column, "treatments": len(units)}
            differences = units["auroc"][column] - units["auroc"]["pca"]
            for key, values in (("auroc", units["auroc"][column]), ("over_pca", differences)):
                mean, interval = mean_interval(list(values))
                low, high = interval or (None, None)
                row |= {key: mean, f"{key}_low": low, f"{key}_high": high}
            row |= {key: units[key][column].mean() for key in MEASURES[1:4]}
            row |= {"median_penalty": of["penalty"].median()}
            row |= {"failed_fits": int((~of["converged"].astype(bool)).sum())}
            rows.append(row | {"failed_icas": int((~of["ica_converged"].astype(bool)).sum())})
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
