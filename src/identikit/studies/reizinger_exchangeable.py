"""Reizinger et al.: environments in which cause or mechanism vary reveal the causal direction.

Two samples of one environment share θ of the cause and ψ of the mechanism. If x causes y, X₁ ⟂ Y₂ |
X₂ holds and Y₁ ⟂ X₂ | Y₂ does not, and it is enough that one of θ and ψ varies. The quadratic term
that all of the paper's experiments switch on in half of the environments is itself a mechanism that
varies, so the published panels are run with and without it. "No edge" is a third of all structures
and easy to detect, so accuracy is also given on true edges, where chance is a half.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import pandas as pd

from identikit.report.drawing import sheet
from identikit.studies import _checks as check
from identikit.studies._columns import Column, column, trend, where
from identikit.studies._exchangeable_units import CELLS, decisions, duality, largest_drift
from identikit.studies._figures import Figure, curve
from identikit.studies._study import Claim, Settings, Study, Tables, control
from identikit.studies._work import Work, rows_of

CDF, LINGAM = "causal de Finetti", "DirectLiNGAM"
#: Proportion of correct structures by environments: from committed results (both) or a figure.
PUBLISHED: dict[tuple[Any, Any], dict[Any, float]] = {
    ("both ±1, switch", CDF): {100: 0.70, 200: 0.82, 300: 0.87, 400: 0.90, 500: 0.91},
    ("cause ±1, switch", CDF): {100: 0.69, 200: 0.86, 300: 0.86, 400: 0.90, 500: 0.81},
    ("mechanism ±1, switch", CDF): {100: 0.80, 200: 0.90, 300: 0.85, 400: 0.92, 500: 0.88},
    ("both ±1, switch", LINGAM): {100: 0.41, 200: 0.48, 300: 0.45, 400: 0.56, 500: 0.49},
    ("cause ±1, switch", LINGAM): {100: 0.48, 200: 0.50, 300: 0.51, 400: 0.64, 500: 0.59},
    ("mechanism ±1, switch", LINGAM): {100: 0.51, 200: 0.51, 300: 0.50, 400: 0.60, 500: 0.58},
}
PUBLISHED_CELL, PLACES = "both ±1, switch", ("sources", "mixing")
#: Repetitions of a unit.
BLOCK = 20


def run(work: Work) -> Tables:
    """Run all repetitions in blocks, add the published numbers, and read TCL in two ways."""
    s = work.settings
    blocks = [(at, min(at + BLOCK, s.seeds)) for at in range(0, s.seeds, BLOCK)]
    found = work.each("repetitions={0}-{1}", decisions, blocks, processes=True, s=s)
    read = work.each("duality,seed={}", duality, range(s.duality_seeds), processes=True, s=s)
    decided, readings = rows_of(found), rows_of(read)
    drift = pd.DataFrame({"drift": [largest_drift(s.duality_seeds)]})
    decided["independent"] = (decided["answer"] == "none").astype(float)
    tables = {"decisions": decided, "readings": readings, "drift": drift}
    return tables | {"published": beside(decided)}


def beside(decided: pd.DataFrame) -> pd.DataFrame:
    """Accuracy overall, on edges and without one, and the published overall accuracy."""
    rows = []
    for (cell, method, n), own in decided.groupby(["cell", "method", "environments"], sort=False):
        known = {"cell": cell, "method": method, "environments": n, "repetitions": len(own)}
        parts = {"overall": own, "edge": own[own["edge"]], "no edge": own[~own["edge"]]}
        accuracy = {name: part["correct"].mean() for name, part in parts.items()}
        rows.append(known | accuracy | {"published": PUBLISHED.get((cell, method), {}).get(n)})
    return pd.DataFrame(rows)


# What the claims are checked on: one value per repetition.


def share(
    cell: str, n: int, name: str = "correct", edge: bool | None = True, method: str = CDF
) -> Column:
    """A share of repetitions in a cell: on true edges, without one, or of all structures."""
    what = "answers that are right" if name == "correct" else "data called silent"
    where_ = {True: ", true edges", False: ", no edge", None: ", all structures"}[edge]
    at: dict[str, Any] = {"cell": cell, "method": method, "environments": n}
    at |= {} if edge is None else {"edge": edge}
    return column("decisions", name, f"Share of {what}{where_}, {n} environments", **at)


def apart(a: Column, b: Column, than: str) -> Column:
    """A share minus another, repetition by repetition."""
    return a.less(b, f"{a.words}, minus that {than}")


def by_environments(t: Tables) -> pd.DataFrame:
    """Accuracy of the published set-up: a row per repetition, a column per environment count."""
    own = where(t["decisions"], cell=PUBLISHED_CELL, method=CDF)
    return own.pivot_table("correct", "seed", "environments", dropna=False)


def sure(t: Tables) -> pd.Series[Any]:
    """Accuracy of the answers on which at least 90 % of the halves of the environments agree."""
    own = where(t["decisions"], cell=("cause", "mechanism", "both"), edge=True, silent=0)
    # Cells of one repetition share their structure: a repetition counts once.
    return own[own["agreement"] >= 0.9].groupby("seed")["correct"].mean()


def named(t: Tables) -> pd.Series[Any]:
    """How often a direction is named although nothing varies."""
    own = where(t["decisions"], cell="neither", method=CDF, environments=300, edge=True)
    return 1 - own.groupby("seed")[["silent", "independent"]].mean().sum(axis=1)


def reading(name: str, place: str, words: str) -> Column:
    """A column of a reading of TCL, by seed."""
    return column("readings", name, words, where=place)


def gaps(t: Tables) -> list[float]:
    """The largest difference of each score between the two readings."""
    one, two = (where(t["readings"], where=place).set_index("seed") for place in PLACES)
    scores = ["mcc", "identified", "accuracy"]
    return (one[scores] - two[scores]).abs().max().dropna().to_list()


def figure(tables: Tables, settings: Settings) -> Figure:  # noqa: ARG001
    """Accuracy against environments: strict, as published, without the switch; and silence."""
    table = tables["decisions"]
    ours = table[(table["method"] == CDF) & table["edge"]]
    published = table[table["cell"] == PUBLISHED_CELL]
    words = {"environments": "environments", "correct": "right, true edges"}
    everything = words | {"correct": "right, all structures"}
    silent = words | {"silent": "called silent, true edges"}

    def panel(rows: pd.DataFrame, y: str, labels: dict[str, str], **options: Any) -> Any:
        return partial(curve, table=rows, x="environments", y=y, labels=labels, **options)

    strict = ours[ours["cell"].isin(list(CELLS)[:4])]
    weak = ours[ours["cell"].isin([*list(CELLS)[4:7], "both ±1, switch"])]
    by_cell: dict[str, Any] = {"by": "cell", "chance": 0.5}
    return sheet(
        [
            panel(strict, "correct", words, **by_cell),
            panel(published, "correct", everything, by="method", chance=1 / 3),
        ],
        [
            panel(weak, "correct", words, **by_cell),
            panel(strict, "silent", silent, by="cell"),
        ],
    )


FIGURE, COMMITTED = "read off a figure", "committed results"
paper = Claim
identity = partial(Claim, published="an identity", source="by derivation", kind="check")
CLAIMS = (
    paper("cause", "It is enough that the law of the cause varies.",
        ".86 overall at 300", FIGURE, share("cause", 300).least(0.8)),
    paper("mechanism", "It is enough that the mechanism varies.",
        ".85 overall at 300", FIGURE, share("mechanism", 300).least(0.8)),
    paper("both", "The direction is found if cause and mechanism vary.",
        ".87 overall at 300", COMMITTED, share("both", 300).least(0.8)),
    paper("published", "The published set-up finds the structure, with 500 environments.",
        ".91", COMMITTED, share(PUBLISHED_CELL, 500, edge=None).least(0.81)),
    paper("published-cause", "The published set-up finds the structure in the panel whose title "
        "says that only the cause varies.", ".86 at 300", FIGURE, share("cause ±1, switch", 300,
        edge=None).least(0.76)),
    paper("published-mechanism", "The published set-up finds the structure in the panel whose "
        "title says that only the mechanism varies.", ".85 at 300", FIGURE, share(
        "mechanism ±1, switch", 300, edge=None).least(0.75)),
    paper("grows", "The more environments there are, the more answers are right.",
        ".70 up to .91", COMMITTED, trend(check.rises, by_environments, "Share of right answers, "
        "all structures", "number of environments")),
    paper("few", "With 100 environments the published set-up is better than chance.",
        ".70", COMMITTED, share(PUBLISHED_CELL, 100, edge=None).least(1 / 3)),
    paper("lingam", "DirectLiNGAM is less accurate than causal de Finetti.",
        ".91 against .49", COMMITTED, apart(share(PUBLISHED_CELL, 500, edge=None),
        share(PUBLISHED_CELL, 500, edge=None, method=LINGAM), "of DirectLiNGAM").positive()),
    paper("cause-alone", "A cause that varies on ±1, and nothing else, is enough.",
        ".86 overall at 300", FIGURE, share("cause ±1", 300).least(0.8)),
    paper("mechanism-alone", "A shift of the effect that varies on ±1, and nothing else, is "
        "enough.", ".85 overall at 300", FIGURE, share("mechanism ±1", 300).least(0.8)),
    paper("both-alone", "A cause and a shift of the effect that vary on ±1, and nothing else, are "
        "enough.", ".87 overall at 300", COMMITTED, share("both ±1", 300).least(0.8)),
    paper("duality", "If the environment acts on the mixing, sources are found as if it acted on "
        "them.", "a theorem", "theorem", reading("mcc", "mixing", "MCC within environments, by "
        "VarianceICA").least(0.95)),
    control("iid", "If nothing varies, the direction is a coin toss.",
        check=share("neither", 300).between(0.4, 0.6)),
    control("iid-overall", "Even if nothing varies, overall accuracy is far above a third, because "
        "“no edge” is easy.", check=share("neither", 300, edge=None).between(0.5, 0.7)),
    control("planted", "A control that keeps the switched quadratic term is not a control: it "
        "reveals the direction.", check=apart(share("mechanism", 300), share("neither", 300),
        "of the i.i.d. "
        "control").least(0.2)),
    control("switch", "The hidden switch alone is as good as the published set-up.",
        check=apart(share(PUBLISHED_CELL, 300, edge=None), share("mechanism", 300, edge=None),
        "of the switch alone").between(-0.1, 0.1)),
    control("without", "Without the switch the published set-up is less accurate.",
        check=apart(share(PUBLISHED_CELL, 300), share("both ±1", 300), "without the switch")
        .positive()),
    control("silent", "Where nothing varies, the data are called silent.",
        check=share("neither", 300, "silent").least(0.9)),
    control("named", "Where nothing varies, no direction is named.",
        check=Column(named, "Share of true edges, 300 environments, with an answer other than "
        "silent or no edge").most(0.1)),
    control("not-silent", "Where the cause varies, the data are not called silent.",
        check=share("cause", 300, "silent").most(0.1)),
    control("not-silent-mechanism", "Where the mechanism varies, the data are not called silent.",
        check=share("mechanism", 300, "silent").most(0.1)),
    control("sure", "Answers on which most halves of the environments agree are right.",
        check=Column(sure, "Share of right answers, true edges, cause or mechanism or both vary, "
        "among those with 90 % of halves or more").least(0.9)),
    control("lingam-iid", "DirectLiNGAM finds the direction where nothing varies: the noise is "
        "Laplace and the mechanism linear.", check=share("neither", 300, method=LINGAM).least(0.9)),
    control("equal", "With equal environments VarianceICA calls no axis identified.",
        check=reading("identified", "equal", "Share of axes").most(0.1)),
    identity("same", "Scales in the sources or in the mixing: the observations are the same.",
        check=reading("moved", "mixing", "Largest difference").holds(0)),
    identity("verdicts", "The same observations have the same scores, whichever way TCL is read.",
        check=Column(gaps, "Largest difference of MCC, axes identified, and accuracy of a "
        "classifier of environments").holds(1e-12)),
    identity("rank", "Natural parameters of the environments have full rank.",
        check=reading("needed", "mixing", "").less(reading("rank", "mixing", ""), "Largest missing "
        "rank of L").holds(0)),
    identity("rank-equal", "Natural parameters of equal environments have rank 0.",
        check=reading("rank", "equal", "Largest rank of L").holds(0)),
    identity("strict", "Parameters that are fixed have the same value in all environments.",
        check=Column(lambda t: t["drift"]["drift"], "Largest difference between environments")
        .holds(0)),
)  # fmt: skip
LAPTOP: dict[str, Any] = {
    "seeds": 600, "environments": [100, 200, 300, 500], "level": 0.05,
    "duality_seeds": 20, "duality_rows": 1000, "d": 3,
}  # fmt: skip
SMOKE = LAPTOP | {
    "seeds": 20, "environments": [50, 100, 300], "duality_seeds": 2, "duality_rows": 300,
}  # fmt: skip
PAPER = LAPTOP | {"seeds": 1000, "environments": [100, 200, 300, 400, 500]}
STUDY = Study(
    name="reizinger-exchangeable",
    title="Identifiable exchangeable mechanisms",
    paper="Reizinger et al., ICLR 2025 (arXiv 2406.14302), and the tables of its repository",
    about=(
        "The causal direction is decided from pairs of samples of many environments, by the "
        "paper's three kernel tests and its decision rule. A repetition is a seed: one structure "
        "(an edge in either direction, or none), one set of coefficients, and ten settings of what "
        "varies between environments. In the paper θ of the cause and ψ of the effect are "
        "U(−1, 1), and a quadratic term is switched on in half of the environments in every "
        "setting. Here, in the strict settings, only θ (on ±5) or only that switch varies. Fixed "
        "parameters have the same value in all environments, which is not so in the released code. "
        "Data are called silent if they do not reveal a direction. For duality, each environment "
        "scales the sources, or scales the mixing in the same way. DirectLiNGAM is that of "
        "causal-learn, and is not measured if causal-learn is not installed. The bars are .8 on "
        "true edges, and .1 below the published value on all structures. The bars, the spread of "
        "±5 and the test of silence were set after pilots on seeds from 1000 upwards."
    ),
    presets={"smoke": SMOKE, "laptop": LAPTOP, "paper": PAPER},
    run=run, claims=CLAIMS, figure=figure,
)  # fmt: skip
