"""Two models over the same inputs and labels, processed in blocks without the whole table."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from identikit._linalg import Array, singular_values, triangle
from identikit._threads import one_thread
from identikit.errors import InputError
from identikit.family import _model
from identikit.family._identified import rounding_norm
from identikit.family._model import SoftmaxModel, pieces
from identikit.family._per_input import compare_rows

Ints = NDArray[np.intp]
T = TypeVar("T")

#: Log-odds count as constant if their spread, relative to that of the log-likelihoods, is smaller.
CONSTANT = 1e-6


def check_pair(a: SoftmaxModel, b: SoftmaxModel) -> None:
    """Raise an error unless two models have the same number of inputs and of labels."""
    for what, ours, theirs in (("inputs", a.n, b.n), ("labels", a.K, b.K)):
        if ours != theirs:
            raise InputError(
                f"model {a.name!r} has {ours} {what} and model {b.name!r} has {theirs}; compare "
                f"them over the same {what} in the same order"
            )


class Pair:
    """Two models over the same n inputs and K labels.

    `labels` are the labels with a finite log-probability for every input in both models; the
    methods number them 0, 1, ... in this order.
    """

    def __init__(self, a: SoftmaxModel, b: SoftmaxModel) -> None:
        check_pair(a, b)
        self.models = (a, b)
        self.n = a.n
        self.labels: Ints = np.setdiff1d(np.arange(a.K), np.union1d(a.impossible, b.impossible))

    @property
    def K(self) -> int:  # noqa: N802
        """Number of labels that are possible for every input."""
        return len(self.labels)

    @property
    def affine(self) -> bool:
        """Whether a bias in either model allows a constant between f and f'."""
        return any(model.bias is not None for model in self.models)

    @cached_property
    def constant(self) -> float:
        """Spread of log-odds, relative to log-likelihoods, below which they count as constant."""
        return max(CONSTANT, 16 * max(_epsilon(model) for model in self.models))

    @cached_property
    def ranks(self) -> tuple[int, int]:
        """Rank of the log-odds of each model, centred over inputs: its effective dimension M."""
        return self._rank(0), self._rank(1)

    def _rank(self, which: int) -> int:
        model = self.models[which]
        f, g = model.f, model.g[self.labels]
        if model.table is None:
            size = _norm(f) * _norm(g)
        else:
            size = float(np.linalg.norm(model.table[:, self.labels].astype(np.float64)))
        if self._coordinates is None:
            f, g = (part - part.mean(axis=0, dtype=np.float64) for part in (f, g))
        else:
            f, g = self._input_factors[which][:, : model.M], self._coordinates[which][:, : model.M]
        values = singular_values(triangle(f) @ triangle(g).T)
        least = rounding_norm(size, self.n, self.K, _epsilon(model))
        return int(np.count_nonzero(values > least))

    def _of_both(self, make: Callable[[SoftmaxModel], Array]) -> tuple[Array, Array]:
        a, b = self.models
        return make(a), make(b)

    def over_blocks(self, function: Callable[[Array, Array], T]) -> list[T]:
        """Apply a function to every block, in order; several blocks are computed on all cores.

        The work is a product followed by elementwise operations, which BLAS does not parallelise.
        The function gets a few rows at a time, so that they stay in the cache.
        """

        def of(rows: slice) -> list[T]:
            block = self._of_both(lambda model: model.log_prob(rows))
            return [function(*both) for both in zip(*map(pieces, block), strict=True)]

        slices = list(self.models[0].slices())
        if len(slices) == 1:
            return of(slices[0])
        with one_thread(), ThreadPoolExecutor(os.cpu_count()) as pool:
            return [value for part in pool.map(of, slices) for value in part]

    @cached_property
    def compared(self) -> Array:
        """The numbers of `compare_rows` for every input, (7, n), in one pass over the blocks."""
        labels = slice(None) if self.K == self.models[0].K else self.labels
        done = self.over_blocks(lambda ours, theirs: compare_rows(ours, theirs, labels))
        return np.concatenate(done, axis=1)

    def label_blocks(self, per_label: int = 8) -> Iterator[slice]:
        """Slices of the labels that leave memory for `per_label` vectors per label."""
        size = self.n if self._by_table else sum(model.M + 1 for model in self.models)
        step = max(1, 4 * _model.BLOCK // (per_label * size))
        return (slice(at, min(at + step, self.K)) for at in range(0, self.K, step))

    @property
    def _by_table(self) -> bool:
        return any(model.table is not None for model in self.models)

    def columns(self, labels: slice | Ints) -> tuple[Array, Array]:
        """One vector per label, with the inner products of log p(y|·) centred over x.

        For models given by f and g, log p(y|x) is the product of [g(y), 1] with [f(x), −log Z(x)],
        up to a constant, so a QR decomposition over the inputs reduces each label to a few
        coordinates.
        """
        if self._by_table:
            ours, theirs = self._of_both(lambda model: self._table(model, labels))
            return (ours - ours.mean(axis=0)).T, (theirs - theirs.mean(axis=0)).T
        first, second = self._input_factors
        ours, theirs = self._of_both(lambda model: self._lifted_g(model, labels))
        return ours @ first.T, theirs @ second.T

    def deviations(self, labels: slice) -> Array:
        """Σ_x (log p(y|x) − mean over labels)², for both models and these labels."""
        if self._by_table:
            centred = [table[:, labels].T for table in self._centred_tables]
        else:
            centred = [self.label_map(m, labels) @ m.input_factor.T for m in self.models]
        return np.stack([np.square(rows).sum(axis=1) for rows in centred])

    @property
    def candidates(self) -> bool:
        """Whether both models have the same candidates; then no other logits are used."""
        return self.models[0].candidates is not None and same_candidates(*self.models)

    @cached_property
    def logit_norms(self) -> tuple[float, float, float]:
        """Frobenius norms ‖Z_c − Z'_c‖, ‖Z_c‖ and ‖Z'_c‖ of the label-centred logits.

        If both models have the same candidates, the logits are centred over those.
        """
        if self.candidates:
            gap, ours, theirs = sum(self.over_blocks(_centred_squares), np.zeros(3)) ** 0.5
            return float(gap), float(ours), float(theirs)
        if self._coordinates is None:
            first, second = self._centred_tables
        else:
            (fa, fb), (ga, gb) = self._logit_factors, self._coordinates
            first, second = fa @ ga.T, fb @ gb.T
        gap, ours, theirs = map(np.linalg.norm, (first - second, first, second))
        return float(gap), float(ours), float(theirs)

    @property
    def label_vectors(self) -> tuple[Array, Array]:
        """One vector per label, with the inner products of the centred logits Z_c(·, y).

        Inner products between the two models are preserved too.
        """
        if self._by_table:
            first, second = self._centred_tables
            return first.T, second.T
        (a, b), (fa, fb) = self.models, self._logit_factors
        return self.label_map(a) @ fa.T, self.label_map(b) @ fb.T

    @property
    def _centred_tables(self) -> tuple[Array, Array]:
        return self._of_both(lambda model: _centred(self._table(model, slice(None))))

    def _lifted_g(self, model: SoftmaxModel, labels: slice | Ints) -> Array:
        """g of some labels, with a column of ones."""
        g = model.g[self.labels[labels]].astype(np.float64)
        return np.column_stack([g, np.ones(len(g))])

    def _table(self, model: SoftmaxModel, labels: slice | Ints) -> Array:
        table: Array = model.log_prob() if model.table is None else model.table
        return table[:, self.labels[labels]].astype(np.float64, copy=False)

    @cached_property
    def _input_factors(self) -> tuple[Array, Array]:
        """R of [f, −log Z, f', −log Z'] centred over inputs, split into the two models' columns."""
        a, b = self.models
        log_z, log_z_b = (
            _first_logit(model) - first for model, first in zip(self.models, self.compared[5:])
        )
        both = _side_by_side([a.f, -log_z[:, None], b.f, -log_z_b[:, None]])
        both -= both.mean(axis=0)
        return _cut(triangle(both, overwrite=True), a.M + 1)

    @cached_property
    def _logit_factors(self) -> tuple[Array, Array]:
        """R of [f, f'], with a column of ones after each f whose model has a bias."""
        parts = [model.lifted_f for model in self.models]
        return _cut(triangle(_side_by_side(parts), overwrite=True), parts[0].shape[1])

    def rows(self, inputs: Ints) -> tuple[Array, Array]:
        """Vectors with the inner products of log p(·|x) and log p'(·|x), centred over y.

        For models given by f and g they have at most 2M + 2 numbers instead of K: log p(·|x) is a
        combination of the columns of g, which a QR decomposition reduces to a few coordinates.
        """
        if self._coordinates is None:
            return self._of_both(lambda model: self._label_rows(model, inputs))
        if self._input_rows is None:
            return self._rows_of(inputs)
        first, second = self._input_rows
        return first[inputs], second[inputs]

    @cached_property
    def _input_rows(self) -> tuple[Array, Array] | None:
        """The vectors of all inputs, if they take no more memory than a few blocks."""
        assert self._coordinates is not None
        size = self.n * len(self._coordinates[0])
        return self._rows_of(slice(None)) if size <= 8 * _model.BLOCK else None

    def _rows_of(self, inputs: slice | Ints) -> tuple[Array, Array]:
        assert self._coordinates is not None
        (a, b), (ga, gb) = self.models, self._coordinates
        return _with_one(a, inputs) @ ga.T, _with_one(b, inputs) @ gb.T

    def _label_rows(self, model: SoftmaxModel, inputs: Ints) -> Array:
        if model.table is None:
            values = _with_one(model, inputs) @ self.label_map(model).T
        else:
            values = model.table[np.asarray(inputs)[..., None], self.labels].astype(np.float64)
        return _centred(values)

    def label_map(self, model: SoftmaxModel, labels: slice | Ints = slice(None)) -> Array:
        """[g, bias] of some labels, minus the mean over all possible labels."""
        if self.K == model.K:
            # Select the labels before adding the bias: a vocabulary is large and calls are many.
            g = model.centred_g[labels]
            if model.bias is None:
                return g
            return np.column_stack([g, (model.bias - model.bias.mean())[labels]])
        possible = model.lifted_g[self.labels]
        return np.asarray(possible[labels] - possible.mean(axis=0))

    @cached_property
    def _coordinates(self) -> tuple[Array, Array] | None:
        if self._by_table:
            return None
        both = _side_by_side([model.lifted_g for model in self.models])
        if both.shape[1] < self.K:
            both = triangle(both, overwrite=True)
        return _cut(both, self.models[0].lifted_g.shape[1])


def _centred(rows: Array) -> Array:
    """Each row minus its mean, which is over labels."""
    return np.asarray(rows - rows.mean(axis=-1, keepdims=True))


def _centred_squares(ours: Array, theirs: Array) -> Array:
    ours, theirs = _centred(ours), _centred(theirs)
    return np.array([np.square(x).sum() for x in (ours - theirs, ours, theirs)])


def _cut(factor: Array, at: int) -> tuple[Array, Array]:
    """The columns of the first model, and those of the second."""
    return factor[:, :at], factor[:, at:]


def _side_by_side(parts: list[Array]) -> Array:
    """All columns in one matrix, in the column-major order that LAPACK uses."""
    both = np.empty((len(parts[0]), sum(part.shape[1] for part in parts)), order="F")
    np.concatenate(parts, axis=1, out=both)
    return both


def same_candidates(a: SoftmaxModel, b: SoftmaxModel) -> bool:
    if a.candidates is None or b.candidates is None:
        return a.candidates is b.candidates
    return np.array_equal(a.candidates, b.candidates)


def _epsilon(model: SoftmaxModel) -> float:
    """Relative rounding error of the log-probabilities; f and g count as exact for any type."""
    return 2.0**-52 if model.table is None else model.eps_table


def _norm(rows: Array) -> float:
    """Frobenius norm, computed in float64 because float16 overflows above 65,504."""
    return float(np.einsum("ij,ij->", rows, rows, dtype=np.float64) ** 0.5)


def _with_one(model: SoftmaxModel, inputs: slice | Ints) -> Array:
    f = model.f[inputs].astype(np.float64)
    return f if model.bias is None else np.concatenate([f, np.ones_like(f[..., :1])], axis=-1)


def _first_logit(model: SoftmaxModel) -> Array:
    """f(x)ᵀg(y) + bias(y) of label 0."""
    logit: Array = model.f.astype(np.float64) @ model.g[0].astype(np.float64)
    return logit if model.bias is None else logit + model.bias[0]
