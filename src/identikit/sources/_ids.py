"""Read row ids: one integer or string per row, from columns of the view or from elsewhere.

For columns of the view, `doc_id` is a column of that name in every view; `doc_id:docId` gives one
name per view, in the order of the views; `plate,well` are two columns that together form the id.
Both may be combined: `plate,well:Plate,Well`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identikit.errors import InputError
from identikit.sources._choice import NOT, is_pattern
from identikit.sources._stored import BLOCK, StoredVector, vector_ids
from identikit.sources.array import as_array, is_anndata, obs_columns
from identikit.sources.checks import choose
from identikit.sources.files import open_binary, size_of, split_member
from identikit.sources.npy import read_header
from identikit.sources.registry import FOLDER, frame_readers, id_readers, kind_of

Block = NDArray[Any]

#: Separates the parts of an id from several columns: a character that texts do not contain.
BETWEEN = "\x1f"


@dataclass(frozen=True)
class Ids:
    """The ids of a view: their name in error messages, and an iterator over blocks of them."""

    label: str
    blocks: Iterator[Block]


def given_ids(ids: object, name: str) -> Ids:
    """Ids that are given separately from the rows.

    They are integers or strings in memory, a 1-D .npy file, a .txt file with one id per line, or a
    column or array of a file, `path::name`.
    """
    label = f"ids of view {name!r}"
    if not isinstance(ids, str | os.PathLike):
        array = in_memory(ids, label)
        if array.ndim != 1:
            raise InputError(f"{label} have shape {array.shape}; expected 1-D, one id per row")
        return Ids(label, _cut(array))
    path, member = split_member(ids)
    label = f"{label} ({path})"
    if member is not None:
        return Ids(label, read_ids(path, member, label))
    reader = {".txt": line_ids, ".npy": _npy}.get(path.suffix.lower())
    if reader is None:
        open_binary(path, label).close()
        raise InputError(
            f"{label}: expected a .npy or .txt file of ids, or path::name for a column or array of "
            "a file that holds several"
        )
    return Ids(label, reader(path, label))


def in_memory(values: object, label: str) -> Block:
    if isinstance(values, list | tuple):
        # As objects, because [1, "1"] would otherwise become two equal strings.
        values = np.array(values, dtype=object)
    return as_array(values, label)


def named_columns(text: str, views: int) -> list[tuple[str, ...]]:
    """The columns of each view that form its ids; the top of this file explains the notation.

    >>> named_columns("plate,well:Plate,Well", 2)
    [('plate', 'well'), ('Plate', 'Well')]
    """
    each = [tuple(name.strip() for name in names.split(",")) for names in text.split(":")]
    if any("" in names for names in each) or len({len(names) for names in each}) > 1:
        raise InputError(
            f"the id is {text!r}; expected a column, several columns separated by commas "
            "(plate,well), or the same number for every view, separated by colons (doc_id:docId)"
        )
    if len(each) not in (1, views):
        raise InputError(
            f"the id {text!r} names columns of {len(each)} views, and there are {views}; name them "
            "once for all views, or once per view"
        )
    return each * views if len(each) == 1 else each


def without_columns(view: Any, columns: Sequence[str]) -> object:
    """The view without these columns, if it is a data frame or a table in a file."""
    if isinstance(view, str | os.PathLike):
        path, member = split_member(view)
        inside = path.iterdir() if path.is_dir() and kind_of(path) == FOLDER else [path]
        if not any(kind_of(each) in frame_readers() for each in inside):
            return view
        if member is not None and not is_pattern(member):
            return view
        out = [*([member] if member else []), *(f"{NOT}{column}" for column in columns)]
        return f"{path}::{','.join(out)}"
    if is_anndata(view) or not _names(view):
        return view
    for column in columns:
        choose(_names(view), column, f"the {type(view).__name__}")
    out = list(columns)
    return view.drop(columns=out) if hasattr(view, "iloc") else view.drop(out)


def column_ids(view: Any, columns: Sequence[str], name: str) -> Ids:
    label = f"ids {','.join(columns)!r} of view {name!r}"
    if isinstance(view, str | os.PathLike):
        path = split_member(view)[0]
        label = f"{label} ({path})"
        parts = [read_ids(path, column, label) for column in columns]
    else:
        parts = [_cut(np.asarray(column_of(view, column, label))) for column in columns]
    return Ids(label, parts[0] if len(parts) == 1 else _together(parts, label))


def column_of(view: Any, column: str, label: str) -> Any:
    """A column of a data frame, a table or an AnnData; any other view is an error."""
    names = _names(view)
    if not names:
        raise InputError(
            f"{label}: a {type(view).__name__} in memory has no named columns, and so no column "
            f"{column!r}; pass its values as arrays (one array of ids per view: ids=[ids_a, ids_b])"
        )
    there = obs_columns(view) if is_anndata(view) else view
    return there[choose(names, column, label)]


def _names(view: Any) -> list[str]:
    """Names of the columns of a data frame or a pyarrow table, or of an AnnData's table obs."""
    if is_anndata(view):
        return list(obs_columns(view))
    names = getattr(view, "column_names", getattr(view, "columns", ()))
    return [name for name in names if isinstance(name, str)] if hasattr(view, "drop") else []


def read_ids(path: Path, column: str, label: str) -> Iterator[Block]:
    """Yield blocks of the ids in a column of a file, or in the array of that name."""
    reader = id_readers().get(kind_of(path))
    if reader is None:
        # A wrong path is a likelier mistake than a wrong kind of file, so check the path first.
        open_binary(path, label).close()
        raise InputError(
            f"{label}: ids cannot be read from files with the suffix {path.suffix!r}; expected one "
            f"of {', '.join(id_readers())}, or give the ids separately from the rows"
        )
    return reader(path, column, label)


def line_ids(path: Path, label: str, what: str = "one id") -> Iterator[Block]:
    """Yield blocks of the ids or labels in a text file, one per line, as Python strings.

    Empty lines at the end do not count. `what` says in the error what a line should hold.
    """
    open_binary(path, label).close()
    with path.open(encoding="utf-8-sig") as file:
        done, empty = 0, None
        try:
            while lines := [line.strip() for line in islice(file, BLOCK)]:
                for number, line in enumerate(lines, done + 1):
                    if line and empty:
                        raise InputError(
                            f"{label}: line {empty} is empty; expected {what} per line"
                        )
                    empty = empty or (None if line else number)
                yield np.array([line for line in lines if line], dtype=object)
                done += len(lines)
        except UnicodeDecodeError as error:
            raise InputError(f"{label} is not UTF-8 text ({error}); save it as UTF-8") from error


def _npy(path: Path, label: str) -> Iterator[Block]:
    with open_binary(path, label) as file:
        stored = read_header(file, size_of(file), label)
        yield from vector_ids(StoredVector(file, stored, label), label)


def _cut(array: Block) -> Iterator[Block]:
    return (array[start : start + BLOCK] for start in range(0, len(array), BLOCK))


def _together(parts: Sequence[Iterator[Block]], label: str) -> Iterator[Block]:
    """Join the parts of every id into one text; the columns' blocks may differ in length."""
    pending = [np.empty(0, dtype=object) for _ in parts]
    row = 0
    while True:
        for k, part in enumerate(parts):
            while not len(pending[k]) and (block := next(part, None)) is not None:
                pending[k] = plain_ids(block, label, row)
        count = min(map(len, pending))
        if not count:
            break
        texts = (map(str, block[:count].tolist()) for block in pending)
        yield np.array([BETWEEN.join(parts) for parts in zip(*texts)], dtype=object)
        pending = [block[count:] for block in pending]
        row += count
    if any(map(len, pending)):
        raise InputError(f"{label}: the columns have different lengths; expected one value per row")


def plain_ids(block: Block, label: str, first: int) -> Block:
    """Convert ids to 64-bit integers or Python strings; `first` is their first row, for errors."""
    if block.dtype.kind == "S":
        try:
            block = np.char.decode(block, "utf-8")
        except UnicodeDecodeError as error:
            raise InputError(f"{label} are bytes, but not UTF-8 text: {error}") from error
    if block.dtype.kind in "iu":
        return block.astype(np.int64 if block.dtype.kind == "i" else np.uint64)
    if block.dtype.kind not in "OTU":  # T: NumPy's strings of variable length
        raise InputError(
            f"{label} have dtype {block.dtype}; expected integers or strings, which can be "
            "compared exactly: convert them first"
        )
    try:
        block = block.astype(object)
        "".join(value for value in block if isinstance(value, str)).encode()
    except ValueError as error:
        raise InputError(f"{label}: the rows from {first} on hold invalid text: {error}") from error
    check_alike(block, label, (int, np.integer), first)
    if len(block) and isinstance(block[0], str):
        return block
    values = [int(value) for value in block]
    for wide in (np.int64, np.uint64):
        if all(np.iinfo(wide).min <= value <= np.iinfo(wide).max for value in values):
            return np.array(values, dtype=wide)
    raise too_wide(label)


def too_wide(label: str) -> InputError:
    """The error about integers that are not all signed, or not all unsigned, 64-bit integers."""
    return InputError(f"{label} hold integers of more than 64 bits; store them as strings")


def check_alike(values: Block, label: str, numbers: tuple[type, ...], first: int = 0) -> None:
    """Refuse objects that are neither all strings nor all numbers of the given types.

    True and False count as numbers only if floats do. `first` is the row of the first value.
    """
    expected = (str,) if len(values) and isinstance(values[0], str) else numbers
    for row, value in enumerate(values, first):
        wrong = isinstance(value, bool) and float not in expected
        if wrong or not isinstance(value, expected):
            raise InputError(
                f"{label}: row {row} is {value!r} of type {type(value).__name__}; expected "
                "integers only or strings only, with none missing"
            )
