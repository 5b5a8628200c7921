"""A map from one embedding model's space to another's, and its file."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from identikit._linalg import Array
from identikit.alignment import damaged, read_map, write_map
from identikit.errors import InputError
from identikit.retrieval._looks import Cloud, Look, look

METRICS = ("cosine", "dot", "l2")
SIDES = ("queries", "documents")
KINDS = ("rigid", "affine", "low_rank", "network")

_CLOUD_ARRAYS = ("mean", "axes", "variances")
_LAYERS = ("inner", "bias", "outer")


@dataclass(frozen=True, eq=False)
class SpaceMap:
    """A map from the space of a source model to that of a target model: z = x W + b + residual.

    The residual, tanh(x W₁ + c) W₂, is there for a network only. With the metric cosine, rows are
    scaled to length one before the map and after it; a row of zeros has no direction, and stays.

    Attributes
    ----------
    kind : str
        rigid, affine, low_rank or network.
    weights : array (p, q)
    shift : array (q,)
    source, target : Cloud
        What the documents of the fit look like in both models, and what the user said about these.
    layers : tuple of arrays
        W₁, c and W₂ of a network; empty for other kinds.
    metric : str
        cosine, dot or l2.
    side : str
        What the map is meant for: "queries" that search the target's index, or "documents" of an
        index that the target's queries search.
    queries : Cloud or None
        What queries look like in the source model, if some were given.
    held_out : dict
        For every kind that was tried, its error on rows left out of the fit, as on the ladder.
    overlap : dict
        For every kind that was tried, the share of the ten nearest rows that a search through the
        map has in common with one that needs no map, on rows left out of the fit; it chose the
        kind.
    """

    kind: str
    weights: Array
    shift: Array
    source: Cloud
    target: Cloud
    layers: tuple[Array, ...] = ()
    metric: str = "cosine"
    side: str = "queries"
    queries: Cloud | None = None
    held_out: dict[str, float] = field(default_factory=dict)
    overlap: dict[str, float] = field(default_factory=dict)

    @property
    def widths(self) -> tuple[int, int]:
        """The columns of the source and of the target."""
        p, q = self.weights.shape
        return int(p), int(q)

    def transform(self, rows: ArrayLike) -> Array:
        """The rows in the target's space, of length one if the metric is cosine."""
        rows = normal(self._checked(rows), self.metric)
        mapped = image(rows, self.weights, self.shift, self.layers)
        if self.metric == "cosine":
            mapped[~rows.any(axis=1)] = 0.0
        return normal(mapped, self.metric)

    def look(self, rows: ArrayLike, name: str = "this view") -> Look:
        """Say whether rows look like those that the map starts from."""
        rows = normal(self._checked(rows), self.metric)
        rows = rows[rows.any(axis=1)]
        if not len(rows):
            return Look()
        return look(rows, self.source, self.target, self.queries, side=self.side, name=name)

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = True) -> None:
        """Write the map as a safetensors file with a JSON header, atomically."""
        arrays = {"weights": self.weights, "shift": self.shift}
        arrays |= dict(zip(_LAYERS, self.layers))
        header: dict[str, Any] = {
            "map": "space",
            **{name: getattr(self, name) for name in ("kind", "metric", "side")},
            **{name: getattr(self, name) for name in ("held_out", "overlap")},
        }
        for name in ("source", "target", "queries"):
            given: Cloud | None = getattr(self, name)
            if given is None:
                continue
            header[name] = {
                "name": given.name,
                "width": len(given.mean),
                "model": given.model,
                "fingerprint": given.fingerprint,
                "rows": given.rows,
                "rest": given.rest,
                "typical": given.typical,
            }
            arrays |= {f"{name}_{part}": getattr(given, part) for part in _CLOUD_ARRAYS}
        write_map(header, arrays, path, overwrite=overwrite)

    def _checked(self, rows: ArrayLike) -> Array:
        rows = np.asarray(rows, dtype=np.float64)
        if rows.ndim != 2 or rows.shape[1] != self.widths[0]:
            raise InputError(
                f"this map takes rows of {self.source.name} with {self.widths[0]} columns, but got "
                f"an array of shape {rows.shape}"
            )
        return rows


def load_space_map(path: str | os.PathLike[str]) -> SpaceMap:
    """Read a map that `SpaceMap.save` wrote; a damaged file is refused.

    Parameters
    ----------
    path : path
        A ``.safetensors`` file.
    """
    header, arrays = read_map(path)
    if header.get("map") != "space":
        raise InputError(
            f"{path} holds a map of `identikit align`, not one between embedding models; "
            "`identikit.load_map` reads it"
        )
    try:
        clouds = {
            name: _cloud(header[name], arrays, name)
            for name in ("source", "target", "queries")
            if name in header
        }
        layers = tuple(arrays[name] for name in _LAYERS if name in arrays)
        made = SpaceMap(
            header["kind"],
            arrays["weights"],
            arrays["shift"],
            clouds["source"],
            clouds["target"],
            layers,
            header["metric"],
            header["side"],
            clouds.get("queries"),
            dict(header["held_out"]),
            dict(header["overlap"]),
        )
        whole = _whole(made)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError):
        whole = False
    if not whole or not all(np.isfinite(array).all() for array in arrays.values()):
        raise damaged(path)
    return made


def _cloud(header: dict[str, Any], arrays: dict[str, Array], name: str) -> Cloud:
    parts = {part: arrays[f"{name}_{part}"] for part in _CLOUD_ARRAYS}
    model = {str(key): str(value) for key, value in header["model"].items()}
    rest, typical = float(header["rest"]), float(header["typical"])
    return Cloud(model=model, rows=int(header["rows"]), rest=rest, typical=typical, **parts)


def _whole(made: SpaceMap) -> bool:
    """Whether the arrays fit together."""
    p, q = made.weights.shape
    sound = made.kind in KINDS and made.metric in METRICS and made.side in SIDES
    sound &= made.shift.shape == (q,) and len(made.layers) in (0, len(_LAYERS))
    if made.layers:
        inner, bias, outer = made.layers
        sound &= inner.shape == (p, len(bias)) and outer.shape == (len(bias), q)
    for cloud, width in ((made.source, p), (made.target, q), (made.queries, p)):
        if cloud is not None:
            sound &= cloud.mean.shape == (width,)
            sound &= cloud.axes.shape == (*cloud.variances.shape, width)
            sound &= cloud.rest > 0 and cloud.typical > 0 and cloud.rows > 0
            sound &= bool((cloud.variances > 0).all())
    return bool(sound)


def image(rows: Array, weights: Array, shift: Array, layers: tuple[Array, ...]) -> Array:
    """What a map makes of rows, before they are normalised."""
    mapped: Array = rows @ weights + shift
    if layers:
        inner, bias, outer = layers
        mapped += np.tanh(rows @ inner + bias) @ outer
    return mapped


def normal(rows: Array, metric: str) -> Array:
    """Rows of length one if the metric is cosine; a row of zeros stays."""
    if metric != "cosine":
        return rows
    # Divided by the largest entry first, so that squares neither overflow nor underflow.
    largest = np.abs(rows).max(axis=1, keepdims=True, initial=0.0)
    rows = rows / np.where(largest > 0, largest, 1.0)
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))[:, None]
    return np.asarray(rows / np.where(lengths > 0, lengths, 1.0))
