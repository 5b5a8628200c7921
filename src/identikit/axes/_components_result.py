"""What `match_components` returns: the components of all runs, with statistics for each."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from identikit._linalg import Array
from identikit._result import Result
from identikit.axes._components_chance import NullReport
from identikit.axes._components_runs import Numbers
from identikit.axes._components_subspace import Subspace

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class RunReport:
    """A run: how many `atoms` (or columns) it has, and how many `dims` each of them has.

    `excluded` lists atoms that are zero, or columns that are constant, by number; `tied` lists sets
    of equal ones, whose matches are interchangeable. `matched` counts those in a component, and
    `unique` is as in `Components`, averaged over the other runs.
    """

    name: str
    atoms: int
    dims: int
    excluded: tuple[int, ...]
    tied: tuple[tuple[int, ...], ...]
    matched: int
    unique: float


@dataclass(frozen=True)
class Settings:
    """How components were matched and judged."""

    kind: str
    signed: bool
    threshold: float | None
    fdr: float
    seed: int


@dataclass(frozen=True, eq=False, repr=False)
class Components(Result):
    """Components matched over all runs, the most stable first.

    Arrays are (components, runs), with −1 or NaN where a run has no member in a component; `table`
    has the members only.

    Attributes
    ----------
    version : str
        The version of identikit.
    settings : Settings
        How components were matched and judged.
    runs : tuple of RunReport
        The runs that were given.
    index : array of int
        The number of each member in its run.
    sign : array of int
        ±1: the factor for each member that makes all members of a component point the same way.
    similarity : array
        Mean cosine or correlation of each member with its matches, with these signs.
    chance : array
        The median of the best match by chance, by the null model with the highest level.
    p_values : array
        Probability of a match at least this good by chance, by the null model that gives the most.
    passes : array of bool
        Whether a member reaches the threshold; or, without one, is above chance at the given false
        discovery rate.
    stability : array (components,)
        Mean similarity over all pairs of a component's members.
    interval : array (components, 2)
        95 % interval of the stability by the jackknife over runs; NaN for two members.
    fraction : float
        The share of components that replicate, which means that they have a member in every run and
        all members pass; as a share of the vectors of the smallest run.
    fraction_interval : (float, float) or None
        95 % interval of the fraction by the jackknife over runs; None for two runs.
    nulls : tuple of NullReport
        Each null model by itself, the strictest first (`null` is its name). A member must pass all
        of them.
    pw_mcc : float
        Pairwise mean correlation coefficient: the mean similarity of optimally matched vectors,
        over all vectors of the smaller run, averaged over pairs of runs.
    pw_mcc_chance : float
        The mean of `chance`. It is the score of the best of equally many vectors, and so somewhat
        higher than what an assignment between unrelated runs scores.
    unique : float
        The mean over runs of the share of vectors whose best match in another run (argmax) is the
        best match of no other vector of the same run.
    unique_chance : float
        Its value if vectors chose at random: the mean of (1 − 1/q)^(m−1) for m vectors among q.
    subspace : Subspace or None
        How far the leading directions of atoms that do not replicate are shared. None for
        activations, if fewer than two atoms remain, or if none of their directions stands out.
    methods : tuple of str
        "dense" or "sparse": how assignments were made.
    gap : float
        The largest relative amount by which the sum of similarities of an assignment may fall short
        of the best; 0 if all were exact.
    sweeps : int
        How often all runs were matched to the others again.
    """

    version: str
    settings: Settings
    runs: tuple[RunReport, ...]
    index: Numbers
    sign: NDArray[np.int8]
    similarity: Array
    chance: Array
    p_values: Array
    passes: NDArray[np.bool_]
    stability: Array
    interval: Array
    fraction: float
    fraction_interval: tuple[float, float] | None
    nulls: tuple[NullReport, ...]
    pw_mcc: float
    pw_mcc_chance: float
    unique: float
    unique_chance: float
    subspace: Subspace | None
    methods: tuple[str, ...]
    gap: float
    sweeps: int

    def __repr__(self) -> str:
        sizes = ", ".join(f"{run.name!r} ({run.atoms:,})" for run in self.runs[:3])
        more = f", and {len(self.runs) - 3} more" if len(self.runs) > 3 else ""
        return (
            f"Components({sizes}{more}; {self.replicates.sum():,} in all runs, mean similarity "
            f"{self.stability.mean():.3g}, chance {self.chance_level.mean():.3g})"
        )

    def __len__(self) -> int:
        return len(self.index)

    def __bool__(self) -> bool:
        """Whether some component replicates in every run."""
        return bool(self.replicates.any())

    @property
    def replicates(self) -> NDArray[np.bool_]:
        """Which components have a member in every run, with all members passing."""
        return np.asarray(self.passes.all(axis=1))

    @property
    def null(self) -> str:
        """The name of the strictest null model: the one that the fewest members pass by itself."""
        return self.nulls[0].name

    @property
    def says_chance(self) -> str:
        """How the chance level was computed, in one sentence."""
        if self.settings.kind == "activations":
            return "chance is the median of the best correlation with columns of shuffled rows"
        each = "; ".join(
            f"{null.name}, level {null.level:.2f}, passed by {null.passing:.1%} of members"
            for null in self.nulls
        )
        return (
            "chance is the median of the best match by chance, for each member by the strictest of "
            f"{len(self.nulls)} nulls, which are, strictest first: {each}"
        )

    @property
    def chance_level(self) -> Array:
        """For each component, the mean of its members' chance levels."""
        return np.asarray(np.nanmean(self.chance, axis=1))

    @property
    def table(self) -> pd.DataFrame:
        """One row for each member, with the statistics of the member and of its component.

        `low` and `high` are the ends of the component's interval, missing for two members.
        """
        import pandas as pd

        component, run = np.nonzero(self.index >= 0)
        names = np.array([report.name for report in self.runs], dtype=object)
        columns: dict[str, Any] = {
            "component": component,
            "run": names[run],
            "index": self.index[component, run],
            "sign": self.sign[component, run],
            "similarity": self.similarity[component, run],
            "chance": self.chance[component, run],
            "p_value": self.p_values[component, run],
            "passes": self.passes[component, run],
            "stability": self.stability[component],
        }
        if not np.isnan(self.interval).all():
            for name, ends in zip(("low", "high"), self.interval[component].T):
                columns[name] = pd.arrays.FloatingArray(np.nan_to_num(ends), np.isnan(ends))
        columns["replicates"] = self.replicates[component]
        return pd.DataFrame(columns)

    def to_dict(self) -> dict[str, Any]:
        """The result as one JSON-ready document."""
        names = [run.name for run in self.runs]
        components = [
            {
                "stability": float(self.stability[c]),
                "interval": None if np.isnan(self.interval[c, 0]) else self.interval[c].tolist(),
                "chance": float(level),
                "replicates": bool(replicates),
                "members": [
                    {
                        "run": names[r],
                        "index": int(self.index[c, r]),
                        "sign": int(self.sign[c, r]),
                        "similarity": float(self.similarity[c, r]),
                        "p_value": float(self.p_values[c, r]),
                        "passes": bool(self.passes[c, r]),
                    }
                    for r in np.flatnonzero(self.index[c] >= 0)
                ],
            }
            for c, (level, replicates) in enumerate(zip(self.chance_level, self.replicates))
        ]
        interval = self.fraction_interval
        settings = self.settings
        return {
            "identikit": self.version,
            "summary": self.summary(),
            "runs": [
                vars(run) | {"excluded": list(run.excluded), "tied": list(map(list, run.tied))}
                for run in self.runs
            ],
            "replicating": {
                "fraction": self.fraction,
                "interval": None if interval is None else list(interval),
                "components": int(self.replicates.sum()),
                "of": min(run.atoms - len(run.excluded) for run in self.runs),
            },
            "stability": {
                "mean": float(self.stability.mean()),
                "chance": float(self.chance_level.mean()),
                "chance_by": self.says_chance,
            },
            "chance": {"null": self.null, "nulls": [asdict(null) for null in self.nulls]},
            "pw_mcc": {"value": self.pw_mcc, "chance": self.pw_mcc_chance},
            "unique": {"value": self.unique, "chance": self.unique_chance},
            "subspace": None if self.subspace is None else self.subspace.to_dict(),
            "assignment": {
                "methods": list(self.methods),
                "gap": self.gap,
                "sweeps": self.sweeps,
            },
            "settings": {
                **vars(settings),
                "fdr": settings.fdr if settings.threshold is None else None,
            },
            "components": components,
        }
