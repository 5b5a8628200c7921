"""No link in a folder is followed to somewhere else."""

from __future__ import annotations

from pathlib import Path

from identikit.errors import InputError


def check_inside(path: Path, folder: Path, label: str) -> None:
    """Refuse a symbolic link that leads out of the folder it was found in.

    Parameters
    ----------
    path : Path
        What was found.
    folder : Path
        Where.
    label : str
        What the error shall call the folder.
    """
    if path.is_symlink() and not path.resolve().is_relative_to(folder.resolve()):
        raise InputError(
            f"{label}: {path.name!r} is a link to {path.resolve()}, out of the folder, and is not "
            "followed; copy the file in its place, or name it itself"
        )
