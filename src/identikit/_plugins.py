"""What lies in a folder of the package: a new file is found by itself."""

from __future__ import annotations

import pkgutil
from importlib import import_module
from types import ModuleType


def module_names(package: str) -> list[str]:
    """The modules of a package by name, in alphabetical order; none of them is imported.

    Parameters
    ----------
    package : str
        Such as "identikit.similarity".
    """
    found = pkgutil.iter_modules(import_module(package).__path__)
    return sorted(module.name for module in found if not module.ispkg)


def modules(package: str) -> dict[str, ModuleType]:
    """The same, imported."""
    return {name: import_module(f"{package}.{name}") for name in module_names(package)}
