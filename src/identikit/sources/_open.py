"""Open a view of any kind, a path, an array, a tensor, a data frame and so on, and name it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from identikit.errors import InputError
from identikit.sources import _dask
from identikit.sources._choice import NOT
from identikit.sources._source import Source
from identikit.sources._sparse import is_sparse, open_matrix
from identikit.sources.array import ArraySource, as_array, is_anndata, matrix_of
from identikit.sources.device import DeviceSource, TensorSource, is_tensor, lives_elsewhere
from identikit.sources.files import file_label, open_binary, split_member
from identikit.sources.registry import FOLDER, kind_of, openers


def open_source(view: object, name: str | None = None, position: int = 0) -> Source:
    """Open one view.

    Parameters
    ----------
    view : array, tensor, data frame, table, nested lists or path
        What to read. A path names a file, a Zarr store or a folder of shards; `path::name`
        selects an array inside a file, or inside every shard.
    name : str, optional
        What reports call the view. The default is the stem of the file's name, followed by
        `::name` if an array was selected; in memory it is `view` and the position.
    position : int
        The position among the views, for the default name.

    Examples
    --------
    >>> source = open_source([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    >>> source.name, source.rows, source.width
    ('view0', 3, 2)
    >>> source.read(1, 3)
    array([[3., 4.],
           [5., 6.]])
    """
    if isinstance(view, str | os.PathLike):
        return _open_path(view, name, position)
    name = f"view{position}" if name is None else name
    if hasattr(view, "open_source"):
        source: Source = view.open_source(name)
        return source
    if is_anndata(view):
        view = matrix_of(view, f"view {name!r}")
    if is_sparse(view):
        return open_matrix(view, name)
    if _dask.is_collection(view):
        return _dask.open_collection(view, name)
    if lives_elsewhere(view):
        return DeviceSource(view, name)
    if is_tensor(view):
        return TensorSource(view, name)
    return ArraySource(as_array(view, f"view {name!r}"), name)


def open_sources(views: Sequence[object], names: Sequence[str] | None = None) -> list[Source]:
    """Open views whose rows correspond: row t of every view describes the same thing.

    Parameters
    ----------
    views : sequence
        Each as `open_source` takes it.
    names : sequence of str, optional
        One name per view. If names are equal, the folders of different files are added to make
        them differ; other equal names get " (2)", " (3)".

    Examples
    --------
    >>> [s.name for s in open_sources([[[1], [2]], [[3], [4]]], names=["run", "run"])]
    ['run', 'run (2)']
    """
    if isinstance(views, str | os.PathLike) or hasattr(views, "__array__"):
        raise InputError(
            f"expected a list of views, got one {type(views).__name__}; put it in a list: [view]"
        )
    views = list(views)
    if not views:
        raise InputError("expected at least one view, got none")
    if isinstance(names, str) or (names is not None and len(names) != len(views)):
        raise InputError(f"expected {len(views)} names, one per view, got {names!r}")
    given = [None] * len(views) if names is None else names
    with ExitStack() as stack:
        sources = []
        for position, (view, name) in enumerate(zip(views, given, strict=True)):
            source = open_source(view, name, position)
            stack.callback(source.close)
            sources.append(source)
        name_apart(sources, names)
        first = sources[0]
        for other in sources[1:]:
            if other.rows != first.rows:
                raise InputError(
                    f"view {first.name!r} has {first.rows} rows and view {other.name!r} has "
                    f"{other.rows}; identikit pairs rows by position: every view needs the same "
                    "rows in the same order, or ids by which audit and align pair them (--id "
                    "COLUMN or --ids FILE, in Python ids=)"
                )
        stack.pop_all()
    return sources


def is_in_memory(view: object) -> bool:
    """Whether a view is an array, a data frame or lists, rather than something read in blocks."""
    if isinstance(view, str | os.PathLike) or hasattr(view, "open_source"):
        return False
    return not (_dask.is_collection(view) or is_tensor(view) or lives_elsewhere(view))


def _open_path(view: str | os.PathLike[str], name: str | None, position: int) -> Source:
    if not os.fspath(view):
        raise InputError(f"view {position} is an empty path; expected the name of a file")
    path, member = split_member(view)
    whole = os.path.abspath(path)  # noqa: PTH100 - Path.absolute would keep the dots
    kind = kind_of(path)
    if name is None:
        # Dots in a folder's name do not begin a suffix, except in that of a Zarr store.
        name = Path(whole).name if kind == FOLDER else path.stem
        name = Path(name).stem if kind.endswith(".gz") else name
        shown = ",".join(part for part in (member or "").split(",") if not part.startswith(NOT))
        name = f"{name}::{shown}" if shown else name
    opener = openers().get(kind)
    if opener is None:
        label = file_label(name, path)
        # A wrong path is a likelier mistake than a wrong kind of file, so check the path first.
        open_binary(path, label).close()
        known = ", ".join(suffix for suffix in openers() if suffix != FOLDER)
        raise InputError(
            f"{label} has the suffix {path.suffix!r}; expected one of {known}, or a folder of such "
            "files"
        )
    source = opener(path, member, name)
    source.origin = whole if member is None else f"{whole}::{member}"
    source.files = source.files or (path,)
    return source


def name_apart(sources: Sequence[Source], given: Sequence[str] | None) -> None:
    """Make the names of views differ, by their folders only if the caller gave no names."""
    origins = [source.origin if given is None else None for source in sources]
    for source, name in zip(sources, tell_apart([s.name for s in sources], origins)):
        source.name = name


def unpack(views: Any, names: Sequence[str] | None) -> tuple[Any, Sequence[str] | None]:
    """Split a mapping from names to views into both; anything else is returned unchanged.

    >>> unpack({"old": [[1.0]], "new": [[2.0]]}, None)
    ([[[1.0]], [[2.0]]], ['old', 'new'])
    """
    if not isinstance(views, Mapping):
        return views, names
    if names is not None:
        raise InputError("these views have names already, the keys of the mapping; leave out names")
    return list(views.values()), [str(name) for name in views]


def tell_apart(names: Sequence[str], origins: Sequence[object]) -> list[str]:
    """Make names differ by a suffix or by folders if their paths differ, otherwise by a number.

    `origins` has for each name the absolute path as text, if it is the name of a file; otherwise
    anything that is not text.

    Examples
    --------
    >>> tell_apart(["layer_02", "layer_02", "f"], ["/s0/layer_02.npy", "/s1/layer_02.npy", "/f.pt"])
    ['s0/layer_02', 's1/layer_02', 'f']
    >>> tell_apart(["run", "run"], [None, None])
    ['run', 'run (2)']
    """
    found = list(names)
    for name in dict.fromkeys(names):
        places = [place for place, other in enumerate(names) if other == name]
        if len(places) == 1:
            continue
        paths = [origins[place] for place in places]
        if not all(isinstance(path, str) for path in paths):
            continue
        member = name.partition("::")[2]
        files = [Path(str(path).removesuffix(f"::{member}")) for path in paths]
        # Folders that all paths share do not make names differ.
        shared = os.path.commonpath([file.parent for file in files])
        below = [file.relative_to(shared) for file in files]
        depth = max(len(file.parts) for file in below)
        ways = zip(*(_longer(name, file, depth) for file in below))
        # The first way that gives the most distinct names; a file given twice has one name.
        best = max(ways, key=lambda way: len(set(way)))
        for place, longer in zip(places, best):
            found[place] = longer
    taken: set[str] = set()
    for place, name in enumerate(found):
        copy = 1
        while found[place] in taken:
            copy += 1
            found[place] = f"{name} ({copy})"
        taken.add(found[place])
    return found


def _longer(name: str, file: Path, depth: int) -> Iterator[str]:
    """Longer and longer names for a file: its own, with its suffix, and with its last folders."""
    whole = file.name + name[len(name.partition("::")[0]) :]
    folders = file.parts[:-1]
    yield name
    yield whole
    for last in (name, whole):
        for count in range(1, depth):
            yield "/".join((*folders[-count:], last))
