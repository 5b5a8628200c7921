"""Which function opens which kind of file; the private modules in this folder register them."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from numpy.typing import NDArray

from identikit._plugins import modules
from identikit.sources._choice import Field
from identikit.sources._source import Source

if TYPE_CHECKING:
    import pandas as pd

Opener = Callable[[Path, str | None, str], Source]
IdReader = Callable[[Path, str, str], Iterator[NDArray[Any]]]
FrameReader = Callable[[Path, str], "pd.DataFrame"]
TableOpener = Callable[[Path, str], "Table"]
F = TypeVar("F")

#: The kind of a folder of shards, whose name may have any suffix.
FOLDER = "/"
#: Files at the top of a Zarr store, of version 3 or 2, at least one of which exists.
_ZARR = ("zarr.json", ".zgroup", ".zarray")

_openers: dict[str, Opener] = {}
_id_readers: dict[str, IdReader] = {}
_frame_readers: dict[str, FrameReader] = {}
_tables: dict[str, TableOpener] = {}


@dataclass(frozen=True)
class Table:
    """The columns of a table, from which those that do not belong to the view are read.

    `frames(names)` yields these columns, named in the table's order, as data frames of consecutive
    rows; from a text file, as text. `index` names the columns that were the index of a data frame.
    """

    fields: dict[str, Field]
    frames: Callable[[list[str]], Iterator[pd.DataFrame]]
    index: Collection[object] = ()


def register(*suffixes: str) -> Callable[[Opener], Opener]:
    """Make the decorated function open files with these suffixes, in lower case, with their dots.

    It is called with the path, the name of the array inside (or None) and the view's name.
    """
    return partial(_add, _openers, suffixes)


def register_ids(*suffixes: str) -> Callable[[IdReader], IdReader]:
    """Make the decorated function read the ids of rows from files with these suffixes.

    It is called with the path, the name of the column or array that holds them, and what error
    messages call it. It yields 1-D arrays of integers or strings (dtype kind i, u or U; b for
    labels that are true or false), for consecutive rows from the first to the last.
    """
    return partial(_add, _id_readers, suffixes)


def register_frame(*suffixes: str) -> Callable[[FrameReader], FrameReader]:
    """Make the decorated function read whole tables from files with these suffixes.

    It is called with the path and what error messages call it, and returns a pandas DataFrame.
    Only tables have such a reader: formats whose columns are chosen by names and patterns.
    """
    return partial(_add, _frame_readers, suffixes)


def register_table(*suffixes: str) -> Callable[[TableOpener], TableOpener]:
    """Make the decorated function describe the tables in files with these suffixes.

    It is called with the path and what error messages call it. The columns that do not belong to a
    view are read through its result.
    """
    return partial(_add, _tables, suffixes)


def _add(where: dict[str, F], suffixes: Sequence[str], function: F) -> F:
    where.update(dict.fromkeys(suffixes, function))
    return function


def kind_of(path: Path) -> str:
    """The kind of a path: its suffix in lower case, or `.zarr` or `FOLDER` for a folder."""
    suffix = path.suffix.lower()
    if suffix == ".gz":
        suffix = "".join(path.suffixes[-2:]).lower()
    # Not Path.is_dir, which raises for a path that is too long.
    if not os.path.isdir(path):  # noqa: PTH112
        return suffix
    store = suffix == ".zarr" or any(os.path.isfile(path / name) for name in _ZARR)  # noqa: PTH113
    return ".zarr" if store else FOLDER


def openers() -> dict[str, Opener]:
    """All openers by kind; to add a format, add a file to this folder."""
    _load()
    return dict(sorted(_openers.items()))


def id_readers() -> dict[str, IdReader]:
    """All id readers by kind."""
    _load()
    return dict(sorted(_id_readers.items()))


def frame_readers() -> dict[str, FrameReader]:
    """All readers of whole tables by kind."""
    _load()
    return dict(sorted(_frame_readers.items()))


def tables() -> dict[str, TableOpener]:
    """All functions that describe tables, by kind."""
    _load()
    return dict(sorted(_tables.items()))


@cache
def _load() -> None:
    modules("identikit.sources")
