"""What is said of the layers of two models."""

from __future__ import annotations

from typing import TYPE_CHECKING

from identikit._text import shorten

if TYPE_CHECKING:
    from identikit.auditing import Layers


def summary(found: Layers) -> str:
    """How many layers have a match beyond chance, and which match is the best."""
    best, matches = found.best, [match for match in found.best_of_a if match is not None]
    beyond = sum(match.calibrated > 0 for match in matches)
    a, b = shorten(best.a, 40), shorten(best.b, 40)
    return (
        f"{beyond} of {len(found.a)} layers have a match beyond chance ({found.measure}, "
        f"{len(found.a)} and {len(found.b)} layers on {found.rows:,} rows). The best is {a!r} with "
        f"{b!r}: {best.value:.3f}, calibrated {best.calibrated:.3f} (95 % of independent models "
        f"have no pair above {found.threshold:.3f})."
    )


def headline(found: Layers) -> str:
    """The same in a few words, for the top of a page."""
    beyond = "A match beyond chance" if found else "No match beyond chance"
    return f"{beyond}, by {found.measure.replace('_', ' ')}"
