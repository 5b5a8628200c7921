"""Sparse matrices, kept by rows: of SciPy, in files that SciPy saved, and in .h5ad files.

Rows become dense as they are read, a block at a time.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identikit.errors import InputError
from identikit.sources._source import RowSource
from identikit.sources._vectors import StoredVector, Vector
from identikit.sources.checks import check_matrix, numeric_eps

#: What `scipy.sparse.save_npz` calls its arrays.
SAVED = frozenset(("data", "indices", "indptr", "shape", "format"))


class SparseRows(RowSource):
    """A source of the rows of a matrix in compressed sparse rows.

    Row i has ``data[indptr[i]:indptr[i+1]]`` in the columns ``indices[indptr[i]:indptr[i+1]]``.

    Parameters
    ----------
    data, indices, indptr : Vector
        As SciPy calls them.
    shape : tuple of int
        Rows and columns.
    name, label : str
        What reports call the view, and what errors call it.
    resources : ExitStack, optional
        What `close` closes; taken over from the opener if all is well.
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
        """Rows `start` to `stop`, dense."""
        from scipy.sparse import csr_array

        start, stop, _ = slice(start, stop).indices(self.rows)
        stop = max(start, stop)
        ends = np.asarray(self._indptr[start : stop + 1]).astype(np.int64)
        first, after = int(ends[0]), int(ends[-1])
        if first < 0 or after > self._data.shape[0] or (np.diff(ends) < 0).any():
            raise InputError(f"{self._label} is damaged: rows {start} to {stop} have no ends")
        columns = np.asarray(self._indices[first:after]).astype(np.int64)
        if len(columns) and not 0 <= columns.min() <= columns.max() < self.width:
            raise InputError(
                f"{self._label} is damaged: rows {start} to {stop} have entries outside of its "
                f"{self.width} columns"
            )
        values = np.asarray(self._data[first:after])
        shape = (stop - start, self.width)
        if values.dtype == np.float16:  # which SciPy does not take
            dense = csr_array((values.astype(np.float32), columns, ends - first), shape=shape)
            return dense.toarray().astype(np.float16)
        block: NDArray[Any] = csr_array((values, columns, ends - first), shape=shape).toarray()
        return block


def open_saved(
    parts: dict[str, StoredVector], name: str, label: str, stack: ExitStack
) -> SparseRows:
    """A matrix that `scipy.sparse.save_npz` wrote.

    Parameters
    ----------
    parts : dict of str to StoredVector
        The arrays named in `SAVED`.
    name, label : str
        What reports call the view, and what errors call it.
    stack : ExitStack
        What has to be closed.
    """
    shape = parts["shape"]
    if len(shape.shape) != 1 or shape.shape[0] > 2 or np.dtype(shape.dtype).kind not in "iu":
        raise InputError(f"{label} is damaged: it says no shape of a matrix")
    sizes = tuple(int(size) for size in shape[0 : shape.shape[0]])
    data, indices, indptr = (parts[key] for key in ("data", "indices", "indptr"))
    return SparseRows(data, indices, indptr, sizes, name, label, stack)


def is_sparse(view: object) -> bool:
    """Whether this is a sparse matrix or array of SciPy, without importing it."""
    scipy = sys.modules.get("scipy.sparse")
    return scipy is not None and bool(scipy.issparse(view))


def open_matrix(matrix: Any, name: str) -> SparseRows:
    """Open a sparse matrix of SciPy, of any kind.

    Parameters
    ----------
    matrix : sparse matrix or array
        Of two dimensions.
    name : str
        What reports call the view.
    """
    label = f"view {name!r}"
    check_matrix(matrix.shape, label)
    rows = matrix.tocsr()
    source = SparseRows(rows.data, rows.indices, rows.indptr, rows.shape, name, label)
    source.origin = rows
    return source
