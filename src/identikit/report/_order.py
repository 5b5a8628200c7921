"""The order in which pairs are read, and the messages they share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from identikit.auditing.result import Audit, Pair
from identikit.report._words import UNRELATED


def worst_first(audit: Audit) -> list[Pair]:
    """The verdict's pair, then the unrelated ones, then by falling error."""
    worst = {audit.verdict.a, audit.verdict.b}
    return sorted(
        audit.comparisons,
        key=lambda pair: ({pair.a, pair.b} != worst, pair.group != UNRELATED, -pair.error),
    )


def shared(messages: Iterable[Sequence[str]]) -> list[tuple[str, int]]:
    """Each distinct message with the number of pairs that have it, the commonest first.

    >>> shared([["few rows", "low rank"], ["low rank"]])
    [('low rank', 2), ('few rows', 1)]
    """
    # A dict, not a set: equal counts keep the order of the checks, in every process.
    return Counter(text for pair in messages for text in dict.fromkeys(pair)).most_common()
