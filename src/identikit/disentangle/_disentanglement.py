"""What `disentangle` returns: every score, as a table, a document and a page."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from identikit import _files
from identikit.disentangle._result import Excluded, Score
from identikit.disentangle._rotation import Level, RotationLevel

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class FactorReport:
    """A factor that was scored: its kind, its classes (0 if it is continuous), and known rows."""

    name: str
    kind: str
    classes: int
    rows: int


@dataclass(frozen=True)
class Disentanglement:
    """The result of `disentangle`.

    `scores` are the metrics by name, `absent` those that these data do not allow, with the reason.
    `rotation` is what arbitrary axes would score in MCC; None without a factor of numbers.
    """

    version: str
    rows: int
    codes: tuple[str, ...]
    factors: tuple[FactorReport, ...]
    scores: Mapping[str, Score]
    absent: Mapping[str, str]
    rotation: RotationLevel | None
    excluded: tuple[Excluded, ...]
    preset: str | None
    seed: int

    def __getitem__(self, name: str) -> Score:
        """The score of a metric."""
        return self.scores[name]

    @cached_property
    def table(self) -> pd.DataFrame:
        """One row a number: value, 95 % interval, chance level with its range, adjusted value.

        What was not computed is None.
        """
        import pandas as pd

        rows = []
        for name, score in self.scores.items():
            for part in score.parts:
                low, high = part.interval or (None, None)
                chance = part.chance
                rows.append(
                    {
                        "metric": name,
                        "part": part.name,
                        "value": part.value,
                        "low": low,
                        "high": high,
                        "chance": None if chance is None else chance.mean,
                        "chance_low": None if chance is None else chance.interval[0],
                        "chance_high": None if chance is None else chance.interval[1],
                        "adjusted": part.adjusted,
                        "rows": score.n,
                    }
                )
        # As objects, so that None stays None; columns without one become numbers again.
        return pd.DataFrame(rows, dtype=object).infer_objects()

    def to_dict(self) -> dict[str, Any]:
        """The result as one JSON-ready document."""
        level = self.rotation
        return {
            "identikit": self.version,
            "rows": self.rows,
            "codes": list(self.codes),
            "factors": [vars(factor) for factor in self.factors],
            "scores": {name: score.to_dict() for name, score in self.scores.items()},
            "absent": dict(self.absent),
            "rotation": None
            if level is None
            else {
                "of_factors": _level(level.of_factors),
                "of_codes": _level(level.of_codes),
                "factors": level.factors,
                "rotations": level.rotations,
            },
            "excluded": [vars(each) for each in self.excluded],
            "settings": {"preset": self.preset, "seed": self.seed},
        }

    def to_json(self) -> str:
        """The document of `to_dict` as text; strict JSON, so absent values are null."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False) + "\n"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the JSON document, atomically."""
        _files.write_text(path, self.to_json())

    def report(self, path: str | os.PathLike[str]) -> None:
        """Write the one-page HTML report, atomically."""
        from identikit.report._disentangle_html import disentangle_html

        _files.write_text(path, disentangle_html(self))


def _level(level: Level | None) -> dict[str, Any] | None:
    return None if level is None else {"mean": level.mean, "interval": list(level.interval)}
