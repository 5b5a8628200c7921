"""A model of the softmax family: p(y|x, S) ∝ exp(f(x)ᵀ g(y) + bias(y))."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from identikit._linalg import Array, rank_tolerance, svd, triangle
from identikit.errors import InputError
from identikit.family._identified import Identified, identify, rounding_norm
from identikit.family._reading import Stored, matrix, read_arrays

#: Size of one block of logits: 32 MB of float64.
BLOCK = 2**22
#: Size of the pieces for elementwise work, which fit into the cache: 512 kB.
PIECE = 2**16


class SoftmaxModel:
    """A model of the softmax family: embeddings f of n inputs, unembeddings g of K labels.

    p(y|x, S) ∝ exp(f(x)ᵀ g(y) + bias(y)) over the labels in S: all K labels, or those that were
    candidates for this input, as in contrastive training.

    Parameters
    ----------
    f : array (n, M)
        Row i is f(x_i).
    g : array (K, M)
        Row j is g(y_j).
    bias : array (K,), optional
        Added to the logits of each label.
    candidates : integer array (n, s), optional
        Row i holds the labels of S for input i; by default S is all K labels.
    name : str
        The name of the model in reports.

    Examples
    --------
    >>> model = SoftmaxModel(f=[[1.0, 0.0], [0.0, 2.0]], g=[[1.0, 1.0], [0.0, 1.0], [0.5, 0.0]])
    >>> model.log_prob().shape
    (2, 3)
    """

    def __init__(
        self,
        f: ArrayLike | Stored,
        g: ArrayLike | Stored,
        bias: ArrayLike | None = None,
        *,
        candidates: ArrayLike | None = None,
        name: str = "model",
    ) -> None:
        self.name = name
        #: `eps_f`, `eps_g` and `eps_table` are the machine epsilons of the stored types.
        self.f, self.eps_f = _floats(f, "f", name)
        self.g, self.eps_g = _floats(g, "g", name)
        if self.f.shape[1] != self.g.shape[1]:
            raise InputError(
                f"model {name!r}: f has {self.f.shape[1]} columns and g has {self.g.shape[1]}; "
                "their dot product needs vectors of the same width"
            )
        #: Numbers of inputs and of labels, and the width of the embeddings.
        self.n, self.K, self.M = len(self.f), len(self.g), int(self.f.shape[1])
        if self.K < 2:
            raise InputError(f"model {name!r} has one label; a distribution needs at least two")
        self.bias = None if bias is None else _bias(bias, self.K, name)
        self.candidates = None if candidates is None else _candidates(candidates, self)
        self.table: Array | None = None
        self.eps_table = 0.0
        self._identified: dict[bool, Identified] = {}

    @classmethod
    def from_log_prob(
        cls, table: ArrayLike | Stored, name: str = "model", *, atol: float = 1e-4
    ) -> SoftmaxModel:
        """A model from its log-probabilities alone.

        The label-centred table has some rank r; f and g are its factors in r dimensions, one of
        many pairs with this distribution. Labels that are impossible (−inf) for some input cannot
        be part of such a factorisation: they keep their probabilities but have no embedding.

        Parameters
        ----------
        table : array (n, K)
            log p(y_j|x_i), in any floating-point type. The type decides which singular values are
            treated as rounding errors. The probabilities of every row must sum to one, within
            `atol`.
        name : str
            The name of the model in reports.
        atol : float
            How far the sum of a row may be from one, in addition to rounding in the table's type.
        """
        logs, eps = _floats(table, "the table of log-probabilities", name, finite=False)
        if logs.shape[1] < 2:
            raise InputError(f"model {name!r} has one label; a distribution needs at least two")
        if np.isnan(logs).any() or np.isposinf(logs).any():
            raise InputError(f"model {name!r}: the table of log-probabilities has NaN or +infinity")
        exact = logs.astype(np.float64)
        gaps, rounding = _off_from_one(exact, eps)
        if not (gaps <= atol + rounding).all():
            worst = int((gaps - rounding).argmax())
            raise InputError(
                f"model {name!r}: row {worst} of the table sums to a probability that "
                f"is off from one by {gaps[worst]:.3g}; give natural logarithms of probabilities"
            )
        possible = np.isfinite(logs).all(axis=0)
        if np.count_nonzero(possible) < 2:
            raise InputError(
                f"model {name!r}: fewer than two labels are possible for every input, so there are "
                "no log-odds to embed"
            )
        exact = exact[:, possible]
        left, values, right = svd(exact - exact.mean(axis=1, keepdims=True))
        rows, labels = exact.shape
        least = max(
            rank_tolerance(rows, labels, eps) * values[0],
            rounding_norm(float(np.linalg.norm(exact)), rows, labels, eps),
        )
        r = max(1, int(np.count_nonzero(values > least)))
        root = np.sqrt(values[:r])
        g = np.zeros((logs.shape[1], r))
        g[possible] = right[:r].T * root
        model = cls(left[:, :r] * root, g, name=name)
        model.table, model.eps_table = logs, eps
        model.impossible = np.flatnonzero(~possible)
        return model

    #: Labels without an embedding, in a model made from a table that contains −inf.
    impossible: NDArray[np.intp] = np.empty(0, dtype=np.intp)

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], name: str | None = None, *, memory: int | None = None
    ) -> SoftmaxModel:
        """Read a model from one ``.safetensors`` or ``.npz`` file, or from a folder.

        The file holds arrays named ``f`` and ``g`` (and optionally ``bias`` and ``candidates``), or
        one named ``log_prob``; a folder, as `identikit extract` writes it, has them as ``f.npy``
        and so on beside its ``manifest.json``. Each array is read as a whole: `memory` is the
        number of bytes that an array and the work on it may take, by default half of the machine's
        memory.
        """
        path = Path(path)
        name = path.stem if name is None else name
        arrays = read_arrays(path, memory)
        if "log_prob" in arrays and "f" not in arrays:
            return cls.from_log_prob(arrays["log_prob"], name)
        if "f" not in arrays or "g" not in arrays:
            raise InputError(
                f"{path} holds no model: expected arrays 'f' (inputs × width) and 'g' (labels × "
                "width), optionally 'bias' and 'candidates', or one array 'log_prob' (inputs × "
                "labels)"
            )
        bias, sets = (
            arrays[key].array if key in arrays else None for key in ("bias", "candidates")
        )
        bias = None if bias is None else bias.ravel()
        return cls(arrays["f"], arrays["g"], bias, candidates=sets, name=name)

    def __repr__(self) -> str:
        return f"SoftmaxModel({self.name!r}: {self.n:,} inputs, {self.K:,} labels, width {self.M})"

    def slices(self) -> Iterator[slice]:
        """Slices of the inputs whose log-probabilities fit into one block."""
        step = max(1, BLOCK // (self.K if self.candidates is None else self.candidates.shape[1]))
        return (slice(at, min(at + step, self.n)) for at in range(0, self.n, step))

    def log_prob(self, rows: slice | None = None) -> Array:
        """log p(y|x, S) for some inputs, all by default: (n, K), or (n, s) with candidates."""
        if rows is None:
            return np.concatenate([self.log_prob(some) for some in self.slices()])
        if self.table is not None:
            return self.table[rows].astype(np.float64)
        return log_softmax(self._centred_logits(rows))

    def logits(self, rows: slice = slice(None)) -> Array:
        """f(x)ᵀg(y) + bias(y) for some inputs, in float64; only for candidates if there are any."""
        centred = self._centred_logits(rows)
        centred += (self.f[rows].astype(np.float64) @ self.mean_g)[:, None]
        return centred

    def _centred_logits(self, rows: slice) -> Array:
        """The logits with g centred over labels, which gives the same probabilities."""
        f = self.f[rows].astype(np.float64)
        if self.candidates is None:
            logits: Array = f @ self.centred_g.T
            return logits if self.bias is None else logits + self.bias
        chosen = self.candidates[rows]
        logits = np.einsum("im,ijm->ij", f, self.centred_g[chosen])
        return logits if self.bias is None else logits + self.bias[chosen]

    @cached_property
    def mean_g(self) -> Array:
        """The mean of g over labels."""
        return np.asarray(self.g.mean(axis=0, dtype=np.float64))

    @cached_property
    def centred_g(self) -> Array:
        """g minus its mean over labels, in float64; this changes no probability."""
        centred = self.g.astype(np.float64)
        centred -= self.mean_g
        return centred

    @property
    def lifted_f(self) -> Array:
        """f in float64, with a column of ones if there is a bias."""
        return _with_ones(self.f)[:, : self.M + (self.bias is not None)]

    @property
    def lifted_g(self) -> Array:
        """The label-centred g, with the centred bias as a further column if there is one."""
        if self.bias is None:
            return self.centred_g
        return np.column_stack([self.centred_g, self.bias - self.bias.mean()])

    @cached_property
    def _r_of_inputs(self) -> Array:
        return triangle(_with_ones(self.f))

    @property
    def input_factor(self) -> Array:
        """R of the QR decomposition of `lifted_f`: enough for inner products over the inputs."""
        return self._r_of_inputs[:, : self.M + (self.bias is not None)]

    @cached_property
    def label_factor(self) -> Array:
        """R of the QR decomposition of `lifted_g`."""
        return triangle(self.lifted_g)

    def identified(self, *, affine: bool) -> Identified:
        """What the distribution identifies of f and of g.

        p depends on f only through its products with differences of g, and on g only through f.
        Parts that affect no such product are free.

        Parameters
        ----------
        affine : bool
            Whether a bias of this model, or of one that it is compared with, absorbs constants;
            then only the variation of f matters.
        """
        if affine in self._identified:
            return self._identified[affine]
        f, g = self._r_of_inputs[:, : self.M], self.label_factor[:, : self.M]
        of_f, of_g = (np.linalg.norm(factor, axis=0) for factor in (f, g))
        if affine:
            one = self._r_of_inputs[:, self.M]
            f = f - np.outer(one, one @ f) / (one @ one)
        # If g is constant, or f with a bias, rounding errors are relative to that constant.
        whole_g = np.hypot(of_g, self.K**0.5 * self.mean_g)
        errors = self.eps_f * of_f * of_g, self.eps_g * np.linalg.norm(f, axis=0) * whole_g
        self._identified[affine] = identify(f, g, 8 * float(np.linalg.norm(errors)))
        return self._identified[affine]


def _with_ones(f: Array) -> Array:
    return np.column_stack([f, np.ones(len(f))])


def log_softmax(logits: Array) -> Array:
    """Subtract log Σ exp from each row of the logits, in place and in pieces that fit the cache."""
    for piece in pieces(logits):
        piece -= piece.max(axis=1, keepdims=True)
        piece -= np.log(np.exp(piece).sum(axis=1, keepdims=True))
    return logits


def pieces(rows: Array) -> Iterator[Array]:
    """Views of consecutive rows that fit into the cache of a core."""
    step = max(1, PIECE // rows.shape[1])
    return (rows[at : at + step] for at in range(0, len(rows), step))


def _floats(value: ArrayLike | Stored, what: str, name: str, *, finite: bool = True) -> Stored:
    """A matrix of real numbers in its original floating-point type (integers become float64)."""
    array, eps = matrix(value, f"model {name!r}: {what}", "in rows and columns", finite=finite)
    return Stored(array if array.dtype.kind == "f" else array.astype(np.float64), eps)


def _off_from_one(logs: Array, eps: float) -> tuple[Array, Array]:
    """How far the probabilities of each row sum from one, and how far rounding may bring them."""
    with np.errstate(over="ignore"):
        p = np.exp(logs)
    sizes = np.abs(logs, out=np.zeros_like(logs), where=p > 0)
    return np.abs(p.sum(axis=1) - 1.0), eps * (np.minimum(p, 1.0) * sizes).sum(axis=1)


def _bias(value: ArrayLike, labels: int, name: str) -> Array:
    bias = np.asarray(value, dtype=np.float64)
    if bias.shape != (labels,):
        raise InputError(
            f"model {name!r}: bias has shape {bias.shape}, but there are {labels} labels; give one "
            "number per label"
        )
    if not np.isfinite(bias).all():
        raise InputError(f"model {name!r}: bias has NaN or infinity")
    return bias


def _candidates(value: ArrayLike, model: SoftmaxModel) -> NDArray[np.intp]:
    chosen = np.asarray(value)
    if chosen.dtype.kind not in "iu" or chosen.ndim != 2 or len(chosen) != model.n:
        raise InputError(
            f"model {model.name!r}: candidates has shape {chosen.shape} and dtype {chosen.dtype}; "
            f"expected integers, one row for each of the {model.n} inputs"
        )
    if chosen.shape[1] < 2 or chosen.min() < 0 or chosen.max() >= model.K:
        raise InputError(
            f"model {model.name!r}: candidates must be two or more labels from 0 to {model.K - 1}"
        )
    ordered = np.sort(chosen, axis=1)
    double = np.flatnonzero((ordered[:, 1:] == ordered[:, :-1]).any(axis=1))
    if len(double):
        raise InputError(
            f"model {model.name!r}: row {double[0]} of candidates contains a label twice; the "
            "candidates of an input must be different labels"
        )
    return chosen.astype(np.intp)
