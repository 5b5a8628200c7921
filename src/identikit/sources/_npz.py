"""NumPy's .npz files: a zip archive of .npy members, stored or deflated."""

from __future__ import annotations

import io
import struct
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import IO
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

from identikit.errors import InputError
from identikit.sources._checks import choose
from identikit.sources._npy import read_layout
from identikit.sources._registry import register
from identikit.sources._rows import (
    UNPACKING_ERRORS,
    FileRows,
    Layout,
    file_label,
    open_binary,
    size_of,
)
from identikit.sources._unpacking import check_unpacked

_ENCRYPTED = 0x1
# 258 bytes for two bits: deflate cannot do better, so whoever promises more lies.
_MOST_DEFLATED = 1032
# What a damaged archive raises before it comes to unpacking.
_DIRECTORY_ERRORS = (NotImplementedError, OSError, UnicodeDecodeError, struct.error)
# A local header is 30 bytes, of which the last four give the lengths of what follows it.
_LOCAL_HEADER = struct.Struct("<26xHH")


@register(".npz")
def open_npz(path: Path, member: str | None, name: str) -> FileRows:
    """Open one array of a .npz file."""
    label = file_label(name, path)
    with ExitStack() as stack:
        file = stack.enter_context(open_binary(path, label))
        stream, layout = open_member(file, member, label, stack)
        return FileRows(stream, layout, name, label, stack)


def open_member(
    file: IO[bytes], member: str | None, label: str, stack: ExitStack
) -> tuple[IO[bytes], Layout]:
    """A seekable stream that holds the array, and where the array lies in it.

    A stored member is read in place. A deflated one is unpacked as it is read, and again from its
    start when reading goes back; in Fortran order every block would need all of it, so that one
    case is unpacked into memory.

    Parameters
    ----------
    file : binary file
        The archive.
    member : str or None
        The array's name.
    label : str
        What the error shall call it.
    stack : ExitStack
        Receives what has to be closed.
    """
    size = size_of(file)
    try:
        archive = stack.enter_context(ZipFile(file))
        arrays = {
            info.filename.removesuffix(".npy"): info
            for info in archive.infolist()
            if info.filename.endswith(".npy")
        }
        info = arrays[choose(arrays, member, label)]
        if info.flag_bits & _ENCRYPTED or info.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
            raise InputError(
                f"{label}: the member {info.filename!r} is encrypted or packed in a way that "
                "NumPy does not write; re-save it with np.savez or np.savez_compressed"
            )
        _check_declared(info, size, label)
        stream = stack.enter_context(archive.open(info))
        layout = read_layout(stream, info.file_size, label)
        if info.compress_type == ZIP_STORED:
            layout = replace(layout, offset=layout.offset + _start_of(info, file))
            layout.check_fits(size, label)
            return file, layout
        if not layout.fortran:
            return stream, layout
        check_unpacked(info.file_size, info.compress_size, f"the member {info.filename!r}", label)
        return io.BytesIO(_unpacked(stream)), layout
    except (*UNPACKING_ERRORS, *_DIRECTORY_ERRORS) as error:
        raise InputError(
            f"{label} is not a readable .npz archive: {str(error) or 'it ends early'}; the file is "
            f"damaged, truncated ({size} bytes were found) or of another kind"
        ) from error


def _check_declared(info: ZipInfo, size: int, label: str) -> None:
    """Refuse a member whose sizes cannot be true, before anything is unpacked."""
    packed, unpacked = info.compress_size, info.file_size
    if info.compress_type == ZIP_STORED:
        lie = unpacked != packed  # and that it lies within the file is checked with its shape
    else:
        lie = packed > size or unpacked > _MOST_DEFLATED * packed
    if lie:
        raise InputError(
            f"{label} is truncated, damaged or malicious: the member {info.filename!r} is said to "
            f"unpack {packed} bytes to {unpacked}, in a file of {size}"
        )


def _unpacked(stream: IO[bytes]) -> bytes:
    stream.seek(0)
    return stream.read()


def _start_of(info: ZipInfo, file: IO[bytes]) -> int:
    file.seek(info.header_offset)
    name, extra = _LOCAL_HEADER.unpack(file.read(_LOCAL_HEADER.size))
    return info.header_offset + _LOCAL_HEADER.size + int(name) + int(extra)
