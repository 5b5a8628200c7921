"""What `migrate` returns: frozen records, with a table and a JSON document."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from identikit._linalg import Array
from identikit._result import Result
from identikit.errors import InputError
from identikit.retrieval._calibration import Calibration
from identikit.retrieval._scores import CUT
from identikit.retrieval._space_map import SpaceMap

if TYPE_CHECKING:
    import pandas as pd

Interval = tuple[float, float]

#: Verdicts that name no option.
NO_QUERIES, CHECK_PAIRING = "cannot say without queries", "check the pairing"

INTERVALS = (
    "95 %, by resampling queries with the index and the maps fixed (studentised bootstrap); "
    "differences are paired: both options answer the same queries. They are for the mean over "
    "queries of this kind. Of the worst slice, the interval allows for its having been chosen"
)
HELD_OUT = (
    "every document is searched with a map that was fitted on other documents, and queries are "
    "mapped by maps that were not fitted on queries"
)
HELD_OUT_WITH_QUERIES = (
    "every document is searched with a map that was fitted on other documents, and every query "
    "with one that was fitted on other queries"
)
OVERLAP = (
    "overlap@k is the share of re-embedding's own top k that an option has in its top k; "
    "re-embedding is the reference, so it has 1, whether or not it is better than staying"
)
FLATTERS = (
    "documents stood in for queries, which flatters maps: a map is fitted on documents, and "
    "queries are shorter and differ from them; give real queries of both models before you decide"
)


@dataclass(frozen=True)
class Value:
    """The mean of a measure over queries, and its paired difference to staying.

    `difference` and `difference_interval` are None for *stay* itself, and intervals are None if
    there are too few queries.
    """

    mean: float
    interval: Interval | None
    difference: float | None = None
    difference_interval: Interval | None = None


@dataclass(frozen=True)
class Cost:
    """Vectors to compute with the new model.

    `documents` once, of which maps need `fitted_on`; `per_query` for each query, itself included
    (with the old model, for *stay*).
    """

    documents: int
    per_query: int
    fitted_on: int


@dataclass(frozen=True, repr=False)
class Option:
    """One thing that can be done.

    Attributes
    ----------
    name : str
    values : dict
        For each measure (ndcg, mrr, recall, overlap) its `Value`; empty if the option does not
        apply.
    cost : Cost or None
    why_not : str or None
        Why the option does not apply.
    """

    name: str
    values: dict[str, Value]
    cost: Cost | None
    why_not: str | None = None

    def __repr__(self) -> str:
        if self.why_not is not None:
            return f"Option({self.name}: {self.why_not})"
        shown = ", ".join(f"{name} {value.mean:.3f}" for name, value in self.values.items())
        return f"Option({self.name}: {shown})"


@dataclass(frozen=True)
class Slice:
    """An option on the queries or documents with one label; `worst` marks its worst slice.

    The interval of the worst slice's difference allows for the choice among all slices.
    """

    option: str
    slice: str
    queries: int
    measure: str
    value: Value
    worst: bool


@dataclass(frozen=True)
class Half:
    """New queries on an index of which a share is new, and the rest mapped into the new space.

    `way` is "map", or "no map" if the rest is left as it is.
    """

    way: str
    share: float
    values: dict[str, Value]


@dataclass(frozen=True)
class Verdict:
    """What to do, and what that rests on.

    Attributes
    ----------
    choice : str
        An option, or "cannot say without queries", or "check the pairing".
    measure : str
        The measure that was compared: ndcg if there are judgments, otherwise overlap.
    best : str
        The option with the largest mean.
    reason : str
        In words.
    """

    choice: str
    measure: str
    best: str
    reason: str


@dataclass(frozen=True)
class MapUsed:
    """A direction, the kind of map that won held out, its error there, and rows fitted on."""

    source: str
    target: str
    kind: str
    error: float
    fitted_on: int


@dataclass(frozen=True, repr=False)
class Migration(Result):
    """What can be done about a new embedding model, measured on one index.

    Attributes
    ----------
    verdict : Verdict
    options : tuple of Option
        stay, swap, map-queries, map-index, map-rescore, re-embed.
    sliced : str or None
        What slices are of: "queries", "documents", or None without `slices=`.
    slices : tuple of Slice
    half : tuple of Half
        Indexes on the way from old to new.
    calibration : Calibration
        How scores of the old model read afterwards.
    maps : tuple of MapUsed
    documents, queries, judged : int
        Numbers of documents, of queries, and of queries with a relevant document (0 without
        judgments).
    stand_ins : bool
        Whether documents stood in for queries.
    names, widths : tuple
        Of the old and the new model.
    per_query : dict
        For each option and measure its value for every query, in the order of the queries; NaN for
        a query without a relevant document. It is not part of the JSON document.
    space_maps : dict
        With `keep_maps=True` the maps of "queries" and of the "index"; otherwise empty. They are
        not part of the JSON document.
    warnings : tuple of str
    """

    version: str
    names: tuple[str, str]
    widths: tuple[int, int]
    documents: int
    queries: int
    judged: int
    stand_ins: bool
    fitted_on_queries: bool
    metric: str
    k: int
    n: int
    resamples: int
    seed: int
    pairing: str
    query_pairing: str
    verdict: Verdict
    options: tuple[Option, ...]
    sliced: str | None
    slices: tuple[Slice, ...]
    half: tuple[Half, ...]
    maps: tuple[MapUsed, ...]
    calibration: Calibration
    per_query: dict[str, dict[str, Array]]
    space_maps: dict[str, SpaceMap]
    warnings: tuple[str, ...]

    def __repr__(self) -> str:
        old, new = self.names
        return (
            f"Migration({old!r} to {new!r}, {self.documents:,} documents, {self.queries:,} "
            f"queries: {self.verdict.choice})"
        )

    def __bool__(self) -> bool:
        """Whether the verdict names an option."""
        return self.verdict.choice in {option.name for option in self.options}

    def option(self, name: str) -> Option:
        """One of the options by name."""
        for option in self.options:
            if option.name == name:
                return option
        known = ", ".join(option.name for option in self.options)
        raise InputError(f"there is no option {name!r}; choose one of {known}")

    @property
    def table(self) -> pd.DataFrame:
        """One row for each option: means, differences to staying with intervals, and cost."""
        import pandas as pd

        return pd.DataFrame([self._row(option) for option in self.options])

    def _row(self, option: Option) -> dict[str, Any]:
        row: dict[str, Any] = {"option": option.name}
        for name in self.options[0].values:
            row |= flat(name, option.values.get(name))
        cost = option.cost
        row |= {
            "documents_to_embed": None if cost is None else cost.documents,
            "vectors_per_query": None if cost is None else cost.per_query,
            "why_not": option.why_not,
        }
        return row

    @property
    def slice_table(self) -> pd.DataFrame:
        """One row for each option and slice."""
        import pandas as pd

        rows = []
        for part in self.slices:
            start = {"option": part.option, "slice": part.slice, "queries": part.queries}
            rows.append(start | flat(part.measure, part.value) | {"worst": part.worst})
        return pd.DataFrame(rows)

    @property
    def half_table(self) -> pd.DataFrame:
        """One row for each share of the index that is new, with and without a map."""
        import pandas as pd

        rows = []
        for point in self.half:
            row: dict[str, Any] = {"way": point.way, "share": point.share}
            for name, value in point.values.items():
                row |= flat(name, value)
            rows.append(row)
        return pd.DataFrame(rows)

    @property
    def methods(self) -> dict[str, str]:
        """How the numbers were made."""
        said = {
            "held_out": HELD_OUT_WITH_QUERIES if self.fitted_on_queries else HELD_OUT,
            "intervals": INTERVALS,
            "overlap": OVERLAP,
        }
        if self.judged:
            said["ndcg"] = (
                f"nDCG@{CUT} and MRR@{CUT} are means over the {self.judged:,} queries with a "
                "relevant document; the gain is the grade"
            )
        if self.stand_ins:
            said["stand_ins"] = FLATTERS
        return said

    def to_dict(self) -> dict[str, Any]:
        """The result as one JSON-ready document."""
        left_out = ("calibration", "per_query", "space_maps")
        document = {key: value for key, value in vars(self).items() if key not in left_out}
        for key in ("options", "slices", "half", "maps"):
            document[key] = [asdict(each) for each in document[key]]
        document["verdict"] = asdict(self.verdict)
        document = {"identikit": document.pop("version"), **document}
        document["calibration"] = {
            "metric": self.metric,
            "pairs": self.calibration.pairs,
            "thresholds": self.calibration.rows,
        }
        plain: dict[str, Any] = _plain(document | {"methods": self.methods})
        return plain


def flat(name: str, value: Value | None) -> dict[str, Any]:
    """A value as columns of a table."""
    if value is None:
        value = Value(float("nan"), None)
    low, high = value.interval or (None, None)
    start, end = value.difference_interval or (None, None)
    return {
        name: value.mean,
        f"{name}_low": low,
        f"{name}_high": high,
        f"{name}_difference": value.difference,
        f"{name}_difference_low": start,
        f"{name}_difference_high": end,
    }


def _plain(value: Any) -> Any:
    """Lists for tuples, throughout."""
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list | tuple) else value
