"""The unsupervised rung: the same axes after ICA of each view alone.

Only the order and signs of the axes are fitted to the pairing of the rows. So an error as small as
that of the best linear map shows that the axes themselves are shared. The axes of the two views
must come from different rows: on the same rows, ICA finds the same axes even in Gaussian views,
namely those along which this sample happens to be least Gaussian.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from identikit._linalg import Array, random_rotation
from identikit.alignment import RUNGS, HeldOut, PairStats, pair_stats, totals
from identikit.axes._ica_axes import distinct_rows, first_copies, half_of
from identikit.axes._ica_core import IndependentAxes, Search, independent_components, refit
from identikit.errors import InputError
from identikit.moments import Moments, accumulate

#: Number of parts of the sample, each of which is left out in turn.
PARTS = 5

#: The smallest number of rows in a half of the sample.
LEAST_ROWS = 20


def view_axes(moments: Moments, view: int, half: int, *, seed: int = 0) -> IndependentAxes:
    """ICA of one view on one half of the row sample stored in the moments.

    All copies of a row are in the same half. There are as many components as the rank of the view
    and the number of rows allow: random starts need about k² rows for k components (see `ICA`). The
    result tells whether the axes have converged, and which of them are identified.

    `half` is 0 or 1: two views that are to be compared use different halves. `seed` is that of the
    random starts.
    """
    # Halves are made from the rows of all views together, so that they are the same for two views.
    rows = moments.sample_of(view)[half_of(moments.sample.rows, half)]
    if len(rows) < LEAST_ROWS:
        raise InputError(
            f"the row sample has {len(moments.sample.keys)} rows, and ICA of two views needs at "
            f"least {2 * LEAST_ROWS}, half of them for each view; give more rows, or moments that "
            "were made with a sample"
        )
    count = components_for(moments.whiten(view).rank, distinct_rows(rows))
    return independent_components(moments, view, rows, count, Search(seed=seed))


def turned(axes: IndependentAxes, rng: np.random.Generator) -> IndependentAxes:
    """The control: the same axes after a random rotation."""
    turn = random_rotation(len(axes.unmixing), rng)
    return replace(axes, unmixing=turn @ axes.unmixing, mixing=turn @ axes.mixing)


def components_for(rank: int, rows: int) -> int:
    """The number of components that the rank and the number of distinct rows allow."""
    return max(1, min(rank, math.isqrt(rows)))


def ica_rung(
    moments: Moments, i: int, j: int, axes: tuple[IndependentAxes, IndependentAxes]
) -> tuple[HeldOut, HeldOut]:
    """Held-out error of y ≈ mixing_y ∘ P ∘ components_x, from view i to view j and back.

    P is the signed permutation of axes that fits best on the other folds. If one view has more axes
    than the other, surplus axes of the source are ignored and those of the target are predicted by
    their mean.

    The `axes` of view i and of view j must come from different rows (`view_axes`). They are
    computed once for each view and half, not for each pair. The errors, forward and backward, are
    as from `ladder`.
    """
    for view, side in zip((i, j), axes):
        if len(side.mean) != moments.widths[view]:
            raise InputError(
                f"the axes given for view {moments.names[view]!r} have {len(side.mean)} "
                f"columns, but the view has {moments.widths[view]}; fit them on that view"
            )
    folds = [fold for fold, part in enumerate(moments.parts) if part.count]
    if len(folds) < 2:
        raise InputError("a held-out error needs at least two folds with rows in them")
    residuals = np.zeros((2, len(folds)))
    for position, fold in enumerate(folds):
        train, test = pair_stats(moments, i, j, without=fold), pair_stats(moments, i, j, only=fold)
        residuals[0, position] = test.squared_error(*_fit(train, *axes))
        residuals[1, position] = test.reversed().squared_error(
            *_fit(train.reversed(), *reversed(axes))
        )
    return (
        HeldOut(residuals[0], totals(moments, j, folds)),
        HeldOut(residuals[1], totals(moments, i, folds)),
    )


def axes_apart(
    moments: Moments, view: int, half: int, axes: IndependentAxes
) -> list[IndependentAxes]:
    """Refit the axes of a view and half (`view_axes`) without each part of the sample in turn.

    The row sample of the moments must contain all rows.
    """
    rows, parts = moments.sample_of(view), _parts(moments)
    here = half_of(moments.sample.rows, half)
    found = []
    for part in range(PARTS):
        rest = accumulate([rows[parts != part]], folds=1, sample=0)
        found.append(refit(axes, rest, rows[here[parts[here] != part]]))
    return found


def corrected_rung(
    moments: Moments,
    i: int,
    j: int,
    axes: tuple[IndependentAxes, IndependentAxes],
    apart: tuple[list[IndependentAxes], list[IndependentAxes]],
) -> tuple[HeldOut, HeldOut]:
    """Error of these axes on new rows, from view i to view j and back.

    Axes look better than they are on the rows that they were found on. Let f be the map from all
    rows and f₋ₚ the map without part p. The error of f on part p is estimated by the error there of
    f₋ₚ, which has not seen this part, plus the error there of f minus the mean error of f₋₁, f₋₂, …
    (the bias correction of Burman 1989).

    The `axes` are those of `view_axes`, and `apart` those of `axes_apart`; the row sample of the
    moments must contain all rows.
    """
    x, y, parts = moments.sample_of(i), moments.sample_of(j), _parts(moments)
    stats = [_stats(x[parts == part], y[parts == part]) for part in range(PARTS)]
    fitted = [(_stats(x, y), axes)]
    fitted += [(_stats(x[parts != p], y[parts != p]), both) for p, both in enumerate(zip(*apart))]
    sides = []
    for back in (False, True):
        scored = [one.reversed() if back else one for one in stats]
        maps = [
            _fit(own.reversed(), *reversed(both)) if back else _fit(own, *both)
            for own, both in fitted
        ]
        # Parts × maps; the map from all rows comes first.
        errors = np.array([[one.squared_error(*map_) for map_ in maps] for one in scored])
        without = np.diagonal(errors[:, 1:])
        residual = np.maximum(without + errors[:, 0] - errors[:, 1:].mean(axis=1), 0.0)
        means = [own.reversed().y_mean if back else own.y_mean for own, _ in fitted[1:]]
        total = [
            float(np.trace(one.syy)) + one.n * float(np.square(one.y_mean - mean).sum())
            for one, mean in zip(scored, means)
        ]
        sides.append(HeldOut(residual, np.array(total)))
    return sides[0], sides[1]


def _parts(moments: Moments) -> Array:
    """The part of each sampled row; parts share both halves evenly and keep copies together."""
    first = first_copies(moments.sample.rows)
    place = np.cumsum(first == np.arange(len(first))) - 1
    return np.asarray(place[first] // 2 % PARTS)


def _stats(x: Array, y: Array) -> PairStats:
    return pair_stats(accumulate([x, y], folds=1, sample=0), 0, 1)


def _fit(stats: PairStats, source: IndependentAxes, target: IndependentAxes) -> tuple[Array, Array]:
    """Match the axes, and return the map from the coordinates of the source to the target's."""
    to, back = source.unmixing.T, target.unmixing
    on_axes = PairStats(
        stats.n,
        (stats.x_mean - source.mean) @ to,
        (stats.y_mean - target.mean) @ back.T,
        to.T @ stats.sxx @ to,
        to.T @ stats.sxy @ back.T,
        back @ stats.syy @ back.T,
    )
    turn, shift = RUNGS["permutation"].fit(on_axes)
    weights = to @ turn @ target.mixing
    return weights, shift @ target.mixing + target.mean - source.mean @ weights
