"""Reizinger et al.: environments in which cause or mechanism vary give the causal direction.

Two samples of one environment share its parameters: θ of the cause and ψ of the mechanism. If x
causes y, X₁ ⟂ Y₂ | X₂ holds and Y₁ ⟂ X₂ | Y₂ does not, and it is enough that one of the two varies.
The experiments of the paper draw θ and ψ from U(−1, 1) and add, in all of them, a quadratic term in
half of the environments. That switch is a mechanism that varies. So the published panels are here
once with it and once without, and beside them stand environments in which exactly one thing varies,
strongly (θ on ±5, or the switch), and the control in which nothing does.

"No edge" is a third of all structures, and easy in any case: so accuracy is also given on true
edges, where chance is a half. Answers are by the rule of the paper; what `causal_direction` says
besides, that data are silent and how many halves of the environments agree, is counted apart.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import pandas as pd

from identikit.report.drawing import sheet
from identikit.studies import _checks as check
from identikit.studies._exchangeable_units import CELLS, decisions, duality, largest_drift
from identikit.studies._figures import curve
from identikit.studies._study import Claim, Finding, Settings, Study, Tables
from identikit.studies._work import Work

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Check = Callable[[Tables], Finding]
CDF, LINGAM = "causal de Finetti", "DirectLiNGAM"
#: Proportion of correct structures by environments: committed results (both), or off a figure.
PUBLISHED: dict[tuple[Any, Any], dict[Any, float]] = {
    ("both ±1, switch", CDF): {100: 0.70, 200: 0.82, 300: 0.87, 400: 0.90, 500: 0.91},
    ("cause ±1, switch", CDF): {100: 0.69, 200: 0.86, 300: 0.86, 400: 0.90, 500: 0.81},
    ("mechanism ±1, switch", CDF): {100: 0.80, 200: 0.90, 300: 0.85, 400: 0.92, 500: 0.88},
    ("both ±1, switch", LINGAM): {100: 0.41, 200: 0.48, 300: 0.45, 400: 0.56, 500: 0.49},
    ("cause ±1, switch", LINGAM): {100: 0.48, 200: 0.50, 300: 0.51, 400: 0.64, 500: 0.59},
    ("mechanism ±1, switch", LINGAM): {100: 0.51, 200: 0.51, 300: 0.50, 400: 0.60, 500: 0.58},
}
#: Repetitions of a unit.
BLOCK = 20


def run(work: Work) -> Tables:
    """All repetitions, in blocks; the published numbers beside ours; two readings of TCL."""
    s = work.settings
    blocks = [(at, min(at + BLOCK, s.seeds)) for at in range(0, s.seeds, BLOCK)]
    found = work.each("repetitions={0}-{1}", decisions, blocks, processes=True, s=s)
    read = work.each("duality,seed={}", duality, range(s.duality_seeds), processes=True, s=s)
    decided, readings = (
        pd.DataFrame(list(chain.from_iterable(record.rows for record in each)))
        for each in (found, read)
    )
    drift = pd.DataFrame({"drift": [largest_drift(s.duality_seeds)]})
    decided["independent"] = (decided["answer"] == "none").astype(float)
    tables = {"decisions": decided, "readings": readings, "drift": drift}
    return tables | {"published": beside(decided)}


def beside(decided: pd.DataFrame) -> pd.DataFrame:
    """Accuracy overall, on edges and without one, and what is published of the first."""
    rows = []
    for (cell, method, n), own in decided.groupby(["cell", "method", "environments"], sort=False):
        known = {"cell": cell, "method": method, "environments": n, "repetitions": len(own)}
        parts = {"overall": own, "edge": own[own["edge"]], "no edge": own[~own["edge"]]}
        accuracy = {name: part["correct"].mean() for name, part in parts.items()}
        rows.append(known | accuracy | {"published": PUBLISHED.get((cell, method), {}).get(n)})
    return pd.DataFrame(rows)


# What the claims are put to: one value a repetition.


def of(
    t: Tables, cell: str, n: int | None = None, column: str = "correct", edge: bool | None = True,
    method: str = CDF,
) -> pd.DataFrame:  # fmt: skip
    """A column by repetition and number of environments: on edges, without one, or of all."""
    table = t["decisions"]
    kept = (table["cell"] == cell) & (table["method"] == method)
    if n is not None:
        kept &= table["environments"] == n
    if edge is not None:
        kept &= table["edge"] == edge
    return table[kept].pivot_table(column, "seed", "environments", dropna=False)


def judged(test: Any, bars: tuple[float, ...], cell: str, n: int, **options: Any) -> Check:
    """A share of repetitions in a cell against a bar, or between two."""
    sign = {check.above: " or more", check.below: " or less"}.get(test, "")
    comment = f"{said(n, **options)}; {' to '.join(f'{bar:g}' for bar in bars)}{sign} counts."
    return lambda t: test(of(t, cell, n, **options).to_numpy().ravel(), *bars, comment)


def least(low: float, cell: str, n: int, **options: Any) -> Check:
    """A share is so much or more."""
    return judged(check.above, (low,), cell, n, **options)


def most(high: float, cell: str, n: int, **options: Any) -> Check:
    """A share is so much or less."""
    return judged(check.below, (high,), cell, n, **options)


def between(low: float, high: float, cell: str, n: int, **options: Any) -> Check:
    """A share lies between two numbers."""
    return judged(check.within, (low, high), cell, n, **options)


def said(n: int, column: str = "correct", edge: bool | None = True, **_: Any) -> str:
    """What a share is."""
    what = "answers that are right" if column == "correct" else "data called silent"
    where = {True: ", true edges", False: ", no edge", None: ", all structures"}[edge]
    return f"Share of {what}{where}, {n} environments"


def apart(
    a: tuple[str, str], b: tuple[str, str], n: int, comment: str, low: float | None = None,
    within: float | None = None, edge: bool | None = True,
) -> Check:  # fmt: skip
    """The accuracy of one cell and method less that of another, repetition by repetition."""

    def over(t: Tables) -> Finding:
        first, second = (
            of(t, cell, n, edge=edge, method=method).to_numpy().ravel() for cell, method in (a, b)
        )
        if within is not None:
            return check.equal(first, second, within, comment)
        if low is None or not len(first) or not len(second):
            return check.higher(first, second, comment)
        return check.above(first - second, low, comment)

    return over


def grows(t: Tables) -> Finding:
    """Accuracy against the number of environments, as published."""
    table = of(t, "both ±1, switch", edge=None)
    comment = "Share of right answers, all structures: the slope from one number of environments "
    comment += "to the next; above 0 counts."
    return check.rises(table.columns.to_numpy(float), table.to_numpy(float), comment)


def sure(t: Tables) -> Finding:
    """Accuracy of the answers that nine of ten halves of the environments agree with."""
    table = t["decisions"]
    strict = table["cell"].isin(["cause", "mechanism", "both"]) & table["edge"]
    kept = strict & (table["agreement"] >= 0.9) & (table["silent"] == 0)
    # Cells of one repetition share their structure: a repetition counts once.
    values = table[kept].groupby("seed")["correct"].mean()
    comment = "Share of right answers, true edges, cause or mechanism or both vary, among those "
    comment += "with 90 % of halves or more; .9 or more counts."
    return check.above(values, 0.9, comment)


def named(t: Tables) -> Finding:
    """How often a direction is named where nothing tells it."""
    answers = of(t, "neither", 300, "silent") + of(t, "neither", 300, "independent")
    comment = "Share of true edges, 300 environments, with an answer other than silent or no edge; "
    return check.below(1 - answers.to_numpy().ravel(), 0.1, comment + ".1 or less counts.")


def reading(t: Tables, column: str, where: str) -> pd.Series[Any]:
    """A column of a reading of TCL, by seed."""
    table = t["readings"]
    return table[table["where"] == where].set_index("seed")[column]


def gaps(t: Tables) -> list[float]:
    """The largest difference of each score between the two readings."""
    differences = (
        reading(t, column, "sources") - reading(t, column, "mixing")
        for column in ("mcc", "identified", "accuracy")
    )
    return [float(each.abs().max()) for each in differences if len(each)]


def figure(tables: Tables, settings: Settings) -> Figure:  # noqa: ARG001
    """Accuracy against environments: strict, as published, without the switch; and silence."""
    table = tables["decisions"]
    ours = table[(table["method"] == CDF) & table["edge"]]
    published = table[table["cell"] == "both ±1, switch"]
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


FIGURE, COMMITTED, THEOREM = "read off a figure", "committed results", "theorem"
paper = Claim
control = partial(Claim, published="not in the paper", source="control", kind="control")
identity = partial(Claim, published="an identity", source="by derivation", kind="check")
CLAIMS = (
    paper(
        "cause", "It is enough that the law of the cause varies.", ".86 overall at 300", FIGURE,
        least(0.8, "cause", 300)),
    paper(
        "mechanism", "It is enough that the mechanism varies.", ".85 overall at 300", FIGURE,
        least(0.8, "mechanism", 300)),
    paper(
        "both", "The direction is found if both vary.", ".87 overall at 300", COMMITTED,
        least(0.8, "both", 300)),
    paper(
        "published", "The published set-up finds the structure, with 500 environments.", ".91",
        COMMITTED, least(0.81, "both ±1, switch", 500, edge=None)),
    paper(
        "published-cause", "So it does with the panel in which only the cause is said to vary.",
        ".86 at 300", FIGURE, least(0.76, "cause ±1, switch", 300, edge=None)),
    paper(
        "published-mechanism", "So it does with the panel for the mechanism.", ".85 at 300", FIGURE,
        least(0.75, "mechanism ±1, switch", 300, edge=None)),
    paper("grows", "More environments, more right answers.", ".70 up to .91", COMMITTED, grows),
    paper(
        "few", "With 100 environments it is better than chance.", ".70", COMMITTED,
        least(1 / 3, "both ±1, switch", 100, edge=None)),
    paper(
        "lingam", "DirectLiNGAM is less accurate.", ".91 against .49", COMMITTED,
        apart(("both ±1, switch", CDF), ("both ±1, switch", LINGAM), 500, edge=None,
              comment="Accuracy less that of DirectLiNGAM, all structures, 500 environments; "
              "above 0 counts.")),
    paper(
        "cause-alone", "A cause that varies on ±1, and nothing else, is enough.",
        ".86 overall at 300", FIGURE, least(0.8, "cause ±1", 300)),
    paper(
        "mechanism-alone", "A shift of the effect that varies on ±1, and nothing else, is enough.",
        ".85 overall at 300", FIGURE, least(0.8, "mechanism ±1", 300)),
    paper(
        "both-alone", "These two together, and nothing else, are enough.", ".87 overall at 300",
        COMMITTED, least(0.8, "both ±1", 300)),
    paper(
        "duality", "If the environment acts in the mixing, sources are found as if it acted in "
        "them.", "a theorem", THEOREM,
        lambda t: check.above(
            reading(t, "mcc", "mixing"), 0.95,
            "MCC within environments, by VarianceICA; .95 or more counts.")),
    control(
        "iid", "If nothing varies, the direction is a coin toss.",
        check=between(0.4, 0.6, "neither", 300)),
    control(
        "iid-overall", "Even then overall accuracy is far above a third, as no edge is easy.",
        check=between(0.5, 0.7, "neither", 300, edge=None)),
    control(
        "planted", "A control that keeps the quadratic half is none: it gives the direction away.",
        check=apart(("mechanism", CDF), ("neither", CDF), 300, low=0.2,
                    comment="Accuracy less that of the i.i.d. control, true edges, 300 "
                    "environments; .2 or more counts.")),
    control(
        "switch", "The hidden switch alone is as good as the published set-up.",
        check=apart(("both ±1, switch", CDF), ("mechanism", CDF), 300, within=0.1, edge=None,
                    comment="Accuracy less that of the switch alone, all structures, 300 "
                    "environments; .1 or less either way counts.")),
    control(
        "without", "Without the switch the published set-up is less accurate.",
        check=apart(("both ±1, switch", CDF), ("both ±1", CDF), 300,
                    comment="Accuracy less that without the switch, true edges, 300 environments; "
                    "above 0 counts.")),
    control(
        "silent", "Where nothing varies, the data are called silent.",
        check=least(0.9, "neither", 300, column="silent")),
    control(
        "named", "Where nothing varies, no direction is named.", check=named),
    control(
        "not-silent", "Where the cause varies, they are not.",
        check=most(0.1, "cause", 300, column="silent")),
    control(
        "not-silent-mechanism", "Nor where the mechanism does.",
        check=most(0.1, "mechanism", 300, column="silent")),
    control("sure", "Answers that most halves of the environments agree with are right.",
            check=sure),
    control(
        "lingam-iid", "DirectLiNGAM finds the direction where nothing varies: the noise is Laplace "
        "and the mechanism linear.",
        check=least(0.9, "neither", 300, method=LINGAM)),
    control(
        "equal", "With equal environments VarianceICA calls no axis identified.",
        check=lambda t: check.below(
            reading(t, "identified", "equal"), 0.1, "Share of axes; .1 or less counts.")),
    identity(
        "same", "Scales in the sources or in the mixing: the observations are the same.",
        check=lambda t: check.holds(
            reading(t, "moved", "mixing"), 0.0, "Largest difference; 0 holds.")),
    identity(
        "verdicts", "The same observations, the same scores.",
        check=lambda t: check.holds(
            gaps(t), 1e-12, "Largest difference of MCC, axes identified, and accuracy of a "
            "classifier of environments; 1e-12 or less holds.")),
    identity(
        "rank", "Natural parameters of the environments have full rank.",
        check=lambda t: check.holds(
            reading(t, "needed", "mixing") - reading(t, "rank", "mixing"), 0,
            "Largest missing rank of L; 0 holds.")),
    identity(
        "rank-equal", "Those of equal environments have rank 0.",
        check=lambda t: check.holds(reading(t, "rank", "equal"), 0, "Largest rank of L; 0 holds.")),
    identity(
        "strict", "What is fixed has one value in all environments, by causal role.",
        check=lambda t: check.holds(
            t["drift"]["drift"], 0, "Largest difference between environments; 0 holds.")),
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
        "Pairs of samples of many environments, by the three kernel tests and the decision rule of "
        "the paper. A repetition is a seed: one structure (an edge either way, or none), one set "
        "of coefficients, ten settings of what varies between environments. θ of the cause and ψ "
        "of the effect are U(−1, 1) in the paper, and a quadratic term is switched on in half of "
        "the environments whatever is said to vary; here the strict settings have θ on ±5 or that "
        "switch, and nothing else. Fixed parameters have one value in all environments, which in "
        "the released code they have not. Duality: sources with one scale an environment, and the "
        "same scales in the mixing. DirectLiNGAM is that of causal-learn, and not measured without "
        "it. Bars: .8 of the edges, and .1 below what is published of all structures; they, the "
        "spread of ±5 and the test of silence were set after pilots on the seeds from 1000 on."
    ),
    presets={"smoke": SMOKE, "laptop": LAPTOP, "paper": PAPER},
    run=run,
    claims=CLAIMS,
    figure=figure,
)
