"""Sparse matrices stored by rows: SciPy's, those in files that SciPy saved, and in .h5ad files.

Rows are made dense while they are read, one block at a time.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identikit.errors import InputError
from identikit.sources._source import RowSource
from identikit.sources._stored import StoredVector, Vector
from identikit.sources.checks import check_matrix, numeric_eps

#: The names that `scipy.sparse.save_npz` gives its arrays.
SAVED = frozenset(("data", "indices", "indptr", "shape", "format"))


class SparseRows(RowSource):
    """A source of the rows of a matrix in the compressed sparse row (CSR) format.

    Row i has the values ``data[indptr[i]:indptr[i+1]]`` in the columns
    ``indices[indptr[i]:indptr[i+1]]``.
    """

    def __init__(
        self,
        data: Vector,
        indices: Vector,
        indptr: Vector,
        shape: tuple[int, ...],
        name: str,
        label: str,
        resources: ExitStack | None = None,
    ) -> None:
        eps, (rows, _) = numeric_eps(data.dtype, label), check_matrix(shape, label)
        whole = all(np.dtype(each.dtype).kind in "iu" for each in (indices, indptr))
        lengths = data.shape, indices.shape, indptr.shape
        if not whole or lengths[0] != lengths[1] or lengths[2] != (rows + 1,):
            raise InputError(
                f"{label} is damaged: the parts of a sparse matrix of shape {shape} have shapes "
                f"{lengths[0]}, {lengths[1]} and {lengths[2]}"
            )
        super().__init__(name, label, shape, eps, resources=resources)
        self._data, self._indices, self._indptr = data, indices, indptr

    def read(self, start: int, stop: int) -> NDArray[Any]:
        from scipy.sparse import csr_array

        start, stop, _ = slice(start, stop).indices(self.rows)
        stop = max(start, stop)
        ends = np.asarray(self._indptr[start : stop + 1]).astype(np.int64)
        first, after = int(ends[0]), int(ends[-1])
        if first < 0 or after > self._data.shape[0] or (np.diff(ends) < 0).any():
            raise InputError(f"{self._label} is damaged: indptr is wrong in rows {start} to {stop}")
        columns = np.asarray(self._indices[first:after]).astype(np.int64)
        if len(columns) and not 0 <= columns.min() <= columns.max() < self.width:
            raise InputError(
                f"{self._label} is damaged: rows {start} to {stop} have entries outside of its "
                f"{self.width} columns"
            )
        values = np.asarray(self._data[first:after])
        shape = (stop - start, self.width)
        if values.dtype == np.float16:  # which SciPy does not support
            dense = csr_array((values.astype(np.float32), columns, ends - first), shape=shape)
            return dense.toarray().astype(np.float16)
        block: NDArray[Any] = csr_array((values, columns, ends - first), shape=shape).toarray()
        return block


def open_saved(
    parts: dict[str, StoredVector], name: str, label: str, stack: ExitStack
) -> SparseRows:
    """Open a matrix that `scipy.sparse.save_npz` wrote, given the arrays named in `SAVED`."""
    shape = parts["shape"]
    if len(shape.shape) != 1 or shape.shape[0] > 2 or np.dtype(shape.dtype).kind not in "iu":
        raise InputError(f"{label} is damaged: it does not hold the shape of a matrix")
    sizes = tuple(int(size) for size in shape[0 : shape.shape[0]])
    data, indices, indptr = (parts[key] for key in ("data", "indices", "indptr"))
    return SparseRows(data, indices, indptr, sizes, name, label, stack)


def is_sparse(view: object) -> bool:
    """Whether this is a SciPy sparse matrix or array; SciPy is not imported to find out."""
    scipy = sys.modules.get("scipy.sparse")
    return scipy is not None and bool(scipy.issparse(view))


def open_matrix(matrix: Any, name: str) -> SparseRows:
    label = f"view {name!r}"
    check_matrix(matrix.shape, label)
    rows = matrix.tocsr()
    source = SparseRows(rows.data, rows.indices, rows.indptr, rows.shape, name, label)
    source.origin = rows
    return source
