"""Layers of two models: which layer of one is most like which of the other, beyond chance."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from identikit._linalg import Array, one_thread
from identikit._progress import Progress
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

    Every pair has its chance level and calibrated value (`similarity.Scored`). Whoever looks for
    the best of many pairs finds a high one by chance alone, so best matches are also judged by what
    the *largest* value of all pairs would be for independent models (Gröger, Wen and Brbić 2026,
    algorithm 2).

    Parameters
    ----------
    a, b : mapping, sequence or path
        The layers of either model on the same rows: views by name, a list of views (see `audit`),
        or a folder with a file a layer (only its ``layer_*`` files if there are any).
    measure : str
        One of `identikit.similarity.MEASURES`.
    folds : int
        For the intervals.
    groups : array (rows,), optional
        A label a row; rows that share one share a fold.
    seed : int
        Of the row sample that neighbour overlap and rank correlation use.
    drop_nonfinite : bool
        Leave rows with a NaN or infinity out of all views, instead of raising.
    memory : int, optional
        Bytes, half of the machine's memory by default; pairs are read in several passes if need be.
    engine : str, Engine or distributed.Client, optional
        Who reads the rows.
    progress : callable, optional
        Called with (what is being done, done, of how many).

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
    table = _Table(measure, apart, len(views[1]))
    with engine_for(engine) as workers:
        sources = open_sources([*views[0], *views[1]], labels)
        try:
            widths = [source.width for source in sources]
            dealt = assign_folds(sources[0].rows, folds, groups)
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
                for pair in tile.pairs:
                    table.add(moments, pair, (tile.views.index(pair[0]), tile.views.index(pair[1])))
                    if progress is not None:
                        total = len(widths) * (len(widths) - 1) // 2
                        progress("comparing", table.done, total)
        finally:
            for source in sources:
                source.close()
    return table.result(moments.rows, names[0], names[1], dealt.count, seed)


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
        if len(set(filter(None, paths))) == sum(map(bool, paths)):  # no file is there twice
            names = tell_apart(names, paths)
    if not views:
        raise InputError(f"the {which} model has no layers; give at least one")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(
            f"the {which} model has two layers called {twice[0]!r}; give a mapping with a name each"
        )
    return names, views


def _folder(path: Path) -> list[Path]:
    if not path.is_dir():
        raise InputError(
            f"{path} is not a folder; give a folder with a file a layer, or a list of views"
        )
    known = openers()
    files = sorted(file for file in path.iterdir() if kind_of(file) in known and file.is_file())
    files = [file for file in files if file.stem.startswith("layer_")] or files
    if not files:
        raise InputError(f"{path} holds no file that can be read as a layer")
    return files


class _Table:
    """What is known of all pairs so far: across the models, and how alike layers of one are."""

    def __init__(self, measure: str, rows: int, columns: int) -> None:
        self.measure, self.apart, self.done = measure, rows, 0
        self.scores: list[list[Scored | None]] = [[None] * columns for _ in range(rows)]
        self.laws: list[list[Null | None]] = [[None] * columns for _ in range(rows)]
        self.alike = np.eye(rows), np.eye(columns)

    def add(self, moments: Moments, pair: tuple[int, int], places: tuple[int, int]) -> None:
        """Look at one pair: its numbers among all layers, and in the moments."""
        (i, j), apart = pair, self.apart
        with one_thread(max(moments.widths[place] for place in places)):
            if i < apart <= j:
                found = scores_and_laws(moments, *places, names=[self.measure])[self.measure]
                if found is not None:
                    self.scores[i][j - apart], self.laws[i][j - apart] = found
            else:
                side = self.alike[int(i >= apart)]
                i, j = i - (i >= apart) * apart, j - (j >= apart) * apart
                side[i, j] = side[j, i] = _alike(moments, *places, self.measure)
        self.done += 1

    def result(
        self, rows: int, a: Sequence[str], b: Sequence[str], folds: int, seed: int
    ) -> Layers:
        """Best matches, judged by the largest value that chance gives."""
        if not any(law is not None for row in self.laws for law in row):
            raise InputError(
                f"{self.measure} has no value for any of these pairs of layers: views are "
                "constant, or have as many directions as rows; give more rows, or another measure"
            )
        largest = largest_by_chance(self.laws, *self.alike)
        threshold = min(float(np.quantile(largest, LEVEL, method="higher")), 1.0)
        values = np.array([[-np.inf if s is None else s.value for s in row] for row in self.scores])

        def match(i: int, j: int) -> Match | None:
            if values[i, j] == -np.inf:
                return None
            value = float(values[i, j])
            return Match(a[i], b[j], value, calibrate(value, threshold), self._p(largest, value))

        first = tuple(match(i, int(row.argmax())) for i, row in enumerate(values))
        second = tuple(match(int(row.argmax()), j) for j, row in enumerate(values.T))
        return Layers(
            __version__,
            rows,
            self.measure,
            tuple(a),
            tuple(b),
            tuple(map(tuple, self.scores)),
            threshold,
            first,
            second,
            folds,
            seed,
        )

    def _p(self, largest: Array, value: float) -> float:
        """How probable a largest value like this is: by the draws, or by Boole's bound if less."""
        drawn = (1 + np.count_nonzero(largest >= value)) / (1 + len(largest))
        bound = sum(law.p(value) for row in self.laws for law in row if law is not None)
        return float(min(drawn, bound))


def _alike(moments: Moments, i: int, j: int, measure: str) -> float:
    """How closely the chance values of two layers go together (see `largest_by_chance`).

    Debiased CKA for CKA, its like for the overlap of neighbours; other measures weigh directions
    otherwise, and the smaller of debiased CKA and adjusted R²_CCA does not overstate it.
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
