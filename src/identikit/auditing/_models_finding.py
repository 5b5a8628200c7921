"""The finding on a pair of softmax models, and the notes that go with it."""

from __future__ import annotations

from collections.abc import Sequence

from identikit._text import brief
from identikit.auditing._verdict import UNRELATED
from identikit.auditing.models_result import (
    BLOCKS,
    CLOSE,
    DIFFERENT,
    ORDER,
    SAME,
    SMALL_KL,
    TEMPERATURE,
    TWO_MAPS,
    ModelReport,
    Slice,
)
from identikit.auditing.result import Pair
from identikit.family import Divergences, Gauge, UpTo
from identikit.moments import LEAST_GROUPS

#: Above this held-out error, one embedding says little about the other.
LARGE_ERROR = 0.5
#: Checks that a projection on the identified subspace is expected to fail.
OF_PROJECTION = ("rank", "widths")


def find(
    models: tuple[ModelReport, ModelReport],
    related: Gauge,
    apart: Divergences,
    embedding: Pair,
    nearest: UpTo | None,
    tolerance: float,
    *,
    partial: bool,
) -> str:
    """The finding that applies to a pair."""
    # A label that is impossible for some inputs has no logits there, so probabilities must agree.
    agree = apart.tv <= tolerance or not partial
    if agree and max(related.logit_gap, related.kappa) <= tolerance:
        return SAME
    if related.logit_gap <= tolerance and all(model.diversity.components > 1 for model in models):
        return BLOCKS
    if nearest is not None and nearest.logit_gap <= tolerance:
        return TEMPERATURE if nearest.order is None else ORDER
    poor = embedding.group == UNRELATED or embedding.error > LARGE_ERROR
    if poor and max(apart.kl, apart.kl_reverse) < SMALL_KL:
        return CLOSE
    labels = related.label_error
    sides = labels is not None and max(labels, embedding.error) <= tolerance
    if sides and related.kappa > tolerance:
        return TWO_MAPS
    return DIFFERENT


def notes(
    finding: str,
    related: Gauge,
    apart: Divergences,
    embedding: Pair,
    nearest: UpTo | None,
    slices: Sequence[Slice],
) -> tuple[str, ...]:
    """What else a reader must know about a pair."""
    found = [*related.notes, *apart.notes]
    if finding != ORDER and nearest is not None and nearest.order is not None:
        found.append(
            f"in another order of the labels the relative logit gap would be "
            f"{brief(nearest.logit_gap)} and not {brief(related.logit_gap)}: check that both "
            "models list their labels in the same order"
        )
    short = sum(each.logit_gap_interval is None for each in slices)
    if short:
        found.append(
            f"{short} of {len(slices)} slices {'has' if short == 1 else 'have'} fewer than "
            f"{LEAST_GROUPS} inputs, or groups of them, and so no intervals"
        )
    expected = OF_PROJECTION if any(related.free) else ()
    found += [c.message for c in embedding.checks if not c.ok and c.name not in expected]
    return tuple(found)
