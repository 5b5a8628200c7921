"""Pairs of models at one layer: SVCCA of z-scored units at several k, CCA, and regression."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np

from identikit._linalg import Array, eigh, inverse_or_zero, singular_values, svd
from identikit.alignment import ladder
from identikit.inference import cca_chance, held_out_cca
from identikit.moments import Moments
from identikit.similarity import cca

#: Of the held-out values.
FOLDS = 5


def axes(moments: Moments, view: int, without: int | None = None) -> Array:
    """W (width, rank) such that X W are the principal components of the z-scored view, at length 1.

    Parameters
    ----------
    moments : Moments
        Of all views.
    view : int
        Which.
    without : int, optional
        A fold that is left out.
    """
    scale = inverse_or_zero(moments.scales(view, without))
    values, vectors = eigh(scale[:, None] * moments.block(view, view, without) * scale)
    rank = moments.whiten(view, without).rank
    W: Array = scale[:, None] * vectors[:, :rank] * inverse_or_zero(np.sqrt(values[:rank]))
    return W


def measure(moments: Moments, ks: Sequence[int]) -> tuple[list[dict[str, Any]], dict[str, Array]]:
    """SVCCA at every k, CCA and regression, of every pair of views: rows, and curves by name.

    Parameters
    ----------
    moments : Moments
        The models at one layer.
    ks : sequence of int
        Components to keep.
    """
    rows, curves = [], {}
    folds = range(moments.folds)
    every = [
        {f: axes(moments, view, f) for f in (None, *folds)} for view in range(len(moments.names))
    ]
    for i, j in combinations(range(len(every)), 2):
        a, b = moments.names[i], moments.names[j]
        full, held_out = cca(moments, i, j), held_out_cca(moments, i, j)
        forward, backward = ladder(moments, i, j, ("affine",))["affine"]
        about = {
            "a": a,
            "b": b,
            "cca": full.mean,
            "cca_held_out": None if held_out is None else held_out.value,
            "cca_chance": cca_chance(moments.rows, *full.ranks),
            "r2": 1 - forward.error**2,
            "r2_back": 1 - backward.error**2,
        }
        whole = every[i][None].T @ moments.block(i, j) @ every[j][None]
        for k in ks:
            r = np.minimum(singular_values(whole[:k, :k]), 1.0)
            curves[f"{a}|{b}|{k}"] = r
            parts = [_fold(moments, i, j, k, f, every[i][f], every[j][f]) for f in folds]
            kept = (min(k, len(side)) for side in (whole, whole.T))
            rows.append(
                about
                | {
                    "k": k,
                    "svcca": float(r.mean()),
                    "first": float(r[0]),
                    "svcca_held_out": float(np.mean(parts)),
                    "svcca_chance": cca_chance(moments.rows, *kept),
                }
            )
    return rows, curves


def _fold(moments: Moments, i: int, j: int, k: int, fold: int, x: Array, y: Array) -> float:
    """Mean correlation on one fold of the directions that SVCCA finds on the others."""
    x, y = x[:, :k], y[:, :k]
    left, _, right = svd(x.T @ moments.block(i, j, fold) @ y)
    x, y = x @ left, y @ right.T
    cross, xx, yy = (
        np.einsum("pc,pc->c", u, moments.block(p, q, only=fold) @ v)
        for p, q, u, v in ((i, j, x, y), (i, i, x, x), (j, j, y, y))
    )
    return float((cross * inverse_or_zero(np.sqrt(np.maximum(xx * yy, 0.0)))).mean())
