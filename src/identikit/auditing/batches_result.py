"""The result of an audit of batches: the audit of their controls, and errors on other units."""

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
    """The difference that remains between two batches after a map that was fitted on controls.

    Parameters
    ----------
    a, b : str
        The batches.
    controls, others : int
        How many controls and how many other units both batches have.
    verdict : str
        The verdict of an audit of the controls: a rung, or "unrelated".
    group : str
        The rung of the map: that of the verdict, or the best one if there is none.
    before : float
        Error on held-out controls without a map.
    held_out : float
        Error on held-out controls after the map.
    held_out_interval : (float, float)
    others_before, error, interval : optional
        The same on the other units; None where there are none. The interval is for this map and
        accounts for the choice of the units only.
    noise : float or None
        The error to expect if the batches differed only in their replicates; None unless both
        batches have units with replicates.
    few : bool
        Whether there are too few controls for this many columns to determine such a map.
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
        """Whether the remaining error exceeds that of replicates; None if that is unknown."""
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
    and the checks; `remains` has the errors on other units of maps fitted on these controls;
    `skipped` are the pairs of batches that share too few controls.
    """

    audit: Audit
    by: str
    remains: tuple[Remains, ...]
    skipped: tuple[Skipped, ...]

    @property
    def verdict(self) -> Verdict:
        """The verdict on the worst pair of batches, on held-out controls."""
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
        """The document of the audit, with the remaining errors and the pairs that were skipped."""
        remains = [plain(each) | {"beyond_noise": each.beyond_noise} for each in self.remains]
        skipped = [asdict(each) for each in self.skipped]
        return self.audit.to_dict() | {"by": self.by, "remains": remains, "skipped": skipped}

    def __repr__(self) -> str:
        v, pairs = self.verdict, len(self.remains)
        return f"BatchAudit(by {self.by!r}, {pairs} pairs; worst {v.group}, error {v.error:.3g})"
