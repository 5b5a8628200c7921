"""The kinds of maps between two embedding models, each fitted on paired rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from identikit._linalg import Array, eigh
from identikit.alignment import PairStats, choose_strength, ridge
from identikit.retrieval._space_map import image, normal

#: Models that agree less than this are taken to agree this much, where a scale depends on it.
LEAST_AGREEMENT = 0.3

#: Ranks that are tried for a low-rank map.
RANKS = (8, 16, 32, 64, 128, 256, 512)


class Rows(NamedTuple):
    """Paired rows of the source x and the target y, and what the map between them is for."""

    x: Array
    y: Array
    metric: str
    side: str
    seed: int

    def only(self, chosen: Array) -> Rows:
        """Some of the rows."""
        return self._replace(x=self.x[chosen], y=self.y[chosen])

    def stats(self) -> PairStats:
        """Their means and scatters."""
        x_mean, y_mean = self.x.mean(axis=0), self.y.mean(axis=0)
        x, y = self.x - x_mean, self.y - y_mean
        return PairStats(len(x), x_mean, y_mean, x.T @ x, x.T @ y, y.T @ y)


class Fit(NamedTuple):
    """z = x W + b + tanh(x W₁ + c) W₂; without layers, the last term is missing."""

    weights: Array
    shift: Array
    layers: tuple[Array, ...] = ()

    def __call__(self, rows: Array, metric: str) -> Array:
        """The image of rows that are normalised already."""
        return normal(image(rows, *self), metric)


def rigid(rows: Rows, stats: PairStats) -> Fit:
    """A rotation about the means, with a scale: W = c UVᵀ, where S_xy = UΣVᵀ.

    Least squares would shrink the image towards the mean, and more so the less the models agree;
    then all queries look alike. See `_scaled` for c. For other widths, UVᵀ is a partial isometry.
    """
    return _about_means(_scaled(stats.polar, rows, stats), stats)


def affine(rows: Rows, stats: PairStats) -> Fit:
    """Least squares with a ridge whose strength is chosen on these rows.

    The image of queries is scaled as in `rigid`; documents are left where least squares puts them.
    """
    strength = choose_strength(stats, shift=True)
    # With no ridge, the least one that a direction without variance does not divide by zero.
    weights, _ = ridge(stats, max(strength, 1e-10), shift=True)
    return _about_means(_scaled(weights, rows, stats) if rows.side == "queries" else weights, stats)


def low_rank(rows: Rows, stats: PairStats) -> Fit:
    """The affine map on the leading axes of its own image (reduced-rank regression, Izenman 1975).

    The rank is the one with the least error on a fifth of the rows, when it is fitted on the rest.
    """
    apart = np.random.default_rng(rows.seed).permutation(len(rows.x)) % 5 == 0
    kept, others = rows.only(~apart), rows.only(apart)
    most = min(rows.x.shape[1], rows.y.shape[1])
    ranks = [rank for rank in RANKS if rank < most]
    if not ranks:
        return affine(rows, stats)
    known = kept.stats()
    whole, errors = affine(kept, known), []
    axes = _image_axes(whole.weights, known)
    for rank in ranks:
        gaps = _on_axes(whole, axes[:, :rank], known)(others.x, rows.metric) - others.y
        errors.append(float(np.vdot(gaps, gaps)))
    best = affine(rows, stats)
    rank = ranks[int(np.argmin(errors))]
    return _on_axes(best, _image_axes(best.weights, stats)[:, :rank], stats)


def network(rows: Rows, stats: PairStats) -> Fit:
    """The affine map and a small residual network; see `fit_residual`."""
    from identikit.retrieval._network import fit_residual

    base = affine(rows, stats)
    layers = fit_residual(rows.x, rows.y, base.weights, base.shift, rows.metric, rows.seed)
    return base._replace(layers=layers)


#: All kinds, the simplest first.
FITS: dict[str, Callable[[Rows, PairStats], Fit]] = {
    "rigid": rigid,
    "affine": affine,
    "low_rank": low_rank,
    "network": network,
}


def _scaled(weights: Array, rows: Rows, stats: PairStats) -> Array:
    """Weights whose image has the target's spread, and that of queries by cosine more than that.

    A query z = m + u scores a document m + e by m·e + u·e, up to a constant. The map knows u only
    with a correlation of ρ = tr WᵀS_xy / √(tr WᵀS_xxW tr S_yy), while m·e, the same for all
    queries, comes in full; stretched by ρ⁻², u holds its own against it. On Cranfield and CACM that
    lifts the overlap with re-embedding by .01 and .03 and the recall by .02. If the map is exact,
    ρ is 1 and nothing is stretched.
    """
    size, target = stats.fitted(weights), float(np.trace(stats.syy))
    if not size > 0 or not target > 0:
        return weights
    weights = weights * (target / size) ** 0.5
    if rows.side != "queries" or rows.metric != "cosine":
        return weights
    agreement = float(np.vdot(weights, stats.sxy)) / target
    return weights / max(agreement, LEAST_AGREEMENT) ** 2


def _about_means(weights: Array, stats: PairStats) -> Fit:
    return Fit(weights, stats.y_mean - stats.x_mean @ weights)


def _image_axes(weights: Array, stats: PairStats) -> Array:
    return eigh(weights.T @ stats.sxx @ weights)[1]


def _on_axes(fit: Fit, axes: Array, stats: PairStats) -> Fit:
    return _about_means(fit.weights @ axes @ axes.T, stats)
