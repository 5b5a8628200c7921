"""What is known of the rows beside the view: labels, tags, and the other columns of its table."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from identikit.errors import InputError
from identikit.sources._choice import choose_fields
from identikit.sources._ids import (
    check_alike,
    column_of,
    in_memory,
    line_ids,
    read_ids,
    without_columns,
)
from identikit.sources._shards import shards_of
from identikit.sources.array import as_array
from identikit.sources.files import file_label, open_binary, split_member
from identikit.sources.registry import FOLDER, id_readers, kind_of, tables
from identikit.sources.whole import read_array

if TYPE_CHECKING:
    import pandas as pd

Tags = NDArray[np.object_]

#: Separates the values of several columns.
BETWEEN = ", "

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
        labels = _from_file(path, member, label)
    else:
        label, labels = what, in_memory(path_or_array, what)
    if labels.ndim != 1:
        raise InputError(f"{label} has shape {labels.shape}; expected 1-D, one label per row")
    if labels.dtype.kind in "OT":  # T: NumPy's strings of variable length
        check_alike(labels, label, (int, float, np.integer, np.floating, np.bool_))
        labels = np.array(labels.tolist())
    kind = labels.dtype.kind
    if kind not in "iuUbf":
        raise InputError(f"{label} has dtype {labels.dtype}; expected integers or strings")
    if kind == "f":
        _check_whole(labels, label)
    return labels.astype(np.int64) if kind in "bf" else labels


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


def _check_whole(labels: NDArray[Any], label: str) -> None:
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


def view_and_tags(view: Any, given: dict[str, Any]) -> tuple[object, dict[str, Tags]]:
    """Separate a view from the columns that hold tags of its rows, such as batches and units.

    A missing value becomes an empty text.

    Parameters
    ----------
    view : path, data frame, array or AnnData
        A view that `open_source` accepts.
    given : dict
        For each purpose, such as "batch", the name of a column, several names separated by commas,
        or one value per row.

    Returns
    -------
    view : object
        The view without these columns.
    tags : dict
        For each purpose, one text per row.
    """
    named = {what: tags.split(",") for what, tags in given.items() if isinstance(tags, str)}
    columns = list(dict.fromkeys(name for names in named.values() for name in names))
    found = {
        what: _texts(as_array(tags, what)) for what, tags in given.items() if what not in named
    }
    if columns:
        without = without_columns(view, columns)
        series = _columns(view, without, columns)
        view = without
        for what, names in named.items():
            parts = [_texts(series[name]) for name in names]
            several = [BETWEEN.join(row) if all(row) else "" for row in zip(*parts)]
            found[what] = np.array(several, dtype=object)
    return view, found


def _columns(view: Any, without: Any, columns: list[str]) -> dict[str, Any]:
    """Read columns of the table of a view; `without` is the view without them."""
    labels = {name: f"column {name!r}" for name in columns}
    if not isinstance(view, str | os.PathLike):
        return {name: column_of(view, name, label) for name, label in labels.items()}
    import pandas as pd

    beside = columns_beside(without)
    if beside is None:
        path = split_member(view)[0]
        blocks = {name: read_ids(path, name, f"{labels[name]} ({view})") for name in columns}
        return {name: np.concatenate(list(each)) for name, each in blocks.items()}
    frame = pd.concat([frame[columns] for frame in beside.frames()], ignore_index=True)
    return {name: frame[name] for name in columns}


def _texts(values: Any) -> Tags:
    import pandas as pd

    series: pd.Series[Any] = pd.Series(values).astype(object)
    missing = series.isna()
    texts = series.map(str).str.strip()
    return np.asarray(texts.where(~missing, ""), dtype=object)


@dataclass(frozen=True)
class Beside:
    """The columns of a table that do not belong to the view.

    `lists` names the column of lists that is the view; it is None if there is one column per
    dimension. `frames()` yields these columns as data frames of consecutive rows; from a text file,
    as text.
    """

    names: list[str]
    lists: str | None
    frames: Callable[[], Iterator[pd.DataFrame]]


def columns_beside(view: str | os.PathLike[str]) -> Beside | None:
    """The columns of a table that do not belong to the view; None if the view is not in a table."""
    path, member = split_member(view)
    label = file_label(path.stem, path)
    files = shards_of(path, label) if kind_of(path) == FOLDER else [path]
    parts: list[Beside] = []
    for file in files:
        opener = tables().get(kind_of(file))
        if opener is None:
            return None
        with closing(opener(file, label)) as table:
            fields, index = table.fields, table.index
        chosen = choose_fields(fields, member, label, index)
        names = [name for name in fields if name not in (*chosen, *index)]
        lists = chosen[0] if fields[chosen[0]].lists else None
        parts.append(Beside(names, lists, partial(table.frames, names)))
    first = parts[0]
    return Beside(
        first.names,
        first.lists,
        lambda: (frame[first.names] for part in parts for frame in part.frames()),
    )
