"""NumPy's .npz files: a zip archive of .npy members, stored or deflated."""

from __future__ import annotations

import io
import struct
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO, Any
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

from numpy.typing import NDArray

from identikit.errors import InputError
from identikit.sources import memory
from identikit.sources._sparse import SAVED, SparseRows, open_saved
from identikit.sources._stored import FileRows, StoredArray, StoredVector, vector_ids
from identikit.sources.checks import choose
from identikit.sources.files import (
    UNPACKING_ERRORS,
    file_label,
    open_binary,
    size_of,
    writing_temporary,
)
from identikit.sources.npy import read_header
from identikit.sources.registry import register, register_ids

_ENCRYPTED = 0x1
# Deflate stores at most 258 bytes in two bits, so a larger ratio cannot be true.
_MOST_DEFLATED = 1032
# The errors that a damaged archive raises before anything is unpacked.
_DIRECTORY_ERRORS = (NotImplementedError, OSError, UnicodeDecodeError, struct.error)
# A local header has 30 bytes; the last four are the lengths of the name and the extra field.
_LOCAL_HEADER = struct.Struct("<26xHH")


@register(".npz")
def open_npz(path: Path, member: str | None, name: str) -> FileRows | SparseRows:
    """Open one array of a .npz file, or the sparse matrix that SciPy saved as one."""
    label = file_label(name, path)
    with ExitStack() as stack:
        file = stack.enter_context(open_binary(path, label))
        if member is None and (parts := _sparse_parts(file, path, label, stack)):
            return open_saved(parts, name, label, stack)
        stream, stored = open_member(file, member, label, stack)
        return FileRows(stream, stored, name, label, stack)


@register_ids(".npz")
def read_npz_ids(path: Path, column: str, label: str) -> Iterator[NDArray[Any]]:
    with ExitStack() as stack:
        file = stack.enter_context(open_binary(path, label))
        yield from vector_ids(StoredVector(*open_member(file, column, label, stack), label), label)


def _sparse_parts(
    file: IO[bytes], path: Path, label: str, stack: ExitStack
) -> dict[str, StoredVector] | None:
    """The arrays of a sparse matrix that SciPy saved, each on its own open file; otherwise None."""
    try:
        with ZipFile(file) as archive:
            there = {name.removesuffix(".npy") for name in archive.namelist()}
    except (*UNPACKING_ERRORS, *_DIRECTORY_ERRORS):
        return None  # opening a member will explain what is wrong
    if not {"format", "shape", "data"} <= there:
        return None
    kind = _small(file, "format", label)
    if kind not in (b"csr", "csr"):
        raise InputError(
            f"{label} is a sparse matrix in the format {kind!r}; save it by rows: "
            "scipy.sparse.save_npz(path, matrix.tocsr())"
        )
    parts = {}
    for key in sorted(SAVED - {"format"}):
        own = stack.enter_context(open_binary(path, label))
        parts[key] = StoredVector(*open_member(own, key, label, stack), label)
    return parts


def _small(file: IO[bytes], member: str, label: str) -> object:
    """The value of a member that holds a single value."""
    with ExitStack() as stack:
        stream, stored = open_member(file, member, label, stack)
        if stored.shape != () or stored.dtype.itemsize > 64:
            raise InputError(f"{label} is damaged: its member {member!r} is not a single value")
        return stored.read(stream, 0, 1, label)[0].item()


def open_member(
    file: IO[bytes], member: str | None, label: str, stack: ExitStack
) -> tuple[IO[bytes], StoredArray]:
    """A seekable stream that holds the array, and the position of the array in it.

    A stored member is read in place. A deflated one is unpacked while it is read, and again from
    its start when reading goes back. In Fortran order every block would need all of it, so it is
    then unpacked beforehand, to disk if it is large. `stack` receives what has to be closed.
    """
    size = size_of(file)
    with _explained(label, size):
        archive = stack.enter_context(ZipFile(file))
        arrays = _arrays(archive)
        info = arrays[choose(arrays, member, label)]
        if info.flag_bits & _ENCRYPTED or info.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
            raise InputError(
                f"{label}: the member {info.filename!r} is encrypted or packed in a way that "
                "NumPy does not write; re-save it with np.savez or np.savez_compressed"
            )
        _check_declared(info, size, label)
        stream = stack.enter_context(archive.open(info))
        stored = read_header(stream, info.file_size, label)
        if info.compress_type == ZIP_STORED:
            stored = replace(stored, offset=stored.offset + _start_of(info, file))
            stored.check_fits(size, label)
            return file, stored
        if not stored.fortran:
            return stream, stored
        what = f"the member {info.filename!r}"
        memory.check_unpacked(info.file_size, info.compress_size, what, label)
        return _unpacked(stream, info.file_size, stack), stored


def array_names(path: Path, label: str) -> list[str]:
    """The names of all arrays in a .npz file, in the order of the file."""
    with ExitStack() as stack:
        file = stack.enter_context(open_binary(path, label))
        stack.enter_context(_explained(label, size_of(file)))
        return list(_arrays(stack.enter_context(ZipFile(file))))


def _arrays(archive: ZipFile) -> dict[str, ZipInfo]:
    return {
        info.filename.removesuffix(".npy"): info
        for info in archive.infolist()
        if info.filename.endswith(".npy")
    }


@contextmanager
def _explained(label: str, size: int) -> Iterator[None]:
    """Turn the errors that a damaged archive raises into one sentence."""
    try:
        yield
    except InputError:
        raise
    except (*UNPACKING_ERRORS, *_DIRECTORY_ERRORS) as error:
        raise InputError(
            f"{label} is not a readable .npz archive: {str(error) or 'it ends early'}; the file is "
            f"damaged, truncated ({size} bytes were found) or of another kind"
        ) from error


def _check_declared(info: ZipInfo, size: int, label: str) -> None:
    """Refuse a member whose sizes cannot be true, before anything is unpacked."""
    packed, unpacked = info.compress_size, info.file_size
    if info.compress_type == ZIP_STORED:
        impossible = unpacked != packed  # its end is checked later, with its shape
    else:
        impossible = packed > size or unpacked > _MOST_DEFLATED * packed
    if impossible:
        raise InputError(
            f"{label} is truncated, damaged or malicious: the member {info.filename!r} declares "
            f"that its {packed} bytes unpack to {unpacked}, in a file of {size} bytes"
        )


def _unpacked(stream: IO[bytes], size: int, stack: ExitStack) -> IO[bytes]:
    """Unpack a whole member, in memory if it is small and otherwise in a temporary file."""
    stream.seek(0)
    if size <= memory.IN_MEMORY:
        return io.BytesIO(stream.read())
    folder = Path(tempfile.gettempdir())
    with writing_temporary(folder):
        file = stack.enter_context(tempfile.TemporaryFile(dir=folder))  # noqa: SIM115
    while piece := stream.read(memory.PIECE_BYTES):
        with writing_temporary(folder):
            file.write(piece)
    with writing_temporary(folder):
        file.flush()
    return file


def _start_of(info: ZipInfo, file: IO[bytes]) -> int:
    file.seek(info.header_offset)
    name, extra = _LOCAL_HEADER.unpack(file.read(_LOCAL_HEADER.size))
    return info.header_offset + _LOCAL_HEADER.size + int(name) + int(extra)
