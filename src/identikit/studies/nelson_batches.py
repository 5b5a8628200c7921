"""Nelson et al. on microscopy: do ICA's axes carry over to batches that were never seen?

The paper does not name its classifier. On whitened data, only one that prefers axes can profit from
a rotation. So a sparse one (L1) is used, with an L2 classifier as a control that cannot gain.
Controls are easily distinguished from most treatments of BBBC021, so one treatment is also tested
against the others.

The ten weeks of BBBC021 are the batches. Each compound occurs in one week only, so a held-out week
has compounds that were never seen. Nothing is fitted to its labels, and neither PCA nor ICA to its
rows; for TVN every other control of it is set aside and not scored. Of the single-cell data sets,
the cell lines have two types, and only one batch contains both; the blood cells have no types. So
only their axes are examined, before and after Harmony.

The paper's row "biological signal in top 25 % of features" is not measured: the known values cannot
be what the name says (the best quarter would hold at least a quarter, but raw has 0.163). The
control wells of Cell Health are not used either: a plate holds one cell line, so no held-out plate
has two classes, and effects of plate and line cannot be separated.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from identikit.errors import InputError
from identikit.report.drawing import BELOW, absent, sheet
from identikit.report.drawing import dots as draw_dots
from identikit.report.style import PALETTE
from identikit.studies import _batch_units as scoring
from identikit.studies import _checks as check
from identikit.studies._batch_data import NEEDS, read
from identikit.studies._batch_units import EACH, OTHERS, TREATED, by_unit
from identikit.studies._columns import where
from identikit.studies._figures import DASHED, Axes, Figure, dots
from identikit.studies._study import Claim, Finding, Settings, Study, Tables
from identikit.studies._work import Work, rows_of

# The claims are about the first of these data sets that was measured.
MAIN, SECOND = ("bbbc021_raw", "rxrx3_core", "planted"), ("bbbc021_normalised",)
PUBLISHED = pd.DataFrame(
    [
        ("EIF3H", 0.682, 0.724, 0.749, 0.725),
        ("CYP11B1", 0.663, None, 0.709, None),
        ("PLK1", 0.803, None, 0.815, None),
    ],
    columns=["gene", "raw", "pca", "ica", "random"],
)


def run(work: Work) -> Tables:
    """Score every held-out part of every data set, choose penalties, and describe the axes."""
    s = work.settings
    if list(s.penalties) != sorted(s.penalties) or not s.penalties:
        raise InputError(f"penalties is {s.penalties}; give C from the smallest to the largest")
    parts = []
    for name in s.sets:
        wells = read(name, work.data)
        if scoring.tasks(wells):
            folds = range(len(scoring.held_out(wells.batch, s.folds)))
            parts += [(name, k, fold) for k in s.components for fold in folds]
    shared: dict[str, Any] = {"processes": True, "data": work.data, "settings": s}
    records = work.each("{0},components={1},part={2}", scoring.score, parts, **shared)
    controlled = [
        each for each in parts
        if each[1] == s.components[0] and read(each[0], work.data).control.any()
    ]  # fmt: skip
    key = "others,{0},components={1},part={2}"
    records += work.each(key, scoring.score, controlled, others=True, **shared)
    axes = work.each("axes,{0}", scoring.carried, s.sets, **shared)
    scores = scoring.chosen(records, s.penalties)
    table = rows_of(axes).reindex(columns=scoring.AXES)
    return {
        "mean": scoring.means(scores),
        "scores": scores,
        "axes": table,
        "carried": scoring.profile(table),
        "published": PUBLISHED,
    }


# What the claims are checked on: one value per treatment or per held-out part.


def measured(tables: Tables, sets: tuple[str, ...]) -> str | None:
    """The first of these data sets that was scored."""
    there = set(tables["mean"]["set"]) if len(tables["mean"]) else set()
    return next((name for name in sets if name in there), None)


ABOVE = "Mean difference of AUROC with the sparse learner, paired; above 0 counts."


def compared(
    over: str, comment: str = ABOVE, *, sets: tuple[str, ...] = MAIN, input: str = "ica",
    task: str = EACH, learner: str = "L1", column: str = "auroc", within: float | None = None,
) -> Callable[[Tables], Finding]:  # fmt: skip
    """Check that an input scores above others, paired by unit; with `within`, that it is equal."""

    def by_units(tables: Tables) -> Finding:
        name, others = measured(tables, sets), over.split()
        if name is None:
            return check.unmeasured(f"Not measured in this run: {sets[0]}.")
        units = by_unit(tables["scores"], name, task, learner)[column]
        missing = [each for each in (input, *others) if each not in units]
        if missing:
            return check.unmeasured(f"Not measured of {name}: {', '.join(missing)}.")
        values = units[input] - np.maximum.reduce([units[each] for each in others])
        of = "held-out parts" if task == TREATED else "treatments"
        seen = ", ".join(f"{each} {units[each].mean():.3f}" for each in (input, *others))
        said = f"On {name}, over {len(values)} {of}: {seen}. {comment}{failures(tables, name)}"
        if within is None:
            return check.above(values, 1e-9, said)
        return check.within(values, -within, within, said)

    return by_units


def failures(tables: Tables, name: str) -> str:
    """How many fits did not converge, if any."""
    there = where(tables["mean"], set=name)
    learners, rotations = (int(there[key].sum()) for key in ("failed_fits", "failed_icas"))
    said = f" Fits that did not converge: {learners} of learners" if learners or rotations else ""
    return f"{said}, {rotations} with ICA's axes." if said else ""


ORDER = (
    "raw", "centred", "tvn", "pca", "ica", "random", "centred+pca", "centred+ica", "pca+tvn",
    "pca+tvn+ica", "pca dropped", "ica dropped", "random dropped",
)  # fmt: skip
TASKS = {
    EACH: "one against controls", TREATED: "all against controls", OTHERS: "one against others",
}  # fmt: skip
BASES = {"pca": "PCA axes", "ica": "ICA axes", "random": "Axes turned at random"}


def figure(tables: Tables, settings: Settings) -> Figure:
    """AUROC of every input, its difference from PCA's, and the effects of batch and treatment."""
    name = measured(tables, MAIN) or settings.sets[0]
    areas = {task: areas_of(tables["scores"], name, task, settings.components[0]) for task in TASKS}
    axes = where(tables["axes"], set=name)
    return sheet(
        [
            partial(_inputs, table=areas[task], y="auroc", says=f"AUROC, {words}", chance=0.5)
            for task, words in TASKS.items()
        ],
        [
            partial(_inputs, table=areas[task], y="over_pca", says=f"AUROC less PCA's, {words}")
            for task, words in TASKS.items()
        ],
        [
            partial(_shares, axes=axes[axes["basis"] == basis], title=title)
            for basis, title in BASES.items()
        ],
    )


def areas_of(scores: pd.DataFrame, name: str, task: str, components: int) -> pd.DataFrame:
    """AUROC and its difference from PCA's, by learner, input and unit (which acts as the seed)."""
    found = [pd.DataFrame(columns=["learner", "seed", "input", "auroc", "over_pca"])]
    for learner in scoring.LEARNERS if len(scores) else ():
        units = by_unit(scores, name, task, learner, components)
        if len(units):
            areas = units["auroc"][[each for each in ORDER if each in units["auroc"]]]
            long = areas.rename_axis("seed").melt(value_name="auroc", ignore_index=False)
            long["over_pca"] = long["auroc"] - areas["pca"].reindex(long.index)
            found.append(long.reset_index().assign(learner=f"{learner} learner"))
    return pd.concat(found[1:] or found)


def _inputs(ax: Axes, table: pd.DataFrame, y: str, says: str, chance: float | None = None) -> None:
    dots(ax, table, "input", y, by="learner", labels={"input": "", y: says}, chance=chance)
    ax.tick_params("x", rotation=90, labelsize=6)
    if len(table):
        ax.legend(**BELOW | {"loc": "lower center", "bbox_to_anchor": (0.5, 1.0)})


def _shares(ax: Axes, axes: pd.DataFrame, title: str) -> None:
    ax.set_title(title)
    if axes.empty or axes["label"].isna().any():
        absent(ax)
        return
    ax.set_xlim(0, 1)
    ax.set_ylim(0, 1)
    for column, draw in (("batch", ax.axvline), ("label", ax.axhline)):
        level = float(axes[f"{column}_chance_95"].mean())
        draw(level, color=PALETTE["muted"], lw=0.9, ls=DASHED)
    draw_dots(ax, axes["batch"].to_numpy(float), axes["label"].to_numpy(float), "accent", 5)
    ax.set_xlabel("η² of batch, among controls")
    ax.set_ylabel("η² of treatment, within batches")
    ax.text(0.97, 0.95, "dashed: 95 % by chance", ha="right", va="top", color=PALETTE["muted"],
            fontsize=7)  # fmt: skip


PRINTED = {
    "raw": "RxRx3-core, for scale: 0.749 against 0.682, 0.709 / 0.663, 0.815 / 0.803",
    "pca": "RxRx3-core, for scale: 0.749 against 0.724",
    "random": "RxRx3-core, for scale: 0.749 against 0.725",
}
paper = partial(Claim, source="microscopy table")
control = partial(Claim, published="not in the paper", source="open question", kind="control")
CLAIMS = (
    *(
        paper(
            f"over-{over}{end}", f"One treatment against controls: ICA beats {words}{of}.",
            PRINTED[over], check=compared(over, sets=sets))
        for sets, end, of in ((MAIN, "", ""), (SECOND, "-normalised", " (plate-normalised)"))
        for over, words in (
            ("raw", "raw features"), ("pca", "PCA"), ("random", "randomly rotated PCA"))
    ),
    paper("over-pca-treated", "All treatments against controls: ICA beats PCA.",
        "no number given", check=compared("pca", task=TREATED)),
    *(
        control(
            f"over-{over}-others", f"One treatment against the others: ICA beats {words}.",
            check=compared(over, task=OTHERS))
        for over, words in (("raw", "raw features"), ("pca", "PCA"), ("random", "random axes"))
    ),
    paper("random-as-pca", "One treatment against controls: randomly rotated PCA scores as well as "
        "PCA.", "RxRx3-core, for scale: 0.725 against 0.724", check=compared("pca",
        "Mean difference of AUROC with the sparse learner; within 0.01 counts.", input="random",
        within=0.01)),
    paper("l2-unaffected", "A learner that does not prefer any axes gains nothing from ICA.",
        "implied by PCA = PCA+Rand, not stated", kind="check", check=compared("pca",
        "Mean difference of AUROC with the L2 learner; within 0.002 counts.", learner="L2",
        within=0.002)),
    paper("sparsest", "The signal is sparser over ICA's axes than over raw, PCA or random ones.",
        "highest, no number known", check=compared("raw pca random", "Hoyer's sparsity of the "
        "correlations with the label within training batches, minus the highest of the three; "
        "above 0 counts. The paper does not define its vector.", column="signal_sparsity")),
    paper("raw-least-sparse", "The signal is least sparse over raw features.",
        "lowest, no number known", check=compared("raw", "Sparsity over random axes, the second "
        "lowest in the paper, minus that over raw features; above 0 counts.", input="random",
        column="signal_sparsity")),
    control("over-tvn", "One treatment against controls: ICA beats TVN with as many components.",
        check=compared("pca+tvn", f"{ABOVE} TVN of as many principal components; that of all "
        "features is in the table.")),
    control("batch-concentrated", "ICA concentrates the batch effect in fewer axes than PCA does.",
        check=compared("pca", "Hoyer's sparsity of √η² of batch among training controls; above 0 "
        "counts.", column="batch_sparsity", task=TREATED)),
    control("drop", "It helps to omit the quarter of ICA's axes with the largest batch effect.",
        check=compared("ica", input="ica dropped")),
)  # fmt: skip
LAPTOP: dict[str, Any] = {
    "penalties": [0.003, 0.01, 0.03, 0.1, 0.3, 1.0], "folds": 10, "drop": 0.25, "seeds": 5,
    "sets": ["bbbc021_raw", "bbbc021_normalised", "cell_lines", "pbmc", "pbmc_harmony"],
    # ICA needs about k² rows for k axes, and there are 600 wells.
    "components": [24, 12, 48], "permutations": 500,
}  # fmt: skip
SMOKE = LAPTOP | {
    "seeds": 2, "sets": ["planted"], "components": [16], "permutations": 100,
    "penalties": [0.01, 0.1, 1.0], "folds": 3,
}  # fmt: skip
# The paper's data; how many components it keeps is not known.
PAPER = LAPTOP | {"sets": ["rxrx3_core"], "components": [64, 128]}
STUDY = Study(
    name="nelson-batches",
    title="ICA axes and batches that were never seen",
    paper="Nelson et al., ICLR 2026 (arXiv 2603.11970), cell microscopy",
    about=(
        "Linear learners distinguish control wells from treated ones in held-out batches. Their "
        "inputs are raw features, batch-corrected features, principal components, and components "
        "rotated by ICA or at random. One learner is sparse; the other is insensitive to "
        "rotations. The paper's numbers, known only second hand, come from other data (six genes "
        "of RxRx3-core) and are shown for scale. "
        "Intervals are over held-out batches, or over treatments, which share training wells and "
        "so are not quite independent. The paper's row on the top 25 % of features is not "
        "measured, because its values do not fit its name."
    ),
    presets={"smoke": SMOKE, "laptop": LAPTOP, "paper": PAPER},
    run=run, claims=CLAIMS, figure=figure, needs=NEEDS,
)  # fmt: skip
