"""Checks for moments that cannot be right: values that are not finite or contradict each other.

A digest detects accidental damage, but someone who changes a file can update its digest too.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg.lapack import dpotrf

from identikit._linalg import Array, spacings
from identikit._threads import one_thread
from identikit.moments._moments import Moments
from identikit.moments._part import Part, StackLayout

#: The relative error allowed in these checks: far more than rounding, and far less than would
#: change a verdict.
SLACK = 1e-7

#: The rounding error allowed in a direction that is a difference of large numbers, as a share of
#: these numbers.
CANCELLED = 4e-9

#: In well-conditioned coordinates, directions are not scaled up beyond this share of the largest
#: scatter.
HARDLY_VARIES = 1e-5

#: The factor allowed in bounds on third and fourth moments.
LOOSE = 4.0

#: Square roots of sums that may have underflowed.
VANISHED = 2.0**-450

#: Deviations from the mean that may be rounding error, in units in its last place.
ROUNDED = 64.0


def unsound(moments: Moments) -> str | None:
    """Say which entries are not finite or inconsistent; None if all are sound."""
    arrays = [moments.sample.rows, *(moments.layout.roots or ()), *moments.layout.inverses]
    for fold, part in enumerate(moments.parts):
        numbers = (part.mean, part.scatter, part.cubic, part.quartic)
        if not part.count and any(array.any() for array in numbers):
            return f"fold {fold} has no rows, but its statistics are not zero"
        arrays += numbers
    extremes = moments.extremes
    if extremes is not None:
        arrays.append(extremes.rows)
        folds, often = np.unique(extremes.folds, return_counts=True)
        known = folds.size == 0 or (folds.min() >= 0 and folds.max() < len(moments.parts))
        if not known or any(n > moments.parts[fold].count for fold, n in zip(folds, often)):
            return "its largest rows are in folds that do not exist or have fewer rows"
    for hashes, counts in () if moments.distinct is None else moments.distinct.smallest:
        total = float(counts.astype(np.float64).sum())
        whole = len(hashes) < moments.distinct.size  # type: ignore[union-attr]
        few = total == moments.rows if whole else total <= moments.rows
        if (hashes[1:] <= hashes[:-1]).any() or (counts < 1).any() or not few:
            return "its count of distinct rows is impossible"
    for array in arrays:
        # Minimum and maximum suffice, and need no mask as large as the scatter.
        if array.size and not np.isfinite([array.min(), array.max()]).all():
            return "a statistic is not finite"
    return None


def impossible(moments: Moments) -> str | None:
    """Say which statistics cannot be those of any rows; None if all are possible.

    The scatter of the stacked views is positive semi-definite, third and fourth moments satisfy the
    Cauchy–Schwarz inequality, and no row is farther from the mean than the scatter about it allows.
    In the coordinates of ill-conditioned views only the first condition is checked.
    """
    read = moments.rows + moments.dropped
    if sum(shard.rows for shard in moments.shards) > read:
        return f"its shards have more rows than the {read} that it counts"
    layout = moments.layout
    for fold, part in enumerate(moments.parts):
        if not part.count:
            continue
        reason = _impossible(part, layout)
        if reason is None and moments.extremes is not None and layout.roots is None:
            rows = moments.extremes.rows[moments.extremes.folds == fold]
            if not _within(rows, part.mean, _own_squares(part, layout)):
                reason = "has largest rows that its scatter does not allow"
        if reason:
            return f"the statistics of fold {fold} are impossible: it {reason}"
    if len(moments.sample.rows) and layout.roots is None:
        views = range(len(moments.names))
        centre = np.concatenate([moments.centre(view) for view in views])
        squares = sum(
            _own_squares(part, layout) + part.count * (part.mean - centre) ** 2
            for part in moments.parts
        )
        if not _within(moments.sample.rows, centre, squares + _rounding(moments.rows, centre)):
            return "its sample has rows that its statistics do not allow"
    return None


def _impossible(part: Part, layout: StackLayout) -> str | None:
    squares = _own_squares(part, layout)
    if part.count == 1 and (squares > 2 * _rounding(1, part.mean)).any():
        return "has only one row, but a scatter that is not zero"
    if not _semi_definite(part, layout):
        return "has a scatter matrix that is not positive semi-definite"
    if layout.roots is not None:
        return None
    # Third and fourth moments may have large rounding errors, so these bounds are loose.
    rounding = _rounding(part.count, part.mean)
    sizes = np.array([rounding[columns].sum() for columns in layout.columns])
    traces = np.maximum(layout.traces(part.scatter), 0.0)
    fourth = LOOSE * np.maximum(np.diagonal(part.quartic), 0.0)
    roots = np.sqrt(fourth) + np.sqrt(LOOSE / part.count) * (sizes + np.sqrt(sizes * traces))
    roots += VANISHED
    if (
        (np.abs(part.cubic) > np.outer(roots, np.sqrt(squares) + VANISHED)).any()
        or (np.abs(part.quartic) > np.outer(roots, roots)).any()
        or (traces > np.sqrt(part.count) * roots + sizes).any()
    ):
        return "has third or fourth moments that its second moments do not allow"
    return None


def _own_squares(part: Part, layout: StackLayout) -> Array:
    """Σ (x − m)² of every column, plus its possible rounding error."""
    squares = np.diagonal(part.scatter)
    if layout.roots is not None:
        squares = np.concatenate(
            [
                np.einsum("ij,ij->j", root, part.scatter[c, c] @ root)
                for root, c in zip(layout.roots, layout.columns)
            ]
        )
    found: Array = np.maximum(squares, 0.0) + _rounding(part.count, part.mean)
    return found


def _rounding(rows: int, mean: Array) -> Array:
    """The sum of squares that rounding alone may cause in a constant column."""
    found: Array = rows * (ROUNDED * spacings(mean, 2.0**-52)) ** 2
    return found


def _within(rows: Array, centre: Array, squares: Array) -> bool:
    """Whether no row's squared deviation exceeds the sum of squares of all rows, per column."""
    return bool(((rows - centre) ** 2 <= (1 + SLACK) * squares).all())


def _semi_definite(part: Part, layout: StackLayout) -> bool:
    """Whether a scatter matrix is positive semi-definite up to rounding, once standardised."""
    sizes = np.maximum(np.diagonal(part.scatter), 0.0)
    if layout.roots is None:
        sizes = sizes + _rounding(part.count, part.mean)
    else:
        own = np.sqrt(_own_squares(part, layout))
        terms = [own[c] @ np.abs(inverse) for c, inverse in zip(layout.columns, layout.inverses)]
        sizes = sizes + (CANCELLED * np.concatenate(terms)) ** 2
        sizes = np.maximum(sizes, HARDLY_VARIES * sizes.max(initial=0.0))
    unit = 1 / np.sqrt(np.maximum(sizes, VANISHED**2))
    standardised = np.asfortranarray(part.scatter * unit[:, None] * unit)
    standardised[np.diag_indices_from(standardised)] += SLACK
    with one_thread(len(standardised)):
        _, failed = dpotrf(standardised, overwrite_a=1)
    return bool(failed == 0)
