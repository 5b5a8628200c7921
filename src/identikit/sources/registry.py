"""Which function opens which kind of file: every private module beside this one may add some."""

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

#: The kind of a folder of shards, which any suffix may have.
FOLDER = "/"
#: What lies at the top of a Zarr store, of version 3 or 2.
_ZARR = ("zarr.json", ".zgroup", ".zarray")

_openers: dict[str, Opener] = {}
_id_readers: dict[str, IdReader] = {}
_frame_readers: dict[str, FrameReader] = {}
_tables: dict[str, TableOpener] = {}


@dataclass(frozen=True)
class Table:
    """The columns of a table, for those that stand beside a view.

    Parameters
    ----------
    fields : dict of str to Field
        What they hold, by name.
    frames : callable
        Gives those with these names, in the table's order, as data frames of consecutive rows.
        Those of a text file are text.
    index : collection
        Names of columns that are the index of the frame that the table was.
    """

    fields: dict[str, Field]
    frames: Callable[[list[str]], Iterator[pd.DataFrame]]
    index: Collection[object] = ()


def register(*suffixes: str) -> Callable[[Opener], Opener]:
    """Make the decorated function open files with these suffixes, in lower case, with their dots.

    It is called with the path, the name of the array inside (or None) and the view's name.
    """
    return partial(_keep, _openers, suffixes)


def register_ids(*suffixes: str) -> Callable[[IdReader], IdReader]:
    """Make the decorated function read the ids of rows from files with these suffixes.

    It is called with the path, the name of the column or array that holds them, and what errors
    call it. It yields 1-D arrays of integers or strings (dtype kind i, u or U; b for labels
    that are true or false), those of consecutive rows from the first to the last.
    """
    return partial(_keep, _id_readers, suffixes)


def register_frame(*suffixes: str) -> Callable[[FrameReader], FrameReader]:
    """Make the decorated function read whole tables from files with these suffixes.

    It is called with the path and what errors call it, and returns a pandas DataFrame. Only
    tables have one, whose columns are chosen by names and patterns.
    """
    return partial(_keep, _frame_readers, suffixes)


def register_table(*suffixes: str) -> Callable[[TableOpener], TableOpener]:
    """Make the decorated function tell the columns of tables in files with these suffixes.

    It is called with the path and what errors call it. What stands beside a view is read so.
    """
    return partial(_keep, _tables, suffixes)


def _keep(where: dict[str, F], suffixes: Sequence[str], function: F) -> F:
    where.update(dict.fromkeys(suffixes, function))
    return function


def kind_of(path: Path) -> str:
    """What a path is filed under: its suffix in lower case; `.zarr` or `FOLDER` for a folder."""
    suffix = path.suffix.lower()
    if suffix == ".gz":
        suffix = "".join(path.suffixes[-2:]).lower()
    # Not Path.is_dir, which raises for a path that is too long.
    if not os.path.isdir(path):  # noqa: PTH112
        return suffix
    store = suffix == ".zarr" or any(os.path.isfile(path / name) for name in _ZARR)  # noqa: PTH113
    return ".zarr" if store else FOLDER


def openers() -> dict[str, Opener]:
    """All openers by kind; a new format is a new file in this folder and nothing else."""
    _load()
    return dict(sorted(_openers.items()))


def id_readers() -> dict[str, IdReader]:
    """All readers of ids by kind."""
    _load()
    return dict(sorted(_id_readers.items()))


def frame_readers() -> dict[str, FrameReader]:
    """All readers of whole tables by kind."""
    _load()
    return dict(sorted(_frame_readers.items()))


def tables() -> dict[str, TableOpener]:
    """All that tell the columns of tables by kind."""
    _load()
    return dict(sorted(_tables.items()))


@cache
def _load() -> None:
    modules("identikit.sources")
