"""Arrays that are read at once, if they fit the memory."""

from __future__ import annotations

import math
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identikit.errors import InputError
from identikit.sources._npy import read_layout
from identikit.sources._npz import open_member
from identikit.sources._rows import UNPACKING_ERRORS, open_binary, size_of
from identikit.sources._source import Source
from identikit.sources._unpacking import check_whole


def read_whole(source: Source, memory: int | None = None) -> NDArray[Any]:
    """All rows of a view.

    Parameters
    ----------
    source : Source
        Open.
    memory : int, optional
        Bytes that it and the work on it may take; half of the machine's memory by default.
    """
    check_whole(source.rows * source.width, f"view {source.name!r}", memory)
    return source.read(0, source.rows)


def read_array(
    path: Path, member: str | None, label: str, memory: int | None = None
) -> NDArray[Any]:
    """An array of any shape out of a .npy or .npz file, in the machine's own byte order.

    Parameters
    ----------
    path : Path
        The file.
    member : str or None
        The name of the array in a .npz file.
    label : str
        What errors shall call it.
    memory : int, optional
        Bytes, as of `read_whole`.
    """
    with ExitStack() as stack:
        file = stack.enter_context(open_binary(path, label))
        if path.suffix.lower() == ".npz":
            stream, layout = open_member(file, member, label, stack)
        elif member is not None:
            raise InputError(f"{label}: a .npy file has no names; leave out '::{member}'")
        else:
            stream, layout = file, read_layout(file, size_of(file), label)
        check_whole(math.prod(layout.shape), label, memory)
        try:
            stream.seek(layout.offset)
            data = stream.read(layout.end - layout.offset)
            if len(data) < layout.end - layout.offset:
                raise EOFError
        except UNPACKING_ERRORS as error:
            raise InputError(f"{label} is damaged: {str(error) or 'it ends early'}") from error
    array = np.ndarray(layout.shape, layout.dtype, data, order="F" if layout.fortran else "C")
    return array.astype(layout.dtype.newbyteorder("="), copy=False)
