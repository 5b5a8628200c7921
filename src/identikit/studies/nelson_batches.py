"""Nelson et al. on microscopy: do ICA's axes carry over to batches that were never seen?

Control wells are told from treated ones by a linear learner that is trained on some batches and
scored, by the area under the ROC curve, on others. Its inputs are raw features, principal
components of unit variance (PCA), these turned by ICA, or turned at random. The paper finds ICA
best on six genes of RxRx3-core and does not name its learner. Of learners on whitened data, only
one that prefers axes can tell rotations apart: so a sparse one (L1) is used, and an L2 one beside
it as the control that cannot gain. Controls are easily told from most treatments of BBBC021; one
treatment is told from the others too, which is harder.

Here the wells are those of BBBC021, whose ten weeks are the batches. A compound is in one week
only, so that a week that is held out has compounds that were never seen. Nothing is fitted to the
labels of a held-out week, and PCA and ICA not to its rows. Also measured: centring and scaling by
batch; typical variation normalisation (TVN) by controls, of which every other one of a held-out
week is set aside for it and not scored; how much of each axis is batch (among controls) and how
much treatment (within batches); and what leaving out the axes with most batch does. Of the
single-cell sets, the cell lines have two types of which one batch holds both, and the blood cells
no types, so that only their axes are looked at, before and after Harmony.

The paper's row "biological signal in top 25 % of features" is not measured: what is known of it
cannot be what its name says (the best quarter would hold a quarter at least; raw has 0.163). Nor
are Cell Health's control wells: a plate holds one cell line, so that no held-out plate has two
classes, and plate and line cannot be told apart.
"""

from __future__ import annotations

from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from identikit._linalg import one_thread
from identikit.errors import InputError
from identikit.report._drawing import absent, dots, sheet
from identikit.report._style import PALETTE
from identikit.studies._batch_data import CONTROL, NEEDS, Strings, Wells, read
from identikit.studies._batch_tables import (
    AXES,
    EACH,
    OTHERS,
    TREATED,
    TYPES,
    by_unit,
    chosen,
    means,
    profile,
)
from identikit.studies._batches import (
    Input,
    Mask,
    auroc,
    explained,
    haar,
    hoyer,
    hoyer_chance,
    independent,
    inputs,
    learn,
    standardised,
    turned,
    whitened,
)
from identikit.studies._data import Data
from identikit.studies._store import Record
from identikit.studies._study import (
    UNMEASURED,
    Claim,
    Finding,
    Settings,
    Study,
    Tables,
    judge,
)
from identikit.studies._work import Work

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LEARNERS = ("L1", "L2")
BASES = ("pca", "ica", "random")
# The set that claims are of: the first of these that was measured.
MAIN, SECOND = ("bbbc021_raw", "rxrx3_core", "planted"), "bbbc021_normalised"
PUBLISHED = pd.DataFrame(
    [
        ("EIF3H", 0.682, 0.724, 0.749, 0.725),
        ("CYP11B1", 0.663, None, 0.709, None),
        ("PLK1", 0.803, None, 0.815, None),
    ],
    columns=["gene", "raw", "pca", "ica", "random"],
)


class Task(NamedTuple):
    """What is to be told apart: rows that take part, and which of them are positive."""

    name: str
    label: str
    rows: Mask
    y: Mask


def tasks(wells: Wells, others: bool = False) -> list[Task]:
    """Every treatment, and each, against the controls; where there are none, two types.

    Parameters
    ----------
    wells : Wells
    others : bool
        Instead, each treatment against the other ones.
    """
    every = np.ones(len(wells.x), dtype=bool)
    names = [str(name) for name in np.unique(wells.label) if name != CONTROL]
    if others:
        return [Task(OTHERS, name, ~wells.control, wells.label == name) for name in names]
    if wells.control.any():
        each = [
            Task(EACH, name, wells.control | (wells.label == name), wells.label == name)
            for name in names
        ]
        return [Task(TREATED, TREATED, every, ~wells.control), *each]
    return [Task(TYPES, names[1], every, wells.label == names[1])] if len(names) == 2 else []


def held_out(batch: Strings, folds: int) -> list[list[str]]:
    """Batches in parts, each of which is held out once: one batch each if there are few."""
    names = [str(name) for name in np.unique(batch)]
    folds = min(folds, len(names))
    return [names[first::folds] for first in range(folds)]


def every_other_control(wells: Wells, test: Mask) -> Mask:
    """Controls of held-out batches that normalisation may look at, and that are not scored."""
    chosen = np.zeros(len(test), dtype=bool)
    for batch in np.unique(wells.batch[test]):
        chosen[np.flatnonzero(wells.control & (wells.batch == batch))[::2]] = True
    return chosen


def score(
    name: str, components: int, fold: int, data: Data, settings: Settings, others: bool = False
) -> Record:
    """All inputs, learners and penalties on one part of the batches, held out: a unit of work.

    Parameters
    ----------
    name : str
        Of the set.
    components : int
        Principal components; if not the first number of the settings, PCA and its rotations alone.
    fold : int
        Which part.
    data : Data
    settings : Settings
        Of the study.
    others : bool
        Tell treatments from the other ones, not from controls.

    Returns
    -------
    Record
        A row a task, input, seed and learner; arrays (rows, penalties) auroc, sparsity (Hoyer's, of
        the weights), weights (how many are not zero) and converged.
    """
    wells, s = read(name, data), settings
    part = held_out(wells.batch, s.folds)[fold]
    of = part[0] if len(part) == 1 else f"{part[0]} and {len(part) - 1} more"
    test = np.isin(wells.batch, part)
    train, spare = ~test, every_other_control(wells, test)
    known = wells.control & (train | spare)
    if components == s.components[0]:
        found = inputs(wells, train, known, components, s.seeds, s.drop)
    else:
        base = standardised(wells.x, train, wells.units)
        found = iter(turned(whitened(base, train, components), train, s.seeds))
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
    fit = learn(each.rows[a], task.y[a], learner, c)
    area = auroc(each.rows[b] @ fit.weights + fit.shift, task.y[b])
    return area, hoyer(fit.weights), float(np.count_nonzero(fit.weights)), float(fit.converged)


def _concentration(
    each: Input, task: Task, a: Mask, controls: Mask, batch: Strings
) -> dict[str, Any]:
    """Hoyer's sparsity over axes of the label's signal, and of the batch's: training rows only."""
    signal, _ = explained(each.rows[a], task.y[a].astype(str), batch[a])
    found = {"signal_sparsity": hoyer(np.sqrt(signal)), "batch_sparsity": None}
    if controls.any():
        shares, _ = explained(each.rows[controls], batch[controls])
        found["batch_sparsity"] = hoyer(np.sqrt(shares))
    return found | {"chance_sparsity": hoyer_chance(each.rows.shape[1])}


def carried(name: str, data: Data, settings: Settings) -> Record:
    """How much of each axis is batch and how much is label, over all batches: a unit of work.

    Batch: among controls; without controls, within labels. Label: within batches.

    Parameters
    ----------
    name : str
        Of the set.
    data : Data
    settings : Settings
        `components` and `permutations`.
    """
    wells, every = read(name, data), {"permutations": settings.permutations}
    all_rows = np.ones(len(wells.x), dtype=bool)
    base = standardised(wells.x, all_rows, wells.units)
    white = whitened(base, all_rows, settings.components[0])
    turned_by_ica, ica = independent(white, all_rows, 0)
    random = white @ haar(white.shape[1], 0)
    some = wells.control if wells.control.any() else all_rows
    tables = []
    for basis, axes in (("pca", white), ("ica", turned_by_ica), ("random", random)):
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


def run(work: Work) -> Tables:
    """Score every held-out part of every set, choose penalties, and describe the axes."""
    s = work.settings
    if list(s.penalties) != sorted(s.penalties) or not s.penalties:
        raise InputError(f"penalties is {s.penalties}; give C from the smallest to the largest")
    parts = []
    for name in s.sets:
        wells = read(name, work.data)
        if tasks(wells):
            folds = range(len(held_out(wells.batch, s.folds)))
            parts += [(name, k, fold) for k in s.components for fold in folds]
    shared: dict[str, Any] = {"processes": True, "data": work.data, "settings": s}
    records = work.each("{0},components={1},part={2}", score, parts, **shared)
    controlled = [
        each for each in parts
        if each[1] == s.components[0] and read(each[0], work.data).control.any()
    ]  # fmt: skip
    key = "others,{0},components={1},part={2}"
    records += work.each(key, score, controlled, others=True, **shared)
    axes = work.each("axes,{0}", carried, s.sets, **shared)
    scores = chosen(records, s.penalties)
    table = pd.DataFrame(list(chain.from_iterable(record.rows for record in axes)), columns=AXES)
    return {
        "mean": means(scores),
        "scores": scores,
        "axes": table,
        "carried": profile(table),
        "published": PUBLISHED,
    }


def measured(tables: Tables, sets: tuple[str, ...]) -> str | None:
    """The first of some sets that was scored."""
    there = set(tables["mean"]["set"]) if len(tables["mean"]) else set()
    return next((name for name in sets if name in there), None)


def compare(
    tables: Tables,
    sets: tuple[str, ...],
    over: tuple[str, ...],
    comment: str,
    *,
    input: str = "ica",
    task: str = EACH,
    learner: str = "L1",
    column: str = "auroc",
    within: float | None = None,
) -> Finding:
    """Whether an input is above others, paired by unit; or, if `within` is given, no different."""
    name = measured(tables, sets)
    if name is None:
        return Finding(None, None, UNMEASURED, f"Not measured in this run: {sets[0]}.")
    units = by_unit(tables["scores"], name, task, learner)[column]
    missing = [each for each in (input, *over) if each not in units]
    if missing:
        return Finding(None, None, UNMEASURED, f"Not measured of {name}: {', '.join(missing)}.")
    values = list(units[input] - np.maximum.reduce([units[each] for each in over]))
    of = "held-out parts" if task == TREATED else "treatments"
    seen = ", ".join(f"{each} {units[each].mean():.3f}" for each in (input, *over))
    comment = f"On {name}, over {len(values)} {of}: {seen}. {comment}{_failures(tables, name)}"
    if within is None:
        return judge(values, low=1e-9, comment=comment)
    return judge(values, -within, within, comment)


def _failures(tables: Tables, name: str) -> str:
    there = tables["mean"][tables["mean"]["set"] == name]
    learners, rotations = (int(there[key].sum()) for key in ("failed_fits", "failed_icas"))
    said = f" Fits that did not converge: {learners} of learners" if learners or rotations else ""
    return f"{said}, {rotations} with ICA's axes." if said else ""


def figure(tables: Tables, settings: Settings) -> Figure:
    """AUROC of every input, its difference to PCA's, and what the axes carry."""
    name = measured(tables, MAIN) or settings.sets[0]
    mean, axes = tables["mean"], tables["axes"]
    if len(mean):
        mean = mean[(mean["set"] == name) & (mean["components"] == settings.components[0])]
    axes = axes[axes["set"] == name]
    titles = {
        EACH: "One against controls",
        TREATED: "All against controls",
        OTHERS: "One against others",
    }
    return sheet(
        *(
            [
                partial(_bars, mean=mean, task=task, key=key, title=f"{title}{end}")
                for task, title in titles.items()
            ]
            for key, end in (("auroc", ""), ("over_pca", " − PCA"))
        ),
        [
            partial(_shares, axes=axes[axes["basis"] == basis], title=title)
            for basis, title in zip(BASES, ("PCA axes", "ICA axes", "Axes turned at random"))
        ],
    )


def _bars(ax: Axes, mean: pd.DataFrame, task: str, key: str, title: str) -> None:
    ax.set_title(title)
    there = mean[mean["task"] == task] if len(mean) else mean
    if there.empty:
        absent(ax)
        return
    names = list(there.loc[there["learner"] == "L1", "input"])
    names = [each for each in ORDER if each in names]
    for learner, colour, shift in (("L1", "accent", -0.15), ("L2", "second", 0.15)):
        rows = there[there["learner"] == learner].set_index("input").loc[names]
        y = np.arange(len(names)) + shift
        ends = rows[[f"{key}_low", f"{key}_high"]].astype(float)
        ax.hlines(y, ends.iloc[:, 0], ends.iloc[:, 1], color=PALETTE[colour], lw=1.2)
        ax.plot(rows[key], y, "o", ms=3, color=PALETTE[colour], label=f"{learner} learner")
    level, word = (0.5, "chance") if key == "auroc" else (0.0, "PCA")
    ax.axvline(level, color=PALETTE["muted"], lw=0.9, ls=(0, (4, 2)), label=word)
    ax.set_yticks(range(len(names)), names)
    ax.invert_yaxis()
    ax.set_xlabel("AUROC on held-out batches" if key == "auroc" else "difference of AUROC")
    ax.legend(frameon=False, fontsize=6.5, ncols=3, loc="upper center", bbox_to_anchor=(0.4, -0.2))


def _shares(ax: Axes, axes: pd.DataFrame, title: str) -> None:
    ax.set_title(title)
    if axes.empty or axes["label"].isna().any():
        absent(ax)
        return
    ax.set_xlim(0, 1)
    ax.set_ylim(0, 1)
    for column, draw in (("batch", ax.axvline), ("label", ax.axhline)):
        level = float(axes[f"{column}_chance_95"].mean())
        draw(level, color=PALETTE["muted"], lw=0.9, ls=(0, (4, 2)))
    dots(ax, axes["batch"].to_numpy(float), axes["label"].to_numpy(float), "accent", 5)
    ax.set_xlabel("η² of batch, among controls")
    ax.set_ylabel("η² of treatment, within batches")
    ax.text(0.97, 0.95, "dashed: 95 % by chance", ha="right", va="top", color=PALETTE["muted"],
            fontsize=7)  # fmt: skip


ORDER = (
    "raw", "centred", "tvn", "pca", "ica", "random", "centred+pca", "centred+ica", "pca+tvn",
    "pca+tvn+ica", "pca dropped", "ica dropped", "random dropped",
)  # fmt: skip
SCALE = "RxRx3-core, for scale: "
NOT_SAID = "not in the paper"
ABOVE = "Mean difference of AUROC with the sparse learner, paired; above 0 counts."


def _claim(
    key: str, says: str, published: str, over: str, comment: str = ABOVE, **how: Any
) -> Claim:
    where = "open question" if published == NOT_SAID else "microscopy table"
    how = {"sets": MAIN, "over": tuple(over.split()), "comment": comment} | how
    return Claim(key, says, published, where, partial(compare, **how))


def _claims() -> tuple[Claim, ...]:
    claims = []
    for sets, suffix, of in ((MAIN, "", ""), ((SECOND,), "-normalised", " (plate-normalised)")):
        for over, words, printed in (
            ("raw", "raw features", "0.749 against 0.682, 0.709 / 0.663, 0.815 / 0.803"),
            ("pca", "PCA", "0.749 against 0.724"),
            ("random", "PCA turned at random", "0.749 against 0.725"),
        ):
            says = f"One treatment against controls: ICA is above {words}{of}."
            claims.append(_claim(f"over-{over}{suffix}", says, SCALE + printed, over, sets=sets))
    return (
        *claims,
        _claim(
            "over-pca-treated", "All treatments against controls: ICA is above PCA.",
            "no number given", "pca", task=TREATED,
        ),
        *(
            _claim(
                f"over-{over}-others", f"One treatment against the others: ICA is above {words}.",
                NOT_SAID, over, task=OTHERS,
            )
            for over, words in (("raw", "raw features"), ("pca", "PCA"), ("random", "random axes"))
        ),
        _claim(
            "random-as-pca", "A random rotation scores as PCA does.",
            SCALE + "0.725 against 0.724", "pca",
            "Mean difference of AUROC with the sparse learner; within 0.01 counts.",
            input="random", within=0.01,
        ),
        _claim(
            "l2-unaffected", "A learner without a preference for axes gains nothing from ICA.",
            "implied by PCA = PCA+Rand, not stated", "pca",
            "Mean difference of AUROC with the L2 learner; within 0.002 counts.",
            learner="L2", within=0.002,
        ),
        _claim(
            "sparsest", "The signal is sparser over ICA's axes than over raw, PCA or random ones.",
            "highest, no number known", "raw pca random",
            "Hoyer's sparsity of the correlations with the label within training batches, less the "
            "highest of the three; above 0 counts. The paper's vector is not known.",
            column="signal_sparsity",
        ),
        _claim(
            "raw-least-sparse", "It is least sparse over raw features.",
            "lowest, no number known", "raw",
            "Random axes, which the paper has next to the lowest, less raw ones; above 0 counts.",
            input="random", column="signal_sparsity",
        ),
        _claim(
            "over-tvn", "ICA is above TVN.", NOT_SAID, "pca+tvn",
            f"{ABOVE} TVN of as many principal components; that of all features is in the table.",
        ),
        _claim(
            "batch-concentrated", "ICA gathers the batch in fewer axes than PCA does.",
            NOT_SAID, "pca",
            "Hoyer's sparsity of √η² of batch among training controls; above 0 counts.",
            column="batch_sparsity", task=TREATED,
        ),
        _claim(
            "drop", "Leaving out the quarter of ICA's axes that carries most batch helps.",
            NOT_SAID, "ica", input="ica dropped",
        ),
    )  # fmt: skip


# fmt: off
COMMON = {"penalties": [0.003, 0.01, 0.03, 0.1, 0.3, 1.0], "folds": 10, "drop": 0.25}
PRESETS = {
    "smoke": COMMON | {
        "seeds": 2, "sets": ["planted"], "components": [16], "permutations": 100,
        "penalties": [0.01, 0.1, 1.0], "folds": 3,
    },
    # ICA needs about k² rows for k axes, and there are 600 wells.
    "laptop": COMMON | {
        "seeds": 5,
        "sets": ["bbbc021_raw", "bbbc021_normalised", "cell_lines", "pbmc", "pbmc_harmony"],
        "components": [24, 12, 48], "permutations": 500,
    },
    # The paper's data; how many components it keeps is not known.
    "paper": COMMON | {
        "seeds": 5, "sets": ["rxrx3_core"], "components": [64, 128], "permutations": 500,
    },
}
# fmt: on

STUDY = Study(
    name="nelson-batches",
    title="ICA axes and batches that were never seen",
    paper="Nelson et al., ICLR 2026 (arXiv 2603.11970), cell microscopy",
    about=(
        "Control wells are told from treated ones in batches that were held out, from raw "
        "features, batch-corrected ones, principal components, and these turned by ICA or at "
        "random, by a sparse learner and by one that cannot tell rotations apart. The paper's "
        "numbers, known second hand, are of other data (six genes of RxRx3-core) and stand beside "
        "these for scale. "
        "Intervals are over held-out batches, or over treatments, which share training wells and "
        "so are not quite independent. The paper's row on the top 25 % of features is not "
        "measured: it cannot be what its name says."
    ),
    presets=PRESETS,
    needs=NEEDS,
    run=run,
    claims=_claims(),
    figure=figure,
)
