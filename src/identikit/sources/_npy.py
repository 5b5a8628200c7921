"""NumPy's .npy files: the header by NumPy's own parser, the rows by seek and read."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from tokenize import TokenError
from typing import IO

from numpy.lib import format as npy

from identikit.errors import InputError
from identikit.sources._rows import FileRows, Layout, file_label, open_binary, size_of
from identikit.sources.registry import register

# The longest header that NumPy's parser takes, but not before it has read it.
_LONGEST_HEADER = 10_000
# A garbled header makes NumPy's parser, which is Python's own, raise any of these.
_PARSING_ERRORS = (ValueError, TypeError, SyntaxError, TokenError, RecursionError, MemoryError)


@register(".npy")
def open_npy(path: Path, member: str | None, name: str) -> FileRows:
    """Open the array of a .npy file, in C or Fortran order."""
    label = file_label(name, path)
    with ExitStack() as stack:
        file = stack.enter_context(open_binary(path, label))
        if member is not None:
            raise InputError(
                f"{label}: a .npy file holds one array without a name; leave out '::{member}'"
            )
        layout = read_layout(file, size_of(file), label)
        return FileRows(file, layout, name, label, stack)


def read_layout(stream: IO[bytes], size: int, label: str) -> Layout:
    """Parse the header at the start of a stream and check it against the stream's size.

    Parameters
    ----------
    stream : binary file
        At its start.
    size : int
        How many bytes it has.
    label : str
        What the error shall call it.
    """
    try:
        version = npy.read_magic(stream)
        if version == (1, 0):
            _check_header_length(stream, 2)
            shape, fortran, dtype = npy.read_array_header_1_0(stream)
        elif version in ((2, 0), (3, 0)):
            # 3.0 is 2.0 with UTF-8 field names, which only structured dtypes have: refused anyway.
            _check_header_length(stream, 4)
            shape, fortran, dtype = npy.read_array_header_2_0(stream)
        else:
            raise ValueError(f"version {version} of the format is unknown")
    except _PARSING_ERRORS as error:
        raise InputError(
            f"{label} is not a readable .npy array: {error}; the file is damaged, truncated "
            f"({size} bytes were found) or of another kind; pickled files are never loaded"
        ) from error
    if dtype.hasobject:
        raise InputError(
            f"{label} holds pickled Python objects, and pickled files are never loaded, because "
            "that can run code; re-save it as a plain numeric array: "
            "np.save(path, np.asarray(x, dtype=np.float32))"
        )
    if any(type(length) is not int or length < 0 for length in shape):
        raise InputError(f"{label} is damaged: its header gives the shape {shape}")
    layout = Layout(stream.tell(), shape, dtype, fortran)
    layout.check_fits(size, label)
    if layout.end < size:
        # A header that was cut or changed is likelier than a second array after the first.
        raise InputError(
            f"{label} is damaged: its header promises an array of shape {shape} and dtype {dtype}, "
            f"which needs {layout.end} bytes, but {size} were found; write or copy the file again"
        )
    return layout


def _check_header_length(stream: IO[bytes], digits: int) -> None:
    place = stream.tell()
    length = int.from_bytes(stream.read(digits), "little")
    if length > _LONGEST_HEADER:
        raise ValueError(f"it announces a header of {length} bytes")
    stream.seek(place)
