"""The warm-up of Nelson et al.: the nearer a decoder is to an isometry, the more alike seeds are.

Autoencoders have three orthogonal layers on each side and a LeakyReLU with leak α, so the decoder
is (1+L)-bi-Lipschitz with 1+L = α⁻³. By Theorem 1, encoders that lead to the same output agree up
to a rigid map and an error ε ≤ c √(2L+L²) Δ, where Δ is the diameter of the latents and c is
unknown. So the theorem says how errors scale, which can be tested by their order; it gives no bound
to compare a number with. L is computed from α, and from the singular values measured on test
images, with the scale removed.

If α varies, everything that depends on α varies with L. So L is also varied at one α: decoders have
a LeakyReLU after none, one, two or all three of their layers, which makes 1+L at most α⁻ᵏ. There
√(2L+L²) has to predict the error without the help of α.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from math import inf
from typing import Any

import numpy as np
import pandas as pd

from identikit.errors import InputError
from identikit.inference import jackknife_interval
from identikit.report.drawing import BELOW, sheet
from identikit.report.style import PALETTE
from identikit.studies import _checks as check
from identikit.studies._columns import where
from identikit.studies._figures import DASHED, Axes, Figure, curve
from identikit.studies._mnist_units import BOUND, LAYERS, MEASURED, MNIST, compare, summary, teach
from identikit.studies._seed_pairs import lines
from identikit.studies._study import (
    Claim,
    Finding,
    Interval,
    Settings,
    Study,
    Tables,
    control,
    per_seed,
)
from identikit.studies._work import Work, rows_of

#: The rank correlation from which a law counts as predicting the order of errors.
PREDICTS = 0.5
#: The unexplained variance from which a reconstruction counts as imperfect.
IMPERFECT = 0.05


def run(work: Work) -> Tables:
    """Train and compare the autoencoders of every α, and with fewer leaky layers at one α."""
    s = work.settings
    if s.seeds < 2 or len(set(s.alphas)) < 2 or not all(0 < alpha <= 1 for alpha in s.alphas):
        raise InputError(
            f"seeds is {s.seeds} and alphas is {s.alphas}; give two seeds or more, and two leaks "
            "or more that are above 0 and at most 1"
        )
    if s.fixed not in s.alphas or not set(s.leaky) <= set(range(LAYERS)):
        raise InputError(
            f"fixed is {s.fixed} and leaky is {s.leaky}; give one of the leaks {s.alphas}, and "
            f"numbers of leaky layers from 0 to {LAYERS - 1}"
        )
    if len(s.widths) != LAYERS:
        raise InputError(
            f"widths is {s.widths}; give {LAYERS}, one for each layer of the encoder, the last of "
            "them that of the latents"
        )
    path = work.data.find(MNIST)
    if path is None and s.needs_mnist:
        raise InputError(
            f"this preset learns from MNIST: give a folder that has {MNIST.file} with --data DIR "
            f"({MNIST.contains}), or use the preset laptop, which can use scikit-learn's digits"
        )
    name = "digits" if path is None else "mnist"
    kinds = [*((alpha, LAYERS) for alpha in s.alphas), *((s.fixed, few) for few in s.leaky)]
    key = f"models,{name},alpha={{0}},leaky={{1}}"
    learned = work.each(key, teach, kinds, processes=True, checkpoints=True, path=path, settings=s)
    records = [(*kind, record) for kind, record in zip(kinds, learned)]
    key = f"pairs,{name},alpha={{0}},leaky={{1}}"
    pairs = rows_of(work.each(key, compare, records, processes=True))
    return {"summary": summary(pairs), "pairs": pairs, "models": rows_of(learned)}


# What the claims are checked on.


def at_stage(tables: Tables, stage: str = "trained") -> pd.DataFrame:
    """The pairs of one stage whose layers are all leaky."""
    return where(tables["pairs"], stage=stage, leaky=LAYERS)


def of_one_leak(tables: Tables) -> pd.DataFrame:
    """The trained pairs of the leak at which decoders have fewer leaky layers, too."""
    pairs = where(tables["pairs"], stage="trained")
    return where(pairs, alpha=tuple(pairs.loc[pairs["leaky"] < LAYERS, "alpha"].unique()))


def by_pair(tables: Tables, stage: str = "trained") -> pd.DataFrame:
    """The mean error, with one row per pair of seeds and one column per α."""
    return at_stage(tables, stage).pivot(index=["a", "b"], columns="alpha", values="mean")


def seeds_of(values: pd.Series[float]) -> list[float]:
    """One value per seed, from one value per pair of seeds."""
    return per_seed(values.rename("value").reset_index(), "value")


def slope(tables: Tables) -> Finding:
    """Check that the error falls with α over its whole range."""
    table, own = by_pair(tables), at_stage(tables)
    alphas = table.columns.to_numpy()
    x = alphas - alphas.mean()
    means = ", ".join(f"{mean:.4f} at {alpha:g}" for alpha, mean in table.mean().items())
    comment = (
        "Change of the mean distance, over the diameter, from α = 0 to 1, by least squares; below "
        f"0 counts. Means over pairs: {means}; with rows shuffled {own['shuffled'].mean():.2f}."
    )
    slopes = pd.Series(table.to_numpy() @ x / (x @ x), table.index)
    return check.below(seeds_of(slopes), 0.0, comment)


def every_step(tables: Tables) -> Finding:
    """Check for every α that the error falls to the next one, and return the worst finding."""
    table = by_pair(tables)
    found = []
    for alpha, more in pairwise(table.columns):
        comment = (
            f"Fall of the error from one α to the next; above 0 counts. The worst of "
            f"{len(table.columns) - 1} steps is {alpha:g} to {more:g}."
        )
        found.append(check.above(seeds_of(table[alpha] - table[more]), check.POSITIVE, comment))
    return check.worst(found)


def training(tables: Tables) -> Finding:
    """Check the ratio of the errors of trained and untrained networks, where it is largest."""
    ratio, before = by_pair(tables) / by_pair(tables, "untrained"), at_stage(tables, "untrained")
    worst = ratio.mean().idxmax()
    comment = (
        "Error of trained over that of untrained networks, at the α where it is largest, "
        f"{worst:g}; below 1 counts. Orthogonal layers alone make seeds alike to "
        f"{before['mean'].mean():.2f}, shuffled rows to {before['shuffled'].mean():.2f}."
    )
    return check.below(seeds_of(ratio[worst]), 1.0, comment)


def in_range(tables: Tables) -> Finding:
    """Check the spread of the decoder's singular values against the bound from the leak."""
    models = tables["models"]
    ratio = models["sigma_max"] / models["sigma_min"] * models["alpha"] ** models["leaky"]
    below = models[models["stage"] == "trained"]
    comment = (
        "The largest σ_max/σ_min over its bound (α⁻³ if all layers are leaky) of all networks, "
        "trained or not; 1 or less holds, but "
        f"for rounding. Trained, 1+L is {below['one_plus_L_measured'].max():.2g} at most with the "
        f"scale removed: far nearer an isometry than {below['one_plus_L_bound'].max():.2g}."
    )
    return check.holds(ratio, 1 + 1e-4, comment)


def rank_correlation(
    pairs: pd.DataFrame, column: str, by: str | None = None
) -> tuple[float, Interval | None]:
    """Spearman's correlation of a column with the mean error over pairs, with its interval.

    With `by`, it is the mean of the correlations among the pairs with one value of that column. The
    jackknife over seeds, each left out with all its pairs, needs at least four: without one of
    three only one pair of each kind would remain.
    """

    def of(some: pd.DataFrame) -> float:
        if by is not None:
            return float(np.mean([rank(own) for _, own in some.groupby(by)]))
        return rank(some)

    def rank(some: pd.DataFrame) -> float:
        return float(some[column].rank().corr(some["mean"].rank()))

    seeds, value = np.union1d(pairs["a"], pairs["b"]), of(pairs)
    if len(seeds) < 4:
        return value, None
    rest = [of(pairs[(pairs["a"] != seed) & (pairs["b"] != seed)]) for seed in seeds]
    low, high = jackknife_interval(value, np.array(rest), floor=-1.0)
    return value, (low, min(high, 1.0))


LAW = "Rank correlation of √(2L+L²) and the error"


def predicts(
    column: str, says: str, of: Callable[[Tables], pd.DataFrame] = at_stage, worse: bool = False
) -> Callable[[Tables], Finding]:
    """Check a law's rank correlation with the error, over all pairs or the worse-fitting half."""

    def over(tables: Tables) -> Finding:
        pairs = of(tables)
        if pairs.empty:
            return check.unmeasured("Needs decoders with fewer leaky layers.")
        least = pairs["unexplained"].min()
        if worse:
            pairs = pairs[pairs["unexplained"] >= pairs["unexplained"].median()]
        comment = says.format(**facts(pairs))
        if worse and least < IMPERFECT:
            comment += f" Some explain all but {least:.1%}: reconstruction is not imperfect enough."
            return check.undecided(comment)
        comment = f"{LAW}, over {len(pairs)} pairs; {PREDICTS} or more counts. {comment}"
        return check.by_interval(*rank_correlation(pairs, column), PREDICTS, inf, comment)

    return over


def facts(pairs: pd.DataFrame) -> dict[str, Any]:
    """Numbers for the comments: both laws and the error by kind, and the reconstruction."""
    means = pairs.groupby(["alpha", "leaky"])[[MEASURED, BOUND, "mean"]].mean()
    leaky = means.index.get_level_values("leaky")
    kinds = "; ".join(
        f"{law:.2f} and {error:.4f} with {count}"
        for count, law, error in zip(leaky, means[MEASURED], means["mean"])
    )
    return {
        "low": means[MEASURED].min(), "high": means[MEASURED].max(), "bound": means[BOUND].max(),
        "least": means.sort_values(MEASURED)["mean"].iloc[0], "kinds": kinds,
        "alpha": pairs["alpha"].min(), "left_low": pairs["unexplained"].min(),
        "left_high": pairs["unexplained"].max(),
    }  # fmt: skip


def beyond_leak(tables: Tables) -> Finding:
    """Check that among networks of one α, whose L differ by chance, L does not predict the error.

    Linear networks (α = 1) are left out, because their L is 0.
    """
    pairs = at_stage(tables)
    pairs = pairs[pairs["alpha"] < 1]
    spread = pairs.groupby("alpha")[MEASURED].agg(lambda own: own.max() / own.min()).max()
    comment = (
        f"{LAW} among pairs of one α, mean over {pairs['alpha'].nunique()} α below 1; from "
        f"−{PREDICTS} to {PREDICTS} counts. Within an α, √(2L+L²) differs by a factor of "
        f"{spread:.2g} at most."
    )
    return check.by_interval(
        *rank_correlation(pairs, MEASURED, "alpha"), -PREDICTS, PREDICTS, comment
    )


def figure(tables: Tables, _settings: Settings) -> Figure:
    """The error against α with its baselines, and against both laws, also at one α."""
    shown = (
        ("trained", "mean", "mean"), ("trained", "q95", "95 % quantile"),
        ("trained", "largest", "largest"), ("untrained", "mean", "untrained, mean"),
        ("trained", "shuffled", "rows shuffled, mean"),
    )  # fmt: skip
    errors = pd.concat(
        [lines(at_stage(tables, stage), "alpha", {column: name}) for stage, column, name in shown]
    )
    words = {"alpha": "leak α (1: linear)", "value": "distance / diameter"}
    pairs, fixed = at_stage(tables), of_one_leak(tables)
    law = partial(_against_law, pairs=pairs)
    one = partial(_against_law, pairs=fixed, column=MEASURED, title="At one α, by leaky layers")
    return sheet(
        [
            partial(_logarithmic, table=errors, x="alpha", y="value", by="line", labels=words),
            partial(law, column=BOUND, title="By the bound 1+L = α⁻³"),
        ],
        [partial(law, column=MEASURED, title="By L on the images"), *([one] if len(fixed) else [])],
    )


def _logarithmic(ax: Axes, **options: Any) -> None:
    ax.set_yscale("log")
    ax.yaxis.set_major_formatter("{x:g}")
    curve(ax, **options)


def _against_law(ax: Axes, pairs: pd.DataFrame, column: str, title: str) -> None:
    ax.set_title(title)
    x, y = pairs[column].to_numpy(), pairs["mean"].to_numpy()
    c = float(x @ y / (x @ x))
    line = 1.05 * x.max() * np.linspace(0, 1, 200) ** 3
    ax.scatter(x, y, s=9, c=PALETTE["accent"], alpha=0.7, lw=0, label="pair of seeds",
               rasterized=True)  # fmt: skip
    name = f"{c:.2g} √(2L+L²), fitted: a scaling law, no bound"
    ax.plot(line, c * line, color=PALETTE["muted"], lw=1, ls=DASHED, label=name)
    if column == BOUND:
        # From 0 on, over three orders of magnitude.
        ax.set_xscale("symlog", linthresh=1)
        ax.set_xticks([0, 1, 10, 100, 1000], ["0", "1", "10", "100", "1000"])
    ax.set_xlim(0, line[-1])
    ax.set_ylim(0, 1.1 * y.max())
    ax.set_xlabel("√(2L+L²)")
    ax.set_ylabel("mean distance / diameter")
    ax.legend(**BELOW | {"ncols": 1})


NO_NUMBER = "in a figure, no number known"
WARM_UP = "the warm-up on MNIST, known second hand"
CLAIMS = (
    Claim("falls", "The error after rigid alignment falls as the leak α rises.",
        NO_NUMBER, WARM_UP, slope),
    Claim("every-step", "The error after rigid alignment falls from every α to the next.",
        NO_NUMBER, WARM_UP, every_step),
    Claim("bound", "√(2L+L²) predicts the error, with L from the bound 1+L = α⁻³.",
        NO_NUMBER, f"{WARM_UP}; Theorem 1", predicts(BOUND, "With L from α this says no more than "
        "that the error falls with α.")),
    Claim("imperfect", "√(2L+L²), with L from the bound, predicts the error even where "
        "reconstruction is imperfect.", NO_NUMBER, WARM_UP, predicts(BOUND, "The half of the pairs "
        "that reconstruct worse, with {left_low:.0%} to {left_high:.0%} of the variance "
        "unexplained.", worse=True)),
    control("measured", "√(2L+L²) predicts the error, with L from the decoder's Jacobian on the "
        "images.", check=predicts(MEASURED, "√(2L+L²) is {low:.2g} to {high:.2g} as measured, up "
        "to {bound:.2g} by the bound. Where it is least the error is {least:.4f}.")),
    control("beyond-leak", "Among networks that differ only in their seed, √(2L+L²) predicts "
        "nothing: it says no more than α does.", check=beyond_leak),
    control("one-leak", "At one α, √(2L+L²) predicts the error of networks whose decoders have "
        "none to three leaky layers.", check=predicts(MEASURED, "L measured, at α = {alpha:g}; "
        "√(2L+L²) and the error by the number of leaky layers: {kinds}.", of_one_leak)),
    control("training", "Training, and not only orthogonal layers, makes seeds alike.",
        check=training),
    Claim("isometry", "The decoder's bi-Lipschitz constant is at most α⁻³.",
        "a bound", "by derivation", in_range, "check"),
)  # fmt: skip
# Ten latents, because the digits' spectrum drops after the tenth: the best linear code is unique.
LAPTOP: dict[str, Any] = {
    "widths": [48, 32, 10], "batch": 128, "lr": 0.01, "test": 2000, "needs_mnist": False,
    "seeds": 60, "alphas": [0.1, 0.3, 0.5, 0.75, 1.0], "steps": 1500, "fixed": 0.3,
    "leaky": [0, 1, 2],
}  # fmt: skip
SMOKE = LAPTOP | {"seeds": 4, "alphas": [0.1, 0.3, 1.0], "steps": 500, "leaky": [0]}
# Three layers and MNIST are the paper's; widths, seeds and steps are not known.
PAPER = LAPTOP | {
    "seeds": 10, "steps": 20_000, "widths": [256, 64, 10], "test": 10_000, "needs_mnist": True,
    "alphas": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0],
}  # fmt: skip
STUDY = Study(
    name="nelson-mnist",
    title="Orthogonal autoencoders: errors scale with the decoder's distortion",
    paper="Nelson et al., ICLR 2026 (arXiv 2603.11970), the warm-up on MNIST and Theorem 1",
    about=(
        "Autoencoders with orthogonal layers and LeakyReLU are trained from several seeds for each "
        "leak α. The nearer α is to 1, the nearer the decoder is to an isometry, and the more "
        "alike the latents of two seeds should be, up to a rigid map. By the theorem the error "
        "scales like √(2L+L²), with an unknown constant. Since all that depends on α varies with "
        "L, decoders of one α with fewer leaky layers test the law at a fixed leak. "
        "The data are MNIST if the data folder has mnist.npz, and scikit-learn's digits otherwise. "
        "Errors are mean distances divided by the diameter (the 95 % quantile of distances between "
        "rows), on images and rows that were not used for any fit; intervals are over seeds. The "
        "grid of α, the steps and the falling learning rate were set after pilots on seeds from "
        "1000 on, in which biases that start above 0 did not change L enough to test the law. A "
        "run of twelve seeds left two claims open (every step, and the law at one leak), so sixty "
        "were run, with the same settings; all sixty count, the first twelve among them."
    ),
    presets={"smoke": SMOKE, "laptop": LAPTOP, "paper": PAPER},
    run=run, claims=CLAIMS, figure=figure, needs=(MNIST,),
)  # fmt: skip
