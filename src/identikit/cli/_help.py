"""The help of arguments and options: what the docstring of a verb says of them, or `SHARED` does.

A docstring may end with entries, each with what a user types and what it means:

    VIEW : Two or more files that have the same rows.
    --output, -o FILE.json : Where to save the JSON document.

Arguments are in the order of the parameters. An option belongs to the parameter of its name, which
may end in an underscore: ``--drop-nonfinite`` to ``drop_nonfinite``, and ``--id`` to ``id_``.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

import typer

_ENTRY = re.compile(r"^((?:--|[A-Z]).*?) : (.*(?:\n .*)*)", re.MULTILINE)

#: What options mean that several verbs have.
SHARED = """
--groups FILE : A file with a label for each row: .npy, .txt, or a column of a table
 (table.parquet::donor, cells.csv::donor, x.h5ad::obs/donor). Rows with the same label belong
 together and share a fold. Without it, folds are scattered blocks of rows.
--names A,B,... : The names of the views. If a name has a comma, repeat the option for each name.
--folds : The number of folds for held-out errors.
--drop-nonfinite : Leave rows with NaN or infinity out of all views.
--engine single|pool|dask : What reads the rows: this process (single), several processes (pool), or
 Dask.
--scheduler ADDRESS : The address of a Dask scheduler, such as tcp://host:8786. Without it, Dask is
 started on this machine.
--workers : The number of processes of a pool, or of Dask if it is started here.
--id COLUMN : Pair rows by this column or array of each file, and not by position. Give several
 columns with commas (plate,well), or a name for each view with colons (doc_id:docId).
--ids FILE : Pair rows by ids that are in files of their own. Give the option once for each view, in
 the order of the views.
--memory SIZE : How much memory the work may take, such as 4GB.
--report FILE.html : Where to write a page with figures.
--output, -o FILE.json : Where to save the JSON document.
--json : Print one JSON document instead of words and a table.
--quiet, -q : Show no progress and no remarks.
--force : Overwrite the file if it exists already.
--seed : The seed of the row sample that a few measures use.
--tolerance : The largest error that counts as the same.
"""

Verb = TypeVar("Verb", bound=Callable[..., None])


def described(command: Verb) -> Verb:
    """Give Typer the help of every parameter that is not annotated with it already."""
    text = inspect.getdoc(command) or ""
    own = _ENTRY.findall(text)
    first = _ENTRY.search(text)
    command.__doc__ = text[: first.start()].rstrip() if first else text
    arguments = (entry for entry in own if not entry[0].startswith("-"))
    options = {_name(entry[0]): entry for entry in (*_ENTRY.findall(SHARED), *own)}
    for name, hint in get_type_hints(command, include_extras=True).items():
        kind, given = (get_args(hint) if get_origin(hint) is Annotated else (hint, None))[:2]
        if name == "return" or (given is not None and given.help):
            continue
        entry = options.get(name.rstrip("_")) or next(arguments, None)
        if entry is None:
            raise TypeError(f"{command.__module__}: the docstring does not say what {name!r} is")
        command.__annotations__[name] = Annotated[kind, _info(entry[0], entry[1], given)]
    return command


def _name(spelling: str) -> str:
    return re.split(r"[ ,/]", spelling)[0].removeprefix("--").replace("-", "_")


def _info(spelling: str, words: str, given: Any) -> Any:
    """What Typer calls an argument or an option, within the limits that are given already."""
    words = re.sub(r"\n +", " ", words)
    if not spelling.startswith("-"):
        return typer.Argument(metavar=spelling, help=words)
    parts = spelling.split()
    flags = [part.rstrip(",") for part in parts if part.startswith("-")]
    metavar = next((part for part in parts if not part.startswith("-")), None)
    limits = {} if given is None else {"min": given.min, "max": given.max}
    make: Any = typer.Option
    return make(*flags, metavar=metavar, help=words, **limits)
