"""What `near_identifiability` returns: plain, frozen records, a table, a document."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from identikit._result import Result
from identikit.axes._near_rows import QUANTILE
from identikit.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

Interval = tuple[float, float]

INTERVALS = (
    "95 %, by the jackknife over runs of rows (whole groups where there are any): without each run "
    "ICA, maps, distances and diameters are all computed anew. They are for the median of a value "
    "over samples of this size, with maps fitted on as many rows; the limit of unlimited rows is "
    "lower, for wide views by more than an interval's width. Where axes are not identified, what "
    "other random starts of ICA lead to is part of the intervals after it and of its efficiency's. "
    "Those of the random rotation are for the rotations drawn, those of held_out by the jackknife "
    "over folds of all rows, given the axes"
)
DIAMETER = (
    f"distances are divided by the distance that {QUANTILE:.0%} of the pairs of rows of the target "
    "do not exceed, which does not grow with the number of rows; max, the largest distance between "
    "two rows of the sample, does, and nothing is divided by it"
)
LARGEST = (
    "the largest distance over the scored rows is a plug-in for the epsilon of the definition, "
    "neither an upper nor a lower bound of it"
)


@dataclass(frozen=True)
class Diameter:
    """How large a view is: what distances are divided by, and the largest distance beside it.

    The largest distance between two of n rows grows with n, without bound if the view has tails. A
    quantile of the distance between two independent rows does not: it belongs to the population,
    and since each row has a part in n − 1 pairs, few rows suffice for it.

    Parameters
    ----------
    value : float
        The distance that a share `quantile` of the pairs of rows does not exceed.
    quantile : float
    pairs : int
        Pairs that were looked at for it: all of them, or as many for each row.
    max : float
        The largest distance found between two rows of this sample. Nothing is divided by it.
    upper : float
        What the largest distance between two rows of this sample is at most.
    exact : bool
        Whether `max` is the largest.
    rows : int
    """

    value: float
    max: float
    upper: float
    exact: bool
    rows: int
    pairs: int
    quantile: float = QUANTILE


@dataclass(frozen=True)
class NearError:
    """Distances ‖y − h(x)‖ on the scored rows over the diameter of y, h the best map of a rung.

    The diameter is a quantile of the distances between rows (`Diameter.value`), so each number but
    `largest` tends to a value of the population as rows are added.

    Parameters
    ----------
    group : str
        Of the ladder; "ica" for the axes of both sides' ICA, matched; and two controls of it: "ica,
        different rows", where each side's axes come from a half of the rows of its own, and "random
        rotation", where axes are turned at random on both sides, and matched.
    mean, median, q95, largest, rms : float
        Of the distances. `largest` is a plug-in for ε, neither bound of it.
    mean_interval, median_interval, q95_interval, rms_interval : tuple of float
        95 %, for the median over samples of this size (see `near_identifiability`).
    chance : float
        `mean` if the rows of one side are shuffled before anything is fitted.
    held_out, held_out_interval : float and tuple of float, or None
        The ladder's own error of this rung, √(E‖y−h(x)‖²/E‖y−Ey‖²), on folds of all rows; for raw
        coordinates only.
    """

    group: str
    mean: float
    mean_interval: Interval
    median: float
    median_interval: Interval
    q95: float
    q95_interval: Interval
    largest: float
    rms: float
    rms_interval: Interval
    chance: float
    held_out: float | None = None
    held_out_interval: Interval | None = None


@dataclass(frozen=True)
class Efficiency:
    """(e_perm − e_ICA)/(e_perm − e_rigid) of mean distances: how far ICA gets without the pairing.

    0 is no better than re-ordering axes, 1 as good as the best rigid map, which has seen the
    pairing. In raw coordinates it may exceed 1, for ICA whitens, and a rigid map cannot.

    The interval is Fieller's for a ratio, with ICA fitted anew without each run of rows; if some
    axes are not identified, with the spread over other random starts added. It is for the median
    over samples of this size, not the mean: in a few samples of few rows ICA ends far from the
    axes, and these pull the mean down.

    Beside it, the same with other errors in place of e_ICA: of `shuffled` rows, of a
    `random_rotation` instead of ICA, and of axes that each side finds on `different_rows`. On the
    same rows ICA of Gaussian views agrees too, on the axes of the sample, and the value is too
    high; on half as many rows it is too low; the truth lies between. All are None where a rigid map
    does not beat a permutation, so that there is no gap to close.
    """

    value: float | None
    interval: Interval | None
    shuffled: float | None
    random_rotation: float | None
    different_rows: float | None


@dataclass(frozen=True, repr=False)
class Direction:
    """One direction, from `source` to `target`, in raw or whitened coordinates of both.

    `efficiency` is None for sides of different widths, between which there is no permutation.
    """

    source: str
    target: str
    coordinates: str
    diameter: Diameter
    errors: tuple[NearError, ...]
    efficiency: Efficiency | None

    def __repr__(self) -> str:
        means = ", ".join(f"{error.group} {error.mean:.3g}" for error in self.errors)
        return f"Direction({self.source!r} to {self.target!r}, {self.coordinates}: {means})"

    def error(self, group: str) -> NearError:
        """The distances of one rung."""
        for error in self.errors:
            if error.group == group:
                return error
        known = ", ".join(error.group for error in self.errors)
        raise InputError(f"no distances after a map of {group!r} here; there are {known}")


@dataclass(frozen=True)
class Side:
    """A view and its ICA: components, their share of the variance, and how many are identified.

    `why_not` counts the others by the reason that `Axes.why_not` gives.
    """

    name: str
    dims: int
    components: int
    variance: float
    converged: bool
    gradient: float
    identified: int
    why_not: dict[str, int]


@dataclass(frozen=True, repr=False)
class NearIdentifiability(Result):
    """How near two views are to being the same up to each rung, as the paper measures it.

    Parameters
    ----------
    version : str
    rows, used : int
        Rows of the views, and how many of them were used: all, or a sample.
    fitted_on, scored_on : int
        Of those, the rows that maps and ICA were fitted on, and those they were scored on.
    seed : int
    sides : tuple of Side
    directions : tuple of Direction
        a to b and b to a, in raw coordinates; then the same in whitened ones.
    """

    version: str
    rows: int
    used: int
    fitted_on: int
    scored_on: int
    seed: int
    sides: tuple[Side, Side]
    directions: tuple[Direction, ...]

    def __repr__(self) -> str:
        a, b = self.sides
        raw = [way for way in self.directions if way.coordinates == "raw"]
        means = {
            name: max(way.error(name).mean for way in raw)
            for name in ("permutation", "rigid", "affine", "ica")
            if all(name in {error.group for error in way.errors} for way in raw)
        }
        listed = ", ".join(f"{name} {mean:.3g}" for name, mean in means.items())
        return f"NearIdentifiability({a.name!r}, {b.name!r}, {self.rows:,} rows; mean {listed})"

    def __bool__(self) -> bool:
        """Whether the best map, either way, comes nearer than to shuffled rows, for sure."""
        raw = [way.error("affine") for way in self.directions if way.coordinates == "raw"]
        return all(error.mean_interval[1] < error.chance for error in raw)

    @property
    def table(self) -> pd.DataFrame:
        """One row for each direction, coordinates and rung."""
        import pandas as pd

        rows = []
        for way in self.directions:
            start = {"source": way.source, "target": way.target, "coordinates": way.coordinates}
            size = {
                "diameter": way.diameter.value,
                "diameter_quantile": way.diameter.quantile,
                "diameter_max": way.diameter.max,
            }
            for error in way.errors:
                row: dict[str, Any] = {**start, **asdict(error)}
                for key in [key for key in row if key.endswith("interval")]:
                    low, high = row.pop(key) or (None, None)
                    what = key.removesuffix("_interval")
                    row |= {f"{what}_low": low, f"{what}_high": high}
                rows.append(row | size)
        return pd.DataFrame(rows)

    def to_dict(self) -> dict[str, Any]:
        """The result as one JSON-ready document."""
        document = asdict(self)
        document = {"identikit": document.pop("version"), **document}
        words = {"intervals": INTERVALS, "largest": LARGEST, "diameter": DIAMETER}
        return document | words | {"diameter_quantile": QUANTILE}
