"""Would a small shift of the rows explain far more than the given order?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from identikit._linalg import Array
from identikit.auditing._evidence import Answer, Evidence
from identikit.auditing._windows import FEWEST, Window

#: The largest shift that is tried, in rows, unless the window is too short for it.
REACH = 32

#: The probability with which a shift of unrelated, independent rows explains more than the level.
LEVEL = 1e-4


@dataclass(frozen=True)
class Shift:
    """The result for one window.

    `gain` is the gain of the best small `shift`; `explained` and `given` are mean squared canonical
    correlations, less chance, at that shift and in the given order. `sound` is whether the given
    order itself is clearly above chance.
    """

    window: Window
    shift: int
    gain: float
    explained: float
    given: float
    sound: bool


def check(evidence: Evidence, threshold: float = 0.5) -> Answer | None:
    """Share of what the best small shift explains that neither the given order nor chance does.

    For every shift s, T(s) is the mean squared canonical correlation of the views' leading axes
    between row t of one and row t + s of the other, cyclically within the window. The shifts that
    are not small show what chance and slow changes can explain, in addition to the level of
    independent rows: gain = 1 − (max(T(0), T(far), level) − mean T) / (T(s) − mean T).

    By simulation (tests/test_row_shift.py), no gain is above 0.5 in 1000 pairs of each kind: views
    that are unrelated, weakly related or the same, with rows that are independent, heavy-tailed,
    slow, a random walk, periodic, in runs, in pairs, in classes or sparse. With a linear relation
    of R² = 0.3, 2000 rows and 2, 20 or 512 columns, a shift is found in all of 10 pairs each.
    """
    found = [_look(window, *evidence.views, threshold) for window in evidence.context.windows]
    answers = [shift for shift in found if shift is not None]
    if not answers:
        return None
    worst = max(answers, key=lambda answer: answer.gain)
    a, b = (evidence.name(view) for view in evidence.views)
    return Answer(
        worst.gain,
        threshold,
        worst.gain <= threshold,
        f"row t of view {a} fits row t {_signed(worst.shift)} of view {b} far better than row t "
        f"(mean squared correlation of leading axes {worst.explained:.2f} against "
        f"{max(worst.given, 0):.2f}){_changes(found[1:], threshold)}: one of the two lacks rows "
        "or has extra ones; pair the rows by id with --id (ids=), or drop the rows in question.",
    )


def _look(window: Window, i: int, j: int, threshold: float) -> Shift | None:
    x, y = window.scores[i], window.scores[j]
    n, p, q = len(x), x.shape[1], y.shape[1]
    rows = min(_effective_rows(x), _effective_rows(y))
    if rows < FEWEST / 2:
        return None
    chance = max(p, q) / (n - 1)
    given = (float(np.square(x.T @ y).sum()) / min(p, q) - chance) / (1 - chance)
    if given >= 1 - threshold:
        # The given order explains so much that no shift can have a gain above the threshold.
        return Shift(window, 0, 0.0, given, given, sound=True)
    from scipy.special import chdtri

    explained = _all_shifts(window, i, j)
    mean = float(explained.mean())
    reach = min(REACH, n // 8)
    far = explained[reach + 1 : n - reach]
    # For independent rows n·pT is χ² with pq degrees of freedom; for dependent rows it varies more.
    unit = max(float(far.std()) / math.sqrt(2 * p * q), 1 / (rows * min(p, q)))
    level = max(float(far.max()) - mean, unit * (float(chdtri(p * q, LEVEL)) - p * q))
    best = max((*range(-reach, 0), *range(1, reach + 1)), key=lambda s: explained[s])
    most, now = float(explained[best]) - mean, float(explained[0]) - mean
    gain = 1 - max(now, level) / most if most > max(now, level) else 0.0
    sound = now * (1 - threshold) > level
    return Shift(window, best, gain, most / (1 - mean), now / (1 - mean), sound)


def _effective_rows(scores: Array) -> float:
    """(Σ‖x‖²)² / Σ‖x‖⁴: the number of rows of equal norm that would be worth as much."""
    norms = np.square(scores).sum(axis=1)
    return float(norms.sum() ** 2 / max(np.square(norms).sum(), 1e-300))


def _all_shifts(window: Window, i: int, j: int) -> Array:
    """T(s) for s = 0, …, n − 1, by Fourier transforms; shifts are cyclic, so s − n is s."""
    n, left, right = len(window.scores[i]), window.transform(i), window.transform(j)
    total: Array = np.zeros(n)
    for axis in np.conj(left):
        shifted = np.fft.irfft(axis * right, n, axis=1)
        total += np.einsum("as,as->s", shifted, shifted)
    return total / min(len(left), len(right))


def _changes(parts: Sequence[Shift | None], threshold: float) -> str:
    """A description of how the shift changes from the start to the end, if it does."""
    clear = [part for part in parts if part and (part.sound or part.gain > threshold)]
    shifts = [part.shift if part.gain > threshold else 0 for part in clear]
    if len(set(shifts)) < 2:
        return ""
    rows = [(part.window.first + part.window.last) // 2 for part in clear]
    steps = [f"{_signed(shift)} at row {row}" for shift, row in zip(shifts, rows)]
    return f", and the shift changes on the way, {', '.join(steps)}"


def _signed(shift: int) -> str:
    return f"{'−' if shift < 0 else '+'} {abs(shift)}"
