"""What a comparison with known factors says, in words."""

from __future__ import annotations

from identikit.factors import Chance, Disentanglement, Part
from identikit.factors._result import Interval
from identikit.report.numbers import decimals, number

#: What the axes may be found to be, and the page's tone for it.
ALIGNED = "The axes of the codes go with factors more than arbitrary axes would"
ARBITRARY = "The axes of the codes say no more than arbitrary ones would"
CHANCE = "No axis of the codes goes with a factor beyond chance"
OTHER = "Codes against known factors"
TONES = {
    ALIGNED: "within-tolerance",
    ARBITRARY: "above-tolerance",
    CHANCE: "unrelated",
    OTHER: "above-tolerance",
}


def headline(found: Disentanglement) -> str:
    """One of the four findings, from Pearson's MCC beside chance and arbitrary axes."""
    score = found.scores.get("mcc")
    if score is None or score.chance is None or found.rotation is None or score.interval is None:
        return OTHER
    if score.interval[0] <= score.chance.interval[1]:
        return CHANCE
    return ALIGNED if score.interval[0] > found.rotation.of_codes.interval[1] else ARBITRARY


def lead(found: Disentanglement) -> str:
    """The sentence that matters: MCC, and what it has to be read against."""
    many = f"{len(found.codes)} codes against {len(found.factors)} factors in {found.rows:,} rows"
    score, level = found.scores.get("mcc"), found.rotation
    if score is None:
        return f"{many}."
    says = f"{many}: MCC {spread(score.parts[0])}"
    if score.chance is not None:
        says += f"; chance scores {number(score.chance.mean, 2)}"
    if level is not None:
        own, others = level.of_codes, level.of_factors
        says += f", what these codes hold on arbitrary axes {_with(own.mean, own.interval)}"
        if others is not None:
            turned = _with(others.mean, others.interval)
            says += f", an arbitrary rotation of the factors themselves {turned}"
    return f"{says}."


def spread(part: Part) -> str:
    """A value with its interval."""
    return number(part.value) if part.interval is None else _with(part.value, part.interval)


def chance(level: Chance | None) -> str:
    """A chance level with its range."""
    return number(None) if level is None else _with(level.mean, level.interval)


def _with(value: float, interval: Interval) -> str:
    """All with the digits that the interval supports, but not more than three decimals."""
    places = min(3, decimals(interval))
    low, high = (number(end, places) for end in interval)
    return f"{number(value, places)} ({low}–{high})"


def messages(found: Disentanglement) -> list[str]:
    """What was left out and why, and what makes a hard case."""
    said = [f"{each.what} {each.name!r}: {each.reason}" for each in found.excluded]
    for name, score in found.scores.items():
        said += [f"{name}: {warning}" for warning in score.warnings]
    return said + [f"{name} was not computed: {reason}" for name, reason in found.absent.items()]
