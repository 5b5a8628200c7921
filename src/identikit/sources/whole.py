"""Read whole arrays at once, if they fit into memory."""

from __future__ import annotations

import math
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from identikit.errors import InputError
from identikit.sources._npz import array_names, open_member
from identikit.sources._source import Source
from identikit.sources.files import open_binary, size_of
from identikit.sources.memory import check_whole
from identikit.sources.npy import read_header

__all__ = ["array_names", "read_array", "read_whole"]


def read_whole(source: Source, memory: int | None = None) -> NDArray[Any]:
    """Read all rows of a view, which with the work on them may take `memory` bytes.

    By default that is half of the machine's memory.
    """
    check_whole(source.rows * source.width, f"view {source.name!r}", memory)
    return source.read(0, source.rows)


def read_array(
    path: Path, member: str | None, label: str, memory: int | None = None
) -> NDArray[Any]:
    """Read an array of any shape from a .npy or .npz file, in the machine's own byte order.

    `member` is its name in a .npz file, and `memory` the budget in bytes, as for `read_whole`.
    """
    with ExitStack() as stack:
        file = stack.enter_context(open_binary(path, label))
        if path.suffix.lower() == ".npz":
            stream, stored = open_member(file, member, label, stack)
        elif member is not None:
            raise InputError(f"{label}: a .npy file has no names; leave out '::{member}'")
        else:
            stream, stored = file, read_header(file, size_of(file), label)
        count = math.prod(stored.shape)
        check_whole(count, label, memory)
        numbers = stored.read(stream, 0, count, label)
    array = numbers.reshape(stored.shape, order="F" if stored.fortran else "C")
    native: NDArray[Any] = array.astype(stored.dtype.newbyteorder("="), copy=False)
    return native
