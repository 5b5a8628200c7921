"""ICA of a view: centre, whiten, rotate to independent axes, and judge which are identified."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from numbers import Integral, Real

import numpy as np

from identikit._linalg import Array, eigh, random_rotation, svd
from identikit._threads import blas_threads, one_thread
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

#: Single precision is enough for tolerances down to this, since its gradients are off by 1e-7. It
#: takes a third of the time and half of the memory.
SINGLE = 1e-6

#: The smallest and the largest number of passes over a half; axes that need more passes would not
#: agree anyway.
LEAST = 8
PASSES = 100

#: Tolerance of the gradient when axes are refitted to other rows, in units of the sampling error of
#: an entry. Leaving out a tenth of the rows changes it by about a third of such an error.
FOLLOWED = 0.01

#: Directions with less variance than this are not scaled up to variance 1.
LEAST_VARIANCE = 1e-3

#: A skewness below this is rounding error; the sign then makes the most extreme row positive.
SYMMETRIC = 1e-5

#: Number of rows that are whitened at a time.
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

    `variance` is the share of the view's variance in the k directions that were kept. `gradient` is
    the largest entry of the gradient of the contrast after so many `passes` over the `rows` used,
    and `converged` says whether it is below the tolerance. `axes` are diagnostics of each axis.
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
        """Map rows of the view to the independent axes."""
        result: Array = np.subtract(rows, self.mean, dtype=np.float64) @ self.unmixing.T
        return result


def independent_components(
    moments: Moments,
    view: int,
    rows: Rows | None = None,
    n_components: float | None = None,
    search: Search | None = None,
) -> IndependentAxes:
    """ICA of a view: whiten it by its moments, and find the rotation from some of its rows.

    The rows are by default the sample stored in the moments; `n_components` is as in `ICA`.
    """
    rows = moments.sample_of(view) if rows is None else rows
    name = moments.names[view]
    if moments.rows == 1:
        raise InputError(f"view {name!r} has 1 sample; ICA needs more than two per component")
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
    """Refit the axes of an ICA to other rows, starting from the known axes.

    This is for almost the same rows. It is quick, since there are no random starts, and keeps the
    order and signs of the axes, so that an axis can be tracked. Diagnostics are not recomputed. If
    the rows lack a direction that the axes span, the ICA is returned unchanged. The `moments`, of
    one view, whiten the rows.
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
    """A random order of the rows that keeps copies together, and the first copy of each."""
    if not first.any():
        first = np.arange(len(first))  # all rows are the same; two halves need distinct numbers
    place = np.argsort(np.random.default_rng(search.seed).permutation(len(first)))
    order = np.argsort(place[first], kind="stable")
    return order, first[order]


def _find(z: Rows, copies: Numbers, search: Search, workers: int) -> tuple[Rotation, Axes, Array]:
    """The axes of white rows in canonical order and sign, their diagnostics, and their skewness.

    Axes are found from random starts on each half; the rotation midway between the best of the two
    halves is the start for all rows. Rows are in random order, with copies of a row in one half.
    """
    rng = np.random.default_rng(search.seed)
    parts = cut(copies, 2)
    halves = [_exactly_white(z[part]) for part in parts]
    restarts = search.restarts

    def run(rows: Rows, start: Array) -> Rotation:
        # A fifth of the sampling error of an entry of the gradient; less would gain nothing.
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
    """Maps from the centred view to white coordinates and back, and the variance share kept.

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
                f"cannot have {count} components; ask for {rank} or fewer"
            )
    else:
        count = min(int(np.searchsorted(shares, wanted)) + 1, rank)
    root = np.sqrt(n)
    if count == rank:
        return moments.whitening_map(view) * root, moments.loadings(view) / root, 1.0
    scale, axes = np.sqrt(values[:count]), vectors[:, :count]
    return axes * (root / scale), (axes * (scale / root)).T, float(shares[count - 1])


def _whitened(rows: Rows, order: Numbers, mean: Array, white: Array, search: Search) -> Rows:
    """Rows in white coordinates, in the given order.

    Done in blocks, so that no centred copy of all rows is made.
    """
    z = np.empty((len(rows), white.shape[1]), np.float32 if search.tol >= SINGLE else np.float64)
    for first in range(0, len(rows), BLOCK):
        block = rows[order[first : first + BLOCK]]
        z[first : first + BLOCK] = np.subtract(block, mean, dtype=np.float64) @ white
    return z


def _exactly_white(rows: Rows) -> Rows:
    """Bring a subset of whitened rows to exactly mean 0 and covariance I.

    The symmetric square root is used, which changes the axes least, so that a rotation found here
    can be used for all rows.
    """
    mean = np.full(len(rows), 1 / len(rows), rows.dtype) @ rows
    covariance = np.asarray(rows.T @ rows / len(rows) - np.outer(mean, mean), dtype=np.float64)
    values, vectors = eigh(covariance)
    # A direction with hardly any variance stays small; scaling it up would amplify noise.
    root = (vectors / np.sqrt(np.maximum(values, LEAST_VARIANCE))) @ vectors.T
    root = root.astype(rows.dtype)
    white = rows @ root
    white -= mean @ root
    return np.asarray(white)


def _between(axes: Array, others: Array) -> Array:
    """The rotation midway between two, after matching their axes.

    It is closer to the rotation of all rows than that of either half: the mean of the estimates
    from the two halves differs from the estimate from all rows by O(1/n) only.
    """
    partners, _ = match(axes, others)
    signs = np.sign(np.einsum("ij,ij->i", axes, others[partners]))
    left, _, right = svd(axes + signs[:, None] * others[partners])
    rotation: Array = left @ right
    return rotation


def _canonical(rows: Rows, weights: Array) -> tuple[Array, Array]:
    """Axes by decreasing |E log cosh s − E log cosh ν| with positive skewness; and the skewness."""
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
