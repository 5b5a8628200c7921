"""Two models over the same inputs and labels, read in blocks and never as a whole table."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from identikit._linalg import Array, singular_values
from identikit.errors import InputError
from identikit.family import _model
from identikit.family._model import SoftmaxModel

Ints = NDArray[np.intp]

#: Log-odds whose spread is a smaller share of the log-likelihoods' spread count as constant.
CONSTANT = 1e-6


class Pair:
    """Two models of the same n inputs and K labels.

    `labels` are those with a finite log-probability for every input in both models; all that
    follows numbers them 0, 1, ... in this order.
    """

    def __init__(self, a: SoftmaxModel, b: SoftmaxModel) -> None:
        for what, ours, theirs in (("inputs", a.n, b.n), ("labels", a.K, b.K)):
            if ours != theirs:
                raise InputError(
                    f"model {a.name!r} has {ours} {what} and model {b.name!r} has {theirs}; "
                    f"distances need the same {what} in the same order"
                )
        if not _same_candidates(a, b):
            raise InputError(
                f"models {a.name!r} and {b.name!r} have different candidates; distances compare "
                "distributions over the same labels, so give both the same candidates"
            )
        self.models = (a, b)
        self.n = a.n
        self.labels: Ints = np.setdiff1d(np.arange(a.K), np.union1d(a.impossible, b.impossible))

    @property
    def K(self) -> int:  # noqa: N802
        """Number of labels that are possible everywhere."""
        return len(self.labels)

    @cached_property
    def constant(self) -> float:
        """Share of the log-likelihoods' spread below which log-odds count as constant."""
        return max(CONSTANT, 16 * max(_spacing(model) for model in self.models))

    @cached_property
    def ranks(self) -> tuple[int, int]:
        """Rank of the log-odds of each model, centred over inputs: the M that it really has."""
        a, b = self.models
        return self._rank(a), self._rank(b)

    def _rank(self, model: SoftmaxModel) -> int:
        f, g = model.f.astype(np.float64), model.g[self.labels].astype(np.float64)
        values = singular_values(_r(f - f.mean(axis=0)) @ _r(g - g.mean(axis=0)).T)
        if model.table is None:
            size = float(np.linalg.norm(f) * np.linalg.norm(g))
        else:
            size = float(np.linalg.norm(model.table[:, self.labels].astype(np.float64)))
        # Singular values of a table of rounding errors: √n + √K times the size of one.
        rounding = _spacing(model) * size / (self.n * self.K) ** 0.5
        return int(np.count_nonzero(values > 8 * rounding * (self.n**0.5 + self.K**0.5)))

    def blocks(self) -> Iterator[tuple[Array, Array]]:
        """Log-probabilities of both models, some rows at a time."""
        return iter(self._whole) if self._whole else self._stream()

    @cached_property
    def _whole(self) -> list[tuple[Array, Array]]:
        """The one block of a small pair, so that later passes need not compute it again."""
        a, _ = self.models
        width = a.K if a.candidates is None else a.candidates.shape[1]
        return list(self._stream()) if self.n * width <= _model.BLOCK else []

    def _stream(self) -> Iterator[tuple[Array, Array]]:
        a, b = self.models
        for (_, ours), (_, theirs) in zip(a.blocks(), b.blocks(), strict=True):
            yield ours.astype(np.float64, copy=False), theirs.astype(np.float64, copy=False)

    def possible(self) -> Iterator[tuple[Array, Array]]:
        """As `blocks`, for the labels that are possible everywhere."""
        everything = self.K == self.models[0].K
        for ours, theirs in self.blocks():
            yield (ours, theirs) if everything else (ours[:, self.labels], theirs[:, self.labels])

    def log_odds(self, pivot: int, chosen: Ints) -> Iterator[tuple[Array, Array]]:
        """log p(y|x) − log p(pivot|x) of the chosen labels, some rows at a time."""
        step = max(1, _model.BLOCK // (len(chosen) + 1))
        columns = self.labels[np.append(chosen, pivot)]
        for start in range(0, self.n, step):
            rows = slice(start, start + step)
            ours, theirs = (_columns(model, rows, columns) for model in self.models)
            yield ours[:, :-1] - ours[:, -1:], theirs[:, :-1] - theirs[:, -1:]

    def rows(self, inputs: Ints) -> tuple[Array, Array]:
        """Vectors whose inner products are those of log p(·|x) and log p'(·|x), centred over y.

        Models given by f and g have such vectors of 2M + 2 numbers (K are not needed): log p(·|x)
        is a combination of the columns of g, which a QR decomposition turns into few coordinates.
        """
        if self._coordinates is None:
            ours, theirs = (self._label_rows(model, inputs) for model in self.models)
            return ours, theirs
        a, b = self.models
        first, second = self._coordinates
        return _with_one(a.f[inputs], a) @ first.T, _with_one(b.f[inputs], b) @ second.T

    def _label_rows(self, model: SoftmaxModel, inputs: Ints) -> Array:
        if model.table is None:
            values = _with_one(model.f[inputs], model) @ self._label_map(model).T
        else:
            values = model.table[np.asarray(inputs)[..., None], self.labels].astype(np.float64)
        centred: Array = values - values.mean(axis=-1, keepdims=True)
        return centred

    def _label_map(self, model: SoftmaxModel) -> Array:
        g = model.g[self.labels].astype(np.float64)
        if model.bias is not None:
            g = np.column_stack([g, model.bias[self.labels]])
        centred: Array = g - g.mean(axis=0)
        return centred

    @cached_property
    def _coordinates(self) -> tuple[Array, Array] | None:
        if any(model.table is not None for model in self.models):
            return None
        first, second = (self._label_map(model) for model in self.models)
        both = np.hstack([first, second])
        if both.shape[1] < self.K:
            both = _r(both)
        return both[:, : first.shape[1]], both[:, first.shape[1] :]


def _same_candidates(a: SoftmaxModel, b: SoftmaxModel) -> bool:
    if a.candidates is None or b.candidates is None:
        return a.candidates is b.candidates
    return np.array_equal(a.candidates, b.candidates)


def _spacing(model: SoftmaxModel) -> float:
    """Relative rounding of the log-probabilities: f and g are exact, whatever their type."""
    return 2.0**-52 if model.table is None else float(np.finfo(model.table.dtype).eps)


def _r(matrix: Array) -> Array:
    """R of a QR decomposition: the same inner products of columns in as few rows as possible."""
    return np.asarray(np.linalg.qr(matrix, mode="r"), dtype=np.float64)


def _with_one(f: Array, model: SoftmaxModel) -> Array:
    f = f.astype(np.float64)
    return f if model.bias is None else np.concatenate([f, np.ones_like(f[..., :1])], axis=-1)


def _columns(model: SoftmaxModel, rows: slice, columns: Ints) -> Array:
    """Log-probabilities of some labels, up to a constant for each input."""
    if model.table is not None:
        return model.table[rows][:, columns].astype(np.float64)
    logits: Array = model.f[rows].astype(np.float64) @ model.g[columns].astype(np.float64).T
    return logits if model.bias is None else logits + model.bias[columns]
