"""Nielsen et al. on width: do wider networks have more similar distributions and embeddings?

Points of the plane belong to one of K sectors of a half turn, so that opposite sectors share a
label. Networks of several widths, f and g into two dimensions, learn the labels from the same data
in the same order; only their start differs. Of all pairs with a test accuracy above 0.9, d_LLV
compares the distributions and d_fg the embeddings. The paper finds that both fall with width
(Figure 3 right; Figures 17 and 18), and d_fg below 2Mε, ε = d_LLV (Figure 16).

The claim about width is contested: an independent re-run of 400 such models, with d_fg over fixed
sets of labels and inputs, found the embeddings of wider networks less alike. So d_fg over those
fixed sets, and mean CCA, are measured beside.
"""

from __future__ import annotations

from functools import partial
from itertools import chain, combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from identikit.errors import InputError
from identikit.family import Distances, SoftmaxModel, distances
from identikit.inference import cca_chance
from identikit.moments import accumulate
from identikit.report._drawing import absent, dots, sheet
from identikit.report._style import PALETTE
from identikit.similarity import cca
from identikit.studies._angles import points, sectors
from identikit.studies._store import Record
from identikit.studies._study import (
    INCONCLUSIVE,
    NOT,
    REPRODUCED,
    UNMEASURED,
    Claim,
    Finding,
    Interval,
    Settings,
    Study,
    Tables,
    per_seed,
)
from identikit.studies._work import Work

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from identikit.learn import SoftmaxNet

M = 2
TRAIN, TEST = 0, 1  # the authors' seeds of the data
MEASURED = ("llv", "representation", "fixed", "cca", "kl")
# Models of 20 that passed the filter, by number of labels and width.
PASSED = {
    4: {16: 19, 32: 20, 64: 20, 128: 20, 256: 20},
    6: {16: 16, 32: 17, 64: 19, 128: 19, 256: 20},
}


def build(classes: int, width: int) -> SoftmaxNet:
    """f is 2-w-w-w-2, and g is (K−1)-w-w-w-2 on one-hot labels, the last of which is zero."""
    from identikit.learn import MLP, OneHot, SoftmaxNet

    f, g = (
        MLP([first, width, width, width, M], activation="leaky_relu", last_bias=False)
        for first in (2, classes - 1)
    )
    return SoftmaxNet(f, OneHot(classes, g, truncated=True))


def data(classes: int, rows: int, seed: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Points and their labels."""
    x = points(rows, np.random.default_rng(seed))
    return x, sectors(x, classes, np.pi)


def teach(classes: int, width: int, folder: str, settings: Settings) -> Record:
    """The networks of one width: a unit of work.

    Parameters
    ----------
    classes, width : int
        K and w.
    folder : str
        For checkpoints.
    settings : Settings
        Of the study.

    Returns
    -------
    Record
        A row a seed, with accuracy and loss on the test points; arrays f (2, seeds, test, M) and
        g (2, seeds, classes, M), before training and after.
    """
    import torch

    from identikit.learn import shuffled, supervised, train

    known = [torch.from_numpy(part) for part in data(classes, settings.train, TRAIN)]
    run = train(
        partial(build, classes, width), supervised, shuffled(known, settings.batch), settings.steps,
        seeds=range(settings.seeds), data_seed=0, lr=settings.lr, snapshots=(0,), folder=folder,
    )  # fmt: skip
    x, y = data(classes, settings.test, TEST)
    ends = (0, settings.steps)
    f = np.stack([list(run.embed(torch.from_numpy(x), step).values()) for step in ends])
    g = np.stack([list(run.unembed(None, step).values()) for step in ends])
    rows = []
    for seed in run.seeds:
        logs = SoftmaxModel(f[1, seed], g[1, seed]).log_prob()
        accuracy = float(np.mean(logs.argmax(axis=1) == y))
        row = {"classes": classes, "width": width, "seed": seed, "accuracy": accuracy}
        row |= {"nll": -logs[np.arange(len(y)), y].mean(), "kept": accuracy > settings.accuracy}
        rows.append(row)
    return Record(rows, {"f": f, "g": g})


def compare(classes: int, width: int, taught: Record, settings: Settings) -> Record:
    """All pairs of untrained networks, and of trained ones that passed the filter: a unit of work.

    Parameters
    ----------
    classes, width : int
        K and w.
    taught : Record
        Of `teach`.
    settings : Settings
        Of the study.
    """
    _, y = data(classes, settings.test, TEST)
    # The sets of the re-run: the first M + 1 labels, and of each the first input.
    labels = list(range(M + 1))
    inputs = [int(np.flatnonzero(y == label)[0]) for label in labels]
    kept = [row["seed"] for row in taught.rows if row["kept"]]
    rows = []
    for trained, seeds in ((False, range(settings.seeds)), (True, kept)):
        f, g = taught.arrays["f"][int(trained)], taught.arrays["g"][int(trained)]
        for a, b in combinations(seeds, 2):
            both = [SoftmaxModel(f[seed], g[seed], name=f"seed {seed}") for seed in (a, b)]
            apart = distances(*both, candidates=settings.candidates, M=M)
            fixed = distances(*both, labels=labels, inputs=inputs, M=M)
            assert isinstance(apart, Distances)
            assert isinstance(fixed, Distances)
            row: dict[str, Any] = {"classes": classes, "width": width, "trained": trained}
            row |= {"a": a, "b": b, "llv": apart.llv, "representation": apart.representation}
            row |= {"bound": apart.bound, "sharper_bound": apart.sharper_bound}
            row |= {"certificate": apart.certificate, "fixed": fixed.representation}
            row |= {"cca": cca(accumulate([f[a], f[b]])).mean, "kl": apart.kl}
            rows.append(row)
    return Record(rows)


def run(work: Work) -> Tables:
    """Train and compare the networks of every number of labels and every width."""
    s = work.settings
    if s.seeds < s.least or s.least < 3:
        raise InputError(
            f"seeds is {s.seeds} and least is {s.least}; a width counts with `least` models that "
            "pass the filter, 3 or more of them, and no more than there are seeds"
        )
    if min(s.classes) < M + 2:
        raise InputError(
            f"classes has {min(s.classes)}; embeddings in {M} dimensions need {M + 2} labels or "
            "more, one of which d_LLV leaves out"
        )
    cells = [(classes, width) for classes in s.classes for width in s.widths]
    key = "classes={},width={}"
    folders = [(*cell, str(work.folder_of(f"models,{key.format(*cell)}"))) for cell in cells]
    taught = work.each(f"models,{key}", teach, folders, processes=True, settings=s)
    items = [(*cell, record) for cell, record in zip(cells, taught)]
    compared = work.each(f"pairs,{key}", compare, items, processes=True, settings=s)
    models, pairs = (
        pd.DataFrame(list(chain.from_iterable(record.rows for record in records)))
        for records in (taught, compared)
    )
    mean = _mean(models, pairs, s.least).assign(cca_chance=cca_chance(s.test, M, M))
    return {"mean": mean, "models": models, "pairs": pairs}


def _mean(models: pd.DataFrame, pairs: pd.DataFrame, least: int) -> pd.DataFrame:
    """Mean and sd over pairs; what untrained pairs have; how many models passed, and if enough."""
    by = ["classes", "width"]
    over = models.groupby(by).agg(
        of=("kept", "size"), kept=("kept", "sum"), accuracy=("accuracy", "mean")
    )
    over["counts"] = over["kept"] >= least
    trained, untrained = (
        pairs[pairs["trained"] == which].groupby(by)[list(MEASURED)] for which in (True, False)
    )
    means = trained.mean().join(trained.std().add_suffix("_sd"))
    return over.join([means, untrained.mean().add_suffix("_untrained")]).reset_index()


def slope(tables: Tables, classes: int, column: str) -> tuple[float, Interval] | None:
    """Change of the mean over pairs for each doubling of the width, with its 95 % interval.

    Least squares on log₂ w. The means of different widths are independent, each with its jackknife
    variance over seeds; their weighted sum has Welch's degrees of freedom. None if fewer than two
    widths have enough models.

    Parameters
    ----------
    tables : dict
        Of the study.
    classes : int
        K.
    column : str
        Of the pairs.
    """
    from scipy.special import stdtrit

    mean, pairs = tables["mean"], tables["pairs"]
    widths = mean.loc[(mean["classes"] == classes) & mean["counts"], "width"].to_numpy()
    if len(widths) < 2:
        return None
    own = pairs[(pairs["classes"] == classes) & pairs["trained"]]
    values = [per_seed(own[own["width"] == width], column) for width in widths]
    x = np.log2(widths) - np.log2(widths).mean()
    weights = x / (x @ x)
    change = float(weights @ [np.mean(each) for each in values])
    parts = weights**2 * [np.var(each, ddof=1) / len(each) for each in values]
    freedom = parts.sum() ** 2 / (parts**2 / [len(each) - 1 for each in values]).sum()
    half = float(stdtrit(freedom, 0.975) * parts.sum() ** 0.5)
    return change, (change - half, change + half)


def _trend(tables: Tables, classes: int, column: str, falls: bool) -> Finding:
    mean = tables["mean"][tables["mean"]["classes"] == classes]
    if mean.empty:
        return Finding(None, None, UNMEASURED, f"K = {classes} was not run.")
    rows = mean[mean["counts"]]
    means = ", ".join(f"{row[column]:.3g} at {row['width']}" for _, row in rows.iterrows())
    comment = (
        f"Change for each doubling of the width; {'below' if falls else 'above'} 0 counts. Mean "
        f"over pairs by width: {means or 'too few models passed the filter'}."
    )
    found = slope(tables, classes, column)
    if found is None:
        return Finding(None, None, INCONCLUSIVE, comment)
    value, (low, high) = found
    as_said, against = (high < 0, low > 0) if falls else (low > 0, high < 0)
    verdict = REPRODUCED if as_said else NOT if against else INCONCLUSIVE
    return Finding(value, (low, high), verdict, comment)


def _below(tables: Tables, bound: str) -> Finding:
    pairs = tables["pairs"][tables["pairs"]["trained"]]
    if pairs.empty:
        return Finding(None, None, INCONCLUSIVE, "No two models passed the filter.")
    largest = float((pairs["representation"] / pairs[bound]).max())
    informative = (pairs[bound] < 1).mean()
    comment = (
        f"The largest d_fg over its bound, of {len(pairs)} pairs; below 1 counts. The bound says "
        f"something, being below 1, for {informative:.0%} of them."
    )
    return Finding(largest, None, REPRODUCED if largest < 1 else NOT, comment)


def _passed(tables: Tables, classes: int) -> Finding:
    models = tables["models"]
    models = models[(models["classes"] == classes) & models["width"].isin(PASSED[classes])]
    if models.empty:
        return Finding(None, None, UNMEASURED, f"K = {classes} was not run.")
    needed = models["width"].map(PASSED[classes]).mean() / 20 - 0.1
    share, ends = wilson(int(models["kept"].sum()), len(models))
    comment = (
        f"Share of the models, with Wilson's interval; {needed:.2f} or more counts, 0.1 less than "
        "published for these widths."
    )
    verdict = REPRODUCED if ends[0] >= needed else NOT if ends[1] < needed else INCONCLUSIVE
    return Finding(share, ends, verdict, comment)


def wilson(count: int, of: int) -> tuple[float, Interval]:
    """A share and its 95 % interval: all p with |p̂ − p| ≤ 1.96 √(p (1 − p)/n).

    Parameters
    ----------
    count, of : int
        How many, of how many.
    """
    share, z2 = count / of, 1.959964**2 / of
    middle, half = share + z2 / 2, (z2 * share * (1 - share) + z2**2 / 4) ** 0.5
    return share, ((middle - half) / (1 + z2), (middle + half) / (1 + z2))


def figure(tables: Tables, settings: Settings) -> Figure:
    """A row for each number of labels: distances, other measures, and d_fg under its bounds."""
    mean, pairs = tables["mean"], tables["pairs"]
    rows = []
    for classes in settings.classes:
        own, cells = pairs[pairs["classes"] == classes], mean[mean["classes"] == classes]
        one = ("llv", "d_LLV", "accent"), ("representation", "d_fg", "second")
        two = ("cca", "CCA of f", "accent"), ("fixed", "d_fg, fixed", "second")
        rows.append(
            [
                partial(_curves, cells=cells, lines=one, title=f"K = {classes}: distances"),
                partial(_curves, cells=cells, lines=two, title=f"K = {classes}: other measures"),
                partial(_bounds, pairs=own[own["trained"]], title=f"K = {classes}: every pair"),
            ]
        )
    return sheet(*rows)


def _curves(ax: Axes, cells: pd.DataFrame, lines: Any, title: str) -> None:
    ax.set_title(title)
    ax.set_xscale("log", base=2)
    ax.set_xticks(cells["width"], [str(width) for width in cells["width"]])
    ax.set_xlabel("width")
    ax.set_ylabel("mean ± sd over pairs")
    # A width with too few models shows no point, as in the paper.
    shown = cells[cells["counts"]]
    for place, (column, name, colour) in enumerate(lines):
        look: dict[str, Any] = {"color": PALETTE[colour], "lw": 1.5}
        # Side by side, so that bars do not hide each other.
        across = shown["width"] * 1.03**place
        ax.errorbar(across, shown[column], shown[f"{column}_sd"], label=name, capsize=2, **look)
        look |= {"ls": (0, (1, 1.5)), "label": f"{name}, untrained"}
        ax.plot(cells["width"], cells[f"{column}_untrained"], **look)
        if column == "cca":
            ax.axhline(cells["cca_chance"].iloc[0], color=PALETTE["muted"], lw=0.9, label="chance")
    ax.set_ylim(0, 1.3 * ax.get_ylim()[1])
    ax.legend(frameon=False, fontsize=7, ncols=2, loc="upper center")


def _bounds(ax: Axes, pairs: pd.DataFrame, title: str) -> None:
    ax.set_title(title)
    if pairs.empty:
        absent(ax)
        return
    x, y = pairs["llv"].to_numpy(), pairs["representation"].to_numpy()
    ax.loglog()
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter("{x:g}")
        axis.set_minor_formatter("")
    ax.set_xlim(10 ** np.floor(np.log10(x.min())), max(2, 1.2 * x.max()))
    ax.set_ylim(10 ** np.floor(np.log10(y.min())), 2)
    ε = np.geomspace(*ax.get_xlim(), 50)
    ax.plot(ε, 2 * M * ε, color=PALETTE["ink"], lw=1.2, label="2Mε (published)")
    ax.plot(ε, 2 * ε**2, color=PALETTE["muted"], lw=1.2, ls=(0, (4, 2)), label="2ε² (sharper)")
    dots(ax, x, y, "second", 2.5)
    ax.set_xlabel("ε = d_LLV")
    ax.set_ylabel("d_fg")
    ax.legend(frameon=False, fontsize=7, loc="lower right")


def _claims() -> tuple[Claim, ...]:
    claims = []
    for classes in (4, 6, 10, 18):
        where = "Figure 3, right" if classes < 10 else "Figures 17 and 18"
        for key, column, name in (("llv", "llv", "d_LLV"), ("fg", "representation", "d_fg")):
            says = f"With K = {classes} labels, {name} falls with width."
            check = partial(_trend, classes=classes, column=column, falls=True)
            claims.append(Claim(f"{key}-{classes}", says, "falls, in a figure only", where, check))
    for classes, passed in PASSED.items():
        says = f"With K = {classes} nearly all models have an accuracy above 0.9."
        counts = ", ".join(map(str, passed.values()))
        check = partial(_passed, classes=classes)
        claims.append(Claim(f"kept-{classes}", says, f"{counts} of 20", "Appendix F", check))
    return (
        *claims,
        Claim(
            "bound",
            "d_fg never exceeds 2Mε, with ε = d_LLV.",
            "always below",
            "Theorem 4.7, Figure 16",
            partial(_below, bound="bound"),
        ),
        Claim(
            "sharper",
            "Nor does it exceed 2ε².",
            "not in the paper",
            "derived from its proof",
            partial(_below, bound="sharper_bound"),
        ),
        Claim(
            "fixed-4",
            "Against the paper: over fixed sets, with K = 4, d_fg rises with width.",
            "0.251 to 0.366",
            "an independent re-run",
            partial(_trend, classes=4, column="fixed", falls=False),
        ),
        Claim(
            "cca-4",
            "Against the paper: with K = 4, mean CCA of f falls with width.",
            "0.741 to 0.666",
            "an independent re-run",
            partial(_trend, classes=4, column="cca", falls=True),
        ),
    )


# fmt: off
COMMON = {
    "train": 20_000, "test": 2000, "batch": 128, "accuracy": 0.9, "least": 5, "candidates": 200,
}
PRESETS = {
    # A learning rate at which a few steps will do: it shows that the study runs, and no more.
    "smoke": COMMON | {
        "seeds": 4, "least": 3, "classes": [4, 6], "widths": [16, 32], "lr": 5e-3, "steps": 500,
    },
    # As in the paper, but for width 256 and the number of seeds.
    "laptop": COMMON | {
        "seeds": 8, "classes": [4, 6, 10, 18], "widths": [16, 32, 64, 128], "lr": 1e-4,
        "steps": 15_000,
    },
    "paper": COMMON | {
        "seeds": 20, "classes": [4, 6, 10, 18], "widths": [16, 32, 64, 128, 256], "lr": 1e-4,
        "steps": 15_000,
    },
}
# fmt: on

STUDY = Study(
    name="nielsen-width",
    title="Width, and how similar networks become",
    paper="Nielsen et al., NeurIPS 2025 (arXiv 2506.03784), Figures 3, 16, 17 and 18",
    about=(
        "Networks of several widths learn to tell sectors of the plane apart, many seeds of each. "
        "All pairs that do it well are compared: their distributions by d_LLV, their embeddings by "
        "d_fg. The paper finds both to fall with width; an independent re-run found the "
        "embeddings of wider networks less alike. What is measured here is reported as it is. "
        "Intervals are over seeds."
    ),
    presets=PRESETS,
    run=run,
    claims=_claims(),
    figure=figure,
)
