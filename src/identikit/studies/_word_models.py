"""Log-bilinear language models: windows of a text, objectives, optima, and pairs of trainings."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache, partial
from itertools import chain, combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from identikit._linalg import Array
from identikit.alignment import ladder
from identikit.errors import InputError
from identikit.family import SoftmaxModel, gauge
from identikit.inference import cca_chance, held_out_cca
from identikit.moments import FOLDS, accumulate
from identikit.similarity import cca
from identikit.studies._data import Data
from identikit.studies._study import Record, Settings
from identikit.studies._torch import Tensor, learn, torch

Ints = NDArray[np.int64]

OBJECTIVES = ("negative_sampling", "softmax", "nce")
# One in this many sentences is held out.
HELD_OUT = 20


class Corpus(NamedTuple):
    """Words by frequency, and windows (n, 2 side + 1) of word numbers, the target in the middle.

    A word outside the vocabulary has the number after the last and is never a target. `counts` are
    those of the targets in `train`; `sentences` has the sentence of each window of `test`.
    """

    words: list[str]
    counts: Ints
    train: Ints
    test: Ints
    sentences: Ints


def windows(sentences: list[list[str]], vocabulary: int, side: int, rows: int) -> Corpus:
    """All windows within sentences, for the most frequent words; at most `rows` are for testing."""
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
            f"too few of the {len(sentences)} sentences have the {2 * side + 1} words of a window; "
            "give a longer text with --data"
        )
    train, test = (np.concatenate(found[held_out]) for held_out in (False, True))
    test = np.random.default_rng(0).permutation(test)[:rows]
    counts = np.bincount(train[:, 1 + side], minlength=len(number))
    return Corpus(list(number), counts, train[:, 1:], test[:, 1:], test[:, 0])


@lru_cache(maxsize=4)
def _read(data: Data, prefer: str, most: int, vocabulary: int, side: int, rows: int) -> Corpus:
    return windows(data.words(prefer, most), vocabulary, side, rows)


def read(data: Data, s: Settings) -> Corpus:
    """The windows for these settings, read once per process."""
    return _read(data, s.corpus, s.max_words, s.vocabulary, s.side, s.rows)


def build(
    start: Array, width: int, context: int, diagonal: bool, tables: bool = False
) -> learn.SoftmaxNet:
    """The model, initialised as in the notebook: tiny context vectors, small g and bias.

    With `diagonal` there are weights c_i, as in the notebook; otherwise matrices C_i (Appendix
    D.7). With `tables` every position has a table of its own, q̂(h) = Σ_i r_{i,w_i}, and words are
    numbered through all tables: logits are then linear in f's parameters, as they are in g.
    """
    words = len(start)
    f = (
        torch.nn.EmbeddingBag(words * context, width, mode="sum") if tables
        else learn.LogBilinear(words + 1, width, context, diagonal)
    )  # fmt: skip
    net = learn.SoftmaxNet(f, learn.Lookup(words, width), bias=words)
    for name, parameter in net.named_parameters():
        reach = 0.001 if name.startswith("f.") else 0.05
        torch.nn.init.uniform_(parameter, -reach, reach)
    assert net.bias is not None
    net.bias.data += torch.from_numpy(start).float()
    return net


def task(name: str, text: Corpus, s: Settings) -> tuple[Any, learn.Batches]:
    """One of the `OBJECTIVES`, and its batches; noise words follow the unigram distribution."""
    context = torch.from_numpy(np.delete(text.train, s.side, axis=1))
    word = torch.from_numpy(text.train[:, s.side].copy())

    def with_noise(batch: tuple[Tensor, ...], generator: torch.Generator) -> tuple[Tensor, ...]:
        # Targets of other windows, so that each word is as frequent as in the text.
        places = torch.randint(len(word), (len(batch[1]), s.noise), generator=generator)
        return (*batch, word[places])

    if name == "softmax":
        return learn.nplm, learn.shuffled((context, word), s.batch)
    noisy = learn.shuffled((context, word), s.batch, with_noise)
    if name == "nce":
        return partial(learn.nce, log_noise=torch.from_numpy(log_unigram(text)).float()), noisy
    return learn.negative_sampling, noisy


def log_unigram(text: Corpus) -> Array:
    """log p of every word; a word that is never a target counts as if it were one once."""
    counts = np.maximum(text.counts, 1)
    logs: Array = np.log(counts / counts.sum())
    return logs


def teach(objective: str, seed: int, folder: Path, settings: Settings, data: Data) -> Record:
    """Train a model and evaluate it on held-out windows, before and after (a unit of work)."""
    s, text = settings, read(data, settings)
    loss, batches = task(objective, text, s)
    unigram = log_unigram(text)
    # Scores of NCE are log-probabilities; from a bias of zero it would learn the words' frequencies
    # and little else.
    start = unigram if objective == "nce" else np.zeros_like(unigram)
    run = learn.train(
        partial(build, start, s.width, 2 * s.side, s.diagonal), loss, batches, s.steps,
        seeds=[seed], lr=s.lr, snapshots=[0], folder=folder,
    )  # fmt: skip
    context = torch.from_numpy(np.delete(text.test, s.side, axis=1))
    before, after = (run.model(seed, context, step=step) for step in (0, s.steps))
    assert after.bias is not None
    # Scores of negative sampling estimate log p(w|h) − log p(w).
    bias = after.bias + (unigram if objective == "negative_sampling" else 0.0)
    every = SoftmaxModel(after.f, after.g, bias).log_prob()
    nll = -float(every[np.arange(len(every)), text.test[:, s.side]].mean())
    row = {"objective": objective, "seed": seed, "nll": nll}
    arrays = {"f": after.f, "g": after.g, "bias": bias, "f_before": before.f, "g_before": before.g}
    return Record([row], arrays)


def compare(objective: str, models: list[dict[str, Array]], groups: Ints) -> Record:
    """All pairs of trainings with one objective: a unit of work."""
    rows = []
    for a, b in combinations(range(len(models)), 2):
        pair = models[a], models[b]
        row: dict[str, Any] = {"objective": objective, "a": a, "b": b} | alike(*pair)
        # A fold has every fifth word, frequent and rare alike, or the windows of whole sentences.
        for side, own in (("g", np.arange(len(pair[0]["g"]))), ("f", groups)):
            moments = accumulate([model[side] for model in pair], folds=FOLDS, groups=own, sample=0)
            before = accumulate([model[f"{side}_before"] for model in pair], sample=0)
            found, held_out = cca(moments), held_out_cca(moments)
            row |= {f"cca_{side}": found.mean, f"cca_{side}_untrained": cca(before).mean}
            row |= {f"cca_{side}_held_out": None if held_out is None else held_out.value}
            row |= {f"cca_{side}_chance": cca_chance(found.rows, *found.ranks)}
        rows.append(row)
    return Record(rows)


def alike(first: dict[str, Array], second: dict[str, Array]) -> dict[str, Any]:
    """How well a linear map explains g, whether f has the same one, and how far p is from p'."""
    both = [SoftmaxModel(model["f"], model["g"], model["bias"]) for model in (first, second)]
    related, (p, q) = gauge(*both), (model.log_prob() for model in both)
    kl = float((np.exp(p) * (p - q)).sum(axis=1).mean())
    gaps = {"kappa": related.kappa, "logit_gap": related.logit_gap, "kl": kl}
    return fit(first["g"], second["g"]) | gaps


def fit(first: Array, second: Array) -> dict[str, float]:
    """R² of the best map between two embeddings of the same words, on held-out words.

    `r2_notebook` is that of the notebook's mistake: fit X₁W ≈ X₂ on z-scores, and use X₂W for X₁.
    """
    moments = accumulate([first, second], folds=FOLDS, groups=np.arange(len(first)), sample=0)
    forward, backward = ladder(moments, 0, 1, ("affine",))["affine"]
    x, y = ((g - g.mean(axis=0)) / g.std(axis=0) for g in (first, second))
    W = np.linalg.lstsq(x, y, rcond=None)[0]
    slip = 1 - float(((x - y @ W) ** 2).sum() / (x**2).sum())
    return {"r2": 1 - forward.error**2, "r2_back": 1 - backward.error**2, "r2_notebook": slip}


# The optimum of the softmax on a small vocabulary, by L-BFGS on counts.


class Arm(NamedTuple):
    """Trainings to an optimum; `penalty` times half the sum of squared weights is added."""

    vocabulary: int
    width: int
    penalty: float
    starts: int
    steps: int


def arms(s: Settings) -> dict[str, Arm]:
    """The arms of these settings, by name."""
    parts = (s.arm_vocabulary, s.arm_width, s.arm_penalty, s.arm_starts, s.arm_steps)
    if any(len(part) != len(s.arms) for part in parts):
        raise InputError(f"there are {len(s.arms)} arms; give each setting arm_... as many values")
    return {name: Arm(*values) for name, *values in zip(s.arms, *parts)}


class Counts(NamedTuple):
    """A text as counts, and the contexts of some held-out windows.

    `batch` has every context once, and for each pair that occurs the place of its context, its
    word, and its share of all windows; `unigram` has log p of every word.
    """

    batch: tuple[Tensor, ...]
    unigram: Array
    held_out: Tensor


def count(text: Corpus, places: list[int], tables: bool, rows: int) -> Counts:
    """The windows whose words at `places`, the context, are all in the vocabulary."""
    words, side = len(text.words), text.train.shape[1] // 2
    train, test = (part[(part[:, places] < words).all(axis=1)] for part in (text.train, text.test))
    contexts, row = np.unique(train[:, places], axis=0, return_inverse=True)
    pairs, times = np.unique(row.ravel() * words + train[:, side], return_counts=True)
    frequency = np.maximum(np.bincount(train[:, side], minlength=words), 1)
    first = words * np.arange(len(places)) if tables else 0  # where a position's table begins
    parts = (contexts + first, pairs // words, pairs % words, times / len(train))
    held_out = torch.from_numpy(test[:rows, places] + first)
    unigram = np.log(frequency / frequency.sum())
    return Counts(tuple(torch.from_numpy(part) for part in parts), unigram, held_out)


def of_counts(
    net: learn.SoftmaxNet, context: Tensor, row: Tensor, word: Tensor, share: Tensor
) -> Tensor:
    """The mean of −log p(w|h) over all windows, each context taken once."""
    assert net.bias is not None
    logits = torch.addmm(net.bias, net.f(context), net.g().T)
    loss: Tensor = -(share * logits.log_softmax(1)[row, word]).sum()
    return loss


@lru_cache(maxsize=4)
def _counted(
    data: Data, prefer: str, most: int, vocabulary: int, side: int, arm: str, rows: int
) -> Counts:
    text = _read(data, prefer, most, vocabulary, side, 10**9)
    around = [*range(side), *range(side + 1, 2 * side + 1)]
    return count(text, [side - 1] if arm.startswith("bigrams") else around, arm != "windows", rows)


def solve(name: str, seed: int, folder: Path, settings: Settings, data: Data) -> Record:
    """Train one model of an arm to an optimum: a unit of work."""
    s, arm = settings, arms(settings)[name]
    text = _counted(data, s.corpus, s.arm_words, arm.vocabulary, s.side, name, s.rows)
    context = text.batch[0].shape[1]

    def start() -> learn.SoftmaxNet:
        return build(text.unigram, arm.width, context, s.diagonal, name != "windows").double()

    run = learn.train(
        start, of_counts, lambda *_: text.batch, arm.steps, seeds=[seed], optimizer="lbfgs",
        weight_decay=arm.penalty, folder=folder,
    )  # fmt: skip
    last, model = run.history.iloc[-1], run.model(seed, text.held_out)
    assert model.bias is not None
    row = {"arm": name, "seed": seed, "loss": last["loss"], "steps": int(last["step"])}
    return Record([row], {"f": model.f, "g": model.g, "bias": model.bias})


def compare_optima(name: str, models: list[dict[str, Array]], losses: list[float]) -> Record:
    """All pairs of an arm: a unit of work. `apart` is the difference of their losses."""
    return Record([
        {"arm": name, "a": a, "b": b, "apart": abs(losses[a] - losses[b])}
        | alike(models[a], models[b])
        for a, b in combinations(range(len(models)), 2)
    ])  # fmt: skip
