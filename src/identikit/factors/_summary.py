"""`disentangle`: all metrics at once, and their result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from identikit._progress import Progress
from identikit._result import Result
from identikit._version import __version__
from identikit.errors import InputError
from identikit.factors._data import Data, prepare
from identikit.factors._factor import Kinds
from identikit.factors._mcc import RotationLevel, rotation_level
from identikit.factors._metric import METRICS, is_reference, listed
from identikit.factors._result import Excluded, Score

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class FactorReport:
    """A scored factor: kind, number of classes (0 if continuous) and number of known rows."""

    name: str
    kind: str
    classes: int
    rows: int


@dataclass(frozen=True, repr=False)
class Disentanglement(Result):
    """The result of `disentangle`.

    `scores` has the score of each metric by name; `absent` has the metrics that cannot be computed
    for these data, with the reason. `rotation` is the MCC of arbitrary axes; None without numeric
    factors.
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

    def __repr__(self) -> str:
        values = ", ".join(f"{name} {score.value:.3g}" for name, score in self.scores.items())
        return (
            f"Disentanglement({len(self.codes)} codes, {len(self.factors)} factors, "
            f"{self.rows:,} rows; {values})"
        )

    def __bool__(self) -> bool:
        """Whether every metric is above its chance level."""
        chances = [(score.value, score.chance) for score in self.scores.values()]
        return all(chance is None or value > chance.interval[1] for value, chance in chances)

    def __getitem__(self, name: str) -> Score:
        """The score of a metric."""
        return self.scores[name]

    @cached_property
    def table(self) -> pd.DataFrame:
        """One row per number: value, 95 % interval, chance level with its range, adjusted value.

        Entries that were not computed are None.
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
        # The type is object so that None stays None; columns without None become numeric again.
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
            "rotation": None if level is None else level.to_dict(),
            "excluded": [vars(each) for each in self.excluded],
            "settings": {"preset": self.preset, "seed": self.seed},
        }


def disentangle(
    codes: object,
    factors: object = None,
    *,
    names: Sequence[str] | None = None,
    kinds: Kinds = None,
    metrics: Sequence[str] | None = None,
    seed: int = 0,
    preset: str | None = None,
    progress: Progress | None = None,
) -> Disentanglement:
    """Score codes against known factors by every metric, each with its chance level.

    Parameters
    ----------
    codes : array (n, L), data frame or path
        Anything that `open_source` accepts.
    factors : array (n, K), data frame, mapping or path
        Continuous and discrete factors may be mixed; missing values are NaN or None. Files: .npy,
        .npz (`path::name`), .csv, .tsv, .parquet.
    names : sequence of str, optional
        For a matrix of factors, the names of its columns; for a table, the columns to use.
    kinds : mapping or sequence, optional
        "discrete" or "continuous", by factor name or as one entry per factor.
    metrics : sequence of str, optional
        Names in `METRICS`; by default all except those that have to be named explicitly.
    seed : int
        Seed of the folds, permutations and random draws.
    preset : None or "reference"
        Held out, or as in the published implementations.
    progress : callable, optional
        Called with (current step, steps done, number of steps).

    Examples
    --------
    >>> import numpy as np
    >>> s = np.random.default_rng(0).normal(size=(400, 3))
    >>> found = disentangle(s[:, [1, 2, 0]], s, metrics=["mcc", "r2"])
    >>> [round(score.value, 6) for score in found.scores.values()]
    [1.0, 1.0]
    """
    is_reference(preset)
    chosen = _chosen(metrics)
    data = prepare(codes, factors, names=names, kinds=kinds, seed=seed)
    scores, absent = {}, {}
    for done, name in enumerate(chosen):
        if progress is not None:
            progress(METRICS[name].title, done, len(chosen))
        try:
            scores[name] = METRICS[name](data, preset=preset)
        except InputError as error:
            absent[name] = str(error)
    if not scores:
        raise InputError(
            f"no metric could be computed; the first error is: {next(iter(absent.values()))}"
        )
    every = {each: None for score in scores.values() for each in score.excluded}
    return Disentanglement(
        __version__,
        data.rows,
        data.code_names,
        tuple(
            FactorReport(f.name, f.kind, f.classes, data.rows if f.known is None else len(f.known))
            for f in data.factors
        ),
        scores,
        absent,
        _rotation(data, preset),
        tuple(dict.fromkeys((*data.excluded, *every))),
        preset,
        data.seed,
    )


def _chosen(metrics: Sequence[str] | None) -> list[str]:
    if metrics is None:
        return [each.name for each in listed() if not each.by_name]
    names = [metrics] if isinstance(metrics, str) else list(dict.fromkeys(metrics))
    unknown = [name for name in names if name not in METRICS]
    if unknown or not names:
        raise InputError(
            f"there is no metric {', '.join(map(repr, unknown)) or 'in an empty list'}; expected "
            f"some of {', '.join(each.name for each in listed())}"
        )
    return names


def _rotation(data: Data, preset: str | None) -> RotationLevel | None:
    try:
        return rotation_level(data, preset=preset)
    except InputError:  # words only, or too few rows in which all factors are known
        return None
