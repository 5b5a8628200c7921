"""Which function opens which kind of file: every private module beside this one may add some."""

from __future__ import annotations

import os
import pkgutil
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from identikit.sources._source import Source

Opener = Callable[[Path, str | None, str], Source]
IdReader = Callable[[Path, str, str], Iterator[NDArray[Any]]]

#: The kind of a folder of shards, which any suffix may have.
FOLDER = "/"
#: What lies at the top of a Zarr store, of version 3 or 2.
_ZARR = ("zarr.json", ".zgroup", ".zarray")

_openers: dict[str, Opener] = {}
_id_readers: dict[str, IdReader] = {}


def register(suffix: str) -> Callable[[Opener], Opener]:
    """Make the decorated function open files with this suffix.

    It is called with the path, the name of the array inside (or None) and the view's name.

    Parameters
    ----------
    suffix : str
        In lower case, with its dot.
    """

    def keep(opener: Opener) -> Opener:
        _openers[suffix] = opener
        return opener

    return keep


def register_ids(suffix: str) -> Callable[[IdReader], IdReader]:
    """Make the decorated function read the ids of rows from files with this suffix.

    It is called with the path, the name of the column or array that holds them, and what errors
    shall call it. It yields 1-D arrays of integers or strings (dtype kind i, u or U; b for labels
    that are true or false), those of consecutive rows from the first to the last.

    Parameters
    ----------
    suffix : str
        In lower case, with its dot.
    """

    def keep(reader: IdReader) -> IdReader:
        _id_readers[suffix] = reader
        return reader

    return keep


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


@cache
def _load() -> None:
    package = "identikit.sources"
    for module in pkgutil.iter_modules(import_module(package).__path__):
        if module.name.startswith("_"):
            import_module(f"{package}.{module.name}")
