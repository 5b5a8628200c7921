"""What a pin and a check read: a view or the layers of a folder, their ids, some of the rows."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identikit._linalg import Array
from identikit._progress import Progress
from identikit.errors import InputError
from identikit.moments import Moments, accumulate
from identikit.sources import Source, open_source, read_labels, view_and_tags
from identikit.sources.registry import FOLDER, kind_of, openers

Numbers = NDArray[np.int64]
Ids = NDArray[np.object_]

#: Rows that are read at a time where only a few of them are wanted, and where all are.
FEW, BLOCK = 512, 8192


def layers_of(view: object) -> dict[str, object]:
    """The views to pin or to check, by name: one, or the layers of a folder or mapping.

    A folder is one of layers if it holds files that are called ``layer_…``, as `identikit extract`
    writes them; any other folder is one view in shards.
    """
    if isinstance(view, Mapping):
        if not view:
            raise InputError("the mapping of layers is empty; give at least one view")
        return {str(name): each for name, each in view.items()}
    if isinstance(view, str | os.PathLike) and kind_of(Path(view)) == FOLDER:
        known = openers()
        files = sorted(
            file for file in Path(view).glob("layer_*") if file.is_file() and kind_of(file) in known
        )
        if files:
            return {file.stem: os.fspath(file) for file in files}
    return {"": view}


def with_ids(view: object, ids: object, name: str) -> tuple[object, Ids | None]:
    """The view without its column of ids, and one text per row; None without ids.

    `ids` is the name of a column of the view, a file of ids (a path object), or one id per row.
    """
    if ids is None:
        return view, None
    if isinstance(ids, os.PathLike):
        ids = read_labels(ids, "ids")
    rest, found = view_and_tags(view, {"id": ids})
    texts = found["id"]
    empty = np.flatnonzero(texts == "")
    if len(empty):
        raise InputError(
            f"ids of {name}: row {empty[0]} (counting from 0) has none; give every row an id"
        )
    if len(set(texts)) < len(texts):
        twice = [text for text, count in Counter(texts).items() if count > 1]
        raise InputError(
            f"ids of {name}: {len(twice)} ids occur more than once, such as {twice[0]!r}; give "
            "every row an id of its own"
        )
    return rest, texts


def check_ids(ids: Ids | None, source: Source) -> None:
    """Raise an error unless there is one id per row."""
    if ids is not None and len(ids) != source.rows:
        raise InputError(
            f"there are {len(ids)} ids for the {source.rows} rows of {source.name!r}; expected "
            "one per row"
        )


def rows_at(source: Source, numbers: Numbers) -> NDArray[Any]:
    """Some rows of a source, in the order of `numbers`; only the blocks that hold them are read."""
    order = np.argsort(numbers, kind="stable")
    rising, pieces, start = numbers[order], [], 0
    while start < len(rising):
        first = int(rising[start])
        last = min(first + FEW, source.rows)
        stop = int(np.searchsorted(rising, last))
        pieces.append(source.read(first, last)[rising[start:stop] - first])
        start = stop
    found = np.concatenate(pieces)
    out = np.empty_like(found)
    out[order] = found
    return out


def finite(rows: NDArray[Any], what: str) -> Array:
    """Rows as float64, after an error if one of them is not finite."""
    wide = np.asarray(rows, dtype=np.float64)
    if not np.isfinite(wide).all():
        bad = int(np.count_nonzero(~np.isfinite(wide).all(axis=1)))
        raise InputError(f"{what}: {bad} of these rows hold NaN or infinity; compute them again")
    return wide


def moments_of(view: object, name: str, progress: Progress | None) -> Moments:
    """Moments of all rows of a view, after an error if one of them is not finite."""
    try:
        return accumulate([view], names=[name], folds=1, sample=0, progress=progress)
    except InputError as error:
        # An audit can leave such rows out; here that would hide what is looked for.
        said, cut, _ = str(error).partition("; repair them")
        if not cut:
            raise
        raise InputError(f"{said}; compute these rows again") from error


def opened_view(view: object, name: str) -> closing[Any]:
    """Open a view to be closed by a `with` block; an empty name is that of the file."""
    return closing(open_source(view, name or None))
