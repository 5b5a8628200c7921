"""Writing files atomically: a temporary file beside the target is moved into place."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from identikit.errors import InputError


@contextmanager
def replacing(path: str | os.PathLike[str], *, overwrite: bool = True) -> Iterator[Path]:
    """Yield a temporary path beside `path`, and move it into place if the block succeeds.

    If the block raises, or the process is killed, an old file stays unchanged.

    Parameters
    ----------
    path : path
        Where to write the file.
    overwrite : bool
        If false, raise an error if the file exists already, and leave it unchanged.
    """
    target = Path(path)
    if target.is_dir():
        raise InputError(f"{target} is a directory; give the name of a file to write")
    if not target.parent.is_dir():
        raise InputError(f"cannot write {target}: the directory {target.parent} does not exist")
    if target.exists() and not overwrite:
        raise InputError(
            f"{target} exists already; choose another name or overwrite it with --force"
        )
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.name[:64]}.", dir=target.parent)
    except OSError as error:
        raise InputError(f"cannot write {target}: {error.strerror}") from error
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)
        temporary.replace(target)
    except OSError as error:
        raise InputError(
            f"cannot write {target}: {error.strerror or error}; what was there before is untouched"
        ) from error
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a text file atomically."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
