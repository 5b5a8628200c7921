"""What an audit of batches returns: the audit on their controls, and what maps leave elsewhere."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from identikit._result import Result
from identikit.auditing.result import Audit, Interval, Pair, Verdict, plain

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Remains:
    """What remains between two batches once a map fitted on their controls is applied.

    Parameters
    ----------
    a, b : str
        The batches.
    controls, others : int
        Units that both have: those that maps are fitted on, and the others.
    verdict : str
        Of an audit of the controls: a rung, or that the batches are unrelated there.
    group : str
        The rung of the map: that of the verdict, or the best there is.
    before : float
        Error on held-out controls as they are, without a map.
    held_out : float
        Error on held-out controls after the map.
    held_out_interval : (float, float)
    others_before, error, interval : optional
        The same on the other units; None where there are none. The interval is for these maps, over
        other units.
    noise : float or None
        What the error would be if batches differed in nothing but which replicates they have; None
        if no unit has replicates in both batches.
    few : bool
        Whether controls are too few for columns to determine such a map.
    """

    a: str
    b: str
    controls: int
    others: int
    verdict: str
    group: str
    before: float
    held_out: float
    held_out_interval: Interval
    others_before: float | None
    error: float | None
    interval: Interval | None
    noise: float | None
    few: bool

    @property
    def beyond_noise(self) -> bool | None:
        """Whether more remains than replicates differ; None if nothing says how far these do."""
        low = (self.interval or self.held_out_interval)[0]
        return None if self.noise is None else low > self.noise


@dataclass(frozen=True)
class Skipped:
    """Two batches that share too few controls to be compared."""

    a: str
    b: str
    controls: int


@dataclass(frozen=True, repr=False)
class BatchAudit(Result):
    """The result of `identikit.audit_batches`.

    `audit` compares the batches on the controls that they share, and has the verdict, the ladder
    and the checks; `remains` says what maps fitted there leave on other units; `skipped` are the
    pairs of batches that share too few controls.
    """

    audit: Audit
    by: str
    remains: tuple[Remains, ...]
    skipped: tuple[Skipped, ...]

    @property
    def verdict(self) -> Verdict:
        """Of the worst pair of batches, on held-out controls."""
        return self.audit.verdict

    @property
    def comparisons(self) -> tuple[Pair, ...]:
        """One record per pair of batches."""
        return self.audit.comparisons

    def __bool__(self) -> bool:
        """Whether all batches are the same within the tolerance, on their controls."""
        return bool(self.audit)

    @cached_property
    def table(self) -> pd.DataFrame:
        """One row per pair of batches."""
        import pandas as pd

        return pd.DataFrame([asdict(each) for each in self.remains])

    def to_dict(self) -> dict[str, Any]:
        """The document of the audit, and what remains."""
        remains = [plain(each) | {"beyond_noise": each.beyond_noise} for each in self.remains]
        skipped = [asdict(each) for each in self.skipped]
        return self.audit.to_dict() | {"by": self.by, "remains": remains, "skipped": skipped}

    def __repr__(self) -> str:
        v, pairs = self.verdict, len(self.remains)
        return f"BatchAudit(by {self.by!r}, {pairs} pairs; worst {v.group}, error {v.error:.3g})"
