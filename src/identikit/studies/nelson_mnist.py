"""The warm-up of Nelson et al.: the nearer a decoder is to an isometry, the more alike are seeds.

Autoencoders of orthogonal layers, three in the encoder and three in the decoder, with a LeakyReLU
of leak α. Every singular value of the decoder's Jacobian lies from α³ to 1, so that it is
(1+L)-bi-Lipschitz with 1+L = α⁻³: α = 1 is a linear isometry, and the smaller α, the further from
one it may be. Theorem 1: encoders that lead to the same output are the same up to a rigid map and
ε ≤ c √(2L+L²) Δ, with the latents' diameter Δ and a constant c that nobody knows. So this is a law
of how errors scale, to be tested by their order, and no bound to hold a number against.

Seeds are compared for each α by the distance that the best rigid map leaves, over the diameter, on
images that neither the networks nor the map have seen. L is taken from α, and measured: from the
singular values on these images, with the scale removed.

On MNIST if the data folder has an mnist.npz, else on scikit-learn's digits.
"""

from __future__ import annotations

from functools import partial
from itertools import chain, combinations, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from identikit.alignment import near_identifiability
from identikit.errors import InputError
from identikit.inference import jackknife_interval
from identikit.report._drawing import BELOW, sheet
from identikit.report._style import PALETTE
from identikit.studies._data import Need
from identikit.studies._store import Record
from identikit.studies._study import (
    INCONCLUSIVE,
    NOT,
    REPRODUCED,
    Claim,
    Finding,
    Interval,
    Settings,
    Study,
    Tables,
    judge,
    mean_interval,
    per_seed,
)
from identikit.studies._work import Work

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CONTAINS = "x_train and x_test (n, 28, 28) uint8"
MNIST = Need("mnist.npz", CONTAINS, optional=True)
LAYERS = 3
STAGES = ("untrained", "early", "trained")
#: A rank correlation from which on a law is said to predict the order of errors.
PREDICTS = 0.5
#: Unexplained variance from which on a reconstruction counts as imperfect.
IMPERFECT = 0.05
BOUND, MEASURED = "law_bound", "law_measured"
Images = NDArray[np.float32]


def images(path: Path | None) -> tuple[Images, Images]:
    """Rows of pixels from 0 to 1, to learn from and to compare on.

    Parameters
    ----------
    path : Path or None
        Of MNIST; without it scikit-learn's digits, of which every third is not learned from.
    """
    if path is None:
        from sklearn.datasets import load_digits

        pixels = load_digits().data / 16
        test = np.arange(len(pixels)) % 3 == 2
        parts = [pixels[~test], pixels[test]]
    else:
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
                parts = [archive[name] for name in ("x_train", "x_test")]
        except (KeyError, ValueError, OSError, EOFError, BadZipFile) as error:
            raise InputError(
                f"{path} is damaged or of another kind ({error}); expected {CONTAINS}"
            ) from error
        shapes = [f"{part.dtype} {part.shape}" for part in parts]
        if any(part.dtype != np.uint8 or part.shape[1:] != (28, 28) for part in parts):
            raise InputError(f"{path} has {' and '.join(shapes)}; expected {CONTAINS}")
        parts = [part.reshape(len(part), -1) / 255 for part in parts]
    train, test = (part.astype(np.float32) for part in parts)
    return train, test


def law(L: Any) -> Any:
    """√(2L+L²), with which the error of the best rigid map scales."""
    return np.sqrt(2 * L + L**2)


def learn(alpha: float, folder: str, path: Path | None, settings: Settings) -> Record:
    """The autoencoders of one α: a unit of work.

    Parameters
    ----------
    alpha : float
        The leak.
    folder : str
        For checkpoints.
    path : Path or None
        As for `images`.
    settings : Settings
        Of the study.

    Returns
    -------
    Record
        A row a seed and stage; latents of the test images, (seeds, images, D), by stage.
    """
    import torch

    from identikit.learn import bilipschitz, shuffled, train
    from identikit.studies._pairs import orthogonal_autoencoder, reconstruction, unexplained

    s, (known, unseen) = settings, (torch.from_numpy(part) for part in images(path))
    unseen = unseen[: s.test]
    steps = dict(zip(STAGES, (0, s.steps // 10, s.steps)))
    run = train(
        partial(orthogonal_autoencoder, [known.shape[1], *s.widths], alpha), reconstruction,
        shuffled((known,), s.batch), s.steps, seeds=range(s.seeds), lr=s.lr,
        snapshots=steps.values(), folder=folder,
    )  # fmt: skip
    rows, latents = [], {}
    for stage, step in steps.items():
        latents[stage] = np.stack(list(run.embed(unseen, step).values()))
        for seed, own in zip(run.seeds, latents[stage]):
            net = run.net(seed, step)
            found = bilipschitz(net.g, own)
            row = {"alpha": alpha, "stage": stage, "seed": seed}
            row |= {"unexplained": unexplained(net, unseen)}
            row |= {"sigma_max": found.largest, "sigma_min": found.smallest}
            row |= {"one_plus_L_bound": alpha**-LAYERS, "one_plus_L_measured": 1 + found.L}
            row |= {BOUND: law(alpha**-LAYERS - 1), MEASURED: found.root_law}
            rows.append(row)
    return Record(rows, latents)


def compare(alpha: float, learned: Record) -> Record:
    """All pairs of seeds of one α, at every stage: a unit of work.

    Parameters
    ----------
    alpha : float
        The leak.
    learned : Record
        Of `learn`.

    Returns
    -------
    Record
        A row a pair and stage: distances after the best rigid map over the diameter (mean, median,
        95 % quantile, largest; each the mean of both directions), the mean after the best affine
        map, and with shuffled rows; the larger L's laws and the mean unexplained variance.
    """
    rows = []
    for stage, latents in learned.arrays.items():
        models = {row["seed"]: row for row in learned.rows if row["stage"] == stage}
        for a, b in combinations(models, 2):
            near = near_identifiability(latents[a], latents[b], draws=1)
            both = [way for way in near.directions if way.coordinates == "raw"]
            rigid = [way.error("rigid") for way in both]
            row: dict[str, Any] = {"alpha": alpha, "stage": stage, "a": a, "b": b}
            for column in ("mean", "median", "q95", "largest"):
                row[column] = np.mean([getattr(error, column) for error in rigid])
            row["affine"] = np.mean([way.error("affine").mean for way in both])
            row["shuffled"] = np.mean([error.chance for error in rigid])
            for column in (BOUND, MEASURED):
                row[column] = max(models[seed][column] for seed in (a, b))
            row["unexplained"] = np.mean([models[seed]["unexplained"] for seed in (a, b)])
            rows.append(row)
    return Record(rows)


def run(work: Work) -> Tables:
    """Train and compare the autoencoders of every α."""
    s = work.settings
    if s.seeds < 2 or len(set(s.alphas)) < 2 or not all(0 < alpha <= 1 for alpha in s.alphas):
        raise InputError(
            f"seeds is {s.seeds} and alphas is {s.alphas}; give two seeds or more, and two leaks "
            "or more that are above 0 and 1 at most"
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
            f"({CONTAINS}), or take the preset laptop, which does with scikit-learn's digits"
        )
    name = "digits" if path is None else "mnist"
    key = f"models,{name},alpha={{0}}"
    items = [(alpha, str(work.folder_of(key.format(alpha)))) for alpha in s.alphas]
    learned = work.each(key, learn, items, processes=True, path=path, settings=s)
    records = list(zip(s.alphas, learned))
    compared = work.each(f"pairs,{name},alpha={{0}}", compare, records, processes=True)
    models, pairs = (
        pd.DataFrame(list(chain.from_iterable(record.rows for record in each)))
        for each in (learned, compared)
    )
    return {"summary": summary(pairs), "pairs": pairs, "models": models}


def summary(pairs: pd.DataFrame) -> pd.DataFrame:
    """By α: errors of trained pairs with their interval over seeds, baselines, and both laws.

    Parameters
    ----------
    pairs : DataFrame
        Of `compare`.
    """
    rows = []
    for alpha, own in pairs.groupby("alpha"):
        trained, early, before = (own[own["stage"] == stage] for stage in STAGES[::-1])
        mean, interval = mean_interval(per_seed(trained, "mean"))
        low, high = interval or (None, None)
        row: dict[str, Any] = {"alpha": alpha, "mean": mean, "low": low, "high": high}
        columns = ["median", "q95", "largest", "affine", BOUND, MEASURED, "unexplained"]
        row |= {column: trained[column].mean() for column in columns}
        row |= {"early": early["mean"].mean(), "untrained": before["mean"].mean()}
        rows.append(row | {"shuffled": trained["shuffled"].mean()})
    return pd.DataFrame(rows)


def at_stage(tables: Tables, stage: str) -> pd.DataFrame:
    """The pairs of one stage."""
    pairs = tables["pairs"]
    return pairs[pairs["stage"] == stage]


def rank_correlation(pairs: pd.DataFrame, column: str) -> tuple[float, Interval | None]:
    """Spearman's, of a column and the mean error, over all pairs of all α, with its interval.

    The jackknife is over seeds, each left out at every α with all its pairs; it needs four, for of
    three only one pair would be left, and ranks of so few do not vary.

    Parameters
    ----------
    pairs : DataFrame
        Of one stage.
    column : str
        A law.
    """

    def of(some: pd.DataFrame) -> float:
        return float(some[column].rank().corr(some["mean"].rank()))

    seeds = np.union1d(pairs["a"], pairs["b"])
    value = of(pairs)
    if len(seeds) < 4:
        return value, None
    rest = [of(pairs[(pairs["a"] != seed) & (pairs["b"] != seed)]) for seed in seeds]
    low, high = jackknife_interval(value, np.array(rest), floor=-1.0)
    return value, (low, min(high, 1.0))


def _predicts(pairs: pd.DataFrame, column: str, comment: str) -> Finding:
    value, interval = rank_correlation(pairs, column)
    comment = (
        f"Rank correlation of √(2L+L²) and the error, over {len(pairs)} pairs; {PREDICTS} or more "
        f"counts. {comment}"
    )
    if not np.isfinite(value):
        return Finding(None, None, INCONCLUSIVE, comment)
    if interval is None or not np.isfinite(interval).all():
        return Finding(value, None, INCONCLUSIVE, comment)
    low, high = interval
    verdict = REPRODUCED if low >= PREDICTS else NOT if high < PREDICTS else INCONCLUSIVE
    return Finding(value, interval, verdict, comment)


def _by_bound(tables: Tables) -> Finding:
    comment = "With L from α this says no more than that the error falls with α."
    return _predicts(at_stage(tables, "trained"), BOUND, comment)


def _by_jacobian(tables: Tables) -> Finding:
    table = tables["summary"]
    within = rank_within(at_stage(tables, "trained"))
    least = table.sort_values(MEASURED)["mean"].iloc[0]
    comment = (
        f"√(2L+L²) is {table[MEASURED].min():.2g} to {table[MEASURED].max():.2g} as measured, up "
        f"to {table[BOUND].max():.2g} by the bound. Among pairs of one α the correlation is "
        f"{within:.2f}. Where it is least the error is still {least:.4f}, which training leaves."
    )
    return _predicts(at_stage(tables, "trained"), MEASURED, comment)


def rank_within(pairs: pd.DataFrame) -> float:
    """Mean over α of the rank correlation of the measured law and the error among its pairs."""
    own = [of[MEASURED].rank().corr(of["mean"].rank()) for _, of in pairs.groupby("alpha")]
    return float(np.nanmean(own)) if np.isfinite(own).any() else float("nan")


def _imperfect(tables: Tables) -> Finding:
    pairs = at_stage(tables, "trained")
    worse = pairs[pairs["unexplained"] >= pairs["unexplained"].median()]
    least = pairs["unexplained"].min()
    comment = (
        "L measured; the half of the pairs that reconstruct worse, with "
        f"{worse['unexplained'].min():.0%} to {worse['unexplained'].max():.0%} of the variance "
        "unexplained."
    )
    if least < IMPERFECT:
        comment += f" Some explain all but {least:.1%}: reconstruction is not imperfect enough."
        return Finding(None, None, INCONCLUSIVE, comment)
    return _predicts(worse, MEASURED, comment)


def _early(tables: Tables) -> Finding:
    pairs = at_stage(tables, "early")
    comment = (
        f"L measured; after a tenth of the steps, with {pairs['unexplained'].mean():.0%} of the "
        "variance unexplained. Seeds do not yet have the same output, which the theorem asks for."
    )
    return _predicts(pairs, MEASURED, comment)


def _by_pair(tables: Tables, stage: str = "trained") -> pd.DataFrame:
    """The mean error, a row a pair of seeds, a column an α."""
    return at_stage(tables, stage).pivot(index=["a", "b"], columns="alpha", values="mean")


def _slope(tables: Tables) -> Finding:
    table, own = _by_pair(tables), at_stage(tables, "trained")
    alphas = table.columns.to_numpy()
    x = alphas - alphas.mean()
    slopes = pd.DataFrame({"slope": table.to_numpy() @ x / (x @ x)}, table.index)
    means = ", ".join(f"{mean:.4f} at {alpha:g}" for alpha, mean in table.mean().items())
    comment = (
        "Change of the mean distance, over the diameter, from α = 0 to 1, by least squares; below "
        f"0 counts. Means over pairs: {means}; with rows shuffled {own['shuffled'].mean():.2f}. "
        f"Over all α a rigid map leaves {own['mean'].mean():.4f}, an affine one "
        f"{own['affine'].mean():.4f}."
    )
    return judge(per_seed(slopes.reset_index(), "slope"), high=0.0, comment=comment)


def _every_step(tables: Tables) -> Finding:
    table = _by_pair(tables)
    means = table.mean()
    alpha, more = min(pairwise(means.index), key=lambda ends: means[ends[0]] - means[ends[1]])
    falls = pd.DataFrame({"fall": table[alpha] - table[more]}).reset_index()
    comment = f"The smallest fall from one α to the next, {alpha:g} to {more:g}; above 0 counts."
    return judge(per_seed(falls, "fall"), low=0.0, comment=comment)


def _in_range(tables: Tables) -> Finding:
    models = tables["models"]
    ratio = models["sigma_max"] / models["sigma_min"] * models["alpha"] ** LAYERS
    below = models[models["stage"] == "trained"]
    comment = (
        "The largest σ_max/σ_min over α⁻³ of all networks, trained or not; 1 or less counts, but "
        f"for rounding. Trained, 1+L is {below['one_plus_L_measured'].max():.2g} at most with the "
        f"scale removed: far nearer an isometry than {below['one_plus_L_bound'].max():.2g}."
    )
    largest = float(ratio.max())
    return Finding(largest, None, REPRODUCED if largest <= 1 + 1e-4 else NOT, comment)


def _training(tables: Tables) -> Finding:
    ratio = _by_pair(tables) / _by_pair(tables, "untrained")
    worst = ratio.mean().idxmax()
    own = ratio[[worst]].set_axis(["ratio"], axis=1).reset_index()
    comment = (
        f"Error of trained over that of untrained networks, at the α where it is largest, "
        f"{worst:g}; below 1 counts. Orthogonal layers alone make seeds alike to "
        f"{at_stage(tables, 'untrained')['mean'].mean():.2f}, shuffled rows to "
        f"{at_stage(tables, 'untrained')['shuffled'].mean():.2f}."
    )
    return judge(per_seed(own, "ratio"), high=1.0, comment=comment)


def figure(tables: Tables, _settings: Settings) -> Figure:
    """The error against α with its baselines, against both laws, and the reconstruction."""
    pairs = at_stage(tables, "trained")
    return sheet(
        [
            partial(_against_alpha, table=tables["summary"]),
            partial(_against_law, pairs=pairs, column=BOUND, title="By the bound 1+L = α⁻³"),
        ],
        [
            partial(_against_law, pairs=pairs, column=MEASURED, title="By L on the images"),
            partial(_reconstruction, tables=tables),
        ],
    )


def _against_alpha(ax: Axes, table: pd.DataFrame) -> None:
    ax.set_title("Error after the best rigid map")
    ax.set_yscale("log")
    ax.yaxis.set_major_formatter("{x:g}")
    reach = (table["high"] - table["low"]).astype(float).fillna(0.0) / 2
    # An interval that reaches below 0 would leave a logarithmic axis.
    down = np.minimum(reach, 0.9 * table["mean"])
    ax.errorbar(
        table["alpha"], table["mean"], [down, reach], color=PALETTE["accent"], lw=1.6,
        elinewidth=0.8, capsize=2, marker="o", ms=3, label="mean (95 % over seeds)",
    )  # fmt: skip
    for column, name, colour, dash in (
        ("q95", "95 % quantile", "accent", (0, (4, 2))),
        ("largest", "largest", "accent", (0, (1, 1))),
        ("untrained", "untrained, mean", "second", "-"),
        ("shuffled", "rows shuffled, mean", "muted", "-"),
    ):
        ax.plot(table["alpha"], table[column], color=PALETTE[colour], ls=dash, lw=1.2, label=name)
    ax.set_xlabel("leak α (1: linear)")
    ax.set_ylabel("distance / diameter")
    ax.legend(**BELOW)


def _against_law(ax: Axes, pairs: pd.DataFrame, column: str, title: str) -> None:
    ax.set_title(title)
    x, y = pairs[column].to_numpy(), pairs["mean"].to_numpy()
    c = float(x @ y / (x @ x))
    line = 1.05 * x.max() * np.linspace(0, 1, 200) ** 3
    ax.scatter(x, y, s=9, c=PALETTE["accent"], alpha=0.7, lw=0, label="pair of seeds")
    ax.plot(
        line, c * line, color=PALETTE["muted"], lw=1, ls=(0, (4, 2)),
        label=f"{c:.2g} √(2L+L²), fitted: a scaling law, no bound",
    )  # fmt: skip
    if column == BOUND:
        # From 0 on, over three orders of magnitude.
        ax.set_xscale("symlog", linthresh=1)
        ax.set_xticks([0, 1, 10, 100, 1000], ["0", "1", "10", "100", "1000"])
    ax.set_xlim(0, line[-1])
    ax.set_ylim(0, 1.1 * y.max())
    ax.set_xlabel("√(2L+L²)")
    ax.set_ylabel("mean distance / diameter")
    ax.legend(**BELOW | {"ncols": 1})


def _reconstruction(ax: Axes, tables: Tables) -> None:
    ax.set_title("Reconstruction")
    for stage, colour, dash in (("trained", "accent", "-"), ("early", "second", (0, (4, 2)))):
        models = tables["models"][tables["models"]["stage"] == stage]
        own = models.groupby("alpha")["unexplained"]
        name = {"early": "after a tenth of the steps"}.get(stage, stage)
        ax.errorbar(
            own.mean().index, own.mean(), own.std(), color=PALETTE[colour], ls=dash, lw=1.5,
            capsize=2, label=f"{name} (± sd over seeds)",
        )  # fmt: skip
    ax.set_ylim(bottom=0)
    ax.set_xlabel("leak α (1: linear)")
    ax.set_ylabel("share of variance unexplained")
    ax.legend(**BELOW | {"ncols": 1})


# fmt: off
# Ten latents, for the digits' spectrum falls after the tenth: the best linear code is unique.
COMMON = {
    "widths": [48, 32, 10], "batch": 128, "lr": 3e-3, "test": 2000, "needs_mnist": False,
}
PRESETS = {
    "smoke": COMMON | {"seeds": 4, "alphas": [0.1, 0.4, 1.0], "steps": 500},
    "laptop": COMMON | {
        "seeds": 6, "alphas": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0], "steps": 2500,
    },
    # Three layers and MNIST are the paper's; widths, seeds and steps are not known.
    "paper": COMMON | {
        "seeds": 10, "alphas": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0], "steps": 20_000,
        "widths": [256, 64, 10], "test": 10_000, "needs_mnist": True,
    },
}

NO_NUMBER, WARM_UP = "in a figure, no number given", "the warm-up on MNIST"
CLAIMS = (
    Claim("falls", "The error after rigid alignment falls as the leak α rises.",
          NO_NUMBER, WARM_UP, _slope),
    Claim("every-step", "It falls from every α to the next.", NO_NUMBER, WARM_UP, _every_step),
    Claim("bound", "√(2L+L²) predicts the error, with L from the bound 1+L = α⁻³.",
          NO_NUMBER, f"{WARM_UP}, Theorem 1", _by_bound),
    Claim("measured", "So it does with L from the decoder's Jacobian on the images.",
          "not known whether the paper does this", "Theorem 1", _by_jacobian),
    Claim("imperfect", "It predicts the error even where reconstruction is imperfect.",
          NO_NUMBER, WARM_UP, _imperfect),
    Claim("early", "It does so, too, where training was stopped early.",
          "not in the paper", "beyond Theorem 1", _early),
    Claim("isometry", "The decoder's bi-Lipschitz constant is at most α⁻³.",
          "at most 1", WARM_UP, _in_range),
    Claim("training", "Training, and not only orthogonal layers, makes seeds alike.",
          "not in the paper", "a control", _training),
)
# fmt: on

STUDY = Study(
    name="nelson-mnist",
    title="Orthogonal autoencoders: errors scale with the decoder's distortion",
    paper="Nelson et al., ICLR 2026 (arXiv 2603.11970), the warm-up on MNIST and Theorem 1",
    about=(
        "Autoencoders of orthogonal layers with LeakyReLU, several seeds for each leak α. The "
        "nearer α is to 1, the nearer the decoder is to an isometry, and the more alike, up to a "
        "rigid map, should the latents of two seeds be; the theorem has the error scale like "
        "√(2L+L²), with an unknown constant. On MNIST if the data folder has mnist.npz, else on "
        "scikit-learn's digits. Errors are mean distances over the diameter, on images and rows "
        "that nothing was fitted on; intervals are over seeds."
    ),
    presets=PRESETS,
    needs=(MNIST,),
    run=run,
    claims=CLAIMS,
    figure=figure,
)
