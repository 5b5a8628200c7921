"""Ids in columns beside the rows: one column for all views, one a view, or several together.

`doc_id` is a column of that name in every view; `doc_id:docId` one name a view, in their order;
`plate,well` two columns that together are the id. Both may be combined: `plate,well:Plate,Well`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from identikit.errors import InputError
from identikit.sources._anndata import is_anndata, obs_columns
from identikit.sources._choice import NOT, is_pattern
from identikit.sources._ids import BETWEEN, Block, Ids, cut, plain_ids, read_ids
from identikit.sources._open import split_member
from identikit.sources.checks import choose
from identikit.sources.registry import FOLDER, frame_readers, kind_of


def named_columns(text: str, views: int) -> list[tuple[str, ...]]:
    """The columns of each view that are its id.

    >>> named_columns("plate,well:Plate,Well", 2)
    [('plate', 'well'), ('Plate', 'Well')]

    Parameters
    ----------
    text : str
        As at the top of this file.
    views : int
        How many views there are.
    """
    each = [tuple(name.strip() for name in names.split(",")) for names in text.split(":")]
    if any("" in names for names in each) or len({len(names) for names in each}) > 1:
        raise InputError(
            f"the id is {text!r}; expected a column, columns with commas between them "
            "(plate,well), or as many for every view, with colons between the views (doc_id:docId)"
        )
    if len(each) not in (1, views):
        raise InputError(
            f"the id {text!r} names columns of {len(each)} views, and there are {views}; name them "
            "once for all views, or once a view"
        )
    return each * views if len(each) == 1 else each


def without_columns(view: Any, columns: Sequence[str]) -> object:
    """A data frame or a file of a table without the columns of ids."""
    if isinstance(view, str | os.PathLike):
        path, member = split_member(view)
        inside = path.iterdir() if path.is_dir() and kind_of(path) == FOLDER else [path]
        if not any(kind_of(each) in frame_readers() for each in inside):
            return view
        if member is not None and not is_pattern(member):
            return view
        out = [*([member] if member else []), *(f"{NOT}{column}" for column in columns)]
        return f"{path}::{','.join(out)}"
    if is_anndata(view) or not _names(view):
        return view
    for column in columns:
        choose(_names(view), column, f"the {type(view).__name__}")
    out = list(columns)
    return view.drop(columns=out) if hasattr(view, "iloc") else view.drop(out)


def column_ids(view: Any, columns: Sequence[str], name: str) -> Ids:
    """The ids in one or several columns beside the rows of a view.

    Parameters
    ----------
    view : path, data frame, table or AnnData
        The view, with these columns.
    columns : sequence of str
        What holds the ids.
    name : str
        What the view is called.
    """
    label = f"ids {','.join(columns)!r} of view {name!r}"
    if isinstance(view, str | os.PathLike):
        label = f"{label} ({split_member(view)[0]})"
    parts = [_blocks(view, column, label) for column in columns]
    return Ids(label, parts[0] if len(parts) == 1 else partial(_together, parts, label))


def _blocks(view: Any, column: str, label: str) -> Callable[[], Iterator[Block]]:
    if isinstance(view, str | os.PathLike):
        return partial(read_ids, view, column, label)
    if not _names(view):
        raise InputError(
            f"{label}: a {type(view).__name__} in memory has no named columns; give the ids apart "
            "from the rows, one array a view: ids=[ids_a, ids_b]"
        )
    choose(_names(view), column, label)
    values = obs_columns(view)[column] if is_anndata(view) else view[column]
    return partial(cut, np.asarray(values))


def _names(view: Any) -> list[str]:
    """Names of the columns of a data frame, a table of pyarrow, or of what AnnData says of rows."""
    if is_anndata(view):
        return list(obs_columns(view))
    names = getattr(view, "column_names", getattr(view, "columns", ()))
    return [name for name in names if isinstance(name, str)] if hasattr(view, "drop") else []


def _together(parts: Sequence[Callable[[], Iterator[Block]]], label: str) -> Iterator[Block]:
    """The parts of every id in one text; blocks of the columns need not be of one length."""
    streams = [part() for part in parts]
    held = [np.empty(0, dtype=object) for _ in parts]
    row = 0
    while True:
        for k, stream in enumerate(streams):
            while not len(held[k]) and (block := next(stream, None)) is not None:
                held[k] = plain_ids(block, label, row)
        count = min(map(len, held))
        if not count:
            break
        texts = (map(str, block[:count].tolist()) for block in held)
        yield np.array([BETWEEN.join(parts) for parts in zip(*texts)], dtype=object)
        held = [block[count:] for block in held]
        row += count
    if any(map(len, held)):
        raise InputError(f"{label}: the columns are of different lengths; expected one value a row")
