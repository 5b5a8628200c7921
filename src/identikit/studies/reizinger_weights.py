"""Reizinger and Gyires-Tóth: weights that are drawn anew, or change places, after every step.

Both are presented as regularisers. Here they are kicks to the weights, whose effect is measured at
growing doses: on accuracy, entropy of the weights, and how alike seeds become. They are off for the
last part of the training, which tells what is destroyed from what has not yet recovered.

With 10 classes and 16 features the class vectors have rank 9: centred logits are identified, the
features are not. A kick that the training recovers from should leave what is identified as it was.

The authors' code shuffles by exchanging views of single weights, which overwrites weights with
copies of others: an arm of its own here, "released". On kernels of 5 × 5 a coverage below .12
shuffles nothing: all committed results of shuffling on CIFAR-10 are in truth without kicks.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import pandas as pd

from identikit.errors import InputError
from identikit.report.drawing import sheet
from identikit.studies import _checks as check
from identikit.studies._columns import Check, Column, column, trend, where
from identikit.studies._data import CIFAR10
from identikit.studies._figures import curve, dots
from identikit.studies._store import rows_of
from identikit.studies._study import Claim, Settings, Study, Tables
from identikit.studies._weight_arms import (
    ARMS,
    COPIES,
    DOSES,
    JSB,
    MIDDLE,
    MILD,
    NONE,
    PLAIN,
    REINITIALIZATION,
    RELEASED,
    SHUFFLING,
    STRONG,
    TRIVIAL,
    WR,
    WS,
    ZERO,
    Arm,
    beside,
    distinct,
    fitted,
)
from identikit.studies._work import Work

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KEY = "{0},{1.operation},p={1.p},coverage={1.coverage}"
# What counts as a gain in accuracy, as the same entropy (bits a matrix), and as the same agreement.
GAIN, BITS, SAME = 0.005, 0.3, 0.02


def run(work: Work) -> Tables:
    """All arms of every problem whose data are there, and shuffles of weights by themselves."""
    s, needs = work.settings, {"cifar": CIFAR10, "jsb": JSB}
    if unknown := set(s.problems) - set(ARMS):
        raise InputError(f"problems has {min(unknown)!r}; choose from {', '.join(ARMS)}")
    items = [
        (name, arm)
        for name in s.problems
        if name not in needs or work.data.find(needs[name]) is not None
        for arm in ARMS[name]
    ]
    records = work.each(KEY, fitted, items, processes=True, checkpoints=True, data=work.data, s=s)
    found = dict(zip(items, records))
    rows = [beside(record, found[name, PLAIN]) for (name, _), record in found.items()]
    counted = work.each("distinct,seed={}", distinct, range(s.seeds))
    return {
        "seeds": pd.DataFrame(list(chain.from_iterable(rows))),
        "shuffles": rows_of(counted),
    }


# What the claims are put to: a column of an arm, one value a seed.


def of(name: str, arm: Arm, problem: str = "digits", at: int = 0) -> Column:
    """A column of an arm at the last kick, or at another snapshot: 1 the next, −1 the end."""

    def values(t: Tables) -> list[float]:
        own = where(t["seeds"], problem=problem, **arm._asdict())
        if own.empty or name not in own:
            return []
        since = sorted(own["since"].unique())[at]
        found: list[float] = where(own, since=since).sort_values("seed")[name].to_list()
        return found

    return Column(values, WORDS.get(name, ""))


def entropy(arm: Arm, than: Arm, problem: str, words: str) -> Column:
    """The entropy of an arm less that of another."""
    return of("entropy", arm, problem).less(
        of("entropy", than, problem), f"Entropy in bits {words}"
    )


def gain(arm: Arm, problem: str, at: int = 0) -> Column:
    """The accuracy of an arm less that of plain training."""
    words = f"Test accuracy {'at the end' if at else 'at the last kick'} less that without kicks"
    return of("accuracy", arm, problem, at).less(of("accuracy", PLAIN, problem, at), words)


def falls(name: str, operation: str) -> Check:
    """A column falls with the dose of an operation, from none on."""
    arms = [PLAIN, *(Arm(operation, *dose) for dose in DOSES)]

    def by_dose(t: Tables) -> pd.DataFrame:
        values = {arm.dose: own for arm in arms if len(own := of(name, arm).values(t))}
        return pd.DataFrame(values if len(values) == len(arms) else {})

    return trend(check.falls, by_dose, f"{WORDS[name]}, at the last kick", "dose")


def soon(t: Tables) -> list[float]:
    """What share of the accuracy that comes back is back at the second look after the last kick."""
    strong = Arm(SHUFFLING, *STRONG)
    ends, early, late = (of("accuracy", strong, at=at).values(t) for at in (0, 2, -1))
    gains = zip(check.differences(early, ends), check.differences(late, ends))
    return [a / b for a, b in gains if b != 0]


def untouched(problem: str, *arms: Arm) -> Check:
    """Arms whose kicks do nothing end with the very weights of plain training."""

    def gaps(t: Tables) -> list[float]:
        return [
            gap for arm in arms for at in (0, -1) for gap in of("gap", arm, problem, at).values(t)
        ]

    return Column(gaps, "Largest difference of any kicked weight from plain training").holds(0)


def shuffles(operation: str, name: str, words: str) -> Column:
    """A column of weights that were shuffled 500 times."""
    return column("shuffles", name, words, operation=operation)


def figure(tables: Tables, _settings: Settings) -> Figure:
    """Accuracy and agreement against the dose, what comes back after the last kick, entropy."""
    rows = tables["seeds"]
    rows = rows[(rows["p"] > 0) | (rows["operation"] == NONE)]
    own, at_kick = rows[rows["problem"] == "digits"], rows[rows["since"] == 0]
    kicked = own[(own["since"] == 0) & (own["operation"] != NONE)]
    places = [DOSES.index(dose) + 1 for dose in zip(kicked["p"], kicked["coverage"])]
    kicked = kicked.assign(dose=places)
    middle = at_kick[
        at_kick["p"].isin([0.0, MIDDLE[0]]) & (at_kick["coverage"] != TRIVIAL.coverage)
    ]
    words = {"dose": "dose, of four", "since": "steps since the last kick"}
    words |= {"accuracy": "test accuracy, digits", "logits": "R² of centred logits, digits"}
    words |= {"entropy": "entropy of the kicked weights", "operation": "p = .14, coverage .19"}
    words |= {SHUFFLING: "shuffled", REINITIALIZATION: "anew", RELEASED: "released"}
    back = own[own["p"].isin([0.0, MIDDLE[0]])]
    # On a logarithmic axis doses and steps alike are named where they are.
    line = partial(curve, by="operation", labels=words, log_x=True)
    return sheet(
        [
            partial(line, table=kicked, x="dose", y="accuracy"),
            partial(line, table=kicked, x="dose", y="logits"),
        ],
        [
            partial(line, table=back, x="since", y="logits"),
            partial(dots, table=middle, x="operation", y="entropy", by="problem", labels=words),
        ],
    )  # fmt: skip


WORDS = {
    "accuracy": "Test accuracy",
    "features": "R² between seeds of features, after an affine map",
    "cosine": "Cosine of the kicked weights with those of the same seed without kicks, at the end",
    "logits": "R² between seeds of centred logits, after an affine map",
}
WITHOUT = "without kicks less that with this"
LOST = "Bits lost by 10,000 uniform weights in 500 shuffles"
MNIST, IMAGES, MUSIC = (f"committed results, {on}" for on in ("MNIST", "CIFAR-10", "JSB Chorales"))
control = partial(Claim, published="not in the paper", source="control", kind="control")
holds = partial(Claim, source="by derivation", kind="check")
CLAIMS = (
    Claim("ws-entropy", "A shuffle leaves the entropy of the weights unchanged.",
        "unchanged", "abstract", shuffles(SHUFFLING, "bits", LOST).between(-1e-9, 1e-9)),
    Claim("wr-entropy", "Reinitialization lowers the entropy of the weights, on digits.",
        "40.2 against 41.5", MNIST, entropy(PLAIN, WR, "digits", WITHOUT).positive()),
    Claim("ws-accuracy", "Shuffling raises the test accuracy, on digits.",
        "best .9929 against .9928, mean .9903 against .9917", MNIST, gain(WS, "digits")
        .least(GAIN)),
    Claim("wr-accuracy", "Reinitialization raises the test accuracy, on digits.",
        "best .9929 against .9928, mean .9925 against .9926", MNIST, gain(WR, "digits")
        .least(GAIN)),
    Claim("cifar-wr-entropy", "Reinitialization lowers the entropy of the kernels, on CIFAR-10.",
        "50.7 against 56.7 where nothing was shuffled", IMAGES, entropy(PLAIN, WR, "cifar", WITHOUT)
        .positive()),
    Claim("cifar-ws-accuracy", "Shuffling raises the test accuracy, on CIFAR-10.",
        "said for all data; mean .6826 where nothing was shuffled", IMAGES, gain(WS, "cifar")
        .least(GAIN)),
    Claim("cifar-wr-accuracy", "Reinitialization raises the test accuracy, on CIFAR-10.",
        "mean .6888 against .6826 where nothing was shuffled", IMAGES, gain(WR, "cifar")
        .least(GAIN)),
    Claim("jsb-wr-accuracy", "Reinitialization raises the accuracy over keys, on JSB Chorales.",
        "mean .9575 against .9578", MUSIC, gain(WR, "jsb").least(GAIN)),
    control("copies-accuracy", "Shuffling as it was released does not raise the accuracy, on "
        "digits.", published="best .9929 against .9928, mean .9903 against .9917", source=MNIST,
        check=gain(COPIES, "digits").most(GAIN)),
    control("cifar-copies-accuracy", "Shuffling as it was released does not raise the accuracy, on "
        "CIFAR-10.", check=gain(COPIES, "cifar").most(GAIN)),
    control("ws-dose", "The stronger the shuffling, the less seeds agree in their centred logits.",
        check=falls("logits", SHUFFLING)),
    control("ws-dose-features", "The stronger the shuffling, the less seeds agree in their "
        "features.", check=falls("features", SHUFFLING)),
    control("wr-dose", "The stronger the reinitialization, the less seeds agree in centred logits.",
        check=falls("logits", REINITIALIZATION)),
    control("ws-dose-accuracy", "The stronger the shuffling, the lower the accuracy while it goes "
        "on.", check=falls("accuracy", SHUFFLING)),
    control("trained-entropy", "With shuffling a training has the entropy of one without, on "
        "digits.", published="41.2 against 41.5", source=MNIST, check=entropy(WS, PLAIN, "digits",
        "less that without kicks").between(-BITS, BITS)),
    control("cifar-trained-entropy", "With shuffling kernels have the entropy they have without, "
        "on CIFAR-10.", check=entropy(WS, PLAIN, "cifar", "less that without kicks")
        .between(-2 * BITS, 2 * BITS)),
    control("cifar-dose", "On CIFAR-10 too seeds agree less in centred logits with shuffling.",
        check=of("logits", PLAIN, "cifar").less(of("logits", WS, "cifar"), f"{WORDS['logits']}, "
        "without kicks less that with them").positive()),
    control("not-destroyed", "Once shuffling has ended, the accuracy comes back to that without "
        "it.", check=gain(WS, "digits", at=-1).least(-0.005)),
    control("strong-not-destroyed", "After the strongest shuffling too the accuracy comes back to "
        "that without it.", check=gain(Arm(SHUFFLING, *STRONG), "digits", at=-1).least(-0.005)),
    control("ws-better", "Long after mild shuffling has ended, accuracy is higher than without it.",
        check=gain(Arm(SHUFFLING, *MILD), "digits", at=-1).least(0.0)),
    control("wr-better", "Long after reinitialization has ended, accuracy is higher than without "
        "it.", check=gain(WR, "digits", at=-1).least(0.0)),
    control("soon", "Most of the accuracy comes back within 30 steps, after the strongest "
        "shuffling.", check=Column(soon, "Share of the accuracy that comes back in all that is "
        "back at the second look after the last kick (30 steps)").least(0.5)),
    control("logits-return", "After the last shuffle centred logits come nearer to those of other "
        "seeds.", check=of("logits", WS, at=-1).less(of("logits", WS), f"{WORDS['logits']}, at the "
        "end less " "that at the last kick").positive()),
    control("logits-whole", "Long after shuffling centred logits agree between seeds as well as "
        "without it.", check=of("logits", WS, at=-1).less(of("logits", PLAIN, at=-1),
        f"{WORDS['logits']}, at the " "end less that without kicks").between(-SAME, SAME)),
    control("twins", "Long after shuffling a training has the logits of any other, up to an affine "
        "map.", check=of("same", WS, at=-1).less(of("logits", PLAIN, at=-1), "R² of the centred "
        "logits of a seed with those of the same seed without kicks, at the end, less that of two "
        "seeds without kicks").least(-SAME)),
    control("forgotten", "Once shuffling has ended, the weights themselves do not come back.",
        check=of("cosine", WS, at=-1).most(0.3)),
    control("copies", "The released shuffle leaves few different numbers: 100 to 300 of 10,000.",
        published="219, of one draw of the authors' code", check=shuffles(RELEASED, "left",
        "Different numbers after 500 shuffles").between(100, 300)),
    control("copies-entropy", "By itself the released shuffle lowers the entropy of weights.",
        check=shuffles(RELEASED, "bits", LOST).least(1)),
    control("copies-trained", "Trained with the released shuffle, weights have a lower entropy "
        "than with a true permutation, on digits.", check=entropy(WS, COPIES, "digits",
        "with a true permutation less that with this").positive()),
    control("silence", "On JSB Chorales the LSTM is better than to predict that no key is pressed.",
        published=".9578 against .9558", source=MUSIC, check=of("accuracy", PLAIN, "jsb").less(of(
        "silence", PLAIN, "jsb"), "Accuracy over keys less that of silence").least(0.005)),
    holds("zero", "With p = 0 training ends with the very weights that it has without kicks.",
        "the same", check=untouched("digits", *ZERO)),
    holds("trivial", "In kernels of 5 × 5 a coverage of .098 shuffles nothing.",
        "the same", check=untouched("cifar", TRIVIAL)),
    holds("multiset", "A true shuffle leaves the weights the same numbers.",
        "none lost", check=shuffles(SHUFFLING, "lost", "Different numbers lost in 500 shuffles")
        .holds(0)),
    holds("rank", "Ten class vectors have rank 9 at most.",
        "9", check=Column(lambda t: where(t["seeds"], problem=("digits", "cifar"))["rank"],
        "Largest rank of the centred class vectors, of 16 or 84 features").holds(9)),
)  # fmt: skip
LAPTOP: dict[str, Any] = {
    "problems": ["digits", "cifar", "jsb"], "seeds": 14, "batch": 128, "side": 16,
    "digits_steps": 1500, "digits_after": [0, 10, 30, 100, 300, 1500],
    "cifar_steps": 800, "cifar_after": [0, 400],
    "jsb_steps": 1500, "jsb_after": [0, 1500],
}  # fmt: skip
SMOKE = LAPTOP | {
    "problems": ["digits", "jsb"], "seeds": 3, "batch": 64,
    "digits_steps": 40, "digits_after": [0, 5, 10, 20], "cifar_steps": 4, "cifar_after": [0, 2],
    "jsb_steps": 4, "jsb_after": [0, 2],
}  # fmt: skip
PAPER = LAPTOP | {
    "seeds": 20, "side": 32, "digits_steps": 30000, "digits_after": [0, 10, 30, 100, 300, 30000],
    "cifar_steps": 30000, "cifar_after": [0, 30000], "jsb_steps": 30000, "jsb_after": [0, 30000],
}  # fmt: skip
STUDY = Study(
    name="reizinger-weights",
    title="Weights drawn anew or shuffled during training",
    paper="Reizinger and Gyires-Tóth, LOD 2019 (arXiv 1909.11977), and the results in its code",
    about=(
        "After every step of SGD with Nesterov momentum a random part of the first layer is drawn "
        "anew (Weight Reinitialization) or permuted (Weight Shuffling), as the paper has it, and "
        "for the last part of the training no longer. An MLP on scikit-learn's digits, of which "
        "accuracy, entropy of the kicked weights and agreement of seeds are measured at four "
        "doses; a network like LeNet on a part of CIFAR-10 at 16 × 16 pixels; and an LSTM with a "
        "linear output on JSB Chorales, both if the data folder has them. Agreement is R² on "
        "held-out rows after an affine map, of features after the last ReLU (without units that "
        "are silent on nearly all rows) and of centred logits. Claims of the paper are put to the "
        "middle of the range that the authors searched, at the last kick. Bars and steps were set "
        "after pilots on the seeds 1000 to 1011; so were what counts as a gain, the look at the "
        "accuracy long after the last kick, the range for values that the released shuffle leaves "
        "distinct, and that the claim on the entropy of shuffled weights is put to shuffles by "
        "themselves, with what a training makes of it as a control."
    ),
    presets={"smoke": SMOKE, "laptop": LAPTOP, "paper": PAPER},
    run=run,
    claims=CLAIMS,
    figure=figure,
    needs=(replace(CIFAR10, optional=True, stand_in=None), JSB),
)
