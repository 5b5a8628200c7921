"""Which group a pair belongs to: the rule that reads the ladder."""

from __future__ import annotations

import math
from collections.abc import Sequence

from identikit.auditing._result import Rung

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


def choose_group(ladder: Sequence[Rung], slack: float = SLACK) -> tuple[str, Rung]:
    """The strictest rung that explains almost as much as the best one does, and its name.

    The best rung is the loosest one as long as there are rows enough to fit it; with few rows a
    loose map overfits, and a stricter one predicts better. If no rung explains anything beyond
    chance, in either direction (no 95 % interval stays below 1), the pair is `unrelated`.

    A rung must be near the best (`SLACK`) in one direction, and in the other one near it but for
    attenuation: if y = h(x) + noise, then h⁻¹ misses x by the noise, an error of σ, while a free
    fit shrinks towards the mean and misses it by e = σ/√(1 + σ²); the difference is e³/2 to leading
    order, and that much more is allowed.

    Parameters
    ----------
    ladder : sequence of Rung
        From the strictest to the loosest.
    slack : float
        See `SLACK`.
    """
    best = min(ladder, key=lambda rung: rung.error)
    if not any(beyond_chance(rung) for rung in ladder):
        return UNRELATED, best
    forward = min(rung.forward for rung in ladder)
    backward = min(rung.backward for rung in ladder)
    for rung in ladder:
        there, back = _excess(rung.forward, forward), _excess(rung.backward, backward)
        if min(there, back) <= slack and (
            there <= slack + forward**3 / 2 and back <= slack + backward**3 / 2
        ):
            return rung.group, rung
    return best.group, best


def beyond_chance(rung: Rung) -> bool:
    """Whether a rung predicts held-out rows better than their mean does, in either direction."""
    return min(rung.forward_interval[1], rung.backward_interval[1]) < 1.0


def _excess(error: float, best: float) -> float:
    """How much an error exceeds the best one, as a share of the variance that the best explains."""
    explained = 1.0 - best**2
    if explained <= 0.0:
        return 0.0 if error <= best else math.inf
    return (error - best) / explained
