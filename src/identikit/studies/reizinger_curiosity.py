"""Reizinger and Szemenyei: attention in an actor-critic, and features from what actions do.

A softmax gate before each head (AttA2C) divides the d features by about d, and the LSTM compensates
by saturating. So a gate shows in the features' standard deviation, and a gate multiplied by d does
not. The inverse model of an ICM is a softmax over actions that is linear in [φ(s); φ(s')], so it
finds the factors that actions control up to an affine map, and nothing of the others.
"""

from __future__ import annotations

from functools import partial
from importlib.util import find_spec
from itertools import product
from typing import Any

from identikit.report.drawing import sheet
from identikit.studies import _curiosity as parts
from identikit.studies._columns import Check, Column, column, where
from identikit.studies._curiosity import AGENTS, ARMS, CONTROLLABLE, FEATURES
from identikit.studies._figures import Figure, dots
from identikit.studies._study import Claim, Record, Settings, Study, Tables, control
from identikit.studies._work import Work, rows_of

# The score of an agent that has learned; a random one has about 22.
LEARNED = 150.0
# The features' standard deviation relative to the baseline's, in the committed tables of six games.
LOWEST, HIGHEST, NOISE = 1.4, 3.6, 0.115
COLUMNS = {
    "agents": ["arm", "seed", "score", "std", "intrinsic"],
    "pixels": ["seed", "loss", "accuracy", "uniform", "most"],
}


def run(work: Work) -> Tables:
    """All units; agents and pixels only if the games are installed."""
    s = work.settings
    each = partial(work.each, processes=True, s=s)
    found: dict[str, list[Record]] = {"features": each("features={}", parts.features, list(ARMS))}
    if find_spec("gymnasium") is not None:
        places = list(product(AGENTS, range(s.seeds)))
        found["agents"] = each("agent={0},seed={1}", parts.agent, places)
        if find_spec("ale_py") is not None:
            found["pixels"] = each("pixels={}", parts.pixels, range(s.pixel_seeds))
    tables = {
        name: rows_of(found.get(name, []), COLUMNS.get(name))
        for name in ("features", "agents", "pixels")
    }
    agents = tables["agents"]
    base = agents[agents["arm"] == "baseline"].set_index("seed")["std"]
    tables["agents"] = agents.assign(ratio=agents["std"] / agents["seed"].map(base))
    return tables


# What the claims are checked on: a column of an arm, one value per seed.


def of(table: str, name: str, arm: str) -> Column:
    """A column of an arm, of agents or of features."""
    return column(table, name, WORDS[name], arm=arm)


def more(table: str, name: str, a: str, b: str) -> Check:
    """Check that a column is higher in one arm than in another, seed by seed."""
    words = f"{WORDS[name]}: {LABELS[a]}, minus {LABELS[b]}"
    return of(table, name, a).less(of(table, name, b), words).positive()


def figure(tables: Tables, settings: Settings) -> Figure:  # noqa: ARG001
    """Standard deviation and scores of agents, factors in features, and agreement."""
    agents, rows = tables["agents"], tables["features"]
    rows = rows[rows["arm"].isin(["inverse", "gated", "longer", "rescaled", "both"])]
    kinds = rows.melt(["arm", "seed"], ["read_controllable", "read_exogenous"], "factors", "r2")
    panel: dict[str, Any] = {"x": "arm", "labels": SHORT}
    return sheet(
        [
            partial(dots, table=agents, y="std", **panel),
            partial(dots, table=agents, y="score", **panel),
        ],
        [
            partial(dots, table=kinds, y="r2", by="factors", **panel),
            partial(dots, table=rows, y="excess", **panel),
        ],
    )


SHORT = {
    "baseline": "no gate", "attention": "AttA2C", "rescaled": "gate × d", "curious": "ICM",
    "inverse": "no gate", "gated": "gate", "longer": "longer", "both": "both",
    "std": "std of features h", "score": "score, last quarter", "arm": "",
    "r2": "R² from the part of φ used", "excess": "cross-entropy above Bayes, nats",
    "read_controllable": "controllable", "read_exogenous": "exogenous",
}  # fmt: skip
LABELS = {
    "baseline": "without a gate", "attention": "with one", "rescaled": "with the gate times d",
    "inverse": "without a gate", "gated": "with one", "both": "with both losses",
    "forward": "with the forward loss alone",
}  # fmt: skip
WORDS = {
    "std": "Standard deviation of h in the last updates",
    "ratio": "Standard deviation of h over the baseline's of the same seed",
    "score": "Mean score of the episodes of the last quarter",
    "intrinsic": "Mean intrinsic reward per step, over the whole training",
    "excess": "Cross-entropy minus that of the true posterior on the same rows, in nats",
    "controllable": "R² of the controllable factors from φ, after the gate",
    "exogenous": "R² of the exogenous factors from φ, after the gate",
    "read_controllable": "R² of the controllable factors from the part of φ that the head uses",
    "read_exogenous": "R² of the exogenous factors from the part of φ that the head uses",
    "agreement": "R² between two networks' φ, after the gate, by variance, in the worse direction",
    "read_agreement": "R² between the parts of φ that two heads use, in the worse direction",
    "shrunk": "Standard deviation of φ relative to that before training",
    "forward": "Forward loss",
    "loss": "Entropy of the actions, ln 6, less the cross-entropy on later pictures, in nats",
    "accuracy": "Accuracy on later pictures, less the share of the most frequent action there",
}
TABLE = "committed results, six games"
PATHAK = "Pathak et al. 2017, section 2.2"
identity = partial(Claim, published="a bound", source="by derivation", kind="check")
CLAIMS = (
    Claim("feature-std", "Attention before the heads of an actor-critic enlarges the standard "
        "deviation of its features as much as in the six games.", "1.4 to 3.6 times", TABLE, of(
        "agents", "ratio", "attention").between(LOWEST, HIGHEST)),
    Claim("curious-std", "Curiosity with gates on the inputs of its models leaves the standard "
        "deviation of an actor-critic's features the same.", "within 11.5 % (gates and reward off "
        "in the released code)", TABLE, of("agents", "ratio", "curious").between(1 - NOISE,
        1 + NOISE)),
    Claim("controllable", "Inverse-dynamics features encode the factors that actions control.",
        "no number", PATHAK, of("features", "read_controllable", "inverse").least(0.98)),
    Claim("exogenous", "The part of the features that the inverse model uses encodes nothing of "
        "factors that no action changes.", "no number", PATHAK, of("features", "read_exogenous",
        "inverse")
        .most(0.02)),
    Claim("collapse", "Without the inverse loss features collapse: the forward loss alone makes "
        "them almost constant.", "no number", PATHAK, of("features", "shrunk", "forward")
        .most(0.1)),
    control("learns", "The agent without a gate learns the game, so its features are those of a "
        "trained agent.", check=of("agents", "score", "baseline").least(LEARNED)),
    control("rescaled-std", "A gate times d does not enlarge the standard deviation of features: "
        "the cause is the scale of the gate, not its selection.", check=of("agents", "ratio",
        "rescaled").most(1.0)),
    control("gate-score", "The gate without rescaling lowers the score.",
        check=more("agents", "score", "baseline", "attention")),
    control("rescaled-score", "With the gate times d scores are higher than with the plain one.",
        check=more("agents", "score", "rescaled", "attention")),
    control("intrinsic", "The intrinsic reward is not zero, and on average smaller than the game's "
        "0.05 per step.", check=of("agents", "intrinsic", "curious").between(1e-4, 0.05)),
    control("floor", "The inverse model comes close to the true posterior of the actions.",
        check=of("features", "excess", "inverse").most(0.05)),
    control("agree", "Two networks use the same part of their features, up to an affine map.",
        check=of("features", "read_agreement", "inverse").least(0.98)),
    control("kept", "The loss does not remove exogenous factors: directions of φ that the head "
        "does not use still show them.", check=of("features", "exogenous", "inverse")
        .least(0.1)),
    control("gate-loss", "With a softmax gate on each part the inverse model is further from the "
        "true posterior after the same number of steps.", check=more("features", "excess", "gated",
        "inverse")),
    control("gate-agree", "With a softmax gate on each part two networks agree less, after the "
        "gate.", check=more("features", "agreement", "inverse", "gated")),
    control("gate-longer", "A gate only slows training: after four times as many steps the model "
        "with the gate is close to the true posterior.", check=of("features", "excess",
        "longer").most(0.02)),
    control("gate-longer-agree", "After four times as many steps two networks with the gate agree, "
        "after the gate.", check=of("features", "agreement", "longer").least(0.98)),
    control("rescaled-loss", "With the gate times d the inverse model is nearer to the true "
        "posterior than with the plain gate.", check=more("features", "excess", "gated",
        "rescaled")),
    control("rescaled-agree", "With the gate times d two networks agree more than with the plain "
        "gate.", check=more("features", "agreement", "rescaled", "gated")),
    control("both", "With the inverse loss beside it the forward loss does not make features "
        "collapse.", check=of("features", "shrunk", "both").least(0.2)),
    control("rational", "The rational forward loss alone makes features collapse as well.",
        check=of("features", "shrunk", "rational").most(0.1)),
    control("pixels", "From pictures of Pong the inverse model learns which of six actions was "
        "taken.", check=column("pixels", "uniform", "").less(column("pixels", "loss", ""),
        WORDS["loss"]).least(0.1)),
    control("pixels-accuracy", "On later pictures of Pong the inverse model names the action more "
        "often than by chance.", check=column("pixels", "accuracy", "").less(column("pixels",
        "most", ""), WORDS["accuracy"]).least(0.05)),
    identity("bayes", "No model beats the true posterior by more than sampling error.",
        check=Column(lambda t: t["features"]["beats"], "By how many standard errors the best is "
        "below it").holds(4)),
    identity("rank", f"Nine actions span {CONTROLLABLE} of {FEATURES} dimensions of φ: as many as "
        "there are controllable factors.",
        check=Column(lambda t: (t["features"]["rank"] - CONTROLLABLE).abs(), "Largest difference "
        "of the rank of V_a − V_0 from 3").holds(0)),
    identity("read", "Three directions of φ carry the log-odds, once they are learned.",
        check=Column(lambda t: 1 - where(t["features"], arm="inverse")["share"], "Largest share of "
        "the variance of log-odds outside the first three").holds(0.02)),
)  # fmt: skip
LAPTOP: dict[str, Any] = {
    "seeds": 10, "width": 64, "updates": 2000, "last": 200, "reward_scale": 0.05,
    "hidden": [64, 64, 64], "batch": 512, "steps": 1500, "collapse_steps": 300, "lr": 0.005,
    "long_seeds": 3, "long_steps": 6000,
    "test": 8000, "pixel_seeds": 4, "frames": 8000, "pixel_steps": 400, "pixel_batch": 32,
    "pixel_lr": 0.002,
}  # fmt: skip
SMOKE = LAPTOP | {
    "seeds": 2, "width": 16, "updates": 100, "last": 20, "hidden": [32, 32], "batch": 128,
    "steps": 100, "collapse_steps": 30, "long_seeds": 2, "long_steps": 200, "test": 1000,
    "pixel_seeds": 1, "frames": 300, "pixel_steps": 15, "pixel_batch": 16,
}  # fmt: skip
PAPER = LAPTOP | {
    "seeds": 20, "updates": 10000, "hidden": [128, 128, 128], "steps": 20000,
    "long_seeds": 20, "long_steps": 80000,
    "collapse_steps": 3000, "pixel_seeds": 10, "frames": 50000, "pixel_steps": 10000,
}  # fmt: skip
STUDY = Study(
    name="reizinger-curiosity",
    title="Attention and curiosity: what actions identify",
    paper="Reizinger and Szemenyei, ICASSP 2020 (arXiv 1910.10840), and the tables of its "
    "repository; Pathak et al. 2017 (arXiv 1705.05363) for the curiosity module",
    about=(
        "Agents with an LSTM learn CartPole without a gate, with a softmax gate before each head "
        "(AttA2C), with the gate multiplied by d, and with an intrinsic curiosity module (ICM) "
        "whose intrinsic reward is really added. ICMs are also trained in worlds of three "
        "controllable and three exogenous factors behind a nonlinear mixing, two networks per "
        "world: by the inverse loss alone, with plain gates (in three worlds also for four times "
        "as many steps), with rescaled gates, with both losses, and by either forward loss alone. "
        "Features are compared after the gate. The part of φ that a head uses is the three "
        "directions that change its log-odds most. Finally, an inverse model learns from pictures "
        "of Pong under random actions and is tested on later pictures. The authors' scores are not "
        "compared: 50 million steps are out of reach, their normalised means (AttA2C .880, "
        "baseline .923, ICM .949 and .922, RCM .953) have one run per cell, and in the released "
        "code only AttA2C is switched on. CartPole's rewards are divided by 20, because otherwise "
        "agents learn badly and all features saturate. Networks, steps and bars were set after "
        "pilots on the seeds 1000 to 1003."
    ),
    presets={"smoke": SMOKE, "laptop": LAPTOP, "paper": PAPER},
    run=run, claims=CLAIMS, figure=figure,
)  # fmt: skip
