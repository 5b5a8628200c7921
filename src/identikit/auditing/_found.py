"""What an audit has found so far, pass by pass, and the verdict on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from identikit._linalg import one_thread
from identikit._progress import Progress
from identikit._version import __version__
from identikit.alignment import RUNGS, ladder
from identikit.auditing._axes import AxesOfViews
from identikit.auditing._axes import rung as rung_of
from identikit.auditing._compare import compare, describe
from identikit.auditing._plan import Reduced
from identikit.auditing._verdict import RELATED, SLACK, UNRELATED
from identikit.auditing._wide import Wide
from identikit.auditing._windows import Window, depends
from identikit.auditing.checks.dependent_rows import NAME, with_blocked
from identikit.auditing.result import Audit, Pair, RungError, Settings, Verdict, View
from identikit.errors import InputError
from identikit.moments import FOLD_RULES, SAMPLE, Moments, Tile
from identikit.moments.sample import RowSample
from identikit.sources import Source


@dataclass
class Found:
    """What an audit has found so far, pass by pass."""

    tolerance: float
    grouped: bool
    total: int
    axes: AxesOfViews | None
    progress: Progress | None
    thresholds: Mapping[str, float] = field(default_factory=dict)
    views: dict[int, View] = field(default_factory=dict)
    pairs: dict[tuple[int, int], Pair] = field(default_factory=dict)
    last: dict[str, Any] = field(default_factory=dict)

    def add(
        self,
        moments: Moments,
        tile: Tile,
        widths: Sequence[int] | None = None,
        reduced: dict[int, Reduced] | None = None,
        windows: tuple[Window, ...] | None = None,
        wide: Callable[[int, int], Wide | None] = lambda _a, _b: None,
        sources: Sequence[Source] = (),
    ) -> list[tuple[int, int]]:
        """Compare the pairs of a pass, given its moments; return those with dependent rows."""
        _check_folds(moments)
        reduced = reduced or {}
        for place, v in enumerate(tile.views):
            if v not in self.views:
                view = describe(moments, place)
                if widths is not None and v in reduced:
                    what = reduced[v]
                    view = replace(view, dims=widths[v])
                    if not what.whole:
                        view = replace(view, reduced_to=what.dims, lost=what.lost)
                self.views[v] = view
        few, dependent = _few_rows(moments), []
        for a, b in tile.pairs:
            i, j = tile.views.index(a), tile.views.index(b)
            ica = None if self.axes is None else self.axes.shared(moments, (i, j), (a, b))
            with one_thread(max(moments.widths[i], moments.widths[j])):
                self.pairs[a, b] = compare(
                    few,
                    i,
                    j,
                    self.tolerance,
                    grouped=self.grouped,
                    axes=a not in reduced and b not in reduced,
                    windows=windows,
                    ica=ica,
                    wide=wide(a, b),
                    rows=(lambda v: sources[v].read(0, sources[v].rows)) if sources else None,
                    thresholds=self.thresholds,
                )
            if not self.grouped and depends(windows, i, j):
                dependent.append((a, b))
            if self.progress is not None:
                self.progress("comparing", len(self.pairs), self.total)
        self.last = {
            "rows": moments.rows,
            "folds": moments.folds,
            "fold_rule": FOLD_RULES[moments.rule] or "a rule that was not kept",
            "seed": moments.seed,
            "dropped": moments.dropped,
            "sample": len(few.sample.keys),
        }
        return dependent

    def add_blocked(self, runs: Moments, tile: Tile, pairs: Sequence[tuple[int, int]]) -> None:
        """Say of some pairs what happens if whole stretches of rows are left out.

        Parameters
        ----------
        runs : Moments
            Of the same pass in folds of consecutive rows.
        tile : Tile
            The pass.
        pairs : sequence of pairs of int
            Those with dependent rows.
        """
        for a, b in pairs:
            i, j, pair = tile.views.index(a), tile.views.index(b), self.pairs[a, b]
            # That of the verdict; of unrelated views the rung that has the error.
            group = min(pair.ladder, key=partial(_apart, pair)).group
            blocked = rung_of(group, *ladder(runs, i, j, (group,))[group])
            low, high = (
                f(*ends) for f, ends in zip((min, max), zip(pair.interval, blocked.interval))
            )
            checks = tuple(
                with_blocked(check, pair.error, blocked.error) if check.name == NAME else check
                for check in pair.checks
            )
            self.pairs[a, b] = replace(pair, interval=(low, high), blocked=blocked, checks=checks)

    def audit(self, tolerance: float, *, reading: str, pairing: str) -> Audit:
        """The verdict on all pairs."""
        comparisons = tuple(self.pairs[key] for key in sorted(self.pairs))
        worst = max(comparisons, key=_badness)
        loosest = max((pair.group for pair in comparisons), key=_looseness)
        verdict = Verdict(
            worst.group,
            worst.candidates,
            worst.error,
            worst.interval,
            worst.within_tolerance,
            worst.a,
            worst.b,
            loosest,
            worst.order_only,
        )
        rows = self.last.pop("rows")
        settings = Settings(
            tolerance=tolerance, slack=SLACK, reading=reading, pairing=pairing, **self.last
        )
        views = tuple(self.views[v] for v in sorted(self.views))
        return Audit(__version__, rows, views, comparisons, verdict, settings)


def _apart(pair: Pair, rung: RungError) -> tuple[bool, float]:
    """How far a rung is from that of the verdict."""
    return rung.group != pair.group, abs(rung.error - pair.error)


def _badness(pair: Pair) -> tuple[bool, float, int]:
    # A pair may be out of tolerance with a small error: if a few rows decide it, or their order.
    return not pair.within_tolerance, round(pair.error, 6), _looseness(pair.group)


def _few_rows(moments: Moments) -> Moments:
    """The moments with a sample that all its rows can be compared with each other in."""
    sample = moments.sample
    if len(sample.keys) <= SAMPLE:
        return moments
    few = RowSample(SAMPLE, sample.keys[:SAMPLE], sample.rows[:SAMPLE])
    return replace(moments, sample=few)


def _looseness(group: str) -> int:
    return [*RUNGS, RELATED, UNRELATED].index(group)


def _check_folds(moments: Moments) -> None:
    few = min(part.count for part in moments.parts)
    if few < 2:
        raise InputError(
            f"a fold has only {few} rows left; give more rows, fewer folds or finer groups"
        )
