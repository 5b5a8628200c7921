"""Reizinger et al.: a classifier trained by cross-entropy inverts the process that made the data.

Latents z lie on a sphere in clusters p(z|c) ∝ exp(κ v_cᵀz) and are observed through x = g(z). At
the optimum f∘g is linear if the differences of the class vectors v_c span R^d, and a rotation,
possibly scaled, if f or the weights have unit norm (cases C1 to C4). The floor of the loss
distinguishes "not optimised" from "not identified". The paper's condition for unit weights (C3) is
too weak: below d(d+3)/2 classes there are other optima, and one of them is constructed here
exactly.
"""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from identikit.report.drawing import sheet
from identikit.studies import _checks as check
from identikit.studies._cluster_arms import SMALL, Arm, another, arms, decode, measure
from identikit.studies._columns import Check, Column, column, trend, where
from identikit.studies._figures import Figure, curve, dots
from identikit.studies._study import Claim, Settings, Study, Tables, control
from identikit.studies._work import Work, rows_of

#: A loss this close to its floor, in nats, counts as being at the floor.
SLACK = 0.05


def run(work: Work) -> Tables:
    """Train every arm, decode factors from images, and construct the other optima."""
    s = work.settings
    trained = work.each("{}", measure, arms(s), processes=True, settings=s)
    read = work.each("images,seed={}", decode, range(s.seeds), processes=True, settings=s)
    worlds, factors = rows_of(trained), rows_of(read)
    other = [another(classes, seed) for classes in s.quadric for seed in range(s.seeds)]
    worlds = worlds.assign(gap=worlds["loss"] - worlds["floor"])
    return {"worlds": worlds, "factors": factors, "other optima": pd.DataFrame(other)}


# What the claims are checked on: a check of one column of one arm, or of two arms seed by seed.


def of(name: str = "r2", slack: float | None = None, **arm: Any) -> Column:
    """A column of an arm, of all seeds or of those whose loss reached its floor."""
    found = column("worlds", name, WORDS.get(name, ""), **asdict(Arm(**arm)))
    if slack is None:
        return found
    return found.reached(of("loss", **arm), of("floor", **arm), slack)


def alike(bar: float, **arm: Any) -> Check:
    """Check that R² equals that of the first arm."""
    words = f"{WORDS['r2']}, minus that of the first setting"
    return of(**arm).less(of(), words).between(-bar, bar)


def more(says: str, a: Any, b: Any, name: str = "r2", than: str | None = None) -> Check:
    """Check that a column of one arm is higher than that, or another column, of another arm."""
    return of(name, **a).less(of(than or name, **b), says).positive()


def over(test: Any, name: str, **arm: Any) -> Check:
    """Check that a column rises or falls with the number of dimensions."""
    at = asdict(Arm(**arm))
    del at["d"]

    def by_dimension(t: Tables) -> pd.DataFrame:
        return where(t["worlds"], **at).pivot_table(name, "seed", "d")

    return trend(test, by_dimension, WORDS[name], "dimension")


def read_off(a: str, b: str, factors: tuple[str, ...], name: str = "r") -> Column:
    """How well factors are decoded from source a, minus the same for source b."""
    first, second = (column("factors", name, "", source=each, factor=factors) for each in (a, b))
    return first.less(second, f"{WORDS[name]} on {SOURCES[a]}, minus that on {SOURCES[b]}")


def named(t: Tables) -> Any:
    """The share of the three cases in which the ladder names the expected rung."""
    rungs = {"C1": "rigid", "C2": "rigid", "C3": "similarity"}
    arms = {case: asdict(Arm(case=case, diet=True)) for case in rungs}
    hits = [(where(t["worlds"], **arms[c])["rung"] == rung).to_numpy() for c, rung in rungs.items()]
    return np.mean(hits, axis=0) if all(map(len, hits)) else []


def figure(tables: Tables, _settings: Settings) -> Figure:
    """R² against dimensions, classes and κ; laws and noise; unit weights; images."""
    worlds = tables["worlds"]
    noisy = worlds["noise"].map("{:.0%}".format)
    worlds = worlds.assign(
        learner=np.where(worlds["diet"], "instances", "classes"),
        change=np.where(worlds["noise"] > 0, noisy, worlds["law"]),
    )

    def varied(*names: str) -> pd.DataFrame:
        """The arms that differ from the first in these settings only."""
        same = [worlds[k] == v for k, v in asdict(Arm()).items() if k not in names]
        return worlds[np.logical_and.reduce(same)]

    few = worlds[worlds["d"] == SMALL["d"]]
    words = {"r2": "R² of the latents", "d": "dimensions", "kappa": "concentration κ"}
    words |= {"spread": "largest minus smallest κσ", "r": "Pearson's r", "factor": "factor"}
    words |= {"change": "law of z, or share of random labels"}
    # Short labels, because seven of them share one axis.
    words |= {"vmf": "vMF", "laplace": "Lap.", "normal": "nor.", "truncated": "cut"}
    by: dict[str, Any] = {"by": "learner", "y": "r2", "labels": words}
    return sheet(
        [
            partial(curve, table=varied("d", "diet"), x="d", **by),
            partial(curve, table=varied("classes"), x="classes", y="r2", labels=words, log_x=True),
            partial(curve, table=varied("kappa", "diet"), x="kappa", log_x=True, **by),
        ],
        [
            partial(dots, table=varied("law", "noise"), x="change", y="r2", labels=words),
            partial(dots, table=few, x="classes", y="spread", labels=words),
            partial(dots, table=tables["factors"], x="factor", y="r", by="source", labels=words),
        ],
    )


WORDS = {
    "r2": "Held-out R² of the latents from f by a linear map",
    "missing": "Held-out R² along the direction that the classes do not span",
    "weights": "R² of class vectors from weights by an affine map",
    "gap": "Loss minus its floor, in nats",
    "off": "Mean of |κσ − 1| over the singular values σ of the map from f to z",
    "spread": "Largest minus smallest κσ of the map from f to z (a rotation has 0)",
    "beta": "β at κ = 10",
    "r": "Held-out Pearson's r of a linear probe without an intercept",
    "with_intercept": "Held-out Pearson's r of a linear probe with an intercept",
}
SOURCES = {
    "trained": "the features", "untrained": "untrained features", "pixels": "pixels"
}  # fmt: skip
PLACE, SIZE = ("posX", "posY"), ("scale",)
TABLE_2, TABLE_3 = "Table 2, W free", "Table 3"
TABLE_4, FIGURE = "Table 4, MLP", "read off a figure"
DIET: dict[str, Any] = {"diet": True}
UNIT: dict[str, Any] = {"diet": True, "case": "C3"}
paper = Claim
CLAIMS = (
    paper("supervised", "A classifier of 100 classes finds the five latents up to a linear map.",
        0.998, TABLE_3, of().least(0.95)),
    paper("diet", "A classifier of instances (DIET), without class labels, finds the five latents "
        "too.", 0.99, TABLE_2, of(**DIET).least(0.95)),
    paper("unit-weights", "With weights of unit norm (case C3) DIET finds the latents too.",
        0.986, "Table 2, W normalised", of(**UNIT).least(0.95)),
    paper("weights", "Up to an affine map, the weights of instances are their class vectors.",
        0.999, TABLE_2, of("weights", **DIET).least(0.99)),
    paper("scale", "With unit weights the map from f to z is a rotation divided by κ.",
        "MAE 0.01, a tenth of 1/κ", "Table 2, W normalised", of("off", **UNIT).most(0.1)),
    paper("temperature", "With features and weights of unit norm (C1) the learned factor β is κ.",
        "β = κ", "theorem, case C1", of("beta", case="C1", diet=True).between(9, 11)),
    paper("dimensions", "In more dimensions less of the latents is found.",
        "0.998, 0.972, 0.821 at d = 5, 10, 20", TABLE_3, over(check.falls, "r2")),
    paper("diet-dimensions", "DIET, too, finds less of the latents in more dimensions.",
        "0.990, 0.930, 0.819 at d = 5, 10, 20", TABLE_2, over(check.falls, "r2", **DIET)),
    paper("few-classes", "With 10 classes less of the latents is found than with 100.",
        "0.975 against 0.998", TABLE_3, more("R² minus that of 10 classes", {}, {"classes": 10})),
    paper("many-classes", "With 1,000 classes as much of the latents is found as with 100.",
        "0.998 and 0.998", TABLE_3, alike(0.02, classes=1000)),
    paper("wide", "In wide clusters (κ = 5) as much of the latents is found as at κ = 10.",
        "0.997 and 0.997", TABLE_3, alike(0.02, kappa=5.0)),
    paper("narrow", "In narrow clusters (κ = 50) much of the latents is lost, though no assumption "
        "is violated.", 0.655, TABLE_3, of(kappa=50.0).most(0.85)),
    paper("diet-narrow", "DIET, too, loses much of the latents in narrow clusters (κ = 50).",
        0.725, TABLE_2, of(kappa=50.0, **DIET).most(0.85)),
    paper("laplace", "If latents are Laplace around their class, which violates an assumption, "
        "some is lost.", 0.854, TABLE_3, of(law="laplace").between(0.8, 0.9)),
    paper("normal", "If latents are normal around their class, which violates an assumption, "
        "little is lost.", 0.996, TABLE_3, of(law="normal").least(0.95)),
    paper("tails", "Heavy tails do the damage: with truncated tails, Laplace latents do better.",
        "in words", FIGURE, more("R² minus that with tails", {"law": "truncated"},
        {"law": "laplace"})),
    paper("noise-50", "If half of the labels are random, hardly less of the latents is found.",
        "in words, up to 80 %", FIGURE, alike(0.05, noise=0.5)),
    paper("noise-80", "If 80 % of the labels are random, hardly less of the latents is found.",
        "in words, up to 80 %", FIGURE, alike(0.05, noise=0.8)),
    paper("noise-100", "If all labels are random, nothing is learned: x itself shows more of the "
        "latents.", "in words", FIGURE, more("R² from x minus that from f", {"noise": 1.0},
        {"noise": 1.0}, "observed", "r2")),
    paper("images-size", "A classifier of shapes encodes the size of a sprite better than pixels.",
        "0.98 against 0.62", TABLE_4, read_off("trained", "pixels", SIZE).positive()),
    paper("images-place", "A classifier of shapes encodes the position of a sprite better than "
        "pixels.", "0.97 against 0.92", TABLE_4, read_off("trained", "pixels", PLACE).positive()),
    control("observed", "The network finds more of the latents than the observations show.",
        check=more("R² from f minus that from x", {}, {}, "r2", "observed")),
    control("too-few-floor", "With 5 classes in 5 dimensions the loss reaches its floor.",
        check=of("gap", classes=5).most(SLACK)),
    control("too-few-missing", "With 5 classes in 5 dimensions, at the floor of the loss, the "
        "direction that the classes do not span is unknown.", check=of("missing",
        SLACK, classes=5).most(0.3)),
    control("narrow-gap", "Latents are lost at κ = 50 for lack of training: the training loss is "
        "farther from its floor.", check=more(
        "Loss above its floor, minus that at κ = 10",
        {"kappa": 50.0}, {}, "gap")),
    control("dimensions-gap", "Latents are lost in more dimensions for lack of training, too.",
        check=over(check.rises, "gap")),
    control("rungs", "The norms determine on which rung latents are found: rigid in C1 and C2, "
        "similarity in C3.", source="the theorem's cases as rungs", check=Column(named,
        "Share of the three cases in which the ladder names that rung").least(0.8)),
    control("quadric-below", "With 6 classes in 3 dimensions unit weights do not make f a "
        "rotation, although the printed condition holds.", source="corrected condition", check=of(
        "spread", 0.02, classes=6, **SMALL).least(0.3)),
    control("quadric-above", "With 20 classes in 3 dimensions, above the bound of 9, unit weights "
        "make f a rotation.", source="corrected condition", check=of("spread", 0.02, classes=20,
        **SMALL).most(0.15)),
    control("images-intercept", "Pixels seem to lack the size of a sprite only because the probe "
        "has no intercept.", check=column("factors", "with_intercept",
        f"{WORDS['with_intercept']} " "on pixels", source="pixels", factor="scale").least(0.8)),
    control("images-learned-size", "The features encode the size of a sprite because shapes were "
        "learned.", check=read_off("trained", "untrained", SIZE, "with_intercept")
        .positive()),
    control("images-place-before", "The features encode the position of a sprite just as well "
        "before training.", check=read_off("trained", "untrained", PLACE,
        "with_intercept").between(-0.02, 0.02)),
    Claim("other-optimum", "Below the bound on classes there is another optimum: unit weights, the "
        "same probabilities, no rotation.", "exact", "corrected condition",
        Column(lambda t: t["other optima"]["gap"].dropna(), "Largest difference of a "
        "log-probability, or of a norm from 1").holds(1e-9), "check"),
    Claim("floors", "No loss of a classifier is below its floor.",
        "a bound", "by derivation", Column(lambda t: -t["worlds"]["gap"].dropna(),
        "Floor minus loss, in nats, with the error of the held-out sample").holds(0.05), "check"),
)  # fmt: skip
LAPTOP = {
    "seeds": 10, "steps": 2000, "batch": 512, "lr": 0.03, "schedule": "cosine",
    "hidden": [64, 64, 64, 64], "per_d": False, "draws": 1000, "instances": 3, "test": 8192,
    "dims": [5, 10, 20], "classes": [5, 10, 100, 1000], "kappas": [5.0, 10.0, 50.0],
    "laws": ["vmf", "laplace", "normal", "truncated"], "noises": [0.5, 0.8, 1.0],
    "cases": ["C1", "C2", "C3", "C4"], "diet_dims": [10], "diet_kappas": [50.0],
    "quadric": [6, 8, 12, 20],
    "images": 16000, "features": 512, "image_batch": 256, "image_steps": 600, "image_lr": 0.003,
}  # fmt: skip
SMOKE = LAPTOP | {
    "seeds": 2, "steps": 30, "batch": 128, "hidden": [16, 16], "draws": 20, "instances": 2,
    "test": 400, "dims": [5, 10], "classes": [5, 100], "kappas": [10.0], "laws": ["laplace"],
    "noises": [1.0], "cases": ["C1", "C4"], "diet_dims": [5], "diet_kappas": [10.0], "quadric": [6],
    "images": 400, "features": 32, "image_batch": 64, "image_steps": 20,
}  # fmt: skip
PAPER = LAPTOP | {
    "seeds": 5, "steps": 50000, "batch": 1024, "lr": 0.001, "schedule": "constant",
    "hidden": [10, 50, 50, 50, 50, 10], "per_d": True, "draws": 25000, "instances": 10,
    "classes": [5, 10, 100, 1000, 10000], "diet_dims": [10, 20], "diet_kappas": [5.0, 50.0],
    "images": 589824, "image_batch": 4096, "image_steps": 14400, "image_lr": 0.001,
}  # fmt: skip
STUDY = Study(
    name="reizinger-cross-entropy",
    title="Cross-entropy inverts the process that made the data",
    paper="Reizinger et al., ICLR 2025 (arXiv 2410.21869), Tables 2 to 4",
    about=(
        "Classifiers of classes and of instances (DIET) are trained on clusters on a sphere, "
        "observed through a nonlinear mixing. The study measures how much of the latents a linear "
        "map finds in their features, by dimension, number of classes, concentration, distribution "
        "and label noise, with and without unit norms. Losses are compared with their floors. On "
        "re-rendered dSprites, factors that a classifier of shapes was never told are decoded from "
        "its features. Networks and trainings are small (four layers of 64, 2,000 steps where the "
        "paper has 50,000), so in more dimensions and at κ = 50 losses stay far above their "
        "floors, and only the direction of the effect is judged there. Steps, learning rates and "
        "bars were set after pilots on the seeds 1000 to 1009."
    ),
    presets={"smoke": SMOKE, "laptop": LAPTOP, "paper": PAPER},
    run=run, claims=CLAIMS, figure=figure,
)  # fmt: skip
