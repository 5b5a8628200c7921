"""What is said of codes against known factors, and against the latents of a world."""

from __future__ import annotations

from typing import TYPE_CHECKING

from identikit.factors import Chance, Disentanglement, Part
from identikit.report.numbers import Interval, decimals, number, shorten

if TYPE_CHECKING:
    from identikit.worlds import Score

#: What the axes may be found to be.
ALIGNED = "The axes of the codes go with factors more than arbitrary axes would"
ARBITRARY = "The axes of the codes say no more than arbitrary ones would"
CHANCE = "No axis of the codes goes with a factor beyond chance"
OTHER = "Codes against known factors"


def headline(found: Disentanglement) -> str:
    """One of the four findings, from Pearson's MCC beside chance and arbitrary axes."""
    score = found.scores.get("mcc")
    if score is None or score.chance is None or found.rotation is None or score.interval is None:
        return OTHER
    if score.interval[0] <= score.chance.interval[1]:
        return CHANCE
    return ALIGNED if score.interval[0] > found.rotation.of_codes.interval[1] else ARBITRARY


def summary(found: Disentanglement) -> str:
    """The sentence that matters: MCC, and what it has to be read against."""
    many = f"{len(found.codes)} codes against {len(found.factors)} factors in {found.rows:,} rows"
    score, level = found.scores.get("mcc"), found.rotation
    if score is None:
        return f"{many}."
    says = f"{many}: MCC {part_value(score.parts[0])}"
    if score.chance is not None:
        says += f"; chance scores {number(score.chance.mean, 2)}"
    if level is not None:
        own, others = level.of_codes, level.of_factors
        says += f", what these codes hold on arbitrary axes {_with(own.mean, own.interval)}"
        if others is not None:
            turned = _with(others.mean, others.interval)
            says += f", an arbitrary rotation of the factors themselves {turned}"
    return f"{says}."


def part_value(part: Part) -> str:
    """A value with its interval."""
    return number(part.value) if part.interval is None else _with(part.value, part.interval)


def chance_level(level: Chance | None) -> str:
    """A chance level with its range."""
    return number(None) if level is None else _with(level.mean, level.interval)


def _with(value: float, interval: Interval) -> str:
    """All with the digits that the interval supports, but not more than three decimals."""
    places = min(3, decimals(interval))
    low, high = (number(end, places) for end in interval)
    return f"{number(value, places)} ({low}–{high})"


def left_out(found: Disentanglement) -> list[str]:
    """What was left out and why, and what makes a hard case."""
    said = [f"{each.what} {each.name!r}: {each.reason}" for each in found.excluded]
    for name, score in found.scores.items():
        said += [f"{name}: {warning}" for warning in score.warnings]
    return said + [f"{name} was not computed: {reason}" for name, reason in found.absent.items()]


def of_world(found: Score) -> str:
    """Which of a world's latents a code has found, in two sentences."""
    blocks = ", ".join(f"{value:.0%} of {shorten(name, 40)}" for name, value in found.r2.items())
    if found.rotation_range is None or found.rotation is None:
        axes = f"MCC is {found.mcc:.3f}."
    else:
        whether = "found" if found.mcc > found.rotation_range[1] else "not found"
        axes = (
            f"MCC is {found.mcc:.3f}, where a random rotation of the latents has "
            f"{found.rotation:.3f}: the axes were {whether}."
        )
    named = (
        "No map between codes and latents explains more than chance"
        if found.group == "unrelated"
        else f"The codes are the latents up to the rung {found.group}, with a held-out error of "
        f"{found.error:.3f}"
    )
    return f"{named}; a linear map explains {blocks}. {axes}"
