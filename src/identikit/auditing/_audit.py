"""Views in, a verdict out."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from identikit._progress import Progress, share
from identikit.auditing._axes import AxesOfViews, sample_rows
from identikit.auditing._found import Found
from identikit.auditing._plan import Plan, plan, reduce_views
from identikit.auditing._transposed import ask_if_transposed
from identikit.auditing._wide import Wide, look_at_columns
from identikit.auditing._windows import read_windows
from identikit.auditing.checks import checked_thresholds
from identikit.auditing.result import Audit
from identikit.errors import InputError
from identikit.moments import (
    DUPLICATES,
    FOLDS,
    LEAST_GROUPS,
    SAMPLE,
    SUFFIX,
    Folds,
    Moments,
    Tile,
    assign_folds,
    duplicate_groups,
    finite_rows,
    in_range,
    in_units,
    load_moments,
    read_and_save,
    read_moments,
)
from identikit.moments.engines import Engine, engine_for
from identikit.sources import BY_POSITION, Source, open_sources, paired, read_labels, unpack


def audit(
    views: Sequence[object] | Mapping[str, object] | Moments | str | os.PathLike[str],
    *,
    names: Sequence[str] | None = None,
    folds: int = FOLDS,
    groups: ArrayLike | str | None = None,
    tolerance: float = 0.1,
    seed: int = 0,
    ids: str | Sequence[object] | None = None,
    ica: bool = False,
    drop_nonfinite: bool = False,
    memory: int | None = None,
    engine: object = None,
    save_moments: str | os.PathLike[str] | None = None,
    resume: bool = False,
    progress: Progress | None = None,
    checks: Mapping[str, float] | None = None,
) -> Audit:
    """Compare every pair of views and say what they are the same up to.

    Parameters
    ----------
    views : sequence, mapping, Moments or path
        Two or more views of the same rows, in a list or by name: arrays, tensors, data frames, or
        paths (see `accumulate`). Or moments, or a ``.moments`` file, which have folds, names and a
        row sample of their own.
    names : sequence of str, optional
        Names of the views.
    folds : int
        At least 5: errors are held out fold by fold, intervals are jackknifed over folds. With
        groups at least 3; fewer groups than folds are a fold each.
    groups : array (rows,) or "duplicates", optional
        A label a row; dependent rows (tokens of a sentence, crops of an image) share a label and so
        a fold. Without it, folds are small blocks of rows that are scattered at random, and a check
        ("dependent rows") asks whether rows depend on others nearby; if so, they are read again in
        folds of consecutive rows (`Pair.blocked`). With "duplicates", rows that are equal in all
        views share a fold, for one more reading.
    tolerance : float
        The largest error that counts as the same.
    seed : int
        Of the folds, and of the row sample that neighbour overlap, rank correlation and the scatter
        plots use.
    ids : str or sequence, optional
        Pair rows by id and not by position: the name of the column, or of the array, that holds the
        ids in each view's own file (several with commas, as "plate,well"; one a view with colons,
        as "doc_id:docId"), or one array or file of ids a view. Rows without a partner are left out.
        Data frames are paired by their indexes where all have one that is not the
        default, of labels that occur once; `Settings.pairing` says what was done.
    ica : bool
        Also say whether the views have the same axes after ICA of each alone (`Pair.ica`), found on
        a sample of at most 20,000 rows.
    drop_nonfinite : bool
        Leave rows with a NaN or infinity out of all views, instead of raising.
    memory : int, optional
        Bytes that the audit may add to the process, half of the machine's memory by default. If all
        views do not fit at once, pairs are done in several passes, with the same result; if a pair
        does not fit, wide views are reduced to their leading principal directions first
        (`View.reduced_to`, `View.lost`), found on all rows without a look at other views.
    engine : str, Engine or distributed.Client, optional
        Who reads the rows: this process ("single"), processes of this machine ("pool"), a Dask
        cluster that is started for the call ("dask"), a scheduler's address, or a Dask client.
    save_moments : path, optional
        Keep the statistics in this ``.moments`` file. While rows are read, what has been read is
        kept beside it, so that a process that is killed loses little.
    resume : bool
        Go on from what was kept there.
    progress : callable, optional
        Called with (what is being done, done, of how many).
    checks : mapping of str to float, optional
        Thresholds of checks in place of their own, as in ``{"outlier_rows": 0.05}``; their names
        are those of the files in `identikit.auditing.checks`.

    Returns
    -------
    Audit

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(500, 4))
    >>> audit([X, X[:, ::-1] * 2]).verdict.group
    'monomial'
    """
    if not 0 <= tolerance < float("inf"):
        raise InputError(f"the tolerance is {tolerance}; give a finite number, 0 or larger")
    thresholds = checked_thresholds(checks)
    moments = _moments_of(views)
    if moments is not None:
        of_rows: dict[str, object] = {"names": names, "groups": groups, "ids": ids}
        of_rows |= {"drop_nonfinite": drop_nonfinite, "engine": engine}
        of_rows |= {"save_moments": save_moments, "resume": resume}
        return _of_moments(moments, tolerance, of_rows, thresholds, ica=ica, progress=progress)
    _check_folds(folds, f"not {folds}", grouped=groups is not None)
    if resume and save_moments is None:
        raise InputError("to resume, say where the moments are kept: save_moments (--save-moments)")
    with ExitStack() as stack:
        # One path alone is left for `open_sources` to complain of.
        listed, names = unpack(views, names)
        together = stack.enter_context(paired(listed, ids, names, memory=memory))
        workers = stack.enter_context(engine_for(engine))
        sources = open_sources(together.views, together.names)
        for source in sources:
            stack.callback(source.close)
        labels, matched = groups, together.matched
        if isinstance(groups, str) and groups == DUPLICATES:
            labels = duplicate_groups(sources)
        elif matched is not None and groups is not None:
            labels = matched.pick(read_labels(groups))
        dealt = _deal(sources, folds, labels, seed)
        widths = [source.width for source in sources]
        ask_if_transposed(dealt.rows, widths)
        sample, room = sample_rows(widths, memory) if ica else (SAMPLE, memory)
        # Moments that are kept are of the views as they are.
        chosen = plan(widths, dealt.count, dealt.rows, room, spans=save_moments is None)
        pairs = sum(len(tile.pairs) for tile in chosen.tiles)

        def judged(views: Sequence[Source]) -> Found:
            axes = AxesOfViews() if ica else None
            found = Found(tolerance, dealt.grouped, pairs, axes, progress, thresholds)
            run = _Run(views, dealt, chosen, seed, sample, drop_nonfinite, workers, progress)
            if save_moments is None:
                run.into(found)
            else:
                run.saved_into(found, save_moments, resume)
            return found

        found = in_range(judged, sources)
        pairing = BY_POSITION if matched is None else str(matched)
        return found.audit(tolerance, reading=chosen.says, pairing=pairing)


def _moments_of(views: object) -> Moments | None:
    """The moments that were given in place of views, if they were."""
    if isinstance(views, list | tuple) and len(views) == 1:
        (views,) = views
    if isinstance(views, Moments):
        return views
    if isinstance(views, str | os.PathLike) and Path(views).suffix == SUFFIX:
        return load_moments(views)
    return None


def _of_moments(
    moments: Moments,
    tolerance: float,
    of_rows: dict[str, object],
    thresholds: Mapping[str, float],
    *,
    ica: bool,
    progress: Progress | None,
) -> Audit:
    for name, value in of_rows.items():
        if value is not None and value is not False:
            raise InputError(
                f"{name} is for views whose rows are still to be read, and these are moments: give "
                "it where they are made (identikit moments)"
            )
    views = range(len(moments.names))
    if len(views) < 2:
        raise InputError(f"an audit compares views, and these moments are of {len(views)}")
    has = f"and these moments have {moments.folds}; make them again with --folds {FOLDS}"
    _check_folds(moments.folds, has, grouped=bool(moments.grouped))
    pairs = tuple((a, b) for a in views for b in views[a + 1 :])
    axes = AxesOfViews() if ica else None
    found = Found(tolerance, bool(moments.grouped), len(pairs), axes, progress, thresholds)
    found.add(moments, Tile(tuple(views), pairs))
    shards = f" of {len(moments.shards)} shards" if moments.shards else ""
    reading = f"No rows were read: the statistics{shards} were given."
    return found.audit(tolerance, reading=reading, pairing=BY_POSITION)


def _check_folds(folds: int, has: str, *, grouped: bool) -> None:
    least = LEAST_GROUPS if grouped else FOLDS
    if folds < least:
        raise InputError(f"an audit needs at least {least} folds for its intervals, {has}")


def _deal(sources: Sequence[Source], folds: int, groups: ArrayLike | None, seed: int) -> Folds:
    if len(sources) < 2:
        raise InputError("an audit compares views: give at least two")
    dealt = assign_folds(sources[0].rows, folds, groups, seed)
    if dealt.rows < 2 * dealt.count:
        raise InputError(
            f"{dealt.count} folds of two rows or more need at least {2 * dealt.count} rows; the "
            f"views have {dealt.rows}"
        )
    return dealt


@dataclass
class _Run:
    """The passes over the rows of an audit."""

    sources: Sequence[Source]
    folds: Folds
    chosen: Plan
    seed: int
    sample: int
    drop_nonfinite: bool
    engine: Engine | None
    progress: Progress | None

    def into(self, found: Found) -> None:
        """Read every tile of the plan, and compare its pairs."""
        dropped, tiles = 0, self.chosen.tiles
        if self.drop_nonfinite and self.chosen.choice != "one pass":
            # Each pass sees only some of the views, but a row is left out of all of them.
            finite = finite_rows(self.sources, self.chosen.block_rows)
            dropped = int(np.count_nonzero(~finite))
            self.folds = self.folds.only(finite)
        views, reduced = reduce_views(
            self.sources,
            self.chosen,
            self.folds,
            self.seed,
            engine=self.engine,
            progress=self.progress,
        )
        widths = [source.width for source in self.sources]
        for number, tile in enumerate(tiles):
            sources = [views[v] for v in tile.views]
            moments = self._read(sources, self.folds, self.sample, number)
            moments = replace(moments, dropped=moments.dropped + dropped)
            windows = read_windows(sources, moments)
            dependent = found.add(moments, tile, widths, reduced, windows, self.columns_of, sources)
            del moments  # before the next are read: the budget is for one tile
            if dependent:
                self._again(found, sources, tile, dependent, number)

    def _read(self, sources: Sequence[Source], folds: Folds, sample: int, tile: int) -> Moments:
        return read_moments(
            sources,
            folds,
            seed=self.seed,
            sample=sample,
            drop_nonfinite=self.drop_nonfinite,
            block_rows=self.chosen.block_rows if self.chosen.careful else None,
            progress=share(self.progress, tile, len(self.chosen.tiles)),
            engine=self.engine,
        )

    def _again(
        self,
        found: Found,
        sources: Sequence[Source],
        tile: Tile,
        pairs: Sequence[tuple[int, int]],
        number: int,
    ) -> None:
        """Read a tile in folds of consecutive rows, for the pairs whose rows are dependent."""
        found.add_blocked(self._read(sources, self.folds.in_runs(), 0, number), tile, pairs)

    def columns_of(self, a: int, b: int) -> Wide | None:
        """What the columns of two views say, if these are compared in the span of their rows."""
        if not self.chosen.spans or not {a, b} & set(self.chosen.reduced):
            return None
        return look_at_columns(self.sources[a], self.sources[b], self.folds)

    def saved_into(self, found: Found, path: str | os.PathLike[str], resume: bool) -> None:
        """The same for a plan of one pass, whose moments are kept in a file."""
        if self.chosen.choice != "one pass":
            raise InputError(
                "moments are saved of all views at once, for which there is not enough memory: "
                f"{self.chosen.says} Give a larger budget (--memory)"
            )
        moments = read_and_save(
            self.sources,
            self.folds,
            path,
            resume=resume,
            seed=self.seed,
            sample=self.sample,
            drop_nonfinite=self.drop_nonfinite,
            progress=self.progress,
            engine=self.engine,
        )
        sources = in_units(self.sources, moments)
        (tile,), windows = self.chosen.tiles, read_windows(sources, moments)
        dependent = found.add(moments, tile, windows=windows, sources=sources)
        del moments
        if dependent:
            self._again(found, sources, tile, dependent, 0)
