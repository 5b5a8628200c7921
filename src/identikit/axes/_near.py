"""Near-identifiability: how far apart two views are after the best map of each rung.

Nelson, Fumero, Karaletsos and Locatello (2026) call f ε-near-identifiable up to a group H if for
any two optima f, f' there is an h in H with ‖f − h∘f'‖ ≤ ε in the supremum over inputs. They
measure the mean distance after the best h, divided by the diameter of the latent space. Both are
computed here on rows that were not used to fit h, beside the ladder's own error. There is also an
ICA entry: each view is whitened and rotated to its independent axes on its own, and only the order
and signs of the axes are fitted to the pair.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from identikit._linalg import Array
from identikit._progress import Progress, silent
from identikit._version import __version__
from identikit.alignment import HeldOut, ladder
from identikit.axes._ica_core import IndependentAxes
from identikit.axes._ica_rung import ica_rung
from identikit.axes._near_measure import (
    DIFFERENT_ROWS,
    ICA_AXES,
    NEAR_RUNGS,
    TURNED,
    Measured,
    Views,
)
from identikit.axes._near_result import (
    Diameter,
    Direction,
    Efficiency,
    Interval,
    NearError,
    NearIdentifiability,
    Side,
)
from identikit.axes._near_rows import LEAST_ROWS, largest_distance, parts_of, row_numbers
from identikit.errors import InputError
from identikit.inference import jackknife_interval
from identikit.moments import accumulate
from identikit.sources import unpack

Statistic = Callable[[Array], Array]

#: Statistics of the distances in each draw: mean, median, 95 % quantile, root mean square.
STATISTICS: tuple[Statistic, ...] = (
    lambda d: d.mean(axis=1),
    lambda d: np.median(d, axis=1),
    lambda d: np.quantile(d, 0.95, axis=1),
    lambda d: np.sqrt((d**2).mean(axis=1)),
)


def near_identifiability(
    A: object,
    B: object = None,
    *,
    names: Sequence[str] | None = None,
    groups: ArrayLike | None = None,
    fit_share: float = 0.5,
    n_components: int | None = None,
    max_rows: int = 20_000,
    draws: int = 5,
    seed: int = 0,
    drop_nonfinite: bool = False,
    progress: Progress | None = None,
) -> NearIdentifiability:
    """Distances between two views after the best map of each rung, over the latent diameter.

    e_H = E‖y − h(x)‖ / Δ, where h is the best map of the rung H on some rows and E is the mean over
    the other rows. Δ is the 95 % quantile of the distances between pairs of rows of the target. The
    largest distance, which is also reported, grows with the number of rows n, so that a ratio to it
    would fall with n, whereas e_H converges to a population value (for Gaussian rows of variance 1
    in d dimensions, Δ² is twice the 95 % quantile of χ² with d degrees of freedom).

    Intervals are for the median of the value over samples of n rows, with h and ICA fitted on the
    same share of them. This is not the limit of infinitely many rows: on new rows, the error of a
    fitted h is larger by a share of about p/n, for p parameters per output and n rows to fit on,
    which for wide views is more than the width of an interval. Intervals come from the jackknife
    over ten blocks of rows. Everything is computed again without each block: whitening, ICA
    (starting from the axes of all rows), maps, distances and Δ. If not all axes are identified, the
    result of ICA depends partly on chance, and the variance over ten other random starts is added
    to that of values after ICA. docs/intervals.md says how often the intervals hold the truth.
    They are not valid

    - if rows depend on each other (copies of a row, for example) and `groups` does not say so;
    - for the mean over samples, after ICA of few rows, since it may be far from the median;
    - in whitened coordinates, if the ICA has fewer components than the view and variances do not
      drop at that point, so that chance decides which directions are kept.

    Parameters
    ----------
    A, B : array or path
        Two views of the same rows; or A alone, a mapping from names to the two views.
    names : sequence of str, optional
        Names of the views.
    groups : array (rows,), optional
        Labels of dependent rows. Rows with the same label are all fitted on or all scored on.
    fit_share : float
        The share of rows used to fit maps and ICA; the other rows are scored. With 1, all rows are
        used for both, and the errors are in-sample.
    n_components : int, optional
        Number of components of the ICA; by default as many as the ranks of both views allow, and no
        more than k for k² rows.
    max_rows : int
        Of more rows than this, a uniform sample of this size is used. The ladder's own error always
        uses all rows.
    draws : int
        How often rows are shuffled and random rotations drawn.
    seed : int
        Seed for the sample, the split, the ICA and the draws.
    drop_nonfinite : bool
        Leave rows with NaN or infinity out of both views, instead of raising an error.
    progress : callable, optional
        Called with (the current step, how much is done, the total).

    Returns
    -------
    NearIdentifiability

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.laplace(size=(1000, 3))
    >>> near = near_identifiability(X, X @ [[0.6, 0.8, 0], [-0.8, 0.6, 0], [0, 0, 1]])
    >>> near.directions[0].error("rigid").mean < 1e-6 < near.directions[0].error("permutation").mean
    True
    """
    if not 0 < fit_share <= 1:
        raise InputError(f"fit_share is {fit_share}; give a number above 0 and at most 1")
    if draws < 1 or max_rows < 2 * LEAST_ROWS:
        raise InputError(
            f"draws is {draws} and max_rows {max_rows}; give at least 1 draw and {2 * LEAST_ROWS} "
            "rows"
        )
    if seed < 0:
        raise InputError(f"the seed is {seed}; give a number that is 0 or larger")
    say = progress or silent
    views, names = ([A, B], names) if B is not None else unpack(A, names)
    if B is None and (not isinstance(A, Mapping) or len(A) != 2):
        raise InputError("give two views, or one mapping with two views by name")
    moments = accumulate(
        views,
        groups=groups,
        names=names,
        seed=seed,
        sample=max_rows,
        drop_nonfinite=drop_nonfinite,
        progress=say,
    )
    held_out = ladder(moments, 0, 1, NEAR_RUNGS)
    rng = np.random.default_rng(seed)
    labels = None
    if groups is not None:
        labels = np.asarray(groups)[row_numbers(moments.sample.keys, np.size(groups), seed)]
    used = len(moments.sample.keys)
    parts = parts_of(moments.sample.rows, labels, fit_share, rng)
    rows = moments.sample_of(0), moments.sample_of(1)
    views = Views(rows, moments.names, parts, n_components, draws, seed, rng)
    held_out[ICA_AXES] = ica_rung(moments, 0, 1, views.axes.same)
    held_out[DIFFERENT_ROWS] = ica_rung(moments, 0, 1, views.axes.different)
    whole, chance, rest = views.whole(), views.by_chance(rng), []
    searched = views.searched(rng)
    for run in np.unique(parts.runs):
        rest.append(views.without(int(run)))
        say("leaving out rows", len(rest), int(parts.runs.max()) + 1)
    directions: list[Direction] = []
    for (name, way), measured in whole.items():
        place = name, way
        others = [less[place] for less in rest]
        errors = []
        for rung in measured.distances:
            starts = searched.get(place) if rung == ICA_AXES else None
            known = held_out[rung][way] if name == "raw" and rung in held_out else None
            errors.append(summarise(rung, measured, others, chance[place][rung], starts, known))
        unit = moments.units[1 - way] if name == "raw" else 0
        lengths = measured.diameter, *largest_distance(views.in_coordinates(name, 1 - way))
        usual, most, upper = (_in_own_units(length, unit) for length in lengths)
        size = Diameter(usual, most, upper, lengths[1] == lengths[2], used, len(views.pairs[0]))
        gain = gained(measured, others, chance[place], searched.get(place))
        names = moments.names[way], moments.names[1 - way]
        directions.append(Direction(*names, name, size, tuple(errors), gain))
        say("comparing", len(directions), 4)
    return NearIdentifiability(
        __version__,
        moments.rows,
        used,
        len(parts.fit[0]),
        len(parts.score[0]),
        seed,
        (_side(views.axes.same[0]), _side(views.axes.same[1])),
        tuple(directions),
    )


def _in_own_units(length: float, exponent: int) -> float:
    """A length in the units of the view, capped at the largest float64."""
    with np.errstate(over="ignore"):
        return min(float(np.ldexp(length, exponent)), float(np.finfo(np.float64).max))


def _side(ica: IndependentAxes) -> Side:
    return Side(
        ica.name,
        len(ica.mean),
        len(ica.unmixing),
        ica.variance,
        ica.converged,
        ica.gradient,
        int(ica.axes.identified.sum()),
        dict(Counter(why for why in ica.axes.why_not if why)),
    )


def ica_efficiency(permutation: float, rigid: float, ica: float) -> float:
    """(e_perm − e_ICA)/(e_perm − e_rigid): the share of the gap that ICA closes.

    >>> round(ica_efficiency(permutation=0.197, rigid=0.109, ica=0.145), 2)
    0.59
    """
    return (permutation - ica) / (permutation - rigid)


def summarise(
    rung: str,
    whole: Measured,
    rest: Sequence[Measured],
    chance: Array,
    searched: Array | None = None,
    held_out: HeldOut | None = None,
) -> NearError:
    """Summarise the distances of one rung, divided by the diameter, with intervals.

    `whole` is measured on all rows, each of `rest` without one block of rows, and `chance` on
    shuffled rows. `searched` are mean distances after ICA from other random starts, and `held_out`
    is the ladder's own error.
    """
    # In units of the mean, since other starts change all statistics of a rung by similar shares.
    chaos = 0.0 if searched is None else np.var(searched / whole.distances[rung].mean(), ddof=1)

    def estimate(statistic: Statistic) -> tuple[float, Interval]:
        value, *others = (
            float(statistic(measured.distances[rung]).mean()) / measured.diameter
            for measured in (whole, *rest)
        )
        low, high = jackknife_interval(value, np.array(others))
        half = np.hypot((high - low) / 2, _quantile(len(others)) * np.sqrt(chaos) * value)
        return value, (max(value - float(half), 0.0), value + float(half))

    mean, median, q95, rms = map(estimate, STATISTICS)
    largest = float(whole.distances[rung].max(axis=1).mean()) / whole.diameter
    by_chance = float(chance.mean()) / whole.diameter
    error = NearError(rung, *mean, *median, *q95, largest, *rms, by_chance)
    if held_out is None:
        return error
    interval = jackknife_interval(held_out.error, held_out.leave_one_out(), floor=0.0)
    return replace(error, held_out=held_out.error, held_out_interval=interval)


def gained(
    whole: Measured,
    rest: Sequence[Measured],
    chance: Mapping[str, Array],
    searched: Array | None = None,
) -> Efficiency | None:
    """The efficiency of ICA; None if there is no permutation, and empty if there is no gap."""
    if "permutation" not in whole.distances:
        return None
    start, end, ica = (
        np.array([measured.distances[rung].mean() for measured in (whole, *rest)])
        for rung in ("permutation", "rigid", ICA_AXES)
    )
    chaos = 0.0 if searched is None else float(searched.var(ddof=1))
    interval = ratio_interval(start - ica, start - end, chaos)
    if interval is None or not start[0] > end[0]:
        return Efficiency(None, None, None, None, None)
    others = chance[ICA_AXES], whole.distances[TURNED], whole.distances[DIFFERENT_ROWS]
    value, *controls = (
        ica_efficiency(float(start[0]), float(end[0]), float(error))
        for error in (ica[0], *(other.mean() for other in others))
    )
    return Efficiency(value, interval, *controls)


def ratio_interval(above: Array, below: Array, more: float = 0.0) -> Interval | None:
    """Fieller's interval (1954) for a ratio; None if it is unbounded (the denominator may be 0).

    It contains all θ for which the jackknife interval of above − θ below contains 0. `above` and
    `below`, (1 + F,), are the numerator and denominator from all rows, then without each of F
    blocks; `more` is additional variance of the numerator.
    """
    runs = len(above) - 1
    values = np.array([above[0], below[0]])
    spread = np.stack([above[1:] - above[1:].mean(), below[1:] - below[1:].mean()])
    variance = (runs - 1) / runs * spread @ spread.T
    variance[0, 0] += more
    (a, b), (_, c) = np.outer(values, values) - _quantile(runs) ** 2 * variance
    if not c > 0:
        return None
    root = np.sqrt(max(b * b - a * c, 0.0))
    return float((b - root) / c), float((b + root) / c)


def _quantile(runs: int) -> float:
    """The quantile of Student's t for a 95 % interval from this many jackknife blocks."""
    from scipy.special import stdtrit

    return float(stdtrit(runs - 1, 0.975))
