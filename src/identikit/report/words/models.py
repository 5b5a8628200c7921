"""What is said of softmax models: of a pair, of its slices, and of several."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from identikit._text import brief, shortened
from identikit.auditing.models_result import (
    BLOCKS,
    CLOSE,
    DIFFERENT,
    ORDER,
    SAME,
    TEMPERATURE,
    TWO_MAPS,
    ModelReport,
    Slice,
)
from identikit.report.words.audit import UNRELATED

if TYPE_CHECKING:
    from identikit.auditing.models_result import ModelPair, ModelsAudit
    from identikit.family import UpTo

#: Up to so many slices are told one by one; of more, the nearest and the farthest.
FEW_SLICES = 4
#: Characters of a slice's name.
NAME = 40


def summary(audit: ModelsAudit, show: Callable[[str], str]) -> str:
    """What was found of several models; `show` decides how a name appears in it."""
    worst = audit.worst
    a, b = show(worst.a), show(worst.b)
    if len(audit.pairs) == 1:
        return f"{a} and {b}: {worst.sentence}"
    same = sum(pair.same for pair in audit.pairs)
    return (
        f"{same} of {len(audit.pairs)} pairs are the same within {audit.tolerance:g}; the worst, "
        f"{a} and {b}: {worst.sentence}"
    )


def headline(audit: ModelsAudit) -> str:
    """The same in a few words, for the top of a page."""
    if audit.same:
        kind = "an affine" if any(model.bias for model in audit.models) else "a linear"
        free = any(left for pair in audit.pairs for left in pair.gauge.free)
        return f"The same models, up to {kind} map{' of what is identified' if free else ''}"
    return {
        BLOCKS: "The same models, but by a map for each block of candidates",
        TEMPERATURE: "The same models, but for a temperature",
        ORDER: "The same models, but for the order of their labels",
        CLOSE: "Close predictions, other embeddings",
        TWO_MAPS: "Related on each side, but not the same models",
    }.get(audit.worst.finding, "Not the same models within the tolerance")


def pair(pair: ModelPair) -> str:
    """What matters of a pair, in words and without the models' names, which may be anything."""
    finding, models, related, apart = pair.finding, pair.models, pair.gauge, pair.distances
    embedding, nearest, tolerance = pair.embedding, pair.up_to, pair.tolerance
    gap, kl, error = map(brief, (related.logit_gap, apart.kl, embedding.error))
    kappa = f"κ = {brief(related.kappa)}".replace("= <", "< ")
    kind = "an affine" if any(model.bias for model in models) else "a linear"
    if finding == SAME:
        where = f" on the {related.identified} identified dimensions" if any(related.free) else ""
        says = (
            f"the same distribution up to relative logit gap {gap} (total variation "
            f"{brief(apart.tv)}), so the same embedding up to {kind} map{where}: {kappa}"
        )
        if embedding.error > tolerance:
            says += (
                f"; f still has directions that hardly move the logits, and there the models "
                f"differ (held-out error of f {error})"
            )
    elif finding == BLOCKS:
        says = (
            f"the same distribution over every candidate set, up to relative logit gap {gap} "
            f"(total variation {brief(apart.tv)}), but no one map between the embeddings ({kappa})"
        )
    elif nearest is not None and finding in (TEMPERATURE, ORDER):
        left = brief(nearest.logit_gap)
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
        of_g = brief(related.label_error)
        says = (
            f"each side is related (held-out error {error} for f, {of_g} for g), but not "
            f"by one map ({kappa}): the distributions differ, as after a counter-rotation of f "
            f"and g (relative logit gap {gap}, KL {kl})"
        )
    else:
        agree = (
            "the embeddings are unrelated"
            if embedding.group == UNRELATED
            else f"the embeddings agree best up to the rung {embedding.group}, with a held-out "
            f"error of {error}"
        )
        says = (
            f"not the same within {tolerance:g}: relative logit gap {gap}, {kappa}, KL {kl}, "
            f"total variation {brief(apart.tv)}; {agree}"
        )
    free = _what_is_free(models)
    says = says[0].upper() + says[1:] + "." + by_slice(pair.slices)
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
    gap, kl, tv = map(brief, (each.logit_gap, each.kl, each.tv))
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
