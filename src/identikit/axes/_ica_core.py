"""ICA of a view: centre, whiten, turn to independent axes, and judge which are identified."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from numbers import Integral, Real

import numpy as np

from identikit._linalg import Array, blas_threads, eigh, one_thread, random_rotation, svd
from identikit.axes._ica_axes import (
    NORMAL_LOG_COSH,
    Axes,
    Numbers,
    cut,
    first_copies,
    judge,
    log_cosh,
    match,
)
from identikit.axes._ica_solver import (
    Rotation,
    Rows,
    solve,
    solve_by_picard,
)
from identikit.errors import InputError
from identikit.moments import Moments

SOLVERS = {"auto": solve, "picard": solve_by_picard}

#: The tolerance down to which single precision will do, which takes a third of the time and half
#: the memory: its gradients are off by 1e-7.
SINGLE = 1e-6

#: Passes over a half in any case, and at which to give up; axes that take longer do not agree.
LEAST = 8
PASSES = 100

#: In sampling errors of an entry, the gradient at which axes have been followed to other rows: what
#: a tenth of the rows less changes is a third of one.
FOLLOWED = 0.01

#: The least variance that is brought to 1.
LEAST_VARIANCE = 1e-3

#: A skewness below this is rounding; the sign is then that of the axis's most extreme row.
SYMMETRIC = 1e-5

#: Rows that are whitened at a time.
BLOCK = 4096


@dataclass(frozen=True)
class Search:
    """How axes are searched for; see `ICA`."""

    restarts: int = 2
    tol: float = 1e-6
    max_iter: int = 500
    seed: int = 0
    solver: str = "auto"

    def __post_init__(self) -> None:
        if self.restarts < 2:
            raise InputError(f"restarts is {self.restarts}; agreement needs at least 2")
        if not self.tol > 0 or self.max_iter < 1:
            raise InputError(
                f"tol is {self.tol} and max_iter {self.max_iter}; both must be above 0"
            )
        if self.solver not in SOLVERS:
            raise InputError(f"there is no solver {self.solver!r}; there are {', '.join(SOLVERS)}")


@dataclass(frozen=True, eq=False)
class IndependentAxes:
    """The independent axes of a view: s = (x − mean) unmixingᵀ, and back x = s mixing + mean.

    Parameters
    ----------
    name : str
        Of the view.
    mean, unmixing, mixing : arrays (d,), (k, d), (k, d)
    variance : float
        Share of the view's variance in the directions kept.
    skewness : array (k,)
    gradient, converged, passes : float, bool, int
        Largest entry of the contrast's gradient, whether it is below the tolerance, passes taken.
    rows : int
        Rows that the axes were found on.
    axes : Axes
        What is known of each axis.
    """

    name: str
    mean: Array
    unmixing: Array
    mixing: Array
    variance: float
    skewness: Array
    gradient: float
    converged: bool
    passes: int
    rows: int
    axes: Axes

    def transform(self, rows: Rows) -> Array:
        """Rows of the view on the independent axes."""
        result: Array = np.subtract(rows, self.mean, dtype=np.float64) @ self.unmixing.T
        return result


def independent_components(
    moments: Moments,
    view: int,
    rows: Rows | None = None,
    n_components: float | None = None,
    search: Search | None = None,
) -> IndependentAxes:
    """ICA of a view, whitened by its moments and turned by what some of its rows say.

    Parameters
    ----------
    moments : Moments
        Of the view, perhaps among others.
    view : int
        Which one.
    rows : array (n, d), optional
        Rows to find the axes on; the moments' own sample by default.
    n_components : int, float or None
        A number, a share of the variance, or all that the rank allows.
    search : Search, optional
        How to search.
    """
    rows = moments.sample_of(view) if rows is None else rows
    name = moments.names[view]
    if moments.rows == 1:
        raise InputError(f"view {name!r} has 1 sample; ICA needs more than two a component")
    white, back, variance = _whitening(moments, view, n_components)
    width = white.shape[1]
    if len(rows) <= 2 * width:
        raise InputError(
            f"{width} components of view {name!r} need more than {2 * width} rows, so that each "
            f"half has more rows than components; there are {len(rows)}: give more rows or a "
            "smaller n_components"
        )
    mean, workers, search = moments.centre(view), blas_threads(), search or Search()
    with one_thread():
        order, copies = _in_random_order(first_copies(rows), search)
        z = _whitened(rows, order, mean, white, search)
        if len(rows) != moments.rows:
            z = _exactly_white(z)
        found, axes, skewness = _find(z, copies, search, workers)
    return IndependentAxes(
        name,
        mean,
        found.weights @ white.T,
        found.weights @ back,
        variance,
        skewness,
        found.size,
        found.size < search.tol,
        found.passes,
        len(rows),
        axes,
    )


def refit(ica: IndependentAxes, moments: Moments, rows: Rows) -> IndependentAxes:
    """The axes of other rows, whitened by their moments, that a known ICA's axes lead to.

    For rows that are almost the same: no random starts, so that it is quick, and no other order or
    signs, so that an axis can be followed. Nothing is judged anew. If these rows lack a direction
    that the axes span, the axes stay as they are.

    Parameters
    ----------
    ica : IndependentAxes
        Where to start.
    moments : Moments
        Of one view, which whiten it.
    rows : array (n, d)
        Rows to find the axes on.
    """
    width = len(ica.unmixing)
    if moments.whiten(0).rank < width or len(rows) <= width:
        return ica
    white, back, variance = _whitening(moments, 0, width)
    mean, tol = moments.centre(0), FOLLOWED / np.sqrt(len(rows))
    left, _, right = svd(ica.unmixing @ back.T)
    with one_thread():
        z = _exactly_white(np.subtract(rows, mean, dtype=np.float64) @ white)
        found = solve(z, left @ right, tol, PASSES)
    return replace(
        ica,
        mean=mean,
        unmixing=found.weights @ white.T,
        mixing=found.weights @ back,
        variance=variance,
        gradient=found.size,
        converged=found.size < tol,
        passes=found.passes,
        rows=len(rows),
    )


def _in_random_order(first: Numbers, search: Search) -> tuple[Numbers, Numbers]:
    """Numbers of the rows in random order, copies of a row together; and their first copies."""
    if not first.any():
        first = np.arange(len(first))  # some rows of a view, all the same: halves need two
    place = np.argsort(np.random.default_rng(search.seed).permutation(len(first)))
    order = np.argsort(place[first], kind="stable")
    return order, first[order]


def _find(z: Rows, copies: Numbers, search: Search, workers: int) -> tuple[Rotation, Axes, Array]:
    """The axes of white rows in their canonical order and signs, what is known of them, skewness.

    Random starts on each half lead to axes; the rotation midway between the best of the two halves
    leads to those of all rows. Rows are in random order, and copies of a row in one half.
    """
    rng = np.random.default_rng(search.seed)
    parts = cut(copies, 2)
    halves = [_exactly_white(z[part]) for part in parts]
    restarts = search.restarts

    def run(rows: Rows, start: Array) -> Rotation:
        # A fifth of the sampling error of an entry of the gradient: less would be in vain.
        return solve(rows, start, 0.2 / np.sqrt(len(rows)), min(search.max_iter, PASSES), LEAST)

    tasks = [(half, random_rotation(z.shape[1], rng)) for half in halves for _ in range(restarts)]
    with ThreadPoolExecutor(workers) as pool:
        ends = list(pool.map(run, *zip(*tasks)))
    found = [
        sorted(ends[half : half + restarts], key=lambda end: -end.contrast)
        for half in (0, restarts)
    ]
    start = _between(found[0][0].weights, found[1][0].weights)
    # Half the tolerance, so that rounding cannot push it over.
    whole = SOLVERS[search.solver](z, start, search.tol / 2, search.max_iter)
    weights, skewness = _canonical(z, whole.weights)
    return (
        replace(whole, weights=weights),
        judge(weights, found, halves, [copies[part] for part in parts]),
        skewness,
    )


def _whitening(moments: Moments, view: int, wanted: float | None) -> tuple[Array, Array, float]:
    """Maps from the centred view to white coordinates and back, and the share of the variance kept.

    The white coordinates have unit variance over all rows of the moments.
    """
    whole = isinstance(wanted, Integral) and not isinstance(wanted, bool)
    if wanted is not None and not (
        wanted >= 1 if whole else isinstance(wanted, Real) and 0 < wanted < 1
    ):
        raise InputError(
            f"n_components is {wanted!r}; give a number of components, a share of the variance "
            "between 0 and 1, or None"
        )
    name, n, rank = moments.names[view], moments.rows, moments.whiten(view).rank
    if not rank:
        raise InputError(
            f"view {name!r} is constant: all its rows are the same, so it has no axes; leave it out"
        )
    values, vectors = moments.principal(view)
    shares = np.cumsum(values[:rank]) / values.sum()
    if wanted is None:
        count = rank
    elif whole:
        count = int(wanted)
        if count > rank:
            raise InputError(
                f"view {name!r} has rank {rank} ({moments.widths[view]} columns, {n} rows), so it "
                f"has no {count} components; ask for {rank} or fewer"
            )
    else:
        count = min(int(np.searchsorted(shares, wanted)) + 1, rank)
    root = np.sqrt(n)
    if count == rank:
        return moments.whitening_map(view) * root, moments.loadings(view) / root, 1.0
    scale, axes = np.sqrt(values[:count]), vectors[:, :count]
    return axes * (root / scale), (axes * (scale / root)).T, float(shares[count - 1])


def _whitened(rows: Rows, order: Numbers, mean: Array, white: Array, search: Search) -> Rows:
    """Rows in white coordinates, in some order.

    In blocks, so that no centred copy of all rows is made.
    """
    z = np.empty((len(rows), white.shape[1]), np.float32 if search.tol >= SINGLE else np.float64)
    for first in range(0, len(rows), BLOCK):
        block = rows[order[first : first + BLOCK]]
        z[first : first + BLOCK] = np.subtract(block, mean, dtype=np.float64) @ white
    return z


def _exactly_white(rows: Rows) -> Rows:
    """Rows brought to mean 0 and covariance I, which some of the rows do not quite have.

    By the symmetric root, so that axes keep their place: a rotation found here is one there.
    """
    mean = np.full(len(rows), 1 / len(rows), rows.dtype) @ rows
    covariance = np.asarray(rows.T @ rows / len(rows) - np.outer(mean, mean), dtype=np.float64)
    values, vectors = eigh(covariance)
    # A direction that these rows hardly have stays small: dividing would make noise of it.
    root = (vectors / np.sqrt(np.maximum(values, LEAST_VARIANCE))) @ vectors.T
    root = root.astype(rows.dtype)
    white = rows @ root
    white -= mean @ root
    return np.asarray(white)


def _between(axes: Array, others: Array) -> Array:
    """The rotation midway between two, axes matched: nearer to that of all rows than either half's.

    The mean of the two halves' estimates differs from that of all rows by O(1/n) only.
    """
    partners, _ = match(axes, others)
    signs = np.sign(np.einsum("ij,ij->i", axes, others[partners]))
    left, _, right = svd(axes + signs[:, None] * others[partners])
    rotation: Array = left @ right
    return rotation


def _canonical(rows: Rows, weights: Array) -> tuple[Array, Array]:
    """Axes by falling |E log cosh s − E log cosh ν|, of positive skewness; and their skewness."""
    turn = np.ascontiguousarray(weights.T, dtype=rows.dtype)
    cubes, contrast = np.zeros(len(weights)), np.zeros(len(weights))
    for first in range(0, len(rows), BLOCK):
        s = rows[first : first + BLOCK] @ turn
        contrast += log_cosh(s).sum(axis=0, dtype=np.float64)
        cubes += (s * s * s).sum(axis=0, dtype=np.float64)
    skewness = cubes / len(rows)
    signs = np.where(skewness < 0, -1.0, 1.0)
    for axis in np.flatnonzero(np.abs(skewness) < SYMMETRIC):
        s = rows @ turn[:, axis]
        size = np.abs(s)
        signs[axis] = np.sign(s[np.argmax(size >= (1 - SYMMETRIC) * size.max())])
    order = np.argsort(-np.abs(contrast / len(rows) - NORMAL_LOG_COSH), kind="stable")
    return (signs[:, None] * weights)[order], (signs * skewness)[order]
