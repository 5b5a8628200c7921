"""The result of `check`: what has changed, the likeliest cause, and whether it passes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from identikit._result import Result

if TYPE_CHECKING:
    import pandas as pd

    from identikit.retrieval._causes import Cause

Interval = tuple[float, float]


@dataclass(frozen=True)
class RungError:
    """A rung of the ladder: the held-out error of its best map, in the worse direction."""

    group: str
    error: float
    interval: Interval


@dataclass(frozen=True)
class MomentsChange:
    """How the moments of all rows differ from the pinned ones.

    `mean` is the distance of the means over the pinned spread √E‖x − Ex‖², `spread` the factor by
    which that spread has grown, and `covariance` the relative change of the covariance (Frobenius
    norm). `chance` is what `mean` would be for other rows of the same population.
    """

    mean: float
    spread: float
    covariance: float
    chance: float

    @property
    def error(self) -> float:
        """The larger of the changes of mean and covariance: what is judged if no rows are kept."""
        return max(self.mean, self.covariance)


@dataclass(frozen=True)
class SliceShare:
    """Rows of one slice: how many there are and are flagged, and the estimated foreign share."""

    name: str
    rows: int
    flagged: int
    share: float
    interval: Interval


@dataclass(frozen=True)
class RowPopulation:
    """Rows that form a population of their own.

    `apart` is how far the mean of the population is from the pinned mean: 1 if as far as a row is.
    `told` is whether that is far enough for another model, so that its rows are flagged; if not,
    they may be other contents just as well. `share` is the share of the rows in it.
    """

    apart: float
    told: bool
    share: float
    interval: Interval


@dataclass(frozen=True, repr=False)
class ForeignRows:
    """Rows that do not look as if the pinned model had made them.

    Parameters
    ----------
    rows : int
        How many rows were looked at.
    false_alarms : float
        The share of the pinned model's own rows that is flagged by mistake.
    threshold : float
        The largest value that is not flagged.
    calibrated_on : int
        How many pinned rows the threshold comes from.
    flagged : tuple of int
        The numbers of the flagged rows, counting from 0.
    ids : tuple of str or None
        Their ids.
    distances : tuple of float
        How far out they are, in standard deviations over the mean of the pinned rows.
    share : float
        The estimated share of foreign rows, false alarms taken off; it is too small if some foreign
        rows look like the pinned model's own.
    interval : tuple of float
        Its 95 % interval.
    slices : tuple of SliceShare
        The same for each slice.
    population : RowPopulation or None
        A population of its own that some rows form, if there is one.
    compared : SliceShare or None
        Rows that were compared with the same pinned rows one by one, if there are any: how many of
        them have changed.
    """

    rows: int
    false_alarms: float
    threshold: float
    calibrated_on: int
    flagged: tuple[int, ...]
    ids: tuple[str, ...] | None
    distances: tuple[float, ...]
    share: float
    interval: Interval
    slices: tuple[SliceShare, ...] = ()
    population: RowPopulation | None = None
    compared: SliceShare | None = None

    def __repr__(self) -> str:
        low, high = self.interval
        return (
            f"ForeignRows({len(self.flagged)} of {self.rows:,} rows flagged; share "
            f"{self.share:.3g} [{low:.3g}, {high:.3g}])"
        )


@dataclass(frozen=True, repr=False)
class LayerCheck:
    """The check of one view, or of one layer.

    Parameters
    ----------
    name : str
        The name of the layer, or of the view.
    rows, pinned_rows, compared : int
        All new rows, all pinned rows, and the rows that were compared one by one.
    pairing : str
        How rows were paired.
    group : str or None
        The strictest rung of the ladder that explains the change; None if no rows were compared.
    error : float
        The error that is judged, that of the required rung.
    interval : tuple of float or None
        Its 95 % interval.
    ladder : tuple of RungError
        The rungs that were computed; looser ones are left out if one explains nearly everything.
    causes : tuple of Cause
        The causes that the evidence speaks for, the likeliest first.
    changed : tuple of str
        Ids or numbers of the rows that have changed, if others have not.
    moments : MomentsChange
        The change of the moments of all rows.
    notes : tuple of str
        What else should be known.
    """

    name: str
    rows: int
    pinned_rows: int
    compared: int
    pairing: str
    group: str | None
    error: float
    interval: Interval | None
    ladder: tuple[RungError, ...]
    causes: tuple[Cause, ...]
    changed: tuple[str, ...]
    moments: MomentsChange
    notes: tuple[str, ...] = ()

    @property
    def cause(self) -> Cause | None:
        """The likeliest cause; None if no rows were compared."""
        return self.causes[0] if self.causes else None

    def __repr__(self) -> str:
        named = "" if self.cause is None else f", {self.cause.name}"
        return f"LayerCheck({self.name!r}: {self.group}, error {self.error:.3g}{named})"


@dataclass(frozen=True, repr=False)
class CheckResult(Result):
    """The result of `identikit.check`; true if it passes.

    Attributes
    ----------
    version : str
        The version of identikit.
    view, reference : str
        What was checked, and against what.
    require : str
        The rung up to which it had to be the same.
    fail_above : float
        The largest error that passes.
    strict : bool
        Whether the upper end of the interval was judged instead of the error.
    layers : tuple of LayerCheck
        One for each layer; just one if a view was pinned.
    failures : tuple of str
        Why it does not pass, a sentence each; empty if it passes.
    fingerprints : mapping of str to str
        What was said of the model when it was pinned.
    foreign : ForeignRows or None
        Rows that come from another model, if these were asked for.
    """

    version: str
    view: str
    reference: str
    require: str
    fail_above: float
    strict: bool
    layers: tuple[LayerCheck, ...]
    failures: tuple[str, ...]
    fingerprints: Mapping[str, str]
    foreign: ForeignRows | None = None

    @property
    def worst(self) -> LayerCheck:
        """The layer with the largest error."""
        return max(self.layers, key=lambda layer: layer.error)

    @property
    def cause(self) -> Cause | None:
        """The likeliest cause in the worst layer."""
        return self.worst.cause

    @property
    def passed(self) -> bool:
        """Whether it passes."""
        return not self.failures

    def __bool__(self) -> bool:
        """Whether it passes."""
        return self.passed

    def __repr__(self) -> str:
        worst = self.worst
        named = "" if worst.cause is None else f", {worst.cause.name}"
        return (
            f"CheckResult({self.view!r} against {self.reference!r}: "
            f"{'passed' if self else 'failed'}; {worst.group}, error {worst.error:.3g}{named})"
        )

    @property
    def table(self) -> pd.DataFrame:
        """One row per layer."""
        import pandas as pd

        rows = []
        for layer in self.layers:
            low, high = layer.interval or (None, None)
            cause = layer.cause
            row: dict[str, Any] = {"layer": layer.name, "rows": layer.rows}
            row |= {"compared": layer.compared, "group": layer.group, "error": layer.error}
            row |= {"low": low, "high": high, "cause": None if cause is None else cause.name}
            row |= {f"error_{rung.group}": rung.error for rung in layer.ladder}
            row |= {f"moments_{key}": value for key, value in asdict(layer.moments).items()}
            rows.append(row)
        return pd.DataFrame(rows)

    def to_dict(self) -> dict[str, Any]:
        """The result as one JSON-ready document."""
        return {
            "identikit": self.version,
            "view": self.view,
            "reference": self.reference,
            "passed": self.passed,
            "failures": list(self.failures),
            "require": self.require,
            "fail_above": self.fail_above,
            "strict": self.strict,
            "verdict": {
                "group": self.worst.group,
                "error": self.worst.error,
                "interval": self.worst.interval,
                "cause": None if self.cause is None else self.cause.name,
            },
            "layers": [
                asdict(layer) | {"cause": None if layer.cause is None else layer.cause.name}
                for layer in self.layers
            ],
            "fingerprints": dict(self.fingerprints),
            "foreign_rows": None if self.foreign is None else asdict(self.foreign),
        }
