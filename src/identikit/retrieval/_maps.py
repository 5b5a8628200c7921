"""Maps from one embedding model's space to another's, chosen on rows held out of the fit."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from identikit._linalg import Array
from identikit.alignment import RUNGS, PairStats, choose_strength, load_map, made_map, ridge
from identikit.errors import InputError

FOLDS = 5

METRICS = ("cosine", "dot", "l2")

#: Each kind's rung of the ladder: a rotation may scale, because a centred one needs its scale.
_RUNGS = {"rigid": "similarity", "affine": "affine"}


@dataclass(frozen=True, eq=False)
class SpaceMap:
    """A map from the space of a source model to that of a target model.

    Attributes
    ----------
    kind : str
        rigid, affine.
    weights : array (p, q)
    shift : array (q,)
    metric : str
        cosine, dot or l2. With cosine, rows are scaled to length one before and after the map.
    held_out : dict
        For every kind that was tried its error on rows that it was not fitted on.
    """

    kind: str
    weights: Array
    shift: Array
    metric: str = "cosine"
    held_out: dict[str, float] = field(default_factory=dict)

    @property
    def widths(self) -> tuple[int, int]:
        """The columns of the source and of the target."""
        p, q = self.weights.shape
        return int(p), int(q)

    def transform(self, rows: Array) -> Array:
        """The rows in the target's space, of length one if the metric is cosine."""
        rows = np.asarray(rows, dtype=np.float64)
        if rows.ndim != 2 or rows.shape[1] != self.widths[0]:
            raise InputError(
                f"this map takes rows with {self.widths[0]} columns, but got an array of shape "
                f"{rows.shape}"
            )
        return normal(normal(rows, self.metric) @ self.weights + self.shift, self.metric)

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = True) -> None:
        """Write the map as a safetensors file, atomically."""
        group = _RUNGS[self.kind]
        made_map(group, self.weights, self.shift, "source", "target").save(
            path, overwrite=overwrite
        )


def load_space_map(path: str | os.PathLike[str]) -> SpaceMap:
    """Read a map that `SpaceMap.save` wrote; a damaged file is refused."""
    made = load_map(path)
    kind = {rung: kind for kind, rung in _RUNGS.items()}.get(made.group, made.group)
    return SpaceMap(kind, made.weights_, made.shift_)


def fit_space_map(
    source: Array,
    target: Array,
    *,
    kinds: Sequence[str] = ("rigid", "affine"),
    metric: str = "cosine",
    seed: int = 0,
) -> SpaceMap:
    """Fit every kind of map on paired rows, and return the one with the least held-out error.

    Parameters
    ----------
    source, target : array (n, p) and array (n, q)
        The same documents in the two models.
    kinds : sequence of str
        The kinds to try.
    metric : str
        cosine, dot or l2.
    seed : int
        Where a kind draws at random.
    """
    if metric not in METRICS:
        raise InputError(f"the metric is {metric!r}; give one of {', '.join(METRICS)}")
    unknown = [kind for kind in kinds if kind not in _FITS]
    if unknown or not kinds:
        raise InputError(f"kinds are {list(kinds)!r}; give some of {', '.join(_FITS)}")
    x, y = (normal(np.asarray(rows, dtype=np.float64), metric) for rows in (source, target))
    if len(x) != len(y) or len(x) < 2 * FOLDS:
        raise InputError(
            f"the source has {len(x)} rows and the target {len(y)}; a map needs the same "
            f"documents in both models, and at least {2 * FOLDS} of them"
        )
    fold = np.random.default_rng(seed).permutation(len(x)) % FOLDS
    errors = {kind: 0.0 for kind in kinds}
    for each in range(FOLDS):
        inside, outside = fold != each, fold == each
        stats = _stats(x[inside], y[inside])
        for kind in kinds:
            weights, shift = _FITS[kind](stats)
            gaps = normal(x[outside] @ weights + shift, metric) - y[outside]
            errors[kind] += float(np.vdot(gaps, gaps))
    spread = float(np.square(y - y.mean(axis=0)).sum())
    held_out = {kind: float(np.sqrt(error / spread)) for kind, error in errors.items()}
    kind = min(held_out, key=held_out.__getitem__)
    weights, shift = _FITS[kind](_stats(x, y))
    return SpaceMap(kind, weights, shift, metric, held_out)


def _stats(x: Array, y: Array) -> PairStats:
    """The means and scatters of paired rows."""
    x_mean, y_mean = x.mean(axis=0), y.mean(axis=0)
    x, y = x - x_mean, y - y_mean
    return PairStats(len(x), x_mean, y_mean, x.T @ x, x.T @ y, y.T @ y)


def _affine(stats: PairStats) -> tuple[Array, Array]:
    """Least squares with a ridge whose strength is chosen on these rows."""
    return ridge(stats, choose_strength(stats, shift=True), shift=True)


_FITS = {"rigid": RUNGS["similarity"].fit, "affine": _affine}


def normal(rows: Array, metric: str) -> Array:
    """Rows of length one if the metric is cosine; a row of zeros stays."""
    if metric != "cosine":
        return rows
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))[:, None]
    return rows / np.where(lengths > 0, lengths, 1.0)
