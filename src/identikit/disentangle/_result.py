"""What a metric returns: its value beside its interval and its chance level, in plain records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from identikit._linalg import Array

Interval = tuple[float, float]


@dataclass(frozen=True)
class Chance:
    """What codes that know nothing would score: the rows of the factors were permuted.

    `interval` holds 95 % of the `permutations` values.
    """

    mean: float
    interval: Interval
    permutations: int


@dataclass(frozen=True)
class Excluded:
    """What had no part in a score, and why: a "factor", a "code", or "rows" of a factor."""

    what: str
    name: str
    reason: str


@dataclass(frozen=True)
class Part:
    """One number of a metric.

    `interval` (95 %) is None where the rows were too few to leave any out, `chance` is None if no
    permutation was asked for. `per_factor` and `per_code` are empty where the number is no mean
    over factors or over codes.
    """

    name: str
    value: float
    interval: Interval | None
    chance: Chance | None
    per_factor: Mapping[str, float] = field(default_factory=dict)
    per_code: Mapping[str, float] = field(default_factory=dict)

    @property
    def adjusted(self) -> float | None:
        """(value − chance)/(1 − chance): 0 at chance, 1 at best; None if chance scores 1."""
        if self.chance is None or self.chance.mean >= 1.0 - 1e-9:
            return None
        return (self.value - self.chance.mean) / (1.0 - self.chance.mean)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        chance = self.chance
        return {
            "name": self.name,
            "value": self.value,
            "interval": None if self.interval is None else list(self.interval),
            "chance": None
            if chance is None
            else {
                "mean": chance.mean,
                "interval": list(chance.interval),
                "permutations": chance.permutations,
            },
            "adjusted": self.adjusted,
            "per_factor": dict(self.per_factor),
            "per_code": dict(self.per_code),
        }


@dataclass(frozen=True)
class Score:
    """A metric of codes against factors.

    `parts` are its numbers, and `value`, `interval`, `chance` and `per_factor` are those of the
    first. `matrix` (codes × factors, named by `codes` and `factors`) shows `matrix_of`. `n` rows
    were scored; `excluded` names what was not. `method` says how all this came to be.
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
        """The first part's values, one a factor."""
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
        }
