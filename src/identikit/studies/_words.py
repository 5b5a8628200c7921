"""The wording for a study's claims, wherever they are shown: numbers, verdicts, groups, counts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from identikit.report.numbers import ABSENT
from identikit.studies._study import INCONCLUSIVE, KINDS, NOT, REPRODUCED, UNMEASURED, Interval

#: The verdicts other than "reproduced", the worst first.
REST = (NOT, INCONCLUSIVE, UNMEASURED)
TITLES = dict(
    zip(KINDS, ("Claims of the paper", "Our own controls", "Checks (identities and bounds)"))
)
# A control or a check was never published, so it holds instead of being reproduced.
HOLDS = {REPRODUCED: "holds", NOT: "does not hold"}

Row = Mapping[str, Any]


def number(value: float, interval: Interval | None = None) -> str:
    """A value with the two to five digits that its interval supports; three without an interval.

    >>> number(1.31722, (1.3169, 1.3175)), number(0.000104), number(2071, (1830, 2312))
    ('1.3172', '0.000104', '2,100')
    """
    if interval is None:
        return f"{value:.3g}"
    half, size = (interval[1] - interval[0]) / 2, max(map(abs, interval))
    # Down to the first digit of the half-width.
    digits = 5 if half <= 0 else 1 + math.floor(math.log10(size)) - math.floor(math.log10(half))
    text = f"{value:#.{min(max(digits, 2), 5)}g}".removesuffix(".")
    return f"{float(text):,.0f}" if "e+" in text else text


def measured(claim: Row) -> tuple[str, str]:
    """The measured value of a claim and its interval, as text."""
    value, interval = claim["value"], claim["interval"]
    if value is None:
        return ABSENT, ""
    ends = "" if interval is None else " to ".join(number(end, interval) for end in interval)
    return number(value, interval), ends


def verdict(claim: Row) -> str:
    """The verdict in words: claims of the paper are reproduced or not, all others hold or not."""
    said = str(claim["verdict"])
    return said if claim["kind"] == KINDS[0] else HOLDS.get(said, said)


def would_tell(claim: Row) -> str:
    """How many seeds would decide an inconclusive claim; an empty text for other claims."""
    return "" if claim["seeds"] is None else f"about {claim['seeds']:,} seeds would tell"


def told(claim: Row) -> str:
    """The verdict and, if it is inconclusive, how many seeds would decide."""
    return ", ".join(filter(None, (verdict(claim), would_tell(claim))))


def grouped(document: Row) -> list[tuple[str, list[Row]]]:
    """The claims by kind with a title each, the paper's first; a single group has no title."""
    groups = [
        (TITLES[kind], [claim for claim in document["claims"] if claim["kind"] == kind])
        for kind in KINDS
    ]
    kept = [group for group in groups if group[1]]
    return kept if kept[1:] else [("", claims) for _, claims in kept]


def headline(document: Row) -> str:
    """How many claims were reproduced, and the verdicts on the others, in one line."""
    return "; ".join(counts(document))


def counts(document: Row) -> list[str]:
    """How many of the paper's claims were reproduced, and how many controls and checks hold.

    If several of the paper's claims were tested, the text also says how many of the reproduced
    ones remain after Holm's correction for the number of tests.
    """
    paper, controls, checks = (
        [claim for claim in document["claims"] if claim["kind"] == kind] for kind in KINDS
    )
    parts = list[str]()
    if paper or not document["claims"]:
        whose = "claims of the paper" if controls or checks else "claims"
        parts += [_counted(paper, f"{whose} reproduced"), *_corrected(paper)]
    for name, own in (("controls", controls), ("checks", checks)):
        if own:
            parts.append(f"{name} {_counted(own, 'hold')}")
    return parts


def _counted(claims: Sequence[Row], done: str) -> str:
    verdicts = [verdict(claim) for claim in claims]
    good = verdicts.count(REPRODUCED) + verdicts.count(HOLDS[REPRODUCED])
    rest = [(verdicts.count(said), said) for said in (*REST, HOLDS[NOT])]
    words = [
        f"{count} {'do not hold' if count > 1 and said == HOLDS[NOT] else said}"
        for count, said in rest
        if count
    ]
    return ", ".join([f"{good} of {len(claims)} {done}", *words])


def _corrected(claims: Sequence[Row]) -> list[str]:
    """How many of the reproduced claims remain after Holm's correction for all that were tested."""
    tested = [claim for claim in claims if claim["p"] is not None]
    kept = [
        good
        for claim, good in zip(tested, holm([claim["p"] for claim in tested]))
        if claim["verdict"] == REPRODUCED
    ]
    if len(tested) < 2 or not kept:
        return []
    # A claim without a p-value, such as that something occurs, cannot be corrected.
    some = len(kept) < sum(claim["verdict"] == REPRODUCED for claim in claims)
    of = f" of {len(kept)} with a p-value" if some else ""
    whole = "it" if len(kept) == 1 else "all"
    count = whole if all(kept) and not some else str(sum(kept) or "none")
    return [f"{count}{of} {'remains' if sum(kept) < 2 else 'remain'} after Holm's correction"]


def holm(p: Sequence[float], level: float = 0.05) -> list[bool]:
    """Which of the hypotheses Holm's step-down procedure rejects (Holm 1979).

    The i-th smallest of m p-values, counted from 0, is compared with level / (m − i) until one is
    larger. The probability of even one false rejection is at most the level, however the tests
    depend on each other.

    >>> holm([0.01, 0.04, 0.03, 0.005])
    [True, False, False, True]
    """
    out = [False] * len(p)
    for i, place in enumerate(sorted(range(len(p)), key=p.__getitem__)):
        if p[place] > level / (len(p) - i):
            break
        out[place] = True
    return out


def duration(seconds: float) -> str:
    """Seconds in words.

    >>> duration(12.3), duration(150), duration(8000)
    ('12 s', '2.5 min', '2.2 h')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
