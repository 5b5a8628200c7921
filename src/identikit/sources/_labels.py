"""Read labels of groups or slices: one integer or string per row."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from identikit.errors import InputError
from identikit.sources._ids import read_ids
from identikit.sources._vectors import check_alike, line_ids
from identikit.sources.array import as_array
from identikit.sources.files import open_binary, split_member
from identikit.sources.registry import FOLDER, id_readers, kind_of
from identikit.sources.whole import read_array

# Above this, float64 cannot represent every integer.
_LARGEST_WHOLE = 2.0**53


def read_labels(
    path_or_array: str | os.PathLike[str] | ArrayLike, what: str = "groups"
) -> NDArray[Any]:
    """Read labels as a 1-D array of integers or strings.

    Parameters
    ----------
    path_or_array : path or sequence
        Integers or strings in memory; or a .npy file; or a .txt file with one label per line, read
        as strings; or a column or array of any other file from which ids can be read
        (`path::name`): .npz, .csv, .parquet, .h5ad and so on.
    what : str
        What error messages call them.

    Examples
    --------
    >>> read_labels(["a", "b", "a"]).tolist()
    ['a', 'b', 'a']
    """
    if isinstance(path_or_array, str | os.PathLike):
        path, member = split_member(path_or_array)
        label = f"{what} ({path})"
        return _checked(_from_file(path, member, label), label)
    values: object = path_or_array
    if isinstance(values, list | tuple):
        # As objects, because [1, "1"] would otherwise become two equal strings.
        values = np.array(values, dtype=object)
    return _checked(as_array(values, what), what)


def _from_file(path: Path, member: str | None, label: str) -> NDArray[Any]:
    suffix = path.suffix.lower()
    open_binary(path, label).close()
    if suffix in (".npy", ".npz"):
        return read_array(path, member, label)
    if suffix == ".txt":
        if member is not None:
            raise InputError(f"{label}: a .txt file has no names; leave out '::{member}'")
        blocks = line_ids(path, label, "one label")
    else:
        known = ", ".join(kind for kind in id_readers() if kind != FOLDER)
        if kind_of(path) not in id_readers():
            raise InputError(
                f"{label} has the suffix {path.suffix!r}; expected .txt or one of {known}"
            )
        if member is None:
            raise InputError(f"{label} holds several columns; choose one with path::column")
        blocks = read_ids(path, member, label)
    found = list(blocks)
    if not found:
        raise InputError(f"{label} is empty; expected one label per row")
    return np.concatenate(found)


def _checked(labels: NDArray[Any], label: str) -> NDArray[Any]:
    if labels.ndim != 1:
        raise InputError(f"{label} has shape {labels.shape}; expected 1-D, one label per row")
    if labels.dtype.kind in "OT":  # T: NumPy's strings of variable length
        check_alike(labels, label, (int, float, np.integer, np.floating, np.bool_))
        labels = np.array(labels.tolist())
    kind = labels.dtype.kind
    if kind == "f":
        return _whole(labels, label)
    if kind == "b":
        return labels.astype(np.int64)
    if kind not in "iuU":
        raise InputError(f"{label} has dtype {labels.dtype}; expected integers or strings")
    return labels


def _whole(labels: NDArray[Any], label: str) -> NDArray[Any]:
    bad = ~np.isfinite(labels)
    if bad.any():
        raise InputError(
            f"{label}: {int(bad.sum())} labels are NaN or infinite, the first in row "
            f"{int(bad.argmax())}; give every row a label"
        )
    bad = (labels != np.floor(labels)) | (np.abs(labels) > _LARGEST_WHOLE)
    if bad.any():
        raise InputError(
            f"{label}: row {int(bad.argmax())} is {labels[bad.argmax()]}; expected integers or "
            "strings, not measurements"
        )
    return labels.astype(np.int64)
