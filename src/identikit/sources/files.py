"""What every file reader needs: open files safely, and explain in one sentence what is wrong."""

from __future__ import annotations

import os
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO
from zipfile import BadZipFile

from identikit.errors import InputError

#: The errors that a damaged or shrinking archive raises while it is unpacked.
UNPACKING_ERRORS = (BadZipFile, EOFError, zlib.error)
#: The errors that h5py and zarr raise about damaged files.
FORMAT_ERRORS = (OSError, RuntimeError, ValueError, KeyError, TypeError)


def split_member(view: str | os.PathLike[str]) -> tuple[Path, str | None]:
    """Split `path::name` into the path and the name, which is None if there is none.

    If the whole text is an existing file, it is the path; otherwise the shortest path that is one.
    If no file exists, the same is tried with folders.
    """
    text = os.fsdecode(view)
    pieces = text.split("::")
    counts = (len(pieces), *range(1, len(pieces)))
    # Not Path.is_file, which raises for a path that is too long or in an unreadable folder.
    tries = ((there, count) for there in (os.path.isfile, os.path.isdir) for count in counts)
    count = next((n for there, n in tries if there("::".join(pieces[:n]))), 1)
    return Path("::".join(pieces[:count])), "::".join(pieces[count:]) if pieces[count:] else None


def file_label(name: str, path: Path) -> str:
    """What error messages call a view that is read from a file."""
    return f"view {name!r} ({path})"


def open_binary(path: Path, label: str) -> IO[bytes]:
    """Open a regular file for unbuffered reading, or explain why that is not possible."""
    try:
        mode = path.stat().st_mode
        if stat.S_ISREG(mode):
            return path.open("rb", buffering=0)
    except FileNotFoundError as error:
        raise InputError(f"{label}: there is no such file; check the path") from error
    except PermissionError as error:
        raise InputError(f"{label}: permission denied; make the file readable") from error
    except (OSError, ValueError) as error:
        raise InputError(f"{label} cannot be opened: {error}") from error
    kind = "a directory" if stat.S_ISDIR(mode) else "a pipe or a device"
    raise InputError(f"{label} is {kind}; expected a regular file")


def size_of(file: IO[bytes]) -> int:
    """The number of bytes in an open file."""
    return os.fstat(file.fileno()).st_size


def check_inside(path: Path, folder: Path, label: str) -> None:
    """Refuse a symbolic link that leads out of the folder it was found in."""
    if path.is_symlink() and not path.resolve().is_relative_to(folder.resolve()):
        raise InputError(
            f"{label}: {path.name!r} is a link to {path.resolve()}, outside of the folder, and is "
            "not followed; copy the file into the folder, or give its own path"
        )


@contextmanager
def explained(label: str, *errors: type[BaseException]) -> Iterator[None]:
    """Turn the errors that a library raises about a file into one sentence."""
    try:
        yield
    except InputError:
        raise
    except errors as error:
        words = " ".join(str(error).split()) or type(error).__name__
        raise InputError(
            f"{label} cannot be read: {words[:500]}; it is damaged, truncated or of another kind"
        ) from error


@contextmanager
def writing_temporary(folder: Path) -> Iterator[None]:
    """Explain what to do if a temporary file cannot be written."""
    try:
        yield
    except OSError as error:
        raise InputError(
            f"cannot write temporary files in {folder}: {error.strerror or error}; set TMPDIR to "
            "a folder with enough space for the views whose rows have to be reordered"
        ) from error
