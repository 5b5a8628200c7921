"""The other columns of a table: those that are not dimensions of the view, in blocks of rows."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from identikit.sources._choice import choose_fields
from identikit.sources._shards import shards_of
from identikit.sources.files import file_label, split_member
from identikit.sources.registry import FOLDER, kind_of, tables

if TYPE_CHECKING:
    import pandas as pd


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
    if kind_of(path) != FOLDER:
        return _of_file(path, member, label)
    parts = [_of_file(shard, member, label) for shard in shards_of(path, label)]
    whole = [part for part in parts if part is not None]
    if len(whole) < len(parts):
        return None
    return Beside(
        whole[0].names,
        whole[0].lists,
        lambda: (frame[whole[0].names] for part in whole for frame in part.frames()),
    )


def _of_file(path: Path, member: str | None, label: str) -> Beside | None:
    opener = tables().get(kind_of(path))
    if opener is None:
        return None
    table = opener(path, label)
    chosen = choose_fields(table.fields, member, label, table.index)
    names = [name for name in table.fields if name not in chosen]
    lists = chosen[0] if table.fields[chosen[0]].lists else None
    return Beside(names, lists, partial(table.frames, names))
