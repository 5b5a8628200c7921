"""The modules in a folder of the package, so that a new file needs no registration elsewhere."""

from __future__ import annotations

import pkgutil
from importlib import import_module
from types import ModuleType


def module_names(package: str) -> list[str]:
    """The names of a package's modules in alphabetical order, without importing them."""
    found = pkgutil.iter_modules(import_module(package).__path__)
    return sorted(module.name for module in found if not module.ispkg)


def modules(package: str) -> dict[str, ModuleType]:
    """Import all modules of a package, and return them by name."""
    return {name: import_module(f"{package}.{name}") for name in module_names(package)}
