"""Row ids in: an integer or a string a row, from a column beside the rows or from anywhere else."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from identikit.errors import InputError
from identikit.sources._npy import read_layout
from identikit.sources._npz import open_member
from identikit.sources._open import split_member
from identikit.sources._rows import UNPACKING_ERRORS, Layout, open_binary, size_of
from identikit.sources._safetensors import _read_layout as tensor_layout
from identikit.sources.array import as_array
from identikit.sources.registry import id_readers, kind_of, register_ids

Block = NDArray[Any]

#: Ids read at a time, and the most bytes they may take.
BLOCK, BLOCK_BYTES = 2**16, 2**24

#: Stands between the parts of an id of several columns; no text has it.
BETWEEN = "\x1f"

# Two keys for pandas's SipHash, one for each half of 128 bits.
_KEYS = ("identikit row id", "another 16 bytes")


@dataclass(frozen=True)
class Ids:
    """The ids of a view: what errors call them, and a function that reads them from the start."""

    label: str
    blocks: Callable[[], Iterator[Block]]

    def at(self, row: int) -> object:
        """The id of one row."""
        for block in self.blocks():
            if row < len(block):
                found = block[row : row + 1].tolist()[0]
                return ", ".join(found.split(BETWEEN)) if isinstance(found, str) else found
            row -= len(block)
        raise IndexError(row)


def read_ids(view: str | os.PathLike[str], column: str, label: str) -> Iterator[Block]:
    """Blocks of the ids in a column (or an array of this name) of the file that holds a view.

    Parameters
    ----------
    view : path
        The view, as `open_source` takes it.
    column : str
        What holds the ids.
    label : str
        What errors shall call them.
    """
    path, _ = split_member(view)
    return _reader(path, label)(path, column, label)


def given_ids(ids: object, name: str) -> Ids:
    """Ids given apart from the rows.

    Parameters
    ----------
    ids : path or sequence
        Integers or strings in memory; or a 1-D .npy file, a .txt file with an id a line, or a
        column or array of a file, `path::name`.
    name : str
        What the view is called.
    """
    label = f"ids of view {name!r}"
    if not isinstance(ids, str | os.PathLike):
        if isinstance(ids, list | tuple):
            # As objects, because [1, "1"] would otherwise become two equal strings.
            ids = np.array(ids, dtype=object)
        array = as_array(ids, label)
        if array.ndim != 1:
            raise InputError(f"{label} have shape {array.shape}; expected 1-D, one id a row")
        return Ids(label, partial(cut, array))
    path, member = split_member(ids)
    label = f"{label} ({path})"
    suffix = path.suffix.lower()
    if member is not None:
        return Ids(label, partial(_reader(path, label), path, member, label))
    if suffix == ".txt":
        return Ids(label, partial(_text, path, label))
    if suffix == ".npy":
        return Ids(label, partial(_npy, path, label))
    open_binary(path, label).close()
    raise InputError(
        f"{label}: expected a .npy or .txt file of ids, or path::name for a column or array of a "
        "file that holds several"
    )


def id_keys(block: Block, label: str, first: int = 0) -> tuple[str, NDArray[np.uint64]]:
    """The kind of some ids, "integers" or "strings", and 128 bits each that tell them apart.

    Integers are kept exactly, in an order that looks random; strings are hashed.

    Parameters
    ----------
    block : array (n,)
        The ids.
    label : str
        What errors shall call them.
    first : int
        The row of the first, for errors.
    """
    block = plain_ids(block, label, first)
    keys = np.empty((len(block), 2), np.uint64)
    if block.dtype.kind in "iu":
        keys[:, 0] = block < 0
        wide = np.int64 if block.dtype.kind == "i" else np.uint64
        keys[:, 1] = _mixed(block.astype(wide).view(np.uint64))
        return "integers", keys
    from pandas.util import hash_array

    try:
        text = block.astype(object)
        for half, key in enumerate(_KEYS):
            keys[:, half] = hash_array(text, hash_key=key, categorize=False)
    except ValueError as error:  # also what a text that cannot be encoded raises
        raise InputError(f"{label}: rows {first} and on hold no valid text: {error}") from error
    return "strings", keys


def plain_ids(block: Block, label: str, first: int = 0) -> Block:
    """Some ids as integers, or as strings of any kind; nothing else.

    Parameters
    ----------
    block : array (n,)
        The ids.
    label : str
        What errors shall call them.
    first : int
        The row of the first, for errors.
    """
    if block.dtype.kind == "S":
        try:
            block = np.char.decode(block, "utf-8")
        except UnicodeDecodeError as error:
            raise InputError(f"{label} are bytes, but not UTF-8 text: {error}") from error
    if block.dtype.kind in "OT":  # T: NumPy's strings of variable length
        block = _from_objects(block.astype(object), label, first)
    if block.dtype.kind not in "iuOU":
        raise InputError(
            f"{label} have dtype {block.dtype}; expected integers or strings, which are equal or "
            "not: convert them first"
        )
    return block


def _mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """A permutation of the 64-bit numbers without visible pattern: the finish of SplitMix64."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def _from_objects(block: Block, label: str, first: int) -> Block:
    """Python's strings as they are, Python's integers as NumPy's; nothing else, and no mixture."""
    numbers = (int, np.integer)
    expected = str if len(block) and isinstance(block[0], str) else numbers
    for row, value in enumerate(block):
        if not isinstance(value, expected) or isinstance(value, bool):
            raise InputError(
                f"{label}: row {first + row} is {value!r} of type {type(value).__name__}; expected "
                "integers only or strings only, with none missing"
            )
    if expected is str:
        return block
    values = [int(value) for value in block]
    for wide in (np.int64, np.uint64):
        if all(np.iinfo(wide).min <= value <= np.iinfo(wide).max for value in values):
            return np.array(values, dtype=wide)
    raise InputError(f"{label} hold integers of more than 64 bits; write them as strings")


def _reader(path: Path, label: str) -> Callable[[Path, str, str], Iterator[Block]]:
    reader = id_readers().get(kind_of(path))
    if reader is None:
        # A wrong path is the likelier slip than a wrong kind of file, so that is said first.
        open_binary(path, label).close()
        raise InputError(
            f"{label}: no ids are read from files with the suffix {path.suffix!r}; expected one of "
            f"{', '.join(id_readers())}, or give the ids apart from the rows"
        )
    return reader


def cut(array: Block) -> Iterator[Block]:
    """Ids in memory, in blocks."""
    for start in range(0, len(array), BLOCK):
        yield array[start : start + BLOCK]


@register_ids(".npy")
def refuse_column(path: Path, column: str, label: str) -> Iterator[Block]:
    """Say that a .npy file has no columns with names."""
    open_binary(path, label).close()
    raise InputError(
        f"{label}: a .npy file holds one array and no column {column!r}; save rows and ids "
        "together as .npz or Parquet, or give the ids in files of their own, one a view"
    )


@register_ids(".npz")
def read_npz_ids(path: Path, column: str, label: str) -> Iterator[Block]:
    """The ids in an array of a .npz archive."""
    with ExitStack() as stack:
        file = stack.enter_context(open_binary(path, label))
        stream, layout = open_member(file, column, label, stack)
        yield from _stored(stream, layout, label)


@register_ids(".safetensors")
def read_tensor_ids(path: Path, column: str, label: str) -> Iterator[Block]:
    """The ids in a tensor, which can only be integers."""
    with open_binary(path, label) as file:
        yield from _stored(file, tensor_layout(file, column, label), label)


def _npy(path: Path, label: str) -> Iterator[Block]:
    with open_binary(path, label) as file:
        yield from _stored(file, read_layout(file, size_of(file), label), label)


def _stored(stream: IO[bytes], layout: Layout, label: str) -> Iterator[Block]:
    if len(layout.shape) != 1 or layout.bfloat16:
        kind = "bfloat16" if layout.bfloat16 else layout.dtype
        raise InputError(
            f"{label} have shape {layout.shape} and dtype {kind}; expected 1-D, an integer or a "
            "string a row"
        )
    (rows,), size = layout.shape, max(layout.dtype.itemsize, 1)
    step = max(1, min(BLOCK, BLOCK_BYTES // size))
    for start in range(0, rows, step):
        count = min(step, rows - start)
        try:
            stream.seek(layout.offset + start * layout.dtype.itemsize)
            data = stream.read(count * layout.dtype.itemsize)
            block = np.ndarray(count, layout.dtype, data)
        except (*UNPACKING_ERRORS, TypeError) as error:  # NumPy's TypeError: too few bytes
            raise InputError(f"{label} could not be read to the end: {error}") from error
        yield block


def _text(path: Path, label: str) -> Iterator[Block]:
    open_binary(path, label).close()
    with path.open(encoding="utf-8-sig") as file:
        done = 0
        try:
            while lines := [line.strip() for line in islice(file, BLOCK)]:
                if "" in lines:
                    raise InputError(
                        f"{label}: line {done + lines.index('') + 1} is empty; expected an id a "
                        "line"
                    )
                yield np.array(lines, dtype=object)
                done += len(lines)
        except UnicodeDecodeError as error:
            raise InputError(f"{label} is not UTF-8 text ({error}); save it as UTF-8") from error
