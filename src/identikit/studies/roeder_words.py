"""Figure 1 of Roeder et al.: word embeddings of two trainings overlap after a linear map.

The log-bilinear language model of Mnih and Teh predicts a word from the two words before it and the
two after it, p(w|h) ∝ exp(q̂(h)ᵀ q_w + b_w) with q̂(h) = Σ_i c_i ⊙ r_{w_i}. The figure shows target
embeddings q_w (g, not f) of two trainings in two dimensions. Here all pairs of several trainings
are compared, over all words, in two and more dimensions, with three objectives: the full softmax,
noise-contrastive estimation, and negative sampling, which is what the released notebook minimises.
At the optimum of each, scores are log p(w|h) up to what depends on w only, which the bias takes up.

The notebook fits X₁W ≈ X₂ and then draws X₂W beside X₁, which is right only if W² is the identity.
Here the map goes from the first to the second in the fit and in the figure. It is the least-squares
map after centring, as a constant in g changes no probability, and it is scored on words that had no
part in the fit; `r2_notebook` is what the notebook's direction would give.
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache, partial
from itertools import chain, combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from identikit._linalg import Array
from identikit.alignment import align, ladder
from identikit.errors import InputError
from identikit.family import SoftmaxModel, distances, gauge
from identikit.inference import cca_chance, held_out_cca
from identikit.moments import accumulate
from identikit.report._drawing import BELOW, beside, dots, sheet
from identikit.report._style import PALETTE
from identikit.similarity import cca
from identikit.studies._data import TEXT, Data, Need
from identikit.studies._store import Record
from identikit.studies._study import (
    Claim,
    Finding,
    Settings,
    Study,
    Tables,
    judge,
    per_seed,
)
from identikit.studies._work import Work

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from torch import Tensor

    from identikit.learn import Batches, SoftmaxNet

Ints = NDArray[np.int64]

OBJECTIVES = ("negative_sampling", "softmax", "nce")
# One sentence in so many is held out.
HELD_OUT = 20
# Words that the figure names, out of so many of the most frequent ones.
NAMED, FREQUENT = 20, 500
FOLDS = 5
COLOURS = dict(zip(OBJECTIVES, ("accent", "second", "ink")))


class Corpus(NamedTuple):
    """Words by frequency, and windows (n, 2 side + 1) of word numbers, the target in the middle.

    A word outside the vocabulary has the number after the last; it is never a target. `counts` are
    of the targets in `train`, `sentences` says which one each window of `test` is from.
    """

    words: list[str]
    counts: Ints
    train: Ints
    test: Ints
    sentences: Ints


def windows(sentences: list[list[str]], vocabulary: int, side: int, rows: int) -> Corpus:
    """All windows of the sentences; of one sentence in twenty, a sample for testing.

    Parameters
    ----------
    sentences : list of lists of str
        Words; a window lies within a sentence.
    vocabulary : int
        How many words to keep, the most frequent ones.
    side : int
        Words of a context on each side of the target.
    rows : int
        Windows for testing, at most.
    """
    frequent = Counter(chain.from_iterable(sentences)).most_common(vocabulary)
    number = {word: place for place, (word, _) in enumerate(frequent)}
    found: dict[bool, list[Ints]] = {False: [], True: []}
    for place, sentence in enumerate(sentences):
        if len(sentence) > 2 * side:
            coded = np.array([number.get(word, len(number)) for word in sentence])
            some = np.lib.stride_tricks.sliding_window_view(coded, 2 * side + 1)
            some = np.insert(some[some[:, side] < len(number)], 0, place, axis=1)
            found[place % HELD_OUT == HELD_OUT - 1].append(some)
    if not all(sum(map(len, part)) for part in found.values()):
        raise InputError(
            f"of {len(sentences)} sentences too few have the {2 * side + 1} words of a window; "
            "give a longer text with --data"
        )
    train, test = (np.concatenate(found[held_out]) for held_out in (False, True))
    test = np.random.default_rng(0).permutation(test)[:rows]
    counts = np.bincount(train[:, 1 + side], minlength=len(number))
    return Corpus(list(number), counts, train[:, 1:], test[:, 1:], test[:, 0])


@lru_cache(maxsize=1)
def _read(data: Data, prefer: str, most: int, vocabulary: int, side: int, rows: int) -> Corpus:
    return windows(data.words(prefer, most), vocabulary, side, rows)


def read(data: Data, s: Settings) -> Corpus:
    """The windows that the settings ask for; a process reads them once."""
    return _read(data, s.corpus, s.max_words, s.vocabulary, s.side, s.rows)


def build(start: Array, width: int, context: int, diagonal: bool) -> SoftmaxNet:
    """The model, initialised as in the notebook: tiny context vectors, small g and bias.

    Parameters
    ----------
    start : array (words,)
        Added to the bias.
    width, context : int
        Dimensions; words of a context.
    diagonal : bool
        Weights c_i, as in the notebook; otherwise matrices C_i, as in Appendix D.7.
    """
    import torch

    from identikit.learn import LogBilinear, Lookup, SoftmaxNet

    words = len(start)
    f = LogBilinear(words + 1, width, context, diagonal)
    net = SoftmaxNet(f, Lookup(words, width), bias=words)
    for name, parameter in net.named_parameters():
        reach = 0.001 if name.startswith("f.") else 0.05
        torch.nn.init.uniform_(parameter, -reach, reach)
    assert net.bias is not None
    net.bias.data += torch.from_numpy(start).float()
    return net


def task(name: str, text: Corpus, s: Settings) -> tuple[Any, Batches]:
    """An objective, and the batches that it learns from; noise words are unigram.

    Parameters
    ----------
    name : str
        One of `OBJECTIVES`.
    text : Corpus
        What is learned.
    s : Settings
        `side`, `batch` and `noise`.
    """
    import torch

    from identikit.learn import nce, negative_sampling, nplm, shuffled

    context = torch.from_numpy(np.delete(text.train, s.side, axis=1))
    word = torch.from_numpy(text.train[:, s.side].copy())

    def with_noise(batch: tuple[Tensor, ...], generator: torch.Generator) -> tuple[Tensor, ...]:
        # Targets of other windows: each word as often as the text has it.
        places = torch.randint(len(word), (len(batch[1]), s.noise), generator=generator)
        return (*batch, word[places])

    if name == "softmax":
        return nplm, shuffled((context, word), s.batch)
    noisy = shuffled((context, word), s.batch, with_noise)
    if name == "nce":
        return partial(nce, log_noise=torch.from_numpy(log_unigram(text)).float()), noisy
    return negative_sampling, noisy


def log_unigram(text: Corpus) -> Array:
    """log p of every word; of one that is never a target, as if it were so once."""
    counts = np.maximum(text.counts, 1)
    logs: Array = np.log(counts / counts.sum())
    return logs


def learn(
    objective: str, width: int, seed: int, folder: Path, settings: Settings, data: Data
) -> Record:
    """One training: the model on held-out windows, before and after. A unit of work.

    Parameters
    ----------
    objective : str
        One of `OBJECTIVES`.
    width, seed : int
        Dimensions; of the initialisation, and of the order of the windows.
    folder : Path
        For checkpoints.
    settings : Settings
        Of the study.
    data : Data
        The text.
    """
    import torch

    from identikit.learn import train

    s, text = settings, read(data, settings)
    loss, batches = task(objective, text, s)
    unigram = log_unigram(text)
    # Scores of NCE are log-probabilities; from a bias of zero it would learn the words' frequencies
    # and little else.
    start = unigram if objective == "nce" else np.zeros_like(unigram)
    made = partial(build, start, width, 2 * s.side, s.diagonal)
    run = train(made, loss, batches, s.steps, seeds=[seed], lr=s.lr, snapshots=[0], folder=folder)
    context = torch.from_numpy(np.delete(text.test, s.side, axis=1))
    before, after = (run.model(seed, context, step=step) for step in (0, s.steps))
    assert after.bias is not None
    # Scores of negative sampling estimate log p(w|h) − log p(w).
    bias = after.bias + (unigram if objective == "negative_sampling" else 0.0)
    every = SoftmaxModel(after.f, after.g, bias).log_prob()
    nll = -float(every[np.arange(len(every)), text.test[:, s.side]].mean())
    row = {"objective": objective, "width": width, "seed": seed, "nll": nll}
    arrays = {"f": after.f, "g": after.g, "bias": bias, "f_before": before.f, "g_before": before.g}
    return Record([row], arrays)


def compare(objective: str, width: int, models: list[dict[str, Array]], groups: Ints) -> Record:
    """All pairs of trainings with one objective and width: a unit of work.

    Parameters
    ----------
    objective : str
        One of `OBJECTIVES`.
    width : int
        Dimensions.
    models : list of dicts of arrays
        What `learn` gave for each seed.
    groups : array of int
        The sentence of each held-out window.
    """
    rows = []
    for a, b in combinations(range(len(models)), 2):
        pair = models[a], models[b]
        row: dict[str, Any] = {"objective": objective, "width": width, "a": a, "b": b}
        row |= fit(*(model["g"] for model in pair))
        # A fold takes every fifth word, frequent and rare alike; of windows, whole sentences.
        for side, own in (("g", np.arange(len(pair[0]["g"]))), ("f", groups)):
            moments = accumulate([model[side] for model in pair], folds=FOLDS, groups=own, sample=0)
            before = accumulate([model[f"{side}_before"] for model in pair], sample=0)
            found, held_out = cca(moments), held_out_cca(moments)
            row |= {f"cca_{side}": found.mean, f"cca_{side}_untrained": cca(before).mean}
            row |= {f"cca_{side}_held_out": None if held_out is None else held_out.value}
            row |= {f"cca_{side}_chance": cca_chance(found.rows, *found.ranks)}
        both = [SoftmaxModel(model["f"], model["g"], model["bias"]) for model in pair]
        related, apart = gauge(*both), distances(*both)
        row |= {"kappa": related.kappa, "logit_gap": related.logit_gap, "kl": apart.kl}
        rows.append(row)
    return Record(rows)


def fit(first: Array, second: Array) -> dict[str, float]:
    """R² of the best map between two embeddings of the same words, each way, on held-out words.

    Parameters
    ----------
    first, second : array (words, M)
        Embeddings.

    Returns
    -------
    dict
        `r2` of the second from the first, `r2_back` of the first from the second, and
        `r2_notebook` of the notebook's slip: fit X₁W ≈ X₂, of z-scores, and take X₂W for X₁.
    """
    moments = accumulate([first, second], folds=FOLDS, groups=np.arange(len(first)), sample=0)
    forward, backward = ladder(moments, 0, 1, ("affine",))["affine"]
    x, y = ((g - g.mean(axis=0)) / g.std(axis=0) for g in (first, second))
    W = np.linalg.lstsq(x, y, rcond=None)[0]
    slip = 1 - float(((x - y @ W) ** 2).sum() / (x**2).sum())
    return {"r2": 1 - forward.error**2, "r2_back": 1 - backward.error**2, "r2_notebook": slip}


def run(work: Work) -> Tables:
    """Train every objective and width from every seed; compare all pairs of seeds."""
    s = work.settings
    _check(s)
    text = read(work.data, s)
    kinds = [(objective, width) for objective in s.objectives for width in s.widths]
    # The slow ones first, so that no process is left with one of them at the end.
    slow = sorted(kinds, key=lambda kind: (kind[0] != "softmax", -kind[1]))
    models = [(*kind, seed) for kind in slow for seed in range(s.seeds)]
    key = "objective={0},width={1},seed={2}"
    trained = work.each(
        key, learn, [(*model, work.folder_of(key.format(*model))) for model in models],
        processes=True, settings=s, data=work.data,
    )  # fmt: skip
    found = {model: record.arrays for model, record in zip(models, trained)}
    items = [(*kind, [found[*kind, seed] for seed in range(s.seeds)]) for kind in kinds]
    compared = work.each(
        "pairs,objective={0},width={1}", compare, items, processes=True, groups=text.sentences
    )
    pairs = pd.DataFrame([row for record in compared for row in record.rows])
    drawn = [found[s.objectives[0], min(s.widths), seed]["g"] for seed in (0, 1)]
    return {
        "summary": summary(pairs),
        "pairs": pairs,
        "trainings": pd.DataFrame([row for record in trained for row in record.rows]),
        "words": placed(text.words, *drawn),
    }


def _check(s: Settings) -> None:
    if s.seeds < 2:
        raise InputError(f"seeds is {s.seeds}; trainings are compared in pairs, so give 2 or more")
    if min(s.widths) < 2:
        raise InputError(f"widths is {s.widths}; the figure needs two dimensions or more")
    for name in s.objectives:
        if name not in OBJECTIVES:
            raise InputError(f"there is no objective {name!r}; there are {', '.join(OBJECTIVES)}")


def placed(words: list[str], first: Array, second: Array) -> pd.DataFrame:
    """Where the words are in the plane: in two trainings, and in the first mapped on the second.

    Parameters
    ----------
    words : list of str
        By frequency.
    first, second : array (words, M)
        Embeddings, of which the first two axes are taken; they are centred.
    """
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
    """Points that lie far from each other: each is the farthest from those before it.

    Parameters
    ----------
    points : array (n, 2)
        To choose from; the first is the one nearest to their mean.
    count : int
        How many to choose.
    """
    gap = np.linalg.norm(points - points.mean(axis=0), axis=1)
    found = [int(gap.argmin())]
    nearest = np.full(len(points), np.inf)
    while len(found) < min(count, len(points)):
        nearest = np.minimum(nearest, np.linalg.norm(points - points[found[-1]], axis=1))
        found.append(int(nearest.argmax()))
    return found


def summary(pairs: pd.DataFrame) -> pd.DataFrame:
    """Means over pairs, and the least and the largest, by objective and width.

    Parameters
    ----------
    pairs : DataFrame
        Of all pairs.
    """
    spread = ["r2", "cca_g", "cca_f", "kappa", "logit_gap", "kl"]
    by = pairs.drop(columns=["a", "b"]).groupby(["objective", "width"], sort=False)
    ends = [by[spread].agg(which).add_suffix(f"_{which}") for which in ("min", "max")]
    return pd.concat([by.mean(), *ends], axis=1).reset_index()


def _of(tables: Tables, objective: str, width: int | None = None) -> pd.DataFrame:
    pairs = tables["pairs"]
    own = pairs[pairs["objective"] == objective]
    return own if width is None else own[own["width"] == width]


def _overlap(tables: Tables, objective: str, low: float = 0.9) -> Finding:
    own = _of(tables, objective, tables["pairs"]["width"].min())
    if own.empty:
        return judge([], comment=f"No training with {objective}.")
    comment = (
        "R² of g in one training from g in the other by the best linear map, over held-out words; "
        f"{low} or more counts. Pairs go from {own['r2'].min():.2f} to {own['r2'].max():.2f} (the "
        f"paper shows one pair of at least four trainings); the notebook's direction gives "
        f"{own['r2_notebook'].mean():.2f}; mean CCA {own['cca_g'].mean():.2f}, untrained "
        f"{own['cca_g_untrained'].mean():.2f}, by chance {own['cca_g_chance'].mean():.2f}."
    )
    return judge(per_seed(own, "r2"), low=low, comment=comment)


def _wider(tables: Tables) -> Finding:
    widths = sorted(tables["pairs"]["width"].unique())[1:]
    own = {width: _of(tables, "softmax", width) for width in widths}
    if not own or any(each.empty for each in own.values()):
        return judge([], comment="No training with the softmax and a larger width.")
    worst = min(own, key=lambda width: float(own[width]["r2"].mean()))
    listed = ", ".join(f"{each['r2'].mean():.2f} at M = {width}" for width, each in own.items())
    comment = f"R² as above, full softmax: {listed}; the lowest is judged, 0.9 or more counts."
    return judge(per_seed(own[worst], "r2"), low=0.9, comment=comment)


def _above(tables: Tables) -> Finding:
    pairs = tables["pairs"]
    gains = pairs.assign(gain=pairs["cca_g_held_out"] - pairs["cca_g_untrained"])
    kinds = dict(list(gains.groupby(["objective", "width"])))
    (objective, width), worst = min(kinds.items(), key=lambda item: float(item[1]["gain"].mean()))
    comment = (
        "Mean CCA of g, held out, less that of the untrained pair, which is at chance; the "
        f"smallest of all {len(kinds)} objectives and widths: {objective}, M = {width}."
    )
    return judge(per_seed(worst, "gain"), low=0.0, comment=comment)


def _one_map(tables: Tables, column: str, name: str) -> Finding:
    own = _of(tables, "softmax")
    if own.empty:
        return judge([], comment="No training with the softmax.")
    means = own.groupby("width")[column].mean()
    listed = ", ".join(f"{mean:.2f} at M = {width}" for width, mean in means.items())
    smallest = own[own["width"] == means.idxmin()]
    comment = (
        f"{name} of the softmax trainings on held-out windows: {listed}; the smallest is judged, "
        "0.1, the tolerance of identikit models, counts."
    )
    return judge(per_seed(smallest, column), high=0.1, comment=comment)


def figure(tables: Tables, settings: Settings) -> Figure:
    """The paper's panels, and what they stand for: R², CCA and κ over all pairs."""
    words, table = tables["words"], tables["summary"]
    name = settings.objectives[0]
    drawn = _of(tables, name, min(settings.widths)).iloc[0]
    return sheet(
        [
            partial(_words, words=words, show="first", title=f"First training, {_plain(name)}"),
            partial(_words, words=words, show="second", title="Second training"),
            partial(_mapped, words=words, title=f"First mapped on second: R² {drawn['r2']:.2f}"),
        ],
        [
            partial(
                _by_width, table=table, columns={"r2": "-"}, title="R² of the map of g, held out"
            ),
            partial(_correlations, table=table),
            partial(_gaps, table=table),
        ],
    )


def _plain(name: Any) -> str:
    return str(name).replace("_", " ")


def _words(ax: Axes, words: pd.DataFrame, show: str, title: str) -> None:
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


def _mapped(ax: Axes, words: pd.DataFrame, title: str) -> None:
    _words(ax, words, "second", title)
    x, y = (words[f"mapped_{axis}"].to_numpy() for axis in "xy")
    dots(ax, x, y, "second", 1.2, alpha=0.3)
    for _, word in words[words["named"]].iterrows():
        ends = [[word[f"{name}_{axis}"] for name in ("second", "mapped")] for axis in "xy"]
        ax.plot(*ends, color=PALETTE["second"], lw=0.8, marker="o", ms=3, markevery=[1])
    beside(ax, 0.95, "second", "accent", in_panel_parts=True)
    beside(ax, 0.87, "A first", "second", in_panel_parts=True)


def _by_width(ax: Axes, table: pd.DataFrame, columns: dict[str, Any], title: str) -> None:
    """Means by width, a colour an objective and a dash a column; the least and the largest pair."""
    ax.set_title(title)
    widths = sorted(table["width"].unique())
    for place, (objective, own) in enumerate(table.groupby("objective", sort=False)):
        own = own.sort_values("width")
        for column, dash in columns.items():
            ends = own[column] - own[f"{column}_min"], own[f"{column}_max"] - own[column]
            ax.errorbar(
                [widths.index(width) + 0.04 * (place - 1) for width in own["width"]], own[column],
                ends, color=PALETTE[COLOURS[str(objective)]], ls=dash, lw=1.5, marker="o", ms=3,
                elinewidth=0.8, capsize=2, label=_plain(objective),
            )  # fmt: skip
    ax.set_xticks(range(len(widths)), [str(width) for width in widths])
    ax.set_xlabel("dimensions M")
    if len(columns) == 1:
        ax.set_ylim(0, 1.03)
        ax.legend(**BELOW)


def _correlations(ax: Axes, table: pd.DataFrame) -> None:
    for column, label, dash in (
        ("cca_g_untrained", "untrained", "--"), ("cca_g_chance", "chance", ":"),
    ):  # fmt: skip
        means = table.groupby("width")[column].mean()
        ax.plot(range(len(means)), means, color=PALETTE["muted"], ls=dash, lw=1, label=label)
    _by_width(ax, table, {"cca_g": "-"}, "Mean CCA of g")


def _gaps(ax: Axes, table: pd.DataFrame) -> None:
    looks = {"kappa": ("κ", "-"), "logit_gap": ("logit gap", "--")}
    columns = {column: dash for column, (_, dash) in looks.items()}
    _by_width(ax, table, columns, "One map for f and g? Held-out windows")
    ax.set_yscale("log")
    ax.yaxis.set_major_formatter("{x:g}")
    ax.set_ylim(0.05, 1.5 * max(1.0, table[["kappa_max", "logit_gap_max"]].max().max()))
    ax.axhline(0.1, color=PALETTE["muted"], lw=0.9, ls=(0, (4, 2)))
    beside(ax, 0.1, "tolerance", "muted")
    lines = [
        ax.plot([], color=PALETTE["muted"], ls=dash, label=name)[0] for name, dash in looks.values()
    ]
    ax.legend(handles=lines, **BELOW)


# As in the notebook; it leaves open the optimiser (Adam here) and the noise (unigram here).
COMMON = {"objectives": list(OBJECTIVES), "side": 2, "noise": 25, "diagonal": True}
# fmt: off
SMOKE = COMMON | {
    "seeds": 3, "corpus": "enwik8", "max_words": 60_000, "vocabulary": 400, "widths": [2, 8],
    "batch": 256, "steps": 300, "lr": 0.02, "rows": 1000,
}
# Fewer and larger steps than the paper's, on a text that is gone through about once.
LAPTOP = COMMON | {
    "seeds": 4, "corpus": "enwik8", "max_words": 2_500_000, "vocabulary": 2000,
    "widths": [2, 16, 64], "batch": 512, "steps": 3000, "lr": 0.01, "rows": 2000,
}
# Vocabulary: the notebook has about 8000 sub-words.
PAPER = COMMON | {
    "seeds": 4, "corpus": "lm1b", "max_words": 100_000_000, "vocabulary": 8000,
    "widths": [2, 16, 64], "batch": 200, "steps": 50_000, "lr": 0.003, "rows": 2000,
}
# fmt: on

STUDY = Study(
    name="roeder-words",
    title="Word embeddings of two trainings, mapped on each other",
    paper="Roeder, Metz and Kingma, ICML 2021, Figure 1",
    about=(
        "A log-bilinear language model is trained several times on one text, and the embeddings "
        "of its words are compared: are those of two trainings the same up to a linear map? The "
        "paper shows twenty words of one pair in the plane; here R² on held-out words, canonical "
        "correlations and the agreement of the maps of f and of g are taken over all pairs, for "
        "three objectives and several dimensions. The figure draws the first two trainings."
    ),
    presets={"smoke": SMOKE, "laptop": LAPTOP, "paper": PAPER},
    run=run,
    claims=(
        Claim(
            "overlap",
            "After a linear map, the word embeddings of two trainings overlap (negative sampling).",
            "no number given",
            "Figure 1",
            partial(_overlap, objective="negative_sampling"),
        ),
        Claim(
            "overlap-softmax",
            "So they do with the full softmax, of which the theorem speaks.",
            "no number given",
            "Figure 1, Theorem 1",
            partial(_overlap, objective="softmax"),
        ),
        Claim(
            "overlap-nce",
            "So they do with noise-contrastive estimation.",
            "no number given",
            "Figure 1, Appendix D.7",
            partial(_overlap, objective="nce"),
        ),
        Claim(
            "wider",
            "So they do in more than two dimensions.",
            "not shown in the paper",
            "Theorem 1",
            _wider,
        ),
        Claim(
            "above-chance",
            "Training makes the embeddings alike, whatever the objective and the width.",
            "no number given",
            "Section 5",
            _above,
        ),
        Claim(
            "kappa",
            "The map of g is the one that the map of f implies (κ = 0).",
            "0 if the distributions are equal",
            "Theorem 1",
            partial(_one_map, column="kappa", name="κ"),
        ),
        Claim(
            "logit-gap",
            "Two trainings give the same distribution, which the theorem presupposes.",
            "0 if the distributions are equal",
            "Theorem 1",
            partial(_one_map, column="logit_gap", name="Relative logit gap"),
        ),
    ),
    figure=figure,
    needs=(Need("text", "a folder of real text", TEXT),),
)
