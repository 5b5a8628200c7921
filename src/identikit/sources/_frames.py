"""Data frames and AnnData that carry the ids of their rows: their index, or obs_names."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identikit.errors import InputError
from identikit.sources._anndata import is_anndata


def index_ids(views: Sequence[object], share: float) -> list[NDArray[np.int64]] | None:
    """Ids of the rows of data frames, equal where the labels of their indexes are.

    None where rows go by position: if a view is no data frame, has the default index (the row's
    number, which is no id) or a label twice, if no label is in all of them, or if all have the same
    labels in the same order.

    Parameters
    ----------
    views : sequence
        What was given.
    share : float
        The least share of the shortest frame's labels that must be in all; otherwise neither the
        labels nor the positions can be trusted, which is an error.
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
    first = indexes[0]
    if all(first.equals(index) for index in indexes[1:]):
        return None
    ids, everywhere = [np.arange(len(first))], np.ones(len(first), dtype=bool)
    taken = len(first)
    for index in indexes[1:]:
        # Through pandas and not through the labels themselves: those may be dates or tuples.
        found = np.asarray(first.get_indexer(index), dtype=np.int64)
        alone = found < 0
        found[alone] = taken + np.arange(np.count_nonzero(alone))
        taken += int(np.count_nonzero(alone))
        everywhere &= np.isin(ids[0], found)
        ids.append(found)
    matched, least = int(np.count_nonzero(everywhere)), min(len(index) for index in indexes)
    if matched == 0:
        return None
    if matched < share * least:
        raise InputError(
            f"the indexes of the data frames share only {matched} labels of {least} "
            f"({', '.join(repr(label) for label in first[everywhere][:3].tolist())} among them), "
            "too few to pair rows by and too many to be other ids: give the ids (ids=), or number "
            "the rows anew with reset_index(drop=True) to pair them by position"
        )
    return ids


def _is_default(index: Any, pandas: Any) -> bool:
    ranges = isinstance(index, pandas.RangeIndex)
    return ranges and index.start == 0 and index.step == 1
