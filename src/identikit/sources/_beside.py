"""What a table holds beside a view: the columns that are not its dimensions, in blocks of rows."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from identikit.sources._arrow import arrow_batches
from identikit.sources._choice import choose_fields
from identikit.sources._columns import choose_columns
from identikit.sources._csv import read_structure
from identikit.sources._jsonl import JsonLines
from identikit.sources._open import split_member
from identikit.sources._parquet import parquet_batches
from identikit.sources._registry import FOLDER, kind_of
from identikit.sources._rows import file_label
from identikit.sources._shards import shards_of

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Beside:
    """The columns of a table that are not its view.

    Parameters
    ----------
    names : list of str
        What they are called.
    lists : str or None
        The name of the column of lists that is the view; None for one column a dimension.
    frames : callable
        Gives them as data frames of consecutive rows. Those of a text file are text.
    """

    names: list[str]
    lists: str | None
    frames: Callable[[], Iterator[pd.DataFrame]]


def columns_beside(view: str | os.PathLike[str]) -> Beside | None:
    """The columns beside a view; None for what is no table.

    Parameters
    ----------
    view : path
        As `open_source` takes it.
    """
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
    kind = kind_of(path).removesuffix(".gz")
    if kind in (".csv", ".tsv"):
        return _of_csv(path, member, label)
    if kind in (".jsonl", ".ndjson"):
        return _of_json(path, member, label)
    if kind in (".parquet", ".pq"):
        return _of_arrow(parquet_batches, path, member, label)
    if kind in (".arrow", ".feather", ".ipc"):
        return _of_arrow(arrow_batches, path, member, label)
    return None


def _of_csv(path: Path, member: str | None, label: str) -> Beside:
    table = read_structure(path, label)
    chosen = choose_fields(table.fields, member, label, [""])
    places = [k for k, name in enumerate(table.names) if name and name not in chosen]
    names = [table.names[place] for place in places]

    def frames() -> Iterator[pd.DataFrame]:
        for data in table.lines.read(table.spans):
            frame = table.parsed(data, places, dtype=str, keep_default_na=False)
            yield frame.set_axis(names, axis=1)

    return Beside(names, None, frames)


def _of_json(path: Path, member: str | None, label: str) -> Beside:
    import pandas as pd

    table = JsonLines(path, label)
    chosen = choose_fields(table.fields, member, label)
    names = [name for name in table.fields if name not in chosen]

    def frames() -> Iterator[pd.DataFrame]:
        for _, objects in table.objects(0):
            rows = [[_text(each.get(name)) for name in names] for each in objects]
            yield pd.DataFrame(rows, columns=names, dtype=str)

    return Beside(names, chosen[0] if table.fields[chosen[0]].lists else None, frames)


def _text(value: object) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value)


def _of_arrow(
    open_batches: Callable[..., tuple[Any, Iterator[Any]]],
    path: Path,
    member: str | None,
    label: str,
) -> Beside:
    with ExitStack() as stack:
        schema, _ = open_batches(path, None, label, stack)
    columns = choose_columns(schema, member, label)
    names = [name for name in schema.names if name not in columns.names]

    def frames() -> Iterator[pd.DataFrame]:
        import pandas as pd

        with ExitStack() as stack:
            _, batches = open_batches(path, names, label, stack)
            for batch in batches:
                # Arrow's own types, so that nothing becomes a float because a value is missing.
                yield batch.to_pandas(types_mapper=partial(pd.ArrowDtype))

    return Beside(names, columns.names[0] if columns.lists else None, frames)
