"""Views in, a verdict out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from identikit._linalg import one_thread
from identikit._version import __version__
from identikit.alignment import GROUPS
from identikit.auditing._compare import compare, describe
from identikit.auditing._result import Audit, Pair, Settings, Verdict, View
from identikit.auditing._verdict import SLACK, UNRELATED
from identikit.errors import InputError
from identikit.moments import Moments, assign_folds, finite_rows, read_moments, tiles
from identikit.sources import Source, open_sources

Progress = Callable[[str, int, int], None]

#: Rows kept for the measures that need rows.
SAMPLE = 1000


def audit(
    views: Sequence[object],
    names: Sequence[str] | None = None,
    folds: int = 5,
    groups: ArrayLike | None = None,
    tolerance: float = 0.1,
    seed: int = 0,
    *,
    drop_nonfinite: bool = False,
    memory: int | None = None,
    progress: Progress | None = None,
) -> Audit:
    """Compare every pair of views and say what they are the same up to.

    Parameters
    ----------
    views : sequence
        Two or more views of the same rows: arrays, torch tensors, or paths (see `accumulate`).
    names : sequence of str, optional
        Names of the views.
    folds : int
        At least 5: errors are held out fold by fold, intervals are jackknifed over folds.
    groups : array (rows,), optional
        A label a row; dependent rows (tokens of a sentence, crops of an image) share a label and so
        a fold. Without it, folds are runs of consecutive rows.
    tolerance : float
        The largest error that counts as the same.
    seed : int
        Of the row sample that neighbour overlap, rank correlation and the scatter plots use.
    drop_nonfinite : bool
        Leave rows with a NaN or infinity out of all views, instead of raising.
    memory : int, optional
        Bytes the statistics may take, a quarter of the machine's memory by default; if all views
        do not fit at once, pairs are done in several passes, with the same result.
    progress : callable, optional
        Called with (what is being done, done, of how many).

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
    if folds < 5:
        raise InputError(f"an audit needs at least 5 folds for its intervals, not {folds}")
    if not tolerance >= 0:
        raise InputError(f"the tolerance is {tolerance}; it must not be negative")
    sources = open_sources(views, names)
    try:
        if len(sources) < 2:
            raise InputError("an audit compares views: give at least two")
        rows = sources[0].rows
        if rows < 2 * folds:
            raise InputError(
                f"{folds} folds of two rows or more need at least {2 * folds} rows; "
                f"the views have {rows}"
            )
        folds_of_rows = assign_folds(rows, folds, groups)
        plan = tiles([source.width for source in sources], folds, memory)
        dropped = 0
        if drop_nonfinite and len(plan) > 1:
            # Each pass sees only some of the views, but a row is left out of all of them.
            finite = finite_rows(sources)
            dropped = int(np.count_nonzero(~finite))
            folds_of_rows = folds_of_rows.only(finite)
        described: dict[int, View] = {}
        pairs: dict[tuple[int, int], Pair] = {}
        total = sum(len(tile.pairs) for tile in plan)
        for number, tile in enumerate(plan):
            moments = read_moments(
                [sources[v] for v in tile.views],
                folds_of_rows,
                seed=seed,
                sample=SAMPLE,
                drop_nonfinite=drop_nonfinite,
                progress=_reading(progress, number, len(plan)),
            )
            moments = replace(moments, dropped=moments.dropped + dropped)
            _check_folds(moments)
            for v in tile.views:
                described.setdefault(v, describe(moments, tile.views.index(v)))
            for a, b in tile.pairs:
                i, j = tile.views.index(a), tile.views.index(b)
                with one_thread(max(sources[a].width, sources[b].width)):
                    pairs[a, b] = compare(moments, i, j, tolerance, grouped=groups is not None)
                if progress is not None:
                    progress("comparing", len(pairs), total)
        return _result(sources, described, pairs, moments, tolerance, seed, groups is not None)
    finally:
        for source in sources:
            source.close()


def _reading(progress: Progress | None, tile: int, tiles: int) -> Callable[[int, int], None] | None:
    if progress is None:
        return None
    return lambda done, rows: progress("reading", tile * rows + done, tiles * rows)


def _check_folds(moments: Moments) -> None:
    few = min(part.count for part in moments.parts)
    if few < 2:
        raise InputError(
            f"a fold has only {few} rows left; give more rows, fewer folds or finer groups"
        )


def _result(
    sources: Sequence[Source],
    described: dict[int, View],
    pairs: dict[tuple[int, int], Pair],
    moments: Moments,
    tolerance: float,
    seed: int,
    grouped: bool,
) -> Audit:
    comparisons = tuple(pairs[key] for key in sorted(pairs))
    worst = max(comparisons, key=lambda pair: (round(pair.error, 6), _looseness(pair.group)))
    loosest = max((pair.group for pair in comparisons), key=_looseness)
    return Audit(
        __version__,
        moments.rows,
        tuple(described[v] for v in range(len(sources))),
        comparisons,
        Verdict(
            worst.group,
            worst.error,
            worst.interval,
            worst.within_tolerance,
            worst.a,
            worst.b,
            loosest,
        ),
        Settings(
            folds=moments.folds,
            fold_rule="whole groups of rows" if grouped else "runs of consecutive rows",
            tolerance=tolerance,
            slack=SLACK,
            seed=seed,
            dropped=moments.dropped,
            sample=len(moments.sample.keys),
        ),
    )


def _looseness(group: str) -> int:
    return [*GROUPS, UNRELATED].index(group)
