"""Which function opens which kind of file: every private module beside this one may add some."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path

from identikit.sources._source import Source

Opener = Callable[[Path, str | None, str], Source]

_openers: dict[str, Opener] = {}


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


@cache
def openers() -> dict[str, Opener]:
    """All openers by suffix; a new format is a new file in this folder and nothing else."""
    package = "identikit.sources"
    for module in pkgutil.iter_modules(import_module(package).__path__):
        if module.name.startswith("_"):
            import_module(f"{package}.{module.name}")
    return dict(sorted(_openers.items()))
