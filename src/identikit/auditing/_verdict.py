"""The verdict: the rule that reads the ladder, and names a rung."""

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

#: How much worse a stricter rung may be once noise has been allowed for: of what the best rung
#: explains it may miss the share SLACK². Where views agree exactly, that calls a rotation by 1.7°
#: none, with an error of 0.03. Values of 0.02 and 0.05 give the same on a few planted
#: cells (tests/test_verdict.py).
SLACK = 0.03

#: A rung that explains less than this share of what the best one does is not taken, whatever noise
#: might excuse.
LEAST = 0.5

#: Standard errors within which an excess says nothing: for the rung that is named, and for those
#: that are named beside it.
LENIENT, STRICT = 1.0, 2.0

UNRELATED = "unrelated"

#: What a pair is called that neighbours or kernels relate, but no map that the rows could fit.
RELATED = "related"

Ladder = Mapping[str, tuple[HeldOut, HeldOut]]


#: Independent views are called related by their kernels or their neighbours this seldom, each.
LEVEL = 0.01


@dataclass(frozen=True)
class Judged:
    """What is said of a pair.

    Parameters
    ----------
    rungs : tuple of RungError
        The ladder.
    group : str
        The verdict: a rung, "unrelated" or "related".
    candidates : tuple of str
        What the data do not tell apart from it, and itself.
    rung : RungError
        The one that is named; of unrelated views the best.
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
    """Climb the ladder, and name a rung, or say that no rung explains anything beyond chance.

    Parameters
    ----------
    moments : Moments
    i, j : int
        The two views.
    axes : bool
        If false, rungs that speak of single columns are left out.
    of_columns : mapping of str to array (2, folds)
        Squared errors of stricter rungs that the moments know nothing of, both ways.
    """
    found = ladder(moments, i, j, None if axes else axis_free())
    if of_columns:
        totals = [side.total for side in found["affine"]]
        found = {
            name: (HeldOut(both[0], totals[0]), HeldOut(both[1], totals[1]))
            for name, both in of_columns.items()
        } | found
    rungs = tuple(RungError.of(name, *both) for name, both in found.items())
    # A strong ridge leaves little but the mean, and beats it by very little on any rows.
    if not any(beyond_chance(one, 2 / moments.rows) for one in rungs):
        best = min(rungs, key=lambda one: one.error)
        return Judged(rungs, UNRELATED, (UNRELATED,), best)
    chosen = choose_rung(moments, i, j, found, as_they_are=of_columns)
    named = next(one for one in rungs if one.group == chosen.group)
    return Judged(rungs, chosen.group, chosen.candidates, named)


def beyond_the_ladder(
    judged: Judged, i: int, j: int, measures: Mapping[str, Scored | None], context: Context
) -> Judged:
    """What is said of a pair once neighbours, kernels and the order of the rows are looked at.

    Views that no map relates are "related" if kernel alignment or neighbours say more than chance;
    views that share nothing but the order of their rows are "unrelated".

    Parameters
    ----------
    judged : Judged
        What the ladder says.
    i, j : int
        The two views.
    measures : mapping of str to Scored
        Of the pair.
    context : Context
    """
    group = judged.group
    # What kernels and neighbours score by chance is known of independent rows only.
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
        # A pair may be out of tolerance with a small error: if a few rows decide, or their order.
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
    """The strictest rung that explains what can be explained, and those that may as well be it.

    `candidates` are the rungs that the data do not tell apart, from the strictest that is not
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
    """Name the strictest rung that explains almost as much as the best one does.

    A rung is compared with the best by what it predicts if all that it misses is noise (see
    `identikit.alignment.Denoised`), in both directions: the errors of its maps as they are would
    count noise against it that a free regression shrinks away. The best rung is the loosest as long
    as there are rows enough to fit it. An excess over the best counts if it is beyond its own
    standard error (jackknife over folds); rungs whose excess may as well be on the other side of
    the limit, within two standard errors, are the candidates. With few rows a strict rung can
    predict as well as the looser one that is true, as it has less to fit: where the excess in the
    limit of infinitely many rows is not clearly below what is allowed, the looser rungs that may be
    true are candidates too.

    Parameters
    ----------
    moments : Moments
    i, j : int
        The two views.
    rungs : mapping
        Held-out errors of the rungs, both ways, from the strictest to the loosest.
    as_they_are : collection of str
        Rungs that noise is not allowed for, as the moments know nothing of their maps.
    slack : float
        Of what the best rung explains, a stricter one may miss the square of this share.
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
    """Looser rungs that more rows might call for, though these rows do not."""
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
    """How far a rung's squared error is above what is allowed, and its standard error."""

    value: float
    error: float

    def low(self, times: float) -> float:
        """The least that it may be."""
        return self.value - times * self.error

    def high(self, times: float) -> float:
        """The most that it may be."""
        return self.value + times * self.error


@dataclass(frozen=True)
class Both:
    """The excess that these rows show, and its limit for fits on infinitely many rows.

    The latter is None where it is not known.
    """

    now: Excess
    limit: Excess | None


Excesses = Callable[[str], Both | None]

#: The excess of a rung that certainly is no worse than allowed.
NONE = Excess(-1.0, 0.0)


def _excesses(
    denoised: Denoised, rungs: Ladder, as_they_are: Collection[str], slack: float
) -> Excesses:
    """The excesses of a rung in its worse direction; None if it is out of the question."""
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
            return Both(NONE, NONE)  # neither noise nor sampling need be asked
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
    """Errors in the limit of a fit on infinitely many rows, both ways; None if not known."""
    known = [HeldOut(one.limit, one.total) for one in both if one.limit is not None]
    return known if len(known) == len(both) else None


def _value(excess: Excess) -> float:
    return excess.value


def _size(side: HeldOut) -> float:
    return float(side.residual.sum())


def _explains_enough(one: HeldOut, best: HeldOut) -> bool:
    """Whether a rung explains half of what the best one does, or nearly as much anyway."""
    explained = max(1 - best.error**2, 0.0)
    return one.error**2 <= 1 - LEAST * explained


def _excess(one: HeldOut, best: HeldOut, slack: float) -> Excess:
    """Excess of a rung's squared error over what is allowed beside the best, with its error."""

    def value(residual: Array, least: Array, total: Array) -> Array:
        return np.asarray((residual - least - slack**2 * np.maximum(total - least, 0.0)) / total)

    sums = [np.asarray(part.sum()) for part in (one.residual, best.residual, one.total)]
    rest = [part.sum() - part for part in (one.residual, best.residual, one.total)]
    apart = value(*rest)
    folds = len(apart)
    error = math.sqrt((folds - 1) / folds * float(np.square(apart - apart.mean()).sum()))
    return Excess(float(value(*sums)), error * _doubt(folds))


def _doubt(folds: int) -> float:
    """How much wider a standard error over so few folds has to be read than one over five.

    The limits of one and two standard errors are for five folds (docs/verdict.md); Student's
    quantile for fewer is larger.
    """
    from scipy.special import stdtrit  # scipy.stats takes a second to import

    return float(stdtrit(folds - 1, 0.975) / stdtrit(4, 0.975)) if folds < 5 else 1.0
