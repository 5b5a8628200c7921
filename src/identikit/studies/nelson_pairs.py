"""Table 1 of Nelson et al.: how alike two runs are inside the network, up to each group of maps.

Two networks that differ in their seed alone are compared at a layer inside, where a nonlinear
decoder or head follows: the latents of an autoencoder, what enters the last block of a classifier
of images, and what enters a block in the middle of a small GPT-2. By the theory they are the same
up to a rigid map and an error; ICA of each side alone, without the pairing, should resolve part of
what a permutation of raw axes leaves. Its efficiency is (e_perm − e_ICA)/(e_perm − e_rigid): 0 is
no better than the permutation, 1 as good as the best rigid map.

Errors are mean distances after the best map over the diameter, on rows that no map has seen. The
paper does not say whether all of its columns are after whitening. Its rigid errors are up to three
times the linear ones, which whitening would have made nearly equal; so raw coordinates are taken
for the claims, and whitened ones stand in a table of their own.

Images are CIFAR-10 and text is Wikipedia if the data folder has them, else small
stand-ins. With --set a=FOLDER --set b=FOLDER, two folders of `identikit extract` are compared
instead, at every layer that both have.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations, cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from identikit.alignment import near_identifiability
from identikit.errors import InputError
from identikit.report._drawing import BELOW, sheet
from identikit.report._style import PALETTE
from identikit.studies._data import CIFAR10, CORPORA, Data, Need
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

GPT2, CLASSIFIER, AUTOENCODER = "gpt2", "classifier", "autoencoder"
MODELS = {GPT2: "The GPT-2", CLASSIFIER: "The classifier", AUTOENCODER: "The autoencoder"}
STAGES = ("untrained", "trained")
RAW, WHITENED = "raw", "whitened"
GROUPS = ("permutation", "random rotation", "ica", "rigid", "similarity", "linear", "affine")
#: What the efficiency is of in place of ICA, and in words.
GAINS = ("shuffled", "random_rotation", "different_rows")
CONTROLS = ("rows shuffled (−1 or less)", "random rotation", "ICA, different rows")
EDGE = -1.0
EFFICIENCY, CONTROL = "efficiency_value", "efficiency_random_rotation"
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


def source(data: Data, need: Need) -> Data:
    """The data folder if it has what is needed, else the stand-in for it."""
    return data if data.find(need) is not None else Data(need.stand_in)


def compare(model: str, stage: str, a: Any, b: Any, views: Sequence[Any], groups: Groups) -> Record:
    """Two runs at one layer: a unit of work.

    Parameters
    ----------
    model, stage : str
        Of which networks, and when.
    a, b : int or str
        Names of the two.
    views : two arrays or paths
        Their rows.
    groups : array (rows,), optional
        Labels of dependent rows.

    Returns
    -------
    Record
        A row for raw and one for whitened coordinates: mean distance over the diameter after the
        best map of each group, and with shuffled rows; the efficiency, its interval over rows, and
        its controls. Means of both directions, for intervals the outer ends.
    """
    near = near_identifiability(*views, names=["a", "b"], groups=groups)
    rows = []
    for coordinates in (RAW, WHITENED):
        ways = [way for way in near.directions if way.coordinates == coordinates]
        row: dict[str, Any] = {"model": model, "stage": stage, "coordinates": coordinates}
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
    """None if one is: two directions of which one has no gap to close have no efficiency."""
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if len(known) == len(values) else None


def run(work: Work) -> Tables:
    """Compare two extracted folders if they are given, else networks that are trained here."""
    s = work.settings
    if bool(s.a) != bool(s.b):
        raise InputError(f"a is {s.a!r} and b is {s.b!r}; give two extracted folders, or neither")
    pairs, models = of_folders(work) if s.a else of_trained(work)
    tables = {name: summary(pairs[pairs["coordinates"] == name]) for name in (RAW, WHITENED)}
    return tables | {"published": pd.DataFrame(TABLE_1), "pairs": pairs, "models": models}


def of_trained(work: Work) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Pairs and networks: all seeds of every model, and all pairs of seeds of one."""
    from identikit.studies import _pairs as networks

    s = work.settings
    if s.seeds < 2 or not set(s.models) <= set(MODELS) or s.gpt2_corpus not in CORPORA:
        raise InputError(
            f"seeds is {s.seeds}, models is {s.models} and gpt2_corpus {s.gpt2_corpus!r}; give two "
            f"seeds or more, models out of {', '.join(MODELS)}, and a text out of "
            f"{', '.join(CORPORA)}"
        )
    images, words = source(work.data, CIFAR10), source(work.data, CORPORA[s.gpt2_corpus])
    pairs, models = [], []
    for model in [name for name in MODELS if name in s.models]:
        name, groups = images.stand_in or "cifar10", None
        given: dict[str, Any] = {"data": images}
        if model == GPT2:
            name = words.stand_in or s.gpt2_corpus
            text = work.unit(f"text,{name}", networks.text_for_gpt2, words, s)
            windows = text.arrays["test"]
            groups, given = np.repeat(np.arange(len(windows)), windows.shape[1] - 1), {"text": text}
        # The data are not in the settings, so units are named after them.
        key = f"{model},{name},seed={{0}}"
        items = [(seed, work.folder_of(key.format(seed))) for seed in range(s.seeds)]
        learn = networks.LEARN[model]
        learned = work.each(key, learn, items, processes=True, settings=s, **given)
        models += [row for record in learned for row in record.rows]
        cases = [
            (model, stage, a, b, [learned[seed].arrays[stage] for seed in (a, b)])
            for stage in STAGES
            for a, b in combinations(range(s.seeds), 2)
        ]
        key = f"pairs,{name},{{0}},{{1}},{{2}}-{{3}}"
        compared = work.each(key, compare, cases, processes=True, groups=groups)
        pairs += [row for record in compared for row in record.rows]
    return pd.DataFrame(pairs), pd.DataFrame(models)


def of_folders(work: Work) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Pairs and networks: two folders of `identikit extract`, at every layer that both have."""
    from identikit.extract import read_manifest

    folders = [Path(work.settings.a).absolute(), Path(work.settings.b).absolute()]
    manifests = [read_manifest(folder) for folder in folders]
    files = [{str(of["layer"]): of["file"] for of in each["layers"]} for each in manifests]
    layers = [layer for layer in files[0] if layer in files[1]]
    if not layers:
        listed = " and ".join(", ".join(each) for each in files)
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
    # What the folders hold is not in the settings, so units are named after what it weighs.
    size = sum(sum(each["files"].values()) for each in manifests)
    a, b = (folder.name for folder in folders)
    cases = [
        (f"layer={layer}", STAGES[1], a, b, [f / of[layer] for f, of in zip(folders, files)])
        for layer in layers
    ]
    compared = work.each(f"folders,{size},{{0}}", compare, cases, processes=True, groups=groups)
    about = [
        {"folder": str(folder), "model": each["model"]["name"], "rows": each["rows"]}
        for folder, each in zip(folders, manifests)
    ]
    return pd.DataFrame([row for one in compared for row in one.rows]), pd.DataFrame(about)


def summary(pairs: pd.DataFrame) -> pd.DataFrame:
    """Means over pairs of one model and stage, with intervals over seeds (of one pair, over rows).

    Parameters
    ----------
    pairs : DataFrame
        Of `compare`, in one kind of coordinates.
    """
    columns = [*GROUPS, "shuffled", EFFICIENCY, *(f"efficiency_{gain}" for gain in GAINS)]
    rows = []
    for (model, stage), own in pairs.groupby(["model", "stage"], sort=False):
        own = own.astype(dict.fromkeys(columns, float))
        row: dict[str, Any] = {"model": model, "stage": stage, "pairs": len(own)}
        row |= {name: own[name].mean() for name in ("dims", "components", "identified", *columns)}
        for name in WITH_INTERVAL:
            _, interval = mean_interval(per_seed(own, name))
            if interval is None and name == EFFICIENCY:
                interval = own["efficiency_low"].iloc[0], own["efficiency_high"].iloc[0]
            row |= dict(zip((f"{name}_low", f"{name}_high"), interval or (None, None)))
        rows.append(row)
    return pd.DataFrame(rows)


def trained(tables: Tables, model: str, coordinates: str = RAW) -> pd.DataFrame:
    """The pairs of one model after training, with a few ratios and differences.

    Parameters
    ----------
    tables : dict
        Of the study.
    model : str
        One of `MODELS`.
    coordinates : str
        Raw or whitened.
    """
    pairs = tables["pairs"]
    chosen = (pairs["model"] == model) & (pairs["coordinates"] == coordinates)
    own = pairs[chosen & (pairs["stage"] == STAGES[1])]
    own = own.astype(dict.fromkeys((*GROUPS, EFFICIENCY, CONTROL), float))
    return own.assign(
        gained=own["permutation"] - own["ica"],
        above_control=own[EFFICIENCY] - own[CONTROL],
        rigid_share=own["rigid"] / own["permutation"],
        linear_share=own["linear"] / own["rigid"],
    )


def _judge(tables: Tables, model: str, asked: Asked) -> Finding:
    own, white = (trained(tables, model, where) for where in (RAW, WHITENED))
    if own.empty:
        return Finding(None, None, UNMEASURED, f"{MODELS[model]} was not run.")
    shown = ", ".join(f"{name} {own[name].mean():.3f}" for name in asked.beside)
    comment = f"{asked.words} Means over pairs: {shown}; whitened {white[asked.column].mean():.2f}."
    without = int(own[asked.column].isna().sum())
    if without:
        comment += f" {without} of {len(own)} pairs have none: a rigid map does not gain on them."
    return judge(per_seed(own, asked.column), asked.low, asked.high, comment)


def _theory(tables: Tables) -> Finding:
    shares = [per_seed(trained(tables, model), "linear_share") for model in (AUTOENCODER, GPT2)]
    if not all(shares):
        return Finding(None, None, UNMEASURED, "Needs the autoencoder and the GPT-2.")
    comment = (
        "Linear over rigid error of the autoencoder, where a rigid map should do and 1 be near, "
        f"less that of GPT-2: {np.mean(shares[0]):.2f} less {np.mean(shares[1]):.2f}; above 0 "
        "counts. Table 1 itself has 0.33 and 0.46 for autoencoders, 0.87 for Pythia."
    )
    # The two are independent: any pairing of their seeds has the variance of the difference.
    return judge([a - b for a, b in zip(*shares)], low=0.0, comment=comment)


def _folders(tables: Tables) -> Finding:
    table = tables[RAW][~tables[RAW]["model"].isin(MODELS)].dropna(subset=[EFFICIENCY])
    if table.empty:
        why = "Needs two folders, --set a=… --set b=…, of one width, where a rigid map gains."
        return Finding(None, None, UNMEASURED, why)
    worst = table.sort_values(EFFICIENCY).iloc[0]
    low, high = worst[f"{EFFICIENCY}_low"], worst[f"{EFFICIENCY}_high"]
    comment = (
        f"ICA's efficiency at {worst['model']}, the lowest of {len(table)} layers, with its "
        f"interval over rows; from 0 to 1 counts. A random rotation has {worst[CONTROL]:.2f}."
    )
    inside, outside = low >= 0 and high <= 1, high < 0 or low > 1
    verdict = REPRODUCED if inside else NOT if outside else INCONCLUSIVE
    return Finding(worst[EFFICIENCY], (low, high), verdict, comment)


def figure(tables: Tables, _settings: Settings) -> Figure:
    """Errors by group, raw and whitened; efficiencies with their controls; the paper's Table 1."""
    return sheet(
        [
            partial(_errors, table=tables[RAW], title="Raw coordinates"),
            partial(_errors, table=tables[WHITENED], title="Whitened coordinates"),
        ],
        [
            partial(_efficiencies, tables=tables),
            partial(_published, table=tables["published"]),
        ],
    )


SHOWN = {"permutation": "permu-\ntation", "random rotation": "random\nrotation", "ica": "ICA",
         "rigid": "rigid", "linear": "linear"}  # fmt: skip
LOOKS: tuple[tuple[str, Any, str], ...] = (
    ("accent", "-", "o"), ("second", (0, (4, 2)), "s"), ("ink", (0, (1, 1)), "^"),
    ("muted", (0, (3, 1, 1, 1)), "D"),
)  # fmt: skip


def _errors(ax: Axes, table: pd.DataFrame, title: str) -> None:
    ax.set_title(title)
    after = table[table["stage"] == STAGES[1]]
    for place, ((_, row), (colour, dash, mark)) in enumerate(zip(after.iterrows(), cycle(LOOKS))):
        look: dict[str, Any] = {"color": PALETTE[colour], "ls": dash, "marker": mark, "ms": 3}
        across = np.arange(len(SHOWN)) + 0.06 * place
        values = row[list(SHOWN)].to_numpy(float)
        reach = [
            (float(row.get(f"{name}_high") or np.nan) - float(row.get(f"{name}_low") or np.nan)) / 2
            for name in SHOWN
        ]
        ax.errorbar(across, values, np.nan_to_num(reach), capsize=2, lw=1.3, **look,
                    label=row["model"])  # fmt: skip
        ax.axhline(row["shuffled"], color=PALETTE[colour], lw=0.6, ls=dash)
    ax.plot([], [], color=PALETTE["line"], lw=0.8, label="rigid, rows shuffled (level)")
    ax.set_xticks(range(len(SHOWN)), list(SHOWN.values()), fontsize="small")
    ax.set_ylim(bottom=0)
    ax.set_ylabel("mean distance / diameter")
    ax.legend(**BELOW | {"bbox_to_anchor": (0.5, -0.26)})


def _efficiencies(ax: Axes, tables: Tables) -> None:
    ax.set_title("Efficiency of ICA")
    names: list[str] = []
    for where, shift, fill in ((RAW, -0.12, True), (WHITENED, 0.12, False)):
        table = tables[where]
        table = table[table["stage"] == STAGES[1]]
        names = list(table["model"])
        at = np.arange(len(table)) + shift
        names_of = (EFFICIENCY, f"{EFFICIENCY}_low", f"{EFFICIENCY}_high")
        value, low, high = (table[name].to_numpy(float) for name in names_of)
        reach = np.nan_to_num([value - low, high - value])
        look: dict[str, Any] = {"ls": "", "ms": 5, "mfc": None if fill else "none"}
        ax.errorbar(at, value, reach, marker="o", color=PALETTE["accent"], capsize=2, **look,
                    label=f"ICA, {where}")  # fmt: skip
        for column, mark, name in zip(GAINS, ("v", "x", "_"), CONTROLS):
            # Shuffled rows are far below; at the edge they leave room for the rest.
            own = table[f"efficiency_{column}"].astype(float).clip(lower=EDGE)
            label = name if fill else None
            ax.plot(at, own, mark, color=PALETTE["second"], ms=5, mfc=look["mfc"], label=label)
    for of in TABLE_1:
        if of.nearest in names:
            label = "Table 1 (other models)" if of is TABLE_1[0] else None
            at_right = names.index(of.nearest) + 0.3
            ax.plot(at_right, of.efficiency, "+", color=PALETTE["ink"], ms=6, label=label)
    for level in (0, 1):
        ax.axhline(level, color=PALETTE["muted"], lw=0.8, ls=(0, (4, 2)))
    ax.set_xticks(range(len(names)), names, fontsize="small")
    ax.set_xlim(-0.5, len(names) - 0.4)
    ax.set_ylabel("part of the gap closed")
    ax.legend(**BELOW)


def _published(ax: Axes, table: pd.DataFrame) -> None:
    ax.set_title("Table 1 (other models and data)")
    shown = [name for name in SHOWN if name in table]
    for (_, row), (colour, dash, mark) in zip(table.iterrows(), LOOKS):
        look: dict[str, Any] = {"color": PALETTE[colour], "ls": dash, "marker": mark, "ms": 3}
        ax.plot(range(len(shown)), row[shown].to_numpy(float), lw=1.3, **look, label=row["pair"])
    ax.set_xticks(range(len(shown)), [SHOWN[name] for name in shown])
    ax.set_ylim(bottom=0)
    ax.set_ylabel("mean distance / diameter")
    ax.legend(**BELOW | {"bbox_to_anchor": (0.5, -0.26)})


class Asked(NamedTuple):
    """What is claimed of every model: in words, of Table 1, of which column, and what counts."""

    says: str
    published: Callable[[Published], str]
    source: str
    column: str
    low: float
    high: float
    words: str
    beside: tuple[str, ...]


# fmt: off
SCALE = "Table 1, for scale"
ASKED = {
    "efficiency": Asked(
        "ICA closes a part of the gap between a permutation and the best rigid map.",
        lambda of: f"{of.efficiency:.0%}", SCALE, EFFICIENCY, 0.0, 1.0,
        "ICA's efficiency; from 0 to 1 counts.", ("permutation", "ica", "rigid"),
    ),
    "ica": Asked(
        "axes found by ICA match better than raw ones.",
        lambda of: f"{of.ica} against {of.permutation}", SCALE, "gained", 0.0, np.inf,
        "Error of the permutation less that of ICA; above 0 counts.", ("permutation", "ica"),
    ),
    "control": Asked(
        "they match better than white axes turned at random.",
        lambda _: "none", "a control, not in Table 1", "above_control", 0.0, np.inf,
        "Efficiency of ICA less that of a random rotation; above 0 counts.",
        (EFFICIENCY, *(f"efficiency_{gain}" for gain in GAINS)),
    ),
    "rigid": Asked(
        "a rigid map does better than a permutation.",
        lambda of: f"{of.rigid / of.permutation:.2f}", SCALE, "rigid_share", -np.inf, 1.0,
        "Rigid error over that of the permutation; below 1 counts.",
        ("permutation", "rigid", "shuffled"),
    ),
    "linear": Asked(
        "a linear map does better than a rigid one.",
        lambda of: f"{of.linear / of.rigid:.2f}", SCALE, "linear_share", -np.inf, 1.0,
        "Linear error over the rigid one; below 1 counts.", ("rigid", "similarity", "linear"),
    ),
}
# fmt: on


def _claims() -> tuple[Claim, ...]:
    claims = []
    for model, name in MODELS.items():
        near = [of for of in TABLE_1 if of.nearest == model]
        for key, asked in ASKED.items():
            told = "; ".join(f"{asked.published(of)} ({of.pair})" for of in near)
            told = told if asked.source == SCALE else "no number given"
            check = partial(_judge, model=model, asked=asked)
            claims.append(
                Claim(f"{key}-{model}", f"{name}: {asked.says}", told, asked.source, check)
            )
    return (
        *claims,
        Claim(
            "theory",
            "Autoencoders align rigidly and GPTs linearly: these gain more from a linear map.",
            "0.33 and 0.46 against 0.87, the other way round",
            "the text on Table 1",
            _theory,
        ),
        Claim(
            "folders",
            "Of two extracted folders: ICA closes a part of the gap at every layer.",
            "25 to 59 %",
            SCALE,
            _folders,
        ),
    )


# fmt: off
SMOKE = {
    "seeds": 3, "a": "", "b": "", "models": list(MODELS), "side": 16, "batch": 64, "lr": 3e-3,
    "widths": [64, 8], "autoencoder_steps": 300,
    "channels": 8, "blocks": [1, 1], "classifier_steps": 60,
    "gpt2_corpus": "enwik8", "gpt2_max_words": 40_000, "gpt2_vocabulary": 500, "gpt2_width": 16,
    "gpt2_blocks": 2, "gpt2_back": 1, "gpt2_context": 16, "gpt2_batch": 16, "gpt2_steps": 80,
    "gpt2_lr": 3e-3, "gpt2_windows": 100,
}
LAPTOP = SMOKE | {
    "seeds": 4, "lr": 1e-3, "widths": [256, 32], "autoencoder_steps": 5000,
    "channels": 16, "blocks": [1, 1, 1], "classifier_steps": 3000,
    "gpt2_max_words": 3_000_000, "gpt2_vocabulary": 2000, "gpt2_width": 48, "gpt2_blocks": 4,
    "gpt2_back": 2, "gpt2_context": 64, "gpt2_batch": 8, "gpt2_steps": 2500, "gpt2_lr": 2e-3,
    "gpt2_windows": 200,
}
# The paper's networks are pretrained ones: give extracts of two as a and b. Here, ResNet-18.
PAPER = LAPTOP | {
    "seeds": 6, "side": 32, "widths": [1024, 256, 64], "autoencoder_steps": 50_000,
    "channels": 64, "blocks": [2, 2, 2, 2], "classifier_steps": 20_000,
    "gpt2_width": 96, "gpt2_steps": 20_000, "gpt2_windows": 400,
}
# fmt: on

STUDY = Study(
    name="nelson-pairs",
    title="Two runs inside the network: permutation, rigid, linear, and ICA",
    paper="Nelson et al., ICLR 2026 (arXiv 2603.11970), Table 1",
    about=(
        "Networks that differ in their seed alone are compared at a layer inside: an autoencoder, "
        "a classifier and a small GPT-2, or any two folders of `identikit extract`. Errors after "
        "the best map of each group are mean distances over the diameter, held out; ICA of each "
        "side alone is to close a part of the gap between a permutation and the best rigid map. "
        "Controls: rows shuffled, random rotations in place of ICA, ICA of each side on different "
        "rows. The paper's pairs are large pretrained models, and stand beside for scale only. "
        "Intervals are over seeds."
    ),
    presets={"smoke": SMOKE, "laptop": LAPTOP, "paper": PAPER},
    needs=tuple(replace(need, optional=True) for need in (CIFAR10, CORPORA["enwik8"])),
    run=run,
    claims=_claims(),
    figure=figure,
)
