"""Two models over the same inputs and labels, read in blocks and never as a whole table."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from identikit._linalg import Array, one_thread, singular_values, triangle
from identikit.errors import InputError
from identikit.family import _model
from identikit.family._identified import rounding_norm
from identikit.family._model import SoftmaxModel, pieces

Ints = NDArray[np.intp]
T = TypeVar("T")

#: Log-odds whose spread is a smaller share of the log-likelihoods' spread count as constant.
CONSTANT = 1e-6


def check_pair(a: SoftmaxModel, b: SoftmaxModel) -> None:
    """Raise unless two models are over the same number of inputs and of labels."""
    for what, ours, theirs in (("inputs", a.n, b.n), ("labels", a.K, b.K)):
        if ours != theirs:
            raise InputError(
                f"model {a.name!r} has {ours} {what} and model {b.name!r} has {theirs}; compare "
                f"them over the same {what} in the same order"
            )


class Pair:
    """Two models of the same n inputs and K labels.

    `labels` are those with a finite log-probability for every input in both models; all that
    follows numbers them 0, 1, ... in this order.
    """

    def __init__(self, a: SoftmaxModel, b: SoftmaxModel) -> None:
        check_pair(a, b)
        self.models = (a, b)
        self.n = a.n
        #: log p of label 0, block by block, as a pass over all labels has left it here.
        self.first: list[tuple[Array, Array]] = []
        self.labels: Ints = np.setdiff1d(np.arange(a.K), np.union1d(a.impossible, b.impossible))

    @property
    def K(self) -> int:  # noqa: N802
        """Number of labels that are possible everywhere."""
        return len(self.labels)

    @property
    def affine(self) -> bool:
        """Whether a bias in either model allows a constant between f and f'."""
        return any(model.bias is not None for model in self.models)

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
            size = _norm(f) * _norm(g)
        else:
            size = float(np.linalg.norm(model.table[:, self.labels].astype(np.float64)))
        values = singular_values(self._input_triangle(model) @ self._label_triangle(model).T)
        least = rounding_norm(size, self.n, self.K, _spacing(model))
        return int(np.count_nonzero(values > least))

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

        Blocks are products and then element by element, which BLAS does not share out; the function
        sees a few rows at a time, which are still in the cache when it is done with them.
        """

        def of(block: tuple[Array, Array]) -> list[T]:
            return [function(*both) for both in zip(*map(pieces, block), strict=True)]

        if self._whole:
            return [value for block in self._whole for value in of(block)]
        with one_thread(), ThreadPoolExecutor(os.cpu_count()) as pool:
            parts = pool.map(lambda rows: of(self._block(rows)), self._slices())
            return [value for part in parts for value in part]

    @cached_property
    def _log_z(self) -> tuple[Array, Array]:
        """log Z(x) of both models, all that a distribution needs beside f and g."""
        sums: tuple[list[Array], list[Array]] = ([], [])
        for both in self.first or (tuple(b[:, 0] for b in block) for block in self.blocks()):
            for kept, block in zip(sums, both, strict=True):
                kept.append(block)
        ours, theirs = (
            _first_logit(model) - np.concatenate(kept)
            for model, kept in zip(self.models, sums, strict=True)
        )
        return ours, theirs

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

    def deviations(self, labels: slice) -> Array:
        """E_x (log p(y|x) − mean over labels)² of both models and these labels, times n."""
        if self._by_table:
            centred = [table[:, labels].T for table in self._centred_tables]
        else:
            centred = [self.label_map(m, labels) @ m.input_factor.T for m in self.models]
        return np.stack([np.square(rows).sum(axis=1) for rows in centred])

    @property
    def candidates(self) -> bool:
        """Whether both models have the same candidates: then no other logits are seen."""
        return self.models[0].candidates is not None and same_candidates(*self.models)

    @cached_property
    def logit_norms(self) -> tuple[float, float, float]:
        """‖Z_c − Z'_c‖, ‖Z_c‖ and ‖Z'_c‖, Frobenius, of the label-centred logits of the two models.

        Centred over its candidates, if both have the same.
        """
        if self.candidates:
            gap, ours, theirs = sum(self.over_blocks(_centred_squares), np.zeros(3)) ** 0.5
            return float(gap), float(ours), float(theirs)
        if self._coordinates is None:
            first, second = self._centred_tables
        else:
            first, second = (
                f @ g.T for f, g in zip(self._logit_factors, self._coordinates, strict=True)
            )
        gap, ours, theirs = map(np.linalg.norm, (first - second, first, second))
        return float(gap), float(ours), float(theirs)

    @property
    def label_vectors(self) -> tuple[Array, Array]:
        """Vectors, a row a label, whose inner products are those of the centred logits Z_c(·, y).

        Also of one model's with the other's.
        """
        if self._by_table:
            first, second = (table.T for table in self._centred_tables)
            return first, second
        ours, theirs = (
            self.label_map(model) @ factor.T
            for model, factor in zip(self.models, self._logit_factors, strict=True)
        )
        return ours, theirs

    @property
    def _centred_tables(self) -> list[Array]:
        tables = [self._table(model, slice(None)) for model in self.models]
        return [table - table.mean(axis=1, keepdims=True) for table in tables]

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
        columns = [
            part
            for model, log_z in zip(self.models, self._log_z, strict=True)
            for part in (model.f, -log_z[:, None])
        ]
        both = _side_by_side(columns)
        both -= both.mean(axis=0)
        return self._cut(triangle(both, overwrite=True), self.models[0].M + 1)

    @cached_property
    def _logit_factors(self) -> tuple[Array, Array]:
        """R of [f, f'], with a one beside each f that has a bias."""
        parts = [model.lifted_f for model in self.models]
        return self._cut(triangle(_side_by_side(parts), overwrite=True), parts[0].shape[1])

    @staticmethod
    def _cut(factor: Array, at: int) -> tuple[Array, Array]:
        return factor[:, :at], factor[:, at:]

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
            values = _with_one(model.f[inputs], model) @ self.label_map(model).T
        else:
            values = model.table[np.asarray(inputs)[..., None], self.labels].astype(np.float64)
        centred: Array = values - values.mean(axis=-1, keepdims=True)
        return centred

    def label_map(self, model: SoftmaxModel, labels: slice | Ints = slice(None)) -> Array:
        """[g, bias] of some labels, less the mean over all that are possible."""
        if self.K == model.K:
            # Chosen first and lifted then: there are many calls, and a vocabulary is large.
            g = model.centred_g[labels]
            if model.bias is None:
                return g
            return np.column_stack([g, (model.bias - model.bias.mean())[labels]])
        possible = model.lifted_g[self.labels]
        chosen: Array = possible[labels] - possible.mean(axis=0)
        return chosen

    @cached_property
    def _coordinates(self) -> tuple[Array, Array] | None:
        if self._by_table:
            return None
        both = _side_by_side([model.lifted_g for model in self.models])
        if both.shape[1] < self.K:
            both = triangle(both, overwrite=True)
        return self._cut(both, self.models[0].lifted_g.shape[1])


def _centred_squares(ours: Array, theirs: Array) -> Array:
    centred = [block - block.mean(axis=1, keepdims=True) for block in (ours, theirs)]
    return np.array([np.square(x).sum() for x in (centred[0] - centred[1], *centred)])


def _side_by_side(parts: list[Array]) -> Array:
    """Their columns in one matrix, in the order of LAPACK."""
    both = np.empty((len(parts[0]), sum(part.shape[1] for part in parts)), order="F")
    np.concatenate(parts, axis=1, out=both)
    return both


def same_candidates(a: SoftmaxModel, b: SoftmaxModel) -> bool:
    if a.candidates is None or b.candidates is None:
        return a.candidates is b.candidates
    return np.array_equal(a.candidates, b.candidates)


def _spacing(model: SoftmaxModel) -> float:
    """Relative rounding of the log-probabilities: f and g are exact, whatever their type."""
    return 2.0**-52 if model.table is None else model.eps_table


def _norm(rows: Array) -> float:
    """Frobenius norm in float64, whatever the type: float16 ends at 65,504."""
    return float(np.einsum("ij,ij->", rows, rows, dtype=np.float64) ** 0.5)


def _with_one(f: Array, model: SoftmaxModel) -> Array:
    f = f.astype(np.float64)
    return f if model.bias is None else np.concatenate([f, np.ones_like(f[..., :1])], axis=-1)


def _first_logit(model: SoftmaxModel) -> Array:
    """f(x)ᵀg(y) + bias(y) of label 0."""
    logit: Array = model.f.astype(np.float64) @ model.g[0].astype(np.float64)
    return logit if model.bias is None else logit + model.bias[0]
