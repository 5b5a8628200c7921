"""The folder that an extraction writes: .npy files, and a manifest that is written last."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from numpy.typing import DTypeLike

from identikit._version import __version__
from identikit.errors import InputError
from identikit.sources import NpyWriter

MANIFEST = "manifest.json"


class Filling:
    """An output folder while it is being written."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.manifest: dict[str, Any] = {}
        self._files: dict[str, NpyWriter] = {}

    def rows(self, name: str, width: int | None, dtype: DTypeLike) -> NpyWriter:
        """The .npy file of this name, which is created on first use."""
        if name not in self._files:
            self._files[name] = NpyWriter(self.path / name, width, dtype)
        return self._files[name]

    def abandon(self) -> None:
        for file in self._files.values():
            file.abandon()

    def finish(self) -> None:
        """Close every file and write the manifest, which lists the size of each file."""
        for file in self._files.values():
            file.close()
        files = {path.name: path.stat().st_size for path in sorted(self.path.iterdir())}
        document = {"identikit": __version__, **self.manifest, "files": files}
        (self.path / MANIFEST).write_text(
            json.dumps(document, indent=2, allow_nan=False) + "\n", encoding="utf-8"
        )


@contextmanager
def filling(folder: str | os.PathLike[str], *, overwrite: bool = False) -> Iterator[Filling]:
    """Yield a temporary folder beside `folder`, and move it into place if the block succeeds.

    A block that raises leaves nothing behind. A process that is killed leaves `<folder>.partial-…`,
    which has no manifest, so `read_manifest` refuses it.
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
    """The absolute path of a folder that may be written; an error explains why it may not.

    The folder must not exist, or be empty; with `overwrite` it may also hold an earlier extraction,
    but nothing else.
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
            f"{folder} exists but is not a finished extraction, so it is not overwritten; remove "
            "it yourself or choose another folder"
        ) from error
    if others:
        raise InputError(
            f"{folder} also holds {min(others)!r}, which no extraction wrote, so it is not "
            "overwritten; move that file or choose another folder"
        )
    return target


def _move(made: Path, target: Path) -> None:
    """Move a finished folder into place, and only then delete what was there before."""
    if not target.exists():
        made.rename(target)
        return
    old = Path(tempfile.mkdtemp(prefix=f"{target.name[:64]}.old-", dir=target.parent))
    target.rename(old / target.name)
    made.rename(target)
    shutil.rmtree(old)


def read_manifest(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """Read the manifest of an extraction and check that its files are there and complete.

    Parameters
    ----------
    folder : path
        A folder written by `text`, `images`, `module` or `identikit extract`.
    """
    path = Path(folder)
    if not path.is_dir():
        raise InputError(f"{path}: there is no such folder; check the path")
    if not (path / MANIFEST).is_file():
        raise InputError(
            f"{path} has no {MANIFEST}: its extraction was interrupted, or it is not an "
            "extraction; extract again"
        )
    try:
        manifest = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"{path / MANIFEST} is damaged: {error}; extract again") from error
    if not isinstance(manifest, dict) or not isinstance(manifest.get("files"), Mapping):
        raise InputError(
            f"{path / MANIFEST} is not the manifest of an extraction: it lists no files"
        )
    for name, size in manifest["files"].items():
        file = path / name
        found = file.stat().st_size if file.is_file() else None
        if found != size:
            state = "is missing" if found is None else f"has {found} bytes instead of {size}"
            raise InputError(f"{file} {state}; copy the folder again or extract again")
    return manifest
