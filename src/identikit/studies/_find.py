"""Find studies: those of this package, those of other packages, and those in your own files."""

from __future__ import annotations

import ast
import hashlib
import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path

from identikit._plugins import module_names
from identikit.errors import InputError, naming_extras
from identikit.studies._study import Study

PACKAGE = "identikit.studies"


def names() -> list[str]:
    """The names of all studies, including those of other packages, without importing any."""
    own = [name.replace("_", "-") for name in module_names(PACKAGE) if not name.startswith("_")]
    return [*own, *sorted(set(_brought()) - set(own))]


def studies() -> dict[str, Study]:
    """Every study by name."""
    return {name: find(name) for name in names()}


def find(name: str) -> Study:
    """A study by name or from a file, without importing the others.

    Parameters
    ----------
    name : str
        A name such as "nielsen-small-kl", or the path of a Python file with a line
        ``STUDY = Study(...)``. Other packages can register studies as entry points of the group
        "identikit.studies", each with a name and a ``module:STUDY``.
    """
    with naming_extras("This study"):
        if name.endswith(".py"):
            return _checked(_from_file(Path(name)), name)
        if name not in names():
            raise InputError(
                f"there is no study {name!r}; there are {', '.join(names())}, or give the path of "
                "a file, as in ./my_study.py"
            )
        module = name.replace("-", "_")
        if module in module_names(PACKAGE):
            return _checked(import_module(f"{PACKAGE}.{module}"), name)
        return _checked(_brought()[name].load(), name)


def _brought() -> dict[str, EntryPoint]:
    return {each.name: each for each in entry_points(group=PACKAGE)}


def _from_file(path: Path) -> object:
    """The module of a file, imported by name so that worker processes can import it too."""
    if not path.is_file():
        raise InputError(f"there is no such file: {path}; check the path of the study")
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    module = import_module(path.stem)
    if Path(str(module.__file__)).resolve() != path.resolve():
        raise InputError(f"there is another module called {path.stem!r}; rename {path}")
    return module


def _checked(found: object, name: str) -> Study:
    study = getattr(found, "STUDY", found)
    if not isinstance(study, Study):
        raise InputError(f"{name} has no line STUDY = Study(...), so it is not a study")
    return study


def code_digest(study: Study) -> str:
    """A short hash of the code of a study: its own file and the neighbouring files it imports."""
    hashed = hashlib.sha256()
    for path in sorted(_files_of(study.run.__module__)):
        hashed.update(path.read_bytes())
    return hashed.hexdigest()[:16]


def _files_of(module: str) -> set[Path]:
    try:
        spec = find_spec(module)
    except ValueError:  # a script or a notebook
        return set()
    if spec is None or spec.origin is None:
        return set()
    found: set[Path] = set()
    waiting = [Path(spec.origin)]
    while waiting:
        path = waiting.pop()
        if path not in found and path.is_file():
            found.add(path)
            waiting += _imports(path, module.rpartition(".")[0])
    return found


def _imports(path: Path, package: str) -> Iterator[Path]:
    """The files of the same folder that a file imports, at the top or inside functions."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            whole = node.level == 0 or not package
            base = ".".join(filter(None, ("" if whole else package, node.module)))
            names = [base, *(f"{base}.{each.name}" for each in node.names)]
        for name in names:
            parent, _, own = name.rpartition(".")
            if parent == package:
                yield path.with_name(f"{own}.py")
