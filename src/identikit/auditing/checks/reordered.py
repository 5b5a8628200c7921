"""Are the rows of unrelated views the same rows in another order?"""

from __future__ import annotations

import numpy as np

from identikit._linalg import Array
from identikit.auditing._evidence import Evidence
from identikit.auditing._reordered import partners, twins
from identikit.auditing._verdict import UNRELATED
from identikit.auditing.result import Check

#: The fewest rows that say anything, and the most that are looked at: all of them must be.
FEWEST, MOST = 60, 2000

#: Standard deviations above which the two statistics are no chance.
TWINS, PARTNERS = 5.0, 8.0


def check(evidence: Evidence, threshold: float = 1.0) -> Check | None:
    """The larger of two statistics, each over the level that chance does not reach.

    `twins` finds exact maps, and rotations with an error up to 0.1; `partners` rotations with an
    error up to 0.3, where the variances along the leading axes differ. By simulation
    (tests/test_reordered.py), of 1200 pairs of independent views that are Gaussian, heavy-tailed,
    uniform, sparse, classes or curved, with 100 to 600 rows and 2 to 100 columns, none is above 1.
    Views that share only a part, such as other features of the same wells, may pass unnoticed.
    """
    if evidence.group != UNRELATED or min(evidence.cca.ranks) < 2:
        return None
    views = [_rows(evidence, view) for view in evidence.views]
    if any(rows is None or len(rows) < FEWEST for rows in views):
        return None
    x, y = (
        _scores(evidence, v, rows) for v, rows in zip(evidence.views, views) if rows is not None
    )
    value = twins(x, y) / TWINS
    if value <= threshold:
        value = max(value, partners(x, y) / PARTNERS)
    a, b = (evidence.name(view) for view in evidence.views)
    return Check(
        "reordered",
        "Are the rows the same in another order?",
        value,
        threshold,
        value <= threshold,
        f"in the given order views {a} and {b} are unrelated, but rows of one have partners among "
        "the rows of the other: the rows may be in another order; pair them by id with --id "
        "(ids=).",
    )


def _rows(evidence: Evidence, view: int) -> Array | None:
    """All rows of a view, in any order, if there are few and they are at hand."""
    moments = evidence.moments
    if moments.rows <= len(moments.sample.keys):
        return moments.sample_of(view)
    if evidence.context.rows is None or moments.rows > MOST:
        return None
    rows: Array = evidence.context.rows(view).astype(np.float64)
    finite: Array = rows[np.isfinite(rows.sum(axis=1))]
    return finite


def _scores(evidence: Evidence, view: int, rows: Array) -> Array:
    """The rows along the principal axes of their view that are no rounding."""
    values, axes = evidence.moments.principal(view)
    kept = values > 1e-12 * values[0]
    scores: Array = (rows - evidence.moments.centre(view)) @ axes[:, kept]
    return scores
