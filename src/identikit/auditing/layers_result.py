"""The result of `layers`: a table of pairs of layers, and the best match of each layer."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from identikit._linalg import Array
from identikit._result import Result
from identikit.auditing.result import plain
from identikit.similarity import Scored, calibrate

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Match:
    """The best match of a layer: `a` of one model, `b` of the other.

    `calibrated` and `p` are corrected for the search over all pairs: they refer to the largest
    value that the whole table would have for independent models.
    """

    a: str
    b: str
    value: float
    calibrated: float
    p: float


@dataclass(frozen=True, eq=False, repr=False)
class Layers(Result):
    """All pairs of layers of two models, by one measure; true if the best match is beyond chance.

    Attributes
    ----------
    version : str
        The version of identikit.
    rows : int
        The number of rows of all views.
    measure : str
        The name of the measure.
    a, b : tuple of str
        Names of the layers.
    scores : tuple of tuple of Scored or None
        One row per layer of a, one column per layer of b: each pair on its own, as in an audit.
    threshold : float
        In 95 % of cases, independent models of this shape have no pair with a value above this.
    best_of_a, best_of_b : tuple of Match or None
        The best match of every layer of each model.
    folds, seed : int
        The number of folds for the intervals, and the seed of the row sample.
    """

    version: str
    rows: int
    measure: str
    a: tuple[str, ...]
    b: tuple[str, ...]
    scores: tuple[tuple[Scored | None, ...], ...]
    threshold: float
    best_of_a: tuple[Match | None, ...]
    best_of_b: tuple[Match | None, ...]
    folds: int
    seed: int

    @property
    def best(self) -> Match:
        """The best match of all."""
        return max((m for m in self.best_of_a if m is not None), key=lambda m: m.value)

    @property
    def values(self) -> Array:
        """Values (layers of a × layers of b); NaN where a pair has none."""
        return self._of("value")

    @property
    def calibrated(self) -> Array:
        """Calibrated values of each pair on its own; NaN where a pair has none."""
        return self._of("calibrated")

    def _of(self, field: str) -> Array:
        return np.array(
            [[np.nan if s is None else getattr(s, field) for s in row] for row in self.scores]
        )

    @property
    def table(self) -> pd.DataFrame:
        """One row per pair of layers with a value; `best_of_a` marks each layer's best match."""
        import pandas as pd

        rows = []
        for i, line in enumerate(self.scores):
            for j, scored in enumerate(line):
                if scored is None:
                    continue
                low, high = scored.interval or (None, None)
                best = (self.best_of_a[i], self.best_of_b[j])
                corrected = calibrate(scored.value, self.threshold)
                row: dict[str, Any] = {"a": self.a[i], "b": self.b[j], "value": scored.value}
                row |= {"low": low, "high": high, "chance": scored.chance}
                row |= {"band_low": scored.band[0], "band_high": scored.band[1]}
                row |= {"calibrated": scored.calibrated, "p": scored.p, "corrected": corrected}
                row["best_of_a"] = best[0] is not None and best[0].b == self.b[j]
                row["best_of_b"] = best[1] is not None and best[1].a == self.a[i]
                rows.append(row)
        return pd.DataFrame(rows)

    def __bool__(self) -> bool:
        """Whether the best match is beyond chance."""
        return self.best.calibrated > 0

    def __repr__(self) -> str:
        best = self.best
        return (
            f"Layers({len(self.a)} × {len(self.b)}, {self.measure}; best {best.a!r} with "
            f"{best.b!r}: {best.value:.3f}, calibrated {best.calibrated:.3f})"
        )

    def to_dict(self) -> dict[str, Any]:
        """The result as one JSON-ready document."""
        matches = {"a": self.best_of_a, "b": self.best_of_b}
        return {
            "identikit": self.version,
            "rows": self.rows,
            "measure": self.measure,
            "a": list(self.a),
            "b": list(self.b),
            "threshold": self.threshold,
            "best": asdict(self.best),
            "best_of": {
                side: [None if match is None else asdict(match) for match in found]
                for side, found in matches.items()
            },
            "scores": [
                [None if scored is None else plain(scored) for scored in row] for row in self.scores
            ],
            "settings": {"folds": self.folds, "seed": self.seed},
        }
