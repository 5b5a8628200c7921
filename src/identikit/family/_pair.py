"""Two models over the same inputs and labels, read in blocks and never as a whole table."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from identikit._linalg import Array, one_thread, singular_values
from identikit.errors import InputError
from identikit.family import _model
from identikit.family._model import SoftmaxModel
from identikit.family._normal_form import triangle

Ints = NDArray[np.intp]
T = TypeVar("T")

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
        #: log p of label 0, block by block, as a pass over all labels has left it here.
        self.first: list[tuple[Array, Array]] = []
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
        if model.table is None:
            f, g = model.f, model.g[self.labels]
            size = float(np.linalg.norm(f) * np.linalg.norm(g))
        else:
            size = float(np.linalg.norm(model.table[:, self.labels].astype(np.float64)))
        values = singular_values(self._input_triangle(model) @ self._label_triangle(model).T)
        # Singular values of a table of rounding errors: √n + √K times the size of one.
        rounding = _spacing(model) * size / (self.n * self.K) ** 0.5
        return int(np.count_nonzero(values > 8 * rounding * (self.n**0.5 + self.K**0.5)))

    def _input_triangle(self, model: SoftmaxModel) -> Array:
        """R of f centred over inputs; from the factors of the pair where it has them."""
        if self._by_table:
            return triangle(model.f - model.f.mean(axis=0, dtype=np.float64))
        return triangle(self._input_factors[self.models.index(model)][:, : model.M])

    def _label_triangle(self, model: SoftmaxModel) -> Array:
        """R of g centred over labels."""
        if self._coordinates is None:
            g = model.g[self.labels]
            return triangle(g - g.mean(axis=0, dtype=np.float64))
        return triangle(self._coordinates[self.models.index(model)][:, : model.M])

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
        return map(self._block, self._slices())

    def _slices(self) -> Iterator[slice]:
        return self.models[0].slices()

    def _block(self, rows: slice) -> tuple[Array, Array]:
        ours, theirs = (
            model.log_prob(rows).astype(np.float64, copy=False) for model in self.models
        )
        return ours, theirs

    def over_blocks(self, function: Callable[[Array, Array], T]) -> list[T]:
        """The function of every block, in order; on all cores where there are many blocks.

        Blocks are products and then element by element, which BLAS does not share out.
        """
        if self._whole:
            return [function(*block) for block in self._whole]
        with one_thread(), ThreadPoolExecutor(os.cpu_count()) as pool:
            return list(pool.map(lambda rows: function(*self._block(rows)), self._slices()))

    @cached_property
    def _log_z(self) -> tuple[Array, Array]:
        """log Z(x) of both models, all that a distribution needs beside f and g."""
        sums: tuple[list[Array], list[Array]] = ([], [])
        for both in self.first or (tuple(b[:, 0] for b in block) for block in self.blocks()):
            for kept, block in zip(sums, both, strict=True):
                kept.append(block)
        every = np.zeros(1, dtype=np.intp)
        parts = []
        for model, kept in zip(self.models, sums, strict=True):
            parts.append(_columns(model, slice(None), every)[:, 0] - np.concatenate(kept))
        return parts[0], parts[1]

    def label_blocks(self, per_label: int = 8) -> Iterator[slice]:
        """Labels, as many at a time as leave room for `per_label` vectors of each."""
        size = self.n if self._by_table else sum(model.M + 1 for model in self.models)
        step = max(1, 4 * _model.BLOCK // (per_label * size))
        return (slice(at, min(at + step, self.K)) for at in range(0, self.K, step))

    @property
    def _by_table(self) -> bool:
        return any(model.table is not None for model in self.models)

    def columns(self, labels: slice | Ints) -> tuple[Array, Array]:
        """Vectors, a row a label, whose inner products are those of log p(y|·), centred over x.

        For models given by f and g, log p(y|x) is a product with [f(x), −log Z(x)] and a constant:
        a QR decomposition over the inputs leaves a few coordinates of each label.
        """
        if self._by_table:
            tables = (self._table(model, labels) for model in self.models)
            ours, theirs = ((t - t.mean(axis=0)).T for t in tables)
            return ours, theirs
        first, second = self._input_factors
        ours, theirs = (
            np.column_stack([g, np.ones(len(g))]) @ factor.T
            for g, factor in zip(self._g(labels), (first, second), strict=True)
        )
        return ours, theirs

    def deviations(self, labels: slice | Ints) -> tuple[Array, Array]:
        """The same for log p(y|x) less its mean over labels, and not centred over x."""
        if self._by_table:
            tables = (self._table(model, slice(None)) for model in self.models)
            ours, theirs = ((t[:, labels] - t.mean(axis=1, keepdims=True)).T for t in tables)
            return ours, theirs
        first, second = self._logit_factors
        ours, theirs = (
            self._label_map(model, labels) @ factor.T
            for model, factor in zip(self.models, (first, second), strict=True)
        )
        return ours, theirs

    def _g(self, labels: slice | Ints) -> Iterator[Array]:
        return (model.g[self.labels[labels]].astype(np.float64) for model in self.models)

    def _table(self, model: SoftmaxModel, labels: slice | Ints) -> Array:
        if model.table is None:
            table: Array = model.log_prob()[:, self.labels[labels]]
        else:
            table = model.table[:, self.labels[labels]].astype(np.float64)
        return table

    @cached_property
    def _input_factors(self) -> tuple[Array, Array]:
        """R of [f, −log Z, f', −log Z'] centred over inputs, cut into the two models' columns."""
        parts = [
            np.column_stack([model.f.astype(np.float64), -log_z])
            for model, log_z in zip(self.models, self._log_z, strict=True)
        ]
        both = np.hstack(parts)
        both -= both.mean(axis=0)
        return self._cut(triangle(both), parts[0].shape[1])

    @cached_property
    def _logit_factors(self) -> tuple[Array, Array]:
        """R of [f, f'], with a one beside each f that has a bias."""
        parts = [_with_one(model.f, model) for model in self.models]
        return self._cut(triangle(np.hstack(parts)), parts[0].shape[1])

    @staticmethod
    def _cut(factor: Array, at: int) -> tuple[Array, Array]:
        return factor[:, :at], factor[:, at:]

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
        first, second = self._input_rows or self._rows_of(inputs)
        return (first[inputs], second[inputs]) if self._input_rows else (first, second)

    @cached_property
    def _input_rows(self) -> tuple[Array, Array] | None:
        """The vectors of all inputs, if they take no more room than a few blocks."""
        assert self._coordinates is not None
        size = self.n * len(self._coordinates[0])
        return self._rows_of(slice(None)) if size <= 8 * _model.BLOCK else None

    def _rows_of(self, inputs: slice | Ints) -> tuple[Array, Array]:
        assert self._coordinates is not None
        ours, theirs = (
            _with_one(model.f[inputs], model) @ factor.T
            for model, factor in zip(self.models, self._coordinates, strict=True)
        )
        return ours, theirs

    def _label_rows(self, model: SoftmaxModel, inputs: Ints) -> Array:
        if model.table is None:
            values = _with_one(model.f[inputs], model) @ self._label_map(model).T
        else:
            values = model.table[np.asarray(inputs)[..., None], self.labels].astype(np.float64)
        centred: Array = values - values.mean(axis=-1, keepdims=True)
        return centred

    def _label_map(self, model: SoftmaxModel, labels: slice | Ints = slice(None)) -> Array:
        """[g, bias] of some labels, less the mean over all that are possible."""
        chosen = self.labels[labels]
        g: Array = model.g[chosen] - self._means[self.models.index(model)]
        if model.bias is None:
            return g
        return np.column_stack([g, model.bias[chosen] - model.bias[self.labels].mean()])

    @cached_property
    def _means(self) -> list[Array]:
        return [model.g[self.labels].mean(axis=0, dtype=np.float64) for model in self.models]

    @cached_property
    def _coordinates(self) -> tuple[Array, Array] | None:
        if any(model.table is not None for model in self.models):
            return None
        widths = [model.M + (model.bias is not None) for model in self.models]
        both = np.empty((self.K, sum(widths)), order="F")
        both[:, : widths[0]] = self._label_map(self.models[0])
        both[:, widths[0] :] = self._label_map(self.models[1])
        if both.shape[1] < self.K:
            both = triangle(both, overwrite=True)
        return self._cut(both, widths[0])


def _same_candidates(a: SoftmaxModel, b: SoftmaxModel) -> bool:
    if a.candidates is None or b.candidates is None:
        return a.candidates is b.candidates
    return np.array_equal(a.candidates, b.candidates)


def _spacing(model: SoftmaxModel) -> float:
    """Relative rounding of the log-probabilities: f and g are exact, whatever their type."""
    return 2.0**-52 if model.table is None else float(np.finfo(model.table.dtype).eps)


def _with_one(f: Array, model: SoftmaxModel) -> Array:
    f = f.astype(np.float64)
    return f if model.bias is None else np.concatenate([f, np.ones_like(f[..., :1])], axis=-1)


def _columns(model: SoftmaxModel, rows: slice, columns: Ints) -> Array:
    """Log-probabilities of some labels, up to a constant for each input."""
    if model.table is not None:
        return model.table[rows][:, columns].astype(np.float64)
    logits: Array = model.f[rows].astype(np.float64) @ model.g[columns].astype(np.float64).T
    return logits if model.bias is None else logits + model.bias[columns]
