"""What a pair of softmax models is found to be, and the sentence that says it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from identikit._text import shortened
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

#: Above this held-out error one embedding says little of the other.
LARGE_ERROR = 0.5
#: Checks whose complaint a projection on the identified subspace brings about by design.
OF_PROJECTION = ("rank", "widths")
#: Up to so many slices are told one by one; of more, the nearest and the farthest.
FEW_SLICES = 4
#: Characters of a slice's name.
NAME = 40


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
    """Which of the findings a pair is."""
    # A label that is impossible somewhere has no logits; its probabilities are all there is of it.
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


def sentence(
    finding: str,
    models: tuple[ModelReport, ModelReport],
    related: Gauge,
    apart: Divergences,
    embedding: Pair,
    nearest: UpTo | None,
    tolerance: float,
) -> str:
    """What matters of a pair, in words and without names, which may be anything."""
    gap, kl, error = map(_short, (related.logit_gap, apart.kl, embedding.error))
    kappa = f"κ = {_short(related.kappa)}".replace("= <", "< ")
    kind = "an affine" if any(model.bias for model in models) else "a linear"
    if finding == SAME:
        where = f" on the {related.identified} identified dimensions" if any(related.free) else ""
        says = (
            f"the same distribution up to relative logit gap {gap} (total variation "
            f"{_short(apart.tv)}), so the same embedding up to {kind} map{where}: {kappa}"
        )
        if embedding.error > tolerance:
            says += (
                f"; f still has directions that hardly move the logits, and there the models "
                f"differ (held-out error of f {error})"
            )
    elif finding == BLOCKS:
        says = (
            f"the same distribution over every candidate set, up to relative logit gap {gap} "
            f"(total variation {_short(apart.tv)}), but no one map between the embeddings ({kappa})"
        )
    elif nearest is not None and finding in (TEMPERATURE, ORDER):
        left = _short(nearest.logit_gap)
        order = nearest.order is not None
        says = (
            f"the same up to {' and '.join(_up_to(nearest, tolerance))} (relative logit gap {left} "
            f"then, {gap} as given, KL {kl}): {_how(nearest, tolerance)}"
            f"{'; give the labels in one order' if order else ''}"
        )
    elif finding == CLOSE and embedding.group == UNRELATED:
        says = (
            f"close in KL ({kl}) and yet unrelated embeddings: no map explains one from the other "
            f"beyond chance (held-out error {error}); the relative logit gap is {gap}"
        )
    elif finding == CLOSE:
        says = (
            f"close in KL ({kl}) and yet dissimilar embeddings: the best map between them leaves a "
            f"held-out error of {error}; the relative logit gap is {gap}"
        )
    elif finding == TWO_MAPS:
        assert related.label_error is not None
        of_g = _short(related.label_error)
        says = (
            f"each side is related (held-out error {error} for f, {of_g} for g), but not "
            f"by one map ({kappa}): the distributions differ, as after a counter-rotation of f "
            f"and g (relative logit gap {gap}, KL {kl})"
        )
    else:
        agree = (
            "the embeddings are unrelated"
            if embedding.group == UNRELATED
            else f"the embeddings agree best up to the group {embedding.group}, with a held-out "
            f"error of {error}"
        )
        says = (
            f"not the same within {tolerance:g}: relative logit gap {gap}, {kappa}, KL {kl}, "
            f"total variation {_short(apart.tv)}; {agree}"
        )
    free = _what_is_free(models)
    says = says[0].upper() + says[1:] + "."
    return f"{free} {says}" if free else says


def _what_is_free(models: tuple[ModelReport, ModelReport]) -> str:
    reasons = ["; ".join(m.diversity.reasons) if not m.diverse else "" for m in models]
    if reasons[0] and reasons[0] == reasons[1]:
        return f"In both models {reasons[0]}."
    places = ("first", "second")
    return " ".join(f"In the {place} model {why}." for place, why in zip(places, reasons) if why)


def _up_to(nearest: UpTo, tolerance: float) -> list[str]:
    """What separates two models that are the same otherwise."""
    order = [] if nearest.order is None else ["an order of the labels"]
    if order and abs(nearest.temperature - 1) <= tolerance:
        return order
    return [*order, f"a temperature of {nearest.temperature:.3g}"]


def _how(nearest: UpTo, tolerance: float) -> str:
    """The same as an instruction: which label is which, and by what logits are multiplied."""
    parts = []
    if nearest.order is not None:
        moved = [(k, to) for k, to in enumerate(nearest.order.tolist()) if k != to]
        pairs = [f"label {k} of the first model is label {to} of the second" for k, to in moved[:2]]
        more = f", and {len(moved) - 2} more labels have moved" if len(moved) > 2 else ""
        parts.append(", ".join(pairs) + more)
    if len(_up_to(nearest, tolerance)) > len(parts):
        factor = f"{nearest.temperature:.3g}"
        parts.append(f"the logits of the second model are {factor} times those of the first")
    return "; ".join(parts)


def by_slice(slices: Sequence[Slice]) -> str:
    """Where two models are the same and where they differ; names are quoted, short and plain."""
    if not slices:
        return ""
    nearest, *_, farthest = sorted(slices, key=lambda each: each.logit_gap)
    told = slices if len(slices) <= FEW_SLICES else (nearest, farthest)
    show = shortened((each.name for each in told), NAME)
    where = [f"{show[each.name]!r} ({_inputs(each.inputs)})" for each in told]
    if told is slices:
        parts = [f"{place} they {_fares(each)}" for place, each in zip(where, told)]
        return f" On the slice {'; on '.join(parts)}."
    counts = _counted(Counter(each.finding for each in slices))
    parts = [f"{place}, they {_fares(each)}" for place, each in zip(where, told)]
    return (
        f" Of {len(slices):,} slices, {counts}; on the nearest, {parts[0]}, and on the farthest, "
        f"{parts[1]}."
    )


def _fares(each: Slice) -> str:
    gap, kl, tv = map(_short, (each.logit_gap, each.kl, each.tv))
    if each.finding == SAME:
        return f"are the same distribution (relative logit gap {gap})"
    if each.finding == CLOSE:
        return f"are close in KL only (KL {kl}, relative logit gap {gap})"
    return f"differ (relative logit gap {gap}, KL {kl}, total variation {tv})"


def _counted(counts: Counter[str]) -> str:
    """How many slices are found to be what.

    >>> _counted(Counter({SAME: 3, DIFFERENT: 8}))
    '3 are the same distribution and 8 differ'
    """
    verbs = {
        SAME: ("is the same distribution", "are the same distribution"),
        CLOSE: ("is close in KL only", "are close in KL only"),
        DIFFERENT: ("differs", "differ"),
    }
    parts = [f"{counts[key]} {words[counts[key] > 1]}" for key, words in verbs.items()
             if counts[key]]  # fmt: skip
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if parts[1:] else parts)


def _inputs(count: int) -> str:
    return f"{count:,} input{'' if count == 1 else 's'}"


def notes(
    finding: str,
    related: Gauge,
    apart: Divergences,
    embedding: Pair,
    nearest: UpTo | None,
    slices: Sequence[Slice],
) -> tuple[str, ...]:
    """What else a reader must know of a pair."""
    found = [*related.notes, *apart.notes]
    if finding != ORDER and nearest is not None and nearest.order is not None:
        found.append(
            f"in another order of the labels the relative logit gap would be "
            f"{_short(nearest.logit_gap)} and not {_short(related.logit_gap)}: check that both "
            "models list their labels in one order"
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


def _short(value: float) -> str:
    """Two digits; what is below a millionth is rounding.

    >>> _short(0.0321), _short(1.04e-4), _short(35.2), _short(3e-15), _short(float("inf"))
    ('0.032', '0.0001', '35', '<1e-06', 'infinite')
    """
    if math.isinf(value):
        return "infinite"
    if value < 1e-6:
        return "<1e-06"
    return f"{value:.0f}" if value >= 10 else f"{value:.2g}"
