"""Layers of two models: which layer of one is most like which of the other, beyond chance."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from identikit._linalg import Array
from identikit._progress import Progress
from identikit._threads import one_thread
from identikit._version import __version__
from identikit.auditing.layers_result import Layers, Match
from identikit.errors import InputError
from identikit.inference import Null, adjusted_r2, cca_chance_square, largest_by_chance
from identikit.moments import (
    FOLDS,
    Moments,
    assign_folds,
    finite_rows,
    in_range,
    read_moments,
    tiles,
)
from identikit.moments.engines import engine_for
from identikit.similarity import (
    MEASURES,
    Scored,
    calibrate,
    cca,
    cka,
    mutual_knn,
    scores_and_laws,
)
from identikit.sources import open_sources, tell_apart
from identikit.sources.registry import kind_of, openers

Views = Mapping[str, object] | Sequence[object] | str | os.PathLike[str]

T = TypeVar("T")

#: One row per layer of the first model, one column per layer of the second; None for no value.
Grid = tuple[tuple[T | None, ...], ...]

#: The share of independent models whose best match stays below the threshold.
LEVEL = 0.95


def layers(
    a: Views,
    b: Views,
    *,
    measure: str = "cka",
    folds: int = FOLDS,
    groups: ArrayLike | None = None,
    seed: int = 0,
    drop_nonfinite: bool = False,
    memory: int | None = None,
    engine: object = None,
    progress: Progress | None = None,
) -> Layers:
    """Compare every layer of one model with every layer of another, by one measure.

    Every pair has its chance level and calibrated value (`similarity.Scored`). The best of many
    pairs has a high value by chance alone, so best matches are also compared with the *largest*
    value of all pairs that independent models would have (Gröger, Wen and Brbić 2026,
    algorithm 2).

    Parameters
    ----------
    a, b : mapping, sequence or path
        The layers of each model on the same rows: views by name, a list of views (see `audit`),
        or a folder with one file per layer (only its ``layer_*`` files if there are any).
    measure : str
        One of `identikit.similarity.MEASURES`.
    folds : int
        The number of folds, for the intervals.
    groups : array (rows,), optional
        One label per row; rows that share a label share a fold.
    seed : int
        The seed of the row sample that neighbour overlap and rank correlation use.
    drop_nonfinite : bool
        Leave rows with a NaN or infinity out of all views, instead of raising.
    memory : int, optional
        Bytes, half of the machine's memory by default; pairs are read in several passes if needed.
    engine : str, Engine or distributed.Client, optional
        What reads the rows; see `audit`.
    progress : callable, optional
        Called with (the name of the step, steps done, steps in all).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X, Y = rng.normal(size=(2, 300, 4))
    >>> found = layers({"low": X, "high": Y}, {"only": Y + 0.1 * X})
    >>> found.best.a, found.best.b, bool(found)
    ('high', 'only', True)
    """
    if measure not in MEASURES:
        raise InputError(f"there is no measure {measure!r}; choose one of {', '.join(MEASURES)}")
    names, views = zip(*(_listed(side, which) for side, which in ((a, "first"), (b, "second"))))
    apart = len(views[0])
    labels = [f"{side}: {name}" for side, both in zip("ab", names) for name in both]
    total = len(labels) * (len(labels) - 1) // 2
    across: dict[tuple[int, int], tuple[Scored, Null] | None] = {}
    within: dict[tuple[int, int], float] = {}
    with ExitStack() as stack:
        workers = stack.enter_context(engine_for(engine))
        sources = open_sources([*views[0], *views[1]], labels)
        for source in sources:
            stack.callback(source.close)
        dealt = assign_folds(sources[0].rows, folds, groups)
        widths = [source.width for source in sources]
        passes = tiles(widths, dealt.count, memory, sources[0].rows)
        if drop_nonfinite and len(passes) > 1:
            dealt = dealt.only(finite_rows(sources))
        for tile in passes:
            moments = in_range(
                lambda some: read_moments(
                    some, dealt, seed=seed, drop_nonfinite=drop_nonfinite, engine=workers
                ),
                [sources[v] for v in tile.views],
            )
            for i, j in tile.pairs:
                places = tile.views.index(i), tile.views.index(j)
                with one_thread(max(widths[i], widths[j])):
                    if i < apart <= j:
                        found = scores_and_laws(moments, *places, names=[measure])
                        across[i, j - apart] = found[measure]
                    else:
                        within[i, j] = _alike(moments, *places, measure)
                if progress is not None:
                    progress("comparing", len(across) + len(within), total)
    if not any(across.values()):
        raise InputError(
            f"{measure} has no value for any of these pairs of layers: views are "
            "constant, or have as many directions as rows; give more rows, or another measure"
        )
    alike = np.eye(len(labels))
    for (i, j), value in within.items():
        alike[i, j] = alike[j, i] = value
    laws = _grid(across, 1)
    largest = largest_by_chance(laws, alike[:apart, :apart], alike[apart:, apart:])
    threshold = min(float(np.quantile(largest, LEVEL, method="higher")), 1.0)
    scores = _grid(across, 0)
    best = _best_matches(scores, laws, names, largest, threshold)
    return Layers(
        __version__,
        moments.rows,
        measure,
        tuple(names[0]),
        tuple(names[1]),
        scores,
        threshold,
        *best,
        dealt.count,
        seed,
    )


def _listed(side: Views, which: str) -> tuple[list[str], list[object]]:
    """Names and views of one model's layers."""
    if isinstance(side, Mapping):
        names, views = [str(name) for name in side], list(side.values())
    elif isinstance(side, str | os.PathLike):
        found = _folder(Path(side))
        names, views = [path.stem for path in found], [os.fspath(path) for path in found]
    else:
        views = list(side)
        paths = [isinstance(view, str | os.PathLike) and os.path.abspath(view) for view in views]  # noqa: PTH100
        names = [Path(p).stem if p else f"layer {number}" for number, p in enumerate(paths)]
        if len(set(filter(None, paths))) == sum(map(bool, paths)):  # no file is listed twice
            names = tell_apart(names, paths)
    if not views:
        raise InputError(f"the {which} model has no layers; give at least one")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(
            f"the {which} model has two layers called {twice[0]!r}; give a mapping from names to "
            "layers"
        )
    return names, views


def _folder(path: Path) -> list[Path]:
    if not path.is_dir():
        raise InputError(
            f"{path} is not a folder; give a folder with one file per layer, or a list of views"
        )
    known = openers()
    files = sorted(file for file in path.iterdir() if kind_of(file) in known and file.is_file())
    files = [file for file in files if file.stem.startswith("layer_")] or files
    if not files:
        raise InputError(f"{path} holds no file that can be read as a layer")
    return files


def _grid(across: Mapping[tuple[int, int], tuple[Any, ...] | None], which: int) -> Grid[Any]:
    """A grid of the scores (0) or of the null distributions (1) of all pairs."""
    rows, columns = (1 + max(key[side] for key in across) for side in (0, 1))
    found = {key: None if both is None else both[which] for key, both in across.items()}
    return tuple(tuple(found[i, j] for j in range(columns)) for i in range(rows))


def _best_matches(
    scores: Grid[Scored],
    laws: Grid[Null],
    names: Sequence[Sequence[str]],
    largest: Array,
    threshold: float,
) -> tuple[tuple[Match | None, ...], tuple[Match | None, ...]]:
    """The best match of every layer of each model, compared with the largest value by chance."""
    values = np.array([[-np.inf if s is None else s.value for s in row] for row in scores])

    def match(i: int, j: int) -> Match | None:
        value = float(values[i, j])
        if value == -np.inf:
            return None
        # The probability of so large a maximum: from the draws, or Boole's bound if that is less.
        drawn = (1 + np.count_nonzero(largest >= value)) / (1 + len(largest))
        bound = sum(law.p(value) for row in laws for law in row if law is not None)
        p = float(min(drawn, bound))
        return Match(names[0][i], names[1][j], value, calibrate(value, threshold), p)

    return (
        tuple(match(i, int(row.argmax())) for i, row in enumerate(values)),
        tuple(match(int(row.argmax()), j) for j, row in enumerate(values.T)),
    )


def _alike(moments: Moments, i: int, j: int, measure: str) -> float:
    """How strongly the chance values of two layers are correlated (see `largest_by_chance`).

    For CKA this is debiased CKA, and for the overlap of neighbours it is the overlap corrected for
    chance. Other measures weight directions differently; for them, the smaller of debiased CKA and
    adjusted R²_CCA does not overstate the correlation.
    """
    if measure == "mutual_knn":
        overlap = mutual_knn(moments, i, j)
        if overlap.value is None or overlap.chance is None:
            return 0.0
        return max((overlap.value - overlap.chance) / (1 - overlap.chance), 0.0)
    alike = cka(moments, i, j, debiased=True).value
    if alike is None:
        return 0.0
    if measure != "cka":
        found = cca(moments, i, j)
        square, shape = found.mean_square, (found.rows, *found.ranks)
        if square is None or cca_chance_square(*shape) >= 1:
            return 0.0
        alike = min(alike, adjusted_r2(square, *shape))
    return float(np.clip(alike, 0.0, 1.0))
