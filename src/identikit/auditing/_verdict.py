"""The verdict: the rule that chooses a rung, given the errors of the ladder."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType

import numpy as np

from identikit._linalg import Array
from identikit.alignment import RUNGS, Denoised, HeldOut, axis_free, ladder
from identikit.auditing._evidence import Context
from identikit.auditing.result import Pair, RungError, Verdict
from identikit.moments import Moments
from identikit.similarity import Scored

#: How much worse a stricter rung may be once noise has been allowed for: it may fail to explain a
#: share of SLACK² of what the best rung explains. For views that otherwise agree exactly, a
#: rotation by up to 1.7°, with an error of up to 0.03, then counts as no rotation. Values of 0.02
#: and 0.05 give the same verdicts in a few planted cases (tests/test_verdict.py).
SLACK = 0.03

#: A rung that explains less than this share of what the best one does is never chosen, however
#: much of its error could be noise.
LEAST = 0.5

#: The number of standard errors within which an excess does not count: for the rung that is chosen,
#: and for the other candidates.
LENIENT, STRICT = 1.0, 2.0

UNRELATED = "unrelated"

#: The verdict on a pair that neighbours or kernels relate, but no map that the rows could fit.
RELATED = "related"

Ladder = Mapping[str, tuple[HeldOut, HeldOut]]


#: The probability, for each measure, that it calls independent views related.
LEVEL = 0.01


@dataclass(frozen=True)
class Judged:
    """The verdict on a pair.

    Parameters
    ----------
    rungs : tuple of RungError
        The ladder.
    group : str
        The verdict: a rung, "unrelated" or "related".
    candidates : tuple of str
        The verdict, and those that the data cannot distinguish from it.
    rung : RungError
        The rung of the verdict; for unrelated views, the best one.
    order_only : bool
        Whether all that a map explains may come from the order of the rows.
    """

    rungs: tuple[RungError, ...]
    group: str
    candidates: tuple[str, ...]
    rung: RungError
    order_only: bool = False


def judge(
    moments: Moments,
    i: int,
    j: int,
    *,
    axes: bool = True,
    of_columns: Mapping[str, Array] = MappingProxyType({}),
) -> Judged:
    """Measure the ladder and choose a rung, or find that none explains anything beyond chance.

    Parameters
    ----------
    moments : Moments
    i, j : int
        The two views.
    axes : bool
        If false, rungs whose maps take single columns to single columns are left out.
    of_columns : mapping of str to array (2, folds)
        Squared errors, in both directions, of stricter rungs that cannot be computed from the
        moments.
    """
    found = ladder(moments, i, j, None if axes else axis_free())
    if of_columns:
        totals = [side.total for side in found["affine"]]
        found = {
            name: (HeldOut(both[0], totals[0]), HeldOut(both[1], totals[1]))
            for name, both in of_columns.items()
        } | found
    rungs = tuple(RungError.of(name, *both) for name, both in found.items())
    # A map with a strong ridge is almost the mean, and on any rows is better by a tiny amount.
    if not any(beyond_chance(one, 2 / moments.rows) for one in rungs):
        best = min(rungs, key=lambda one: one.error)
        return Judged(rungs, UNRELATED, (UNRELATED,), best)
    chosen = choose_rung(moments, i, j, found, as_they_are=of_columns)
    named = next(one for one in rungs if one.group == chosen.group)
    return Judged(rungs, chosen.group, chosen.candidates, named)


def beyond_the_ladder(
    judged: Judged, i: int, j: int, measures: Mapping[str, Scored | None], context: Context
) -> Judged:
    """Revise a verdict by what neighbours, kernels and the order of the rows show.

    Views that no map relates are "related" if kernel alignment or neighbour overlap is beyond
    chance; views that share nothing but the order of their rows are "unrelated".
    """
    group = judged.group
    # The chance levels of kernels and neighbours are known for independent rows only.
    if group == UNRELATED and not (context.grouped or context.dependent(i, j)):
        found = [measures.get(name) for name in ("cka", "mutual_knn")]
        if any(one is not None and one.p < LEVEL for one in found):
            group = RELATED
    order_only = group != UNRELATED and context.order is not None and context.order.only_order(i, j)
    if order_only:
        group = UNRELATED
    if group == judged.group:
        return judged
    return replace(judged, group=group, candidates=(group,), order_only=order_only)


def verdict_on(pairs: Sequence[Pair]) -> Verdict:
    """The verdict on the worst of all pairs."""

    def looseness(group: str) -> int:
        return [*RUNGS, RELATED, UNRELATED].index(group)

    def badness(pair: Pair) -> tuple[bool, float, int]:
        # A pair with a small error may be out of tolerance, because of a few rows or their order.
        return not pair.within_tolerance, round(pair.error, 6), looseness(pair.group)

    worst = max(pairs, key=badness)
    return Verdict(
        worst.group,
        worst.candidates,
        worst.error,
        worst.interval,
        worst.within_tolerance,
        worst.a,
        worst.b,
        max((pair.group for pair in pairs), key=looseness),
        worst.order_only,
    )


@dataclass(frozen=True)
class Chosen:
    """The strictest rung that explains what can be explained, and the other candidates.

    `candidates` are the rungs that the data cannot distinguish, from the strictest that is not
    refuted to the strictest that certainly holds; if there is just one, it is `group`.
    """

    group: str
    candidates: tuple[str, ...]


def choose_rung(
    moments: Moments,
    i: int,
    j: int,
    rungs: Ladder,
    *,
    as_they_are: Collection[str] = (),
    slack: float = SLACK,
) -> Chosen:
    """Choose the strictest rung that explains almost as much as the best one does.

    A rung is compared with the best one by what it predicts if all of its error is noise (see
    `identikit.alignment.Denoised`), in both directions. The raw errors of its maps would count
    noise against it that an unconstrained regression shrinks away. The best rung is the loosest one
    if there are enough rows to fit it. An excess over the best counts if it is larger than its own
    standard error (jackknife over folds); rungs whose excess could be on the other side of the
    limit, within two standard errors, are the candidates. With few rows a strict rung can predict
    as well as the looser one that is true, as it has fewer parameters to fit: where the excess in
    the limit of infinitely many rows is not clearly below what is allowed, the looser rungs that
    may be true are candidates too.

    Parameters
    ----------
    moments : Moments
    i, j : int
        The two views.
    rungs : mapping
        Held-out errors of the rungs in both directions, from the strictest to the loosest.
    as_they_are : collection of str
        Rungs whose errors are compared without allowing for noise, because their maps cannot be
        computed from the moments.
    slack : float
        A stricter rung may fail to explain a share of slack² of what the best rung explains.
    """
    excesses = _excesses(Denoised(moments, i, j), rungs, as_they_are, slack)
    best = min(rungs, key=lambda name: max(side.error for side in rungs[name]))
    group, candidates = None, []
    for name in rungs:
        found = excesses(name)
        if found is None:
            continue
        if group is None and found.now.low(LENIENT) <= 0:
            group = name
        if found.now.low(STRICT) <= 0:
            candidates.append(name)
        if group is not None and found.now.high(STRICT) <= 0:
            break
    group = group or best
    if group not in candidates:
        candidates = [group]
    return Chosen(group, (*candidates, *_looser(candidates[-1], rungs, excesses)))


def _looser(name: str, rungs: Ladder, excesses: Excesses) -> Iterator[str]:
    """Looser rungs that might turn out to be needed if there were more rows."""
    own = excesses(name)
    if own is None or own.limit is None or own.limit.high(LENIENT) <= 0:
        return
    for looser in list(rungs)[list(rungs).index(name) + 1 :]:
        found = excesses(looser)
        if found is None or found.limit is None or found.limit.low(STRICT) > 0:
            continue
        yield looser
        if found.limit.high(STRICT) <= 0:
            return


def beyond_chance(rung: RungError, least: float = 0.0) -> bool:
    """Whether a rung predicts held-out rows better than their mean does, in either direction."""
    return min(rung.forward_interval[1], rung.backward_interval[1]) < 1.0 - least


@dataclass(frozen=True)
class Excess:
    """How far a rung's squared error is above what is allowed, and the standard error of that."""

    value: float
    error: float

    def low(self, times: float) -> float:
        """The value less this many standard errors."""
        return self.value - times * self.error

    def high(self, times: float) -> float:
        """The value plus this many standard errors."""
        return self.value + times * self.error


@dataclass(frozen=True)
class Both:
    """The excess on these rows, and its limit for fits on infinitely many rows, if known."""

    now: Excess
    limit: Excess | None


Excesses = Callable[[str], Both | None]

#: The excess of a rung that is certainly no worse than allowed.
NONE = Excess(-1.0, 0.0)


def _excesses(
    denoised: Denoised, rungs: Ladder, as_they_are: Collection[str], slack: float
) -> Excesses:
    """A function that gives a rung's excesses in its worse direction, None if it is ruled out."""
    least = [min((rungs[name][side] for name in rungs), key=_size) for side in (0, 1)]
    free = _limits(rungs[list(rungs)[-1]])

    @cache
    def of(name: str) -> Both | None:
        own = rungs[name]
        if not all(_explains_enough(one, best) for one, best in zip(own, least)):
            return None
        if all(
            _excess(one, best, slack).high(STRICT) <= 0 for one, best in zip(own, free or least)
        ):
            return Both(NONE, NONE)  # small enough without allowing for noise or sampling
        found = own if name in as_they_are else denoised.errors(RUNGS[name], own)
        now = max((_excess(one, best, slack) for one, best in zip(found, least)), key=_value)
        if all(one.residual is best.residual for one, best in zip(own, least)):
            now = NONE
        limit, limits = None, _limits(found)
        if free is not None and limits is not None:
            limit = max((_excess(one, best, slack) for one, best in zip(limits, free)), key=_value)
        return Both(now, limit)

    return of


def _limits(both: tuple[HeldOut, HeldOut]) -> list[HeldOut] | None:
    """Errors in the limit of infinitely many rows, in both directions; None if not known."""
    known = [HeldOut(one.limit, one.total) for one in both if one.limit is not None]
    return known if len(known) == len(both) else None


def _value(excess: Excess) -> float:
    return excess.value


def _size(side: HeldOut) -> float:
    return float(side.residual.sum())


def _explains_enough(one: HeldOut, best: HeldOut) -> bool:
    """Whether a rung explains at least the share LEAST of what the best one does."""
    explained = max(1 - best.error**2, 0.0)
    return one.error**2 <= 1 - LEAST * explained


def _excess(one: HeldOut, best: HeldOut, slack: float) -> Excess:
    """How far a rung's squared error exceeds what is allowed, given the best rung's."""

    def value(residual: Array, least: Array, total: Array) -> Array:
        return np.asarray((residual - least - slack**2 * np.maximum(total - least, 0.0)) / total)

    sums = [np.asarray(part.sum()) for part in (one.residual, best.residual, one.total)]
    rest = [part.sum() - part for part in (one.residual, best.residual, one.total)]
    apart = value(*rest)
    folds = len(apart)
    error = math.sqrt((folds - 1) / folds * float(np.square(apart - apart.mean()).sum()))
    return Excess(float(value(*sums)), error * _doubt(folds))


def _doubt(folds: int) -> float:
    """The factor by which a standard error over fewer than five folds is widened.

    The limits of one and two standard errors are for five folds (docs/verdict.md); for fewer,
    Student's quantile is larger.
    """
    from scipy.special import stdtrit  # scipy.stats takes a second to import

    return float(stdtrit(folds - 1, 0.975) / stdtrit(4, 0.975)) if folds < 5 else 1.0
