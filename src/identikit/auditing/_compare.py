"""All that an audit says of one view, and of two."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identikit._linalg import Array
from identikit.alignment import axis_free
from identikit.auditing._evidence import Evidence
from identikit.auditing._influence import decided_by
from identikit.auditing._verdict import RELATED, UNRELATED, judge, related_by
from identikit.auditing._wide import Wide
from identikit.auditing._windows import Window, depends, only_in_order
from identikit.auditing.checks import run_checks
from identikit.auditing.result import CCASummary, CKASummary, Pair, SharedAxes, View
from identikit.inference import (
    adjusted_r2,
    cca_chance,
    cca_chance_edge,
    held_out_cca,
)
from identikit.moments import Moments
from identikit.similarity import cca, cka, score_measures

#: Rows drawn in the report.
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


def compare(
    moments: Moments,
    i: int,
    j: int,
    tolerance: float,
    *,
    grouped: bool,
    axes: bool = True,
    windows: tuple[Window, ...] | None = None,
    ica: SharedAxes | str | None = None,
    wide: Wide | None = None,
    rows: Callable[[int], NDArray[Any]] | None = None,
    thresholds: Mapping[str, float] | None = None,
) -> Pair:
    """All that an audit says of two views.

    Parameters
    ----------
    moments : Moments
        Of these views and perhaps others.
    i, j : int
        The two views.
    tolerance : float
        The largest error that counts as the same.
    grouped : bool
        Whether folds are whole groups of rows.
    axes : bool
        If false, nothing is said of single columns: reduced views have none of their own.
    windows : tuple of Window, optional
        Rows in their order, where rows are at hand.
    ica : SharedAxes or str, optional
        What the axes after ICA say, or why there are none.
    wide : Wide, optional
        If these views are the span of the rows of views with more columns: what those say.
    rows : callable, optional
        Reads all rows of a view of these moments.
    thresholds : mapping, optional
        Of checks, by name, in place of their own.
    """
    measures = score_measures(moments, i, j, axes=axes)
    groups = None if axes else axis_free()
    judged = judge(moments, i, j, groups, {} if wide is None else wide.residuals)
    rungs, group, chosen, candidates = judged.rungs, judged.group, judged.rung, judged.candidates
    influence = decided_by(moments, i, j, judged, groups)
    # What kernels and neighbours score by chance is known of independent rows only.
    if group == UNRELATED and not (grouped or depends(windows, i, j)) and related_by(measures):
        group, candidates = RELATED, (RELATED,)
    order_only = group != UNRELATED and not grouped and only_in_order(windows, i, j)
    if order_only:
        group, candidates = UNRELATED, (UNRELATED,)
    spectrum, p, q = cca(moments, i, j), moments.whiten(i).rank, moments.whiten(j).rank
    n = moments.rows
    chance = cca_chance(n, p, q)
    held_out = held_out_cca(moments, i, j)
    square = spectrum.mean_square
    biased = cka(moments, i, j)
    assert biased.value is not None  # the ladder has refused constant views
    assert biased.chance is not None
    evidence = Evidence(
        moments,
        i,
        j,
        rungs,
        group,
        spectrum,
        chance,
        grouped,
        windows,
        ica,
        influence,
        error=chosen.error,
        order_only=order_only,
        wide=wide,
        rows=rows,
        axes=axes,
    )
    pair = Pair(
        a=moments.names[i],
        b=moments.names[j],
        group=group,
        candidates=candidates,
        error=chosen.error,
        interval=chosen.interval,
        within_tolerance=False,
        ladder=rungs,
        cca=CCASummary(
            mean=spectrum.mean,
            held_out=None if held_out is None else held_out.value,
            held_out_interval=None if held_out is None else held_out.interval,
            chance=chance,
            adjusted_r2=None if square is None else adjusted_r2(square, n, p, q),
            rank=spectrum.rank,
        ),
        cka=CKASummary(biased.value, cka(moments, i, j, debiased=True).value, biased.chance),
        measures=measures,
        checks=run_checks(evidence, thresholds or {}),
        correlations=spectrum.correlations,
        chance_edge=cca_chance_edge(n, p, q),
        points=_canonical_variates(moments, i, j),
        ica=ica if isinstance(ica, SharedAxes) else None,
        influence=influence,
        order_only=order_only,
    )
    return replace(pair, within_tolerance=not pair.exceeds(tolerance))


def _canonical_variates(moments: Moments, i: int, j: int) -> Array:
    """The first two canonical variates of both views on some rows, at unit variance."""
    left, _, right = moments.canonical(i, j)
    sides = []
    for view, turn in ((i, left), (j, right.T)):
        rows = moments.sample_of(view)[:DRAWN] - moments.centre(view)
        sides.append(rows @ moments.whitening_map(view) @ turn[:, :2])
    variates: Array = np.stack(sides, axis=1) * np.sqrt(moments.rows - 1)
    return variates
