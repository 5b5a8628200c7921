"""Figure 2 of Roeder et al.: classifiers of one teacher's labels have the same features, linearly.

Points of the plane (and 20 inputs of noise) lie in one of K = 18 sectors. A teacher
p(y|x) ∝ exp(f*(x)ᵀ g*(y)), with f* and g* in two dimensions, is fitted to these labels. Students of
the same architecture learn from new points that the teacher has labelled. All of them can have the
teacher's distribution, so Theorem 1 says that the f of any two, and the g, are linear maps of each
other once they are trained.

Labels are drawn from the teacher's softmax. The paper does not say how they are made; with the most
likely label (`labels = "argmax"`) the likelihood has no finite maximum, and in the limit of long
training the theorem says nothing.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from identikit._linalg import Array
from identikit.alignment import align
from identikit.auditing import audit_models
from identikit.errors import InputError
from identikit.family import SoftmaxModel, distances
from identikit.inference import cca_chance
from identikit.moments import accumulate
from identikit.report._drawing import beside, dots, sheet
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
    Settings,
    Study,
    Tables,
    judge,
    per_seed,
)
from identikit.studies._work import Work

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from torch import Tensor

    from identikit.learn import Run, SoftmaxNet

M, HIDDEN = 2, 64
RULES = ("sampled", "argmax")
# Seeds that no student has: of the teacher, and of the points on which models are compared.
TEACHER, TEST = 2**20, 2**21
# Points in a scatter.
SHOWN = 200
COLOURS = ("accent", "second", "muted")


def by_angle(rows: int, rng: np.random.Generator, settings: Settings) -> tuple[Tensor, Tensor]:
    """Points, and the sectors that they lie in."""
    import torch

    x = points(rows, rng, settings.noise)
    return torch.from_numpy(x), torch.from_numpy(sectors(x, settings.classes, 2 * np.pi))


def by_teacher(
    rows: int, rng: np.random.Generator, settings: Settings, teacher: SoftmaxNet
) -> tuple[Tensor, Tensor]:
    """Points with labels of the teacher: drawn from its softmax, or its most likely ones."""
    import torch

    x = torch.from_numpy(points(rows, rng, settings.noise))
    with torch.no_grad():
        logits = teacher.f(x) @ teacher.g().T
    if settings.labels == "argmax":
        return x, logits.argmax(1)
    # The label at which the distribution function passes a uniform number.
    steps = logits.softmax(1).cumsum(1)[:, :-1].contiguous()
    uniform = torch.from_numpy(rng.random((rows, 1), dtype=np.float32))
    return x, torch.searchsorted(steps, uniform).squeeze(1)


def build(settings: Settings) -> SoftmaxNet:
    """f is 22-64-64-2, and g is 18-64-64-2 on one-hot labels."""
    from identikit.learn import MLP, OneHot, SoftmaxNet

    g = MLP([settings.classes, HIDDEN, HIDDEN, M])
    return SoftmaxNet(MLP([2 + settings.noise, HIDDEN, HIDDEN, M]), OneHot(settings.classes, g))


def learn(sample: Any, steps: int, settings: Settings, **kwargs: Any) -> Run:
    """Train by maximum likelihood on points that are new at every step."""
    from identikit.learn import fresh, supervised, train

    batches = fresh(partial(sample, settings=settings), settings.batch)
    return train(partial(build, settings), supervised, batches, steps, **kwargs)


def held_out_points(settings: Settings) -> NDArray[np.float32]:
    """The inputs on which all models are compared."""
    return points(settings.rows, np.random.default_rng(TEST), settings.noise)


def fit_teacher(settings: Settings, **kwargs: Any) -> Record:
    """The teacher's weights, its accuracy and its mean entropy: a unit of work."""
    import torch

    steps, lr = settings.teacher_steps, settings.teacher_lr
    run = learn(by_angle, steps, settings, seeds=(TEACHER,), lr=lr, **kwargs)
    x = held_out_points(settings)
    logs = run.model(TEACHER, torch.from_numpy(x)).log_prob()
    right = logs.argmax(axis=1) == sectors(x, settings.classes, 2 * np.pi)
    entropy = -(np.exp(logs) * logs).sum(axis=1).mean()
    weights = {name: w.numpy() for name, w in run.net(TEACHER).state_dict().items()}
    return Record([{"accuracy": right.mean(), "entropy": entropy}], weights)


def teach(lr: float, folder: str, weights: dict[str, Array], settings: Settings) -> Record:
    """Students of one learning rate, beside the input, untrained networks and the teacher: a unit.

    Parameters
    ----------
    lr : float
        Learning rate.
    folder : str
        For checkpoints.
    weights : dict of str to array
        The teacher's.
    settings : Settings
        Of the study.

    Returns
    -------
    Record
        Arrays f (snapshots, seeds, rows, M) and g (snapshots, seeds, classes, M). A row a snapshot
        and seed: KL divergence from the teacher; mean CCA of f with the plain input, with another
        seed's f before training, and with the teacher's f.
    """
    import torch

    teacher = build(settings)
    teacher.load_state_dict({name: torch.from_numpy(w) for name, w in weights.items()})
    steps, count = snapshots(settings), settings.seeds
    run = learn(
        partial(by_teacher, teacher=teacher), steps[-1], settings,
        seeds=range(count), lr=lr, snapshots=steps, folder=folder,
    )  # fmt: skip
    plain = held_out_points(settings)
    x = torch.from_numpy(plain)
    f = np.stack([list(run.embed(x, step).values()) for step in steps])
    g = np.stack([list(run.unembed(None, step).values()) for step in steps])
    with torch.no_grad():
        truth = SoftmaxModel(teacher.f(x).numpy(), teacher.g().numpy(), name="teacher")
    rows = []
    for (at, step), seed in ((each, seed) for each in enumerate(steps) for seed in range(count)):
        student = SoftmaxModel(f[at, seed], g[at, seed], name=f"seed {seed}")
        untrained = f[0, (seed + 1) % count]
        moments = accumulate([student.f, plain[:, :2], untrained, truth.f])
        names = ("cca_input", "cca_untrained", "cca_teacher")
        similar = {name: cca(moments, 0, other).mean for other, name in enumerate(names, 1)}
        kl = distances(truth, student).kl
        rows.append({"lr": lr, "step": step, "seed": seed, "kl": kl, **similar})
    return Record(rows, {"f": f, "g": g})


def snapshots(settings: Settings) -> list[int]:
    """Steps at which students are compared: before training, and those of the preset."""
    return sorted({0, *settings.snapshots})


def compare(lr: float, step: int, f: Array, g: Array) -> Record:
    """Every pair of students at one snapshot, as `identikit models` audits them: a unit of work.

    Parameters
    ----------
    lr, step
        Which they are.
    f, g : array (seeds, rows, M), (seeds, classes, M)
        The students.
    """
    models = [SoftmaxModel(*both, name=str(seed)) for seed, both in enumerate(zip(f, g))]
    labels = accumulate(list(g))
    rows = []
    for pair in audit_models(models).pairs:
        a, b, found = int(pair.a), int(pair.b), pair.embedding
        row: dict[str, Any] = {"lr": lr, "step": step, "a": a, "b": b, "cca_f": found.cca.mean}
        row |= {"cca_f_held_out": found.cca.held_out, "cca_g": cca(labels, a, b).mean}
        row |= {key: getattr(pair.gauge, key) for key in ("kappa", "kappa_raw", "logit_gap")}
        row |= {"kl": pair.distances.kl, "group": found.group, "error": found.error}
        row |= {"low": found.interval[0], "high": found.interval[1], "finding": pair.finding}
        rows.append(row)
    return Record(rows)


def run(work: Work) -> Tables:
    """Fit the teacher, teach students at every learning rate, compare all pairs of them."""
    s = work.settings
    if s.labels not in RULES:
        raise InputError(f"labels is {s.labels!r}; expected one of {', '.join(RULES)}")
    if s.seeds < 2:
        raise InputError(f"seeds is {s.seeds}; students are compared in pairs, so give 2 or more")
    folder = work.folder_of("teacher")
    teacher = work.unit("teacher", fit_teacher, s, folder=folder, progress=work.progress)
    folders = [(lr, str(work.folder_of(f"students,lr={lr}"))) for lr in s.lrs]
    taught = work.each(
        "students,lr={0}", teach, folders, processes=True, weights=teacher.arrays, settings=s
    )
    items = [
        (lr, step, record.arrays["f"][at], record.arrays["g"][at])
        for lr, record in zip(s.lrs, taught)
        for at, step in enumerate(snapshots(s))
    ]
    compared = work.each("pairs,lr={0},step={1}", compare, items, processes=True)
    seeds, pairs = (
        pd.DataFrame(list(chain.from_iterable(record.rows for record in records)))
        for records in (taught, compared)
    )
    slowest = taught[int(np.argmin(s.lrs))].arrays["f"][-1]
    return {
        "mean": _mean(pairs, seeds, s),
        "pairs": pairs,
        "seeds": seeds,
        "scatter": _scatter(_chosen(pairs), slowest),
        "teacher": pd.DataFrame(teacher.rows),
    }


def _mean(pairs: pd.DataFrame, seeds: pd.DataFrame, settings: Settings) -> pd.DataFrame:
    """What pairs and seeds have on average, and at the ends, by learning rate and step."""
    by = ["lr", "step"]
    over_pairs = pairs.groupby(by)[["cca_f", "cca_g"]].agg(["mean", "min", "max"])
    over_pairs.columns = pd.Index(["_".join(both) for both in over_pairs.columns])
    gaps = pairs.groupby(by)[["kappa", "kappa_raw", "logit_gap"]]
    over_seeds = seeds.groupby(by)[["cca_input", "cca_untrained", "cca_teacher", "kl"]].mean()
    return (
        over_pairs.join(
            [gaps.median().add_suffix("_median"), over_seeds.rename(columns={"kl": "kl_teacher"})]
        )
        .assign(chance_f=cca_chance(settings.rows, M, M))
        .assign(chance_g=cca_chance(settings.classes, M, M))
        .reset_index()
    )


def _scatter(pairs: pd.DataFrame, f: Array) -> pd.DataFrame:
    """f of one student and the linear image of another's, of the most and the least alike pair.

    The map is fitted on one half of the rows and drawn on the other.
    """
    order = pairs.sort_values("cca_f")
    parts = []
    for which, pair in (("most alike", order.iloc[-1]), ("least alike", order.iloc[0])):
        a, b = int(pair["a"]), int(pair["b"])
        fitted = align(f[a, ::2], f[b, ::2], group="linear")
        image, target = fitted.transform(f[a, 1::2][:SHOWN]), f[b, 1::2][:SHOWN]
        columns = dict(zip(("target_1", "target_2", "image_1", "image_2"), (*target.T, *image.T)))
        parts.append(pd.DataFrame({"pair": which, "a": a, "b": b, **columns}))
    return pd.concat(parts, ignore_index=True)


def _chosen(table: pd.DataFrame, step: int | None = None, lr: float | None = None) -> pd.DataFrame:
    """The rows of one step, the last by default, and of one learning rate, the smallest."""
    step = table["step"].max() if step is None else step
    lr = table["lr"].min() if lr is None else lr
    return table[(table["step"] == step) & (table["lr"] == lr)]


def _spread(pairs: pd.DataFrame, column: str) -> str:
    """What a mean over pairs hides, in words."""
    parts = [
        f"{values.min():.3g} to {values.max():.3g}, median {values.median():.3g}, at {lr:g}"
        for lr, values in pairs[pairs["step"] == pairs["step"].max()].groupby("lr")[column]
    ]
    return f"Pairs by learning rate: {'; '.join(parts)}."


def _grows(tables: Tables) -> Finding:
    after, before = (per_seed(_chosen(tables["pairs"], step), "cca_f") for step in (None, 0))
    comment = "Mean CCA of f after training less that before; above 0 counts."
    return judge(list(np.subtract(after, before)), low=0.0, comment=comment)


def _when(tables: Tables) -> Finding:
    comment = (
        "The first step at which a pair is within 0.01 of its highest mean CCA of f, mean over "
        "pairs; 2000 to 8000 counts as about 4000."
    )
    pairs = tables["pairs"][tables["pairs"]["lr"] == tables["pairs"]["lr"].min()]
    if pairs["step"].max() < 8000:
        comment += f" Training ended at step {pairs['step'].max()}, too early to tell."
        return Finding(None, None, INCONCLUSIVE, comment)
    near = pairs[pairs["cca_f"] >= pairs.groupby(["a", "b"])["cca_f"].transform("max") - 0.01]
    first = near.groupby(["a", "b"], as_index=False)["step"].min()
    return judge(per_seed(first, "step"), 2000, 8000, comment)


def _near_one(tables: Tables, column: str) -> Finding:
    pairs = tables["pairs"]
    comment = f"Mean CCA over pairs; 0.99 or more counts. {_spread(pairs, column)}"
    return judge(per_seed(_chosen(pairs), column), low=0.99, comment=comment)


def _near_zero(tables: Tables, column: str) -> Finding:
    pairs = tables["pairs"]
    comment = (
        f"Mean over pairs, {_chosen(pairs, 0)[column].mean():.2g} before training; 0.1 or less, "
        f"the tolerance of an audit, counts. {_spread(pairs, column)}"
    )
    after, before = (per_seed(_chosen(pairs, step), column) for step in (None, 0))
    found = judge(after, high=0.1, comment=comment)
    fell = judge(list(np.subtract(after, before)), high=0.0).verdict == REPRODUCED
    # What is on its way to a limit, and not there yet, does not speak against it.
    return replace(found, verdict=INCONCLUSIVE) if fell and found.verdict == NOT else found


def _lr(tables: Tables) -> Finding:
    pairs = tables["pairs"]
    low, high = pairs["lr"].min(), pairs["lr"].max()
    if low == high:
        return Finding(None, None, UNMEASURED, "Only one learning rate was run.")
    fast, slow = (per_seed(_chosen(pairs, lr=lr), "cca_f") for lr in (high, low))
    comment = f"Mean CCA of f at learning rate {high:g} less that at {low:g}; above 0 counts."
    return judge(list(np.subtract(fast, slow)), low=0.0, comment=comment)


def _input(tables: Tables) -> Finding:
    comment = (
        "Mean CCA of a trained f with the two-dimensional input itself; 0.95 or more counts. The "
        "task makes f nearly linear in the input, so that Figure 2 is a weak test."
    )
    return judge(list(_chosen(tables["seeds"])["cca_input"]), low=0.95, comment=comment)


def figure(tables: Tables, _settings: Settings) -> Figure:
    """CCA of f and g, κ and logit gap over training; scatters after the map; errors in the end."""
    mean, scatter = tables["mean"], tables["scatter"]
    most, least = (scatter[scatter["pair"] == which] for which in ("most alike", "least alike"))
    pairs = tables["pairs"][tables["pairs"]["step"] == tables["pairs"]["step"].max()]
    return sheet(
        [*(partial(_similar, mean=mean, side=side) for side in "fg"), partial(_gaps, mean=mean)],
        [*(partial(_overlap, dotted=each) for each in (most, least)), partial(_ends, pairs=pairs)],
    )


def _similar(ax: Axes, mean: pd.DataFrame, side: str) -> None:
    ax.set_title(f"Mean CCA of {side}, pairs of students")
    ax.set_ylim(0, 1.03)
    _training(ax, mean["step"].max())
    for (lr, curve), colour in zip(mean.groupby("lr"), COLOURS):
        low, middle, high = (curve[f"cca_{side}_{which}"] for which in ("min", "mean", "max"))
        look: dict[str, Any] = {"color": PALETTE[colour], "lw": 1.5}
        reach = middle - low, high - middle
        ax.errorbar(
            curve["step"], middle, reach, label=f"lr {lr:g}", elinewidth=0.8, capsize=2, **look
        )
        if side == "f":
            label = f"f and plain input, lr {lr:g}"
            ax.plot(curve["step"], curve["cca_input"], ls=(0, (1, 1.5)), label=label, **look)
    ax.axhline(mean[f"chance_{side}"].iloc[0], color=PALETTE["muted"], lw=0.9, label="chance")
    ax.legend(frameon=False, loc="lower right", fontsize=7.5)


def _gaps(ax: Axes, mean: pd.DataFrame) -> None:
    ax.set_title("One map for f and g? Medians of pairs")
    ax.set_yscale("log")
    ax.yaxis.set_major_formatter("{x:g}")
    _training(ax, mean["step"].max())
    for (lr, curve), colour in zip(mean.groupby("lr"), COLOURS):
        for column, name, dash in (("kappa", "κ", "-"), ("logit_gap", "logit gap", (0, (4, 2)))):
            look: dict[str, Any] = {"color": PALETTE[colour], "ls": dash, "lw": 1.5}
            ax.plot(curve["step"], curve[f"{column}_median"], label=f"{name}, lr {lr:g}", **look)
    ax.legend(frameon=False, loc="upper right", fontsize=7.5)


def _training(ax: Axes, last: int) -> None:
    ax.set_xscale("symlog", linthresh=100, linscale=0.5)
    ticks = [tick for tick in (0, 100, 1000, 10_000) if tick <= last]
    ax.set_xticks(ticks, [str(tick) for tick in ticks])
    ax.set_xticks([], minor=True)
    ax.set_xlabel("training step")


def _overlap(ax: Axes, dotted: pd.DataFrame) -> None:
    first = dotted.iloc[0]
    ax.set_title(f"The pair {first['pair']}, after the map")
    sides = {name: dotted[[f"{name}_1", f"{name}_2"]].to_numpy() for name in ("target", "image")}
    reach = 1.05 * max(np.abs(side).max() for side in sides.values())
    ax.set_xlim(-reach, reach)
    ax.set_ylim(-reach, reach)
    ax.set_box_aspect(1)
    ax.locator_params(nbins=4)
    for name, colour, size in (("target", "accent", 5), ("image", "second", 2.5)):
        dots(ax, sides[name][:, 0], sides[name][:, 1], colour, size)
    beside(ax, 0.95, f"f, seed {first['b']}", "accent", in_panel_parts=True)
    beside(ax, 0.87, f"A f, seed {first['a']}", "second", in_panel_parts=True)


def _ends(ax: Axes, pairs: pd.DataFrame) -> None:
    ax.set_title("Held-out error of the map in the end")
    rates = list(pairs.groupby("lr"))
    ax.set_yscale("log")
    ax.yaxis.set_major_formatter("{x:g}")
    ax.set_xlim(-0.5, len(rates) - 0.5)
    ax.set_ylim(min(0.05, pairs["error"].min() / 1.5), 1.5)
    ax.axhline(0.1, color=PALETTE["muted"], lw=0.9, ls=(0, (4, 2)))
    beside(ax, 0.1, "tolerance", "muted")
    for place, ((_, own), colour) in enumerate(zip(rates, COLOURS)):
        across = place + np.linspace(-0.25, 0.25, len(own))
        dots(ax, across, own["error"].to_numpy(), colour, 4)
    ax.set_xticks(range(len(rates)), [f"lr {lr:g}" for lr, _ in rates])
    ax.set_ylabel("a dot a pair")


# Batch, activation and the law of the noise are not published: 256, ReLU, standard normal.
COMMON = {"classes": 18, "noise": 20, "batch": 256, "labels": "sampled"}
# fmt: off
SMOKE = {
    "seeds": 3, "lrs": [1e-3], "snapshots": [0, 100, 250, 500],
    "teacher_steps": 1000, "teacher_lr": 1e-3, "rows": 1000,
}
LAPTOP = {
    "seeds": 8, "lrs": [1e-4, 1e-3],
    "snapshots": [0, 100, 250, 500, 1000, 2000, 4000, 8000, 12000],
    "teacher_steps": 8000, "teacher_lr": 1e-3, "rows": 5000,
}
# The paper gives a learning rate of 1e-4 in one place and of 3e-4 in another, and shows one pair.
PAPER = {
    "seeds": 8, "lrs": [1e-4, 3e-4],
    "snapshots": [0, 100, 250, 500, 1000, 2000, 4000, 8000, 16000, 32000, 50000],
    "teacher_steps": 50000, "teacher_lr": 3e-4, "rows": 5000,
}
# fmt: on

STUDY = Study(
    name="roeder-classification",
    title="Classifiers of one teacher's labels",
    paper="Roeder, Metz and Kingma, ICML 2021 (arXiv 2007.00810), Section 5.1 and Figure 2",
    about=(
        "Small classifiers learn from labels of one teacher, each from its own start and its own "
        "points. Linear identifiability says that their features f, and their label vectors g, "
        "become linear maps of each other, and that one map serves for both. All pairs of seeds "
        "are compared on new points, over training; intervals are over seeds. Beside them: the "
        "level of chance, untrained networks, and the plain two-dimensional input."
    ),
    presets={"smoke": SMOKE | COMMON, "laptop": LAPTOP | COMMON, "paper": PAPER | COMMON},
    run=run,
    claims=(
        Claim(
            "grows",
            "The f of two students become more alike in training, up to a linear map.",
            "no number given",
            "Figure 2b",
            _grows,
        ),
        Claim(
            "when",
            "They are most alike after about 4000 steps.",
            "about 4000",
            "Section 5.1",
            _when,
        ),
        Claim(
            "f",
            "In the end the f of two students are linear maps of each other.",
            "near 1, in a figure only",
            "Figures 2b and 2c",
            partial(_near_one, column="cca_f"),
        ),
        Claim(
            "g",
            "So are their g.",
            "no number given",
            "Theorem 1, Appendix C",
            partial(_near_one, column="cca_g"),
        ),
        Claim(
            "kappa",
            "One matrix serves for f and, inverted and transposed, for g: κ falls to 0.",
            "0 in the limit",
            "follows from Theorem 1",
            partial(_near_zero, column="kappa"),
        ),
        Claim(
            "logits",
            "The students come to have one distribution: the relative logit gap falls to 0.",
            "0 in the limit",
            "what Theorem 1 assumes",
            partial(_near_zero, column="logit_gap"),
        ),
        Claim(
            "lr",
            "A better fit, here by a larger learning rate, makes them more alike.",
            "no number given",
            "Remark A.5",
            _lr,
        ),
        Claim(
            "input",
            "A limit of the experiment: the plain input is already much like f.",
            "not considered (0.976 in a re-run)",
            "not in the paper",
            _input,
        ),
    ),
    figure=figure,
)
