"""The only loop over rows: blocks of stacked views into Moments."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from identikit._linalg import Array, well_conditioned_root
from identikit.errors import InputError
from identikit.moments._folds import FoldOfRow, Folds, assign_folds
from identikit.moments._moments import Moments
from identikit.moments._part import Layout, Part, merge
from identikit.moments._sample import Keys, SampleKeeper, row_keys
from identikit.moments._segment import Segment, augmented_width
from identikit.sources import Source, open_sources

Progress = Callable[[int, int], None]

#: Bytes of one float64 block: enough rows for BLAS, small enough to stay near the cache.
BLOCK_BYTES = 32 * 2**20

#: Bytes of a piece of it that one core's cache holds while it is filled.
CHUNK_BYTES = 2**19


def default_memory() -> int:
    """A quarter of this machine's memory, in bytes."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 4


def scatter_bytes(widths: Sequence[int], folds: int) -> int:
    """Bytes of the scatter matrices of stacked views: one a fold, and one to work with."""
    return 8 * sum(widths) ** 2 * (folds + 1)


def accumulate(
    views: Sequence[object],
    folds: int = 5,
    groups: ArrayLike | None = None,
    *,
    names: Sequence[str] | None = None,
    seed: int = 0,
    sample: int = 1000,
    drop_nonfinite: bool = False,
    memory: int | None = None,
    block_rows: int | None = None,
    progress: Progress | None = None,
) -> Moments:
    """Moments of views of the same rows, in one pass over blocks of rows.

    A view too ill-conditioned for its scatter matrix to hold its digits costs a second pass, in
    coordinates in which it is well conditioned.

    Parameters
    ----------
    views : sequence
        Arrays (rows × columns), anything with ``__array__``, torch tensors, or paths;
        ``"file.npz::name"`` names an array inside a file.
    folds : int
        Number of folds the statistics are kept for.
    groups : array (rows,), optional
        A label a row; rows of one group share a fold. Without it folds are runs of rows.
    names : sequence of str, optional
        Names of the views.
    seed : int
        Of the row sample.
    sample : int
        How many rows to keep for the measures that need rows.
    drop_nonfinite : bool
        Leave rows with a NaN or infinity out of all views, instead of raising.
    memory : int, optional
        Bytes the statistics may take; a quarter of the machine's memory by default.
    block_rows : int, optional
        Rows to read at a time.
    progress : callable, optional
        Called with (rows done, rows in all).

    Returns
    -------
    Moments

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(100, 3))
    >>> whole = accumulate([X, 2 * X])
    >>> parts = accumulate([X[:60], 2 * X[:60]]) + accumulate([X[60:], 2 * X[60:]])
    >>> bool(np.allclose(whole.block(0, 1), parts.block(0, 1)))
    True
    """
    if sample < 0:
        raise InputError(f"sample is {sample}; give 0 rows or more")
    if block_rows is not None and block_rows < 1:
        raise InputError(f"block_rows is {block_rows}; give at least 1")
    sources = open_sources(views, names)
    try:
        check_memory([source.width for source in sources], folds, memory)
        return accumulate_sources(
            sources,
            assign_folds(sources[0].rows, folds, groups),
            seed=seed,
            sample=sample,
            drop_nonfinite=drop_nonfinite,
            block_rows=block_rows,
            progress=progress,
        )
    finally:
        for source in sources:
            source.close()


def check_memory(widths: Sequence[int], folds: int, memory: int | None) -> None:
    """Raise if the statistics of views of these widths would not fit the budget."""
    needed, budget = scatter_bytes(widths, folds), default_memory() if memory is None else memory
    if needed > budget:
        raise InputError(
            f"the statistics of {len(widths)} views with {sum(widths)} columns in {folds} folds "
            f"need {needed / 1e6:,.1f} MB, the budget is {budget / 1e6:,.1f} MB; "
            "give fewer columns, fewer folds, or a larger memory budget"
        )


def accumulate_sources(
    sources: Sequence[Source],
    folds: Folds,
    *,
    seed: int = 0,
    sample: int = 1000,
    drop_nonfinite: bool = False,
    block_rows: int | None = None,
    progress: Progress | None = None,
) -> Moments:
    """`accumulate` for open sources and rows already dealt out to folds."""
    widths = tuple(source.width for source in sources)
    step = block_rows or max(256, min(BLOCK_BYTES // (8 * sum(widths)), 16384))
    scan = _Scan(sources, folds, min(step, folds.rows), seed, drop_nonfinite, progress)
    moments = scan.run(Layout(widths), sample)
    layout = _well_conditioned(moments) if moments.rows > 1 else None
    return moments if layout is None else scan.run(layout, sample)


def finite_rows(sources: Sequence[Source], block_rows: int = 4096) -> NDArray[np.bool_]:
    """Which rows are finite in every view."""
    rows = sources[0].rows
    return np.concatenate(
        [
            _finite_rows([source.read(start, min(start + block_rows, rows)) for source in sources])
            for start in range(0, rows, block_rows)
        ]
    )


def _well_conditioned(moments: Moments) -> Layout | None:
    """Coordinates in which every view is well conditioned, if any view needs them."""
    views = range(len(moments.names))
    if all(moments.whiten(v).settled for v in views):
        return None
    pairs = [well_conditioned_root(moments.block(v, v), moments.scales(v)) for v in views]
    return Layout(moments.widths, tuple(r for _, r in pairs), tuple(f for f, _ in pairs))


@dataclass
class _Scan:
    """One reading of all rows, to be made once or twice."""

    sources: Sequence[Source]
    folds: Folds
    step: int
    seed: int
    drop_nonfinite: bool
    progress: Progress | None

    def run(self, layout: Layout, sample: int) -> Moments:
        """Read every block and return the moments, scatter in the layout's coordinates."""
        rows = self.folds.rows
        self.layout, self.keeper, self.dropped = layout, SampleKeeper(sample, layout.width), 0
        self.parts = [Part.empty(layout) for _ in range(self.folds.count)]
        self.segments: dict[int, Segment] = {}
        self.buffer = np.empty((self.step, augmented_width(layout)))
        self.buffer[:, layout.width :] = 0.0
        last = self.folds.last_rows()
        for start in range(0, rows, self.step):
            stop = min(start + self.step, rows)
            views = [source.read(start, stop) for source in self.sources]
            keys = row_keys(start, stop, self.seed)
            for fold, chosen in _by_fold(self.folds.of(start, stop)):
                self._add(fold, [view[chosen] for view in views], keys[chosen])
                if last[fold] < stop and fold in self.segments:
                    self._flush(fold)
            if self.progress is not None:
                self.progress(stop, rows)
        return Moments(
            tuple(source.name for source in self.sources),
            tuple(source.eps for source in self.sources),
            layout,
            tuple(self.parts),
            self.keeper.sample(),
            self.dropped,
        )

    def _flush(self, fold: int) -> None:
        part = self.segments.pop(fold).part()
        self.parts[fold] = merge(self.parts[fold], part, self.layout)

    def _add(self, fold: int, views: list[NDArray[Any]], keys: Keys) -> None:
        """Add the rows of one fold, given view by view."""
        segment = self.segments.get(fold)
        pivot = self._pivot(views) if segment is None else segment.pivot
        rows = self._fill(views, pivot)
        norms = rows[:, self.layout.width : self.layout.width + len(views)]
        if not np.isfinite(np.einsum("ij,ij->", norms, norms)):
            finite = _finite_rows(views)
            if not finite.all():
                if not self.drop_nonfinite:
                    raise InputError(_describe_nonfinite(self.sources, self.step))
                self.dropped += int(np.count_nonzero(~finite))
                if finite.any():
                    self._add(fold, [view[finite] for view in views], keys[finite])
                return
            raise InputError(
                "the values are so large that their squares overflow; rescale the views "
                f"({', '.join(source.name for source in self.sources)})"
            )
        if segment is not None and segment.drifts(rows):
            self._flush(fold)
            self._add(fold, views, keys)
            return
        if segment is None:
            segment = self.segments[fold] = Segment(self.layout, pivot, norms.mean(axis=0))
        chosen = self.keeper.candidates(keys)
        if len(chosen):
            few = np.concatenate([view[chosen].astype(np.float64) for view in views], axis=1)
            self.keeper.keep(keys[chosen], few)
        segment.add(rows)

    def _pivot(self, views: list[NDArray[Any]]) -> Array:
        """What to sum about: zero if all means are within two deviations of it, else the means.

        Zero costs at most a factor of five in rounding and saves a subtraction. Not so in the
        coordinates of an ill-conditioned view, where the mean may lie in a direction that hardly
        varies. Columns whose mean is not finite get zero, as such rows are found out later.
        """
        with np.errstate(invalid="ignore", over="ignore"):
            few = [view[:: max(1, len(view) // 256)].astype(np.float64) for view in views]
            near = all(np.all(part.mean(axis=0) ** 2 <= 4 * part.var(axis=0)) for part in few)
            if near and self.layout.roots is None:
                return np.zeros(self.layout.width)
            means = np.concatenate([view.mean(axis=0, dtype=np.float64) for view in views])
        return np.where(np.isfinite(means), means, 0.0)

    def _fill(self, views: list[NDArray[Any]], pivot: Array) -> Array:
        """Rows less the pivot, their squared norms by view, and a one, in the buffer."""
        rows = self.buffer[: len(views[0])]
        # In chunks that stay in the cache, so that each number is fetched from memory once.
        chunk = max(1, CHUNK_BYTES // (8 * max(self.layout.widths)))
        moved = bool(pivot.any())
        for v, (view, columns) in enumerate(zip(views, self.layout.columns)):
            for start in range(0, len(rows), chunk):
                part = rows[start : start + chunk, columns]
                part[...] = view[start : start + chunk]
                if moved:
                    part -= pivot[columns]
                norms = rows[start : start + chunk, self.layout.width + v]
                np.einsum("ij,ij->i", part, part, out=norms)
        rows[:, self.layout.width + len(views)] = 1.0
        return rows


def _by_fold(folds: FoldOfRow) -> Iterator[tuple[int, slice | NDArray[np.intp]]]:
    """The rows of each fold in a block: a slice where they are consecutive."""
    for fold in np.unique(folds[folds >= 0]):
        where = np.flatnonzero(folds == fold)
        run = slice(int(where[0]), int(where[-1]) + 1)
        yield int(fold), run if run.stop - run.start == len(where) else where


def _finite_rows(views: list[NDArray[Any]]) -> NDArray[np.bool_]:
    finite = np.ones(len(views[0]), dtype=bool)
    for view in views:
        finite &= np.isfinite(view.astype(np.float64)).all(axis=1)
    return finite


def _describe_nonfinite(sources: Sequence[Source], step: int) -> str:
    """The sentence that says which views hold NaN or infinity, in how many rows, first where."""
    words = []
    for source in sources:
        bad, first = 0, -1
        for start in range(0, source.rows, step):
            block = source.read(start, min(start + step, source.rows))
            wrong = np.flatnonzero(~_finite_rows([block]))
            if len(wrong) and first < 0:
                first = start + int(wrong[0])
            bad += len(wrong)
        if bad:
            words.append(
                f"view {source.name!r} has NaN or infinity in {bad} of {source.rows} rows, the "
                f"first is row {first}"
            )
    return (
        f"{'; '.join(words)} (counting from 0); repair them, or leave such rows out of all views "
        "with --drop-nonfinite (drop_nonfinite=True)"
    )
