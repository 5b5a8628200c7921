"""Figure 1 of Roeder et al.: word embeddings of two trainings overlap after a linear map.

The log-bilinear language model of Mnih and Teh predicts a word from the two words before it and the
two after it, p(w|h) ∝ exp(q̂(h)ᵀ q_w + b_w) with q̂(h) = Σ_i c_i ⊙ r_{w_i}. The figure shows target
embeddings q_w (g, not f). The released notebook minimises negative sampling. At the optimum of each
objective, scores are log p(w|h) up to what depends on w only, which the bias takes up.

The theorem is about two models of one distribution, and one pass over a text at a constant rate
ends at a different distribution from every seed. So the full softmax is also minimised to an
optimum, by L-BFGS on the counts of a small vocabulary: of the word after one word (bigrams, where f
is a table), and of the paper's windows. There are several optima, and two trainings share one if
their losses agree. A small L2 penalty leaves a single one where logits are linear in f's tables:
half the squared norms of f and g are at best the nuclear norm of their product, so a convex problem
is left, if M is above its rank. So windows with a penalty have a table for every position, not
tables with weights c_i, of which the problem is not convex.

The notebook fits X₁W ≈ X₂ and then draws X₂W beside X₁, which is right only if W² is the identity.
Here the map goes from the first to the second in the fit and in the figure, after centring, because
adding a constant to g changes no probability; `r2_notebook` is the score in the notebook's way.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from identikit._linalg import Array
from identikit.alignment import align
from identikit.errors import InputError
from identikit.inference import jackknife_interval
from identikit.report.drawing import BELOW, beside, dots, sheet
from identikit.report.style import PALETTE
from identikit.studies import _checks as check
from identikit.studies._columns import Check, where
from identikit.studies._data import TEXT, Need
from identikit.studies._figures import LOOKS, Axes, Figure
from identikit.studies._seed_pairs import TOLERANCE
from identikit.studies._study import Claim, Finding, Settings, Study, Tables, control, per_seed
from identikit.studies._word_models import (
    OBJECTIVES,
    arms,
    compare,
    compare_optima,
    read,
    solve,
    teach,
)
from identikit.studies._work import Work, rows_of

NAMED, FREQUENT = 20, 500  # words that the figure labels, and frequent words to choose from
OVERLAP = 0.9  # the R² of the map that counts as one
SAME = 1e-5  # two trainings are at one optimum if their losses differ by no more, in nats
EQUAL = 0.99  # the R² that counts as one between two models of one distribution
FALL = -0.5  # the rank correlation of R² with the logit gap that counts as a fall


def run(work: Work) -> Tables:
    """Train every objective and arm from every seed; compare all pairs of seeds."""
    s = work.settings
    if s.seeds < 2:
        raise InputError(f"seeds is {s.seeds}; trainings are compared in pairs, so give 2 or more")
    if s.width < 2:
        raise InputError(f"width is {s.width}; the figure needs two dimensions or more")
    for name in s.objectives:
        if name not in OBJECTIVES:
            raise InputError(f"there is no objective {name!r}; there are {', '.join(OBJECTIVES)}")
    text = read(work.data, s)
    given = {"settings": s, "data": work.data}
    models = [(name, seed) for name in s.objectives for seed in range(s.seeds)]
    trained = work.each(
        "objective={0},seed={1}", teach, models, processes=True, checkpoints=True, **given
    )
    found = {model: record.arrays for model, record in zip(models, trained)}
    items = [(name, [found[name, seed] for seed in range(s.seeds)]) for name in s.objectives]
    compared = work.each(
        "pairs,objective={0}", compare, items, processes=True, groups=text.sentences
    )
    starts = [(name, seed) for name, arm in arms(s).items() for seed in range(arm.starts)]
    solved = work.each("arm={0},seed={1}", solve, starts, processes=True, checkpoints=True, **given)
    optima = rows_of(solved)
    by_arm = [
        (name, [r.arrays for r, (own, _) in zip(solved, starts) if own == name],
            where(optima, arm=name)["loss"].to_list())
        for name in s.arms
    ]  # fmt: skip
    pairs = rows_of(compared)
    drawn = [found[s.objectives[0], seed]["g"] for seed in (0, 1)]
    return {
        "summary": pairs.drop(columns=["a", "b"])
        .groupby("objective", sort=False)
        .mean()
        .reset_index(),
        "pairs": pairs,
        "trainings": rows_of(trained),
        "optima": optima,
        "optima_pairs": rows_of(work.each("pairs,arm={0}", compare_optima, by_arm, processes=True)),
        "words": placed(text.words, *drawn),
    }


def placed(words: list[str], first: Array, second: Array) -> pd.DataFrame:
    """The words, by frequency, in the first two axes of two trainings, and of the first mapped."""
    mapped = align(first, second).transform(first)
    centre = second.mean(axis=0)
    places = {"first": first - first.mean(axis=0), "second": second - centre}
    places["mapped"] = mapped - centre
    columns = {
        f"{name}_{'xy'[axis]}": at[:, axis] for name, at in places.items() for axis in (0, 1)
    }
    named = np.isin(np.arange(len(words)), apart(places["second"][:FREQUENT, :2], NAMED))
    return pd.DataFrame({"word": words, "named": named, **columns})


def apart(points: Array, count: int) -> list[int]:
    """Points far from each other: the one nearest the mean, then always the farthest from those."""
    gap = np.linalg.norm(points - points.mean(axis=0), axis=1)
    found = [int(gap.argmin())]
    nearest = np.full(len(points), np.inf)
    while len(found) < min(count, len(points)):
        nearest = np.minimum(nearest, np.linalg.norm(points - points[found[-1]], axis=1))
        found.append(int(nearest.argmax()))
    return found


# What the claims are checked on: the pairs of one objective or arm, one value per seed.


def overlap(objective: str) -> Check:
    """Check R² of the map of g."""

    def over(t: Tables) -> Finding:
        own = where(t["pairs"], objective=objective)
        if own.empty:
            return check.above([], OVERLAP, f"No training with {objective}.")
        means = own.mean(numeric_only=True)
        comment = (
            "R² of g in one training from g in the other by the best linear map, over held-out "
            f"words; {OVERLAP} or more counts. Pairs go from {own['r2'].min():.2f} to "
            f"{own['r2'].max():.2f} (the paper shows one pair of at least four trainings); the "
            f"notebook's direction gives {means['r2_notebook']:.2f}; mean CCA "
            f"{means['cca_g']:.2f}, untrained {means['cca_g_untrained']:.2f}, by chance "
            f"{means['cca_g_chance']:.2f}."
        )
        return check.above(per_seed(own, "r2"), OVERLAP, comment)

    return over


def trained_above(t: Tables) -> Finding:
    """Check how much training adds to CCA, where it adds the least."""
    gains = t["pairs"].assign(gain=t["pairs"]["cca_g_held_out"] - t["pairs"]["cca_g_untrained"])
    means = gains.groupby("objective")["gain"].mean()
    comment = (
        "Mean CCA of g, held out, minus that of the untrained pair, which is at chance; the "
        f"smallest of all {len(means)} objectives: {means.idxmin()}."
    )
    return check.above(per_seed(where(gains, objective=means.idxmin()), "gain"), 0.0, comment)


def premise(t: Tables) -> Finding:
    """Check whether one pass over the text ends at one distribution."""
    comment = (
        "Relative logit gap of the softmax trainings on held-out windows; "
        f"{TOLERANCE}, the tolerance of identikit models, or less counts."
    )
    return check.below(
        per_seed(where(t["pairs"], objective="softmax"), "logit_gap"), TOLERANCE, comment
    )


def at_optima(arm: str, column: str, test: Any, bar: float, words: str) -> Check:
    """Check a column over the pairs of an arm; without a penalty, of those whose losses agree."""

    def over(t: Tables) -> Finding:
        every, losses = where(t["optima_pairs"], arm=arm), where(t["optima"], arm=arm)["loss"]
        own = every if arm.endswith("_l2") else every[every["apart"] <= SAME]
        if own.empty:
            return check.unmeasured(f"No two of {len(losses)} trainings end at one optimum.")
        agree = "" if own is every else f" whose losses agree within {SAME:g} nats"
        more = "more" if test is check.above else "less"
        comment = (
            f"{words}, over {len(own)} of {len(every)} pairs{agree} "
            f"(from {own[column].min():.4g} to {own[column].max():.4g}); {bar:g} or {more} counts. "
            f"{(losses <= losses.min() + SAME).sum()} of {len(losses)} trainings reach the "
            f"lowest loss of all; the highest is {losses.max() - losses.min():.1g} above."
        )
        found: Finding = test(per_seed(own, column), bar, comment)
        return found

    return over


def falls_with_the_gap(arm: str) -> Check:
    """Check the rank correlation of R² with the logit gap, by jackknife over seeds."""

    def of(some: pd.DataFrame) -> float:
        return float(some["r2"].rank().corr(some["logit_gap"].rank()))

    def over(t: Tables) -> Finding:
        own = where(t["optima_pairs"], arm=arm)
        seeds = np.union1d(own["a"], own["b"])
        if len(seeds) < 4:
            return check.unmeasured("Fewer than four trainings.")
        rest = [of(own[(own["a"] != seed) & (own["b"] != seed)]) for seed in seeds]
        low, high = jackknife_interval(of(own), np.array(rest), floor=-1.0)
        means = own.groupby(own["logit_gap"] > own["logit_gap"].median())["r2"].mean().to_list()
        comment = (
            f"Spearman's correlation of R² with the relative logit gap over {len(own)} pairs, gaps "
            f"from {own['logit_gap'].min():.2g} to {own['logit_gap'].max():.2g}; {FALL} or less "
            f"counts. Mean R² of the nearer half {means[0]:.3f}, of the other {means[-1]:.3f}."
        )
        return check.by_interval(of(own), (low, min(high, 1.0)), -1.0, FALL, comment)

    return over


def figure(tables: Tables, settings: Settings) -> Figure:
    """The paper's panels, R² of every pair, and how R² and κ depend on the logit gap."""
    words, pairs, name = tables["words"], tables["pairs"], settings.objectives[0]
    drawn = where(pairs, objective=name).iloc[0]
    optima = tables["optima_pairs"]
    free = [arm for arm in settings.arms if not arms(settings)[arm].penalty]
    title = f"First training, {name.replace('_', ' ')}"
    every = pd.concat([pairs.assign(kind=pairs["objective"]), optima.assign(kind=optima["arm"])])
    against = partial(against_gap, pairs=where(optima, arm=tuple(free)))
    return sheet(
        [
            partial(plane, words=words, show="first", title=title),
            partial(plane, words=words, show="second", title="Second training"),
            partial(overlaid, words=words, title=f"First mapped on second: R² {drawn['r2']:.2f}"),
        ],
        [
            partial(strips, pairs=every),
            partial(against, column="r2", title="R² of the map of g, at optima"),
            partial(against, column="kappa", title="κ: is it the map of f?"),
        ],
    )


def strips(ax: Axes, pairs: pd.DataFrame) -> None:
    """R² of every pair, by objective and arm."""
    ax.set_title("R² of the map of g, every pair")
    kinds = list(dict.fromkeys(pairs["kind"]))
    for at, kind in enumerate(kinds):
        values = np.sort(where(pairs, kind=kind)["r2"].to_numpy(float))
        dots(ax, np.linspace(at - 0.3, at + 0.3, len(values)), values, "accent", 2.5)
    ax.set_xlim(-0.6, len(kinds) - 0.4)
    ax.autoscale(axis="y")
    names = [kind.replace("_", "\n") for kind in kinds]
    ax.set_xticks(range(len(kinds)), names, fontsize=6)


def against_gap(ax: Axes, pairs: pd.DataFrame, column: str, title: str) -> None:
    """A column against the logit gap, one dot per pair, by arm."""
    ax.set_title(title)
    for (arm, own), look in zip(pairs.groupby("arm", sort=False), LOOKS):
        dots(ax, own["logit_gap"].to_numpy(float), own[column].to_numpy(float), look[0], 2.5)
        ax.plot([], [], "o", ms=4, color=PALETTE[look[0]], label=str(arm))
    ax.set_xlabel("relative logit gap of the pair")
    ax.autoscale()
    ax.legend(**BELOW)


def plane(ax: Axes, words: pd.DataFrame, show: str, title: str) -> None:
    """Words in the plane of one training; some are labelled."""
    ax.set_title(title)
    ax.set_box_aspect(1)
    x, y = (words[f"{show}_{axis}"] for axis in "xy")
    reach = 1.1 * float(np.abs([x[words["named"]], y[words["named"]]]).max())
    ax.set_xlim(-reach, reach)
    ax.set_ylim(-reach, reach)
    ax.locator_params(nbins=5)
    dots(ax, x.to_numpy(), y.to_numpy(), "accent", 1.2, alpha=0.3)
    dots(ax, x[words["named"]].to_numpy(), y[words["named"]].to_numpy(), "accent", 4)
    for _, word in words[words["named"]].iterrows():
        place = word[f"{show}_x"], word[f"{show}_y"]
        ax.annotate(word["word"], place, (3, 3), textcoords="offset points", fontsize=6.5)


def overlaid(ax: Axes, words: pd.DataFrame, title: str) -> None:
    """Words of the second training, and where the map puts those of the first."""
    plane(ax, words, "second", title)
    x, y = (words[f"mapped_{axis}"].to_numpy() for axis in "xy")
    dots(ax, x, y, "second", 1.2, alpha=0.3)
    for _, word in words[words["named"]].iterrows():
        ends = [[word[f"{name}_{axis}"] for name in ("second", "mapped")] for axis in "xy"]
        ax.plot(*ends, color=PALETTE["second"], lw=0.8, marker="o", ms=3, markevery=[1])
    beside(ax, 0.95, "second", "accent", in_panel_parts=True)
    beside(ax, 0.87, "A first", "second", in_panel_parts=True)


MODELS = {"bigrams": "Bigram models", "windows": "The paper's models"}
LINEAR = MODELS | {"windows": "Models of windows with a table of words for every position,"}
R2 = ("r2", check.above, EQUAL, "R² of g from g by the best linear map, on held-out words")
KAPPA = ("kappa", check.below, TOLERANCE, "κ on held-out windows")
GAP = ("logit_gap", check.below, TOLERANCE, "Relative logit gap on held-out windows")
THEOREM = ("exact if the distributions are equal", "Theorem 1")
CLAIMS = (
    Claim("overlap", "After a linear map, the word embeddings of two trainings overlap (negative "
        "sampling).", "no number given", "Figure 1", overlap("negative_sampling")),
    Claim("overlap-softmax", "After a linear map, the word embeddings of two trainings with the "
        "full softmax, the case of the theorem, overlap.", "no number given",
        "Figure 1, Theorem 1", overlap("softmax")),
    Claim("overlap-nce", "After a linear map, the word embeddings of two trainings with "
        "noise-contrastive estimation overlap.", "no number given", "Figure 1, Appendix D.7",
        overlap("nce")),
    Claim("above-chance", "Training makes the embeddings more alike, for every objective.",
        "no number given", "Section 5", trained_above),
    *(Claim(f"theorem-{arm}", f"{model} that end at one optimum have the same word embeddings up "
        "to a linear map.", *THEOREM, at_optima(arm, *R2)) for arm, model in MODELS.items()),
    *(Claim(f"kappa-{arm}", f"{model} that end at one optimum have the map of g that the map of f "
        "implies (κ = 0).", *THEOREM, at_optima(arm, *KAPPA)) for arm, model in MODELS.items()),
    control("premise", "Two trainings as in the paper, one pass with the softmax, give the same "
        "distribution, which the theorem presupposes.", check=premise),
    *(control(f"dose-{arm}", f"{model} are the less alike, the further apart their distributions "
        "are.", check=falls_with_the_gap(arm)) for arm, model in MODELS.items()),
    *(control(f"penalised-{arm}", f"{model} in more dimensions and with an L2 penalty, which "
        "leaves one optimum, all have the same word embeddings up to a linear map.",
        check=at_optima(f"{arm}_l2", *R2)) for arm, model in LINEAR.items()),
    *(control(f"penalised-gap-{arm}", f"{model} in more dimensions and with an L2 penalty all "
        "give the same distribution.", check=at_optima(f"{arm}_l2", *GAP))
        for arm, model in LINEAR.items()),
)  # fmt: skip
# Fewer and larger steps than the paper's, on a text that is read about once. The notebook does not
# fix the optimiser (Adam here) or the noise (unigram here).
LAPTOP = {
    "objectives": list(OBJECTIVES), "side": 2, "noise": 25, "diagonal": True, "seeds": 10,
    "corpus": "enwik8", "max_words": 1_000_000, "vocabulary": 500, "width": 2, "batch": 512,
    "steps": 800, "lr": 0.01, "rows": 2000,
    "arms": ["bigrams", "windows", "bigrams_l2", "windows_l2"], "arm_words": 500_000,
    "arm_vocabulary": [200, 50, 200, 50], "arm_width": [2, 2, 24, 12],
    "arm_penalty": [0.0, 0.0, 0.001, 0.001], "arm_starts": [20, 18, 10, 10],
    "arm_steps": [500, 400, 400, 300],
}  # fmt: skip
SMOKE = LAPTOP | {
    "seeds": 3, "max_words": 60_000, "vocabulary": 400, "batch": 256, "steps": 300, "lr": 0.02,
    "rows": 1000, "arm_words": 60_000, "arm_vocabulary": [60, 40, 60, 40],
    "arm_width": [2, 2, 8, 8], "arm_starts": [8, 4, 3, 3], "arm_steps": [200, 60, 200, 100],
}  # fmt: skip
# Vocabulary: the notebook has about 8000 sub-words.
PAPER = LAPTOP | {
    "corpus": "lm1b", "max_words": 100_000_000, "vocabulary": 8000, "batch": 200, "steps": 50_000,
    "lr": 0.003, "arm_words": 3_000_000, "arm_vocabulary": [1000, 200, 1000, 200],
    "arm_width": [2, 2, 48, 24], "arm_steps": [2000, 2000, 2000, 2000],
}  # fmt: skip
STUDY = Study(
    name="roeder-words",
    title="Word embeddings of two trainings, mapped on each other",
    paper="Roeder, Metz and Kingma, ICML 2021, Figure 1",
    about=(
        "A log-bilinear language model is trained several times on one text, and its word "
        "embeddings are compared: are those of two trainings the same up to a linear map? The "
        "paper shows twenty words of one pair in the plane. Here R² on held-out words is measured "
        "for all pairs, with three objectives, as the paper trains: one pass over the text. The "
        "theorem presupposes that both trainings give the same distribution, and after one pass "
        "they do not. So the softmax is also minimised to an optimum on a small vocabulary, by "
        "L-BFGS. There are many optima, and few trainings reach the best: pairs that share one, "
        "the best or not, are judged by the theorem, the others show how agreement falls as "
        "distributions differ. A penalty leaves one optimum. It also fixes the map up to a "
        "rotation, so it says less about the theorem than about the premise. Chosen on other "
        "seeds: vocabularies, penalty and steps, for speed; widths with a penalty, so that M is "
        "above the rank; a table for every position there, since with weights optima differed."
    ),
    presets={"smoke": SMOKE, "laptop": LAPTOP, "paper": PAPER},
    run=run, claims=CLAIMS, figure=figure, needs=(Need("text", "a folder of real text", TEXT),),
)  # fmt: skip
