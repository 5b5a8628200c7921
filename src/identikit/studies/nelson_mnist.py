"""The warm-up of Nelson et al.: the nearer a decoder is to an isometry, the more alike seeds are.

Autoencoders have three orthogonal layers on each side and a LeakyReLU with leak α, so the decoder
is (1+L)-bi-Lipschitz with 1+L = α⁻³. By Theorem 1, encoders that lead to the same output agree up
to a rigid map and an error ε ≤ c √(2L+L²) Δ, where Δ is the diameter of the latents and c is
unknown. So the theorem says how errors scale, which can be tested by their order; it gives no bound
to compare a number with. L is computed from α, and from the singular values measured on test
images, with the scale removed.
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
from identikit.studies._study import Claim, Finding, Interval, Settings, Study, Tables, per_seed
from identikit.studies._work import Work, rows_of

#: The rank correlation from which a law counts as predicting the order of errors.
PREDICTS = 0.5
#: The unexplained variance from which a reconstruction counts as imperfect.
IMPERFECT = 0.05


def run(work: Work) -> Tables:
    """Train and compare the autoencoders of every α."""
    s = work.settings
    if s.seeds < 2 or len(set(s.alphas)) < 2 or not all(0 < alpha <= 1 for alpha in s.alphas):
        raise InputError(
            f"seeds is {s.seeds} and alphas is {s.alphas}; give two seeds or more, and two leaks "
            "or more that are above 0 and at most 1"
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
    key = f"models,{name},alpha={{0}}"
    learned = work.each(
        key, teach, s.alphas, processes=True, checkpoints=True, path=path, settings=s
    )
    records = list(zip(s.alphas, learned))
    compared = work.each(f"pairs,{name},alpha={{0}}", compare, records, processes=True)
    models, pairs = rows_of(learned), rows_of(compared)
    return {"summary": summary(pairs), "pairs": pairs, "models": models}


# What the claims are checked on.


def at_stage(tables: Tables, stage: str = "trained") -> pd.DataFrame:
    """The pairs of one stage."""
    return where(tables["pairs"], stage=stage)


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
        f"0 counts. Means over pairs: {means}; with rows shuffled {own['shuffled'].mean():.2f}. "
        f"Over all α a rigid map leaves {own['mean'].mean():.4f}, an affine one "
        f"{own['affine'].mean():.4f}."
    )
    slopes = pd.Series(table.to_numpy() @ x / (x @ x), table.index)
    return check.below(seeds_of(slopes), 0.0, comment)


def every_step(tables: Tables) -> Finding:
    """Check that even the smallest fall of the error from one α to the next is a fall."""
    table = by_pair(tables)
    means = table.mean()
    alpha, more = min(pairwise(means.index), key=lambda ends: means[ends[0]] - means[ends[1]])
    comment = f"The smallest fall from one α to the next, {alpha:g} to {more:g}; above 0 counts."
    return check.above(seeds_of(table[alpha] - table[more]), 0.0, comment)


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
    ratio = models["sigma_max"] / models["sigma_min"] * models["alpha"] ** LAYERS
    below = models[models["stage"] == "trained"]
    comment = (
        "The largest σ_max/σ_min over α⁻³ of all networks, trained or not; 1 or less counts, but "
        f"for rounding. Trained, 1+L is {below['one_plus_L_measured'].max():.2g} at most with the "
        f"scale removed: far nearer an isometry than {below['one_plus_L_bound'].max():.2g}."
    )
    return check.holds(ratio, 1 + 1e-4, comment)


def rank_correlation(pairs: pd.DataFrame, column: str) -> tuple[float, Interval | None]:
    """Spearman's correlation of a column with the mean error over all pairs, with its interval.

    The jackknife over seeds, each left out with all its pairs, needs at least four: without one of
    three only one pair per α would remain.
    """

    def of(some: pd.DataFrame) -> float:
        return float(some[column].rank().corr(some["mean"].rank()))

    seeds, value = np.union1d(pairs["a"], pairs["b"]), of(pairs)
    if len(seeds) < 4:
        return value, None
    rest = [of(pairs[(pairs["a"] != seed) & (pairs["b"] != seed)]) for seed in seeds]
    low, high = jackknife_interval(value, np.array(rest), floor=-1.0)
    return value, (low, min(high, 1.0))


def predicts(
    column: str, says: str, stage: str = "trained", worse: bool = False
) -> Callable[[Tables], Finding]:
    """Check a law's rank correlation with the error, over all pairs or the worse-fitting half."""

    def over(tables: Tables) -> Finding:
        pairs = at_stage(tables, stage)
        least = pairs["unexplained"].min()
        if worse:
            pairs = pairs[pairs["unexplained"] >= pairs["unexplained"].median()]
        comment = says.format(**facts(pairs))
        if worse and least < IMPERFECT:
            comment += f" Some explain all but {least:.1%}: reconstruction is not imperfect enough."
            return check.undecided(comment)
        comment = (
            f"Rank correlation of √(2L+L²) and the error, over {len(pairs)} pairs; {PREDICTS} or "
            f"more counts. {comment}"
        )
        return check.by_interval(*rank_correlation(pairs, column), PREDICTS, inf, comment)

    return over


def facts(pairs: pd.DataFrame) -> dict[str, Any]:
    """Numbers for the comments: both laws by α, the pairs of one α, and the reconstruction."""
    groups = pairs.groupby("alpha")
    within = [own[MEASURED].rank().corr(own["mean"].rank()) for _, own in groups]
    means = groups[[MEASURED, BOUND, "mean"]].mean()
    return {
        "low": means[MEASURED].min(), "high": means[MEASURED].max(),
        "bound": means[BOUND].max(), "least": means.sort_values(MEASURED)["mean"].iloc[0],
        "within": np.nanmean(within) if np.isfinite(within).any() else np.nan,
        "left": pairs["unexplained"].mean(), "left_low": pairs["unexplained"].min(),
        "left_high": pairs["unexplained"].max(),
    }  # fmt: skip


def figure(tables: Tables, _settings: Settings) -> Figure:
    """The error against α with its baselines, against both laws, and the reconstruction."""
    shown = (
        ("trained", "mean", "mean"), ("trained", "q95", "95 % quantile"),
        ("trained", "largest", "largest"), ("untrained", "mean", "untrained, mean"),
        ("trained", "shuffled", "rows shuffled, mean"),
    )  # fmt: skip
    errors = pd.concat(
        [lines(at_stage(tables, stage), "alpha", {column: name}) for stage, column, name in shown]
    )
    models = tables["models"][tables["models"]["stage"] != "untrained"]
    words = {"alpha": "leak α (1: linear)", "value": "distance / diameter"}
    words |= {"early": "after a tenth of the steps", "unexplained": "share of variance unexplained"}
    against: dict[str, Any] = {"x": "alpha", "labels": words}
    pairs = at_stage(tables)
    return sheet(
        [
            partial(_logarithmic, table=errors, y="value", by="line", **against),
            partial(_against_law, pairs=pairs, column=BOUND, title="By the bound 1+L = α⁻³"),
        ],
        [
            partial(_against_law, pairs=pairs, column=MEASURED, title="By L on the images"),
            partial(curve, table=models, y="unexplained", by="stage", **against),
        ],
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
    ax.scatter(x, y, s=9, c=PALETTE["accent"], alpha=0.7, lw=0, label="pair of seeds")
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


NO_NUMBER, WARM_UP = "in a figure, no number given", "the warm-up on MNIST"
CLAIMS = (
    Claim("falls", "The error after rigid alignment falls as the leak α rises.",
        NO_NUMBER, WARM_UP, slope),
    Claim("every-step", "The error after rigid alignment falls from every α to the next.",
        NO_NUMBER, WARM_UP, every_step),
    Claim("bound", "√(2L+L²) predicts the error, with L from the bound 1+L = α⁻³.",
        NO_NUMBER, f"{WARM_UP}, Theorem 1", predicts(BOUND, "With L from α this says no more than "
        "that the error falls with α.")),
    Claim("measured", "√(2L+L²) predicts the error, with L from the decoder's Jacobian on the "
        "images.", "not known whether the paper does this", "Theorem 1", predicts(MEASURED,
        "√(2L+L²) is {low:.2g} to {high:.2g} as measured, up to {bound:.2g} by the bound. Among "
        "pairs of one α the correlation is {within:.2f}. Where it is least the error is still "
        "{least:.4f}, which training leaves.")),
    Claim("imperfect", "√(2L+L²) predicts the error even where reconstruction is imperfect.",
        NO_NUMBER, WARM_UP, predicts(MEASURED, "L measured; the half of the pairs that reconstruct "
        "worse, with {left_low:.0%} to {left_high:.0%} of the variance unexplained.", worse=True)),
    Claim("early", "√(2L+L²) also predicts the error if training is stopped early.",
        "not in the paper", "beyond Theorem 1", predicts(MEASURED, "L measured; after a tenth of "
        "the steps, with {left:.0%} of the variance unexplained. Seeds do not yet have the same "
        "output, which the theorem assumes.", "early"), "control"),
    Claim("isometry", "The decoder's bi-Lipschitz constant is at most α⁻³.",
        "at most 1", WARM_UP, in_range, "check"),
    Claim("training", "Training, and not only orthogonal layers, makes seeds alike.",
        "not in the paper", "a control", training, "control"),
)  # fmt: skip
# Ten latents, because the digits' spectrum drops after the tenth: the best linear code is unique.
LAPTOP: dict[str, Any] = {
    "widths": [48, 32, 10], "batch": 128, "lr": 3e-3, "test": 2000, "needs_mnist": False,
    "seeds": 6, "alphas": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0], "steps": 2500,
}  # fmt: skip
SMOKE = LAPTOP | {"seeds": 4, "alphas": [0.1, 0.4, 1.0], "steps": 500}
# Three layers and MNIST are the paper's; widths, seeds and steps are not known.
PAPER = LAPTOP | {
    "seeds": 10, "steps": 20_000, "widths": [256, 64, 10], "test": 10_000, "needs_mnist": True,
}  # fmt: skip
STUDY = Study(
    name="nelson-mnist",
    title="Orthogonal autoencoders: errors scale with the decoder's distortion",
    paper="Nelson et al., ICLR 2026 (arXiv 2603.11970), the warm-up on MNIST and Theorem 1",
    about=(
        "Autoencoders with orthogonal layers and LeakyReLU are trained from several seeds for each "
        "leak α. The nearer α is to 1, the nearer the decoder is to an isometry, and the more "
        "alike the latents of two seeds should be, up to a rigid map. By the theorem the error "
        "scales like √(2L+L²), with an unknown constant. The data are MNIST if the data folder has "
        "mnist.npz, and scikit-learn's digits otherwise. Errors are mean distances divided by the "
        "diameter, on images and rows that were not used for any fit; intervals are over seeds."
    ),
    presets={"smoke": SMOKE, "laptop": LAPTOP, "paper": PAPER},
    run=run, claims=CLAIMS, figure=figure, needs=(MNIST,),
)  # fmt: skip
