"""AnnData's .h5ad files: X, layers and obsm are views, the columns of obs are ids and labels.

Only h5py is needed to read them. A view is `file.h5ad::obsm/X_pca`, `::X` or `::layers/counts`. A
column is `obs/donor`, or just `donor`; `obs_names` are the names of the rows.
https://anndata.readthedocs.io/en/latest/fileformat-prose.html
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identikit.errors import InputError
from identikit.sources._anndata import NAMES
from identikit.sources._bands import BandedRows
from identikit.sources._hdf5 import check_complete, dense_rows, explained_hdf5, open_file, resolve
from identikit.sources._hdf5 import text_or_numbers as read_as
from identikit.sources._sparse import SparseRows
from identikit.sources._vectors import vector_ids
from identikit.sources.checks import choose
from identikit.sources.files import file_label
from identikit.sources.registry import register, register_ids

_MATRICES = ("layers", "obsm")


@register(".h5ad")
def open_h5ad(path: Path, member: str | None, name: str) -> BandedRows | SparseRows:
    """Open a matrix of an .h5ad file, dense or sparse."""
    label = file_label(name, path)
    with ExitStack() as stack, explained_hdf5(label):
        file = open_file(path, label, stack)
        found = None if member is None else resolve(file, member, label)
        if found is None:
            names = ["X"] if resolve(file, "X", label) is not None else []
            for group in _MATRICES:
                names += [f"{group}/{each}" for each in resolve(file, group, label) or ()]
            found = resolve(file, choose(names, member, label), label)
        if hasattr(found, "shape"):
            return dense_rows(found, name, label, stack)
        return _sparse(file, found, name, label, stack)


@register_ids(".h5ad")
def read_h5ad_ids(path: Path, column: str, label: str) -> Iterator[NDArray[Any]]:
    """Yield the values of a column of obs, or the names of the rows."""
    with ExitStack() as stack, explained_hdf5(label):
        file = open_file(path, label, stack)
        obs = resolve(file, "obs", label)
        if not hasattr(obs, "keys"):
            raise InputError(f"{label} has no table 'obs'; expected a file written by AnnData")
        short = column.removeprefix("obs/")
        if short == NAMES:
            short = str(obs.attrs.get("_index", "_index"))
        found = resolve(file, f"obs/{short}", label)
        if found is None:
            choose([NAMES, *obs.keys()], short, label)
        if not hasattr(found, "keys"):
            yield from _values(found, label)
        elif resolve(file, f"{found.name}/codes", label) is not None:
            yield from _categories(file, found, label)
        else:
            yield from _unmasked(file, found, label)


def _sparse(file: Any, group: Any, name: str, label: str, stack: ExitStack) -> SparseRows:
    kind = str(group.attrs.get("encoding-type", "")) if hasattr(group, "attrs") else ""
    if kind != "csr_matrix":
        what = f"is stored as {kind!r}" if kind else "is not a matrix"
        hint = ": store it by rows, adata.X = adata.X.tocsr()" if kind == "csc_matrix" else ""
        raise InputError(f"{label}: this part of the file {what}; expected a matrix{hint}")
    data, indices, indptr = (
        _part(file, group, key, label) for key in ("data", "indices", "indptr")
    )
    shape = tuple(int(size) for size in group.attrs["shape"])
    return SparseRows(data, indices, indptr, shape, name, label, stack)


def _part(file: Any, group: Any, key: str, label: str) -> Any:
    """A dataset of a group, which must exist and be complete."""
    dataset = resolve(file, f"{group.name}/{key}", label)
    if not hasattr(dataset, "shape"):
        raise InputError(f"{label} is damaged: its group {group.name!r} has no {key!r}")
    check_complete(dataset, label)
    return dataset


def _values(dataset: Any, label: str) -> Iterator[NDArray[Any]]:
    check_complete(dataset, label)
    yield from vector_ids(read_as(dataset), label)


def _categories(file: Any, group: Any, label: str) -> Iterator[NDArray[Any]]:
    """Yield the values of a categorical column, stored as codes and their categories."""
    names = list(_values(_part(file, group, "categories", label), label))
    known, row = np.concatenate(names) if names else np.empty(0, dtype=str), 0
    for codes in _values(_part(file, group, "codes", label), label):
        wrong = (codes < 0) | (codes >= len(known))
        if wrong.any():
            raise InputError(
                f"{label}: row {row + int(wrong.argmax())} (counting from 0) has no value in "
                f"{group.name!r}; every row needs one"
            )
        yield known[codes]
        row += len(codes)


def _unmasked(file: Any, group: Any, label: str) -> Iterator[NDArray[Any]]:
    """Yield the values of a column with a mask of missing values; a missing value is an error."""
    values, mask = (_part(file, group, key, label) for key in ("values", "mask"))
    if mask.shape != values.shape or bool(np.asarray(mask[...]).any()):
        raise InputError(f"{label}: {group.name!r} has missing values; every row needs one")
    yield from _values(values, label)
