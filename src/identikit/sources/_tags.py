"""Tags of rows as text, such as batches and units, from other columns of a table or from arrays."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from identikit.sources._beside import columns_beside
from identikit.sources._ids import column_of, read_ids, without_columns
from identikit.sources.array import as_array
from identikit.sources.files import split_member

if TYPE_CHECKING:
    import pandas as pd

Tags = NDArray[np.object_]

#: Separates the values of several columns.
BETWEEN = ", "


def view_and_tags(view: Any, given: dict[str, Any]) -> tuple[object, dict[str, Tags]]:
    """Separate a view from the columns that hold tags of its rows.

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
    if not isinstance(view, str | os.PathLike):
        return {name: column_of(view, name, f"column {name!r}") for name in columns}
    import pandas as pd

    beside = columns_beside(without)
    if beside is None:
        return {
            name: np.concatenate(
                list(read_ids(split_member(view)[0], name, f"column {name!r} ({view})"))
            )
            for name in columns
        }
    frame = pd.concat([frame[columns] for frame in beside.frames()], ignore_index=True)
    return {name: frame[name] for name in columns}


def _texts(values: Any) -> Tags:
    import pandas as pd

    series: pd.Series[Any] = pd.Series(values).astype(object)
    missing = series.isna()
    texts = series.map(str).str.strip()
    return np.asarray(texts.where(~missing, ""), dtype=object)
