"""Whether a few extreme rows decide the verdict on a pair."""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from identikit._linalg import Array
from identikit.auditing._verdict import UNRELATED, Judged, judge
from identikit.auditing.result import Influence
from identikit.errors import InputError
from identikit.moments import Moments, less_extremes

#: A row is extreme if its squared distance from the mean is this many times that of the others.
FAR = 25.0

#: Extreme rows are examined if they make up more than this share of a view's scatter.
SHARE = 0.05

#: A verdict has changed if its error has changed by more than CHANGE, or by more than SMALL_CHANGE
#: and by a factor of more than two.
CHANGE, SMALL_CHANGE = 0.1, 0.02


def decided_by(
    moments: Moments, i: int, j: int, judged: Judged, *, axes: bool = True
) -> Influence | None:
    """The extreme rows that decide the verdict on two views, if there are any.

    Rows that are far out (`FAR`) are removed from the moments, and the pair is judged again. This
    is done only if these rows make up a notable share of the scatter, and if the moments include
    their extremes.
    """
    far = extreme_rows(moments, i, j)
    if not far.any():
        return None
    assert moments.extremes is not None
    numbers = tuple(sorted(moments.extremes.numbers[far].tolist()))
    rest = less_extremes(moments, far)
    if rest is None:
        return Influence(len(numbers), numbers, None, None)
    try:
        without = judge(rest, i, j, axes=axes)
    except InputError:  # a view that is constant without them
        return Influence(len(numbers), numbers, None, None)
    if not _verdicts_differ(judged, without):
        return None
    return Influence(len(numbers), numbers, without.rung.error, without.group)


def _verdicts_differ(one: Judged, other: Judged) -> bool:
    """Whether two verdicts differ: in "unrelated", in the error, or in the best rung's error."""
    if (one.group == UNRELATED) != (other.group == UNRELATED):
        return True
    errors = [(each.rung.error, min(rung.error for rung in each.rungs)) for each in (one, other)]
    return any(_differ(min(a, 1.0), min(b, 1.0)) for a, b in zip(*errors))


def extreme_rows(moments: Moments, i: int, j: int) -> NDArray[np.bool_]:
    """Which of the largest rows are far out in one of two views; none if they weigh little."""
    if moments.extremes is None or not len(moments.extremes.numbers):
        return np.zeros(0, dtype=bool)
    nowhere = np.zeros(len(moments.extremes.numbers), dtype=bool)
    far, notable = nowhere.copy(), False
    for view in (i, j):
        own = moments.of_view("extremes", view, partial(_distances, moments, view))
        total = float(np.trace(moments.block(view, view)))
        kept = np.sort(own)[-moments.extremes.size :]
        others = (total - float(kept.sum())) / max(moments.rows - len(kept), 1)
        out = own > FAR * max(others, 0.0)
        notable |= float(own[out].sum()) > SHARE * total
        far |= out
    return far if notable else nowhere


def _distances(moments: Moments, view: int) -> Array:
    """Squared distances of the largest rows from the mean of a view."""
    assert moments.extremes is not None
    gaps = moments.extremes.rows[:, moments.layout.columns[view]] - moments.centre(view)
    return np.asarray(np.square(gaps).sum(axis=1))


def _differ(a: float, b: float) -> bool:
    gap = abs(a - b)
    return gap > CHANGE or (gap > SMALL_CHANGE and max(a, b) > 2 * min(a, b))
