"""Mutual information of scalar codes and classes by nearest neighbours.

A code is a number, so its neighbours are those beside it when it is sorted: exact, in O(n log n).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from identikit._linalg import Array
from identikit.disentangle._bins import Labels


def neighbour_information(codes: Array, labels: Labels, neighbours: int = 10) -> Array:
    """Ross's estimate of I(z; s) in nats, never below 0, of every code (Ross 2014).

    I = ψ(n) + ⟨ψ(k) − ψ(N_s) − ψ(m)⟩: m rows lie nearer to a row than the k-th neighbour of its
    own class, itself among them, and N_s rows are of its class. Classes of one row are left out; k
    is at most N_s − 1.

    Parameters
    ----------
    codes : array (n, L)
        Without ties, or the estimate is too low: see `jittered`.
    labels : array (n,)
        Classes.
    neighbours : int
        k.
    """
    from scipy.special import digamma

    _, labels, counts = np.unique(labels, return_inverse=True, return_counts=True)
    if (counts == 1).any():
        kept = counts[labels] > 1
        codes, labels = codes[kept], labels[kept]
        labels, counts = np.unique(labels, return_inverse=True, return_counts=True)[1:]
    rows = len(labels)
    if len(counts) < 2:
        return np.zeros(codes.shape[1])
    order = np.argsort(codes, axis=0)
    ordered = np.take_along_axis(codes, order, axis=0).T
    by_class = np.argsort(labels[order].T, axis=1, kind="stable")
    grouped = np.take_along_axis(ordered, by_class, axis=1)
    radius, start = np.empty_like(ordered), 0
    for count in counts:
        part = slice(start, start + count)
        radius[:, part] = _distances(grouped[:, part], min(neighbours, count - 1))
        start += count
    radii = np.empty_like(radius)
    np.put_along_axis(radii, by_class, radius, axis=1)
    inside = np.stack([_nearer(x, r) for x, r in zip(ordered, radii)])
    weights = counts / rows
    fixed = digamma(np.minimum(neighbours, counts - 1)) - digamma(counts)
    found: Array = digamma(rows) + weights @ fixed - digamma(inside).mean(axis=1)
    return np.maximum(found, 0.0)


def _distances(ordered: Array, k: int) -> Array:
    """Distance to the k-th neighbour in each sorted row of numbers (L, m), k < m."""
    width = ordered.shape[1]
    found = np.full_like(ordered, np.inf)
    for left in range(k + 1):
        # The k nearest are consecutive: `left` of them below, the rest above.
        right = k - left
        here = ordered[:, left : width - right]
        below = here - ordered[:, : width - k]
        above = ordered[:, k:] - here
        part = found[:, left : width - right]
        np.minimum(part, np.maximum(below, above), out=part)
    return found


def _nearer(x: Array, radius: Array) -> NDArray[np.intp]:
    """How many of sorted numbers differ from each by less than its radius, itself among them."""
    radius = np.maximum(radius, np.nextafter(0.0, 1.0))  # what is equal is always nearer
    low = np.searchsorted(x, x - radius, side="left")
    high = np.searchsorted(x, x + radius, side="right")
    last = len(x) - 1
    # x ± r is rounded; what counts is the difference itself.
    while (wrong := (low > 0) & (x - x[np.maximum(low - 1, 0)] < radius)).any():
        low -= wrong
    while (wrong := x - x[np.minimum(low, last)] >= radius).any():
        low += wrong
    while (wrong := (high <= last) & (x[np.minimum(high, last)] - x < radius)).any():
        high += wrong
    while (wrong := x[np.maximum(high - 1, 0)] - x >= radius).any():
        high -= wrong
    return np.asarray(high - low)


def jittered(codes: Array, noise: float, seed: int) -> Array:
    """Codes of variance 1 plus noise; never less than 1e-10, which breaks ties."""
    centred = codes - codes.mean(axis=0)
    scale = np.sqrt((centred**2).mean(axis=0))
    scaled = np.divide(centred, scale, out=np.zeros_like(centred), where=scale > 0)
    drawn = np.random.default_rng(seed).normal(size=codes.shape)
    return np.asarray(scaled + max(noise, 1e-10) * drawn)
