"""Independent twins of two views, drawn from their moments without looking at any row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from identikit._linalg import Array, Whitening, thin_svds
from identikit._threads import one_thread
from identikit.moments import Moments, Part, StackLayout
from identikit.moments.memory import number_of_draws, stacked
from identikit.moments.sample import RowSample


def coherence_draw(rng: np.random.Generator, N: int, p: int, q: int) -> Array:
    """UᵀV of independent orthonormal frames U (N × p) and V (N × q), uniformly distributed.

    This is the coherence of two independent Gaussian views of N + 1 rows after whitening. For any
    data it has exactly the first two moments of a random pairing of the rows: E c_ab = 0 and
    E c_ab c_cd = δ_ac δ_bd / N. U may be taken to be the first p axes, so that UᵀV is the first p
    rows of V. V = ZR⁻¹ for Gaussian Z, and the other rows of Z matter only through their Wishart
    matrix, which is drawn by Bartlett's decomposition, so that the cost does not depend on N.
    """
    from scipy.linalg import cholesky, solve_triangular

    if q > p:
        return coherence_draw(rng, N, q, p).T
    Z = rng.normal(size=(p, q))
    if N - p >= q:
        rest = np.triu(rng.normal(size=(q, q)), 1)
        np.fill_diagonal(rest, np.sqrt(rng.chisquare(N - p - np.arange(q))))
    else:
        rest = rng.normal(size=(N - p, q))
    R = cholesky(Z.T @ Z + rest.T @ rest, check_finite=False)
    C: Array = solve_triangular(R, Z.T, trans="T", check_finite=False).T
    return C


@dataclass(frozen=True, eq=False)
class Draws:
    """Some draws C of `coherence_draw` (m, p, q), with the number of the first."""

    first: int
    C: Array

    @cached_property
    def svd(self) -> tuple[Array, Array, Array]:
        """Their thin singular value decompositions."""
        with one_thread(self.C.shape[1]):
            return thin_svds(self.C)


@dataclass(frozen=True, eq=False)
class TwinStack:
    """Independent twins of views i and j, as many as there are draws.

    The cross-scatter XᵀY is replaced by L_iᵀ C L_j, with the loadings L of the whitened views and a
    draw C of `coherence_draw`. Its first two moments are exactly those over all pairings of the
    rows, and for Gaussian views all moments are. The seed is fixed, and pairs of the same ranks
    share their draws.
    """

    moments: Moments
    i: int
    j: int
    draws: Draws

    def along(self, name: str, coordinates: Array) -> Array:
        """``C @ coordinates`` for coordinates of view j, kept for other pairs if there are any."""
        if len(self.moments.names) == 2 or not self.moments.keeps:
            return self.draws.C @ coordinates
        rank = self.draws.C.shape[1]
        name = f"{name} along draws {self.draws.first} of rank {rank}"
        return self.moments.of_view(name, self.j, lambda: self.draws.C @ coordinates)

    @cached_property
    def explained(self) -> Array:
        """``U_iᵀX_j`` of every twin."""
        return self.along("loadings", self.moments.loadings(self.j))

    @cached_property
    def cross(self) -> Array:
        """The cross-scatter of every twin."""
        return self.moments.loadings(self.i).T @ self.explained


@dataclass(frozen=True, eq=False)
class Twins(Moments):
    """Two views that keep their own statistics, with another cross-scatter between them."""

    coherent: Array | None = None

    def _stored(self, i: int, j: int, without: int | None = None, only: int | None = None) -> Array:
        if i == j:
            return super()._stored(i, i, without, only)
        cross = self.of_pair("cross", 0, 1, lambda: self.loadings(0).T @ self.from_white(0, 1))
        return cross if i < j else cross.T

    def coherence(
        self, i: int, j: int, without: int | None = None, only: int | None = None
    ) -> Array:
        """``U_iᵀ U_j`` of the whitened views."""
        if i == j:
            return super().coherence(i, i, without, only)
        assert self.coherent is not None
        return self.coherent if i < j else self.coherent.T

    def from_white(
        self, i: int, j: int, without: int | None = None, only: int | None = None
    ) -> Array:
        """``U_iᵀX_j``, from the coherence and the loadings."""
        return self.coherence(i, j, without, only) @ self.loadings(j)


def twins(moments: Moments, i: int, j: int) -> Iterator[Moments]:
    """Moments of independent twins of two views (0 and 1), one after another.

    Parameters
    ----------
    moments : Moments
    i, j : int
        The two views.
    """
    alone = _alone(moments, i, j)
    for stack in twin_stacks(moments, i, j):
        for C in stack.draws.C:
            yield Twins(
                alone.names,
                alone.eps,
                alone.layout,
                alone.parts,
                alone.sample,
                _cache=alone._cache,
                coherent=C,
            )


def twin_stacks(moments: Moments, i: int, j: int) -> Iterator[TwinStack]:
    """Independent twins of two views, a few at a time: see `TwinStack`."""
    p, q = (moments.whiten(view).rank for view in (i, j))
    for draws in _draws(moments, p, q) if p and q else ():
        yield TwinStack(moments, i, j, draws)


def _draws(moments: Moments, p: int, q: int) -> Iterator[Draws]:
    """Draws of the coherence of independent views of these ranks."""
    kept = moments._cache.get("draws")
    if kept is not None and kept[0] == (p, q):
        yield from kept[1]
        return
    # Only the draws of the last shape are cached; they are freed before new ones are made.
    moments._cache.pop("draws", None)
    several = len(moments.names) > 2 and moments.keeps
    N, K, rng = moments.rows - 1, number_of_draws(p, q), np.random.default_rng(0)
    step, done = stacked(K, p * q) if moments.keeps else 1, []
    for first in range(0, K, step):
        with one_thread(max(p, q)):
            stack = [coherence_draw(rng, N, p, q) for _ in range(min(step, K - first))]
        draws = Draws(first, np.array(stack))
        if several:
            done.append(draws)
        yield draws
    if several:
        moments._cache["draws"] = (p, q), done


def _alone(moments: Moments, i: int, j: int) -> Moments:
    """The statistics of each of two views, in its own coordinates, which all draws share."""
    views, n = (i, j), moments.rows
    cache: dict[object, object] = {}
    for place, view in enumerate(views):
        own, white = moments.block(view, view), moments.whiten(view)
        cache["block", place] = own
        cache["whiten", place] = Whitening(moments.whitening_map(view), *white[1:])
        cache["principal", place] = moments.principal(view)
        cache["loadings", place] = moments.loadings(view)
        cache["scales", place] = moments.scales(view)
    products = moments.norm_products()[np.ix_(views, views)].copy()
    traces = [float(np.trace(moments.block(view, view))) for view in views]
    products[0, 1] = products[1, 0] = traces[0] * traces[1] / n
    cache["norms"] = products
    layout = StackLayout((moments.widths[i], moments.widths[j]))
    mean = np.concatenate([moments.centre(view) for view in views])
    nothing = np.empty((0, 0))
    return Moments(
        (moments.names[i], moments.names[j]),
        (moments.eps[i], moments.eps[j]),
        layout,
        (Part(n, mean, nothing, nothing, products),),
        RowSample(0, np.empty(0, dtype=np.uint64), np.empty((0, layout.width))),
        _cache=cache,
    )


def shuffled(moments: Moments, i: int, j: int) -> Iterator[Moments]:
    """Yield the moments with the sampled rows of view j in random order, once for every draw.

    The sample does not store the groups of rows, so that single rows are shuffled.

    Parameters
    ----------
    moments : Moments
    i, j : int
        The view whose rows keep their order, and the one whose rows are shuffled.
    """
    from dataclasses import replace

    sample, columns = moments.sample, moments.layout.columns[j]
    rng = np.random.default_rng(0)
    for _ in range(number_of_draws(moments.widths[i], moments.widths[j])):
        rows = sample.rows.copy()
        rows[:, columns] = rows[rng.permutation(len(rows)), columns]
        yield replace(moments, sample=RowSample(sample.size, sample.keys, rows))
