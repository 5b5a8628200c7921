"""The summary of one view, and the comparison of two."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from identikit._linalg import Array
from identikit._threads import one_thread
from identikit.alignment import ladder
from identikit.auditing._evidence import Context, Evidence
from identikit.auditing._influence import decided_by
from identikit.auditing._verdict import beyond_the_ladder, judge
from identikit.auditing.checks import run_checks
from identikit.auditing.checks.dependent_rows import with_blocked
from identikit.auditing.result import CCASummary, CKASummary, Pair, RungError, SharedAxes, View
from identikit.inference import adjusted_r2, cca_chance, cca_chance_edge, held_out_cca
from identikit.moments import Moments
from identikit.similarity import cca, cka, score_measures

#: The number of rows that are plotted in the report.
DRAWN = 300


def describe(moments: Moments, view: int) -> View:
    """Name, width, rank, and effective rank: the exponential of the entropy of the spectrum."""
    spectrum = np.sqrt(moments.principal(view)[0])
    share = spectrum / max(spectrum.sum(), 1e-300)
    entropy = -float(np.sum(share * np.log(np.maximum(share, 1e-300))))
    return View(
        moments.names[view],
        moments.widths[view],
        moments.whiten(view).rank,
        float(np.exp(entropy)) if spectrum.any() else 0.0,
    )


def compare(moments: Moments, i: int, j: int, context: Context) -> Pair:
    """Compare two views, given their moments and what else is known of them."""
    with one_thread(max(moments.widths[i], moments.widths[j])):
        return _compared(moments, i, j, context)


def _compared(moments: Moments, i: int, j: int, context: Context) -> Pair:
    measures = score_measures(moments, i, j, axes=context.axes)
    of_columns = {} if context.wide is None else context.wide.residuals
    judged = judge(moments, i, j, axes=context.axes, of_columns=of_columns)
    influence = decided_by(moments, i, j, judged, axes=context.axes)
    judged = beyond_the_ladder(judged, i, j, measures, context)
    n, spectrum = moments.rows, cca(moments, i, j)
    chance, square = cca_chance(n, *spectrum.ranks), spectrum.mean_square
    held_out = held_out_cca(moments, i, j)
    biased = cka(moments, i, j)
    assert biased.value is not None  # the ladder has refused constant views
    assert biased.chance is not None
    evidence = Evidence(
        moments,
        i,
        j,
        context,
        judged.rungs,
        judged.group,
        judged.rung.error,
        spectrum,
        chance,
        influence,
        judged.order_only,
    )
    pair = Pair(
        a=moments.names[i],
        b=moments.names[j],
        group=judged.group,
        candidates=judged.candidates,
        error=judged.rung.error,
        interval=judged.rung.interval,
        within_tolerance=False,
        ladder=judged.rungs,
        cca=CCASummary(
            mean=spectrum.mean,
            held_out=None if held_out is None else held_out.value,
            held_out_interval=None if held_out is None else held_out.interval,
            chance=chance,
            adjusted_r2=None if square is None else adjusted_r2(square, n, *spectrum.ranks),
            rank=spectrum.rank,
        ),
        cka=CKASummary(biased.value, cka(moments, i, j, debiased=True).value, biased.chance),
        measures=measures,
        checks=run_checks(evidence),
        correlations=spectrum.correlations,
        chance_edge=cca_chance_edge(n, *spectrum.ranks),
        points=_canonical_variates(moments, i, j),
        ica=context.ica if isinstance(context.ica, SharedAxes) else None,
        influence=influence,
        order_only=judged.order_only,
    )
    return replace(pair, within_tolerance=not pair.exceeds(context.tolerance))


def with_runs(pair: Pair, runs: Moments, i: int, j: int) -> Pair:
    """Add to a pair with dependent rows the error when whole stretches of rows are left out.

    `runs` are the moments of the same rows in folds of consecutive rows.
    """

    def apart(rung: RungError) -> tuple[bool, float]:
        return rung.group != pair.group, abs(rung.error - pair.error)

    # The rung of the verdict; for unrelated views, the rung with the verdict's error.
    name = min(pair.ladder, key=apart).group
    blocked = RungError.of(name, *ladder(runs, i, j, (name,))[name])
    lows, highs = zip(pair.interval, blocked.interval)
    checks = tuple(
        with_blocked(check, pair.error, blocked.error) if check.name == "dependent rows" else check
        for check in pair.checks
    )
    return replace(pair, interval=(min(lows), max(highs)), blocked=blocked, checks=checks)


def _canonical_variates(moments: Moments, i: int, j: int) -> Array:
    """The first two canonical variates of both views on some rows, at unit variance."""
    left, _, right = moments.canonical(i, j)
    sides = []
    for view, directions in ((i, left), (j, right.T)):
        rows = moments.sample_of(view)[:DRAWN] - moments.centre(view)
        sides.append(rows @ moments.whitening_map(view) @ directions[:, :2])
    variates: Array = np.stack(sides, axis=1) * np.sqrt(moments.rows - 1)
    return variates
