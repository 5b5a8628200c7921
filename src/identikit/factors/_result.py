"""What a metric returns: plain records of its value, its interval and its chance level."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from identikit._linalg import Array
from identikit.moments import FOLDS

Interval = tuple[float, float]

#: With fewer permutations than this, the range of chance is from the smallest to the largest value.
FEW = 40
#: On which rows a score was computed.
HELD_OUT, IN_SAMPLE = f"Held out over {FOLDS} folds", "In sample"
ONE_SPLIT = "Fitted on some rows and scored on the others"


@dataclass(frozen=True)
class Chance:
    """What uninformative codes would score, computed by permuting the rows of the factors.

    `interval` contains 95 % of the values over permutations, or all if there are fewer than 40.
    """

    mean: float
    interval: Interval
    permutations: int


@dataclass(frozen=True)
class Excluded:
    """What was left out of a score, and why: a "factor", a "code", or "rows" of a factor."""

    what: str
    name: str
    reason: str


@dataclass(frozen=True)
class Part:
    """One number of a metric.

    `interval` (95 %) is None if there were too few rows to leave any out, and `chance` is None if
    no permutations were asked for. `per_factor` and `per_code` are empty unless the number is a
    mean over factors or over codes.
    """

    name: str
    value: float
    interval: Interval | None
    chance: Chance | None
    per_factor: Mapping[str, float] = field(default_factory=dict)
    per_code: Mapping[str, float] = field(default_factory=dict)

    @property
    def adjusted(self) -> float | None:
        """(value − chance)/(1 − chance): 0 at chance, 1 at best; None if chance is 1."""
        if self.chance is None or self.chance.mean >= 1.0 - 1e-9:
            return None
        return (self.value - self.chance.mean) / (1.0 - self.chance.mean)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        chance = None
        if self.chance is not None:
            chance = vars(self.chance) | {"interval": list(self.chance.interval)}
        return {
            "name": self.name,
            "value": self.value,
            "interval": None if self.interval is None else list(self.interval),
            "chance": chance,
            "adjusted": self.adjusted,
            "per_factor": dict(self.per_factor),
            "per_code": dict(self.per_code),
        }


@dataclass(frozen=True, repr=False)
class Score:
    """The score of codes against factors by one metric.

    `parts` are its numbers, and `value`, `interval`, `chance` and `per_factor` are those of the
    first part. `matrix` (codes × factors, named by `codes` and `factors`) shows the quantity
    `matrix_of`. `n` rows were scored, and `excluded` lists what was left out. `method` says how the
    score was computed, and `warnings` say why these data are a hard case for the metric.
    """

    metric: str
    parts: tuple[Part, ...]
    n: int
    codes: tuple[str, ...]
    factors: tuple[str, ...]
    excluded: tuple[Excluded, ...]
    method: str
    matrix: Array | None = None
    matrix_of: str | None = None
    warnings: tuple[str, ...] = ()

    def __repr__(self) -> str:
        parts = ", ".join(
            f"{part.name} {part.value:.3g}"
            + ("" if part.chance is None else f" (chance {part.chance.mean:.3g})")
            for part in self.parts
        )
        return f"Score({self.metric}: {parts}; {self.n:,} rows)"

    def __getitem__(self, name: str) -> Part:
        """The part of that name."""
        for part in self.parts:
            if part.name == name:
                return part
        raise KeyError(f"{self.metric} has no part {name!r}; it has {[p.name for p in self.parts]}")

    @property
    def value(self) -> float:
        """The first part's value."""
        return self.parts[0].value

    @property
    def interval(self) -> Interval | None:
        """The first part's interval."""
        return self.parts[0].interval

    @property
    def chance(self) -> Chance | None:
        """The first part's chance level."""
        return self.parts[0].chance

    @property
    def per_factor(self) -> Mapping[str, float]:
        """The first part's values, one per factor."""
        return self.parts[0].per_factor

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {
            "metric": self.metric,
            "rows": self.n,
            "parts": [part.to_dict() for part in self.parts],
            "codes": list(self.codes),
            "factors": list(self.factors),
            "matrix": None if self.matrix is None else self.matrix.tolist(),
            "matrix_of": self.matrix_of,
            "excluded": [vars(each) for each in self.excluded],
            "method": self.method,
            "warnings": list(self.warnings),
        }


def part_of(
    name: str,
    values: Array,
    without: Array,
    least: float = -np.inf,
    *,
    per_factor: Mapping[str, float] | None = None,
    per_code: Mapping[str, float] | None = None,
) -> Part:
    """A number with its interval and its chance level.

    `values` (1 + P,) are for the true order of rows and for permuted ones, `without` (F,) for the
    true order without each fold, and `least` is the smallest possible value.
    """
    value = float(values[0])
    interval, chance = interval_of(value, without, least), chance_of(values[1:])
    return Part(name, value, interval, chance, per_factor or {}, per_code or {})


def interval_of(value: float, without: Array, least: float = -np.inf) -> Interval | None:
    """95 % jackknife interval from the values without each fold.

    It is None with fewer than two folds, or if the value without some fold is not defined (NaN).
    The interval is computed for √(1 − v) and mapped back: a value near its maximum of 1 can fall
    far but rise little, and a symmetric interval would too often lie above the truth. It is cut off
    at the smallest possible value and at 1.
    """
    from identikit.inference import jackknife_interval

    if len(without) < 2 or not np.isfinite(without).all():
        return None
    missing = float(np.sqrt(max(1 - value, 0.0)))
    less, more = jackknife_interval(missing, np.sqrt(np.maximum(1 - without, 0.0)), floor=0.0)
    return max(min(1 - more**2, value), least), max(1 - less**2, value)


def chance_of(null: Array) -> Chance | None:
    """The mean and the range of a value over permutations of the rows; None without any."""
    if not len(null):
        return None
    few = len(null) < FEW
    low, high = np.quantile(null, (0.0, 1.0) if few else (0.025, 0.975))
    return Chance(float(null.mean()), (float(low), float(high)), len(null))


def named(names: Sequence[str], values: Array) -> dict[str, float]:
    """Values by name, as plain numbers."""
    return dict(zip(names, map(float, values), strict=True))


def made_by(what: str, parts: Sequence[Part], where: str) -> str:
    """A sentence on how a score, its interval and its chance level were computed."""
    counts: dict[int, list[str]] = {}
    for part in parts:
        if part.chance is not None:
            counts.setdefault(part.chance.permutations, []).append(part.name)
    each = [
        f"{count} permutations of rows" + (f" ({', '.join(names)})" if len(counts) > 1 else "")
        for count, names in counts.items()
    ]
    chance = f" Chance: {', '.join(each)}" if each else ""
    if counts:
        chance += "; its range is all of them." if min(counts) < FEW else "."
    return f"{what} {where}; interval by the jackknife over {FOLDS} folds.{chance}"
