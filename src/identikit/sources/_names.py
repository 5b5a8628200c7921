"""Names of views: the keys of a mapping, or the shortest parts of their paths that differ."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from identikit.errors import InputError


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
