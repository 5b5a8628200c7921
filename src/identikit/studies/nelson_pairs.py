"""Table 1 of Nelson et al.: how alike two runs are inside the network, up to each kind of map.

The inner layer is one that a nonlinear decoder or head follows. ICA of each side alone should
remove part of the error that a permutation of raw axes leaves. Its efficiency is (e_perm −
e_ICA)/(e_perm − e_rigid): 0 is no better than the permutation, 1 as good as the best rigid map. It
may exceed 1, because ICA whitens and a rigid map cannot. All errors are those of `identikit near`.

A seed may end in a worse optimum than the others, whose inner layer says nothing about the best
one. So only seeds whose loss is near the lowest are judged, and the comments give their share.

The paper does not say whether all its columns are after whitening. Its rigid errors are up to three
times the linear ones, and whitening would have made them nearly equal. So the claims use raw
coordinates, and whitened ones have a table of their own. With --set a=FOLDER --set b=FOLDER, two
folders of `identikit extract` are compared instead, at every layer that both have.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from identikit.errors import InputError
from identikit.report.drawing import BELOW, sheet
from identikit.report.style import PALETTE
from identikit.studies import _checks as check
from identikit.studies import _near_pairs as near
from identikit.studies._columns import where
from identikit.studies._data import CIFAR10, CORPORA, Data, Need
from identikit.studies._figures import DASHED, Axes, Figure, curve
from identikit.studies._near_pairs import EFFICIENCY, GPT2, MODELS, OWN_ROWS, RAW, WHITENED
from identikit.studies._study import (
    Claim,
    Finding,
    Record,
    Settings,
    Study,
    Tables,
    control,
    per_seed,
)
from identikit.studies._work import Work, rows_of

#: How far above the lowest loss of all seeds a seed may end: nats, share of errors, of variance.
SLACK = {GPT2: 0.1, near.CLASSIFIER: 0.05, near.AUTOENCODER: 0.05}


def source(data: Data, need: Need) -> Data:
    """The data folder if it has what is needed, else the stand-in for it."""
    return data if data.find(need) is not None else Data(need.stand_in)


def run(work: Work) -> Tables:
    """Compare two extracted folders if they are given, else networks that are trained here."""
    s = work.settings
    if bool(s.a) != bool(s.b):
        raise InputError(f"a is {s.a!r} and b is {s.b!r}; give two extracted folders, or neither")
    pairs, models = of_folders(work) if s.a else of_trained(work)
    tables = {name: near.summary(pairs[pairs["coordinates"] == name]) for name in (RAW, WHITENED)}
    return tables | {"published": pd.DataFrame(near.TABLE_1), "pairs": pairs, "models": models}


def of_trained(work: Work) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Train all seeds of every model and compare all pairs; the tables of pairs and of networks."""
    from identikit.studies import _pairs as networks

    s = work.settings
    if s.seeds < 2 or not set(s.models) <= set(MODELS) or s.gpt2_corpus not in CORPORA:
        raise InputError(
            f"seeds is {s.seeds}, models is {s.models} and gpt2_corpus {s.gpt2_corpus!r}; give two "
            f"seeds or more, models out of {', '.join(MODELS)}, and a text out of "
            f"{', '.join(CORPORA)}"
        )
    images, words = source(work.data, CIFAR10), source(work.data, CORPORA[s.gpt2_corpus])
    pairs: list[Record] = []
    models: list[Record] = []
    for model in [name for name in MODELS if name in s.models]:
        name, groups = images.stand_in or "cifar10", None
        given: dict[str, Any] = {"data": images}
        if model == GPT2:
            name = words.stand_in or s.gpt2_corpus
            text = work.unit(f"text,{name}", networks.text_for_gpt2, words, s)
            windows = text.arrays["test"]
            groups, given = np.repeat(np.arange(len(windows)), windows.shape[1] - 1), {"text": text}
        # The settings do not include the data, so the data are part of the units' names.
        key = f"{model},{name},seed={{0}}"
        given |= {"processes": True, "checkpoints": True, "settings": s}
        learned = work.each(key, networks.LEARN[model], range(s.seeds), **given)
        models += learned
        cases = [
            (model, a, b, [learned[seed].arrays["view"] for seed in (a, b)])
            for a, b in combinations(range(s.seeds), 2)
        ]
        key = f"pairs,{name},{{0}},{{1}}-{{2}}"
        given = {"processes": True, "groups": groups, "max_rows": s.rows}
        pairs += work.each(key, near.compare, cases, **given)
    return rows_of(pairs), rows_of(models)


def of_folders(work: Work) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Compare two folders of `identikit extract`; the tables of pairs and of networks."""
    folders = [Path(work.settings.a).absolute(), Path(work.settings.b).absolute()]
    manifests, layers, groups = near.extracts(folders)
    files = [{str(of["layer"]): of["file"] for of in each["layers"]} for each in manifests]
    # The settings do not include the folders' contents, so their size is part of the units' names.
    size = sum(sum(each["files"].values()) for each in manifests)
    a, b = (folder.name for folder in folders)
    cases = [
        (f"layer={layer}", a, b, [f / of[layer] for f, of in zip(folders, files)])
        for layer in layers
    ]
    given: dict[str, Any] = {"processes": True, "groups": groups, "max_rows": near.MOST_ROWS}
    compared = work.each(f"folders,{size},{{0}}", near.compare, cases, **given)
    about = [
        {"folder": str(folder), "model": each["model"]["name"], "rows": each["rows"]}
        for folder, each in zip(folders, manifests)
    ]
    return rows_of(compared), pd.DataFrame(about)


# What the claims are checked on.


def reached(tables: Tables, model: str) -> tuple[set[int], float]:
    """The seeds of a model whose loss is near the lowest one, and their share."""
    own = where(tables["models"], model=model)
    good, share = check.best(own["seed"].to_list(), own["loss"].to_list(), None, SLACK[model])
    return set(good), share


def trained(tables: Tables, model: str, coordinates: str = RAW) -> pd.DataFrame:
    """The pairs of seeds of one model that reached the optimum, with ratios and differences."""
    own = where(tables["pairs"], model=model, coordinates=coordinates)
    if len(own):
        good, _ = reached(tables, model)
        own = own[own["a"].isin(good) & own["b"].isin(good)]
    own = own.astype(dict.fromkeys((*near.GROUPS, EFFICIENCY, near.CONTROL, OWN_ROWS), float))
    return own.assign(
        above_control=own[EFFICIENCY] - own[near.CONTROL],
        rigid_share=own["rigid"] / own["permutation"],
        linear_share=own["linear"] / own["rigid"],
    )


def judged(
    test: Callable[..., Finding], bar: float, column: str, says: str, beside: Sequence[str]
) -> Callable[..., Finding]:
    """Check a column of a model's pairs against a bar; the comment also lists `beside`."""

    def over(tables: Tables, model: str) -> Finding:
        if model not in set(tables["pairs"]["model"]):
            return check.unmeasured(f"{MODELS[model]} was not run.")
        own, white = (trained(tables, model, of) for of in (RAW, WHITENED))
        _, share = reached(tables, model)
        if own.empty:
            return check.undecided("No two seeds reached the optimum.")
        shown = ", ".join(f"{name} {own[name].mean():.3f}" for name in beside)
        comment = (
            f"{says} Means over {len(own)} pairs of the {share:.0%} of seeds near the lowest loss: "
            f"{shown}; whitened {white[column].mean():.2f}."
        )
        none = int(own[column].isna().sum())
        if none:
            comment += f" {none} of {len(own)} pairs have none: no rigid map beats the permutation."
        return test(per_seed(own, column), bar, comment)

    return over


def theory(tables: Tables) -> Finding:
    """Check that a linear map gains less on autoencoders than on GPT-2s."""
    both = [trained(tables, model) for model in (near.AUTOENCODER, GPT2)]
    if any(own.empty for own in both):
        return check.unmeasured("Needs the autoencoder and the GPT-2.")
    shares = [per_seed(own, "linear_share") for own in both]
    comment = (
        "Linear over rigid error of the autoencoder, where a rigid map should be enough and the "
        f"ratio near 1, minus that of GPT-2: {np.mean(shares[0]):.2f} − {np.mean(shares[1]):.2f}; "
        "above 0 counts. Table 1 itself has 0.33 and 0.46 for autoencoders, 0.87 for Pythia."
    )
    # The two are independent: any pairing of their seeds has the variance of the difference.
    return check.above([a - b for a, b in zip(*shares)], 0.0, comment)


def folders(tables: Tables) -> Finding:
    """Check the efficiency at the worst layer of two folders, by its interval over rows."""
    table = tables[RAW][~tables[RAW]["model"].isin(MODELS)].dropna(subset=[EFFICIENCY])
    if table.empty:
        why = "Needs two folders, --set a=… --set b=…, of one width, where a rigid map gains."
        return check.unmeasured(why)
    worst = table.sort_values(EFFICIENCY).iloc[0]
    low, high = worst[f"{EFFICIENCY}_low"], worst[f"{EFFICIENCY}_high"]
    comment = (
        f"ICA's efficiency at {worst['model']}, the lowest of {len(table)} layers, with its "
        f"interval over rows; above 0 counts. A random rotation has {worst[near.CONTROL]:.2f}, "
        f"axes that each side finds on rows of its own {worst[OWN_ROWS]:.2f}."
    )
    return check.by_interval(worst[EFFICIENCY], (low, high), 0, inf, comment)


SHOWN = {"permutation": "permu-\ntation", "random rotation": "random\nrotation", "ica": "ICA",
         "rigid": "rigid", "linear": "linear", "shuffled": "rigid, rows\nshuffled"}  # fmt: skip


def figure(tables: Tables, _settings: Settings) -> Figure:
    """Errors by kind of map, raw and whitened; efficiencies and their controls; Table 1."""
    rows = [
        {"what": model, "coordinates": of, "place": place, "seed": seed, "error": value}
        for (model, of), own in tables["pairs"].groupby(["model", "coordinates"], sort=False)
        for place, name in enumerate(SHOWN)
        for seed, value in enumerate(per_seed(own.astype({name: float}), name))
    ]
    printed = [
        {"what": of.pair, "coordinates": "Table 1", "place": place, "seed": 0, "error": value}
        for of in near.TABLE_1
        for place, name in enumerate(SHOWN)
        if (value := getattr(of, name, None)) is not None
    ]
    every = pd.DataFrame(rows + printed)

    def errors(of: str, title: str) -> Callable[[Axes], None]:
        return partial(_errors, table=where(every, coordinates=of), title=title)

    return sheet(
        [errors(RAW, "Raw coordinates"), errors(WHITENED, "Whitened coordinates")],
        [partial(_efficiencies, tables=tables), errors("Table 1", "Table 1 (other models, data)")],
    )


def _errors(ax: Axes, table: pd.DataFrame, title: str) -> None:
    words = {"place": "", "error": "mean distance / diameter"}
    curve(ax, table, "place", "error", by="what", labels=words)
    ax.set_title(title)
    ax.set_xticks(range(len(SHOWN)), list(SHOWN.values()), fontsize=6)
    ax.set_ylim(bottom=0)


def _efficiencies(ax: Axes, tables: Tables) -> None:
    """ICA and its controls (filled marks: raw), with intervals over seeds, or rows for one pair."""
    ax.set_title("Efficiency of ICA")
    after = [tables[of] for of in (RAW, WHITENED)]
    names = list(after[0]["model"])
    for table, shift, fill, name in zip(after, (-0.12, 0.12), (None, "none"), (RAW, WHITENED)):
        at = np.arange(len(table)) + shift
        value, low, high = (
            table[f"{EFFICIENCY}{end}"].to_numpy(float) for end in ("", "_low", "_high")
        )
        ends = np.nan_to_num([value - low, high - value])
        look: dict[str, Any] = {"ls": "", "ms": 5, "mfc": fill}
        ax.errorbar(at, value, ends, marker="o", color=PALETTE["accent"], capsize=2,
                    label=f"ICA, {name}", **look)  # fmt: skip
        for (gain, words), mark in zip(near.GAINS.items(), "vx_"):
            # Shuffled rows are far below; clipping them leaves room for the rest.
            own = table[f"efficiency_{gain}"].astype(float).clip(lower=-1)
            label = None if fill else words
            ax.plot(at, own, marker=mark, color=PALETTE["second"], label=label, **look)
    known = [
        (names.index(of.nearest) + 0.3, of.efficiency) for of in near.TABLE_1 if of.nearest in names
    ]
    if known:
        ax.plot(*zip(*known), "+", color=PALETTE["ink"], ms=6, label="Table 1 (other models)")
    for level in (0, 1):
        ax.axhline(level, color=PALETTE["muted"], lw=0.8, ls=DASHED)
    ax.set_xticks(range(len(names)), names, fontsize="small")
    ax.set_xlim(-0.5, len(names) - 0.4)
    ax.set_ylabel("part of the gap closed")
    ax.legend(**BELOW)


SCALE = "Table 1, known second hand; other models and data"
#: For every model: the claim, the matching number of Table 1 (None for a control), and the check.
ASKED: dict[str, tuple[str, Callable[[near.Published], str] | None, Callable[..., Finding]]] = {
    "efficiency": (
        "ICA closes part of the gap between a permutation and the best rigid map.",
        lambda of: f"{of.efficiency:.0%}",
        judged(check.above, check.POSITIVE, EFFICIENCY, "ICA's efficiency; above 0 counts.",
               ("permutation", "ica", "rigid", OWN_ROWS))),
    "rigid": (
        "a rigid map does better than a permutation.",
        lambda of: f"{of.rigid / of.permutation:.2f}",
        judged(check.below, 1.0, "rigid_share", "Rigid error over that of the permutation; below "
               "1 counts.", ("permutation", "rigid", "shuffled"))),
    "linear": (
        "a linear map does better than a rigid one.",
        lambda of: f"{of.linear / of.rigid:.2f}",
        judged(check.below, 1.0, "linear_share", "Linear error over the rigid one; below 1 "
               "counts.", ("rigid", "similarity", "linear"))),
    "random": (
        "axes found by ICA match better than randomly rotated whitened axes.",
        None,
        judged(check.above, check.POSITIVE, "above_control", "Efficiency of ICA minus that of a "
               "random rotation; above 0 counts.", (EFFICIENCY, near.CONTROL))),
    "own-rows": (
        "ICA closes part of the gap even if each side finds its axes on different rows.",
        None,
        judged(check.above, check.POSITIVE, OWN_ROWS, "Efficiency of ICA of each side on half of "
               "the rows, which is too low; above 0 counts.", (EFFICIENCY, OWN_ROWS))),
}  # fmt: skip


def asked(model: str, key: str) -> Claim:
    """One of the claims that are made about every model."""
    says, of_row, test = ASKED[key]
    name, says, on = f"{key}-{model}", f"{MODELS[model]}: {says}", partial(test, model=model)
    if of_row is None:
        return control(name, says, check=on)
    printed = [f"{of_row(of)} ({of.pair})" for of in near.TABLE_1 if of.nearest == model]
    return Claim(name, says, "; ".join(printed), SCALE, on)


CLAIMS = (
    *(asked(model, key) for model in MODELS for key in ASKED),
    Claim("theory", "Autoencoders align rigidly and GPTs linearly: GPTs gain more from a linear "
        "map.", "0.33 and 0.46 against 0.87, the other way round", "the text on Table 1, known "
        "second hand", theory),
    control("folders", "Two extracted folders: at every layer, ICA closes part of the gap between "
        "a permutation and the best rigid map.", check=folders),
)  # fmt: skip
SMOKE: dict[str, Any] = {
    "seeds": 3, "a": "", "b": "", "models": list(MODELS), "rows": 2000, "side": 16, "batch": 64,
    "lr": 3e-3, "widths": [64, 8], "autoencoder_steps": 300,
    "channels": 8, "blocks": [1, 1], "classifier_steps": 60,
    "gpt2_corpus": "enwik8", "gpt2_max_words": 40_000, "gpt2_vocabulary": 500, "gpt2_width": 16,
    "gpt2_blocks": 2, "gpt2_back": 1, "gpt2_context": 16, "gpt2_batch": 16, "gpt2_steps": 80,
    "gpt2_lr": 3e-3, "gpt2_windows": 100,
}  # fmt: skip
LAPTOP = SMOKE | {
    "seeds": 10, "rows": 3000, "widths": [64, 12], "autoencoder_steps": 3000, "channels": 12,
    "classifier_steps": 600, "gpt2_max_words": 300_000, "gpt2_context": 32, "gpt2_steps": 1500,
}  # fmt: skip
# The paper's networks are pretrained ones: give extracts of two as a and b. Here, ResNet-18.
PAPER = LAPTOP | {
    "rows": 20_000, "side": 32, "widths": [1024, 256, 64], "autoencoder_steps": 50_000,
    "channels": 64, "blocks": [2, 2, 2, 2], "classifier_steps": 20_000, "lr": 1e-3,
    "gpt2_max_words": 3_000_000, "gpt2_vocabulary": 2000, "gpt2_width": 96, "gpt2_blocks": 4,
    "gpt2_back": 2, "gpt2_context": 64, "gpt2_lr": 2e-3, "gpt2_steps": 20_000,
    "gpt2_windows": 400,
}  # fmt: skip
STUDY = Study(
    name="nelson-pairs",
    title="Two runs inside the network: permutation, rigid, linear, and ICA",
    paper="Nelson et al., ICLR 2026 (arXiv 2603.11970), Table 1",
    about=(
        "Networks that differ only in their seed are compared at an inner layer: autoencoders, "
        "classifiers and small GPT-2s, or any two folders of `identikit extract`. Errors after the "
        "best map of each kind are mean distances on held-out rows, divided by the diameter. ICA "
        "of each side alone should close part of the gap between a permutation and the best rigid "
        "map. The controls are shuffled rows, random rotations instead of ICA, and ICA of each "
        "side on different rows. The paper's pairs are large pretrained models, known second hand "
        "and shown for scale only; the networks here are small and briefly trained. Intervals are "
        "over seeds, of which those whose loss is near the lowest are judged. Sizes, steps and "
        "rows were set after one pair of seeds from 1000 on of each model; larger networks with "
        "four seeds had left six claims open."
    ),
    presets={"smoke": SMOKE, "laptop": LAPTOP, "paper": PAPER},
    run=run, claims=CLAIMS, figure=figure,
    needs=tuple(replace(need, optional=True) for need in (CIFAR10, CORPORA["enwik8"])),
)  # fmt: skip
