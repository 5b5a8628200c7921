"""PyTorch's .pt and .pth files: a tensor, or a dictionary with tensors in it.

They contain pickles, so PyTorch loads them with `weights_only`, which runs no code, and maps the
file into memory instead of reading it. Mapped pages count as the process's own memory, so the map
is renewed from time to time.
"""

from __future__ import annotations

import re
import struct
from pathlib import Path
from typing import Any
from zipfile import ZIP_STORED, BadZipFile, ZipFile

from numpy.typing import NDArray

from identikit.errors import InputError, require
from identikit.sources.checks import choose
from identikit.sources.device import TensorSource
from identikit.sources.files import file_label, open_binary
from identikit.sources.registry import register

#: Bytes after which the map is renewed.
_MAPPED_BYTES = 64 * 2**20
# The errors that a damaged archive raises.
_ARCHIVE_ERRORS = (
    BadZipFile,
    EOFError,
    NotImplementedError,
    OSError,
    RuntimeError,
    ValueError,
    struct.error,
)
# Members of the archive that hold the data of tensors.
_NUMBERS = re.compile(r"/data/\d+$")


@register(".pt", ".pth")
def open_pt(path: Path, member: str | None, name: str) -> MappedTensor:
    return MappedTensor(path, member, name)


class MappedTensor(TensorSource):
    """Rows of a tensor in a file."""

    def __init__(self, path: Path, member: str | None, name: str) -> None:
        self._path, self._member, self._used = path, member, 0
        self._label = file_label(name, path)
        _check_archive(path, self._label)
        self._stamp = self._stamped()
        super().__init__(self._load(), name, self._label)
        self.origin = None  # not the map, which `close` releases

    def read(self, start: int, stop: int) -> NDArray[Any]:
        # Reading the map of a file that has become shorter would kill the process.
        if self._stamped() != self._stamp:
            raise InputError(f"{self._label} changed while it was read; let its writer finish")
        if self._used > _MAPPED_BYTES:
            self._array, self._used = self._load(), 0
        block = super().read(start, stop).copy()
        self._used += block.nbytes
        return block

    def close(self) -> None:
        self._array, self._used = None, _MAPPED_BYTES + 1

    def _stamped(self) -> tuple[int, int]:
        try:
            found = self._path.stat()
        except OSError as error:
            raise InputError(f"{self._label} disappeared while it was read: {error}") from error
        return found.st_size, found.st_mtime_ns

    def _load(self) -> Any:
        return load_tensor(self._path, self._member, self._label)


def load_tensor(path: Path, member: str | None, label: str) -> Any:
    """The chosen tensor, mapped from the file."""
    torch = require("torch", "torch", "reading .pt files")
    try:
        found = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except Exception as error:  # a file may make the unpickler raise anything
        raise InputError(
            f"{label} cannot be read as plain tensors, and pickled files with anything else are "
            "never loaded, because that can run code; save it with torch.save(tensor, path)"
            f" ({' '.join(str(error).split())[:200]})"
        ) from error
    if isinstance(found, torch.Tensor):
        if member is not None:
            raise InputError(f"{label} holds one tensor without a name; leave out '::{member}'")
        return found
    if not isinstance(found, dict):
        raise InputError(
            f"{label} holds a {type(found).__name__}; expected a tensor or a dictionary of tensors"
        )
    tensors = {str(key): value for key, value in found.items() if isinstance(value, torch.Tensor)}
    return tensors[choose(tensors, member, label)]


def _check_archive(path: Path, label: str) -> None:
    """Refuse what cannot be mapped: files from before PyTorch 1.6, and compressed members.

    Damage outside of the tensors' data is refused too, since PyTorch does not verify checksums.
    """
    with open_binary(path, label) as file:
        try:
            with ZipFile(file) as archive:
                members = archive.infolist()
                packed = [one.filename for one in members if one.compress_type != ZIP_STORED]
                for member in () if packed else members:
                    with archive.open(member) as stream:
                        while not _NUMBERS.search(member.filename) and stream.read(2**20):
                            pass
        except _ARCHIVE_ERRORS as error:
            raise InputError(
                f"{label} is damaged, truncated, or older than PyTorch 1.6, whose files are bare "
                f"pickles and are never loaded ({error}); save it again with torch.save or as "
                ".safetensors"
            ) from error
    if packed:
        raise InputError(
            f"{label}: the member {packed[0]!r} is compressed, which PyTorch never does"
        )
