"""Reizinger and Gyires-Tóth: weights that are redrawn, or change places, after every step.

The paper presents both as regularisers. No kicks in the last part of the training separate what is
destroyed from what has not yet recovered. With 10 classes and 16 features the class vectors have
rank 9: centred logits are identified, the features are not. The authors' code shuffles by
exchanging views of single weights, which overwrites weights with copies of others; here this is the
arm "released". On kernels of 5 × 5 a coverage below .12 shuffles nothing, so all committed results
of shuffling on CIFAR-10 are in fact without kicks.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

import pandas as pd

from identikit.errors import InputError
from identikit.report.drawing import sheet
from identikit.studies import _checks as check
from identikit.studies import _weight_arms as kicks
from identikit.studies._columns import Check, Column, column, trend, where
from identikit.studies._data import CIFAR10
from identikit.studies._figures import Figure, curve, dots
from identikit.studies._study import Claim, Settings, Study, Tables, control
from identikit.studies._weight_arms import COPIES, PLAIN, REINITIALIZATION, SHUFFLING, WR, WS, Arm
from identikit.studies._work import Work, rows_of

KEY = "{0},{1.operation},p={1.p},coverage={1.coverage}"
# Bars for a gain in accuracy, for equal entropy (bits per matrix), and for equal agreement.
GAIN, BITS, SAME = 0.005, 0.3, 0.02


def run(work: Work) -> Tables:
    """Run all arms of every problem whose data are available, and shuffles without training."""
    s, needs = work.settings, {"cifar": CIFAR10, "jsb": kicks.JSB}
    if unknown := set(s.problems) - set(kicks.ARMS):
        raise InputError(f"problems has {min(unknown)!r}; choose from {', '.join(kicks.ARMS)}")
    items = [
        (name, arm)
        for name in s.problems
        if name not in needs or work.data.find(needs[name]) is not None
        for arm in kicks.ARMS[name]
    ]
    options: Any = {"processes": True, "checkpoints": True, "data": work.data, "s": s}
    records = work.each(KEY, kicks.fitted, items, **options)
    found = dict(zip(items, records))
    rows = [kicks.beside(record, found[name, PLAIN]) for (name, _), record in found.items()]
    counted = work.each("distinct,seed={}", kicks.distinct, range(s.seeds))
    return {
        "seeds": pd.DataFrame(list(chain.from_iterable(rows))),
        "shuffles": rows_of(counted),
    }


# What the claims are checked on: a column of an arm, one value per seed.


def of(name: str, arm: Arm, problem: str = "digits", at: int = 0) -> Column:
    """A column of an arm at the last kick (0), the next snapshot (1), ..., or the end (−1)."""

    def values(t: Tables) -> list[float]:
        own = where(t["seeds"], problem=problem, **arm._asdict())
        if own.empty or name not in own:
            return []
        since = sorted(own["since"].unique())[at]
        found: list[float] = where(own, since=since).sort_values("seed")[name].to_list()
        return found

    return Column(values, WORDS.get(name, ""))


def entropy(arm: Arm, than: Arm, problem: str, words: str) -> Column:
    """The entropy of an arm minus that of another."""
    return of("entropy", arm, problem).less(
        of("entropy", than, problem), f"Entropy in bits {words}"
    )


def gain(arm: Arm, problem: str, at: int = 0) -> Column:
    """The accuracy of an arm minus that of plain training."""
    words = f"Test accuracy {'at the end' if at else 'at the last kick'} minus that without kicks"
    return of("accuracy", arm, problem, at).less(of("accuracy", PLAIN, problem, at), words)


def falls(name: str, operation: str) -> Check:
    """Check that a column falls with the dose of an operation, starting from no kicks."""
    arms = [PLAIN, *(Arm(operation, *dose) for dose in kicks.DOSES)]

    def by_dose(t: Tables) -> pd.DataFrame:
        values = {arm.dose: own for arm in arms if len(own := of(name, arm).values(t))}
        return pd.DataFrame(values if len(values) == len(arms) else {})

    return trend(check.falls, by_dose, f"{WORDS[name]}, at the last kick", "dose")


def soon(t: Tables) -> list[float]:
    """The share of the recovery of accuracy that is reached at the second look after the kicks."""
    strong = Arm(SHUFFLING, *kicks.STRONG)
    ends, early, late = (of("accuracy", strong, at=at).values(t) for at in (0, 2, -1))
    gains = zip(check.differences(early, ends), check.differences(late, ends))
    return [a / b for a, b in gains if b != 0]


def untouched(problem: str, *arms: Arm) -> Check:
    """Check that arms whose kicks do nothing end with the same weights as plain training."""

    def gaps(t: Tables) -> list[float]:
        return [
            gap for arm in arms for at in (0, -1) for gap in of("gap", arm, problem, at).values(t)
        ]

    return Column(gaps, "Largest difference of any kicked weight from plain training").holds(0)


def shuffles(operation: str, name: str, words: str) -> Column:
    """A column of weights that were shuffled 500 times."""
    return column("shuffles", name, words, operation=operation)


def figure(tables: Tables, _settings: Settings) -> Figure:
    """Accuracy and agreement against the dose, recovery after the last kick, and entropy."""
    rows = tables["seeds"]
    rows = rows[(rows["p"] > 0) | (rows["operation"] == kicks.NONE)]
    own, at_kick = rows[rows["problem"] == "digits"], rows[rows["since"] == 0]
    kicked = own[(own["since"] == 0) & (own["operation"] != kicks.NONE)]
    places = [kicks.DOSES.index(dose) + 1 for dose in zip(kicked["p"], kicked["coverage"])]
    kicked = kicked.assign(dose=places)
    middle = at_kick[
        at_kick["p"].isin([0.0, kicks.MIDDLE[0]]) & (at_kick["coverage"] != kicks.TRIVIAL.coverage)
    ]
    words = {"dose": "dose, of four", "since": "steps since the last kick"}
    words |= {"accuracy": "test accuracy, digits", "logits": "R² of centred logits, digits"}
    words |= {"entropy": "entropy of the kicked weights", "operation": "p = .14, coverage .19"}
    words |= {SHUFFLING: "shuffled", REINITIALIZATION: "redrawn", kicks.RELEASED: "released"}
    back = own[own["p"].isin([0.0, kicks.MIDDLE[0]])]
    # A logarithmic axis has its ticks at the doses or steps themselves.
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
WITHOUT = "without kicks minus that with them"
LOST = "Bits lost by 10,000 uniform weights in 500 shuffles"
MNIST, IMAGES, MUSIC = (f"committed results, {on}" for on in ("MNIST", "CIFAR-10", "JSB Chorales"))
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
    control("copies-accuracy", "The released shuffle does not raise the accuracy, on digits.",
        published="best .9929 against .9928, mean .9903 against .9917", source=MNIST,
        check=gain(COPIES, "digits").most(GAIN)),
    control("cifar-copies-accuracy", "The released shuffle does not raise the accuracy, on "
        "CIFAR-10.", check=gain(COPIES, "cifar").most(GAIN)),
    control("ws-dose", "The stronger the shuffling, the less seeds agree in their centred logits.",
        check=falls("logits", SHUFFLING)),
    control("ws-dose-features", "The stronger the shuffling, the less seeds agree in their "
        "features.", check=falls("features", SHUFFLING)),
    control("wr-dose", "The stronger the reinitialization, the less seeds agree in centred logits.",
        check=falls("logits", REINITIALIZATION)),
    control("ws-dose-accuracy", "The stronger the shuffling, the lower the accuracy meanwhile.",
        check=falls("accuracy", SHUFFLING)),
    control("trained-entropy", "Weights trained with shuffling have the entropy of weights trained "
        "without, on digits.", published="41.2 against 41.5", source=MNIST, check=entropy(WS,
        PLAIN, "digits",
        "minus that without kicks").between(-BITS, BITS)),
    control("cifar-trained-entropy", "Kernels trained with shuffling have the entropy of kernels "
        "trained without, on CIFAR-10.", check=entropy(WS, PLAIN, "cifar", "minus that without "
        "kicks")
        .between(-2 * BITS, 2 * BITS)),
    control("cifar-dose", "On CIFAR-10, too, seeds agree less in centred logits with shuffling.",
        check=of("logits", PLAIN, "cifar").less(of("logits", WS, "cifar"), f"{WORDS['logits']}, "
        "without kicks minus that with them").positive()),
    control("not-destroyed", "Once shuffling has ended, the accuracy recovers to that without it.",
        check=gain(WS, "digits", at=-1).least(-0.005)),
    control("strong-not-destroyed", "After the strongest shuffling, too, the accuracy recovers to "
        "that without it.", check=gain(Arm(SHUFFLING, *kicks.STRONG), "digits", at=-1)
        .least(-0.005)),
    control("ws-better", "Long after mild shuffling has ended, accuracy is higher than without it.",
        check=gain(Arm(SHUFFLING, *kicks.MILD), "digits", at=-1).least(0.0)),
    control("wr-better", "Long after reinitialization has ended, accuracy is higher than without "
        "it.", check=gain(WR, "digits", at=-1).least(0.0)),
    control("soon", "After the strongest shuffling, most of the accuracy recovers within 30 steps.",
        check=Column(soon, "Share of the eventual recovery of the accuracy that is reached at the "
        "second look after the last kick (30 steps)").least(0.5)),
    control("logits-return", "After the last shuffle, centred logits move closer to those of other "
        "seeds.", check=of("logits", WS, at=-1).less(of("logits", WS), f"{WORDS['logits']}, at the "
        "end minus " "that at the last kick").positive()),
    control("logits-whole", "Long after shuffling, centred logits agree between seeds as well as "
        "without it.", check=of("logits", WS, at=-1).less(of("logits", PLAIN, at=-1),
        f"{WORDS['logits']}, at the " "end minus that without kicks").between(-SAME, SAME)),
    control("twins", "Long after shuffling, logits are those of any other training, up to an "
        "affine map.", check=of("same", WS, at=-1).less(of("logits", PLAIN, at=-1), "R² of centred "
        "logits of a seed with those of the same seed without kicks, at the end, minus that of two "
        "seeds without kicks").least(-SAME)),
    control("forgotten", "Once shuffling has ended, the weights themselves do not recover.",
        check=of("cosine", WS, at=-1).most(0.3)),
    control("copies", "The released shuffle leaves few distinct values: 100 to 300 of 10,000.",
        published="219, of one draw of the authors' code", check=shuffles(kicks.RELEASED, "left",
        "Distinct values after 500 shuffles").between(100, 300)),
    control("copies-entropy", "The released shuffle alone lowers the entropy of weights.",
        check=shuffles(kicks.RELEASED, "bits", LOST).least(1)),
    control("copies-trained", "Trained with the released shuffle, weights have a lower entropy "
        "than with a true permutation, on digits.", check=entropy(WS, COPIES, "digits",
        "with a true permutation minus that with the released shuffle").positive()),
    control("silence", "On JSB Chorales the LSTM is better than predicting that no key is pressed.",
        published=".9578 against .9558", source=MUSIC, check=of("accuracy", PLAIN, "jsb").less(of(
        "silence", PLAIN, "jsb"), "Accuracy over keys minus that of silence").least(0.005)),
    holds("zero", "With p = 0 training ends with exactly the weights that it has without kicks.",
        "the same", check=untouched("digits", *kicks.ZERO)),
    holds("trivial", "In kernels of 5 × 5 a coverage of .098 shuffles nothing.",
        "the same", check=untouched("cifar", kicks.TRIVIAL)),
    holds("multiset", "A true shuffle keeps all values of the weights.",
        "none lost", check=shuffles(SHUFFLING, "lost", "Distinct values lost in 500 shuffles")
        .holds(0)),
    holds("rank", "Ten centred class vectors have a rank of at most 9.",
        "9", check=Column(lambda t: where(t["seeds"], problem=("digits", "cifar"))["rank"],
        "Largest rank of the centred class vectors, of 16 or 84 features").holds(9)),
)  # fmt: skip
LAPTOP: dict[str, Any] = {
    "problems": ["digits", "cifar", "jsb"], "seeds": 14, "batch": 128, "side": 16,
    "digits_steps": 1500, "digits_after": [0, 10, 30, 100, 300, 1500],
    "cifar_steps": 800, "cifar_after": [0, 400],
    "jsb_steps": 1500, "jsb_after": [0, 1500], "jsb_lr": 2.0,
}  # fmt: skip
SMOKE = LAPTOP | {
    "problems": ["digits", "jsb"], "seeds": 3, "batch": 64,
    "digits_steps": 40, "digits_after": [0, 5, 10, 20], "cifar_steps": 4, "cifar_after": [0, 2],
    "jsb_steps": 4, "jsb_after": [0, 2],
}  # fmt: skip
PAPER = LAPTOP | {
    "seeds": 20, "side": 32, "digits_steps": 30000, "digits_after": [0, 10, 30, 100, 300, 30000],
    "cifar_steps": 30000, "cifar_after": [0, 30000], "jsb_steps": 30000, "jsb_after": [0, 30000],
    "jsb_lr": 0.05,
}  # fmt: skip
STUDY = Study(
    name="reizinger-weights",
    title="Weights redrawn or shuffled during training",
    paper="Reizinger and Gyires-Tóth, LOD 2019 (arXiv 1909.11977), and the results in its code",
    about=(
        "After every step of SGD with Nesterov momentum, a random part of the first layer is "
        "redrawn (Weight Reinitialization) or permuted (Weight Shuffling), as in the paper. Such a "
        "change is called a kick; there are none in the last part of the training. An MLP on "
        "scikit-learn's digits is kicked at four doses, and accuracy, entropy of the kicked "
        "weights and agreement of seeds are measured. If the data folder has the data, so are a "
        "network like LeNet on a part of CIFAR-10 at 16 × 16 pixels, and an LSTM with a linear "
        "output on JSB Chorales. The page's run has Bach's chorales from music21's corpus "
        "(docs/chorales.py), sampled as in JSB Chorales, in another split. A first run, at the "
        "authors' learning rate, ended in networks that predict silence; at forty times that rate "
        "pilots have the accuracy that the authors report. Agreement is R² on held-out rows after "
        "an affine map, of features after the last ReLU (without units that are 0 on nearly all "
        "rows) and of centred logits. Claims of the paper are checked in the middle of the range "
        "that the authors searched, at the last kick. Several choices were made after pilots on "
        "the seeds 1000 to 1011: bars and steps, what counts as a gain, the look at the accuracy "
        "long after the last kick, the range for the distinct values that the released shuffle "
        "leaves, and that the claim about the entropy of shuffled weights is checked on shuffles "
        "without training, with trained weights as a control."
    ),
    presets={"smoke": SMOKE, "laptop": LAPTOP, "paper": PAPER},
    run=run, claims=CLAIMS, figure=figure,
    needs=(replace(CIFAR10, optional=True, stand_in=None), kicks.JSB),
)  # fmt: skip
