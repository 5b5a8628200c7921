"""Find the rows of several views that have the same id.

The ids of all views are in memory at once. An id takes 56 bytes if it is an integer, and 105 bytes
plus its characters if it is a string. So 1 GB is enough for 17 million integers, or for 8 million
strings of 20 characters, counting the ids of all views together.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from identikit.errors import InputError
from identikit.sources._anndata import is_anndata
from identikit.sources._ids import Ids, check_same_kind, shown
from identikit.sources._source import Source

if TYPE_CHECKING:
    import pandas as pd

Places = NDArray[np.int64]

_EXAMPLES = 3


def match_frames(views: Sequence[object], share: float) -> list[Places] | None:
    """For each data frame, the numbers of the rows whose index labels occur in every frame.

    The result is None if rows should be paired by position: if a view is not a data frame, has the
    default index (the row's number, which is not an id) or has a label twice, if no label is in all
    of them, or if all frames have the same labels in the same order. If fewer than `share` of the
    shortest frame's labels are in all, neither labels nor positions can be trusted: that is an
    error.
    """
    pandas = sys.modules.get("pandas")
    if pandas is None or not isinstance(views, list | tuple) or len(views) < 2:
        return None
    frames = [getattr(view, "obs", None) if is_anndata(view) else view for view in views]
    if not all(isinstance(frame, pandas.DataFrame) for frame in frames):
        return None
    indexes = [frame.index for frame in frames if frame is not None]
    if any(_is_default(index, pandas) or not index.is_unique for index in indexes):
        return None
    if all(indexes[0].equals(index) for index in indexes[1:]):
        return None
    places, least = _match(indexes), min(map(len, indexes))
    matched = len(places[0])
    if 0 < matched < share * least:
        raise InputError(
            f"the indexes of the data frames share only {matched} labels of {least} "
            f"({', '.join(map(repr, indexes[0][places[0][:_EXAMPLES]].tolist()))} among them), "
            "too few to pair rows by label, and too many to ignore: pass the ids (ids=), or call "
            "reset_index(drop=True) on every frame to pair rows by position"
        )
    return places if matched else None


def match_ids(
    sources: Sequence[Source], columns: Sequence[Ids], share: float, memory: int
) -> list[Places]:
    """For each view, the numbers of the rows whose ids are in all views, in the first one's order.

    An id that a view has twice is an error, and so is it if less than `share` of the smallest
    view's rows match. `memory` is how many bytes the ids may take.
    """
    indexes: list[pd.Index[Any]] = []
    for source, column in zip(sources, columns):
        index, taken = column.index(source.rows, memory)
        memory -= taken
        if not index.is_unique:
            again = int(index.duplicated().argmax())
            before = int((index == index[again]).argmax())
            raise InputError(
                f"{column.label}: rows {before} and {again} (counting from 0) both have the id "
                f"{shown(index[again])}; expected every id only once in a view"
            )
        indexes.append(index)
    check_same_kind([column.label for column in columns], indexes)
    places = _match(indexes)
    least = min(sources, key=lambda source: source.rows)
    if len(places[0]) and len(places[0]) >= share * least.rows:
        return places
    examples = []
    for source, index, rows in zip(sources, indexes, places):
        if alone := [shown(value) for value in index.delete(rows)[:_EXAMPLES].tolist()]:
            examples.append(f"{', '.join(alone)} in {source.name!r}")
    raise InputError(
        f"only {len(places[0])} of the {least.rows} rows of view {least.name!r} have an id that "
        f"every view has, and at least {share:.0%} must; rows without a partner are, for example, "
        f"{'; '.join(examples)}: check that the ids are written in the same way, or lower the "
        "share of rows that must match"
    )


def _match(indexes: Sequence[pd.Index[Any]]) -> list[Places]:
    """The numbers of the rows whose label is in every index; no index may have duplicates."""
    first = indexes[0]
    found = [np.asarray(index.get_indexer(first), dtype=np.int64) for index in indexes[1:]]
    everywhere = np.ones(len(first), dtype=bool)
    for rows in found:
        everywhere &= rows >= 0
    return [np.flatnonzero(everywhere), *(rows[everywhere] for rows in found)]


def _is_default(index: Any, pandas: Any) -> bool:
    ranges = isinstance(index, pandas.RangeIndex)
    return ranges and index.start == 0 and index.step == 1
