"""Why new rows differ from pinned ones: a list of causes, each one function of the evidence.

A function under ``@cause`` returns a `Cause` with a score from 0 to 1, a sentence of evidence and
what to look at, or None where the evidence speaks against it. The cause with the highest score is
named; where two have the same score, the one that stands first. A new cause is one function, in
`_causes_plain` if it can be seen number by number, otherwise in `_causes_maps`.

The limits were chosen on planted changes and on real ones: a float16 and an int8 export, prefixes,
poolings and truncation of one sentence encoder, fine-tuned successors, and other models.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from identikit.retrieval._evidence import Evidence

#: An error below this leaves nearly all neighbours as they are.
SMALL = 0.1

#: What is unexplained of a change of normalisation, or of a constant shift.
EXACT = 0.02

#: The least median correlation of equal columns if both views are in the same coordinates, and if
#: they are nearly the same view.
SAME_COORDINATES, NEARLY_THE_SAME = 0.5, 0.85


@dataclass(frozen=True)
class Cause:
    """A cause: its name, how well it fits (0 to 1), the evidence for it, and what to look at."""

    name: str
    score: float
    says: str
    look: str


Finder = Callable[[Evidence], Cause | None]

#: All causes by name.
CAUSES: dict[str, Finder] = {}


def cause(name: str) -> Callable[[Finder], Finder]:
    """Add a cause to the list."""

    def register(function: Finder) -> Finder:
        CAUSES[name] = function
        return function

    return register


def diagnose(evidence: Evidence) -> tuple[Cause, ...]:
    """All causes that the evidence speaks for, the likeliest first."""
    found = [one for one in (find(evidence) for find in CAUSES.values()) if one is not None]
    return tuple(sorted(found, key=lambda one: -one.score))
