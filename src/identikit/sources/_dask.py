"""Dask arrays and data frames. Dask is not imported: whoever passes one has loaded it already."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identikit.errors import InputError, require
from identikit.sources._bands import BandedRows
from identikit.sources._choice import Field, is_id
from identikit.sources.array import as_array
from identikit.sources.checks import check_matrix, is_bfloat16, numeric_eps

_KINDS = (("dask.array", "Array"), ("dask.dataframe", "DataFrame"), ("dask.dataframe", "Series"))


def is_collection(view: object) -> bool:
    kinds = [getattr(sys.modules.get(module), kind, None) for module, kind in _KINDS]
    return any(kind is not None and isinstance(view, kind) for kind in kinds)


@dataclass(frozen=True, eq=False)
class DaskBlocks:
    """A Dask collection, cut into blocks of whole rows that are computed when they are read.

    This recipe is sent to workers. It holds the graph and no rows, unless the caller built the
    graph from rows in memory. `ends` has, for each block, the number of the row after its last one;
    `client` is the client of the cluster on which some of the rows already are.
    """

    blocks: tuple[Any, ...]
    ends: NDArray[np.int64]
    width: int
    dtype: np.dtype[Any]
    client: Any = None

    def within(self, start: int, stop: int) -> range:
        """The numbers of the blocks that hold rows `start` to `stop`."""
        first = int(np.searchsorted(self.ends, start, side="right"))
        return range(first, int(np.searchsorted(self.ends, stop, side="left")) + 1)

    def start_of(self, block: int) -> int:
        """The number of the first row of a block."""
        return int(self.ends[block - 1]) if block else 0

    def open_source(self, name: str) -> BandedRows:
        """Open the blocks as a view, computed in this process or on the cluster that has rows."""

        def pieces(first: int) -> Iterator[NDArray[Any]]:
            return (self._rows_of(block, name) for block in range(first, len(self.blocks)))

        label, half = f"view {name!r}", is_bfloat16(self.dtype)
        counts = np.diff(self.ends, prepend=0).tolist()
        dtype = np.dtype(np.float32) if half else self.dtype
        source = BandedRows(counts, self.width, dtype, pieces, name, label)
        source.eps, source.origin = numeric_eps(self.dtype, label), self
        return source

    def _rows_of(self, block: int, name: str) -> NDArray[Any]:
        rows = _computed(self.blocks[block], self.client or "synchronous", name)
        expected = int(self.ends[block]) - self.start_of(block), self.width
        if rows.shape != expected:
            raise InputError(
                f"view {name!r}: block {block} of the Dask collection has the shape {rows.shape}, "
                f"expected {expected}; it must be the same each time that it is computed"
            )
        return rows

    def __reduce__(self) -> tuple[Any, ...]:
        if self.client is not None:
            raise TypeError("rows that are already on a cluster cannot be sent to other processes")
        parts = self.blocks, self.ends, self.width, self.dtype
        return _unpickled, (_cloudpickle().dumps(parts),)


def _unpickled(parts: bytes) -> DaskBlocks:
    return DaskBlocks(*_cloudpickle().loads(parts))


def _cloudpickle() -> Any:
    """The pickler that comes with Dask, whose graphs may hold functions of any kind."""
    return require("cloudpickle", "dask", "sending a Dask graph")


def open_collection(collection: Any, name: str) -> BandedRows:
    """Open a Dask array or data frame; if its number of rows is unknown, it is computed.

    A data frame has one numeric column per dimension, or a single column of lists.
    """
    from dask.delayed import delayed

    label, client = f"view {name!r}", _client_of(collection)
    if hasattr(collection, "chunks"):
        check_matrix(tuple(1 if size != size else size for size in collection.shape), label)
        if collection.shape[1] != collection.shape[1]:
            raise InputError(
                f"{label} is a Dask array whose number of columns is unknown; call its "
                "compute_chunk_sizes() first"
            )
        whole = collection.rechunk({1: -1})
        blocks = whole.to_delayed(optimize_graph=client is None).ravel().tolist()
        lengths = list(whole.chunks[0])
        width, dtype = whole.shape[1], whole.dtype
    else:
        frame = collection.to_frame() if collection.ndim == 1 else collection
        kept = [c for c, kind in frame.dtypes.items() if not is_id(str(c), _whole_or_not(kind))]
        frame = frame[kept] if len(kept) < len(frame.columns) else frame
        columns = _numeric(frame.dtypes, label)
        parts = frame.to_delayed(optimize_graph=client is None)
        blocks = [delayed(_matrix)(part, columns, label) for part in parts]
        counts = frame[list(frame.columns[:1])].map_partitions(len)
        lengths = _computed(counts, client, name).tolist()
        width, dtype = len(frame.columns), columns
    if any(length != length for length in lengths):  # NaN: unknown until it is computed
        counts = delayed(list)([delayed(len)(block) for block in blocks])
        lengths = _computed(counts, client, name).tolist()
    kept = [(block, length) for block, length in zip(blocks, lengths) if length]
    if not kept:
        raise InputError(f"{label} has no rows, its shape is (0, {width}); expected at least one")
    if dtype is None:
        first = _computed(kept[0][0], client, name)
        width, dtype = first.shape[1], first.dtype
    ends = np.cumsum([length for _, length in kept], dtype=np.int64)
    found = DaskBlocks(tuple(block for block, _ in kept), ends, width, dtype, client)
    return found.open_source(name)


def _client_of(collection: Any) -> Any:
    """The client of the futures in a graph, or None; an optimised graph would lose them."""
    if "distributed" not in sys.modules:
        return None
    futures = sys.modules["distributed"].futures_of(collection)
    return futures[0].client if futures else None


def _whole_or_not(dtype: Any) -> Field:
    return Field(str(dtype), whole=getattr(dtype, "numpy_dtype", dtype).kind in "biu")


def _numeric(dtypes: Any, label: str) -> np.dtype[Any] | None:
    """The dtype that can hold every column; None for a single column that is not numeric."""
    kinds = [getattr(dtype, "numpy_dtype", dtype) for dtype in dtypes]
    if all(kind.kind in "biuf" for kind in kinds):
        return np.result_type(*kinds)
    if len(kinds) > 1:
        wrong = [str(name) for name, kind in zip(dtypes.index, kinds) if kind.kind not in "biuf"]
        raise InputError(
            f"{label} is a data frame whose column {wrong[0]!r} is not numeric; choose the "
            "columns that are its dimensions, or the one column of lists: frame[['embedding']]"
        )
    return None


def _matrix(part: Any, dtype: np.dtype[Any] | None, label: str) -> NDArray[Any]:
    if dtype is not None:
        missing = {"na_value": np.nan} if dtype.kind == "f" else {}
        rows: NDArray[Any] = part.to_numpy(dtype=dtype, **missing)
        return rows
    return as_array(part, label)


def _computed(block: Any, scheduler: Any, name: str) -> NDArray[Any]:
    try:
        rows = np.asarray(block.compute(scheduler=scheduler))
        return rows.astype(np.float32) if is_bfloat16(rows.dtype) else rows
    except InputError:
        raise
    except Exception as error:
        raise InputError(
            f"view {name!r}: its Dask graph failed: {type(error).__name__}: {error}"
        ) from error
