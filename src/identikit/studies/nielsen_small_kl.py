"""Theorem 3.1 of Nielsen et al.: models arbitrarily close in KL, with unrelated embeddings.

K = 7 labels lie on a circle, and inputs in clusters around the direction of their label. The second
model moves label k and its cluster to the place of label π(k) = 2k − 2 mod 7. No linear map does
this. As the length ρ of the label vectors grows, both models give nearly all probability to the
true label, and their KL divergence goes to 0.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from identikit._linalg import Array
from identikit._threads import one_thread
from identikit.family import Distances, SoftmaxModel, distances
from identikit.moments import accumulate
from identikit.report.drawing import dots, sheet
from identikit.report.style import PALETTE
from identikit.similarity import cca
from identikit.studies import _checks as check
from identikit.studies._columns import where
from identikit.studies._figures import Axes, Figure
from identikit.studies._seed_pairs import curves
from identikit.studies._study import Claim, Finding, Record, Settings, Study, Tables
from identikit.studies._work import Work, rows_of

K, RADIUS = 7, 2.0
MOVED = (2 * np.arange(K) - 2) % K
# A length of the label vectors at which, according to the paper, the models nearly agree.
LONG = 18
SHOWN = 30  # points of a cluster in the figure


def run(work: Work) -> Tables:
    """Measure every random draw; the figure shows the first."""
    s = work.settings
    records = work.each("seed={}", measure, range(s.seeds), settings=s)
    every = rows_of(records)
    mean = every.drop(columns="seed").groupby("rho", as_index=False).mean()
    first = records[0].arrays["embeddings"]
    model, label, _ = (axis.ravel() for axis in np.indices(first.shape[:3]))
    x, y = first.reshape(-1, 2).T
    return {
        "mean": mean.assign(kl_noise_free=[noise_free_kl(rho) for rho in mean["rho"]]),
        "draws": every,
        "embeddings": pd.DataFrame({"model": model + 1, "label": label, "x": x, "y": y}),
    }


def directions(angles: Array) -> Array:
    """Unit vectors."""
    return np.stack([np.cos(angles), np.sin(angles)], axis=-1)


def embeddings(per_label: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """f of both models, (K, per_label, 2): noisy radii, and angles within π/64 of the label's.

    A cluster that moves keeps its radii and takes the angles of the label whose place it takes.
    """
    radii = RADIUS + np.abs(0.01 * rng.normal(size=(K, per_label)))
    angles = 2 * np.pi * np.arange(K)[:, None] / K
    angles = angles + rng.uniform(-np.pi / 64, np.pi / 64, size=(K, per_label))
    return radii[..., None] * directions(angles), radii[..., None] * directions(angles[MOVED])


def measure(seed: int, settings: Settings) -> Record:
    """Compare the models on one draw of the inputs, and of d_LLV's candidates, at every ρ."""
    both = embeddings(settings.per_label, np.random.default_rng(seed))
    f, moved = (each.reshape(-1, 2) for each in both)
    g = directions(2 * np.pi * np.arange(K) / K)
    truth = np.repeat(np.arange(K), settings.per_label)
    correlation = cca(accumulate([f, moved])).mean
    rows = []
    for rho in settings.rhos:
        models = SoftmaxModel(f, rho * g), SoftmaxModel(moved, rho * g[MOVED])
        with one_thread():
            apart = distances(*models, candidates=settings.candidates, seed=seed)
        assert isinstance(apart, Distances)
        losses = (-model.log_prob()[np.arange(len(f)), truth].mean() for model in models)
        row = {"seed": seed, "rho": rho, "kl": apart.kl, "llv": apart.llv, "cca": correlation}
        rows.append(row | {"svd_f": apart.svd_f, "svd_g": apart.svd_g, "nll": max(losses)})
    return Record(rows, {"embeddings": np.stack(both)[:, :, :SHOWN]})


def noise_free_kl(rho: float) -> float:
    """KL of one input per label, at radius 2: Σ_j q_j 2ρ (cos θ_j − cos 2θ_j), q ∝ exp 2ρ cos θ."""
    angles = 2 * np.pi * np.arange(K) / K
    q = np.exp(RADIUS * rho * (np.cos(angles) - 1))
    return float(q / q.sum() @ (RADIUS * rho * (np.cos(angles) - np.cos(2 * angles))))


# What the claims are checked on: one value per draw.


def at(tables: Tables, rho: float, column: str) -> pd.Series[Any]:
    """A column of every draw at one ρ."""
    return where(tables["draws"], rho=rho)[column]


def farthest(tables: Tables, column: str, target: float) -> list[float]:
    """For every draw, the value over all ρ that is farthest from the target."""
    return [
        float(values.iloc[np.abs(values - target).argmax()])
        for _, values in tables["draws"].groupby("seed")[column]
    ]


def likelihood(tables: Tables) -> Finding:
    """Check the loss of the worse model at the largest ρ, if that ρ is large enough."""
    largest = tables["draws"]["rho"].max()
    comment = f"The larger loss of the two models at ρ = {largest}; below 0.001 counts."
    if largest < LONG:
        comment += f" The claim is about long label vectors: include ρ = {LONG} to measure it."
        return check.below([], 0.001, comment)
    return check.below(at(tables, largest, "nll"), 0.001, comment)


def figure(tables: Tables, _settings: Settings) -> Figure:
    """The embeddings of both models, and the distances as functions of ρ."""
    points, names = tables["embeddings"], {"llv": "d_LLV", "svd_f": "d_SVD of f", "kl": "d_KL"}
    table = tables["draws"].melt(["seed", "rho"], list(names), "line").replace({"line": names})
    return sheet(
        [
            partial(circle, points=points[points["model"] == 1], colour="accent", title="Model 1"),
            partial(circle, points=points[points["model"] == 2], colour="second", title="Model 2"),
            curves("What longer label vectors do", table, "rho", LENGTH, log_y=True),
        ]
    )


def circle(ax: Axes, points: pd.DataFrame, colour: str, title: str) -> None:
    """f of one model in the plane, with the number of each label beyond its cluster."""
    ax.set_title(f"{title}: f(x) by label")
    ax.set_xlim(-3, 3)
    ax.set_ylim(-3, 3)
    ax.set_box_aspect(1)
    ax.locator_params(nbins=4)
    for label, (x, y) in points.groupby("label")[["x", "y"]].mean().iterrows():
        ax.plot([0, x], [0, y], color=PALETTE["line"], lw=0.9)
        ax.text(1.3 * x, 1.3 * y, str(label), ha="center", va="center")
    dots(ax, points["x"].to_numpy(), points["y"].to_numpy(), colour, 4)


LENGTH = "length ρ of the label vectors"
CLAIMS = (
    Claim("kl-3", "At ρ = 3 the distributions of the two models still differ.",
        0.8866, "Table 1", lambda t: check.within(at(t, 3, "kl"), 0.99 * 0.8866, 1.01 * 0.8866,
        "Mean of d_KL over draws; within 1 % of the published draw counts.")),
    Claim("kl-18", "At ρ = 18 the KL divergence of the two models is almost zero.",
        "about 1e-4", "Table 1", lambda t: check.within(at(t, LONG, "kl"), 0.5e-4, 1.5e-4,
        "Mean of d_KL over draws.")),
    Claim("llv", "d_LLV of the two models does not depend on ρ.",
        1.317, "Table 1", lambda t: check.within(farthest(t, "llv", 1.317), 1.314, 1.32,
        "For every draw, the d_LLV over all ρ that is farthest from 1.317; within 0.003 counts. "
        "Without noise it is 1.3179 at every ρ.")),
    Claim("cca", "No linear map relates the embeddings of the two models.",
        "about 0", "Table 1", lambda t: check.below(farthest(t, "cca", 0.0), 0.005,
        "Mean canonical correlation of the two f; below 0.005 counts as 0.")),
    Claim("svd", "d_SVD of the two models' embeddings stays at its maximum.",
        0.999, "Table 1", lambda t: check.above(farthest(t, "svd_f", 1.0), 0.998,
        "The smallest over all ρ; 0.998 or more counts.")),
    Claim("nll", "Both models come arbitrarily close to the maximum likelihood.",
        "to 0", "Corollary 3.2", likelihood),
)  # fmt: skip
LAPTOP = {"seeds": 20, "rhos": list(range(1, 21)), "per_label": 500, "candidates": 100}
SMOKE = LAPTOP | {"seeds": 4, "rhos": [1, 3, 10, 18]}
STUDY = Study(
    name="nielsen-small-kl",
    title="Small KL divergence, unrelated embeddings",
    paper="Nielsen et al., NeurIPS 2025 (arXiv 2506.03784), Table 1 and Figure 2",
    about=(
        "Two models put seven labels on a circle in different orders. As their label vectors grow, "
        "the models agree better and better on every prediction, but their embeddings stay "
        "unrelated. So closeness in KL says nothing about representations, whereas d_LLV shows the "
        "difference. The paper shows one random draw of the inputs; here intervals are over "
        "several draws."
    ),
    presets={"smoke": SMOKE, "laptop": LAPTOP, "paper": LAPTOP | {"seeds": 40}},
    run=run, claims=CLAIMS, figure=figure,
)  # fmt: skip
