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

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from identikit.errors import InputError
from identikit.report.drawing import sheet
from identikit.studies import _checks as check
from identikit.studies._data import CIFAR10
from identikit.studies._figures import curve, dots
from identikit.studies._study import Claim, Finding, Settings, Study, Tables
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

Check = Callable[[Tables], Finding]
KEY = "{0},{1.operation},p={1.p},coverage={1.coverage}"
# What counts as a gain in accuracy, as the same entropy (bits a matrix), and as the same agreement.
GAIN, BITS, SAME = 0.005, 0.3, 0.02


def run(work: Work) -> Tables:
    """All arms of every problem whose data are there, and shuffles of weights by themselves."""
    s, needs = work.settings, {"cifar": CIFAR10, "jsb": JSB}
    if unknown := set(s.problems) - set(ARMS):
        raise InputError(f"problems has {min(unknown)!r}; choose from {', '.join(ARMS)}")
    items = [
        (name, arm, str(work.folder_of(KEY.format(name, arm))))
        for name in s.problems
        if name not in needs or work.data.find(needs[name]) is not None
        for arm in ARMS[name]
    ]
    records = work.each(KEY, fitted, items, processes=True, data=work.data, s=s)
    found = {item[:2]: record for item, record in zip(items, records)}
    rows = [beside(record, found[name, PLAIN]) for (name, _), record in found.items()]
    counted = work.each("distinct,seed={}", distinct, range(s.seeds))
    return {
        "seeds": pd.DataFrame(list(chain.from_iterable(rows))),
        "shuffles": pd.DataFrame([row for record in counted for row in record.rows]),
    }


# What the claims are put to: a column of an arm, one value a seed.


def of(tables: Tables, column: str, arm: Arm, problem: str = "digits", at: int = 0) -> list[float]:
    """A column of an arm at the last kick, or at another snapshot: 1 the next, −1 the end."""
    rows = tables["seeds"]
    own = rows[(rows["problem"] == problem) & (rows[list(arm._fields)] == list(arm)).all(axis=1)]
    if own.empty or column not in own:
        return []
    since = sorted(own["since"].unique())[at]
    values: list[float] = own[own["since"] == since].sort_values("seed")[column].to_list()
    return values


def less(a: Sequence[float], b: Sequence[float]) -> list[float]:
    """a − b, seed by seed; nothing where one of them was not measured."""
    return [x - y for x, y in zip(a, b, strict=True)] if a and b else []


def same_entropy(arm: Arm, problem: str, matrices: int = 1) -> Check:
    """The entropy of an arm is that of plain training, within `BITS` a matrix."""
    bits = BITS * matrices
    comment = f"Entropy in bits less that without kicks; {bits:g} or less either way counts."
    return lambda t: check.equal(
        of(t, "entropy", arm, problem), of(t, "entropy", PLAIN, problem), bits, comment
    )


def lower_entropy(arm: Arm, problem: str, than: Arm = PLAIN) -> Check:
    """The entropy of an arm is lower than that of another."""
    name = "without kicks" if than == PLAIN else "with a true permutation"
    comment = f"Entropy in bits {name} less that with this; above 0 counts."
    return lambda t: check.higher(
        of(t, "entropy", than, problem), of(t, "entropy", arm, problem), comment
    )


def gain(arm: Arm, problem: str, at: int = 0, bar: float = GAIN, *, no: bool = False) -> Check:
    """The accuracy of an arm is higher than that of plain training, by `bar`; or it is not."""
    when, counts = "at the end" if at else "at the last kick", "less" if no else "more"
    comment = f"Test accuracy {when} less that without kicks; {bar:g} or {counts} counts."

    def over(t: Tables) -> Finding:
        sides = (of(t, "accuracy", each, problem, at) for each in (arm, PLAIN))
        return (check.below if no else check.above)(less(*sides), bar, comment)

    return over


def falls(column: str, operation: str) -> Check:
    """A column falls with the dose of an operation, from none on."""
    arms = [PLAIN, *(Arm(operation, *dose) for dose in DOSES)]
    comment = f"{WORDS[column]}, at the last kick: slope from dose to dose; below 0 counts."

    def over(t: Tables) -> Finding:
        values = [own for arm in arms if (own := of(t, column, arm))]
        if len(values) < len(arms):
            return check.falls([], [], comment)
        return check.falls([arm.dose for arm in arms], np.transpose(values), comment)

    return over


def returns(column: str, arm: Arm) -> Check:
    """A column of an arm is higher at the end than at the last kick."""
    comment = f"{WORDS[column]}, at the end less that at the last kick; above 0 counts."
    return lambda t: check.higher(of(t, column, arm, at=-1), of(t, column, arm), comment)


def as_plain(column: str, arm: Arm, within: float) -> Check:
    """A column of an arm is at the end what it is without kicks."""
    comment = f"{WORDS[column]}, at the end less that without kicks; {within:g} either way counts."
    return lambda t: check.equal(
        of(t, column, arm, at=-1), of(t, column, PLAIN, at=-1), within, comment
    )


def twins(t: Tables) -> Finding:
    """With and without kicks the same seed gives the logits that any two seeds give."""
    comment = (
        "R² of the centred logits of a seed with those of the same seed without kicks, at the end, "
        f"less that of two seeds without kicks; −{SAME:g} or more counts."
    )
    both = of(t, "same", WS, at=-1), of(t, "logits", PLAIN, at=-1)
    return check.above(less(*both), -SAME, comment)


def soon(t: Tables) -> Finding:
    """Most of the accuracy is back 30 steps after the last kick, or at the second look after it."""
    ends, early, late = (of(t, "accuracy", Arm(SHUFFLING, *STRONG), at=at) for at in (0, 2, -1))
    comment = "Share of the accuracy that comes back in all that is back at the second look after "
    comment += "the last kick (30 steps); .5 or more counts."
    shares = [a / b for a, b in zip(less(early, ends), less(late, ends)) if b != 0]
    return check.above(shares, 0.5, comment)


def untouched(problem: str, *arms: Arm) -> Check:
    """Arms whose kicks do nothing end with the very weights of plain training."""
    comment = "Largest difference of any kicked weight from plain training; 0 holds."
    return lambda t: check.holds(
        [gap for arm in arms for at in (0, -1) for gap in of(t, "gap", arm, problem, at)],
        0.0, comment,
    )  # fmt: skip


def shuffles(tables: Tables, operation: str, column: str) -> list[float]:
    """A column of weights that were shuffled 500 times."""
    table = tables["shuffles"]
    values: list[float] = table.loc[table["operation"] == operation, column].to_list()
    return values


def ranks(t: Tables) -> Finding:
    """Ten class vectors have rank nine at most."""
    rows = t["seeds"]
    comment = "Largest rank of the centred class vectors, of 16 or 84 features; 9 or less holds."
    return check.holds(rows.loc[rows["problem"] != "jsb", "rank"], 9, comment)


def silence(t: Tables) -> Finding:
    """The LSTM without kicks says more than that no key is pressed."""
    sides = (of(t, column, PLAIN, "jsb") for column in ("accuracy", "silence"))
    comment = "Accuracy over keys less that of silence; .005 or more counts."
    return check.above(less(*sides), 0.005, comment)


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
    "logits": "R² between seeds of centred logits, after an affine map",
}
MNIST, IMAGES, MUSIC = (f"committed results, {on}" for on in ("MNIST", "CIFAR-10", "JSB Chorales"))
control = partial(Claim, published="not in the paper", source="control", kind="control")
holds = partial(Claim, source="by derivation", kind="check")
CLAIMS = (
    Claim(
        "ws-entropy", "A shuffle leaves the entropy of the weights unchanged.", "unchanged",
        "abstract", lambda t: check.within(
            shuffles(t, SHUFFLING, "bits"), -1e-9, 1e-9,
            "Bits lost by 10,000 uniform weights in 500 shuffles; none counts.")),
    Claim(
        "wr-entropy", "Reinitialization lowers the entropy of the weights, on digits.",
        "40.2 against 41.5", MNIST, lower_entropy(WR, "digits")),
    Claim(
        "ws-accuracy", "Shuffling raises the test accuracy, on digits.",
        "best .9929 against .9928, mean .9903 against .9917", MNIST, gain(WS, "digits")),
    Claim(
        "wr-accuracy", "Reinitialization raises the test accuracy, on digits.",
        "best .9929 against .9928, mean .9925 against .9926", MNIST, gain(WR, "digits")),
    Claim(
        "cifar-wr-entropy", "Reinitialization lowers the entropy of the kernels, on CIFAR-10.",
        "50.7 against 56.7 where nothing was shuffled", IMAGES, lower_entropy(WR, "cifar")),
    Claim(
        "cifar-ws-accuracy", "Shuffling raises the test accuracy, on CIFAR-10.",
        "said for all data; mean .6826 where nothing was shuffled", IMAGES, gain(WS, "cifar")),
    Claim(
        "cifar-wr-accuracy", "Reinitialization raises the test accuracy, on CIFAR-10.",
        "mean .6888 against .6826 where nothing was shuffled", IMAGES, gain(WR, "cifar")),
    Claim(
        "jsb-wr-accuracy", "Reinitialization raises the accuracy over keys, on JSB Chorales.",
        "mean .9575 against .9578", MUSIC, gain(WR, "jsb")),
    control(
        "copies-accuracy", "Shuffling as it was released does not raise the accuracy, on digits.",
        published="best .9929 against .9928, mean .9903 against .9917", source=MNIST,
        check=gain(COPIES, "digits", no=True)),
    control(
        "cifar-copies-accuracy", "Shuffling as it was released does not raise the accuracy, on "
        "CIFAR-10.",
        check=gain(COPIES, "cifar", no=True)),
    control(
        "ws-dose", "The stronger the shuffling, the less seeds agree in their centred logits.",
        check=falls("logits", SHUFFLING)),
    control(
        "ws-dose-features", "The stronger the shuffling, the less seeds agree in their features.",
        check=falls("features", SHUFFLING)),
    control(
        "wr-dose", "The stronger the reinitialization, the less seeds agree in centred logits.",
        check=falls("logits", REINITIALIZATION)),
    control(
        "ws-dose-accuracy", "The stronger the shuffling, the lower the accuracy while it goes on.",
        check=falls("accuracy", SHUFFLING)),
    control(
        "trained-entropy", "With shuffling a training has the entropy of one without, on digits.",
        published="41.2 against 41.5", source=MNIST, check=same_entropy(WS, "digits")),
    control(
        "cifar-trained-entropy", "With shuffling kernels have the entropy they have without, on "
        "CIFAR-10.",
        check=same_entropy(WS, "cifar", 2)),
    control(
        "cifar-dose", "On CIFAR-10 too seeds agree less in centred logits with shuffling.",
        check=lambda t: check.higher(
            of(t, "logits", PLAIN, "cifar"), of(t, "logits", WS, "cifar"),
            f"{WORDS['logits']}, without kicks less that with them; above 0 counts.")),
    control(
        "not-destroyed", "Once shuffling has ended, the accuracy comes back to that without it.",
        check=gain(WS, "digits", at=-1, bar=-0.005)),
    control(
        "strong-not-destroyed", "After the strongest shuffling too the accuracy comes back.",
        check=gain(Arm(SHUFFLING, *STRONG), "digits", at=-1, bar=-0.005)),
    control(
        "ws-better", "Long after mild shuffling has ended, accuracy is higher than without it.",
        check=gain(Arm(SHUFFLING, *MILD), "digits", at=-1, bar=0.0)),
    control(
        "wr-better", "Long after reinitialization has ended, accuracy is higher than without it.",
        check=gain(WR, "digits", at=-1, bar=0.0)),
    control(
        "soon", "Most of the accuracy comes back within 30 steps, after the strongest shuffling.",
        check=soon),
    control(
        "logits-return", "After the last kick centred logits come nearer to those of other seeds.",
        check=returns("logits", WS)),
    control(
        "logits-whole", "In the end centred logits agree between seeds as well as without kicks.",
        check=as_plain("logits", WS, SAME)),
    control(
        "twins", "In the end a kicked training has the logits of any other, up to an affine map.",
        check=twins),
    control(
        "forgotten", "The weights themselves do not come back.",
        check=lambda t: check.below(
            of(t, "cosine", WS, at=-1), 0.3, "Cosine of the kicked weights with those of the same "
            "seed without kicks, at the end; .3 or less counts.")),
    control(
        "copies", "The released shuffle leaves few different numbers: 100 to 300 of 10,000.",
        published="219, of one draw of the authors' code",
        check=lambda t: check.within(
            shuffles(t, RELEASED, "left"), 100, 300,
            "Different numbers after 500 shuffles; 100 to 300 counts.")),
    control(
        "copies-entropy", "By itself the released shuffle lowers the entropy of weights.",
        check=lambda t: check.above(
            shuffles(t, RELEASED, "bits"), 1.0,
            "Bits lost by 10,000 uniform weights in 500 shuffles; 1 or more counts.")),
    control(
        "copies-trained", "Trained with the released shuffle, weights have a lower entropy than "
        "with a true permutation, on digits.",
        check=lower_entropy(COPIES, "digits", than=WS)),
    control(
        "silence", "On JSB Chorales the LSTM is better than to predict that no key is pressed.",
        published=".9578 against .9558", source=MUSIC, check=silence),
    holds(
        "zero", "With p = 0 training ends with the very weights that it has without kicks.",
        "the same", check=untouched("digits", *ZERO)),
    holds(
        "trivial", "In kernels of 5 × 5 a coverage of .098 shuffles nothing.",
        "the same", check=untouched("cifar", TRIVIAL)),
    holds(
        "multiset", "A true shuffle leaves the weights the same numbers.", "none lost",
        check=lambda t: check.holds(
            shuffles(t, SHUFFLING, "lost"), 0, "Different numbers lost in 500 shuffles; 0 holds.")),
    holds("rank", "Ten class vectors have rank 9 at most.", "9", check=ranks),
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
