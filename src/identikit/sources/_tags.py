"""What is said of every row in columns beside a view, or in arrays, as text: batches, units."""

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

#: Stands between the values of several columns.
BETWEEN = ", "


def view_and_tags(view: Any, given: dict[str, Any]) -> tuple[object, dict[str, Tags]]:
    """The view without the columns that tell of its rows, and what these say.

    A missing value is an empty text.

    Parameters
    ----------
    view : path, data frame, array or AnnData
        As `open_source` takes it.
    given : dict
        By what they are for: a column beside the view, several with commas between them, or a value
        a row.
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
    """Columns beside a view, given the view without them too."""
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
