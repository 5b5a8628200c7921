"""Near-identifiability: how far apart two views are after the best map of each group.

Nelson, Fumero, Karaletsos and Locatello (2026) call f ε-near-identifiable up to a group H if for
any two optima some h in H has ‖f − h∘f'‖ ≤ ε, in the supremum over inputs; they measure the mean
distance after the best h over the diameter of the latent space. Both are here, on rows that had no
part in fitting h, beside the ladder's own error, and with the column "ICA": each side whitened and
turned to its independent axes on its own, and only order and signs of the axes fitted to the pair.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from identikit._linalg import Array, svd
from identikit._version import __version__
from identikit.alignment._ica_core import Components, Search, independent_components
from identikit.alignment._ica_rung import components_for, ica_rung
from identikit.alignment._ica_solver import random_rotation
from identikit.alignment._ladder import ladder
from identikit.alignment._near_diameter import diameter
from identikit.alignment._near_distances import (
    NEAR_GROUPS,
    BothWays,
    Coordinates,
    after_groups,
    after_matching,
)
from identikit.alignment._near_result import Direction, NearIdentifiability, Side
from identikit.alignment._near_split import (
    LEAST_ROWS,
    Labels,
    Numbers,
    Split,
    fit_and_score,
    in_two,
    row_numbers,
    runs_of,
)
from identikit.alignment._near_summary import (
    DIFFERENT_ROWS,
    ICA_AXES,
    TURNED,
    beside,
    gained,
    summarise,
)
from identikit.errors import InputError
from identikit.moments import accumulate

Progress = Callable[[str, int, int], None]
Measured = dict[str, Array]
Pair = tuple[Components, Components]


def near_identifiability(
    A: object,
    B: object,
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
    """Distances between two views after the best map of each group, over the latent diameter.

    Parameters
    ----------
    A, B : array or path
        Two views of the same rows.
    names : sequence of str, optional
        Their names.
    groups : array (rows,), optional
        Labels of dependent rows, which are fitted on or scored on together.
    fit_share : float
        Share of the rows that maps and ICA are fitted on; the rest is scored. 1 is in sample: all
        rows for both.
    n_components : int, optional
        Components of the ICA; by default what the ranks, and k² rows for k components, allow.
    max_rows : int
        If there are more rows, a uniform sample of so many is used, but for the ladder's own error,
        which is always of all rows.
    draws : int
        How often rows are shuffled and random rotations drawn.
    seed : int
        Of the sample, the split, the ICA and the draws.
    drop_nonfinite : bool
        Leave rows with a NaN or infinity out of both views, instead of raising.
    progress : callable, optional
        Called with (what is being done, done, of how many).

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
        raise InputError(f"fit_share is {fit_share}; give a share above 0, and 1 at most")
    if draws < 1 or max_rows < 2 * LEAST_ROWS:
        raise InputError(
            f"draws is {draws} and max_rows {max_rows}; give at least 1 draw and {2 * LEAST_ROWS} "
            "rows"
        )
    say = progress or (lambda _stage, _done, _total: None)
    moments = accumulate(
        [A, B],
        groups=groups,
        names=names,
        seed=seed,
        sample=max_rows,
        drop_nonfinite=drop_nonfinite,
        progress=lambda done, rows: say("reading", done, rows),
    )
    held_out = ladder(moments, 0, 1, NEAR_GROUPS)
    rng = np.random.default_rng(seed)
    labels: Labels = None
    if groups is not None:
        labels = np.asarray(groups)[row_numbers(moments.sample.keys, np.size(groups), seed)]
    used = len(moments.sample.keys)
    fit, score = fit_and_score(used, labels, fit_share, rng)
    runs = runs_of(None if labels is None else labels[score], len(score))
    rows = moments.sample_of(0), moments.sample_of(1)
    halves = in_two(fit, labels, 0.5, rng)
    icas, different = _icas(rows, moments.names, fit, halves, n_components, seed)
    held_out[ICA_AXES] = ica_rung(moments, 0, 1, icas)
    held_out[DIFFERENT_ROWS] = ica_rung(moments, 0, 1, different)
    turns = [ica.mixing @ other.unmixing.T for ica, other in zip(icas, different)]
    directions: list[Direction] = []
    for name, sides in _coordinates(rows, icas).items():
        measured = _measure(sides, Split((fit, fit), (score, score)), turns, draws, rng)
        for way, (found, chance) in enumerate(zip(*measured)):
            size = diameter(sides[1 - way].rows)
            errors = [
                summarise(group, distances / size.value, chance[group] / size.value, runs)
                for group, distances in found.items()
            ]
            if name == "raw":
                known = {group: both[way] for group, both in held_out.items()}
                errors = [beside(error, known.get(error.group)) for error in errors]
            directions.append(
                Direction(
                    moments.names[way],
                    moments.names[1 - way],
                    name,
                    size,
                    tuple(errors),
                    gained(found, chance, runs),
                )
            )
            say("comparing", len(directions), 4)
    return NearIdentifiability(
        __version__,
        moments.rows,
        used,
        len(fit),
        len(score),
        seed,
        (_side(icas[0]), _side(icas[1])),
        tuple(directions),
    )


def _icas(
    rows: Sequence[Array],
    names: Sequence[str],
    fit: Numbers,
    halves: tuple[Numbers, Numbers],
    count: int | None,
    seed: int,
) -> tuple[Pair, Pair]:
    """ICA of both sides on all rows to fit on, and of each side on a half of its own.

    On the same rows ICA of Gaussian views finds the same axes too, those in which this sample
    happens to be least Gaussian.
    """
    moments = [
        accumulate([side[fit]], 1, names=[name], sample=0) for side, name in zip(rows, names)
    ]
    if count is None:
        rank = min(side.whiten(0).rank for side in moments)
        count = components_for(rank, min(len(half) for half in halves))
    search = Search(seed=seed)

    def ica(side: int, numbers: Numbers) -> Components:
        return independent_components(moments[side], 0, rows[side][numbers], count, search)

    return (ica(0, fit), ica(1, fit)), (ica(0, halves[0]), ica(1, halves[1]))


def _side(ica: Components) -> Side:
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


def _coordinates(rows: Sequence[Array], icas: Sequence[Components]) -> dict[str, list[Coordinates]]:
    """Both sides in their own coordinates, and in white ones.

    The white ones are those nearest to the raw ones, so that raw axes keep their meaning: axes in
    the rows of the orthogonal factor of the mixing matrix.
    """
    raw, white = [], []
    for side, ica in zip(rows, icas):
        axes = ica.transform(side)
        left, _, right = svd(ica.mixing)
        nearest = left @ right
        raw.append(Coordinates(side, axes, ica.mixing, ica.mean))
        white.append(Coordinates(axes @ nearest, axes, nearest, np.zeros(nearest.shape[1])))
    return {"raw": raw, "whitened": white}


def _measure(
    sides: Sequence[Coordinates],
    split: Split,
    different: Sequence[Array],
    draws: int,
    rng: np.random.Generator,
) -> tuple[list[Measured], list[Measured]]:
    """By group, distances (draws, scored rows) from a to b and from b to a; and those by chance."""

    def all_groups(split: Split) -> dict[str, BothWays]:
        axes = {
            ICA_AXES: after_matching(sides, split),
            DIFFERENT_ROWS: after_matching(sides, split, different),
        }
        return after_groups(sides, split) | axes

    found = {name: [both] for name, both in all_groups(split).items()} | {TURNED: []}
    chance: dict[str, list[BothWays]] = {name: [] for name in found}
    for _ in range(draws):
        turns = [random_rotation(side.axes.shape[1], rng) for side in sides]
        found[TURNED].append(after_matching(sides, split, turns))
        shuffled = split.shuffled(rng)
        chance[TURNED].append(after_matching(sides, shuffled, turns))
        for name, both in all_groups(shuffled).items():
            chance[name].append(both)
    return _by_way(found), _by_way(chance)


def _by_way(distances: dict[str, list[BothWays]]) -> list[Measured]:
    return [
        {name: np.stack([both[way] for both in several]) for name, several in distances.items()}
        for way in (0, 1)
    ]
