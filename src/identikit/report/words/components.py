"""What is said of components across runs: every share with the strength of what it counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from identikit.axes import Components

#: A similarity that hardly anybody would call another component.
STRONG = 0.9


def summary(found: Components) -> str:
    """How many components come back, how strongly, and against which chance; then the rest."""
    return " ".join([_share(found), _pairs(found), *_span(found)])


def headline(found: Components) -> str:
    """The same in a few words, for the top of a page."""
    count, of = found.replicates.sum(), min(run.atoms - len(run.excluded) for run in found.runs)
    some, verb = (f"{count:,}", "come") if count > 1 else ("One" if count else "Not one", "comes")
    return f"{some} of {of:,} components {verb} back in all {len(found.runs)} runs"


def similarity(found: Components) -> str:
    """What similarity is here."""
    return "correlation" if found.settings.kind == "activations" else "cosine"


def _share(found: Components) -> str:
    interval, settings, good = found.fraction_interval, found.settings, found.replicates
    sure = "" if interval is None else f", 95 % interval {interval[0]:.1%} to {interval[1]:.1%}"
    runs, what, low_bar = len(found.runs), similarity(found), ""
    if settings.threshold is None:
        # Above chance is not "the same": two rotated views have units that correlate by 0.6.
        says = f"{good.sum():,} components have a match above chance in all {runs} runs"
        bar = f"Above chance is at a false-discovery rate of {settings.fdr:g}"
        reach = int((found.stability[good] >= STRONG).sum())
        low_bar = f" {bar}, a low bar: {reach:,} of them reach {STRONG:g}." if good.any() else ""
        low_bar = low_bar or f" {bar}."
    else:
        says = f"{good.sum():,} components come back in all {runs} runs"
        says += f", each member with a {what} of {settings.threshold:g} or more"
    strength = (
        f", at a mean {what} of {found.stability[good].mean():.2f} where chance has "
        f"{found.chance_level[good].mean():.2f}"
        if good.any()
        else ""
    )
    share = f"{found.fraction:.1%} of what the smallest run has{sure}"
    return f"{says}{strength}: {share}.{low_bar}"


def _pairs(found: Components) -> str:
    return (
        f"Matched two runs at a time, all components have a mean {similarity(found)} (PW-MCC) of "
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
