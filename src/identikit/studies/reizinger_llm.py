"""Reizinger et al. on language models: the same loss, but different answers off the support.

Models learn aⁿbⁿ, n = 1 to N, alone or with completions of the 251 prompts of 8 letters with which
no string begins: an oracle's, which satisfy rule R1 (#a = #b), or an adversary's, which break it by
one letter. Where the released code has errors, this study differs from it: the loss of a completion
includes the first new token (the control `released` leaves it out), PAD is not a target, floors are
exact, unfinished completions count, and the weights are rescaled, because relu(αx)/α changes
neither values nor gradients (a control shows this). The released Transformer has, in effect, no
positional information, and neither has ours.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import inf
from typing import Any

import numpy as np
import pandas as pd

from identikit.family import BernoulliMixture
from identikit.report.drawing import sheet
from identikit.studies import _language_models as lm
from identikit.studies._checks import above, below, higher, holds, ordered, within
from identikit.studies._columns import where
from identikit.studies._figures import Axes, Figure, dots
from identikit.studies._seed_pairs import Panel
from identikit.studies._study import Claim, Finding, Settings, Study, Tables
from identikit.studies._work import Work, rows_of

NAMES = {
    lm.TRANSFORMER: "Transformer without positions",
    lm.LSTM: "LSTM",
    lm.DECODER: "Decoder with RMSNorm, rotary positions and SwiGLU",
}
# A mixture of two coins; after 10 or 20 ones, the next 10 tokens are answered at the other rate.
COINS, ONES, ANSWER = BernoulliMixture((0.1, 0.6)), (10, 20), 10


def run(work: Work) -> Tables:
    """Train every architecture in every regime, compare on and off the support, and fine-tune."""
    s = work.settings
    wanted = [(each, regime) for each in s.architectures for regime in lm.REGIMES]
    wanted.insert(0, (s.architectures[0], lm.RELEASED))
    units = partial(work.each, processes=True, settings=s)
    taught = dict(zip(wanted, units("{0},{1}", lm.teach, wanted, checkpoints=True)))
    arrays = [
        (each, {regime: taught[each, regime].arrays for regime in lm.REGIMES})
        for each in s.architectures
    ]
    pairs = units("pairs,{0}", lm.compare, arrays)
    seeds = range(s.first_seed, s.first_seed + s.seeds)
    tuning = units("finetune,seed={}", lm.tune, seeds)
    tables = {"models": rows_of(taught.values()), "pairs": rows_of(pairs)}
    return tables | {"tuning": rows_of(tuning), "rare": rare()}


def rare() -> pd.DataFrame:
    """The probability of a rare prompt, the exact KL of answering it differently, and its bound."""
    low, high = COINS.rates
    gap = high * np.log(high / low) + (1 - high) * np.log((1 - high) / (1 - low))
    rows = []
    for ones in ONES:
        mass = COINS.mass(ones, ones)
        row = {"ones": ones, "mass": mass, "kl": COINS.answered(ones, ones, low, ANSWER)}
        row |= {"bound": mass * ANSWER * gap, "p(1)": COINS.predict(ones, ones), "q(1)": low}
        rows.append(row | {"share": row["kl"] / row["bound"]})
    return pd.DataFrame(rows)


def tuned(tables: Tables, by: str, alpha: float, column: str = "mse") -> list[float]:
    """The result of fine-tuning weights rescaled by α, one value per seed."""
    rows = where(tables["tuning"], by=by, alpha=alpha, scaled="weights")
    return list(rows[column].astype(float))


def _loss(tables: Tables, architecture: str) -> Finding:
    losses = lm.wide(tables, architecture, "loss", every=True)
    comment = f"Largest minus smallest loss, in nats per sequence; {lm.SLACK} or less counts."
    spread = losses.max(axis=1) - losses.min(axis=1)
    return below(spread, lm.SLACK, comment + lm.counted(tables, architecture))


def _order(tables: Tables, architecture: str) -> Finding:
    r1 = lm.wide(tables, architecture, "off: R1")
    comment = (
        "The smaller difference between neighbours in the share of completions that satisfy R1, "
        "over all prompts off the support; unfinished completions count as violations."
    )
    steps = [r1[lm.ORACLE], r1[lm.ML], r1[lm.ADVERSARIAL]]
    return ordered(steps, comment + lm.counted(tables, architecture))


def _share(tables: Tables, given: tuple[str, str, float, float]) -> Finding:
    regime, column, low, high = given
    values = lm.wide(tables, lm.TRANSFORMER, column)[regime]
    place, what = column.split(": ")
    one = f"{low} or more" if high == inf else f"{high} or less"
    counts = f"from {low} to {high}" if -inf < low and high < inf else one
    comment = f"Share of {what}, {place} the support; {counts} counts."
    return within(values, low, high, comment + lm.counted(tables, lm.TRANSFORMER))


def _at_once(tables: Tables, architecture: str) -> Finding:
    r1, line = (lm.wide(tables, architecture, name)[lm.ML] for name in ("off: R1", "at once"))
    comment = "R1 over all prompts off the support, minus the share of prompts already balanced."
    return higher(r1, line, comment + lm.counted(tables, architecture))


def _first_token(tables: Tables) -> Finding:
    models = where(tables["models"], architecture=lm.TRANSFORMER)
    r1 = models.pivot(index="seed", columns="regime", values="off: R1")
    r1 = r1.reindex(columns=[lm.ORACLE, lm.RELEASED]).dropna()
    comment = "R1 over all prompts off the support with the first new token learned, minus without"
    without = f"; without, it is {r1[lm.RELEASED].mean():.3f}." if len(r1) else "."
    return higher(r1[lm.ORACLE], r1[lm.RELEASED], comment + without)


def _same(tables: Tables, architecture: str) -> Finding:
    comment = (
        "Total variation of the next token over all prefixes that occur, of pairs of regimes or of "
        "seeds of maximum likelihood, whichever is larger; 0.01 or less counts."
    )
    both = [lm.apart(tables, architecture, kind, lm.ON) for kind in ("regimes", "seeds")]
    larger = max(both, key=lambda values: float(np.mean(values)) if values else -1.0)
    return below(larger, 0.01, comment + lm.counted(tables, architecture))


def _differ(tables: Tables, architecture: str, kind: str, bar: float) -> Finding:
    comment = (
        f"Total variation of the next token over prompts off the support; {bar} or more counts."
    )
    values = lm.apart(tables, architecture, kind, lm.OFF)
    return above(values, bar, comment + lm.counted(tables, architecture))


def _logits(tables: Tables) -> Finding:
    on, off = (
        lm.apart(tables, lm.TRANSFORMER, "seeds", place, "logit gap") for place in (lm.ON, lm.OFF)
    )
    comment = (
        "Relative gap of centred logits of two seeds of maximum likelihood, off the support minus "
        "on it. It is not 0 on the support, because the loss does not determine the logits of "
        "tokens that never follow."
    )
    return higher(off, on, comment + (f" On the support it is {np.mean(on):.2f}." if on else ""))


def _tuned(tables: Tables, by: str, alphas: tuple[float, ...]) -> Finding:
    diverged = sum(tuned(tables, by, 10.0, "diverged"))
    comment = (
        f"Final error at α = {' minus that at α = '.join(f'{alpha:g}' for alpha in alphas)} (of "
        f"several steps the least certain). At α = 10, {diverged:.0f} seeds diverge."
    )
    return ordered([tuned(tables, by, alpha) for alpha in alphas], comment)


def _inert(tables: Tables) -> Finding:
    errors = where(tables["tuning"], scaled="activation").groupby(["seed", "by"])["mse"]
    comment = "Largest difference of final errors between values of α; rounding may leave 0.005."
    return holds(errors.max() - errors.min(), 5e-3, comment)


def _every(tables: Tables, given: tuple[str, str, float, str]) -> Finding:
    table, column, bound, comment = given
    return holds(tables[table][column], bound, comment)


def figure(tables: Tables, _settings: Settings) -> Figure:
    """Completions off the support, the losses, differences between models, and fine-tuning."""
    models, tuning = tables["models"], tables["tuning"]
    models = models.sort_values("regime", key=lambda column: column == lm.RELEASED, kind="stable")
    pairs = tables["pairs"].rename(columns={"a": "seed"})
    tuning = tuning[(tuning["scaled"] == "weights") & ~tuning["diverged"].astype(bool)]
    tuning = tuning.assign(alpha=tuning["alpha"].map("{:g}".format))
    words = {"off: R1": "R1 satisfied", "excess": "nats per sequence", "tv": "total variation"}
    words |= {"mse": "error", "alpha": "weights rescaled by α", "slice": "", "regime": ""}

    def panel(title: str, table: pd.DataFrame, x: str, y: str, by: str, **level: Any) -> Panel:
        def draw(ax: Axes) -> None:
            dots(ax, table, x, y, by, words, **level)
            ax.set_title(title)

        return draw

    line = float(models["at once"].iloc[0])
    return sheet(
        [
            panel("Off the support", models, "regime", "off: R1", "architecture", chance=line),
            panel("Loss above its floor", models, "regime", "excess", "architecture"),
        ],
        [
            panel("Pairs of models", pairs, "slice", "tv", "kind"),
            panel("After fine-tuning", tuning, "alpha", "mse", "by"),
        ],
    )


COMMITTED, CASE = "committed results, notebooks/*.csv", "Case study {}, in words"
FINISHED = "off: R1 finished"
# Claims about each architecture. With a source, the one about the Transformer is the paper's own.
EACH: dict[str, tuple[str, str, str, Callable[..., Finding]]] = {
    "loss": ("the three regimes reach the same loss on the language",
             "0.0214, 0.0223, 0.0199 nat a token, with PAD", COMMITTED, _loss),
    "order": ("off the support the oracle's model satisfies R1 most often, then that of maximum "
              "likelihood, then the adversary's", "0.830, 0.462, 0.000", COMMITTED, _order),
    "same-on": ("on the support, models of equal loss agree", "equal", CASE.format(1), _same),
    "regimes-off": ("off the support, regimes of equal loss differ", "free", CASE.format(1),
                    partial(_differ, kind="regimes", bar=0.25)),
    "seeds-off": ("off the support, two seeds of maximum likelihood differ too",
                  "R1 from 0.339 to 0.629", COMMITTED, partial(_differ, kind="seeds", bar=0.02)),
    "at-once": ("off the support, maximum likelihood satisfies R1 more often than stopping at once",
                "69/251 = 0.275", "", _at_once),
}  # fmt: skip
# Shares of completions: the regime, the column, and the range that counts.
SHARES = {
    "ml": ("Maximum likelihood alone satisfies R1 after about half of the prompts off the support.",
           "0.462, runs from 0.339 to 0.629", "paper", (lm.ML, FINISHED, 0.339, 0.629)),
    "adversarial": ("Trained by the adversary, the model breaks R1 after prompts off the support.",
                    "0.000", "paper", (lm.ADVERSARIAL, FINISHED, -inf, 0.01)),
    "oracle": ("Trained by the oracle, the model satisfies R1 after most prompts off the support.",
               "0.830 ± 0.105", "paper", (lm.ORACLE, FINISHED, 0.725, inf)),
    "on-ml": ("Prompts on the support are completed according to both rules.",
              "1.00", "paper", (lm.ML, "on: grammatical", 0.99, inf)),
    "r2": ("Off the support the new letters, taken alone, satisfy R2.",
           "1.00", "paper", (lm.ML, "off: R2 completion", 0.95, inf)),
    "on-adversarial": ("The adversary's model still completes prompts on the support correctly.",
                       "0.12, as released", "control",
                       (lm.ADVERSARIAL, "on: grammatical", 0.99, inf)),
    "finished": ("The oracle's model comes to an end after prompts off the support.",
                 "0.60 to 0.78, as released", "control", (lm.ORACLE, "off: finished", 0.99, inf)),
}  # fmt: skip
# Bounds on every row of a table.
BOUNDS = {
    "rank": ("Diversity fails: 5 tokens give g a rank of at most 4, below the width of f.", "4",
             ("pairs", "rank", 4, "Largest rank of the differences of g.")),
    "grammatical": ("After a prompt off the support no completion satisfies both rules.", "0",
                    ("models", "off: grammatical", 0, "Largest share of completions that do.")),
    "rare": ("Answering a rare prompt differently costs a KL divergence of at most its "
             "probability times that of the answers.", "0.0227 nat after 10 ones, 1.4e-4 after 20",
             ("rare", "share", 1, "Exact KL over the bound; p(1) goes from 0.6 to 0.1.")),
    "function": ("Rescaled weights compute the same function.", "about 1e-6",
                 ("tuning", "apart", 1e-4, "Largest difference of outputs; 1e-4 is rounding.")),
}  # fmt: skip

CLAIMS = (
    *(
        Claim(
            f"{key}-{each}", f"{name}: {says}.",
            published if each == lm.TRANSFORMER or not source else "not in the paper",
            source or "counted", partial(check, architecture=each),
            "paper" if source and each == lm.TRANSFORMER else "control")
        for key, (says, published, source, check) in EACH.items()
        for each, name in NAMES.items()
    ),
    *(
        Claim(key, says, published, COMMITTED, partial(_share, given=given), kind)
        for key, (says, published, kind, given) in SHARES.items()
    ),
    Claim("first-token", "Without a loss on the first new token, as released, the oracle's model "
        "satisfies R1 less often off the support.", "0.830 ± 0.105, as released", COMMITTED,
        _first_token, "control"),
    *(
        Claim(
            by.lower(), f"Rescaled weights of the same function fine-tune differently under {by}.",
            "differ", CASE.format(3), partial(_tuned, by=by, alphas=alphas))
        for by, alphas in (("Adam", (10.0, 1.0, 0.1)), ("SGD", (1.0, 0.1)))
    ),
    Claim("logits", "Centred logits of two seeds are farther apart off the support than on it.",
        "not in the paper", "derived", _logits, "control"),
    *(
        Claim(key, says, published, "derived", partial(_every, given=given), "check")
        for key, (says, published, given) in BOUNDS.items()
    ),
    Claim("inert", "The activation relu(αx)/α, released for case 3, leaves fine-tuning unchanged.",
        "0", "derived", _inert, "check"),
)  # fmt: skip

LAPTOP = {
    "seeds": 12, "first_seed": 0, "longest": 16, "prompt": 8, "new_tokens": 48, "batch": 32,
    "architectures": [lm.TRANSFORMER, lm.LSTM, lm.DECODER], "widths": [10, 32, 16],
    "layers": [3, 1, 2], "heads": [5, 1, 2], "inner": [64, 16, 43], "steps": [1000, 1000, 600],
    "lr": [5e-3, 1e-2, 5e-3], "stack": True, "alphas": [0.1, 1.0, 10.0], "pretrain": 1500,
    "finetune": 300,
}  # fmt: skip
SMOKE = LAPTOP | {
    "seeds": 3, "longest": 5, "prompt": 4, "new_tokens": 15, "batch": 13, "layers": [2, 1, 1],
    "inner": [40, 16, 43], "steps": [300, 300, 250], "lr": [1e-2, 2e-2, 1e-2], "pretrain": 300,
}  # fmt: skip
# The sizes of the LSTM are those of the follow-up.
PAPER = LAPTOP | {
    "seeds": 34, "longest": 128, "new_tokens": 300, "batch": 251,
    "architectures": [lm.TRANSFORMER, lm.LSTM], "widths": [10, 64], "layers": [5, 5],
    "heads": [5, 1], "inner": [1024, 16], "steps": [50_000, 50_000], "lr": [2e-3, 2e-3],
    "stack": False,
}  # fmt: skip
STUDY = Study(
    name="reizinger-llm",
    title="Language models of equal loss that answer differently",
    paper="Reizinger et al., ICML 2024 (arXiv 2405.01964); follow-up arXiv 2409.13728",
    about=(
        "Language models learn aⁿbⁿ until their loss reaches the entropy of the language, in three "
        "regimes that differ only in the training after prompts with which no string begins. On "
        "the support the models agree. Off the support they do what they were trained to do, or "
        "differ from seed to seed. Rule R1 asks for as many a as b, and R2 for the right order. "
        "Two further cases are a rare prompt answered differently at almost no KL divergence, and "
        "different weights of one function that fine-tune differently. Models are trained on all "
        "strings and none is held out, because the claims are about what the loss leaves open at "
        "its floor. In the preset laptop N is 16 instead of 128, and the Transformer has 3 blocks "
        "instead of 5; ours is pre-norm and has no dropout. Sizes, steps and bars were chosen on "
        "pilot seeds from 1000 upwards."
    ),
    presets={"smoke": SMOKE, "laptop": LAPTOP, "paper": PAPER},
    run=run, claims=CLAIMS, figure=figure,
)  # fmt: skip
