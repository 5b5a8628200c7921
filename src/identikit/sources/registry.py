"""Which function opens which kind of file; the private modules in this folder register them."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from numpy.typing import NDArray

from identikit._plugins import modules
from identikit.sources._choice import Field, choose_fields
from identikit.sources._source import Source
from identikit.sources.files import file_label

if TYPE_CHECKING:
    import pandas as pd

Opener = Callable[[Path, str | None, str], Source]
IdReader = Callable[[Path, str, str], Iterator[NDArray[Any]]]
FrameReader = Callable[[Path, str], "pd.DataFrame"]
F = TypeVar("F")
T = TypeVar("T", bound=Callable[[Path, str], "Table"])

#: The kind of a folder of shards, whose name may have any suffix.
FOLDER = "/"
#: Files at the top of a Zarr store, of version 3 or 2, at least one of which exists.
_ZARR = ("zarr.json", ".zgroup", ".zarray")

_openers: dict[str, Opener] = {}
_id_readers: dict[str, IdReader] = {}
_frame_readers: dict[str, FrameReader] = {}
_tables: dict[str, Callable[[Path, str], Table]] = {}


class Table(Protocol):
    """A table in a file, whose columns are chosen by names and patterns."""

    @property
    def fields(self) -> dict[str, Field]:
        """What each column holds, by name."""

    @property
    def index(self) -> Collection[object]:
        """Names of the columns that were the index of a data frame when the table was saved."""

    def rows(self, chosen: list[str], name: str) -> Source:
        """Open the view that consists of these columns."""

    def ids(self, column: str) -> Iterator[NDArray[Any]]:
        """Yield the ids in a column, as a function under `register_ids` does."""

    def frames(self, names: list[str]) -> Iterator[pd.DataFrame]:
        """Yield columns, named in the table's order, as data frames; from a text file, as text."""

    def frame(self) -> pd.DataFrame:
        """All columns, with the types that pandas gives them."""

    def close(self) -> None:
        """Close the file; only `frames` opens it again."""


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


def register_table(*suffixes: str) -> Callable[[T], T]:
    """Make the decorated class read tables; it is made from a path and what errors call it."""

    def add(table_of: T) -> T:
        def opened(path: Path, member: str | None, name: str) -> Source:
            label = file_label(name, path)
            table = table_of(path, label)
            return table.rows(choose_fields(table.fields, member, label, table.index), name)

        def ids(path: Path, column: str, label: str) -> Iterator[NDArray[Any]]:
            yield from table_of(path, label).ids(column)

        _add(_openers, suffixes, opened)
        _add(_id_readers, suffixes, ids)
        _add(_frame_readers, suffixes, lambda path, label: table_of(path, label).frame())
        return _add(_tables, suffixes, table_of)

    return add


def _add(where: dict[str, Any], suffixes: tuple[str, ...], function: F) -> F:
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


@cache
def _load() -> None:
    modules("identikit.sources")


def _known(where: dict[str, F]) -> dict[str, F]:
    _load()
    return dict(sorted(where.items()))


#: All openers, readers of ids and of whole tables, and tables, by kind of file.
openers = partial(_known, _openers)
id_readers = partial(_known, _id_readers)
frame_readers = partial(_known, _frame_readers)
tables = partial(_known, _tables)
