"""The ladder on a few hundred paired rows: maps fitted on one half and scored on the other.

It takes a fraction of the time of an audit's ladder, since rungs are computed from the strictest
one on and only until one explains nearly everything.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from identikit._linalg import Array
from identikit.alignment import RUNGS, applicable, best_map, counts_as
from identikit.moments import Moments, accumulate
from identikit.retrieval.check_result import RungError

#: A rung with a smaller error explains nearly everything, and looser ones are not computed.
EXPLAINED = 0.03

#: A stricter rung is named if its error is at most this factor times the least error of all, or
#: larger by EXPLAINED, and if it explains this share of what the best one explains: an
#: unconstrained map may shrink noise away, which a strict one cannot.
FACTOR, SHARE = 1.5, 0.9

#: A linear map without a shift is told from one with a shift only if it leaves less than this.
TOLD = 0.5


def quick_ladder(a: Array, b: Array, require: str) -> tuple[RungError, ...]:
    """Held-out errors of rungs, from the strictest until one explains nearly everything.

    `require` is a rung that is computed unless a stricter one explains nearly everything.
    """
    halves = [np.arange(len(a)) % 2 == half for half in (0, 1)]
    means = [(a[half].mean(axis=0), b[half].mean(axis=0)) for half in halves]

    @cache
    def moments_of(half: int) -> Moments:
        return accumulate([a[halves[half]], b[halves[half]]], folds=1, sample=0)

    def predicted(name: str, rows: Array, way: int, half: int) -> Array:
        if name == "identity":
            return rows
        weights, shift = best_map(RUNGS[name], moments_of(half), way, 1 - way, -1.0)
        return np.asarray(rows @ weights + shift)

    def error_of(name: str) -> RungError:
        sides = []
        for way, (x, y) in enumerate(((a, b), (b, a))):
            residuals, totals = np.empty(len(a)), np.empty(len(a))
            for fit, score in ((0, 1), (1, 0)):
                there = halves[score]
                left = y[there] - predicted(name, x[there], way, fit)
                residuals[there] = np.square(left).sum(axis=1)
                totals[there] = np.square(y[there] - means[fit][1 - way]).sum(axis=1)
            sides.append(ratio_error(residuals, totals))
        return RungError(name, *max(sides))

    found: list[RungError] = []
    for rung in applicable(a.shape[1], b.shape[1]):
        if rung.name == "linear" and require != "linear":
            continue
        found.append(error_of(rung.name))
        if found[-1].error <= EXPLAINED:
            return tuple(found)
    if require != "linear" and found[-1].error < TOLD and chosen(tuple(found)) == "affine":
        found.insert(-1, error_of("linear"))
    return tuple(found)


def ratio_error(residuals: Array, totals: Array) -> tuple[float, tuple[float, float]]:
    """√(Σ residuals / Σ totals), and its 95 % interval over independent rows (linearised)."""
    n, total = len(residuals), float(totals.sum())
    ratio = float(residuals.sum()) / total
    error = float(np.sqrt(ratio))
    spread = float(np.std(residuals - ratio * totals, ddof=1)) * np.sqrt(n) / total
    half = 1.96 * spread / (2 * error) if error > 0 else 0.0
    return error, (max(0.0, error - half), error + half)


def chosen(rungs: tuple[RungError, ...]) -> str:
    """The strictest rung that is nearly as good as the best; "unrelated" if none is of any use."""
    best = min(rung.error for rung in rungs)
    if min(rung.interval[1] for rung in rungs) >= 1:
        return "unrelated"
    limit = max(FACTOR * best, best + EXPLAINED)
    limit = min(limit, max(best, float(np.sqrt(1 - SHARE * max(1 - best**2, 0.0)))))
    return next(rung.group for rung in rungs if rung.error <= limit)


def required(rungs: tuple[RungError, ...], require: str) -> RungError:
    """The required rung, or a stricter one that leaves less."""
    counting = [rung for rung in rungs if counts_as(rung.group, require)]
    return min(counting, key=lambda rung: rung.error)
