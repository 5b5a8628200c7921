"""The result of an audit: frozen records, with a table and a JSON document."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from identikit._result import Result
from identikit.alignment import RUNGS, HeldOut, counts_as
from identikit.auditing._clusters import Clusters, clusters_of
from identikit.errors import InputError
from identikit.inference import jackknife_interval
from identikit.similarity import Scored

if TYPE_CHECKING:
    import pandas as pd

Interval = tuple[float, float]


def plain(record: Any) -> dict[str, Any]:
    """A record as plain values for JSON, in which intervals are lists."""
    values = asdict(record)
    return {key: list(v) if isinstance(v, tuple) else v for key, v in values.items()}


@dataclass(frozen=True)
class RungError:
    """A measured rung of the ladder: the held-out error of its best map.

    `error` is the larger of the errors in the two directions, `forward` (a to b) and `backward` (b
    to a), and `interval` is the interval of that direction. If there were so few rows that a ridge
    was used, `ridge` is its strength in that direction, as a share of the source's mean eigenvalue,
    and `without_ridge` the error of plain least squares.
    """

    group: str
    error: float
    interval: Interval
    forward: float
    forward_interval: Interval
    backward: float
    backward_interval: Interval
    ridge: float = 0.0
    without_ridge: float | None = None

    @staticmethod
    def of(name: str, forward: HeldOut, backward: HeldOut) -> RungError:
        """The errors of both directions, and the worse one, with their intervals."""
        sides = forward, backward
        ends = [jackknife_interval(h.error, h.leave_one_out(), floor=0.0) for h in sides]
        worse = 0 if forward.error >= backward.error else 1
        return RungError(
            name,
            sides[worse].error,
            ends[worse],
            forward.error,
            ends[0],
            backward.error,
            ends[1],
            sides[worse].strength,
            sides[worse].without_ridge,
        )


@dataclass(frozen=True)
class OwnAxes:
    """ICA of one view: its components, their share of the variance, how many are identified."""

    components: int
    variance: float
    converged: bool
    identified: int


@dataclass(frozen=True)
class SharedAxes:
    """The unsupervised rung: axes that ICA finds in each view alone, and that are then matched.

    Only the order and the signs of the axes are fitted to the pairing of the rows.
    `random_rotation` is the error with random rotations of the whitened axes in place of ICA.
    `rows` is the number of sampled rows on which the axes of each view were found, different rows
    for the two views.
    """

    rung: RungError
    random_rotation: float
    rows: int
    a: OwnAxes
    b: OwnAxes

    def to_dict(self) -> dict[str, Any]:
        """Plain values: the fields of the rung, and the other fields beside them."""
        document = asdict(self)
        return plain(self.rung) | {key: document[key] for key in document if key != "rung"}


@dataclass(frozen=True)
class CCASummary:
    """Mean canonical correlation, with what is needed to interpret it.

    `mean` is in sample (None where it would be 1 whatever the data), `held_out` uses directions
    that were found on other rows, and `chance` is the value for independent views of this shape.
    """

    mean: float | None
    held_out: float | None
    held_out_interval: Interval | None
    chance: float
    adjusted_r2: float | None
    rank: int


@dataclass(frozen=True)
class CKASummary:
    """Linear CKA: biased, debiased, and the mean of the biased value over row permutations."""

    value: float
    debiased: float | None
    chance: float


@dataclass(frozen=True)
class Check:
    """One question about a pair, its answer, and what to do about it.

    If `ok` is false, `message` is a warning: one sentence that says what that means and what to
    try.
    """

    name: str
    question: str
    value: float | None
    threshold: float | None
    ok: bool
    message: str


@dataclass(frozen=True)
class Influence:
    """A few extreme rows that decide the verdict on a pair: how many, and their numbers.

    `error_without` and `group_without` are the error and the verdict without them; None where the
    other rows are too small or too few to give a verdict.
    """

    rows: int
    numbers: tuple[int, ...]
    error_without: float | None
    group_without: str | None


@dataclass(frozen=True)
class View:
    """A view: its name, width, numerical rank, and effective rank (Roy and Vetterli 2007).

    If it was too wide to be compared whole, `reduced_to` is the number of leading directions that
    were compared instead, and `lost` is the share of the variance outside of them; the ranks are
    then those of the reduced view.
    """

    name: str
    dims: int
    rank: int
    effective_rank: float
    reduced_to: int | None = None
    lost: float | None = None


@dataclass(frozen=True, repr=False)
class Pair(Result):
    """The comparison of two views in an audit.

    `candidates` are the rungs that the data cannot distinguish, including `group`; usually there is
    just one. `measures` has every registered measure with its chance level, or None where it would
    be meaningless. `correlations` is the canonical spectrum, and `chance_edge` the largest
    correlation that independent views would have; `points` (rows, 2 views, 2 axes) are the first
    canonical variates of a row sample. `ica` is set if it was asked for and could be computed.

    `blocked` is set if rows depend on others nearby: it is the rung of the verdict, measured with
    whole stretches of rows left out, and `interval` then covers the intervals of both. `order_only`
    is true if the pair is unrelated because all that a map explains may come from the order of the
    rows. `influence` is set if a few rows decide the verdict.

    `variance` is the share of the variance that the map of the verdict explains, 1 − error² but not
    below 0, and `relation` is the verdict in one of three words: "same" (within the tolerance),
    "related" (they share something beyond chance) or "unrelated".
    """

    a: str
    b: str
    group: str
    candidates: tuple[str, ...]
    error: float
    interval: Interval
    within_tolerance: bool
    ladder: tuple[RungError, ...]
    cca: CCASummary
    cka: CKASummary
    measures: dict[str, Scored | None]
    checks: tuple[Check, ...]
    correlations: NDArray[np.float64]
    chance_edge: float
    points: NDArray[np.float64]
    ica: SharedAxes | None = None
    influence: Influence | None = None
    blocked: RungError | None = None
    order_only: bool = False

    def __repr__(self) -> str:
        low, high = self.interval
        group = " or ".join(self.candidates)
        return (
            f"Pair({self.a!r}, {self.b!r}: {group}, error {self.error:.3g} [{low:.3g}, {high:.3g}])"
        )

    @property
    def variance(self) -> float:
        """The share of the variance that is explained: 1 − error², but not below 0."""
        return max(1.0 - self.error**2, 0.0)

    @property
    def relation(self) -> str:
        """The verdict in a word: "same", "related" or "unrelated"."""
        if self.group == "unrelated":
            return "unrelated"
        return "same" if self.within_tolerance else "related"

    def error_of(self, *, strict: bool = False, source: str | None = None) -> float:
        """The error that is compared with a limit.

        Parameters
        ----------
        strict : bool
            Use the upper end of the interval instead of the error.
        source : str, optional
            The view that is mapped to the other; by default, the worse direction counts.
        """
        rungs = [rung for rung in (*self.ladder, self.blocked) if rung is not None]
        own = [rung for rung in rungs if rung is self.blocked or rung.group == self.group]
        if source is None or not own:
            return self.interval[1] if strict else self.error
        if source not in (self.a, self.b):
            raise InputError(f"there is no view {source!r} here; expected {self.a!r} or {self.b!r}")
        if source == self.a:
            return max(r.forward_interval[1] for r in own) if strict else own[0].forward
        return max(r.backward_interval[1] for r in own) if strict else own[0].backward

    def exceeds(self, limit: float, *, strict: bool = False, source: str | None = None) -> bool:
        """Whether the error of a pair is above a limit, with all rows or without a few.

        This is always true for a pair that no map relates, and for one whose verdict rests on a few
        rows alone.

        Parameters
        ----------
        limit : float
            The largest error that is allowed.
        strict, source
            As for `error_of`.
        """
        few = self.influence
        verdicts = [(self.group, self.error_of(strict=strict, source=source))]
        if few is not None:
            if few.error_without is None or few.group_without is None:
                return True
            verdicts.append((few.group_without, few.error_without))
        return any(group not in RUNGS or not error <= limit for group, error in verdicts)

    def meets(self, rung: str, *, without_few: bool = True) -> bool:
        """Whether the views are the same up to a rung, or up to a stricter one.

        If there are several candidates, all of them must be. A map with a scale per axis (monomial)
        is not a rotation; where linear is required, a shift in a stricter rung does not matter. The
        size of the error plays no role.

        Parameters
        ----------
        rung : str
            A rung of the ladder.
        without_few : bool
            Whether this must also hold without the few rows that decide the verdict, if any do.
        """
        if rung not in RUNGS:
            raise InputError(f"there is no rung {rung!r}; expected one of {', '.join(RUNGS)}")
        few = self.influence if without_few else None
        found = [*self.candidates, *([] if few is None else [few.group_without])]
        return all(name is not None and counts_as(name, rung) for name in found)

    @property
    def table(self) -> pd.DataFrame:
        """One row per rung of the ladder."""
        import pandas as pd

        return pd.DataFrame([plain(rung) for rung in self.ladder])

    def __bool__(self) -> bool:
        """Whether the two are the same within the tolerance."""
        return self.within_tolerance

    @property
    def warnings(self) -> list[str]:
        """The messages of the checks that did not pass."""
        return [check.message for check in self.checks if not check.ok]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {
            "a": self.a,
            "b": self.b,
            "group": self.group,
            "candidates": list(self.candidates),
            "error": self.error,
            "interval": list(self.interval),
            "within_tolerance": self.within_tolerance,
            "variance": self.variance,
            "relation": self.relation,
            "influence": None if self.influence is None else plain(self.influence),
            "ladder": [plain(rung) for rung in self.ladder],
            "ica": None if self.ica is None else self.ica.to_dict(),
            "blocked": None if self.blocked is None else plain(self.blocked),
            "order_only": self.order_only,
            "cca": plain(self.cca),
            "cka": plain(self.cka),
            "measures": {
                name: None if scored is None else plain(scored)
                for name, scored in self.measures.items()
            },
            "warnings": self.warnings,
            "checks": [plain(check) for check in self.checks],
        }


@dataclass(frozen=True)
class Verdict:
    """The verdict on the worst pair, `a` and `b`: the one with the largest error.

    `candidates` are the rungs that the data cannot distinguish for this pair, `loosest` is the
    loosest rung that any pair needs, and `order_only` is that of this pair.
    """

    group: str
    candidates: tuple[str, ...]
    error: float
    interval: Interval
    within_tolerance: bool
    a: str
    b: str
    loosest: str
    order_only: bool = False


@dataclass(frozen=True)
class Settings:
    """How an audit was made."""

    folds: int
    fold_rule: str
    tolerance: float
    slack: float
    seed: int | None
    dropped: int
    sample: int
    reading: str = "All views were read in one pass."
    pairing: str = "paired by position"


@dataclass(frozen=True, repr=False)
class Audit(Result):
    """The result of `identikit.audit`: views, pairs, and the verdict on the worst pair."""

    version: str
    rows: int
    views: tuple[View, ...]
    comparisons: tuple[Pair, ...]
    verdict: Verdict
    settings: Settings

    def __repr__(self) -> str:
        verdict, (low, high) = self.verdict, self.verdict.interval
        within = "within" if verdict.within_tolerance else "above"
        return (
            f"Audit({len(self.views)} views, {self.rows:,} rows; worst pair {verdict.a!r}, "
            f"{verdict.b!r}: {verdict.group}, error {verdict.error:.3g} [{low:.3g}, {high:.3g}], "
            f"{within} {self.settings.tolerance:g})"
        )

    def __bool__(self) -> bool:
        """Whether all views are the same within the tolerance."""
        return self.verdict.within_tolerance

    @property
    def table(self) -> pd.DataFrame:
        """The same as `pairs`."""
        return self.pairs

    @cached_property
    def pairs(self) -> pd.DataFrame:
        """One row per pair: the verdict, every rung's error, every measure."""
        import pandas as pd

        rows, blocked = [], any(pair.blocked is not None for pair in self.comparisons)
        for pair in self.comparisons:
            row: dict[str, Any] = {
                "a": pair.a,
                "b": pair.b,
                "group": pair.group,
                "error": pair.error,
                "low": pair.interval[0],
                "high": pair.interval[1],
                "within_tolerance": pair.within_tolerance,
                "variance": pair.variance,
                "relation": pair.relation,
            }
            row |= {f"cca_{key}": value for key, value in asdict(pair.cca).items()}
            row |= {"cka": pair.cka.value, "cka_debiased": pair.cka.debiased}
            row |= {"cka_chance": pair.cka.chance}
            row |= {f"error_{rung.group}": rung.error for rung in pair.ladder}
            if pair.ica is not None:
                row |= {"error_ica": pair.ica.rung.error}
            if blocked:
                row["error_blocked"] = None if pair.blocked is None else pair.blocked.error
            for key, scored in pair.measures.items():
                row.setdefault(key, None if scored is None else scored.value)
                row[f"{key}_calibrated"] = None if scored is None else scored.calibrated
            row["warnings"] = len(pair.warnings)
            rows.append(row)
        return pd.DataFrame(rows)

    @cached_property
    def clusters(self) -> Clusters:
        """Which views belong together, at the tolerance and at the widest gap of the errors."""
        names = [view.name for view in self.views]
        return clusters_of(names, self.comparisons, self.settings.tolerance)

    def to_dict(self) -> dict[str, Any]:
        """The audit as one JSON-ready document."""
        return {
            "identikit": self.version,
            "rows": self.rows,
            "views": [plain(view) for view in self.views],
            "pairs": [pair.to_dict() for pair in self.comparisons],
            "verdict": plain(self.verdict),
            "clusters": self.clusters.to_dict(),
            "settings": plain(self.settings),
        }
