"""What `near_identifiability` returns: frozen records, with a table and a JSON document."""

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
    "95 %, by the jackknife over blocks of rows (whole groups if groups are given): ICA, maps, "
    "distances and diameters are all computed again without each block. They are for the median of "
    "a value over samples of this size, with maps fitted on as many rows; the limit of infinitely "
    "many rows is lower, for wide views by more than the width of an interval. Where axes are not "
    "identified, the intervals after ICA and of its efficiency include the spread over other "
    "random starts. Those of the random rotation are for the rotations that were drawn; those of "
    "held_out are by the jackknife over folds of all rows, given the axes"
)
DIAMETER = (
    f"distances are divided by the {QUANTILE:.0%} quantile of the distances between pairs of rows "
    "of the target, which does not grow with the number of rows; max, the largest distance between "
    "two rows of the sample, does grow, and nothing is divided by it"
)
LARGEST = (
    "the largest distance over the scored rows is a plug-in for the epsilon of the definition, "
    "neither an upper nor a lower bound of it"
)


@dataclass(frozen=True)
class Diameter:
    """How large a view is: the length that distances are divided by, and the largest distance.

    The largest distance between two of n rows grows with n, without bound if the distribution is
    unbounded. A quantile of the distance between two independent rows does not: it is a property of
    the population, and few rows suffice to estimate it, since each row is part of n − 1 pairs.

    `value` is the `quantile` of the distances between all pairs of the `rows`, or between so many
    `pairs`, equally many for each row. `max` is the largest distance found between two rows, and
    `upper` an upper bound on it; both agree if it is `exact`. Nothing is divided by them.
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
    """Distances ‖y − h(x)‖ on the scored rows, divided by the diameter of y.

    Here h is the best map of a rung. The diameter is a quantile of the distances between rows
    (`Diameter.value`), so that each number except `largest` converges to a population value as rows
    are added.

    Parameters
    ----------
    group : str
        The rung of the ladder; or "ica" for the matched ICA axes of both views; or one of two
        controls: "ica, different rows", where the axes of each view come from a different half of
        the rows, and "random rotation", where the axes of both views are rotated at random before
        they are matched.
    mean, median, q95, largest, rms : float
        Statistics of the distances. `largest` is a plug-in estimate of ε, and bounds it neither
        from above nor from below.
    mean_interval, median_interval, q95_interval, rms_interval : tuple of float
        95 % intervals for the median over samples of this size (see `near_identifiability`).
    chance : float
        The value of `mean` if the rows of one view are shuffled before anything is fitted.
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

    0 means no better than reordering the axes, 1 as good as the best rigid map, which is fitted to
    the pairing. In raw coordinates it may exceed 1, since ICA whitens and a rigid map cannot.

    The interval is Fieller's for a ratio. It is for the median over samples of this size, not the
    mean: with few rows, ICA ends far from the axes in some samples, which pull the mean down.

    The other fields are the same ratio with another error in place of e_ICA: of `shuffled` rows, of
    a `random_rotation` instead of ICA, and of axes that each view finds on `different_rows`. On the
    same rows, ICA agrees even on Gaussian views, on the axes of the sample, so that `value` is too
    high; on half as many rows it is too low; the truth lies between. All are None if a rigid map is
    no better than a permutation, so that there is no gap to close.
    """

    value: float | None
    interval: Interval | None
    shuffled: float | None
    random_rotation: float | None
    different_rows: float | None


@dataclass(frozen=True, repr=False)
class Direction:
    """One direction, from `source` to `target`, in raw or whitened coordinates of both.

    `efficiency` is None for views of different widths, between which there is no permutation.
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
        raise InputError(f"there are no distances for {group!r}; choose one of {known}")


@dataclass(frozen=True)
class Side:
    """A view and its ICA: components, their share of the variance, and how many are identified.

    `why_not` counts the axes that are not identified by reason, as in `Axes.why_not`.
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
    """How close two views are to being the same up to each rung, measured as in the paper.

    Parameters
    ----------
    version : str
    rows, used : int
        The number of rows of the views, and how many of them were used: all, or a sample.
    fitted_on, scored_on : int
        How many of those were used to fit maps and ICA, and how many to score them.
    seed : int
    sides : tuple of Side
    directions : tuple of Direction
        From the first view to the second and back, in raw coordinates; then in whitened ones.
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
        """Whether the best affine map is significantly better than chance in both directions."""
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
