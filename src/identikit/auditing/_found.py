"""What an audit has found so far, pass by pass, and the verdict on it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from identikit._linalg import one_thread
from identikit._version import __version__
from identikit.alignment import GROUPS
from identikit.auditing._axes import AxesOfViews
from identikit.auditing._compare import compare, describe
from identikit.auditing._plan import Reduced
from identikit.auditing._result import Audit, Pair, Settings, Verdict, View
from identikit.auditing._verdict import SLACK, UNRELATED
from identikit.auditing._wide import Wide
from identikit.auditing._windows import Window
from identikit.errors import InputError
from identikit.moments import FOLD_RULES, SAMPLE, Moments, Tile
from identikit.moments._sample import RowSample
from identikit.sources import Source

Progress = Callable[[str, int, int], None]


@dataclass
class Found:
    """What an audit has found so far, pass by pass."""

    tolerance: float
    grouped: bool
    total: int
    axes: AxesOfViews | None
    progress: Progress | None
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
    ) -> None:
        """Compare the pairs of a pass, given its moments."""
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
        few = _few_rows(moments)
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
                )
            if self.progress is not None:
                self.progress("comparing", len(self.pairs), self.total)
        self.last = {
            "rows": moments.rows,
            "folds": moments.folds,
            "fold_rule": FOLD_RULES[moments.grouped] or "a rule that was not kept",
            "seed": moments.seed,
            "dropped": moments.dropped,
            "sample": len(few.sample.keys),
        }

    def audit(self, tolerance: float, *, reading: str, pairing: str) -> Audit:
        """The verdict on all pairs."""
        comparisons = tuple(self.pairs[key] for key in sorted(self.pairs))
        worst = max(comparisons, key=lambda pair: (round(pair.error, 6), _looseness(pair.group)))
        loosest = max((pair.group for pair in comparisons), key=_looseness)
        verdict = Verdict(
            worst.group,
            worst.error,
            worst.interval,
            worst.within_tolerance,
            worst.a,
            worst.b,
            loosest,
        )
        rows = self.last.pop("rows")
        settings = Settings(
            tolerance=tolerance, slack=SLACK, reading=reading, pairing=pairing, **self.last
        )
        views = tuple(self.views[v] for v in sorted(self.views))
        return Audit(__version__, rows, views, comparisons, verdict, settings)


def _few_rows(moments: Moments) -> Moments:
    """The moments with a sample that all its rows can be compared with each other in."""
    sample = moments.sample
    if len(sample.keys) <= SAMPLE:
        return moments
    few = RowSample(SAMPLE, sample.keys[:SAMPLE], sample.rows[:SAMPLE])
    return replace(moments, sample=few)


def _looseness(group: str) -> int:
    return [*GROUPS, UNRELATED].index(group)


def _check_folds(moments: Moments) -> None:
    few = min(part.count for part in moments.parts)
    if few < 2:
        raise InputError(
            f"a fold has only {few} rows left; give more rows, fewer folds or finer groups"
        )
