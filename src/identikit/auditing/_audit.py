"""The audit of views: open them, plan the reading, read moments, compare pairs, give a verdict."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from identikit._progress import Progress, share
from identikit._threads import in_threads, no_threads
from identikit._version import __version__
from identikit.auditing._axes import AxesOfViews, sample_rows
from identikit.auditing._compare import compare, describe, with_runs
from identikit.auditing._evidence import Context
from identikit.auditing._plan import Plan, pairs_at_a_time, plan, reduce_views
from identikit.auditing._verdict import SLACK, verdict_on
from identikit.auditing._wide import look_at_columns
from identikit.auditing._windows import read_windows
from identikit.auditing.checks import checked_thresholds
from identikit.auditing.checks.transposed import ROWS_A_COLUMN, question
from identikit.auditing.result import Audit, Pair, Settings, View
from identikit.errors import InputError
from identikit.moments import (
    DUPLICATES,
    FOLD_RULES,
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
from identikit.moments.memory import default_memory
from identikit.moments.sample import RowSample
from identikit.sources import BY_POSITION, Source, open_sources, paired, read_labels, unpack

#: The numbers of two views in the audit.
Numbers = tuple[int, int]


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
    """Compare every pair of views, and find the strictest rung up to which they are the same.

    Parameters
    ----------
    views : sequence, mapping, Moments or path
        Two or more views of the same rows, in a list or by name: arrays, tensors, data frames, or
        paths (see `accumulate`). Or moments, or a ``.moments`` file, which have folds, names and a
        row sample of their own.
    names : sequence of str, optional
        Names of the views.
    folds : int
        At least 5: errors are held out fold by fold, and intervals come from the jackknife over
        folds. With groups at least 3; if there are fewer groups than folds, each is its own fold.
    groups : array (rows,) or "duplicates", optional
        One label per row; dependent rows (tokens of a sentence, crops of an image) share a label,
        and so a fold. Without it, folds are small blocks of rows that are scattered at random, and
        a check ("dependent rows") asks whether rows depend on others nearby; if so, they are read
        again in folds of consecutive rows (`Pair.blocked`). With "duplicates", rows that are equal
        in all views share a fold, which takes one more pass over the rows.
    tolerance : float
        The largest error that counts as the same.
    seed : int
        The seed of the folds, and of the row sample that is used for neighbour overlap, rank
        correlation and the scatter plots.
    ids : str or sequence, optional
        Pair rows by id instead of by position. Give the name of the column, or of the array, that
        holds the ids in each view's own file (several columns separated by commas, as in
        "plate,well"; a different name for each view separated by colons, as in "doc_id:docId"), or
        one array or file of ids per view. Rows without a partner are left out. Data frames are
        paired by their indexes if all of them have an index that is not the default one and whose
        labels are unique; `Settings.pairing` says what was done.
    ica : bool
        Also compare the axes that ICA finds in each view alone (`Pair.ica`), on a sample of at most
        20,000 rows.
    drop_nonfinite : bool
        Leave rows with a NaN or infinity out of all views, instead of raising.
    memory : int, optional
        Bytes that the audit may add to the process, half of the machine's memory by default. If the
        views do not all fit at once, pairs are read in several passes, with the same result; if a
        pair does not fit, wide views are first reduced to their leading principal directions
        (`View.reduced_to`, `View.lost`), which are computed from all rows of each view alone.
    engine : str, Engine or distributed.Client, optional
        What reads the rows: this process ("single"), processes of this machine ("pool"), a Dask
        cluster that is started for the call ("dask"), a scheduler's address, or a Dask client.
    save_moments : path, optional
        Save the statistics in this ``.moments`` file. While rows are read, the progress is saved
        beside it, so that little is lost if the process is killed.
    resume : bool
        Continue from the progress that was saved there.
    progress : callable, optional
        Called with (the name of the step, steps done, steps in all).
    checks : mapping of str to float, optional
        Thresholds that replace the defaults of checks, as in ``{"outlier_rows": 0.05}``; a check is
        called by the name of its file in `identikit.auditing.checks`.

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
    context = Context(tolerance, thresholds=checked_thresholds(checks))
    moments = _moments_of(views)
    if moments is not None:
        _refuse_row_options(
            names=names,
            groups=groups,
            ids=ids,
            drop_nonfinite=drop_nonfinite,
            engine=engine,
            save_moments=save_moments,
            resume=resume,
        )
        return _audit_moments(moments, context, AxesOfViews() if ica else None, progress)
    _check_folds(folds, f"not {folds}", grouped=groups is not None)
    if resume and save_moments is None:
        raise InputError(
            "to resume, give the file in which the moments are saved: save_moments (--save-moments)"
        )
    with ExitStack() as stack:
        opened = _open(stack, views, names, ids, folds, groups, seed, memory)
        rows, widths = opened.folds.rows, [source.width for source in opened.sources]
        sample, room = sample_rows(widths, memory) if ica else (SAMPLE, memory)
        # Moments that are saved must be those of the whole views, not of reduced ones.
        chosen = plan(widths, opened.folds.count, rows, room, spans=save_moments is None)
        if save_moments is not None and chosen.choice != "one pass":
            raise InputError(
                "moments can be saved only if all views are read at once, for which there is not "
                f"enough memory: {chosen.says} Give a larger budget (--memory)"
            )
        workers = stack.enter_context(engine_for(engine))
        reading = Reading(
            chosen, seed, sample, drop_nonfinite, workers, save_moments, resume, progress
        )

        def audited(sources: Sequence[Source]) -> Audit:
            axes = AxesOfViews() if ica else None
            return _audited(replace(opened, sources=sources), reading, context, axes)

        return in_range(audited, opened.sources)


def _moments_of(views: object) -> Moments | None:
    """The moments, if moments or a file of them were given instead of views."""
    if isinstance(views, list | tuple) and len(views) == 1:
        (views,) = views
    if isinstance(views, Moments):
        return views
    if isinstance(views, str | os.PathLike) and Path(views).suffix == SUFFIX:
        return load_moments(views)
    return None


def _refuse_row_options(**options: object) -> None:
    """Refuse options that apply to the reading of rows, when moments are given."""
    for name, value in options.items():
        if value is not None and value is not False:
            raise InputError(
                f"{name} is for views whose rows are still to be read, but these are moments: give "
                "it when the moments are computed (identikit moments)"
            )


def _check_folds(folds: int, has: str, *, grouped: bool) -> None:
    least = LEAST_GROUPS if grouped else FOLDS
    if folds < least:
        raise InputError(f"an audit needs at least {least} folds for its intervals, {has}")


@dataclass(frozen=True)
class Opened:
    """Open views, the fold of every row, and a description of how rows were paired."""

    sources: Sequence[Source]
    folds: Folds
    pairing: str


def _open(
    stack: ExitStack,
    views: object,
    names: Sequence[str] | None,
    ids: str | Sequence[object] | None,
    folds: int,
    groups: ArrayLike | str | None,
    seed: int,
    memory: int | None,
) -> Opened:
    """Open the views, pair their rows, and assign these to folds; the stack closes the views.

    The options are those of `audit`.
    """
    # A single path is passed on; `open_sources` reports the error.
    listed, names = unpack(views, names)
    together = stack.enter_context(paired(listed, ids, names, memory=memory))
    sources = open_sources(together.views, together.names)
    for source in sources:
        stack.callback(source.close)
    if len(sources) < 2:
        raise InputError("an audit compares views: give at least two")
    labels, matched = groups, together.matched
    if isinstance(groups, str) and groups == DUPLICATES:
        labels = duplicate_groups(sources)
    elif matched is not None and groups is not None:
        labels = matched.pick(read_labels(groups))
    dealt = assign_folds(sources[0].rows, folds, labels, seed)
    if dealt.rows < 2 * dealt.count:
        raise InputError(
            f"{dealt.count} folds of two rows or more need at least {2 * dealt.count} rows; the "
            f"views have {dealt.rows}"
        )
    narrowest = min(source.width for source in sources)
    if dealt.rows < ROWS_A_COLUMN * narrowest:
        warnings.warn(question(dealt.rows, narrowest), stacklevel=3)  # before any work is done
    return Opened(sources, dealt, BY_POSITION if matched is None else str(matched))


@dataclass(frozen=True)
class Reading:
    """How the rows of an audit are read: the plan, and the options that apply to it."""

    plan: Plan
    seed: int
    sample: int
    drop_nonfinite: bool
    engine: Engine | None
    save_moments: str | os.PathLike[str] | None
    resume: bool
    progress: Progress | None


def _audited(opened: Opened, reading: Reading, context: Context, axes: AxesOfViews | None) -> Audit:
    """Read the tiles of the plan one after another, and compare the pairs of each."""
    originals, folds, dropped = opened.sources, opened.folds, 0
    chosen, progress = reading.plan, reading.progress
    if reading.drop_nonfinite and chosen.choice != "one pass":
        # Each pass reads only some of the views, but a row must be left out of all of them.
        finite = finite_rows(originals, chosen.block_rows)
        folds, dropped = folds.only(finite), int(np.count_nonzero(~finite))
    compared, reduced = reduce_views(
        originals, chosen, folds, reading.seed, engine=reading.engine, progress=progress
    )

    def of_pair(context: Context, a: int, b: int) -> Context:
        """Add what is known of two views; the columns of reduced ones are not the original ones."""
        own = {a, b}.isdisjoint(reduced)
        spans = chosen.spans and not own
        wide = look_at_columns(originals[a], originals[b], folds) if spans else None
        return replace(context, axes=own, wide=wide)

    views: dict[int, View] = {}
    pairs: dict[Numbers, Pair] = {}
    total = sum(len(tile.pairs) for tile in chosen.tiles)
    for number, tile in enumerate(chosen.tiles):
        sources = [compared[v] for v in tile.views]
        moments = _moments(sources, folds, reading, number)
        moments = replace(
            moments, dropped=moments.dropped + dropped, roomy=chosen.roomy, _cache={}, _pair={}
        )
        if reading.save_moments is not None:
            sources = in_units(sources, moments)
        here = replace(
            context,
            grouped=folds.grouped,
            windows=read_windows(sources, moments),
            rows=partial(_all_rows, sources, Lock()),
        )
        for numbers, pair in _pairs(moments, tile, here, axes, of_pair, chosen.threads):
            pairs[numbers] = pair
            if progress is not None:
                progress("comparing", len(pairs), total)
        for place, v in enumerate(tile.views):
            if v not in views:
                view, what = describe(moments, place), reduced.get(v)
                if what is not None:
                    view = replace(view, dims=originals[v].width)
                if what is not None and not what.whole:
                    view = replace(view, reduced_to=what.dims, lost=what.lost)
                views[v] = view
        rows, settings = moments.rows, _settings(moments, context)
        del moments  # before the next are read: the memory budget is for one tile
        dependent = [key for key in tile.pairs if here.dependent(*_places(tile, key))]
        if dependent:
            pairs |= _blocked(pairs, dependent, sources, folds, reading, number)
    settings = replace(settings, reading=chosen.says, pairing=opened.pairing)
    return assemble(rows, views, pairs, settings)


def _moments(sources: Sequence[Source], folds: Folds, reading: Reading, number: int) -> Moments:
    """Read the moments of a tile's views, and save them if that was asked for."""
    if reading.save_moments is not None:
        return read_and_save(
            sources,
            folds,
            reading.save_moments,
            resume=reading.resume,
            seed=reading.seed,
            sample=reading.sample,
            drop_nonfinite=reading.drop_nonfinite,
            progress=reading.progress,
            engine=reading.engine,
        )
    chosen = reading.plan
    return read_moments(
        sources,
        folds,
        seed=reading.seed,
        sample=reading.sample,
        drop_nonfinite=reading.drop_nonfinite,
        block_rows=chosen.block_rows if chosen.careful else None,
        progress=share(reading.progress, number, len(chosen.tiles)),
        engine=reading.engine,
    )


def _pairs(
    moments: Moments,
    tile: Tile,
    context: Context,
    axes: AxesOfViews | None,
    of_pair: Callable[[Context, int, int], Context] = lambda context, _a, _b: context,
    threads: int = 1,
) -> Iterator[tuple[Numbers, Pair]]:
    """Compare the pairs of a tile, given its moments.

    `context` is what is known of all views, and `of_pair` adds what is known of two of them;
    `threads` pairs are compared at a time.
    """
    fewest = min(part.count for part in moments.parts)
    if fewest < 2:
        raise InputError(
            f"a fold has only {fewest} rows left; give more rows, fewer folds or finer groups"
        )
    few = _with_small_sample(moments)

    def asked() -> Iterator[tuple[Numbers, Numbers, Context]]:
        for a, b in tile.pairs:
            places = _places(tile, (a, b))
            ica = None if axes is None else axes.shared(moments, places, (a, b))
            yield (a, b), places, replace(of_pair(context, a, b), ica=ica)

    def compared(pair: tuple[Numbers, Numbers, Context]) -> tuple[Numbers, Pair]:
        numbers, places, known = pair
        return numbers, compare(few.for_pair(), *places, known)

    # With several pairs each thread takes one, otherwise the folds of the pair are in threads.
    with nullcontext() if moments.keeps else no_threads():
        yield from in_threads(compared, asked(), max(moments.widths), threads)


def _all_rows(sources: Sequence[Source], lock: Lock, view: int) -> NDArray[Any]:
    with lock:  # readers of some formats are not made for several threads
        return sources[view].read(0, sources[view].rows)


def _places(tile: Tile, numbers: Numbers) -> Numbers:
    """The positions of two views in the moments of a tile."""
    return tile.views.index(numbers[0]), tile.views.index(numbers[1])


def _with_small_sample(moments: Moments) -> Moments:
    """The moments with a sample small enough to compare all of its rows with each other."""
    sample = moments.sample
    if len(sample.keys) <= SAMPLE:
        return moments
    few = RowSample(SAMPLE, sample.keys[:SAMPLE], sample.rows[:SAMPLE])
    return replace(moments, sample=few)


def _blocked(
    pairs: Mapping[Numbers, Pair],
    dependent: Sequence[Numbers],
    sources: Sequence[Source],
    folds: Folds,
    reading: Reading,
    number: int,
) -> dict[Numbers, Pair]:
    """Add to pairs with dependent rows the errors in folds of consecutive rows."""
    again = replace(reading, sample=0, save_moments=None)
    runs = _moments(sources, folds.in_runs(), again, number)
    tile = reading.plan.tiles[number]
    return {key: with_runs(pairs[key], runs, *_places(tile, key)) for key in dependent}


def _settings(moments: Moments, context: Context) -> Settings:
    return Settings(
        folds=moments.folds,
        fold_rule=FOLD_RULES[moments.rule] or "a rule that was not recorded",
        tolerance=context.tolerance,
        slack=SLACK,
        seed=moments.seed,
        dropped=moments.dropped,
        sample=min(len(moments.sample.keys), SAMPLE),
    )


def assemble(
    rows: int, views: Mapping[int, View], pairs: Mapping[Numbers, Pair], settings: Settings
) -> Audit:
    """Make an audit of views and pairs, given by number, with the verdict on the worst pair."""
    every = tuple(pairs[key] for key in sorted(pairs))
    ordered = tuple(views[v] for v in sorted(views))
    return Audit(__version__, rows, ordered, every, verdict_on(every), settings)


def _audit_moments(
    moments: Moments, context: Context, axes: AxesOfViews | None, progress: Progress | None
) -> Audit:
    """The audit of given moments."""
    count = len(moments.names)
    if count < 2:
        raise InputError(f"an audit compares at least two views, and these moments are of {count}")
    has = f"and these moments have {moments.folds}; compute them again with --folds {FOLDS}"
    _check_folds(moments.folds, has, grouped=bool(moments.grouped))
    context = replace(context, grouped=bool(moments.grouped))
    tile = Tile(tuple(range(count)), tuple(combinations(range(count), 2)))
    pairs: dict[Numbers, Pair] = {}
    room = default_memory()
    threads, roomy = pairs_at_a_time([moments.widths], moments.folds, moments.rows, room)
    moments = replace(moments, roomy=roomy, _cache={}, _pair={})
    for numbers, pair in _pairs(moments, tile, context, axes, threads=threads):
        pairs[numbers] = pair
        if progress is not None:
            progress("comparing", len(pairs), len(tile.pairs))
    shards = f" of {len(moments.shards)} shards" if moments.shards else ""
    reading = f"No rows were read: the statistics{shards} were given."
    settings = replace(_settings(moments, context), reading=reading, pairing=BY_POSITION)
    views = {view: describe(moments, view) for view in range(count)}
    return assemble(moments.rows, views, pairs, settings)
