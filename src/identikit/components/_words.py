"""What was found, in whole sentences: every share with the strength of what it counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from identikit.components._result import Components


def summary(found: Components) -> str:
    """How many components come back, how strongly, and against which chance; then the rest."""
    return " ".join([_share(found), _pairs(found), *_span(found)])


def measure(found: Components) -> str:
    """What similarity is here."""
    return "correlation" if found.settings.kind == "activations" else "cosine"


def _share(found: Components) -> str:
    interval, settings, good = found.fraction_interval, found.settings, found.replicates
    sure = "" if interval is None else f", 95 % interval {interval[0]:.1%} to {interval[1]:.1%}"
    how = (
        f"above chance at a false-discovery rate of {settings.fdr:g}"
        if settings.threshold is None
        else f"at a similarity of {settings.threshold:g} or more"
    )
    strength = (
        f", at a mean {measure(found)} of {found.stability[good].mean():.2f} where chance has "
        f"{found.chance_level[good].mean():.2f}"
        if good.any()
        else ""
    )
    return (
        f"{good.sum():,} components come back in all {len(found.runs)} runs{strength}, each "
        f"member {how}: {found.fraction:.1%} of what the smallest run has{sure}."
    )


def _pairs(found: Components) -> str:
    return (
        f"Matched two runs at a time, all components have a mean {measure(found)} (PW-MCC) of "
        f"{found.pw_mcc:.2f}, by chance at most {found.pw_mcc_chance:.2f}; {found.unique:.0%} have "
        f"a best match that is no other's, by chance {found.unique_chance:.0%}."
    )


def _span(found: Components) -> list[str]:
    span = found.subspace
    if span is None:
        return []
    many = "leading direction" if span.directions == 1 else f"{span.directions} leading directions"
    says = "their span is shared" if span.recurs else "no more than by chance"
    return [
        f"The {many} of atoms that do not come back overlap by {span.overlap:.2f}, by chance "
        f"{span.chance:.2f}: {says}."
    ]
