"""The folder that an extraction writes: .npy files, and a manifest that comes last."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from identikit._version import __version__
from identikit.errors import InputError
from identikit.sources import NpyWriter

MANIFEST = "manifest.json"


class Filling:
    """A folder in the making."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.manifest: dict[str, Any] = {}
        self._files: dict[str, NpyWriter] = {}

    def rows(self, name: str, width: int | None, dtype: DTypeLike) -> NpyWriter:
        """The file of that name; made when it is first asked for."""
        if name not in self._files:
            self._files[name] = NpyWriter(self.path / name, width, dtype)
        return self._files[name]

    def save(self, name: str, array: NDArray[Any]) -> None:
        """Write a whole array."""
        np.save(self.path / name, array, allow_pickle=False)

    def close(self) -> None:
        """Close every file."""
        for file in self._files.values():
            file.close()

    def abandon(self) -> None:
        """Close every file, whatever becomes of it."""
        for file in self._files.values():
            file.abandon()

    def finish(self) -> None:
        """Close every file and write the manifest, with what each file weighs."""
        self.close()
        files = {path.name: path.stat().st_size for path in sorted(self.path.iterdir())}
        document = {"identikit": __version__, **self.manifest, "files": files}
        (self.path / MANIFEST).write_text(
            json.dumps(document, indent=2, allow_nan=False) + "\n", encoding="utf-8"
        )


@contextmanager
def filling(folder: str | os.PathLike[str], *, overwrite: bool = False) -> Iterator[Filling]:
    """Give a folder beside `folder` to fill; move it into place if the block ends well.

    A block that raises leaves nothing; a process that is killed leaves `<folder>.partial-…`, which
    has no manifest and is therefore refused by whoever reads it.

    Parameters
    ----------
    folder : path
        Where the result shall be.
    overwrite : bool
        Replace a folder that an earlier extraction wrote.
    """
    target = check_folder(folder, overwrite=overwrite)
    try:
        made = tempfile.mkdtemp(prefix=f"{target.name[:64]}.partial-", dir=target.parent)
    except OSError as error:
        raise InputError(f"cannot write {target}: {error.strerror}") from error
    out = Filling(Path(made))
    try:
        yield out
        out.finish()
        umask = os.umask(0)
        os.umask(umask)
        out.path.chmod(0o777 & ~umask)
        _move(out.path, target)
    except OSError as error:
        raise InputError(
            f"cannot write {target}: {error.strerror or error}; what was there before is untouched"
        ) from error
    finally:
        out.abandon()
        shutil.rmtree(out.path, ignore_errors=True)


def check_folder(folder: str | os.PathLike[str], *, overwrite: bool) -> Path:
    """The absolute path of a folder that may be written, or the reason why it may not.

    Parameters
    ----------
    folder : path
        A folder that does not exist or is empty; or that holds an extraction and nothing else.
    overwrite : bool
        Whether the latter may be replaced.
    """
    target = Path(folder).resolve()
    if not target.parent.is_dir():
        raise InputError(f"cannot write {folder}: there is no directory {target.parent}")
    if not target.exists():
        return target
    if not target.is_dir():
        raise InputError(f"{folder} is a file; give the name of a folder to write")
    there = {path.name for path in target.iterdir()}
    if not there:
        return target
    if not overwrite:
        raise InputError(
            f"{folder} exists already; choose another folder or overwrite it with --force"
        )
    # --force is for an earlier extraction, never for a folder that holds anything else.
    try:
        others = there - set(read_manifest(target)["files"]) - {MANIFEST}
    except InputError as error:
        raise InputError(
            f"{folder} exists and is no finished extraction, so it is not overwritten; remove it "
            "yourself or choose another folder"
        ) from error
    if others:
        raise InputError(
            f"{folder} also holds {min(others)!r}, which no extraction wrote, so it is not "
            "overwritten; move that file or choose another folder"
        )
    return target


def _move(made: Path, target: Path) -> None:
    """Put a finished folder in its place; whatever was there goes only after that."""
    if not target.exists():
        made.rename(target)
        return
    old = Path(tempfile.mkdtemp(prefix=f"{target.name[:64]}.old-", dir=target.parent))
    target.rename(old / target.name)
    made.rename(target)
    shutil.rmtree(old)


def read_manifest(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """The manifest of an extracted folder, whose files are all there and of the right size.

    Parameters
    ----------
    folder : path
        What `text`, `images`, `module` or `identikit extract` wrote.
    """
    path = Path(folder)
    if not path.is_dir():
        raise InputError(f"{path}: there is no such folder; check the path")
    if not (path / MANIFEST).is_file():
        raise InputError(
            f"{path} has no {MANIFEST}: its extraction was cut short, or it is something else; "
            "extract again"
        )
    try:
        manifest = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"{path / MANIFEST} is damaged: {error}; extract again") from error
    if not isinstance(manifest, dict) or not isinstance(manifest.get("files"), Mapping):
        raise InputError(f"{path / MANIFEST} is no manifest of an extraction: it lists no files")
    for name, size in manifest["files"].items():
        file = path / name
        found = file.stat().st_size if file.is_file() else None
        if found != size:
            state = "is missing" if found is None else f"has {found} bytes instead of {size}"
            raise InputError(f"{file} {state}; copy the folder again or extract again")
    return manifest
