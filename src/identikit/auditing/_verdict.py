"""Which group a pair belongs to: the rule that reads the ladder."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from identikit.auditing._result import Rung
from identikit.moments import Moments

#: How much worse a stricter rung may be: its error may exceed the best rung's error e by SLACK
#: times the variance that the best rung explains, e_H ≤ e + SLACK (1 − e²).
#:
#: Why on errors and not on explained variance: where views agree exactly, an allowance of 0.03 of
#: the variance would call a rotation by 10° a permutation with an error of 0.17; on errors it calls
#: one by 1.7° so, with an error of 0.03. Where little is explained, the allowance shrinks with it.
#: Planted pairs of every group, with 0, 5 and 20 % noise and 2 to 64 dimensions, are told apart for
#: any value from 0.02 to 0.05 (tests/test_verdict.py).
SLACK = 0.03

UNRELATED = "unrelated"


def choose_group(
    ladder: Sequence[Rung],
    unshrunk: tuple[float, float],
    slack: float = SLACK,
) -> tuple[str, Rung]:
    """The strictest rung that explains almost as much as the best one does, and its name.

    The best rung is the loosest one as long as there are rows enough to fit it; with few rows a
    loose map overfits, and a stricter one predicts better. If no rung explains anything beyond
    chance, in either direction (no 95 % interval stays below 1), the pair is `unrelated`.

    A rung must be near the best (`SLACK`) in one direction. In the other it may also have the error
    of a map that may not shrink: if y = h(x) + noise, then h⁻¹ misses x by the noise, an error of
    σ, while a free fit shrinks towards the mean and misses it by e = σ/√(1 + σ²), without being any
    truer; so σ = e/√(1 − e²) is allowed, as long as half of what the best rung explains is left.
    For a linear map, which lacks but the shift, that cost is known direction by direction
    (`unshrunk_errors`), and may be much larger.

    Parameters
    ----------
    ladder : sequence of Rung
        From the strictest to the loosest.
    unshrunk : tuple of float
        The errors of an unshrunk linear map, forward and backward.
    slack : float
        See `SLACK`.
    """
    best = min(ladder, key=lambda rung: rung.error)
    if not any(beyond_chance(rung) for rung in ladder):
        return UNRELATED, best
    least = min(rung.forward for rung in ladder), min(rung.backward for rung in ladder)
    for rung in ladder:
        errors = rung.forward, rung.backward
        allowed = unshrunk if rung.group == "linear" else [_isotropic(error) for error in least]
        near = [_near(e, b, b, slack) for e, b in zip(errors, least)]
        fair = [_near(e, b, a, slack) for e, b, a in zip(errors, least, allowed)]
        if (near[0] and fair[1]) or (near[1] and fair[0]):
            return rung.group, rung
    return best.group, best


def unshrunk_errors(moments: Moments, i: int, j: int) -> tuple[float, float]:
    """Errors of maps that undo no noise, from view i to view j and back.

    Along a canonical direction of correlation r a free fit misses 1 − r² of the variance, and a map
    at full scale (1 − r²)/r²; weighted by the target's variance along each direction.
    """
    left, r, right = moments.canonical(i, j)
    missed = (1 - r**2) / np.maximum(r**2, 1e-6)
    errors = []
    for view, turn in ((j, right.T), (i, left)):
        along = turn.T @ moments.loadings(view)
        weights = np.einsum("ij,ij->i", along, along) / np.trace(moments.block(view, view))
        errors.append(math.sqrt(max(float(weights @ missed + 1 - weights.sum()), 0.0)))
    return errors[0], errors[1]


def beyond_chance(rung: Rung) -> bool:
    """Whether a rung predicts held-out rows better than their mean does, in either direction."""
    return min(rung.forward_interval[1], rung.backward_interval[1]) < 1.0


def _isotropic(best: float) -> float:
    return best / math.sqrt(1 - best**2) if best < 1 else math.inf


def _near(error: float, best: float, allowed: float, slack: float) -> bool:
    """Whether an error is near an allowed one, and explains half of what the best one does."""
    explained = max(1 - best**2, 0.0)
    almost = error <= max(best, allowed) + slack * explained and error**2 <= 1 - explained / 2
    return error <= best or almost
